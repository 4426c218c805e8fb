/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/model.h>

/* The smallest models that are no decoder, as several tests take them. */

/* 6 source positions in a row. */
static const weft_model_config t5 = {.struct_size = sizeof t5,
                                     .kind = "t5",
                                     .vocab = 11,
                                     .context = 16,
                                     .layers = 2,
                                     .decoder_layers = 2,
                                     .source = 6,
                                     .width = 16,
                                     .heads = 2,
                                     .head_dim = 5,
                                     .ffn = 12,
                                     .buckets = 8,
                                     .distance = 9,
                                     .init_std = 1};

static const weft_model_config vit = {.struct_size = sizeof vit,
                                      .kind = "vit",
                                      .vocab = 5,
                                      .context = 1,
                                      .layers = 2,
                                      .width = 12,
                                      .heads = 3,
                                      .ffn = 20,
                                      .image = 6,
                                      .patch = 2,
                                      .channels = 2,
                                      .norm_eps = 1e-6,
                                      .init_std = 0.3};
