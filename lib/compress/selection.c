/* SPDX-License-Identifier: MIT */
/* Selection by magnitude. The bits of |x| order like the numbers, so the k-th largest is
 * found by quickselect on integers. One scan in index order then takes all elements above
 * it, and the first few of those that equal it. For small k a sorted list of the k best
 * is faster. */
#include "compress/selection.h"

#include <string.h>

enum { SMALL_K = 16 };

static uint32_t magnitude_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The k-th largest of keys, found by keeping the k best in order. */
static uint32_t threshold_small(int64_t n, const uint32_t *keys, int64_t k) {
    uint32_t best[SMALL_K] = {0};
    for (int64_t i = 0; i < k; i++) {
        int64_t j = i;
        for (; j > 0 && best[j - 1] < keys[i]; j--) best[j] = best[j - 1];
        best[j] = keys[i];
    }
    for (int64_t i = k; i < n; i++) {
        if (keys[i] <= best[k - 1]) continue;
        int64_t j = k - 1;
        for (; j > 0 && best[j - 1] < keys[i]; j--) best[j] = best[j - 1];
        best[j] = keys[i];
    }
    return best[k - 1];
}

static uint32_t median_of_three(uint32_t a, uint32_t b, uint32_t c) {
    if (a > b) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    return c < a ? a : c > b ? b : c;
}

/* The k-th largest by quickselect; reorders keys. Three-way partition, so that many equal
 * keys cost nothing. */
static uint32_t threshold_select(int64_t n, uint32_t *keys, int64_t k) {
    int64_t low = 0, high = n; /* the answer is among keys[low, high) */
    for (;;) {
        uint32_t pivot = median_of_three(keys[low], keys[(low + high) / 2],
                                         keys[high - 1]);
        int64_t above = low, i = low, below = high;
        while (i < below) {
            uint32_t key = keys[i];
            if (key > pivot) {
                keys[i++] = keys[above];
                keys[above++] = key;
            } else if (key < pivot) {
                keys[i] = keys[--below];
                keys[below] = key;
            } else {
                i++;
            }
        }
        if (k <= above)
            high = above;
        else if (k <= below)
            return pivot;
        else
            low = below;
    }
}

static uint32_t threshold_of(int64_t n, uint32_t *keys, int64_t k) {
    return k <= SMALL_K ? threshold_small(n, keys, k) : threshold_select(n, keys, k);
}

void wefti_topk(int64_t n, const float *x, int64_t k, int32_t *index, float *value,
                uint32_t *scratch) {
    for (int64_t i = 0; i < n; i++) scratch[i] = magnitude_bits(x[i]);
    uint32_t threshold = threshold_of(n, scratch, k);
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++) above += magnitude_bits(x[i]) > threshold;
    int64_t equal_left = k - above, taken = 0;
    for (int64_t i = 0; i < n && taken < k; i++) {
        uint32_t key = magnitude_bits(x[i]);
        if (key < threshold || (key == threshold && equal_left-- <= 0)) continue;
        index[taken] = (int32_t)i;
        value[taken++] = x[i];
    }
}
