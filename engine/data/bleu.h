/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

enum { WEFTI_BLEU_ORDERS = 4 };

/* Counts over a corpus; zeroed memory is none. */
typedef struct wefti_bleu {
    int64_t matches[WEFTI_BLEU_ORDERS]; /* n-grams of translations that a reference has */
    int64_t total[WEFTI_BLEU_ORDERS];   /* n-grams of translations */
    int64_t words, reference_words;
} wefti_bleu;

/* Adds a translation and its reference, texts of UTF-8 that end in NUL. */
weft_status wefti_bleu_add(weft_ctx *ctx, wefti_bleu *bleu, const char *translation,
                           const char *reference) WEFT_CHECKED;

/* 0 to 100. */
double wefti_bleu_score(const wefti_bleu *bleu);
