/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_FIGURE_H
#define WEFTI_FIGURE_H

#include "record/buffer.h"

/* Small pieces of the figures of a page: SVG in units of a view box that is scaled to the
 * width of the card it lies in. Classes and colours are those of page.h. */

enum { WEFTI_FIGURE_WIDTH = 640 };

/* <figure> with its caption; ends with "</figure>". */
void wefti_figure_begin(weft_ctx *ctx, wefti_buffer *out, const char *title,
                        const char *note);

/* <svg>; ends with "</svg>". */
void wefti_figure_svg(weft_ctx *ctx, wefti_buffer *out, const char *title, int height);

/* `before`, then "x y". */
void wefti_figure_pair(weft_ctx *ctx, wefti_buffer *out, const char *before, double x,
                       double y);
void wefti_figure_attribute(weft_ctx *ctx, wefti_buffer *out, const char *name,
                            double value);

/* Begins <text ...>; the caller writes the text and </text>. */
void wefti_figure_text(weft_ctx *ctx, wefti_buffer *out, double x, double y,
                       const char *class);
void wefti_figure_line(weft_ctx *ctx, wefti_buffer *out, const char *class, double x1,
                       double y1, double x2, double y2);

/* Begins an entry of a legend; ends with "</span>". */
void wefti_figure_key(weft_ctx *ctx, wefti_buffer *out, const char *class, int colour,
                      const char *label);

#endif
