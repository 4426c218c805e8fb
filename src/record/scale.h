/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_SCALE_H
#define WEFTI_SCALE_H

#include "record/buffer.h"

/* Numbers for eyes: units that fit, round ticks, and few enough points. */

/* What a number measures: decides how it is written. */
typedef enum wefti_axis {
    WEFTI_AXIS_PLAIN, /* a number without a unit */
    WEFTI_AXIS_COUNT, /* 20k, 3M */
    WEFTI_AXIS_TIME,  /* from seconds: ms, s, min, h */
    WEFTI_AXIS_BYTES  /* kB, MB, GB */
} wefti_axis;

/* How the numbers of an axis are written: value / factor, then the suffix. */
typedef struct wefti_scale {
    double factor;
    const char *suffix; /* static; after every number: "k", "" */
    const char *unit;   /* static; in the axis' title: "MB", "ms", "" */
} wefti_scale;

/* For numbers of up to this size. */
wefti_scale wefti_scale_for(wefti_axis axis, double largest);

/* "1.2 GB", "350 ms", "12.5k", "3.142": about three digits; a dash if not finite. */
void wefti_put_short(weft_ctx *ctx, wefti_buffer *out, double value, wefti_axis kind);

/* Round numbers inside [low, high]: first, first + step, ...; step is 1, 2 or 5 times a
 * power of ten. */
typedef struct wefti_ticks {
    double first, step;
    int n;        /* at most 12 */
    int decimals; /* digits after the point that tell them apart */
} wefti_ticks;

/* low < high. */
wefti_ticks wefti_nice_ticks(double low, double high);

/* Can this point be drawn? Not if it is not finite or beyond 1e100. */
bool wefti_drawable(double x, double y);

enum { WEFTI_MAX_POINTS = 2000 };

/* Picks at most WEFTI_MAX_POINTS of n points: the least and the greatest y of each
 * stretch, so that every spike stays. [out] picked: WEFTI_MAX_POINTS indices, ascending;
 * returns their number. Points that can not be drawn are not picked. */
int wefti_thin(const double *x, const double *y, int64_t n, int64_t *picked);

#endif
