/* SPDX-License-Identifier: MIT */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Writes one self-contained HTML page about a run: losses, bytes, speed and how the time of
 * a step is spent. Reads <run_folder>/metrics.jsonl and, if they exist, config.yaml,
 * timeline.json and plan.json. `out_path` NULL: <run_folder>/report.html. Not collective.
 * Errors: FILE, FORMAT. */
WEFT_API weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

/** The same for n >= 1 runs, drawn in the same charts. Not collective. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders,
                                         int n, const char *out_path) WEFT_CHECKED;

/** What a folder is, by the files in it. */
typedef enum weft_folder {
    WEFT_FOLDER_OTHER, /**< texts, other folders, or not there */
    WEFT_FOLDER_RUN,   /**< it has config.yaml */
    WEFT_FOLDER_MODEL  /**< it has config.json */
} weft_folder;

/** Looks at the names of its files only. */
WEFT_API weft_folder weft_folder_look(const char *folder);

/** Refuses an address, a file, what is not there, the folder of a model, and a folder in which runs
 * lie, whose names it says. A folder that is empty yet may become a run's. Errors: FILE. */
WEFT_API weft_status weft_run_look(weft_ctx *ctx, const char *folder) WEFT_CHECKED;

/** A report of runs that go on: each reading takes what is new in their files. */
typedef struct weft_report weft_report;

/** Remembers the names of n >= 1 run folders, which need not be there yet. refresh_s > 0: the page
 * requests "data.json" next to its own address every refresh_s seconds; 0: never. [out] *out
 * owned by the caller (weft_report_destroy). Not collective. */
WEFT_API weft_status weft_report_create(weft_ctx *ctx, const char *const *run_folders,
                                        int n, double refresh_s,
                                        weft_report **out) WEFT_CHECKED;
/** NULL is accepted. */
WEFT_API void weft_report_destroy(weft_ctx *ctx, weft_report *report);

/** Build, in memory, the page about the runs, and the JSON object that the page draws
 * (docs/metrics.md). [out] *text, *n_bytes without its final NUL; owned by the caller
 * (weft_free). WEFT_ERR_FILE: a folder or its metrics.jsonl does not exist. WEFT_ERR_FORMAT: a
 * file is damaged. After a failure the next call reads anew. Not collective.
 * Errors: FILE, FORMAT. */
WEFT_API weft_status weft_report_page(weft_ctx *ctx, weft_report *report, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;
WEFT_API weft_status weft_report_data(weft_ctx *ctx, weft_report *report, char **text,
                                      int64_t *n_bytes) WEFT_CHECKED;

/** Writes what all ranks did in one step of a run (timeline.json), next to what was
 * predicted (plan.json), as a trace that Chrome and Perfetto open: docs/metrics.md. Not
 * collective. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_report_trace(weft_ctx *ctx, const char *run_folder,
                                       const char *out_path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
