/* SPDX-License-Identifier: MIT */
/* `weft verify`: checks that the files of a run folder are intact. */
#include <weft/verify.h>

#include <limits.h>

#include "common.h"

static const flag flags[] = {{"--json", NULL, "one JSON object per run", NULL},
                             {NULL, NULL, NULL, NULL}};

enum { MAX_RUNS = 64 };

static void print_item(void *user, const weft_verify_item *item) {
    (void)user;
    char name[256], sentence[2048];
    printf("  %-7s  %-28s  %s\n", item->whole ? "ok" : "DAMAGED",
           plain_text(item->name, name, sizeof name),
           plain_text(item->sentence, sentence, sizeof sentence));
}

static void keep_item(void *user, const weft_verify_item *item) {
    json_array_append_new(user, json_pack("{s:s, s:b, s:s}", "name", item->name, "whole",
                                          item->whole, "sentence", item->sentence));
}

static int run(weft_ctx *ctx, args *a) {
    int code = CODE_OK, all_damaged = 0;
    for (int i = 0; i < a->n_operands && code == CODE_OK; i++) {
        int n_damaged;
        char shown[PATH_MAX];
        json_t *items = args_has(a, "--json") ? json_array() : NULL;
        plain_text(a->operands[i], shown, sizeof shown);
        if (!items) printf("%s\n", shown);
        weft_status status = weft_verify_run(
            ctx, a->operands[i], items ? keep_item : print_item, items, &n_damaged);
        if (status != WEFT_OK)
            code = program_code(ctx, status);
        else
            all_damaged += n_damaged;
        if (code == CODE_OK && items)
            code = say_json(json_pack("{s:s, s:i, s:O}", "run", shown, "damaged",
                                      n_damaged, "parts", items));
        json_decref(items);
    }
    if (code == CODE_OK && all_damaged > 0) return CODE_FAILED;
    return code;
}

const command command_verify = {
    .name = "verify",
    .summary = "check that all files of a run folder are intact",
    .usage = "RUN [RUN ...] [--json]",
    .help = "Reads the configuration, every line of the metrics and every byte of every "
            "checkpoint, compares the hashes, and says for each part whether it is "
            "intact. Changes nothing. Exits with 1 if something is damaged; weft train "
            "--resume continues from the newest intact checkpoint.",
    .flags = flags,
    .least = 1,
    .most = MAX_RUNS,
    .run = run,
};
