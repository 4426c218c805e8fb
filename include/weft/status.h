/* SPDX-License-Identifier: MIT */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#define WEFT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define WEFT_CHECKED __attribute__((warn_unused_result))
#else
#define WEFT_API
#define WEFT_PRINTF(fmt, first)
#define WEFT_CHECKED
#endif

/** The result of a function that can fail. The context has the message that explains it. The
 * comment of a function names those that it may return besides ARGUMENT, MEMORY and INTERNAL, as
 * "Errors: FILE, FORMAT". */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_ARGUMENT, /* a caller's argument makes no sense */
    WEFT_ERR_CONFIG,   /* a configuration key, value or unit */
    WEFT_ERR_FILE,     /* the system refused a file operation */
    WEFT_ERR_FORMAT,   /* a file's bytes are not what its format says */
    WEFT_ERR_MEMORY,   /* not enough memory, or an allocation failed */
    WEFT_ERR_WIRE,     /* a message's bytes are not what the wire format says */
    WEFT_ERR_PEER,     /* another rank failed; its message is the one to read */
    WEFT_ERR_NUMERIC,  /* a loss or gradient is not finite */
    WEFT_ERR_INTERNAL  /* a fault of weft */
} weft_status;

/** A short name of the status, never NULL. Not collective. */
WEFT_API const char *weft_status_name(weft_status status);

/** Runs `expr`; on failure returns its status from the enclosing function. */
#define WEFT_TRY(expr)                                                                   \
    do {                                                                                 \
        weft_status weft_try_status_ = (expr);                                           \
        if (weft_try_status_ != WEFT_OK) return weft_try_status_;                        \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
