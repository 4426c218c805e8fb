/* SPDX-License-Identifier: MIT */
/* Speed-up over the wire's rate as SVG, both axes logarithmic: one curve per method, a
 * line at one node's speed and one at the wire's rate.
 *
 *     x = LEFT + (log rate - log lowest) / (log highest - log lowest) (RIGHT - LEFT)
 *     y likewise upwards; speed-ups below a thousandth are cut off
 *
 * All coordinates are whole numbers of a tenth of a pixel, so that the file has the same bytes
 * on every machine. */
#include <math.h>

#include "base/buffer.h"
#include "base/file.h"
#include "planner/advise.h"

enum { WIDTH = 9000, HEIGHT = 5200, LEFT = 700, RIGHT = 6300, TOP = 600, BOTTOM = 4500 };
enum { N_COLOURS = 8, ROW = 260 };

static const char *const colours[N_COLOURS] = {"2a67d8", "e06c1f", "1a936f", "8a56d6",
                                               "d13b7d", "0e93a6", "a17a0c", "7c8592"};

static const char style[] =
    "<style>text{font:130px system-ui,sans-serif;fill:#626b79}.title{font-size:190px;"
    "fill:#171a1f}.mid{text-anchor:middle}.end{text-anchor:end}.grid{stroke:#e4e7eb;"
    "stroke-width:8}.axis{stroke:#626b79;stroke-width:12}.one{stroke:#171a1f;"
    "stroke-width:12;stroke-dasharray:60 40}.now{stroke:#171a1f;stroke-width:12;"
    "stroke-dasharray:15 40}polyline{fill:none;stroke-width:28;stroke-linejoin:round}"
    "</style>\n";

typedef struct drawing {
    const weft_advice *advice;
    double low, high;   /* log10 of the speed-ups */
    double left, right; /* log10 of the rates */
} drawing;

static int place_x(const drawing *d, double rate_Bps) {
    double share = (log10(rate_Bps) - d->left) / (d->right - d->left);
    return LEFT + (int)lround(share * (RIGHT - LEFT));
}

static int place_y(const drawing *d, double speedup) {
    double share = (log10(speedup) - d->low) / (d->high - d->low);
    return BOTTOM - (int)lround(share * (BOTTOM - TOP));
}

/* Speed-ups below a thousandth are cut off. */
static double shown(double speedup) { return speedup < 1e-3 ? 1e-3 : speedup; }

static void find_frame(drawing *d) {
    const weft_advice *a = d->advice;
    double least = 1, most = 1;
    for (int64_t i = 0; i < a->n_curves * a->n_bandwidths; i++) {
        least = fmin(least, shown(a->speedups[i]));
        most = fmax(most, a->speedups[i]);
    }
    d->low = floor(log10(least));
    d->high = log10(most) + 0.1;
    d->left = log10(a->bandwidths[0]);
    d->right = log10(a->bandwidths[a->n_bandwidths - 1]);
}

static void put_line(weft_ctx *ctx, wefti_buffer *s, const char *class, int x1, int y1,
                     int x2, int y2) {
    wefti_buffer_print(ctx, s,
                       "<line class=\"%s\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
                       class, x1, y1, x2, y2);
}

static void put_axes(weft_ctx *ctx, wefti_buffer *s, const drawing *d) {
    static const int digits[] = {1, 2, 5};
    char label[32];
    for (int k = 0; k <= 5; k++) {
        double rate = d->advice->bandwidths[0] * pow(10, k);
        int x = place_x(d, rate);
        put_line(ctx, s, "grid", x, TOP, x, BOTTOM);
        wefti_buffer_print(ctx, s, "<text class=\"mid\" x=\"%d\" y=\"%d\">%s</text>\n", x,
                           BOTTOM + 220, wefti_rate_text(rate, label, sizeof label));
    }
    for (int power = (int)d->low; power <= (int)ceil(d->high); power++)
        for (int i = 0; i < 3; i++) {
            double value = digits[i] * pow(10, power);
            bool fits = log10(value) >= d->low - 1e-9 && log10(value) <= d->high;
            if (!fits || (i > 0 && d->high - d->low > 2.5)) continue;
            int y = place_y(d, value), decimals = power < 0 ? -power : 0;
            put_line(ctx, s, "grid", LEFT, y, RIGHT, y);
            wefti_buffer_print(ctx, s, "<text class=\"end\" x=\"%d\" y=\"%d\">",
                               LEFT - 80, y + 45);
            if (decimals)
                wefti_buffer_print(ctx, s, "0.%0*d x</text>\n", decimals, digits[i]);
            else
                wefti_buffer_print(ctx, s, "%d x</text>\n", (int)lround(value));
        }
    put_line(ctx, s, "axis", LEFT, BOTTOM, RIGHT, BOTTOM);
}

