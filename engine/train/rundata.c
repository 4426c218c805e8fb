/* SPDX-License-Identifier: MIT */
/* What a run is trained on, opened from its configuration:
 *
 *     texts      windows of data.length tokens, and a bigram model of them as a baseline
 *     prompts    data.rows=prompts: examples of a .jsonl, written by a chat template
 *     pairs, images   for the models that take them; images determine their side and channels */
#define _GNU_SOURCE
#include "train/prepare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/train.h>

#include "base/machine.h"
#include "base/text.h"
#include "config/layers.h"
#include "config/named.h"
#include "store/address.h"
#include "store/fetch.h"

/* Takes the model's image side and channels from the images, unless the configuration has
 * them; fails if the two differ. */
static weft_status adopt_images(weft_ctx *ctx, weft_config *config,
                                const weft_dataset *dataset) {
    const struct {
        const char *key;
        int64_t *at, value;
    } rows[] = {
        {"model.image", &config->model.image, weft_dataset_image(dataset)},
        {"model.channels", &config->model.channels, weft_dataset_channels(dataset)}};
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text, "%lld", (long long)rows[i].value);
        if (*rows[i].at == 0)
            WEFT_TRY(wefti_config_suggest(ctx, config, rows[i].key, text));
        if (*rows[i].at != rows[i].value)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "%s is %lld, but the images have %s", rows[i].key,
                                 (long long)*rows[i].at, text);
    }
    return WEFT_OK;
}

/* For a run on plain text: keeps the chat template of the model's folder, if there is one, so
 * that the checkpoints contain it. */
static weft_status keep_chat(weft_ctx *ctx, const weft_config *config,
                             wefti_prepared *p) {
    const char *tokenizer = config->data.tokenizer;
    bool resumed = p->saved.step >= 0;
    if (!config->model.init[0] || !wefti_tokenizer_is_file(tokenizer)) return WEFT_OK;
    weft_status status = weft_chat_open(ctx, "auto", resumed ? p->saved_path : tokenizer,
                                        &p->chat);
    if (status != WEFT_ERR_CONFIG && status != WEFT_ERR_FORMAT) return status;
    weft_ctx_clear(ctx);
    return WEFT_OK;
}

/* Opens the template for the run's prompts. A resumed run continues with the template in
 * its checkpoint; otherwise data.chat_template decides, by default the template beside
 * the tokenizer. Rows of texts need no template, so a folder without one is no error
 * until rows of messages come. */
static weft_status open_chat(weft_ctx *ctx, const weft_config *config,
                             wefti_prepared *p) {
    char path[PATH_MAX];
    struct stat info;
    const char *tokenizer = config->data.tokenizer, *name = config->data.chat_template;
    const char *folder = wefti_tokenizer_is_file(tokenizer) ? tokenizer : NULL;
    bool automatic = wefti_is(name, "auto"), written = wefti_is(name, "text");
    if (!wefti_is(config->data.rows, "prompts")) return keep_chat(ctx, config, p);
    if (p->saved.step >= 0 && !written &&
        snprintf(path, sizeof path, "%.4000s/chat_template.jinja", p->saved_path) > 0 &&
        stat(path, &info) == 0)
        return weft_chat_open(ctx, "auto", p->saved_path, &p->chat);
    weft_status status = weft_chat_open(ctx, name, folder, &p->chat);
    if (status != WEFT_ERR_CONFIG || !automatic) return status;
    weft_ctx_clear(ctx);
    return WEFT_OK;
}

static weft_status check_rows(weft_ctx *ctx, const weft_config *config,
                              wefti_input input) {
    bool pairs = input == WEFTI_INPUT_PAIRS;
    bool texts = pairs || wefti_is(config->data.rows, "prompts");
    if (wefti_tokenizer_names_ids(config->data.tokenizer) && texts)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "data.tokenizer is ids, which are read from shards, but %s are "
            "texts: name a tokenizer",
            pairs ? "pairs" : "prompts");
    if (input == WEFTI_INPUT_TEXT || wefti_is(config->data.rows, "windows"))
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "data.rows is %s, but a %s is trained on rows of its own",
                         config->data.rows, config->model.kind);
}

weft_status weft_run_fetch(weft_ctx *ctx, const char *address, weft_config *config) {
    char from[WEFTI_URL_BYTES], path[PATH_MAX];
    size_t n = strlen(address);
    while (n > 0 && address[n - 1] == '/') n--;
    snprintf(from, sizeof from, "%.*s/config.yaml", (int)(n < 4000 ? n : 4000), address);
    WEFT_TRY(wefti_fetch_file(ctx, from, path));
    WEFT_TRY(weft_config_load(ctx, config, path));
    snprintf(from, sizeof from, "run.upload=%.*s", (int)(n < 4000 ? n : 4000), address);
    return weft_config_set(ctx, config, from);
}

weft_status wefti_rundata_open(weft_ctx *ctx, weft_config *config, wefti_prepared *p) {
    wefti_input input = wefti_job_input(config);
    bool prompts = wefti_is(config->data.rows, "prompts");
    int64_t source = config->data.source_length;
    weft_dataset_config wanted = {
        .struct_size = sizeof wanted,
        .paths = config->data.path.items,
        .weights = config->data.weights.n ? config->data.weights.items : NULL,
        .n_paths = config->data.path.n,
        .validation_paths = config->data.validation_path.items,
        .n_validation_paths = config->data.validation_path.n,
        .validation = config->data.validation,
        .rows = prompts ? WEFT_ROWS_PROMPTS : (weft_rows)input, /* the same order */
        .T = config->data.length,
        .source_length = source > 0 ? source : config->data.length,
        .vocab = config->model.vocab,
        .image = config->model.image,
        .channels = config->model.channels,
        .seed = (uint64_t)config->run.seed,
        .threads = wefti_machine_cores(),
        .field = config->data.field,
        .column = config->data.column,
        .room_folder = config->run.folder,
    };
    WEFT_TRY(check_rows(ctx, config, input));
    WEFT_TRY(open_chat(ctx, config, p));
    wanted.chat = prompts ? p->chat : NULL;
    WEFT_TRY(weft_dataset_open(ctx, &wanted, p->tokenizer, &p->dataset));
    p->bigram_loss = NAN;
    if (input == WEFTI_INPUT_IMAGES) WEFT_TRY(adopt_images(ctx, config, p->dataset));
    if (input != WEFTI_INPUT_TEXT || prompts) return WEFT_OK;
    bool leads = wefti_bootstrap_leads(&p->bootstrap);
    if (!leads || weft_dataset_validation_rows(p->dataset) == 0) return WEFT_OK;
    return weft_dataset_bigram_loss(ctx, p->dataset, weft_tokenizer_vocab(p->tokenizer),
                                    &p->bigram_loss);
}
