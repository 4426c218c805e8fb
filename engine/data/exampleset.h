/* SPDX-License-Identifier: MIT */
#pragma once

#include "data/windows.h"

/* A dataset whose rows are examples: what dataset.c asks where d->train_examples is there.
 * Epoch e visits the training examples in the order of a permutation of (seed, e). */
weft_status wefti_exampleset_open(weft_ctx *ctx, weft_dataset *d,
                                  const weft_dataset_config *config,
                                  const weft_tokenizer *tokenizer) WEFT_CHECKED;
void wefti_exampleset_close(weft_ctx *ctx, weft_dataset *d);

void wefti_exampleset_train_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                int32_t *targets);
void wefti_exampleset_validation_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                     int32_t *targets);
int64_t wefti_exampleset_train_targets(const weft_dataset *d, int64_t row);
int64_t wefti_exampleset_validation_targets(const weft_dataset *d, int64_t row);

/* Of all rows, of training and validation. */
uint64_t wefti_exampleset_hash(const weft_dataset *d);

/* Writes a line for a person. */
void wefti_exampleset_describe(const weft_dataset *d, char *out, size_t size);
