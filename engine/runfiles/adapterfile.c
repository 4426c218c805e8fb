/* SPDX-License-Identifier: MIT */
/* Adapters in PEFT's format, read and written:
 *
 *     adapter_config.json            rank, alpha, modules, base model
 *     adapter_model.safetensors      base_model.model.<module>.lora_A.weight  [r, inputs]
 *                                    base_model.model.<module>.lora_B.weight  [outputs, r]
 *                                    base_model.model.<module>.weight         trained whole
 *
 * The tensors say which modules have an adapter, because a name in PEFT's list can be a
 * pattern. */
#define _GNU_SOURCE
#include "runfiles/adapterfile.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "checkpoint/weights.h"
#include "config/layers.h"
#include "config/value.h"

enum { MAX_JSON = 16 << 20 };
static const char before[] = "base_model.model.", behind[] = ".lora_A.weight";

bool wefti_adapter_here(const char *folder) {
    char path[PATH_MAX];
    return !wefti_weights_here(folder) &&
           wefti_file_there(folder, "adapter_config.json", path);
}

/* Finds the module whose lora_A matrix this tensor is. Returns the length of its name, or
 * 0 if the tensor is no such matrix. */
static size_t module_of(const char *name, const char **module) {
    size_t n = strlen(name), head = sizeof before - 1, tail = sizeof behind - 1;
    bool is = n > head + tail && strncmp(name, before, head) == 0 &&
              strcmp(name + n - tail, behind) == 0;
    *module = name + head;
    return is ? n - head - tail : 0;
}

static weft_status list_modules(weft_ctx *ctx, const wefti_weights *w,
                                wefti_buffer *names, int *n_modules) {
    static const char end = '\0';
    const char *module;
    for (int i = 0; i < wefti_weights_count(w); i++) {
        size_t n = module_of(wefti_weights_spec(w, i)->name, &module);
        if (n == 0) continue;
        wefti_buffer_put(ctx, names, module, (int64_t)n);
        wefti_buffer_put(ctx, names, &end, 1);
        ++*n_modules;
    }
    if (*n_modules > 0) return names->status;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no tensor '%s...%s'",
                         wefti_weights_path(w), before, behind);
}

static weft_status read_facts(weft_ctx *ctx, const char *folder,
                              wefti_adapter_facts *facts) {
    char path[PATH_MAX], *text;
    int64_t n_bytes;
    if (!wefti_file_there(folder, "adapter_config.json", path))
        return weft_ctx_fail(
            ctx, WEFT_ERR_FILE,
            "%s has no adapter_config.json, which says what the adapter is", folder);
    WEFT_TRY(wefti_file_read(ctx, path, MAX_JSON, &text, &n_bytes));
    weft_status status = wefti_adapter_read(ctx, text, n_bytes, path, facts);
    wefti_free(ctx, text);
    return status;
}

weft_status wefti_adapter_open(weft_ctx *ctx, const char *folder,
                               wefti_adapter_facts *facts, char **modules,
                               int *n_modules) {
    wefti_weights *w;
    wefti_buffer names = {0};
    *modules = NULL;
    *n_modules = 0;
    WEFT_TRY(read_facts(ctx, folder, facts));
    WEFT_TRY(wefti_weights_open_adapter(ctx, folder, &w));
    weft_status status = list_modules(ctx, w, &names, n_modules);
    weft_status closed = wefti_weights_close(ctx, w);
    if (status == WEFT_OK) status = closed;
    if (status != WEFT_OK) wefti_buffer_fini(ctx, &names);
    if (status == WEFT_OK) *modules = names.bytes;
    return status;
}

