/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MEETING_H
#define WEFTI_MEETING_H

#include "mix/mixer.h"

/* What mixers that gossip have in common: in each step a rank meets its neighbours of the
 * topology, and what they meet with is sent either a step before (order awc) or in the
 * step itself (atc). The implementation embeds this as the first member of m->self. */
typedef struct wefti_meeting {
    weft_neighbours *neighbours; /* of this rank in the step that `mix` is called for */
    double *distances; /* [n_buckets] this rank's estimates (mixer.h: distance) */
    /* Sends what the meeting of `step` needs. */
    weft_status (*send)(wefti_mixer *m, int bucket, int64_t step, const float *params);
    /* Receives what others sent for `step` and mixes; there are others. */
    weft_status (*mix)(wefti_mixer *m, int bucket, int64_t step, float *params);
} wefti_meeting;

/* Fills in all but send and mix. */
weft_status wefti_meeting_init(wefti_mixer *m, wefti_meeting *meeting) WEFT_CHECKED;
void wefti_meeting_fini(wefti_mixer *m, wefti_meeting *meeting);

/* Whom `member` meets in `step`: all others when a mean of all is due. */
void wefti_meeting_look_up(const wefti_mixer_config *config, int member, int64_t step,
                           weft_neighbours *room);

/* The step for which messages are sent in q->step, if q->from sends any to q->to; else
 * -1. */
int64_t wefti_meeting_of(const wefti_mixer_config *config, const wefti_mixer_question *q);

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
