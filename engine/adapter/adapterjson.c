/* SPDX-License-Identifier: MIT */
/* adapter_config.json, as PEFT's LoraConfig reads and writes it:
 *
 *     peft_type "LORA", r, lora_alpha    W = W0 + lora_alpha / r B A; / sqrt(r): use_rslora
 *     target_modules                     names or last parts of names of modules
 *     modules_to_save                    the same for modules that are trained in full
 *     init_lora_weights                  initializations that also change the base: refused
 *     lora_dropout                       of the adapters' inputs, in training
 *     base_model_name_or_path            the model that it belongs to
 *
 * When reading, the modules are taken from the tensors, not from this file, so its patterns need
 * not be interpreted. Keys that would change the computation are refused unless they are off. */
#include "adapter/adapterjson.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/json.h"
#include "adapter/adapted.h"
#include "adapter/patterns.h"

/* ---- reading ---- */

static bool is_off(const json_t *value) {
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_array(value) && json_array_size(value) == 0;
}

/* Refuses initializations that also changed the base: PiSSA, OLoRA and others subtract
 * the initial product from W0, and PEFT does so again whenever it loads the adapter. */
static weft_status check_beginning(weft_ctx *ctx, const json_t *root, const char *path) {
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
    const char *name = json_string_value(json_object_get(root, "init_lora_weights"));
    bool known = !name;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0] && name; i++)
        known |= strcmp(name, harmless[i]) == 0;
    if (known) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s: init_lora_weights is '%.20s', which changes the base "
                         "model, expected true, false, gaussian, orthogonal or eva",
                         path, name);
}

static weft_status check_off(weft_ctx *ctx, const json_t *root, const char *path) {
    static const char *const keys[] = {"use_dora",          "use_qalora",
                                       "use_bdlora",        "lora_bias",
                                       "rank_pattern",      "alpha_pattern",
                                       "layer_replication", "arrow_config",
                                       "velora_config",     "kasa_config",
                                       "target_parameters", "trainable_token_indices",
                                       "monteclora_config", "alora_invocation_tokens"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!is_off(json_object_get(root, keys[i])))
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "%s asks for %s, expected LoRA's two matrices and "
                                 "modules_to_save alone",
                                 path, keys[i]);
    WEFT_TRY(check_beginning(ctx, root, path));
    const char *bias = json_string_value(json_object_get(root, "bias"));
    if (!bias || strcmp(bias, "none") == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s: bias is '%.20s', expected 'none'",
                         path, bias);
}

static weft_status take_saved(weft_ctx *ctx, const json_t *root, const char *path,
                              wefti_adapter_facts *out) {
    const json_t *list = json_object_get(root, "modules_to_save");
    size_t n = 0;
    if (is_off(list)) return WEFT_OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        size_t length = name ? strlen(name) + 1 : 0;
        if (length < 2 || length > sizeof out->saved - n) {
            n = 0;
            break;
        }
        memcpy(out->saved + n, name, length);
        n += length;
        out->n_saved++;
    }
    if (n > 0) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_FORMAT,
        "%s: modules_to_save is no list of names of modules, of %d bytes in all", path,
        (int)sizeof out->saved);
}

static weft_status take_facts(weft_ctx *ctx, const json_t *root, const char *path,
                              wefti_adapter_facts *out) {
    enum { RANK_MAX = 1 << 16 };
    const char *type = json_string_value(json_object_get(root, "peft_type"));
    const char *base = json_string_value(
        json_object_get(root, "base_model_name_or_path"));
    const json_t *r = json_object_get(root, "r");
    double alpha = json_number_value(json_object_get(root, "lora_alpha"));
    *out = (wefti_adapter_facts){.rank = json_integer_value(r)};
    out->dropout = json_number_value(json_object_get(root, "lora_dropout"));
    if (!type || strcmp(type, "LORA") != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: peft_type is '%.40s', expected 'LORA'", path,
                             type ? type : "");
    if (!json_is_integer(r) || out->rank < 1 || out->rank > RANK_MAX || !(alpha > 0))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: r is %lld and lora_alpha %g, expected a rank from 1 to "
                             "%d and a positive number",
                             path, (long long)out->rank, alpha, (int)RANK_MAX);
    if (!(out->dropout >= 0 && out->dropout < 1))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: lora_dropout is %g, expected at least 0 and below 1",
                             path, out->dropout);
    double rank = (double)out->rank;
    bool root_scale = json_is_true(json_object_get(root, "use_rslora"));
    out->scale = alpha / (root_scale ? sqrt(rank) : rank);
    if (base && strlen(base) >= sizeof out->base)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: base_model_name_or_path is too long", path);
    snprintf(out->base, sizeof out->base, "%s", base ? base : "");
    WEFT_TRY(take_saved(ctx, root, path, out));
    return check_off(ctx, root, path);
}

