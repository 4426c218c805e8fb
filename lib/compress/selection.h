/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The k elements of x[n] of largest magnitude, ties to the lower index; index[k]
 * ascending, value[k]. A NaN counts as larger than everything. 1 <= k <= n. `scratch`: n
 * uint32. */
void wefti_topk(int64_t n, const float *x, int64_t k, int32_t *index, float *value,
                uint32_t *scratch);
