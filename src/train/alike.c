/* SPDX-License-Identifier: MIT */
/* The first process sends the text of its configuration, a key in each line, and hashes
 * of what it has read; every other process compares them with its own:
 *
 *     rank 0     optimizer.lr: 0.001 \n ...  -->  rank r: the first line that differs is the error
 *     rank 0     hash of tokenizer, tokens   -->  rank r: the first hash that differs
 *
 * So the person at machine r reads which key to change, and to what. A process that joins
 * later and is refused makes the same comparison with the notice that a member then sends
 * it:
 *
 *     notice     hashes of tokenizer, number of tokens, text, rows for validation  4 x u64
 *                text of the configuration, without the numbers of nodes and ranks */
#include "train/alike.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/layers.h"

enum { MAX_TEXT = 1 << 20, MAX_LINE = 120 };

/* Copies the line at `at` without characters that could harm a terminal; *n: its length
 * in the text. */
static void line_at(const char *at, char out[MAX_LINE], size_t *n) {
    *n = strcspn(at, "\n");
    snprintf(out, MAX_LINE, "%.*s", (int)(*n < MAX_LINE ? *n : MAX_LINE), at);
    wefti_text_plain(out);
}

/* Both texts come from wefti_config_shared, of this version of weft or of another one.
 * whose: the owner of `theirs`, for the message. */
static weft_status fail_by_line(weft_ctx *ctx, const char *own, const char *theirs,
                                const char *whose) {
    char here[MAX_LINE], there[MAX_LINE];
    size_t n, m;
    for (;; own += n + 1, theirs += m + 1) {
        line_at(own, here, &n);
        line_at(theirs, there, &m);
        if (n != m || memcmp(own, theirs, n) != 0 || !own[n] || !theirs[m]) break;
    }
    const char *colon = strstr(here, ": ");
    size_t name = colon ? (size_t)(colon - here) : 0;
    if (name == 0 || strncmp(here, there, name + 2) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "the configuration here has '%s' where that of %s has "
                             "'%s'; all ranks must have the same, of the same version "
                             "of weft",
                             here, whose, there);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%.*s is %s here and %s in the configuration of %s; all "
                         "ranks must have the same",
                         (int)name, here, colon + 2, there + name + 2, whose);
}

static weft_status check_text(weft_ctx *ctx, wefti_bootstrap *c, const char *own) {
    char *theirs;
    int64_t n = (int64_t)strlen(own);
    WEFT_TRY(wefti_bootstrap_tell(c, &n, sizeof n));
    if (n < 0 || n > MAX_TEXT)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "the configuration of rank 0 has %lld bytes, expected at "
                             "most %d",
                             (long long)n, (int)MAX_TEXT);
    WEFT_TRY(wefti_alloc(ctx, (size_t)n + 1, "configuration of rank 0", &theirs));
    if (wefti_bootstrap_leads(c)) memcpy(theirs, own, (size_t)n);
    weft_status status = wefti_bootstrap_tell(c, theirs, n);
    theirs[n] = 0;
    if (status == WEFT_OK && strcmp(own, theirs) != 0)
        status = fail_by_line(ctx, own, theirs, "rank 0");
    wefti_free(ctx, theirs);
    return status;
}

/* Facts about the contents of the files: a founder compares them, a joiner's hash is made
 * of them. */
enum { FACTS = 4 };

static void facts_of(const wefti_prepared *p, uint64_t facts[FACTS]) {
    facts[0] = weft_tokenizer_hash(p->tokenizer);
    facts[1] = (uint64_t)weft_dataset_train_tokens(p->dataset);
    facts[2] = weft_dataset_hash(p->dataset);
    facts[3] = (uint64_t)weft_dataset_validation_rows(p->dataset);
}

static const char *const what[FACTS] = {
    "the tokenizer (data.tokenizer, or what it was learnt from)",
    "the number of training tokens (data.path)",
    "the text (data.path, data.validation_path)", "the text for validation"};

static weft_status check_files(weft_ctx *ctx, wefti_prepared *p) {
    uint64_t facts[FACTS];
    facts_of(p, facts);
    for (int i = 0; i < FACTS; i++)
        WEFT_TRY(wefti_bootstrap_same(ctx, &p->bootstrap, facts[i], what[i]));
    return WEFT_OK;
}

