/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* How text is cut into pieces before byte-pair merging: no merge crosses a piece's
 * edge. */
typedef enum wefti_rule {
    WEFTI_RULE_NONE,
    WEFTI_RULE_GPT2,
    WEFTI_RULE_LLAMA3,
    WEFTI_RULE_STEPS /* of a pipeline, which is no expression */
} wefti_rule;

/* "none", "gpt2", "llama3", "steps". */
const char *wefti_rule_name(wefti_rule rule);

/* Finds a rule by its name, or by its regular expression as it stands in
 * tokenizer.json. */
bool wefti_rule_by_name(const char *name, wefti_rule *rule);
bool wefti_rule_by_regex(const char *regex, wefti_rule *rule);

/* The regular expression as it stands in tokenizer.json; NULL for WEFTI_RULE_NONE. */
const char *wefti_rule_regex(wefti_rule rule);

/* A compiled rule: read-only, threads share it. */
typedef struct wefti_splitter wefti_splitter;

weft_status wefti_splitter_create(weft_ctx *ctx, wefti_rule rule,
                                  wefti_splitter **out) WEFT_CHECKED;
void wefti_splitter_destroy(weft_ctx *ctx, wefti_splitter *splitter);

/* One thread's walk over the pieces of a text. */
typedef struct wefti_scan wefti_scan;

/* `splitter` is borrowed; NULL gives the whole text as one piece. */
weft_status wefti_scan_create(weft_ctx *ctx, const wefti_splitter *splitter,
                              wefti_scan **out) WEFT_CHECKED;
void wefti_scan_destroy(wefti_scan *scan);

/* Starts at the beginning of a text, which is borrowed until the walk ends. */
void wefti_scan_start(wefti_scan *scan, const char *text, int64_t n_bytes);

/* The next piece (a part of the text); *n_bytes is 0 at the end. The pieces one after
 * another are the text. A byte that is not part of well-formed UTF-8 is a piece of its
 * own, and what lies between such bytes is split as if it were a whole text. */
weft_status wefti_scan_next(wefti_scan *scan, const char **piece,
                            int64_t *n_bytes) WEFT_CHECKED;

/* Safe cuts: positions p, 0 < p < n_bytes, such that the pieces of the text are the
 * pieces of text[0..p) followed by the pieces of text[p..), under every rule. The
 * first one at or after `from`, or the last one before or at `from`; -1 if there is
 * none. `text` must begin at the beginning of the whole text or at a safe cut. A cut
 * is only reported where it does not depend on what may follow after n_bytes. */
int64_t wefti_safe_cut_after(const char *text, int64_t n_bytes, int64_t from);
int64_t wefti_safe_cut_before(const char *text, int64_t n_bytes, int64_t from);
