/* SPDX-License-Identifier: MIT */
/* weft witness: decides which half of a cut run continues; runs until it is stopped.
 * Every vote is written to its file before it is sent, so the witness may be killed at
 * any time. */
#include <stdio.h>

#include <weft/witness.h>

#include "common.h"

static const flag flags[] = {
    {"--listen", "PORT", "port at which runs connect (default 29600)", NULL},
    {"--votes", "FILE", "file for its votes (default weft-witness.votes)", NULL},
    {NULL, NULL, NULL, NULL}};

static weft_status serve(weft_ctx *ctx, const weft_witness_setup *setup) {
    weft_witness *witness;
    WEFT_TRY(weft_witness_open(ctx, setup, &witness));
    int runs = weft_witness_runs(witness);
    fprintf(stderr, "weft: a witness at port %d; votes of %d run%s in %s\n", setup->port,
            runs, runs == 1 ? "" : "s", setup->votes);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) status = weft_witness_serve(ctx, witness, 3600);
    weft_witness_close(witness);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    long long port = WEFT_WITNESS_PORT;
    int code = args_plain(a, "--listen", 1, 65535, &port);
    if (code != CODE_OK) return code;
    const char *votes = args_value(a, "--votes");
    weft_config *config = NULL;
    weft_mesh_security security = {.struct_size = sizeof security};
    weft_status status = security_of_args(ctx, a, &config, &security);
    weft_witness_setup setup = {.struct_size = sizeof setup,
                                .port = (int)port,
                                .votes = votes ? votes : "weft-witness.votes",
                                .security = &security};
    if (status == WEFT_OK) status = serve(ctx, &setup);
    weft_config_destroy(ctx, config);
    return program_code(ctx, status);
}

const command command_witness = {
    .name = "witness",
    .summary = "decide which half of a run continues when its network is cut",
    .usage = "[run.yaml] [key=value ...] [--listen PORT] [--votes FILE]",
    .help =
        "Runs on a third machine; it does not train and needs very few resources. If "
        "the network of a run is cut so that exactly half of its processes hear each "
        "other (for example, two machines whose link is down), they ask the witness. It "
        "gives one vote: the half that asks first continues, the other one waits "
        "(elastic.pause) and joins again later. While more than half hear each other, "
        "nobody asks the witness, and it may be down.\n\n"
        "The processes of the run name it by elastic.witness=HOST:PORT. It takes "
        "mesh.key, mesh.run, mesh.cert, mesh.encrypt from its own configuration. They "
        "must be equal to the run's; any number of runs with the same values may use "
        "it.\n\n"
        "A vote is written to FILE before it is given. Keep the file when the witness is "
        "started again: a witness that has lost its votes could give one twice. It runs "
        "until it is stopped by Ctrl-C. docs/membership.md says when a run needs one.",
    .examples = "witness mesh.key=run.key",
    .flags = flags,
    .configures = true,
    .run = run,
};
