/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"

/* The replicas that every replica hears in a gossip round, for all steps of a topology's
 * period; each is looked up once. */

typedef struct wefti_heard {
    int source; /* the sender */
    int place; /* place of the message among those that the source sends to other nodes */
} wefti_heard;

typedef struct wefti_partner_list {
    bool all;    /* all replicas in two rounds: nothing is listed */
    int *first;  /* [replicas + 1] in heard */
    bool *two;   /* [replicas] in two rounds */
    int *n_sent; /* [replicas] messages that it sends in the first round */
    int *n_wire; /* [replicas] of these, to other nodes */
    wefti_heard *heard;
} wefti_partner_list;

typedef struct wefti_partner_lists {
    weft_ctx *ctx; /* borrowed */
    int64_t period;
    bool *known;                          /* [period] */
    wefti_partner_list *plans;            /* [period] owned */
    wefti_partner_list everybody, nobody; /* nobody's arrays are owned */
    weft_neighbours *room;                /* owned */
    int64_t n_listed;
} wefti_partner_lists;

weft_status wefti_partner_lists_create(weft_ctx *ctx, const wefti_job *job,
                                       wefti_partner_lists **out) WEFT_CHECKED;
void wefti_partner_lists_destroy(weft_ctx *ctx, wefti_partner_lists *lists);

/* The gossip round of a step, or nobody where it has none; fails with WEFT_ERR_CONFIG if
 * there are too many messages to list. A topology without a period is treated as if it
 * repeated after 64 rounds. */
weft_status wefti_partner_lists_look_up(wefti_partner_lists *lists, const wefti_job *job,
                                        int64_t step,
                                        const wefti_partner_list **out) WEFT_CHECKED;
