/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "record/nodes.h"

/* Writes the newest numbers of a run to the file that run.prometheus names, in the process
 * that writes the run folder. */
typedef struct wefti_exporter wefti_exporter;

/* Writes the file once, so that a path that cannot be written is found before the first step.
 * *out stays NULL where no file is wanted; all functions accept that. */
weft_status wefti_exporter_create(weft_ctx *ctx, const weft_config *config,
                                  wefti_exporter **out) WEFT_CHECKED;

/* Take in what a step, the nodes or an evaluation reported. A step writes the file at
 * most once in a second, an evaluation always. A failure to write is logged once until
 * writing works again, and does not end the run. */
void wefti_exporter_step(wefti_exporter *exporter, const weft_step_record *record);
void wefti_exporter_nodes(wefti_exporter *exporter, const wefti_node *nodes, int n);
void wefti_exporter_evaluation(wefti_exporter *exporter, const weft_eval_record *record);

/* Writes the last values, marked as those of a run that has ended, and frees the
 * exporter. */
void wefti_exporter_close(wefti_exporter *exporter);
