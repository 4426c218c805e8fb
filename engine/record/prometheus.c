/* SPDX-License-Identifier: MIT */
/* The text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats):
 *
 *     # HELP weft_loss nats per token of the last step
 *     # TYPE weft_loss gauge
 *     weft_loss{run="flexdemo"} 3.214
 *
 * In a label's value \\, " and the end of a line are escaped; a number that is not finite is
 * NaN, +Inf or -Inf. The file's temporary name does not end in .prom, so that a collector that
 * takes all *.prom of a folder does not see it. */
#define _GNU_SOURCE
#include "record/prometheus.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

/* The value of a label, between its quotes. */
static void put_label(weft_ctx *ctx, wefti_buffer *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            wefti_buffer_print(ctx, out, "\\%c", *text);
        else if (*text == '\n')
            wefti_buffer_text(ctx, out, "\\n");
        else
            wefti_buffer_put(ctx, out, text, 1);
    }
}

static void put_value(weft_ctx *ctx, wefti_buffer *out, double value) {
    if (isfinite(value))
        wefti_buffer_real(ctx, out, value);
    else
        wefti_buffer_text(ctx, out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
}

static void put_head(weft_ctx *ctx, wefti_buffer *out, const wefti_gauge *g) {
    wefti_buffer_print(ctx, out, "# HELP %s %s\n# TYPE %s %s\n", g->name, g->help,
                       g->name, g->counts ? "counter" : "gauge");
}

void wefti_prometheus_put(weft_ctx *ctx, wefti_buffer *out, const char *run,
                          const wefti_gauge *gauges, int n) {
    const char *before = "";
    for (int i = 0; i < n; i++) {
        const wefti_gauge *g = &gauges[i];
        if (isnan(g->value)) continue;
        if (!wefti_is(before, g->name)) put_head(ctx, out, g);
        before = g->name;
        wefti_buffer_print(ctx, out, "%s{run=\"", g->name);
        put_label(ctx, out, run);
        if (g->node) {
            wefti_buffer_text(ctx, out, "\",node=\"");
            put_label(ctx, out, g->node);
        }
        wefti_buffer_text(ctx, out, "\"} ");
        put_value(ctx, out, g->value);
        wefti_buffer_text(ctx, out, "\n");
    }
}

static weft_status fail(weft_ctx *ctx, const char *path) {
    return wefti_fail_errno(ctx, "write", path);
}

weft_status wefti_prometheus_write(weft_ctx *ctx, const char *path,
                                   const wefti_buffer *text) {
    char aside[PATH_MAX];
    WEFT_TRY(text->status);
    if (snprintf(aside, sizeof aside, "%s.tmp%ld", path, (long)getpid()) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", path);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fail(ctx, path);
    weft_status status = wefti_file_pwrite(ctx, fd, path, text->bytes, text->n, 0);
    if (close(fd) != 0 && status == WEFT_OK) status = fail(ctx, path);
    if (status == WEFT_OK && rename(aside, path) != 0) status = fail(ctx, path);
    if (status != WEFT_OK) unlink(aside);
    return status;
}
