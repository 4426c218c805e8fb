/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"

/* What mixers that gossip have in common: in each step a rank meets its neighbours of the
 * topology, and what they meet with is sent either a step before (order awc) or in the
 * step itself (atc). The implementation embeds this as the first member of m->self. */
typedef struct wefti_gossip {
    weft_neighbours *neighbours; /* of this rank in the gossip round that is at hand */
    double *distances; /* [n_buckets] this rank's estimates of the last step (mixer.h:
                          distance), NAN where it met nobody */
    /* Sends what the gossip round of `step` needs. */
    weft_status (*send)(wefti_mixer *m, int bucket, int64_t step, const float *params);
    /* Receives what others sent for `step` and mixes; there may be no others. */
    weft_status (*mix)(wefti_mixer *m, int bucket, int64_t step, float *params);
} wefti_gossip;

/* Fills in all but send and mix. */
weft_status wefti_gossip_init(wefti_mixer *m, wefti_gossip *gossip) WEFT_CHECKED;
void wefti_gossip_fini(wefti_mixer *m, wefti_gossip *gossip);

/* Whom `member` meets in `step`: all others when a mean of all is due. */
void wefti_gossip_look_up(const wefti_mixer *m, int member, int64_t step,
                          weft_neighbours *room);

/* The same, as far as the configuration alone says: for predictions. */
void wefti_gossip_foresee(const wefti_mixer_config *config, int member, int64_t step,
                          weft_neighbours *room);

/* Where an ascending list of n others goes on after `member`: who sends begins there, so
 * that not everybody sends to the same one first. */
int wefti_gossip_first(const int *others, int n, int member);

/* What a rank does in a step (mixer.h) if gossip rounds have one round of messages, or, where
 * two_rounds says so, two. */
int wefti_gossip_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                      bool (*two_rounds)(const wefti_mixer_config *config,
                                         const weft_neighbours *list),
                      wefti_mixer_act acts[WEFTI_MIXER_ACTS]);

/* How much smaller than the distance over all R members the weighted variance of a
 * gossip round is on average, if deviations are independent: (1 - sum of w^2) R / (R - 1). */
double wefti_gossip_variance_share(int n, const double *weights, int R);

/* rounded[n] <- the weights, which add up to one but for rounding, as multiples of 2^-24 that
 * do so exactly; what rounding leaves goes to the largest, of equals the first. */
void wefti_gossip_round(int n, const double *weights, float *rounded);

/* The ops that need no more than send and mix. */
weft_status wefti_gossip_prime(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) WEFT_CHECKED;
weft_status wefti_gossip_before(wefti_mixer *m, int bucket, int64_t step,
                                float *params) WEFT_CHECKED;
weft_status wefti_gossip_after(wefti_mixer *m, int bucket, int64_t step,
                               float *params) WEFT_CHECKED;
weft_status wefti_gossip_finish(wefti_mixer *m, int bucket, int64_t step,
                                float *params) WEFT_CHECKED;
double wefti_gossip_distance(const wefti_mixer *m);
