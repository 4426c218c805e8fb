/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* Format numbers for a table: three digits and a unit. Each function writes to out and
 * returns it. */

const char *count_text(double n, char *out, size_t out_size);            /* "12.3k" */
const char *size_text(double n_bytes, char *out, size_t out_size);       /* "4.56 MB" */
const char *time_text(double seconds, char *out, size_t out_size);       /* "12.3 ms" */
const char *rate_text(double bandwidth_Bps, char *out, size_t out_size); /* "1 Gbit/s" */

/* Formats a number for JSON, which has no infinity: a number that is not finite becomes null. */
const char *real_text(double x, char *out, size_t out_size);
