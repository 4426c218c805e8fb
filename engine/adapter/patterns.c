/* SPDX-License-Identifier: MIT */
/* Texts that name parameters:
 *
 *     @matrices, all-linear           matrices of products inside blocks; the second is PEFT's name
 *     *.layers.[01].*                 fnmatch over the parameter's name
 *     q_proj, self_attn.q_proj        the last parts of a module's name (targets)
 *     lm_head, norm                   the end of a module's name, whatever is before it, as PEFT
 *                                     takes modules_to_save: norm is input_layernorm, too */
#include "adapter/patterns.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static bool same(const char *a, const char *b) { return strcmp(a, b) == 0; }

void wefti_param_module(const wefti_param *param, char out[WEFTI_MODULE_NAME]) {
    static const char end[] = ".weight";
    size_t n = strlen(param->file.name), m = sizeof end - 1;
    bool ends = n > m && same(param->file.name + n - m, end);
    snprintf(out, WEFTI_MODULE_NAME, "%.*s", (int)(ends ? n - m : n), param->file.name);
}

const char *wefti_param_adapter_name(const wefti_param *param) {
    return same(param->file.name, "embed_out.weight") ? "lm_head.weight"
                                                      : param->file.name;
}

/* Whether a pattern matches the module of the tensor with that name. */
static bool names_module(const char *pattern, const char *tensor) {
    char module[WEFTI_MODULE_NAME];
    snprintf(module, sizeof module, "%s", tensor);
    char *dot = strrchr(module, '.'); /* after it: weight or bias */
    if (dot) *dot = '\0';
    size_t n = strlen(module), m = strlen(pattern);
    return (n >= m && same(module + n - m, pattern)) || fnmatch(pattern, module, 0) == 0;
}

bool wefti_param_is_of_module(const char *pattern, const wefti_param *param) {
    return names_module(pattern, param->file.name) ||
           names_module(pattern, wefti_param_adapter_name(param));
}

bool wefti_param_is_target(const char *pattern, const wefti_param *param) {
    char module[WEFTI_MODULE_NAME];
    if (!param->hidden) return false;
    if (same(pattern, "@matrices") || same(pattern, "all-linear")) return true;
    wefti_param_module(param, module);
    size_t n = strlen(module), m = strlen(pattern);
    bool last = n > m && module[n - m - 1] == '.' && same(module + n - m, pattern);
    return last || fnmatch(pattern, module, 0) == 0;
}
