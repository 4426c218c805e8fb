/* SPDX-License-Identifier: MIT */
/* The list of all commands, and what they have in common. */
#include <stddef.h>
#include <string.h>

#include <weft/train.h>

#include "common.h"

#define LISTED(name) &command_##name,
const command *const commands[] = {COMMANDS(LISTED) NULL};

const command *command_find(const char *name) {
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

int command_run(const command *c, int argc, char **argv) {
    args a;
    int code = args_parse(c, argc, argv, &a);
    weft_ctx *ctx = code == CODE_OK ? program_context() : NULL;
    if (!ctx) return code == CODE_OK ? CODE_USAGE : code;
    weft_status status = WEFT_OK;
    for (int i = 0; i < a.n_operands && status == WEFT_OK; i++)
        status = weft_address_check(ctx, a.operands[i]);
    if (status != WEFT_OK) code = program_code(ctx, status);
    if (code == CODE_OK && !c->configures) code = args_expect(&a, c->least, c->most);
    if (code == CODE_OK) code = c->run(ctx, &a);
    weft_ctx_destroy(ctx);
    return code;
}
