/* SPDX-License-Identifier: MIT */
/* `weft report`: one page from one or several run folders. */
#include <weft/report.h>

#include <limits.h>

#include "common.h"

static const flag flags[] = {
    {"-o", "FILE",
     "file to write (default: RUN/report.html, or compare.html for several runs)", NULL},
    {"--trace", "FILE",
     "instead of a page: one step of all ranks, in the format of Chrome and Perfetto",
     NULL},
    {NULL, NULL, NULL, NULL}};

enum { MAX_RUNS = 64 };

/* Writes the page and says on stdout where it is. */
static weft_status write_page(weft_ctx *ctx, const args *a) {
    const char *folders[MAX_RUNS], *out = args_value(a, "-o");
    char shown[PATH_MAX];
    for (int i = 0; i < a->n_operands; i++) folders[i] = a->operands[i];
    if (a->n_operands == 1) {
        WEFT_TRY(weft_report_write(ctx, folders[0], out));
        printf("%s%s\n", plain_text(out ? out : folders[0], shown, sizeof shown),
               out ? "" : "/report.html");
        return WEFT_OK;
    }
    if (!out) out = "compare.html";
    WEFT_TRY(weft_report_compare(ctx, folders, a->n_operands, out));
    printf("%s\n", plain_text(out, shown, sizeof shown));
    return WEFT_OK;
}

static weft_status write_trace(weft_ctx *ctx, const args *a) {
    const char *out = args_value(a, "--trace");
    char shown[PATH_MAX];
    WEFT_TRY(weft_report_trace(ctx, a->operands[0], out));
    printf("%s\n", plain_text(out, shown, sizeof shown));
    return WEFT_OK;
}

static int run(weft_ctx *ctx, args *a) {
    bool trace = args_has(a, "--trace");
    if (trace && a->n_operands > 1)
        return usage_error("--trace is of one run, found %d", a->n_operands);
    if (trace && args_has(a, "-o"))
        return usage_error("-o is the page's file, --trace has its own");
    return program_code(ctx, trace ? write_trace(ctx, a) : write_page(ctx, a));
}

const command command_report = {
    .name = "report",
    .summary = "draw a run's loss, speed and bytes, or compare several runs",
    .usage = "RUN [RUN ...] [-o out.html] | RUN --trace FILE",
    .help = "Writes one HTML page that needs no network: the curves of one run, or of "
            "several runs in the same charts. For a run with --plan it shows the "
            "prediction next to the measurement. --trace writes what the threads of all "
            "ranks did in one step, for https://ui.perfetto.dev or chrome://tracing. "
            "weft watch RUN shows the same page while the run trains.",
    .flags = flags,
    .least = 1,
    .most = MAX_RUNS,
    .run = run,
};
