/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether a tokenizer of that name is trained for the run, or read from a file. */
bool wefti_tokenizer_is_trained(const char *name);
bool wefti_tokenizer_is_file(const char *name);

/* Whether the run's data are ids without a text. */
bool wefti_tokenizer_names_ids(const char *name);

/* Ids as far as the name says; `vocab`: those of one that is trained or read. */
int64_t wefti_tokenizer_ids(const char *name, int64_t vocab);

/* The keys of its section that it alone reads; NULL: a file. */
const char *const *wefti_tokenizer_keys(const char *name);
