/* SPDX-License-Identifier: MIT */
#pragma once

/* How a kernel divides its work among the threads of the rank: into contiguous slices,
 * one for each thread that is worth using. Their number depends only on the size and the
 * thread count. */

#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct span {
    int64_t begin, end;
} span;

static inline int team_max(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static inline int team_rank(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* The threads of the team that runs now. */
static inline int team_count(void) {
#ifdef _OPENMP
    return omp_get_num_threads();
#else
    return 1;
#endif
}

/* Threads for `work` cheap elements: waking a thread costs about as much as 16384 elements. */
static inline int team_size(int64_t work) {
    int64_t worth = 1 + work / 16384;
    int most = team_max();
    return worth < most ? (int)worth : most;
}

/* Slice i of t of 0..n, its bounds multiples of `unit` (or n); it may be empty. */
static inline span team_slice(int64_t n, int64_t unit, int i, int t) {
    int64_t units = (n + unit - 1) / unit;
    int64_t begin = units * i / t * unit, end = units * (i + 1) / t * unit;
    return (span){begin < n ? begin : n, end < n ? end : n};
}

/* What each thread of a team does that `work` elements are worth: with its slice s of 0..n, or
 * for each row n of its part of N rows. */
#define TEAM_SLICES(work, n_, unit, s, ...)                                              \
    do {                                                                                 \
        int t_ = team_size(work);                                                        \
        _Pragma("omp parallel for num_threads(t_) schedule(static) if (t_ > 1)") for (   \
            int i_ = 0; i_ < t_; i_++) {                                                 \
            span s = team_slice(n_, unit, i_, t_);                                       \
            __VA_ARGS__;                                                                 \
        }                                                                                \
    } while (0)
#define TEAM_ROWS(work, N, n, ...)                                                       \
    TEAM_SLICES(work, N, 1, rows_,                                                       \
                for (int64_t n = rows_.begin; n < rows_.end; n++) __VA_ARGS__)
