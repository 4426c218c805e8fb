/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MEETING_H
#define WEFTI_MEETING_H

#include "mix/mixer.h"

/* What mixers that gossip have in common: in each step a rank meets its neighbours of the
 * topology, and what they meet with is sent either a step before (order awc) or in the
 * step itself (atc). The implementation embeds this as the first member of m->self. */
typedef struct wefti_meeting {
    weft_neighbours *neighbours; /* of this rank in the meeting that is at hand */
    double *distances; /* [n_buckets] this rank's estimates of the last step (mixer.h:
                          distance), NAN where it met nobody */
    /* Sends what the meeting of `step` needs. */
    weft_status (*send)(wefti_mixer *m, int bucket, int64_t step, const float *params);
    /* Receives what others sent for `step` and mixes; there may be no others. */
    weft_status (*mix)(wefti_mixer *m, int bucket, int64_t step, float *params);
} wefti_meeting;

/* Fills in all but send and mix. */
weft_status wefti_meeting_init(wefti_mixer *m, wefti_meeting *meeting) WEFT_CHECKED;
void wefti_meeting_fini(wefti_mixer *m, wefti_meeting *meeting);

/* Whom `member` meets in `step`: all others when a mean of all is due. */
void wefti_meeting_look_up(const wefti_mixer *m, int member, int64_t step,
                           weft_neighbours *room);

/* The same, as far as the configuration alone says: for predictions. */
void wefti_meeting_foresee(const wefti_mixer_config *config, int member, int64_t step,
                           weft_neighbours *room);

/* Where an ascending list of n others goes on after `member`: who sends begins there, so
 * that not everybody sends to the same one first. */
int wefti_meeting_first(const int *others, int n, int member);

/* The step of the meeting for which messages are sent in `step`; -1: there is none, the
 * run ends before. */
int64_t wefti_meeting_sent_in(const wefti_mixer_config *config, int64_t step);

/* What a rank does in a step (mixer.h) if meetings have one round of messages, or, where
 * two_rounds says so, two. */
int wefti_meeting_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                       bool (*two_rounds)(const wefti_mixer_config *config,
                                          const weft_neighbours *list),
                       wefti_mixer_act acts[WEFTI_MIXER_ACTS]);

/* How much smaller than the distance over all R members the weighted variance of a
 * meeting is on average, if deviations are independent: (1 - sum of w^2) R / (R - 1). */
double wefti_meeting_variance_share(int n, const double *weights, int R);

/* rounded[n] <- the weights, which have any positive sum, as multiples of 2^-24 that add
 * up to exactly one; what rounding leaves goes to the largest, of equals the first. */
void wefti_meeting_round(int n, const double *weights, float *rounded);

/* The ops that need no more than send and mix. */
weft_status wefti_meeting_prime(wefti_mixer *m, int bucket, int64_t step,
                                const float *params) WEFT_CHECKED;
weft_status wefti_meeting_before(wefti_mixer *m, int bucket, int64_t step,
                                 float *params) WEFT_CHECKED;
weft_status wefti_meeting_after(wefti_mixer *m, int bucket, int64_t step,
                                float *params) WEFT_CHECKED;
weft_status wefti_meeting_finish(wefti_mixer *m, int bucket, int64_t step,
                                 float *params) WEFT_CHECKED;
double wefti_meeting_distance(const wefti_mixer *m);

#endif