weft_status wefti_alike_check(weft_ctx *ctx, wefti_prepared *p) {
    const char *own;
    if (!p->bootstrap.comm) return WEFT_OK;
    WEFT_TRY(wefti_config_shared(ctx, p->config, true, &own));
    WEFT_TRY(check_text(ctx, &p->bootstrap, own));
    return p->dataset ? check_files(ctx, p) : WEFT_OK;
}

weft_status wefti_alike_config(weft_ctx *ctx, const weft_config *config, bool sized,
                               uint64_t *out) {
    const char *text;
    weft_config *copy;
    WEFT_TRY(weft_config_copy(ctx, config, &copy));
    weft_status status = wefti_config_shared(ctx, copy, sized, &text);
    if (status == WEFT_OK) *out = XXH3_64bits(text, strlen(text));
    weft_config_destroy(ctx, copy);
    return status;
}

/* *copy owns the text; the caller destroys it. */
static weft_status shared_text(weft_ctx *ctx, const weft_config *config,
                               weft_config **copy, const char **text) {
    WEFT_TRY(weft_config_copy(ctx, config, copy));
    weft_status status = wefti_config_shared(ctx, *copy, false, text);
    if (status != WEFT_OK) weft_config_destroy(ctx, *copy);
    return status;
}

enum { TEXT_AT = FACTS * 8 };

weft_status wefti_alike_notice(weft_ctx *ctx, const wefti_prepared *p, void **out,
                               int64_t *n) {
    const char *text;
    weft_config *copy;
    unsigned char *bytes;
    uint64_t facts[FACTS];
    facts_of(p, facts);
    WEFT_TRY(shared_text(ctx, p->config, &copy, &text));
    size_t length = strlen(text);
    weft_status status = wefti_alloc(ctx, TEXT_AT + length, "what all have alike",
                                     &bytes);
    if (status == WEFT_OK) {
        for (int i = 0; i < FACTS; i++) wefti_put_u64(bytes + 8 * i, facts[i]);
        memcpy(bytes + TEXT_AT, text, length);
        *out = bytes;
        *n = (int64_t)(TEXT_AT + length);
    }
    weft_config_destroy(ctx, copy);
    return status;
}

static weft_status explain_files(weft_ctx *ctx, const wefti_prepared *p,
                                 const unsigned char *notice) {
    uint64_t facts[FACTS];
    facts_of(p, facts);
    for (int i = 0; i < FACTS; i++)
        if (facts[i] != wefti_get_u64(notice + 8 * i))
            return weft_ctx_fail(
                ctx, WEFT_ERR_CONFIG,
                "%s is another one here than in the run; all ranks must have "
                "the same",
                what[i]);
    return WEFT_OK;
}

weft_status wefti_alike_compare(weft_ctx *ctx, const char *own, const void *notice,
                                int64_t n) {
    char *theirs;
    if (!notice || n < TEXT_AT || n - TEXT_AT > MAX_TEXT) return WEFT_OK;
    size_t length = (size_t)n - TEXT_AT;
    WEFT_TRY(wefti_alloc(ctx, length + 1, "the run's configuration", &theirs));
    memcpy(theirs, (const char *)notice + TEXT_AT, length);
    theirs[length] = 0;
    bool alike = strcmp(own, theirs) == 0;
    weft_status status = alike ? WEFT_OK : fail_by_line(ctx, own, theirs, "the run");
    wefti_free(ctx, theirs);
    return status;
}

weft_status wefti_alike_explain(weft_ctx *ctx, const wefti_prepared *p,
                                const void *notice, int64_t n) {
    const char *own;
    weft_config *copy;
    if (!notice || n < TEXT_AT || n - TEXT_AT > MAX_TEXT) return WEFT_OK;
    WEFT_TRY(shared_text(ctx, p->config, &copy, &own));
    weft_status status = wefti_alike_compare(ctx, own, notice, n);
    if (status == WEFT_OK) status = explain_files(ctx, p, notice);
    weft_config_destroy(ctx, copy);
    return status;
}

weft_status wefti_alike_hashes(weft_ctx *ctx, const wefti_prepared *p, uint64_t *config,
                               uint64_t *data) {
    uint64_t facts[FACTS];
    facts_of(p, facts);
    *data = XXH3_64bits(facts, sizeof facts);
    return wefti_alike_config(ctx, p->config, false, config);
}