weft_status wefti_adapter_read(weft_ctx *ctx, const char *text, int64_t n_bytes,
                               const char *path, wefti_adapter_facts *out) {
    json_t *root;
    WEFT_TRY(wefti_json_read(ctx, "", path, text, n_bytes, WEFT_ERR_FORMAT, &root));
    weft_status status = take_facts(ctx, root, path, out);
    json_decref(root);
    return status;
}

/* ---- writing ---- */

static const char *last_part(const char *module) {
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

/* Whether all modules of the whole model whose names end in `last` have an adapter. */
static bool all_have(const weft_model *model, const char *last) {
    const weft_model *whole = wefti_model_whole(model);
    char module[WEFTI_MODULE_NAME];
    for (int i = 0; i < whole->n_params; i++) {
        const wefti_param *param = &whole->params[i];
        wefti_param_module(param, module);
        if (strcmp(last_part(module), last) != 0 || param->ndim != 2) continue;
        if (!wefti_model_is_adapted(model, param)) return false;
    }
    return true;
}

static bool holds(const json_t *list, const char *text) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0) return true;
    return false;
}

/* Lists the modules: the last part of the name if it is unambiguous, else the whole name;
 * each once. False: no memory. */
static bool list_modules(const weft_model *model, json_t *list, bool *transposed) {
    const weft_model *whole = wefti_model_whole(model);
    char module[WEFTI_MODULE_NAME];
    bool fine = list != NULL;
    for (int i = 0; i < whole->n_params && fine; i++) {
        const wefti_param *param = &whole->params[i];
        if (!wefti_model_is_adapted(model, param)) continue;
        *transposed |= param->cols_are_outputs;
        wefti_param_module(param, module);
        const char *name = all_have(model, last_part(module)) ? last_part(module)
                                                              : module;
        if (!holds(list, name))
            fine = json_array_append_new(list, json_string(name)) == 0;
    }
    return fine;
}

/* Full names of the modules that are trained in full, each once; null: there are none. */
static json_t *saved_modules(const weft_model *model) {
    const weft_model *whole = wefti_model_whole(model);
    char module[WEFTI_MODULE_NAME];
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; i < whole->n_params && fine; i++) {
        if (!wefti_model_is_saved(model, &whole->params[i])) continue;
        snprintf(module, sizeof module, "%s",
                 wefti_param_adapter_name(&whole->params[i]));
        char *dot = strrchr(module, '.');
        if (dot) *dot = '\0';
        if (!holds(list, module))
            fine = json_array_append_new(list, json_string(module)) == 0;
    }
    if (fine && json_array_size(list) > 0) return list;
    json_decref(list);
    return fine ? json_null() : NULL; /* NULL means no memory when the object is packed */
}

static json_t *task_of(const weft_model *model) {
    switch (model->ops->input) {
    case WEFTI_INPUT_TEXT: return json_string("CAUSAL_LM");
    case WEFTI_INPUT_PAIRS: return json_string("SEQ_2_SEQ_LM");
    case WEFTI_INPUT_IMAGES: break;
    }
    return json_null();
}

weft_status wefti_adapter_describe(weft_ctx *ctx, const weft_model *model,
                                   const wefti_adapter_facts *facts, char **json) {
    bool transposed = false;
    json_t *modules = json_array();
    bool fine = list_modules(model, modules, &transposed);
    double alpha = facts->scale * (double)facts->rank;
    json_t *root = json_pack(
        "{s:s, s:o, s:s, s:o, s:s, s:b, s:b, s:b, s:f, s:f, s:o, s:I, s:b}", "peft_type",
        "LORA", "task_type", task_of(model), "base_model_name_or_path", facts->base,
        "target_modules", modules, "bias", "none", "fan_in_fan_out", (int)transposed,
        "inference_mode", 1, "init_lora_weights", 1, "lora_alpha", alpha, "lora_dropout",
        facts->dropout, "modules_to_save", saved_modules(model), "r",
        (json_int_t)facts->rank, "use_rslora", 0);
    int64_t n_bytes;
    weft_status status = wefti_json_text(ctx, fine ? root : NULL, JSON_INDENT(2), json,
                                         &n_bytes);
    json_decref(root);
    return status;
}
