/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"

/* What mixers that gossip have in common: in each step a rank meets its neighbours of the
 * topology, and the messages for this are sent either in the step before (order awc) or
 * in the step itself (atc). The implementation embeds this as the first member of
 * m->self. */
typedef struct wefti_gossip {
    weft_neighbours *neighbours; /* of this rank in the current gossip round */
    double *distances; /* [n_buckets] this rank's estimates of the last step (mixer.h:
                          distance), NAN where it met no other rank */
    /* Sends what the gossip round of `step` needs. */
    weft_status (*send)(wefti_mixer *m, int bucket, int64_t step, const float *params);
    /* Receives what others sent for `step` and mixes; there may be no others. */
    weft_status (*mix)(wefti_mixer *m, int bucket, int64_t step, float *params);
} wefti_gossip;

/* Fills in all but send and mix. */
weft_status wefti_gossip_init(wefti_mixer *m, wefti_gossip *gossip) WEFT_CHECKED;
void wefti_gossip_fini(wefti_mixer *m, wefti_gossip *gossip);

/* The members that `member` meets in `step`: all others if a mean of all is due. Weights are
 * those of members that weigh comm->weights. */
void wefti_gossip_look_up(const wefti_mixer *m, int member, int64_t step,
                          weft_neighbours *room);

/* Whether they take a mean of equal parts. */
bool wefti_gossip_is_plain(const weft_neighbours *list);

/* Whom it meets, as far as the configuration alone determines it: for predictions. */
void wefti_gossip_foresee(const wefti_mixer_config *config, int member, int64_t step,
                          weft_neighbours *room);

/* Whether a member is a learner in the gossip round of `step`: it sends nothing. Learners begin
 * one round later than with a step's other messages, because these may have been sent
 * in the step before. */
bool wefti_gossip_is_learner(const wefti_mixer *m, int member, int64_t step);

/* The gossip round for which a rank sends after this step; -1: for none. */
int64_t wefti_gossip_sent_in(const wefti_mixer_config *config, int64_t step);

/* The place after `member` in an ascending list of n others. A rank begins to send there,
 * so that not all ranks send to the same one first. */
int wefti_gossip_first(const int *others, int n, int member);

/* How large the weighted variance of a gossip round is on average, as a share of the
 * distance over all R members, if deviations are independent: (1 - sum of w^2) R / (R -
 * 1). */
double wefti_gossip_variance_share(int n, const double *weights, int R);

/* rounded[n] <- the weights, which add up to one except for rounding, as multiples of
 * 2^-24 that add up to one exactly. The remainder goes to the largest weight, of equal
 * ones the first. */
void wefti_gossip_round(int n, const double *weights, float *rounded);

/* Functions for tables of mixers (mixer.h). A gossip round has one round of messages or, where
 * two_rounds of the kind says so, two; in_two_rounds is that of parameters sent whole. */
int wefti_gossip_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                      wefti_mixer_act acts[WEFTI_MIXER_ACTS]);
bool wefti_gossip_in_two_rounds(const wefti_mixer_config *config,
                                const weft_neighbours *list);
void wefti_gossip_messages(const wefti_mixer_config *config,
                           const wefti_mixer_question *q, const wefti_mixer_act *act,
                           wefti_mixer_visit visit, void *user);
int64_t wefti_gossip_message_bytes(const wefti_mixer_config *config,
                                   const wefti_bucket *bucket);
bool wefti_gossip_agrees(const wefti_mixer_config *config, int64_t step);

/* Those that need nothing but send and mix. */
weft_status wefti_gossip_prime(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) WEFT_CHECKED;
weft_status wefti_gossip_before(wefti_mixer *m, int bucket, int64_t step,
                                float *params) WEFT_CHECKED;
weft_status wefti_gossip_after(wefti_mixer *m, int bucket, int64_t step,
                               float *params) WEFT_CHECKED;
weft_status wefti_gossip_finish(wefti_mixer *m, int bucket, int64_t step,
                                float *params) WEFT_CHECKED;
double wefti_gossip_distance(const wefti_mixer *m);
