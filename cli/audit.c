/* SPDX-License-Identifier: MIT */
/* `weft audit`: computes a run again, and finds who sent something else than it should. */
#include <weft/train.h>

#include <limits.h>
#include <math.h>

#include "common.h"
#include "progress.h"

static const flag flags[] = {
    {"--step", "T", "only this step, from the newest checkpoint before it", NULL},
    {"--json", NULL, "one JSON object", NULL},
    {"--quiet", NULL, "no progress", NULL},
    {NULL, NULL, NULL, NULL}};

static int show(const char *folder, bool json, const weft_replay_result *r,
                const char *sentence) {
    if (json)
        return say_json(json_pack("{s:s, s:I, s:I, s:I, s:i, s:s}", "run", folder,
                                  "steps", (json_int_t)r->steps, "digests",
                                  (json_int_t)r->digests, "wrong_step",
                                  (json_int_t)r->wrong_step, "wrong_node", r->wrong_node,
                                  "sentence", sentence));
    if (r->wrong_step > 0) {
        printf("%s\n", sentence);
        return CODE_OK;
    }
    printf("computed again   %lld steps of %s in %.1f s\n", (long long)r->steps, folder,
           r->elapsed_s);
    printf("the same         %lld digests of what a rank sent in a step\n",
           (long long)r->digests);
    return CODE_OK;
}

static void show_step(void *user, const weft_step_record *record) {
    (void)user;
    const progress_state state = {.step = record->step,
                                  .total = record->steps,
                                  .loss = record->loss,
                                  .tokens_per_s = record->tokens_per_s,
                                  .wire_bytes_per_step = NAN,
                                  .wait_share = NAN,
                                  .eta_s = record->left_s,
                                  .against_plan = NAN,
                                  .phase = "audit"};
    progress_update(&state);
}

static int run(weft_ctx *ctx, args *a) {
    long long step = 0;
    char shown[PATH_MAX], sentence[2048] = "";
    int code = args_int(a, "--step", 1, LLONG_MAX / 2, &step);
    if (code != CODE_OK) return code;
    bool json = args_has(a, "--json"), bar = !json && !args_has(a, "--quiet");
    const weft_train_hooks hooks = {.struct_size = sizeof hooks, .on_step = show_step};
    weft_replay_result result = {.struct_size = sizeof result};
    if (bar) progress_begin(0);
    weft_status status = weft_audit(ctx, a->operands[0], step, bar ? &hooks : NULL,
                                    &result);
    if (bar) progress_end();
    plain_text(a->operands[0], shown, sizeof shown);
    bool found = result.wrong_step > 0;
    if (status != WEFT_OK && !found) return program_code(ctx, status);
    if (found) plain_text(weft_ctx_message(ctx), sentence, sizeof sentence);
    code = show(shown, json, &result, sentence);
    return code == CODE_OK && found ? CODE_FAILED : code;
}

const command command_audit = {
    .name = "audit",
    .summary = "find the first step in which a rank sent something wrong",
    .usage = "RUN [--step T] [--json] [--quiet]",
    .help = "Computes a run of weft train with run.audit=true again, with its members "
            "and text, and compares what each rank sent in each step with the digests "
            "that the ranks sent each other then. Names the first step that differs, and "
            "the node that made it. Exits with 1 then. The last steps of a run, and "
            "those before a change of its members, have no digests. A node that tells "
            "the digest of another message than it sends is not found.",
    .flags = flags,
    .least = 1,
    .most = 1,
    .run = run,
};
