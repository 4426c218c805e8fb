/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

#include "record/tfevents.h"

/* Writes the settings of a run into its TensorBoard events: the keys that differ from
 * their default as hyperparameters, so that a table of several runs shows what was
 * chosen, and the whole configuration as a text, "config". */
weft_status wefti_settings_write(weft_ctx *ctx, const weft_config *config,
                                 wefti_tfevents *events) WEFT_CHECKED;
