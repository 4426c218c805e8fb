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

extern const command command_merge;

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

static int run(int argc, char **argv) {
    args a;
    int code = args_parse(&command_merge, argc, argv, &a);
    if (code == CODE_OK) code = args_expect(&a, 1, 1);
    if (code != CODE_OK) return code;
    const char *folder = args_value(&a, "-o");
    if (!folder) return usage_error("merge needs -o FOLDER: where the model goes");
    weft_ctx *ctx = program_context();
    if (!ctx) return CODE_USAGE;
    weft_status status = merge(ctx, a.operands[0], args_value(&a, "--base"), folder);
    code = status == WEFT_OK ? CODE_OK : program_fail(ctx, status);
    weft_ctx_destroy(ctx);
    return code;
}

const command command_merge = {
    .name = "merge",
    .summary = "merge an adapter into its base model",
    .usage = "RUN -o FOLDER [--base FOLDER]",
    .help =
        "RUN is a run that trained adapters (adapter.rank), or any folder with an "
        "adapter in PEFT's format. FOLDER gets model.safetensors, config.json and "
        "tokenizer.json, which weft, transformers and others read. A run that trained "
        "a whole model is copied.",
    .flags = flags,
    .run = run,
};
