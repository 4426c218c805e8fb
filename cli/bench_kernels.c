/* SPDX-License-Identifier: MIT */
/* weft bench kernels: a table of the kernels of a step, JSON, and a roofline (Williams et al.
 * 2009) as SVG:
 *
 *     x   FLOP per byte that has to pass between the cache and memory
 *     y   FLOP per second; no kernel that reads its numbers from memory can be above
 *         min(peak, x * stream), which is drawn as a line
 *     a dot's area is the kernel's share of the step */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/bench.h>

#include "common.h"
#include "figures.h"

static void print_text(const weft_kernel_speeds *s) {
    char time[32];
    printf("model     %s, %lld parameters; %lld sequences of %lld positions\n", s->model,
           (long long)s->parameters, (long long)s->sequences, (long long)s->positions);
    printf("machine   %d thread%s, %s kernels, %s: %.0f GFLOP/s in registers, %.1f GB/s "
           "through memory\n",
           s->threads, s->threads == 1 ? "" : "s", s->kernels, s->precision,
           s->peak_flops / 1e9, s->stream_Bps / 1e9);
    printf("step      %s (%.4f to %.4f s): products %.1f %%, other kernels %.1f %%, the "
           "rest %.1f %%\n\n",
           time_text(s->step_s.median, time, sizeof time), s->step_s.min, s->step_s.max,
           100 * s->products_share, 100 * (s->kernels_share - s->products_share),
           100 * (1 - s->kernels_share));
    printf("%-44s %6s %10s %9s %8s %7s %8s\n", "kernel", "calls", "a call", "GFLOP/s",
           "GB/s", "step %", "limit %");
    for (int i = 0; i < s->n_kernels; i++) {
        const weft_kernel_speed *k = &s->of[i];
        double t = k->call_s.median;
        printf("%-44s %6lld %10s %9.1f %8.1f %7.2f %8.1f\n", k->name, (long long)k->calls,
               time_text(t, time, sizeof time), k->flop / t / 1e9, k->bytes / t / 1e9,
               100 * k->share_of_step, 100 * k->share_of_limit);
    }
}

static void print_json(const weft_kernel_speeds *s) {
    char text[32];
    printf("{\"model\": \"%s\", \"parameters\": %lld, \"sequences\": %lld, "
           "\"positions\": %lld, \"threads\": %d, \"kernels\": \"%s\", "
           "\"precision\": \"%s\", ",
           s->model, (long long)s->parameters, (long long)s->sequences,
           (long long)s->positions, s->threads, s->kernels, s->precision);
    printf("\"peak_flops\": %.6g, \"stream_Bps\": %.6g, \"step_s\": %.6g, "
           "\"step_s_min\": %.6g, \"step_s_max\": %.6g, \"products_share\": %.4g, "
           "\"kernels_share\": %.4g, \"of\": [",
           s->peak_flops, s->stream_Bps, s->step_s.median, s->step_s.min, s->step_s.max,
           s->products_share, s->kernels_share);
    for (int i = 0; i < s->n_kernels; i++) {
        const weft_kernel_speed *k = &s->of[i];
        printf("%s{\"name\": \"%s\", \"calls\": %lld, \"flop\": %.6g, \"bytes\": %.6g, "
               "\"call_s\": %.6g, \"call_s_min\": %.6g, \"call_s_max\": %.6g, "
               "\"share_of_step\": %.4g, \"share_of_limit\": %s}",
               i ? ", " : "", k->name, (long long)k->calls, k->flop, k->bytes,
               k->call_s.median, k->call_s.min, k->call_s.max, k->share_of_step,
               real_text(k->share_of_limit, text, sizeof text));
    }
    printf("]}\n");
}

/* ---- the roofline ---- */

enum { WIDTH = 940, HEIGHT = 520, LEFT = 70, RIGHT = 330, TOP = 40, BOTTOM = 60 };

/* Decades of the two axes. */
typedef struct axes {
    double x_low, x_high, y_low, y_high;
} axes;

