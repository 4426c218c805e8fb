/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "base/buffer.h"

/* A regular expression or a plain text to look for, read-only: threads share it. */
typedef struct wefti_pattern wefti_pattern;

/* Compiles what stands in a tokenizer.json, in the dialect of Oniguruma as far as both
 * dialects know it; an expression that would mean something else here is refused
 * (WEFT_ERR_FORMAT, with a sentence that does not name the file). */
weft_status wefti_pattern_create(weft_ctx *ctx, const char *text, int64_t n, bool regex,
                                 wefti_pattern **out) WEFT_CHECKED;
void wefti_pattern_destroy(weft_ctx *ctx, wefti_pattern *pattern);

/* One thread's working memory for matching. */
typedef struct wefti_matcher wefti_matcher;
weft_status wefti_matcher_create(weft_ctx *ctx, wefti_matcher **out) WEFT_CHECKED;
void wefti_matcher_destroy(wefti_matcher *matcher);

/* Allows work for a text of n bytes: instead of what is left of that for texts before it, or
 * (shared) beside it. */
void wefti_matcher_allow(wefti_matcher *matcher, int64_t n, bool shared);

/* The first match that begins at or after `from` and is not empty: [out] *start and *end,
 * both n if there is none. The text is well-formed UTF-8. Too
 * much work for the text is an error. */
weft_status wefti_pattern_find(const wefti_pattern *pattern, wefti_matcher *matcher,
                               const char *text, int64_t n, int64_t from, int64_t *start,
                               int64_t *end) WEFT_CHECKED;

/* What a tokenizer.json does to text before byte-pair merging: normalizers change the text,
 * pre-tokenizers cut it. */
typedef enum wefti_step_kind {
    WEFTI_STEP_FORM,      /* a Unicode normalization form: `form` */
    WEFTI_STEP_PREPEND,   /* puts `text` before a text that is not empty */
    WEFTI_STEP_REPLACE,   /* `pattern` by `text` */
    WEFTI_STEP_STRIP,     /* white space at the left, the right end */
    WEFTI_STEP_SPLIT,     /* at the matches of `pattern`, by `behavior` */
    WEFTI_STEP_METASPACE, /* blanks by `text`, `text` in front by `front` */
    WEFTI_STEP_PREFIX     /* a blank in front of each piece that has none */
} wefti_step_kind;

typedef enum wefti_form { WEFTI_NFC, WEFTI_NFD, WEFTI_NFKC, WEFTI_NFKD } wefti_form;

typedef enum wefti_behavior {
    WEFTI_REMOVED,
    WEFTI_ISOLATED,
    WEFTI_WITH_PREVIOUS,
    WEFTI_WITH_NEXT,
    WEFTI_CONTIGUOUS
} wefti_behavior;

typedef enum wefti_front {
    WEFTI_FRONT_ALWAYS,
    WEFTI_FRONT_FIRST,
    WEFTI_FRONT_NEVER
} wefti_front;

typedef struct wefti_step {
    wefti_step_kind kind;
    wefti_form form;
    wefti_behavior behavior;
    wefti_front front;
    bool left, right; /* strip */
    bool invert;      /* split: what lies between matches counts as match */
    char *text;       /* [n_text], owned */
    int64_t n_text;
    wefti_pattern *pattern; /* owned */
} wefti_step;

void wefti_step_fini(weft_ctx *ctx, wefti_step *step);

/* A piece of the text at hand. */
typedef struct wefti_textpiece {
    int64_t start, end;
    int32_t
        id; /* a token that is found already; WEFTI_TEXT: text; WEFTI_BYTES: bytes that
                  * are not UTF-8 */
    bool first; /* begins where the whole text begins */
    bool
        inner; /* begins where a longer text was cut for our sake: nothing is put before */
    bool inward; /* the same of its end */
} wefti_textpiece;
enum { WEFTI_TEXT = -1, WEFTI_BYTES = -2 };

/* The text at hand, in pieces, and room for what the next step makes of it. One per thread;
 * zeroed memory is an empty one. */
typedef struct wefti_pieces {
    weft_ctx *ctx;
    wefti_matcher *matcher; /* owned */
    wefti_buffer text, next;
    wefti_textpiece *segments, *others; /* [capacity], [others_capacity]; owned */
    int64_t n, capacity, n_others, others_capacity;
    int64_t most; /* bytes that the text may have */
    bool marks;   /* special tokens in the text count as such */
} wefti_pieces;

weft_status wefti_pieces_init(weft_ctx *ctx, wefti_pieces *pieces) WEFT_CHECKED;
void wefti_pieces_fini(wefti_pieces *pieces);

/* Allows growth and work for a text of n bytes (wefti_matcher_allow). */
void wefti_pieces_allow(wefti_pieces *pieces, int64_t n, bool shared);

