/* SPDX-License-Identifier: MIT */
/* The context of a rank: its error message, its log, and the only malloc of the library.
 *
 *     block    | header, 64 bytes: n_bytes | n_bytes, zeroed | up to a whole cache line or page |
 *
 * Each block stores its size, so that the bytes held can be counted; what a block will take
 * is known in advance (wefti_alloc_cost). Large blocks begin on a huge page. The message of
 * the first failure is kept until it is cleared. Tests can make the k-th allocation fail. */
#define _GNU_SOURCE
#include <weft/ctx.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"

enum {
    HEADER_BYTES = 64,
    LARGE_BYTES = 4 << 20,
    HUGE_PAGE_BYTES = 2 << 20,
    SENTENCE_BYTES = 1024
};

struct weft_ctx {
    pthread_mutex_t lock; /* guards message, sink; recursive: a sink may fail or log */
    char message[SENTENCE_BYTES];
    weft_sink sink;
    void *sink_user;
    atomic_llong allocations;
    atomic_llong bytes_held;
    atomic_llong fail_in; /* allocations until a test's simulated failure; < 0: none */
    atomic_bool stopped;  /* weft_ctx_stop */
    bool (*stop)(void *); /* or NULL (stop.h) */
    void *stop_user;
    unsigned warned; /* of wefti_warning; guarded by lock */
};

const char *weft_status_name(weft_status status) {
    static const char *const names[] = {"ok",      "argument", "config", "file",
                                        "format",  "memory",   "wire",   "peer",
                                        "numeric", "internal"};
    if ((unsigned)status >= sizeof names / sizeof names[0]) return "unknown";
    return names[status];
}

static int init_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t recursive;
    int error = pthread_mutexattr_init(&recursive);
    if (error) return error;
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    error = pthread_mutex_init(lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return error;
}

weft_status weft_ctx_create(weft_ctx **out) {
    weft_ctx *ctx = calloc(1, sizeof *ctx);
    *out = ctx;
    if (!ctx) return WEFT_ERR_MEMORY;
    if (init_lock(&ctx->lock) != 0) {
        free(ctx);
        *out = NULL;
        return WEFT_ERR_MEMORY;
    }
    atomic_store(&ctx->fail_in, -1);
    return WEFT_OK;
}

void weft_ctx_destroy(weft_ctx *ctx) {
    if (!ctx) return;
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

void weft_ctx_set_sink(weft_ctx *ctx, weft_sink sink, void *user) {
    pthread_mutex_lock(&ctx->lock);
    ctx->sink = sink;
    ctx->sink_user = user;
    pthread_mutex_unlock(&ctx->lock);
}

const char *weft_ctx_message(const weft_ctx *ctx) { return ctx->message; }

void weft_ctx_clear(weft_ctx *ctx) {
    pthread_mutex_lock(&ctx->lock);
    ctx->message[0] = '\0';
    pthread_mutex_unlock(&ctx->lock);
}

/* Messages contain names of files and texts from elsewhere, and terminals show them. So
 * all control characters but newline and tab are removed: none can move the cursor or set
 * colours. */
static void make_plain(char *text) {
    for (char *line = text; line; text = line) {
        line = strpbrk(text, "\n\t");
        char kept = line ? *line : '\0';
        if (line) *line = '\0';
        wefti_text_plain(text);
        if (line) *line++ = kept;
    }
}

/* Addresses are long, and what follows them is the reason: they are cut before the sentence is. */
static void write_plain(char out[SENTENCE_BYTES], const char *format, va_list args) {
    char all[8 * SENTENCE_BYTES];
    vsnprintf(all, sizeof all, format, args);
    make_plain(wefti_text_hide(all));
    snprintf(out, SENTENCE_BYTES, "%.*s", SENTENCE_BYTES - 1, all);
}

weft_status weft_ctx_fail(weft_ctx *ctx, weft_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&ctx->lock);
    if (!ctx->message[0]) write_plain(ctx->message, format, args);
    pthread_mutex_unlock(&ctx->lock);
    va_end(args);
    return status;
}

static void log_list(weft_ctx *ctx, weft_log_level level, const char *format,
                     va_list args) {
    char line[SENTENCE_BYTES];
    write_plain(line, format, args);
    pthread_mutex_lock(&ctx->lock);
    if (ctx->sink) ctx->sink(ctx->sink_user, level, line);
    pthread_mutex_unlock(&ctx->lock);
}

void weft_ctx_log(weft_ctx *ctx, weft_log_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_list(ctx, level, format, args);
    va_end(args);
}

void wefti_ctx_warn_once(weft_ctx *ctx, wefti_warning what, const char *format, ...) {
    pthread_mutex_lock(&ctx->lock);
    bool warned = ctx->warned & (unsigned)what;
    ctx->warned |= (unsigned)what;
    pthread_mutex_unlock(&ctx->lock);
    va_list args;
    va_start(args, format);
    if (!warned) log_list(ctx, WEFT_LOG_WARN, format, args);
    va_end(args);
}

