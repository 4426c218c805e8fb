/* SPDX-License-Identifier: MIT */
#pragma once

#include "token/added.h"

/* Where a long text may be cut without changing its ids. */
typedef enum wefti_cuts {
    WEFTI_CUTS_NONE,  /* nowhere: documents are encoded whole */
    WEFTI_CUTS_SPACE, /* ASCII letter or digit | ASCII white space */
    WEFTI_CUTS_BLANK  /* ASCII letter or digit | blank */
} wefti_cuts;

/* All that a tokenizer.json does beside merging bytes; see steps.h. Read-only: threads share
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
