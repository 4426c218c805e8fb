/* SPDX-License-Identifier: MIT */
/* The buckets of relative positions of T5 (Raffel et al. 2020). */
#include "model/buckets.h"

#include <math.h>

int64_t wefti_bucket_of(int64_t ahead, bool both, int64_t buckets, int64_t most) {
    int64_t first = 0, far = ahead < 0 ? -ahead : ahead;
    if (both) {
        buckets /= 2;
        first = ahead > 0 ? buckets : 0;
    } else if (ahead > 0) {
        far = 0;
    }
    int64_t exact = buckets / 2;
    if (far < exact) return first + far;
    float share = logf((float)far / (float)exact) /
                  (float)log((double)most / (double)exact);
    int64_t bucket = exact + (int64_t)(share * (float)(buckets - exact));
    return first + (bucket < buckets ? bucket : buckets - 1);
}
