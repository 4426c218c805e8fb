/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Allocates n_bytes of zeroed memory aligned to 64 bytes (on huge pages when large).
 * n_bytes = 0 gives a valid pointer. On failure *out is NULL, and the context's message
 * says how much was requested for `what`. */
weft_status wefti_alloc(weft_ctx *ctx, size_t n_bytes, const char *what,
                        void *out) WEFT_CHECKED;

/* Memory that a block of n_bytes actually takes: with its header, rounded to whole pages. */
size_t wefti_alloc_cost(size_t n_bytes);

/* The same for the n items of wefti_alloc_n. */
int64_t wefti_alloc_n_cost(int64_t n, size_t item);

/* Allocates n items of `item` bytes; refuses negative n and products over SIZE_MAX. */
weft_status wefti_alloc_n(weft_ctx *ctx, int64_t n, size_t item, const char *what,
                          void *out) WEFT_CHECKED;

/* Grows *block from old_n to new_n items (new items zeroed); on failure *block is unchanged. */
weft_status wefti_grow(weft_ctx *ctx, void *block, int64_t old_n, int64_t new_n,
                       size_t item, const char *what) WEFT_CHECKED;

/* Makes room for `more` items after the n present ones. *room is the capacity of *block
 * in items; it at least doubles if the block has to grow. */
weft_status wefti_reserve(weft_ctx *ctx, void *block, int64_t *room, int64_t n,
                          int64_t more, size_t item, const char *what) WEFT_CHECKED;

/* Copies a string. */
weft_status wefti_strdup(weft_ctx *ctx, const char *text, char **out) WEFT_CHECKED;

/* Frees a block of wefti_alloc; NULL is accepted. */
void wefti_free(weft_ctx *ctx, void *block);

/* Frees n blocks; WEFTI_FREE(ctx, a, b, ...) frees the listed ones. */
void wefti_free_each(weft_ctx *ctx, size_t n, void *const *blocks);
#define WEFTI_FREE(ctx, ...)                                                             \
    wefti_free_each(ctx, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *),               \
                    (void *[]){__VA_ARGS__})

/* Runs `expr`; on failure runs `undo` and returns the status of `expr` from the enclosing
 * function. So a constructor can clean up in one line. */
#define WEFTI_TRY_OR(expr, undo)                                                         \
    do {                                                                                 \
        weft_status wefti_try_status_ = (expr);                                          \
        if (wefti_try_status_ != WEFT_OK) {                                              \
            undo;                                                                        \
            return wefti_try_status_;                                                    \
        }                                                                                \
    } while (0)
