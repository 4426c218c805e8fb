/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "token/pattern.h"

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
