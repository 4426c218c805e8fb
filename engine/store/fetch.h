/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

#include <weft/ctx.h>

/* Copies of what lies at addresses (address.h), in WEFT_CACHE, else XDG_CACHE_HOME/weft, else
 * HOME/.cache/weft. The server is asked at most once a minute whether a copy is still the same. */

/* [out] path: the copy of a file; a name that is no address is left as it is. */
weft_status wefti_fetch_file(weft_ctx *ctx, const char *name,
                             char path[PATH_MAX]) WEFT_CHECKED;

/* The same for a folder with a model: a checkpoint of weft's, the newest one of a run, or
 * config.json, model.safetensors (or its index and shards) and what tokenizers have. */
weft_status wefti_fetch_model(weft_ctx *ctx, const char *name,
                              char path[PATH_MAX]) WEFT_CHECKED;

/* The first bytes of a file, [out] *n of them, at most `most`; -1: it is not there. What has come
 * is not fetched again. */
weft_status wefti_fetch_head(weft_ctx *ctx, const char *address, char *head, int64_t most,
                             int64_t *n) WEFT_CHECKED;

/* [out] path: the copy of a small file of the model that wefti_fetch_model finds. */
weft_status wefti_fetch_part(weft_ctx *ctx, const char *address, const char *name,
                             char path[PATH_MAX], bool *there) WEFT_CHECKED;

/* The step of the newest checkpoint of the run at the address; -1: there is none. */
weft_status wefti_fetch_step(weft_ctx *ctx, const char *address,
                             int64_t *step) WEFT_CHECKED;

/* Brings the newest checkpoint into a run folder that has none after `newest`, and the records if
 * it has none. What an earlier try brought is not fetched again. */
weft_status wefti_fetch_run(weft_ctx *ctx, const char *address, const char *folder,
                            int64_t newest) WEFT_CHECKED;

/* The records of a run, beside its checkpoints; NULL ends them. */
extern const char *const wefti_records[];
