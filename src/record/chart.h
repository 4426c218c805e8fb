/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_CHART_H
#define WEFTI_CHART_H

#include "record/scale.h"

/* Charts as SVG inside HTML. Colours and fonts come from the page's style sheet (page.h):
 * colour k = 1..WEFTI_COLOURS of a series is the CSS variable --s<k>. Curves of more than
 * WEFTI_MAX_POINTS points are thinned. */

enum { WEFTI_COLOURS = 8 };

typedef enum wefti_mark {
    WEFTI_MARK_LINE,
    WEFTI_MARK_THIN,
    WEFTI_MARK_FAINT, /* thin and pale */
    WEFTI_MARK_DASH,
    WEFTI_MARK_DOTS /* dots joined by a line */
} wefti_mark;

typedef struct wefti_series {
    const char *label;   /* borrowed; NULL: not in the legend */
    const double *x, *y; /* borrowed; [n]; a pair that is not finite is a gap */
    int64_t n;
    int colour;
    wefti_mark mark;
} wefti_series;

typedef struct wefti_chart {
    const char *title, *note;      /* borrowed; note may be NULL */
    const char *x_title, *y_title; /* borrowed; without the unit of bytes and time */
    wefti_axis x_axis, y_axis;
    bool x_log; /* logarithmic; points with x <= 0 are left out */
    bool y_from_zero;
    double y_most;              /* curves are cut above it; 0: nothing is cut */
    const wefti_series *series; /* borrowed */
    int n_series;
} wefti_chart;

/* Writes a <figure> with legend and drawing; says "no data" if there is none. */
void wefti_chart_write(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart);

/* A bar cut into parts. */
typedef struct wefti_part {
    const char *label; /* borrowed */
    double seconds;
    int colour;
} wefti_part;

typedef enum wefti_legend {
    WEFTI_LEGEND_NONE,
    WEFTI_LEGEND_NAMES,
    WEFTI_LEGEND_VALUES /* names with their seconds */
} wefti_legend;

typedef struct wefti_bar {
    const char *label;       /* borrowed */
    const wefti_part *parts; /* borrowed; what is not > 0 is left out */
    int n_parts;
    wefti_legend legend; /* how its parts are listed above the drawing */
} wefti_bar;

/* Writes a <figure> with one bar below the other, all on one scale. */
void wefti_bars_write(weft_ctx *ctx, wefti_buffer *out, const char *title,
                      const char *note, const wefti_bar *bars, int n_bars);

#endif
