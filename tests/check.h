/* SPDX-License-Identifier: MIT */
/* What every test file includes: cmocka and a few helpers. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weft/ctx.h>

#include "base/rng.h"

/* A sanitizer makes everything some ten times slower: long runs are shorter there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

/* Fails with the context's sentence. */
#define assert_ok(ctx, expr)                                                             \
    do {                                                                                 \
        if ((expr) != WEFT_OK) fail_msg("%s: %s", #expr, weft_ctx_message(ctx));         \
    } while (0)

static inline void fill_normal(uint64_t seed, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)wefti_rng_normal(seed, WEFTI_STREAM_TEST, 0, (uint64_t)i);
}

#endif
