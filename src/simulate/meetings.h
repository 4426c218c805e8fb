/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MEETINGS_H
#define WEFTI_MEETINGS_H

#include "job/job.h"

/* Whom every replica hears in a meeting, for all steps of a topology's period: looked up
 * once. */

typedef struct wefti_heard {
    int source; /* whom */
    int place;  /* the message's, among those that the source sends to other nodes */
} wefti_heard;

typedef struct wefti_meeting_plan {
    bool all;    /* everybody in two rounds: nothing is listed */
    int *first;  /* [replicas + 1] in heard */
    bool *two;   /* [replicas] in two rounds */
    int *n_sent; /* [replicas] messages that it sends in the first round */
    int *n_wire; /* [replicas] of these, to other nodes */
    wefti_heard *heard;
} wefti_meeting_plan;

typedef struct wefti_meetings {
    weft_ctx *ctx; /* borrowed */
    int64_t period;
    bool *known;               /* [period] */
    wefti_meeting_plan *plans; /* [period] owned */
    wefti_meeting_plan everybody;
    weft_neighbours *room; /* owned */
    int64_t n_listed;
} wefti_meetings;

weft_status wefti_meetings_create(weft_ctx *ctx, const wefti_job *job,
                                  wefti_meetings **out) WEFT_CHECKED;
void wefti_meetings_destroy(weft_ctx *ctx, wefti_meetings *meetings);

/* The meeting of a step; too many messages to list are WEFT_ERR_CONFIG. A topology that
 * never repeats does after 64 steps. */
weft_status wefti_meetings_look_up(wefti_meetings *meetings, const wefti_job *job,
                                   int64_t step,
                                   const wefti_meeting_plan **out) WEFT_CHECKED;

#endif
