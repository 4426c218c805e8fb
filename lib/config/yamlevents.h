/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ctx.h>
#include <yaml.h>

/* The events of a YAML text, one at a time: the common reader of the configuration,
 * cluster.yaml and the list of links. The caller looks at `event`. This part moves to the
 * next event, refuses YAML features that no file of weft needs, and reports errors. */
typedef struct wefti_yaml {
    weft_ctx *ctx;
    const char *path;  /* as errors name it; borrowed */
    const char *data;  /* borrowed */
    int64_t n_bytes;   /* of data */
    weft_status blame; /* status of a failure where the text is YAML, but not what was
                          expected */
    bool lenient; /* accepts anchors, aliases and tags: for sections that are skipped */
    yaml_parser_t parser;
    yaml_event_t event; /* zeroed when there is none */
} wefti_yaml;

/* Starts before the first event. The caller has set ctx, path and blame of `y`. After a
 * failure wefti_yaml_end need not be called. */
weft_status wefti_yaml_begin(wefti_yaml *y, const char *data,
                             int64_t n_bytes) WEFT_CHECKED;

void wefti_yaml_end(wefti_yaml *y);

/* Moves to the next event. */
weft_status wefti_yaml_next(wefti_yaml *y) WEFT_CHECKED;

/* Skips the value that follows, however deeply nested. */
weft_status wefti_yaml_skip(wefti_yaml *y) WEFT_CHECKED;

/* The line of the current event, counted from 1. */
int wefti_yaml_line(const wefti_yaml *y);

bool wefti_yaml_is_scalar(const wefti_yaml *y);

/* "key:" with nothing after it. */
bool wefti_yaml_is_blank(const wefti_yaml *y);

/* The text of the current scalar; valid until the next event. */
const char *wefti_yaml_text(const wefti_yaml *y);

/* Fails with "path:line: sentence", status `blame`. */
weft_status wefti_yaml_fail(const wefti_yaml *y, int line, const char *format, ...)
    WEFT_PRINTF(3, 4) WEFT_CHECKED;

/* The same, for the current line. */
weft_status wefti_yaml_refuse(const wefti_yaml *y, const char *sentence) WEFT_CHECKED;
