/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "config/schema.h"

/* Who gave a value; a higher layer is never overwritten by a lower one. */
typedef enum wefti_layer {
    WEFTI_LAYER_DEFAULT,
    WEFTI_LAYER_METHOD,
    WEFTI_LAYER_MODEL, /* the checkpoint that model.init names */
    WEFTI_LAYER_FILE,
    WEFTI_LAYER_COMMAND
} wefti_layer;

typedef struct wefti_origin {
    wefti_layer layer;
    int line;         /* counted from 1; of a file */
    const char *path; /* of a file, borrowed; or NULL */
} wefti_origin;

/* A configuration and what only the library sees of it. */
typedef struct wefti_config {
    weft_config values; /* first: the caller's pointer is also ours */
    wefti_origin origins[WEFTI_MAX_KEYS];
    char **paths; /* owned, names of the files read */
    int n_paths;
    char *text; /* owned, of weft_config_text */
} wefti_config;

wefti_config *wefti_config_of(weft_config *config);

/* A value as it was typed: n texts one after another, each ended by a NUL. */
typedef struct wefti_typed {
    const char *packed;
    int n;
    bool is_list; /* typed as a list; a list key takes a single text as well */
} wefti_typed;

/* Checks a typed value and stores it unless a higher layer has spoken. On failure the key
 * keeps its value. */
weft_status wefti_config_assign(weft_ctx *ctx, wefti_config *config,
                                const weft_config_key *key, const wefti_origin *origin,
                                const wefti_typed *typed) WEFT_CHECKED;

/* Whether somebody chose the key's value: a file, or the command line. */
bool wefti_config_given(const weft_config *config, const char *name);

/* Sets a key as a checkpoint's config.json says it, unless it is given. */
weft_status wefti_config_suggest(weft_ctx *ctx, weft_config *config, const char *name,
                                 const char *text) WEFT_CHECKED;

/* The same of a list: n texts one after another, each ended by a NUL. */
weft_status wefti_config_suggest_list(weft_ctx *ctx, weft_config *config,
                                      const char *name, const char *packed,
                                      int n) WEFT_CHECKED;

/* Sets a key back to its default, whatever the layer. */
weft_status wefti_config_reset(weft_ctx *ctx, wefti_config *config,
                               const weft_config_key *key) WEFT_CHECKED;

/* What weft_config_finish does but for the kinds, which are above this room (job/finish.c). */
weft_status wefti_config_settle(weft_ctx *ctx, weft_config *values) WEFT_CHECKED;

/* The text of the keys that all processes of a run must have alike, "section.key: value" in each
 * line; sized: with the numbers of nodes and ranks, which a joiner has from the others. Valid until
 * the next text of this configuration. */
weft_status wefti_config_shared(weft_ctx *ctx, weft_config *values, bool sized,
                                const char **words) WEFT_CHECKED;

/* The first line of a configuration that weft writes: the folder that it is written from. */
void wefti_config_put_folder(weft_ctx *ctx, wefti_buffer *out);

/* What was read from the file `path` (as origins have it), whose text is data: its relative paths
 * that lead nowhere from here are those seen from the folder of its first line. */
weft_status wefti_config_see_from(weft_ctx *ctx, wefti_config *config, const char *path,
                                  const char *data) WEFT_CHECKED;

/* "run.yaml:7: " for a value of a file, else "". Writes into out and returns it. */
const char *wefti_origin_prefix(const wefti_origin *origin, char *out, size_t out_size);

/* A failure about an unknown key or section, with a guess at what was meant. */
weft_status wefti_config_fail_unknown(weft_ctx *ctx, const char *prefix, const char *what,
                                      const char *name, const char *guess);