/* Appends a piece: to those at hand, or to those that the current step makes. */
weft_status wefti_pieces_put(wefti_pieces *pieces, wefti_textpiece segment) WEFT_CHECKED;
weft_status wefti_pieces_make(wefti_pieces *pieces, wefti_textpiece segment) WEFT_CHECKED;

/* What the step made is now at hand. */
void wefti_pieces_turn(wefti_pieces *pieces, bool text_too);

/* Runs a step over all pieces of text; tokens and bytes stay as they are. */
weft_status wefti_step_run(const wefti_step *step, wefti_pieces *pieces) WEFT_CHECKED;

/* A token that is looked for in text before anything else is done with it. */
typedef struct wefti_added {
    char *text; /* [n_text], what is looked for; owned */
    int64_t n_text;
    int32_t id;
    bool special;           /* takes part in the search, and is then left as text */
    bool single_word;       /* only where no letter, digit or mark touches it */
    bool lstrip, rstrip;    /* takes the white space at its left, its right */
    int32_t up, far, depth; /* of the sorted set: see added.c */
} wefti_added;

/* Zeroed memory is an empty set. */
typedef struct wefti_added_set {
    wefti_added *tokens; /* [n], owned; after the sorting by bytes */
    int64_t n, capacity;
    int64_t first[257]; /* tokens [first[b], first[b + 1]) begin with the byte b */
} wefti_added_set;

/* Appends a token; text is copied. An empty text is none. */
weft_status wefti_added_put(weft_ctx *ctx, wefti_added_set *set, const wefti_added *token,
                            const char *text, int64_t n) WEFT_CHECKED;
void wefti_added_sort(wefti_added_set *set);
void wefti_added_fini(weft_ctx *ctx, wefti_added_set *set);

/* The longest token of a sorted set that the text begins with, or NULL. n > 0. */
const wefti_added *wefti_added_match(const wefti_added_set *set, const char *text,
                                     int64_t n);

/* Cuts the pieces of text where tokens of the set stand: of those that begin at a place the
 * longest, from left to right. */
weft_status wefti_added_find(const wefti_added_set *set,
                             wefti_pieces *pieces) WEFT_CHECKED;

/* Where a long text may be cut without changing its ids. */
typedef enum wefti_cuts {
    WEFTI_CUTS_NONE,  /* nowhere: documents are encoded whole */
    WEFTI_CUTS_SPACE, /* ASCII letter or digit | ASCII white space */
    WEFTI_CUTS_BLANK  /* ASCII letter or digit | blank */
} wefti_cuts;

/* All that a tokenizer.json does beside merging bytes; see wefti_step. Read-only: threads share
 * it. */
typedef struct wefti_pipeline {
    wefti_step *steps; /* [n_steps]: normalizers, then pre-tokenizers; owned */
    int64_t n_steps, n_normalizers, capacity;
    wefti_added_set plain, normalized; /* looked for before and after the normalizers */
    bool chars;    /* symbols are characters, else bytes in the byte alphabet */
    bool fallback; /* characters without a token are bytes: <0x00> .. <0xFF> */
    bool fuse_unknown;
    int32_t unknown; /* the token for what has none; -1: it is left out */
    char *blank; /* what stands for a blank, such as U+2581, if that is one character */
    bool apart;  /* no merge joins anything with a blank after it: words are pieces */
    wefti_cuts cuts;
    char *source; /* the file as it came, for a copy of it; owned */
    int64_t n_source;
} wefti_pipeline;

/* Appends an empty step. Borrowed until the next. */
weft_status wefti_pipeline_add(weft_ctx *ctx, wefti_pipeline *pipeline,
                               wefti_step **step) WEFT_CHECKED;
void wefti_pipeline_destroy(weft_ctx *ctx, wefti_pipeline *pipeline);

/* Text -> pieces. `begins`, `ends`: the text is the beginning, the end of its document, else
 * it was cut there. */
weft_status wefti_pipeline_run(const wefti_pipeline *pipeline, wefti_pieces *pieces,
                               const char *text, int64_t n, bool begins,
                               bool ends) WEFT_CHECKED;

/* Runs the normalizers alone over one text; the result is pieces->text. The texts of a file
 * share their work. */
weft_status wefti_pipeline_normalize(const wefti_pipeline *pipeline, wefti_pieces *pieces,
                                     const char *text, int64_t n) WEFT_CHECKED;

/* The first safe cut at or after `from`, the last one at or before it; -1: there is none. */
int64_t wefti_pipeline_cut_after(const wefti_pipeline *pipeline, const char *text,
                                 int64_t n, int64_t from);
int64_t wefti_pipeline_cut_before(const wefti_pipeline *pipeline, const char *text,
                                  int64_t n, int64_t from);
