/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The bucket of a distance key - query: if both directions are seen, half of the buckets
 * are for keys after the query. Of the buckets of a direction, half are for a single
 * distance each; the others cover ranges that grow logarithmically up to `most`. The
 * arithmetic is in float, as in HF. */
int64_t wefti_bucket_of(int64_t ahead, bool both, int64_t buckets, int64_t most);
