/* SPDX-License-Identifier: MIT */
/* What a run has from the folders of model.init and adapter.init before its first step. */
#define _GNU_SOURCE
#include "runfiles/inherit.h"

#include <limits.h>

#include "runfiles/adapterfile.h"
#include "runfiles/adopt.h"
#include "runfiles/state.h"

weft_status wefti_inherit(weft_ctx *ctx, weft_config *config, const char *saved) {
    char folder[PATH_MAX];
    if (config->adapter.init[0])
        WEFT_TRY(wefti_adapter_adopt(ctx, config, saved ? saved : config->adapter.init));
    if (!config->model.init[0]) return WEFT_OK;
    weft_status found = wefti_state_locate(ctx, config->model.init, folder);
    if (saved && wefti_adapter_here(saved)) saved = NULL; /* base is needed */
    if (found != WEFT_OK && !saved) return found;
    if (found == WEFT_OK && wefti_adapter_here(folder))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "model.init is %s, which holds an adapter and no whole model; "
            "weft merge makes one of it, and adapter.init goes on from it",
            folder);
    if (found != WEFT_OK) weft_ctx_clear(ctx);
    WEFT_TRY(wefti_adopt_model(ctx, config, saved ? saved : folder));
    return found == WEFT_OK ? wefti_adopt_tokenizer(ctx, config, folder) : WEFT_OK;
}
