/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* What random, striding and slicing have in common: they exchange agreed rows of a
 * momentum, and as all ranks know which rows, no index is sent. They differ in their
 * chooser. A row is a row of a matrix, or an element of a vector (cols = 1). */

/* All that a choice may depend on, so that every rank chooses alike. */
typedef struct wefti_selection {
    double rate;
    int64_t rows; /* of the piece; 1 or more */
    int64_t turn; /* number of the step among those that exchange, from 0 */
    int tensor;
    uint64_t seed;
} wefti_selection;

struct wefti_chooser {
    /* Most rows of one turn: messages have room for them. */
    int64_t (*most)(double rate, int64_t rows);
    /* Writes the rows of a turn as ascending runs that do not touch, in rows; returns the
     * number of runs. runs has room for wefti_runs_most; scratch for a bit per row. */
    int64_t (*choose)(const wefti_selection *s, uint64_t *scratch,
                      wefti_cover_range *runs);
    /* How many turns so far, this one included, chose a row that this turn chooses. */
    int64_t (*count)(const wefti_selection *s);
};
typedef struct wefti_chooser wefti_chooser;

extern const wefti_chooser wefti_chooser_random, wefti_chooser_striding,
    wefti_chooser_slicing;

/* Most runs of one turn: no more than the chosen rows, and with a gap between any two. */
int64_t wefti_runs_most(const wefti_chooser *chooser, double rate, int64_t rows);

/* x rounded to a whole number, halves up, at least `low` and at most `high`. */
int64_t wefti_whole_within(double x, int64_t low, int64_t high);

/* The functions that all three share (replicator.h); ops->chooser decides which rows. */
int64_t wefti_select_round_bytes(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket, int R, int round, int owner);
int64_t wefti_select_work_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *buckets, int n_buckets, int R);
weft_status wefti_select_create(wefti_replicator *r);
weft_status wefti_select_begin(wefti_replicator *r, int bucket, int64_t step,
                               float *grad);
weft_status wefti_select_combine(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad);
weft_status wefti_select_end(wefti_replicator *r, int bucket, int64_t step, float *grad);
wefti_cover wefti_select_cover(const wefti_replicator *r, int bucket, int piece,
                               int64_t step);
void wefti_select_destroy(wefti_replicator *r);

extern const char *const wefti_select_keys[], *const wefti_select_knobs[];
void wefti_select_label(const wefti_replicator_config *config, char *out, size_t size);
wefti_content wefti_select_content(const wefti_replicator_config *config,
                                   const wefti_bucket *bucket);
wefti_touched wefti_select_touched(const wefti_replicator_config *config, int R);
double wefti_select_floor(const wefti_replicator_config *config, double n, double values,
                          int R);

#define WEFTI_SELECT_OPS                                                                 \
    .keys = wefti_select_keys, .knobs = wefti_select_knobs, .label = wefti_select_label, \
    .content = wefti_select_content, .touched = wefti_select_touched,                    \
    .floor_bytes = wefti_select_floor, .states = wefti_replicator_momentum_state,        \
    .rounds = wefti_replicator_two_rounds, .round_bytes = wefti_select_round_bytes,      \
    .one_by_one = true, .robust = true, .work_bytes = wefti_select_work_bytes,           \
    .create = wefti_select_create, .begin = wefti_select_begin,                          \
    .combine = wefti_select_combine, .end = wefti_select_end,                            \
    .cover = wefti_select_cover, .destroy = wefti_select_destroy
