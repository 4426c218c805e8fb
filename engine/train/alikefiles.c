/* SPDX-License-Identifier: MIT */
/* What a run on files compares beside its configuration (rank/alike.h): hashes of what each
 * process has read. */
#include "train/alikefiles.h"

#include <xxhash.h>

#include "base/bytes.h"
#include "config/layers.h"
#include "rank/alike.h"

/* Facts about the contents of the files: a founder compares them, a joiner's hash is made
 * of them. */
enum { FACTS = WEFTI_NOTICE_FACTS };

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
    WEFT_TRY(wefti_alike_texts(ctx, &p->bootstrap, own));
    return p->dataset ? check_files(ctx, p) : WEFT_OK;
}

/* *copy owns the text; the caller destroys it. */
static weft_status shared_text(weft_ctx *ctx, const weft_config *config,
                               weft_config **copy, const char **text) {
    WEFT_TRY(weft_config_copy(ctx, config, copy));
    weft_status status = wefti_config_shared(ctx, *copy, false, text);
    if (status != WEFT_OK) weft_config_destroy(ctx, *copy);
    return status;
}

weft_status wefti_alike_notice(weft_ctx *ctx, const wefti_prepared *p, void **out,
                               int64_t *n) {
    const char *text;
    weft_config *copy;
    uint64_t facts[FACTS];
    facts_of(p, facts);
    WEFT_TRY(shared_text(ctx, p->config, &copy, &text));
    weft_status status = wefti_alike_notice_of(ctx, text, p->choice.text, out, n);
    for (int i = 0; i < FACTS && status == WEFT_OK; i++)
        wefti_put_u64((unsigned char *)*out + 8 * i, facts[i]);
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

weft_status wefti_alike_explain(weft_ctx *ctx, const wefti_prepared *p,
                                const void *notice, int64_t n) {
    const char *own;
    weft_config *copy;
    if (!notice || n < FACTS * 8) return WEFT_OK;
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
