/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "planner/advise.h"

/* " on 4 nodes x 2 ranks"; where machines have more or fewer, " on 2 nodes with 6 ranks". */
void wefti_put_mesh(const wefti_adviser *a, wefti_buffer *s, const weft_candidate *c);

/* What is said of machines that differ (answer_machines.c). */
void wefti_put_machines(const wefti_adviser *a, wefti_buffer *s);

/* "0.36 to 1.9"; beside 1 two digits behind the point, because that decides: "1.04 to 1.9". */
const char *wefti_span_text(double low, double high, char *out, size_t size);

/* "34.2", "14850": three digits, or all before the point. */
const char *wefti_amount_text(double x, char *out, size_t out_size);

/* "1.9 times faster than one node alone", "6.1 times slower ...": writes to out and returns it. */
const char *wefti_factor_text(double speedup, char *out, size_t size);

/* "before one, two and three."; nothing if there are none. */
void wefti_put_list(weft_ctx *ctx, wefti_buffer *s, const char *before,
                    const char *const words[10], int n);

/* Whether a candidate has several sites. */
bool wefti_advice_has_sites(const weft_advice *a);