static double x_of(const axes *a, double x) {
    return LEFT + (log10(x) - a->x_low) / (a->x_high - a->x_low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const axes *a, double y) {
    return HEIGHT - BOTTOM -
           (log10(y) - a->y_low) / (a->y_high - a->y_low) * (HEIGHT - TOP - BOTTOM);
}

static bool is_drawn(const weft_kernel_speed *k) {
    return k->flop > 0 && k->bytes > 0 && k->call_s.median > 0;
}

static axes axes_of(const weft_kernel_speeds *s) {
    double y = log10(s->peak_flops) + 0.3;
    axes a = {-1.5, 3.5, y - 0.3 - 3, y};
    for (int i = 0; i < s->n_kernels; i++) {
        const weft_kernel_speed *k = &s->of[i];
        if (!is_drawn(k)) continue;
        double intensity = log10(k->flop / k->bytes);
        double rate = log10(k->flop / k->call_s.median);
        if (intensity < a.x_low + 0.1) a.x_low = intensity - 0.1;
        if (intensity > a.x_high - 0.1) a.x_high = intensity + 0.1;
        if (rate < a.y_low + 0.1) a.y_low = rate - 0.1;
    }
    return a;
}

static void draw_axes(FILE *f, const axes *a) {
    for (int d = (int)ceil(a->x_low); d <= a->x_high; d++) {
        double x = x_of(a, pow(10, d));
        fprintf(f, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>",
                x, x, TOP, HEIGHT - BOTTOM);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x,
                HEIGHT - BOTTOM + 18, pow(10, d));
    }
    for (int d = (int)ceil(a->y_low); d <= a->y_high; d++) {
        double y = y_of(a, pow(10, d));
        fprintf(f, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                LEFT, WIDTH - RIGHT, y, y);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8,
                y + 4, pow(10, d - 9));
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">FLOP per byte</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18);
    fprintf(f, "<text x=\"16\" y=\"%d\">GFLOP/s</text>\n", TOP - 14);
}

static void draw_limits(FILE *f, const weft_kernel_speeds *s, const axes *a) {
    double ridge = s->peak_flops / s->stream_Bps, low = pow(10, a->x_low);
    double start = low * s->stream_Bps, floor = pow(10, a->y_low);
    if (start < floor) {
        start = floor;
        low = floor / s->stream_Bps;
    }
    fprintf(f, "<polyline class=\"limit\" points=\"%.1f,%.1f %.1f,%.1f %d,%.1f\"/>\n",
            x_of(a, low), y_of(a, start), x_of(a, ridge), y_of(a, s->peak_flops),
            WIDTH - RIGHT, y_of(a, s->peak_flops));
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f GFLOP/s</text>\n",
            WIDTH - RIGHT - 4, y_of(a, s->peak_flops) - 6, s->peak_flops / 1e9);
}

/* Lists the kernels in order of their share of the step, the longest first, each with its
 * number. */
static void draw_kernels(FILE *f, const weft_kernel_speeds *s, const axes *a) {
    int row = 0;
    for (int i = 0; i < s->n_kernels && row < 22; i++) {
        const weft_kernel_speed *k = &s->of[i];
        if (!is_drawn(k)) continue;
        double x = x_of(a, k->flop / k->bytes), y = y_of(a, k->flop / k->call_s.median);
        row++;
        fprintf(
            f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>%s</title></circle>", x,
            y, 3 + 40 * sqrt(k->share_of_step > 0 ? k->share_of_step / 4 : 0), k->name);
        fprintf(f, "<text class=\"number\" x=\"%.1f\" y=\"%.1f\">%d</text>\n", x, y + 3,
                row);
        fprintf(f, "<text x=\"%d\" y=\"%d\">%d  %s, %.1f %%</text>\n", WIDTH - RIGHT + 14,
                TOP + 18 * row, row, k->name, 100 * k->share_of_step);
    }
}

static weft_status draw(weft_ctx *ctx, const weft_kernel_speeds *s, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s can not be written: %s", path,
                             strerror(errno));
    axes a = axes_of(s);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n<style>text{font:11px sans-serif;fill:#222}"
            ".grid{stroke:#ddd}.limit{fill:none;stroke:#b33;stroke-width:2}"
            "circle{fill:#36c;fill-opacity:.45}.number{text-anchor:middle;font-size:9px}"
            "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f, "<text x=\"%d\" y=\"18\">%s, %s, %d threads, %s kernels</text>\n", LEFT,
            s->model, s->precision, s->threads, s->kernels);
    draw_axes(f, &a);
    draw_limits(f, s, &a);
    draw_kernels(f, s, &a);
    fprintf(f, "</svg>\n");
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s can not be written", path);
    return WEFT_OK;
}

static weft_status measure(weft_ctx *ctx, const args *a,
                           const weft_bench_kernels_options *o, weft_kernel_speeds *out) {
    weft_config *config = NULL;
    weft_status status = config_of_args(ctx, a, &config);
    if (status == WEFT_OK) status = weft_bench_kernels(ctx, config, o, out);
    weft_config_destroy(ctx, config);
    return status;
}

int bench_kernels(weft_ctx *ctx, const args *a, long long steps, long long warmup) {
    weft_kernel_speeds *s = calloc(1, sizeof *s);
    if (!s) return usage_error("no memory left to start");
    s->struct_size = sizeof *s;
    const char *svg = args_value(a, "--svg");
    weft_bench_kernels_options o = {.struct_size = sizeof o, steps, warmup};
    weft_status status = measure(ctx, a, &o, s);
    if (status == WEFT_OK && svg) status = draw(ctx, s, svg);
    if (status == WEFT_OK) (args_has(a, "--json") ? print_json : print_text)(s);
    free(s);
    return program_code(ctx, status);
}
