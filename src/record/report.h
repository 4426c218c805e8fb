/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_REPORT_H
#define WEFTI_REPORT_H

#include <weft/report.h>

/* Writes the page of one run. `config_text` may be NULL. */
weft_status wefti_report_write(weft_ctx *ctx, const char *metrics_path,
                               const char *config_text, const char *title,
                               const char *out_path) WEFT_CHECKED;

#endif
