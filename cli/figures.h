/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* Numbers in a table: three digits and a unit. Each writes into out, which it returns. */

const char *count_text(double n, char *out, size_t out_size);            /* "12.3k" */
const char *size_text(double n_bytes, char *out, size_t out_size);       /* "4.56 MB" */
const char *time_text(double seconds, char *out, size_t out_size);       /* "12.3 ms" */
const char *rate_text(double bandwidth_Bps, char *out, size_t out_size); /* "1 Gbit/s" */

/* A number of JSON, which knows no infinity: null for what is not finite. */
const char *real_text(double x, char *out, size_t out_size);
