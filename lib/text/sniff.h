/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What the beginning of a file says that it is, for a person ("a PNG picture"), if that is
 * not text; NULL if it may be text. `n`: bytes at hand, the whole file if it is short. */
const char *wefti_sniff(const char *head, int64_t n);

/* The same for a file that is expected to be binary: only what has a known mark. */
const char *wefti_sniff_mark(const char *head, int64_t n);

/* The same for a file that is expected to be one text: whether it is JSON, in one piece or on
 * lines, which is read under another name. */
const char *wefti_sniff_json(const char *head, int64_t n);
