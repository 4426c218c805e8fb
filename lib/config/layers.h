/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "config/schema.h"

/* Where a value came from. A lower layer never overwrites a higher one. */
typedef struct wefti_origin {
    weft_config_origin layer;
    int line;         /* line of a file, counted from 1 */
    const char *path; /* of a file, borrowed; or NULL */
} wefti_origin;

/* A configuration, and its private part. */
typedef struct wefti_config {
    weft_config values; /* first, so that the caller's pointer is also the pointer to this
                           struct */
    wefti_origin origins[WEFTI_MAX_KEYS];
    char **paths; /* owned, names of the files that were read */
    int n_paths;
    char *text; /* owned, of weft_config_text */
} wefti_config;

wefti_config *wefti_config_of(weft_config *config);

/* A value as it was typed: n texts one after another, each ended by a NUL. */
typedef struct wefti_typed {
    const char *packed;
    int n;
    bool is_list; /* typed as a list; a key of a list also accepts a single text */
} wefti_typed;

/* Checks a typed value and stores it unless a higher layer has set the key. On failure
 * the key keeps its value. */
weft_status wefti_config_assign(weft_ctx *ctx, wefti_config *config,
                                const weft_config_key *key, const wefti_origin *origin,
                                const wefti_typed *typed) WEFT_CHECKED;

/* Whether the user chose the key's value, in a file or on the command line. */
bool wefti_config_given(const weft_config *config, const char *name);

/* Sets a key to the value in a checkpoint's config.json, unless the user has given it. */
weft_status wefti_config_suggest(weft_ctx *ctx, weft_config *config, const char *name,
                                 const char *text) WEFT_CHECKED;

/* The same for a list: n texts one after another, each ended by a NUL. */
weft_status wefti_config_suggest_list(weft_ctx *ctx, weft_config *config,
                                      const char *name, const char *packed,
                                      int n) WEFT_CHECKED;

/* A finished run with method=auto before anything is decided: all gradients are averaged, as
 * without a method. It stays finished. Other runs are left alone. */
weft_status wefti_config_undecided(weft_ctx *ctx, weft_config *config) WEFT_CHECKED;

/* Sets a key back to its default, whatever the layer. */
weft_status wefti_config_reset(weft_ctx *ctx, wefti_config *config,
                               const weft_config_key *key) WEFT_CHECKED;

/* What weft_config_finish does, except for the parts that need the kinds, which are in a
 * higher folder (job/finish.c). */
weft_status wefti_config_settle(weft_ctx *ctx, weft_config *values) WEFT_CHECKED;

/* The text of the keys that must be equal in all processes of a run, one "section.key:
 * value" per line. sized: with the numbers of nodes and ranks, which a joining process
 * gets from the others. Valid until the next text of this configuration. */
weft_status wefti_config_shared(weft_ctx *ctx, weft_config *values, bool sized,
                                const char **words) WEFT_CHECKED;

/* Appends the first line of a configuration that weft writes: the current folder. */
void wefti_config_put_folder(weft_ctx *ctx, wefti_buffer *out);

/* Resolves relative paths that were read from the file `path` (the same pointer as in
 * origins), whose text is `data`: a path that does not exist from here is taken relative
 * to the folder in the file's first line. */
weft_status wefti_config_see_from(weft_ctx *ctx, wefti_config *config, const char *path,
                                  const char *data) WEFT_CHECKED;

/* "run.yaml:7: " for a value of a file, else "". Writes into out and returns it. */
const char *wefti_origin_prefix(const wefti_origin *origin, char *out, size_t out_size);

/* Why a text is refused in which an address has a name or a password; NULL: none has. */
const char *wefti_secret_in(const char *text);

/* Fails because of an unknown key or section; the message has a guess at what was meant. */
weft_status wefti_config_fail_unknown(weft_ctx *ctx, const char *prefix, const char *what,
                                      const char *name, const char *guess);
