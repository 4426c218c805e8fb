/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"

/* A run's numbers in Prometheus' text format, for the textfile collector of its node exporter
 * (or whoever reads files): the newest values only, in a file that is always whole. */

typedef struct wefti_gauge {
    const char *name; /* "weft_loss": letters, digits and _ */
    const char *help; /* one line */
    bool counts;      /* a counter, which only grows; else a gauge */
    double value;     /* NAN: nothing to say, the line is left out */
    const char *node; /* label "node", or NULL; rows of one name stand together */
} wefti_gauge;

/* The n gauges of the run of that name, as text. */
void wefti_prometheus_put(weft_ctx *ctx, wefti_buffer *out, const char *run,
                          const wefti_gauge *gauges, int n);

/* Writes a text aside and renames it over `path`: who reads has the old numbers or the new ones.
 * Nothing is synced, since numbers of before a crash are of no use to anybody. */
weft_status wefti_prometheus_write(weft_ctx *ctx, const char *path,
                                   const wefti_buffer *text) WEFT_CHECKED;
