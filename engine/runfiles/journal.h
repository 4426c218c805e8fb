/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "record/nodes.h"

/* Where a run's numbers go: metrics.jsonl, nodes.jsonl and, if wanted, TensorBoard events and a
 * file for Prometheus. */
typedef struct wefti_journal wefti_journal;

/* `steps_done` > 0: the run is resumed; lines of later steps are dropped, and *elapsed_s
 * is the time that it has taken so far. */
weft_status wefti_journal_open(weft_ctx *ctx, const weft_config *config,
                               int64_t steps_done, double *elapsed_s,
                               wefti_journal **out) WEFT_CHECKED;
/* Steps between two lines: as configured, or so many that a run has at most 20,000 lines. */
int64_t wefti_journal_every(const weft_config *config);
bool wefti_journal_logs(const weft_config *config, int64_t step);

/* Called after every step. Only a step that is logged gets a line, whose times, rates and bytes
 * are means over the steps since the line before. */
weft_status wefti_journal_step(wefti_journal *journal, const weft_step_record *record,
                               bool logged) WEFT_CHECKED;
/* bigram_loss: NAN except in the last evaluation. */
weft_status wefti_journal_evaluation(wefti_journal *journal,
                                     const weft_eval_record *record,
                                     double bigram_loss) WEFT_CHECKED;
/* Writes the nodes' figures up to `step`. */
weft_status wefti_journal_nodes(wefti_journal *journal, int64_t step, double elapsed_s,
                                const wefti_node *nodes, int n) WEFT_CHECKED;
/* Notes that the run has ended, with success or without. wefti_journal_close must
 * follow. */
weft_status wefti_journal_end(wefti_journal *journal, bool success) WEFT_CHECKED;
/* Makes sure that everything written so far is on the disk. */
weft_status wefti_journal_sync(wefti_journal *journal) WEFT_CHECKED;
weft_status wefti_journal_close(wefti_journal *journal) WEFT_CHECKED;
