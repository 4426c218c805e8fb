/* SPDX-License-Identifier: MIT */
#include "record/figure.h"

void wefti_figure_pair(weft_ctx *ctx, wefti_buffer *out, const char *before, double x,
                       double y) {
    wefti_buffer_text(ctx, out, before);
    wefti_buffer_fixed(ctx, out, x, 1);
    wefti_buffer_text(ctx, out, " ");
    wefti_buffer_fixed(ctx, out, y, 1);
}

void wefti_figure_attribute(weft_ctx *ctx, wefti_buffer *out, const char *name,
                            double value) {
    wefti_buffer_print(ctx, out, " %s=\"", name);
    wefti_buffer_fixed(ctx, out, value, 1);
    wefti_buffer_text(ctx, out, "\"");
}

void wefti_figure_text(weft_ctx *ctx, wefti_buffer *out, double x, double y,
                       const char *class) {
    wefti_buffer_print(ctx, out, "<text class=\"%s\"", class);
    wefti_figure_attribute(ctx, out, "x", x);
    wefti_figure_attribute(ctx, out, "y", y);
    wefti_buffer_text(ctx, out, ">");
}

void wefti_figure_line(weft_ctx *ctx, wefti_buffer *out, const char *class, double x1,
                       double y1, double x2, double y2) {
    wefti_buffer_print(ctx, out, "<path class=\"%s\" d=\"", class);
    wefti_figure_pair(ctx, out, "M", x1, y1);
    wefti_figure_pair(ctx, out, "L", x2, y2);
    wefti_buffer_text(ctx, out, "\"/>\n");
}

void wefti_figure_begin(weft_ctx *ctx, wefti_buffer *out, const char *title,
                        const char *note) {
    wefti_buffer_text(ctx, out, "<figure>\n<figcaption>");
    wefti_buffer_html(ctx, out, title);
    if (note) {
        wefti_buffer_text(ctx, out, "<small>");
        wefti_buffer_html(ctx, out, note);
        wefti_buffer_text(ctx, out, "</small>");
    }
    wefti_buffer_text(ctx, out, "</figcaption>\n");
}

void wefti_figure_svg(weft_ctx *ctx, wefti_buffer *out, const char *title, int height) {
    wefti_buffer_print(ctx, out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                       WEFTI_FIGURE_WIDTH, height);
    wefti_buffer_html(ctx, out, title);
    wefti_buffer_text(ctx, out, "\">\n");
}

void wefti_figure_key(weft_ctx *ctx, wefti_buffer *out, const char *class, int colour,
                      const char *label) {
    wefti_buffer_print(ctx, out, "<span style=\"--c:var(--s%d)\"><i class=\"%s\"></i>",
                       colour, class);
    wefti_buffer_html(ctx, out, label);
}
