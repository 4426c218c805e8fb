/* SPDX-License-Identifier: MIT */
#ifndef WEFT_VERIFY_H
#define WEFT_VERIFY_H

#include <stdbool.h>

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The result of checking one file or checkpoint of a run folder. */
typedef struct weft_verify_item {
    const char *name; /* relative to the run folder */
    bool whole;
    const char *sentence; /* what it contains, or what is wrong with it */
} weft_verify_item;

/** Takes one item after another; borrowed until it returns. */
typedef void (*weft_verify_sink)(void *user, const weft_verify_item *item);

/** Reads everything that weft wrote into a run folder, and calls back for each part: the
 * configuration is read as a run would read it, each line of metrics.jsonl is read, and
 * every byte of every checkpoint is compared with its hash. Changes nothing. [out]
 * *n_damaged: the number of parts that are not whole. WEFT_ERR_FILE: there is no such
 * folder; WEFT_ERR_FORMAT: nothing in it belongs to a run. Not collective.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_verify_run(weft_ctx *ctx, const char *run_folder,
                                     weft_verify_sink sink, void *user,
                                     int *n_damaged) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
