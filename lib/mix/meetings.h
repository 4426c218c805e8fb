/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/gossip_rounds.h"

/* Which pairs of a mixer with keeps_partners know each other well enough to pull: meetings.c. */
typedef struct wefti_pairs {
    int *met; /* [partners] gossip rounds of each pair up to `round`, this one included */
    int64_t round; /* -1: nothing is counted yet */
} wefti_pairs;

/* Numbers in m->known, beside what all mixers have there: WEFTI_PAIRS_KNOWN of them. */
enum {
    WEFTI_PAIRS_SINCE,  /* 1 + first gossip round of the pairs; 0: they began with equal
                                parameters */
    WEFTI_PAIRS_GUESTS, /* 1 + first gossip round in which learners take part */
    WEFTI_PAIRS_FIRST_GUEST, /* first rank that was a learner */
    WEFTI_PAIRS_MEMBERS,     /* of the topology */
    WEFTI_PAIRS_KNOWN
};

/* Writes m->pairs: pairs begin with this gossip round, or, at -1, with equal parameters. */
void wefti_pairs_init(wefti_mixer *m, int64_t round);

/* Gossip rounds after which what the two of a pair have sent each other is close to their
 * parameters, if they began from zero. */
int wefti_pairs_needed(wefti_value_codec values);

/* A gossip round of this rank. */
typedef struct wefti_meeting {
    int64_t round;
    int n_partners;
    const int *partners;
    weft_neighbours *room; /* its neighbours in this round; used in between */
} wefti_meeting;

/* Counts the meetings with each partner up to this round. */
void wefti_pairs_count(const wefti_mixer *m, wefti_pairs *pairs,
                       const wefti_meeting *meeting);

/* Whether the pair with partner k pulls in the round that was counted last. */
bool wefti_pairs_pulls(const wefti_mixer *m, const wefti_pairs *pairs, int k);
