/* SPDX-License-Identifier: MIT */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes one self-contained HTML page about a run: losses, bytes, speed and where the
 * time of a step goes, from <run_folder>/metrics.jsonl and, where they are there,
 * config.yaml, timeline.json and plan.json. `out_path` NULL: <run_folder>/report.html.
 * Not collective. */
WEFT_API weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

/* The same about n >= 1 runs, laid over each other. Not collective. */
WEFT_API weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders,
                                         int n, const char *out_path) WEFT_CHECKED;

/* The page about n >= 1 runs, and the JSON object that it draws (docs/metrics.md), in
 * memory. refresh_s > 0: the page asks for "data.json" beside its address again after so
 * many seconds; 0: never. [out] *text, *n_bytes without its final NUL; owned by the caller
 * (weft_free). Fails with WEFT_ERR_FILE where a folder or its metrics.jsonl is not there,
 * WEFT_ERR_FORMAT where a file is damaged. Not collective. */
WEFT_API weft_status weft_report_page(weft_ctx *ctx, const char *const *run_folders,
                                      int n, double refresh_s, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;
WEFT_API weft_status weft_report_data(weft_ctx *ctx, const char *const *run_folders,
                                      int n, double refresh_s, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;

/* Writes what all ranks did in one step of a run (timeline.json, and beside it what was predicted,
 * plan.json) as a trace that Chrome and Perfetto open: docs/metrics.md. Not collective. */
WEFT_API weft_status weft_report_trace(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
