/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

#include <weft/invite.h>

#include "invite/meeting.h"

/* What a newcomer gets: an object in JSON, then the bytes of its files, one after another.
 *
 *     {"version", "port", "key", "config", "missing",
 *      "files": [[kind, item, whole folder, name, bytes], ...]}
 *
 * A kind is a key that names files; item is the place in its list. The files of an item become
 * FOLDER/data.path-0/NAME and so on. Who reads checks every number, and names hold no slash. */
enum {
    WEFTI_BUNDLE_KINDS = 5,
    WEFTI_BUNDLE_NAME_BYTES = 128,
    WEFTI_BUNDLE_FILES = 4096,
    WEFTI_BUNDLE_TEXT_BYTES = 8 << 20,
    WEFTI_BUNDLE_KEY_BYTES = 65
};

typedef struct wefti_bundle_file {
    int kind, item;
    bool folder; /* the key names the folder that this file is in */
    char name[WEFTI_BUNDLE_NAME_BYTES];
    int64_t n_bytes;
    char *path; /* where the giver has it, owned; NULL */
} wefti_bundle_file;

typedef struct wefti_bundle {
    int run_port;
    char key[WEFTI_BUNDLE_KEY_BYTES]; /* hexadecimal digits */
    char *config;                     /* owned, as the files */
    char missing[WEFTI_BUNDLE_KINDS]
                [256]; /* sentences: what of a kind can not be given */
    wefti_bundle_file *files;
    int64_t n_files, room;
} wefti_bundle;

/* The giver's. [out] *out to be ended by the caller, also after a failure. */
weft_status wefti_bundle_make(weft_ctx *ctx, const weft_invite_setup *setup,
                              wefti_bundle *out) WEFT_CHECKED;

/* The object for this wish; [out] gives[n_files]: which files follow it. *text owned by the
 * caller (wefti_free). */
weft_status wefti_bundle_text(weft_ctx *ctx, const wefti_bundle *p,
                              const wefti_wish *wish, bool *gives,
                              char **text) WEFT_CHECKED;

/* The kinds whose files this process has to get: those that `own` (or NULL) does not name. */
unsigned wefti_bundle_wants(const weft_config *own);

/* The taker's. Refuses another version, and what is missing. */
weft_status wefti_bundle_read(weft_ctx *ctx, const char *text, int64_t n,
                              const wefti_wish *wish, wefti_bundle *out) WEFT_CHECKED;

/* Where file i comes to; its folder is made. */
weft_status wefti_bundle_path(weft_ctx *ctx, const wefti_bundle *p, int64_t i,
                              const char *folder, char path[PATH_MAX]) WEFT_CHECKED;

/* Writes run.yaml, run.key and here.yaml: the paths of this machine. */
weft_status wefti_bundle_unpack(weft_ctx *ctx, const wefti_bundle *p,
                                const char *folder) WEFT_CHECKED;

void wefti_bundle_fini(weft_ctx *ctx, wefti_bundle *p);
