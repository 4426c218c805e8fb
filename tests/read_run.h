/* SPDX-License-Identifier: MIT */
/* All of a metrics.jsonl at once; the library follows one that grows. */
#pragma once

#include "base/memory.h"
#include "record/history.h"

static inline weft_status read_run(weft_ctx *of, const char *path, wefti_run *out) {
    wefti_metrics_feed feed = {0};
    weft_status status = wefti_run_follow(of, path, &feed, out);
    wefti_free(of, feed.rows);
    return status;
}