void wefti_stop_watch(weft_ctx *ctx, bool (*asked)(void *user), void *user) {
    ctx->stop = asked;
    ctx->stop_user = user;
}

bool wefti_stop_asked(const weft_ctx *ctx) {
    return atomic_load(&ctx->stopped) || (ctx->stop && ctx->stop(ctx->stop_user));
}

void weft_ctx_stop(weft_ctx *ctx, bool stop) { atomic_store(&ctx->stopped, stop); }

int64_t weft_ctx_allocations(const weft_ctx *ctx) {
    return atomic_load(&ctx->allocations);
}

int64_t weft_ctx_bytes_held(const weft_ctx *ctx) { return atomic_load(&ctx->bytes_held); }

void weft_ctx_fail_allocation(weft_ctx *ctx, int64_t k) {
    atomic_store(&ctx->fail_in, k);
}

static bool failure_is_staged(weft_ctx *ctx) {
    if (atomic_load(&ctx->fail_in) < 0) return false;
    return atomic_fetch_sub(&ctx->fail_in, 1) == 0;
}

static size_t alignment_of(size_t n_bytes) {
    return n_bytes >= LARGE_BYTES ? HUGE_PAGE_BYTES : HEADER_BYTES;
}

size_t wefti_alloc_cost(size_t n_bytes) {
    size_t align = alignment_of(n_bytes);
    return (n_bytes + HEADER_BYTES + align - 1) / align * align;
}

int64_t wefti_alloc_n_cost(int64_t n, size_t item) {
    return (int64_t)wefti_alloc_cost((size_t)n * item);
}

weft_status wefti_alloc(weft_ctx *ctx, size_t n_bytes, const char *what, void *out) {
    char *block = NULL;
    *(void **)out = NULL;
    size_t align = alignment_of(n_bytes), total = n_bytes;
    bool fits = n_bytes <= SIZE_MAX - 2 * (size_t)HUGE_PAGE_BYTES;
    if (fits) total = wefti_alloc_cost(n_bytes);
    if (fits && !failure_is_staged(ctx)) block = aligned_alloc(align, total);
    if (!block)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not allocate %zu bytes for %s",
                             n_bytes, what);
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE_BYTES) madvise(block, total, MADV_HUGEPAGE);
#endif
    memset(block, 0, total);
    memcpy(block, &n_bytes, sizeof n_bytes);
    atomic_fetch_add(&ctx->allocations, 1);
    atomic_fetch_add(&ctx->bytes_held, (long long)n_bytes);
    *(void **)out = block + HEADER_BYTES;
    return WEFT_OK;
}

weft_status wefti_alloc_n(weft_ctx *ctx, int64_t n, size_t item, const char *what,
                          void *out) {
    *(void **)out = NULL;
    if (n < 0 || (item && (uint64_t)n > SIZE_MAX / item))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                             "could not allocate %lld items of %zu bytes for %s",
                             (long long)n, item, what);
    return wefti_alloc(ctx, (size_t)n * item, what, out);
}

weft_status wefti_grow(weft_ctx *ctx, void *block, int64_t old_n, int64_t new_n,
                       size_t item, const char *what) {
    void *bigger;
    WEFT_TRY(wefti_alloc_n(ctx, new_n, item, what, &bigger));
    void *old = *(void **)block;
    int64_t kept = old_n < new_n ? old_n : new_n;
    if (old && kept > 0) memcpy(bigger, old, (size_t)kept * item);
    wefti_free(ctx, old);
    *(void **)block = bigger;
    return WEFT_OK;
}

weft_status wefti_reserve(weft_ctx *ctx, void *block, int64_t *room, int64_t n,
                          int64_t more, size_t item, const char *what) {
    enum { LEAST = 16 };
    if (more <= *room - n) return WEFT_OK;
    int64_t wanted = 2 * *room > LEAST ? 2 * *room : LEAST;
    if (wanted < n + more) wanted = n + more;
    WEFT_TRY(wefti_grow(ctx, block, n, wanted, item, what));
    *room = wanted;
    return WEFT_OK;
}

weft_status wefti_strdup(weft_ctx *ctx, const char *text, char **out) {
    size_t n = strlen(text) + 1;
    WEFT_TRY(wefti_alloc(ctx, n, "a string", out));
    memcpy(*out, text, n);
    return WEFT_OK;
}

void weft_free(weft_ctx *ctx, void *block) { wefti_free(ctx, block); }

void wefti_free(weft_ctx *ctx, void *block) {
    if (!block) return;
    char *start = (char *)block - HEADER_BYTES;
    size_t n_bytes;
    memcpy(&n_bytes, start, sizeof n_bytes);
    atomic_fetch_sub(&ctx->bytes_held, (long long)n_bytes);
    free(start);
}

void wefti_free_each(weft_ctx *ctx, size_t n, void *const *blocks) {
    for (size_t i = 0; i < n; i++) wefti_free(ctx, blocks[i]);
}
