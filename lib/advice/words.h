/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "planner/advise.h"

/* " on 4 nodes x 2 ranks". */
void wefti_put_mesh(weft_ctx *ctx, wefti_buffer *s, const weft_candidate *c);

/* "batch.shares=15,1", of the nodes with rows; or, with `every`, optimizer steps of `each` rows in
 * so many steps. */
void wefti_put_each(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *a,
                    const int64_t *rows, int64_t each, int64_t every);

/* What a machine without room for what the others take does; gain: of the run by it, NAN: not
 * known; it is worth more than `nothing`. */
void wefti_put_tight(weft_ctx *ctx, wefti_buffer *s, const wefti_tight *t, double gain,
                     double nothing);

/* "34.2", "14850": three digits, or all before the point. */
const char *wefti_amount_text(double x, char *out, size_t out_size);

/* "1.9 times faster than one node alone", "6.1 times slower ...": writes to out and returns it. */
const char *wefti_factor_text(double speedup, char *out, size_t size);

/* "before one, two and three."; nothing if there are none. */
void wefti_put_list(weft_ctx *ctx, wefti_buffer *s, const char *before,
                    const char *const words[10], int n);

/* Whether a candidate has several sites. */
bool wefti_advice_has_sites(const weft_advice *a);
