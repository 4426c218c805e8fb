/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_GOSSIP_H
#define WEFTI_GOSSIP_H

#include "mix/meeting.h"
#include "mix/pushsum.h"
#include "mix/stream.h"

/* What the two files of the mixer `gossip` share: gossip.c, where everybody sends the
 * whole bucket, and gossip_group.c, where a group takes its mean in two rounds. */

/* Messages of a bucket that may be under way; with a deadline they may be so for longer.
 */
enum { WEFTI_GOSSIP_BUFFERS = 2, WEFTI_PATIENT_BUFFERS = 4 };

enum { WEFTI_GOSSIP_STAGE = 8, WEFTI_GROUP_STAGE = 9, WEFTI_GOSSIP_STRIP = 1024 };

typedef struct wefti_gossip {
    wefti_meeting meeting;
    wefti_pushsum pushsum; /* where the topology needs it */
    wefti_streams streams; /* with a deadline */
    int n_buffers;
    unsigned char *messages[WEFTI_PATIENT_BUFFERS]; /* [message_at[n_buckets]] what is
                                                       sent, or answered, lies here */
    int64_t *message_at;                            /* [n_buckets + 1] */
    int64_t *sent_step[WEFTI_PATIENT_BUFFERS];      /* [n_buckets] whose, or -1 */
    double *sent_s[WEFTI_PATIENT_BUFFERS];          /* [n_buckets] and when it was sent */
    int64_t *answered;     /* [n_buckets] last meeting that was answered, or -1 */
    const float **sources; /* [members] parameters of one bucket, NULL: not there */
    double *row;           /* [members] weights of a meeting that is not as planned */
    float *rounded;        /* [members] the same in f32 */
} wefti_gossip;

/* The place for what is sent for the meeting of `step`. */
unsigned char *wefti_gossip_message(const wefti_mixer *m, int bucket, int64_t step);

/* --- gossip_group.c --- */

/* Whether the meeting is a mean in two rounds. */
bool wefti_gossip_in_two_rounds(const wefti_mixer_config *config,
                                const weft_neighbours *list);

/* Payload bytes of what source i of the list gets to add, or answers. */
int64_t wefti_gossip_range_bytes(const weft_neighbours *list, int i, int64_t n_elements);

/* Bytes for the heads of a bucket's messages: there may be one for each member. */
int64_t wefti_gossip_head_bytes(const wefti_mixer_config *config, int R);

/* The first round; the second, unless it is done; and what comes of it. The meeting's
 * neighbours are those of `step`. */
weft_status wefti_gossip_group_send(wefti_mixer *m, int bucket, int64_t step,
                                    const float *params) WEFT_CHECKED;
weft_status wefti_gossip_group_answer(wefti_mixer *m, int bucket,
                                      int64_t step) WEFT_CHECKED;
weft_status wefti_gossip_group_mix(wefti_mixer *m, int bucket, int64_t step,
                                   float *params) WEFT_CHECKED;

#endif
