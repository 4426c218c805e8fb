/* SPDX-License-Identifier: MIT */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes one self-contained HTML page about a run: losses, bytes, speed and how the time of
 * a step is spent. Reads <run_folder>/metrics.jsonl and, if they exist, config.yaml,
 * timeline.json and plan.json. `out_path` NULL: <run_folder>/report.html. Not collective. */
WEFT_API weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

/* The same for n >= 1 runs, drawn in the same charts. Not collective. */
WEFT_API weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders,
                                         int n, const char *out_path) WEFT_CHECKED;

/* Build, in memory, the page about n >= 1 runs, and the JSON object that the page draws
 * (docs/metrics.md). refresh_s > 0: the page requests "data.json" next to its own address
 * every refresh_s seconds; 0: never. [out] *text, *n_bytes without its final NUL; owned by
 * the caller (weft_free). WEFT_ERR_FILE: a folder or its metrics.jsonl does not exist.
 * WEFT_ERR_FORMAT: a file is damaged. Not collective. */
WEFT_API weft_status weft_report_page(weft_ctx *ctx, const char *const *run_folders,
                                      int n, double refresh_s, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;
WEFT_API weft_status weft_report_data(weft_ctx *ctx, const char *const *run_folders,
                                      int n, double refresh_s, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;

/* Writes what all ranks did in one step of a run (timeline.json), next to what was
 * predicted (plan.json), as a trace that Chrome and Perfetto open: docs/metrics.md. Not
 * collective. */
WEFT_API weft_status weft_report_trace(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