static void put_escaped(weft_ctx *ctx, wefti_buffer *s, const char *words) {
    for (; *words; words++) {
        if (*words == '<')
            wefti_buffer_print(ctx, s, "&lt;");
        else if (*words == '&')
            wefti_buffer_print(ctx, s, "&amp;");
        else
            wefti_buffer_print(ctx, s, "%c", *words);
    }
}

static void put_curve(weft_ctx *ctx, wefti_buffer *s, const drawing *d,
                      const weft_candidate *c) {
    const weft_advice *a = d->advice;
    const char *colour = colours[c->curve % N_COLOURS];
    const double *row = a->speedups + c->curve * a->n_bandwidths;
    int y = TOP + 100 + ROW * (int)c->curve;
    wefti_buffer_print(ctx, s, "<polyline stroke=\"#%s\"%s points=\"", colour,
                       c->curve < N_COLOURS ? "" : " stroke-dasharray=\"90 50\"");
    for (int64_t i = 0; i < a->n_bandwidths; i++)
        wefti_buffer_print(ctx, s, "%s%d,%d", i ? " " : "", place_x(d, a->bandwidths[i]),
                           place_y(d, shown(row[i])));
    wefti_buffer_print(ctx, s,
                       "\"/>\n<polyline stroke=\"#%s\"%s points=\"%d,%d %d,%d\"/>\n",
                       colour, c->curve < N_COLOURS ? "" : " stroke-dasharray=\"90 50\"",
                       RIGHT + 150, y - 45, RIGHT + 450, y - 45);
    wefti_buffer_print(ctx, s, "<text x=\"%d\" y=\"%d\">", RIGHT + 530, y);
    put_escaped(ctx, s, c->name);
    wefti_buffer_print(ctx, s, ", %lld nodes%s</text>\n", (long long)c->nodes,
                       c->shards == 1 && c->ranks_per_node > 1 ? ", copies" : "");
}

static void write_drawing(weft_ctx *ctx, wefti_buffer *s, const drawing *d) {
    const weft_advice *a = d->advice;
    wefti_buffer_print(ctx, s,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                       "width=\"%d\" height=\"%d\">\n%s<rect width=\"%d\" height=\"%d\" "
                       "fill=\"#fff\"/>\n",
                       WIDTH, HEIGHT, WIDTH / 10, HEIGHT / 10, style, WIDTH, HEIGHT);
    wefti_buffer_print(ctx, s,
                       "<text class=\"title\" x=\"%d\" y=\"330\">Speed over one node "
                       "alone, by the rate of the wire</text>\n",
                       LEFT);
    put_axes(ctx, s, d);
    put_line(ctx, s, "one", LEFT, place_y(d, 1), RIGHT, place_y(d, 1));
    double now = a->wire.bandwidth_Bps;
    if (now >= a->bandwidths[0] && now <= a->bandwidths[a->n_bandwidths - 1])
        put_line(ctx, s, "now", place_x(d, now), TOP, place_x(d, now), BOTTOM);
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (a->candidates[i].curve >= 0) put_curve(ctx, s, d, &a->candidates[i]);
    wefti_buffer_print(ctx, s,
                       "<text class=\"mid\" x=\"%d\" y=\"%d\">rate of the wire (dotted: "
                       "this cluster's; dashed: one node)</text>\n</svg>\n",
                       (LEFT + RIGHT) / 2, BOTTOM + 500);
}

weft_status weft_advice_draw(weft_ctx *ctx, const weft_advice *advice, const char *path) {
    drawing d = {.advice = advice};
    wefti_buffer out = {.n = 0};
    if (advice->n_curves == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "there is nothing to draw in %s: no method was tried on several nodes", path);
    find_frame(&d);
    write_drawing(ctx, &out, &d);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    return status;
}