weft_status wefti_adapter_adopt(weft_ctx *ctx, weft_config *config, const char *folder) {
    wefti_adapter_facts facts;
    char *modules, rank[32], alpha[40], dropout[40];
    int n;
    WEFT_TRY(wefti_adapter_open(ctx, folder, &facts, &modules, &n));
    snprintf(rank, sizeof rank, "%lld", (long long)facts.rank);
    wefti_number_text(facts.scale * (double)facts.rank, alpha, sizeof alpha);
    weft_status status = wefti_config_suggest(ctx, config, "adapter.rank", rank);
    if (status == WEFT_OK)
        status = wefti_config_suggest(ctx, config, "adapter.alpha", alpha);
    wefti_number_text(facts.dropout, dropout, sizeof dropout);
    if (status == WEFT_OK)
        status = wefti_config_suggest(ctx, config, "adapter.dropout", dropout);
    if (status == WEFT_OK)
        status = wefti_config_suggest_list(ctx, config, "adapter.targets", modules, n);
    if (status == WEFT_OK && facts.n_saved > 0)
        status = wefti_config_suggest_list(ctx, config, "adapter.save", facts.saved,
                                           facts.n_saved);
    wefti_free(ctx, modules);
    return status;
}

weft_status wefti_adapter_write(weft_ctx *ctx, const weft_model *model,
                                const char *folder) {
    char path[PATH_MAX], *json;
    wefti_adapter_facts facts = {.rank = wefti_model_adapter_rank(model),
                                 .scale = wefti_model_adapter_scale(model),
                                 .dropout = wefti_model_adapter_dropout(model)};
    snprintf(facts.base, sizeof facts.base, "%s", wefti_model_base(model)->folder);
    WEFT_TRY(wefti_adapter_describe(ctx, model, &facts, &json));
    snprintf(path, sizeof path, "%.4000s/adapter_config.json", folder);
    weft_status status = wefti_file_write(ctx, path, json, (int64_t)strlen(json));
    wefti_free(ctx, json);
    return status;
}

static weft_status list_targets(weft_ctx *ctx, const char *modules, int n,
                                const char ***out) {
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof **out, "modules", out));
    for (int i = 0; i < n; i++) {
        (*out)[i] = modules;
        modules += strlen(modules) + 1;
    }
    return WEFT_OK;
}

weft_status wefti_adapter_put_on(weft_ctx *ctx, const char *folder, weft_model **model) {
    wefti_adapter_facts facts;
    char *modules;
    const char **targets = NULL, **saved = NULL;
    int n;
    WEFT_TRY(wefti_adapter_open(ctx, folder, &facts, &modules, &n));
    weft_status status = list_targets(ctx, modules, n, &targets);
    if (status == WEFT_OK) status = list_targets(ctx, facts.saved, facts.n_saved, &saved);
    if (status == WEFT_OK) {
        weft_model *whole = *model;
        *model = NULL; /* taken */
        status = wefti_model_adapt(ctx, whole,
                                   &(wefti_adapting){.rank = facts.rank,
                                                     .scale = facts.scale,
                                                     .targets = targets,
                                                     .n_targets = n,
                                                     .saved = saved,
                                                     .n_saved = facts.n_saved},
                                   model);
    }
    WEFTI_FREE(ctx, targets, saved, modules);
    return status;
}

weft_status wefti_adapter_check_base(weft_ctx *ctx, const char *folder,
                                     const wefti_base *base) {
    char path[PATH_MAX], *text, is[20];
    int64_t n_bytes;
    json_t *root;
    if (!wefti_file_there(folder, "index.json", path))
        return WEFT_OK; /* not written by weft */
    WEFT_TRY(wefti_file_read(ctx, path, MAX_JSON, &text, &n_bytes));
    weft_status status = wefti_json_read(ctx, "", path, text, n_bytes, WEFT_ERR_FORMAT,
                                         &root);
    wefti_free(ctx, text);
    WEFT_TRY(status);
    const json_t *layout = json_object_get(root, "layout");
    const char *was = json_string_value(json_object_get(layout, "base"));
    snprintf(is, sizeof is, "%016" PRIx64, base->hash);
    if (was && strcmp(was, is) != 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                               "the adapters in %s were trained on a model with checksum "
                               "%.16s, but %s has %s",
                               folder, was, base->folder, is);
    json_decref(root);
    return status;
}
