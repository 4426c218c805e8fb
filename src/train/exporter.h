/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "record/nodes.h"

/* The newest numbers of a run in run.prometheus, of the process that writes the run folder. */
typedef struct wefti_exporter wefti_exporter;

/* Writes the file once, so that a path that cannot be written is found before the first step.
 * *out stays NULL where no file is wanted; all functions accept that. */
weft_status wefti_exporter_create(weft_ctx *ctx, const weft_config *config,
                                  wefti_exporter **out) WEFT_CHECKED;

/* What a step or an evaluation told. The file is written at most once in a second; that it
 * cannot be written later on is said once and ends no run. */
void wefti_exporter_step(wefti_exporter *exporter, const weft_step_record *record);
void wefti_exporter_nodes(wefti_exporter *exporter, const wefti_node *nodes, int n);
void wefti_exporter_evaluation(wefti_exporter *exporter, const weft_eval_record *record);

/* Writes what came last, as a run that has ended, and frees. */
void wefti_exporter_close(wefti_exporter *exporter);
