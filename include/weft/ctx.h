/* SPDX-License-Identifier: MIT */
#ifndef WEFT_CTX_H
#define WEFT_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @def WEFT_INIT
 * A struct of these headers that a program allocates begins with `struct_size`, which the program
 * sets to its sizeof: {.struct_size = sizeof x, ...}. It is an error if it is 0, or if fields are
 * set that this library does not know. NULL for a struct of options means that all are 0.
 *
 *     WEFT_INIT(weft_train_result, result);
 *
 * declares such a struct, in C and in C++, with its size set and all else 0.
 *
 * What is not there is, in all that the library returns: a pointer NULL, an index, rank, step or
 * count -1 where 0 could be meant, a measured or predicted number NAN, a text "". In what a
 * program fills in, 0 or NULL is the default. */
#ifdef __cplusplus
#define WEFT_INIT(type, name)                                                            \
    type name = type();                                                                  \
    name.struct_size = sizeof(type)
#else
#define WEFT_INIT(type, name) type name = {.struct_size = sizeof(type)}
#endif

/** The state of one rank: its last error, its log sink, its allocation count. The library
 * has no mutable globals; all state belongs to a context. A context belongs to one rank,
 * and may be used by all threads of that rank. */
typedef struct weft_ctx weft_ctx;

/** What a line of the log is: something to know; a warning; for whom this process has waited for
 * long. The last is logged by each process, the others by the first where they concern all. */
typedef enum weft_log_level {
    WEFT_LOG_INFO,
    WEFT_LOG_WARN,
    WEFT_LOG_WAIT
} weft_log_level;

/** Receives one line of text without a newline. Called on the thread that logs. */
typedef void (*weft_sink)(void *user, weft_log_level level, const char *line);

/** Creates a context that logs nowhere. [out] *out owned by the caller; NULL on failure.
 */
WEFT_API weft_status weft_ctx_create(weft_ctx **out) WEFT_CHECKED;

/** Destroys a context; NULL is accepted. */
WEFT_API void weft_ctx_destroy(weft_ctx *ctx);

/** Sends log lines to `sink`; NULL silences. `user` is borrowed until the next call. */
WEFT_API void weft_ctx_set_sink(weft_ctx *ctx, weft_sink sink, void *user);

/** The first error sentence since the last weft_ctx_clear, "" if there is none. Borrowed
 * until the next failure or clear. */
WEFT_API const char *weft_ctx_message(const weft_ctx *ctx);

/** Forgets the error sentence. */
WEFT_API void weft_ctx_clear(weft_ctx *ctx);

/** Records an error sentence unless one is recorded already; returns `status`. The
 * sentence says what was found, what was expected, and where. */
WEFT_API weft_status weft_ctx_fail(weft_ctx *ctx, weft_status status, const char *format,
                                   ...) WEFT_PRINTF(3, 4);

/** Writes one line to the sink. */
WEFT_API void weft_ctx_log(weft_ctx *ctx, weft_log_level level, const char *format, ...)
    WEFT_PRINTF(3, 4);

/** Frees a block that a weft function gave to the caller (token ids, texts); NULL is
 * accepted. */
WEFT_API void weft_free(weft_ctx *ctx, void *block);

/** Tells the waits for other processes that were begun with this context (weft_mesh_join,
 * weft_mesh_enter) to end with an error, within a second, or (false) that they may go on. By any
 * thread. An exchange that waits is ended by weft_mesh_fail. */
WEFT_API void weft_ctx_stop(weft_ctx *ctx, bool stop);

/** Number of allocations made through this context so far, and bytes now held. */
WEFT_API int64_t weft_ctx_allocations(const weft_ctx *ctx);
WEFT_API int64_t weft_ctx_bytes_held(const weft_ctx *ctx);

/** Makes the k-th allocation from now on fail (k = 0: the next one); k < 0: none. For
 * tests that show that every allocation failure is a clean error. */
WEFT_API void weft_ctx_fail_allocation(weft_ctx *ctx, int64_t k);

#ifdef __cplusplus
}
#endif
#endif
