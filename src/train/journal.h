/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "record/nodes.h"

/* Where a run's numbers go: metrics.jsonl, nodes.jsonl and, if wanted, TensorBoard events and a
 * file for Prometheus. */
typedef struct wefti_journal wefti_journal;

/* `steps_done` > 0: the run goes on; lines of later steps are dropped, and *elapsed_s is
 * what it has taken so far. */
weft_status wefti_journal_open(weft_ctx *ctx, const weft_config *config, int64_t steps_done,
                               double *elapsed_s,
                               wefti_journal **out) WEFT_CHECKED;
/* Of every step; only those that are logged get a line. */
weft_status wefti_journal_step(wefti_journal *journal, const weft_step_record *record,
                               bool logged) WEFT_CHECKED;
/* bigram_loss: NAN except in the last evaluation. */
weft_status wefti_journal_evaluation(wefti_journal *journal,
                                     const weft_eval_record *record,
                                     double bigram_loss) WEFT_CHECKED;
/* What the nodes did until `step`. */
weft_status wefti_journal_nodes(wefti_journal *journal, int64_t step, double elapsed_s,
                                const wefti_node *nodes, int n) WEFT_CHECKED;
/* The run has ended, as it should or not; close is to follow. */
weft_status wefti_journal_end(wefti_journal *journal, bool success) WEFT_CHECKED;
/* What was written so far is on the disk. */
weft_status wefti_journal_sync(wefti_journal *journal) WEFT_CHECKED;
weft_status wefti_journal_close(wefti_journal *journal) WEFT_CHECKED;
