/* SPDX-License-Identifier: MIT */
/* `weft merge`: writes an adapter and its base model as one model. */
#include <limits.h>
#include <stdio.h>

#include <weft/inference.h>

#include "common.h"

static const flag flags[] = {
    {"-o", "FOLDER", "folder for the merged model (required)", NULL},
    {"--base", "FOLDER", "the adapter's base model, if not the one that it names", NULL},
    {NULL, NULL, NULL, NULL}};

static weft_status merge(weft_ctx *ctx, const char *path, const char *base,
                         const char *folder) {
    weft_inference *inference;
    WEFT_TRY(weft_inference_open_on(ctx, path, base, &inference));
    weft_status status = weft_inference_save(ctx, inference, folder);
    weft_inference_close(ctx, inference);
    char shown[PATH_MAX];
    if (status == WEFT_OK) printf("%s\n", plain_text(folder, shown, sizeof shown));
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    const char *folder = args_value(a, "-o");
    if (!folder) return usage_error("merge needs -o FOLDER: where the model goes");
    return program_code(ctx, merge(ctx, a->operands[0], args_value(a, "--base"), folder));
}

const command command_merge = {
    .name = "merge",
    .summary = "merge an adapter into its base model",
    .usage = "RUN -o FOLDER [--base FOLDER]",
    .help = "RUN is a run that trained adapters (adapter.rank), or any folder with an "
            "adapter in PEFT's format. FOLDER gets model.safetensors, config.json and "
            "tokenizer.json, which weft, transformers and others read. A run that "
            "trained a whole model is copied.",
    .flags = flags,
    .least = 1,
    .most = 1,
    .run = run,
};
