/* SPDX-License-Identifier: MIT */
/* When two ranks begin to know each other (a new world, a learner that begins to take part),
 * both know nothing: zeros. In its first rounds a pair only sends, because
 *
 *     heard_ij - told_ij = (x_j - lost_j) - (x_i - lost_i)
 *
 * where coding has lost a share of x itself at first, and then a share of what was lost
 * before. The number of rounds follows from the schedule and from the round with which the
 * pairs begin, which all ranks know and checkpoints keep: no message says it, and both sides
 * agree. Of normal numbers (tests/oracle/test_choco.c) the coding has lost
 *
 *              f32   bf16     int8     int4      sign
 *     after    1     2        2        3         20       rounds
 *     only     0     3e-6     2e-5     5e-4      0.027    of their norm
 *
 * sign comes closer slowly, because a block has one magnitude. But the two of a pair are
 * nearly equal, and so is what coding loses of them. */
#include "mix/meetings.h"

#include "base/assert.h"
#include <string.h>

int wefti_pairs_needed(wefti_value_codec values) {
    switch (values) {
    case WEFTI_VALUES_F32: return 1;
    case WEFTI_VALUES_INT4: return 3;
    case WEFTI_VALUES_SIGN: return 20;
    default: return 2;
    }
}

void wefti_pairs_init(wefti_mixer *m, int64_t round) {
    const wefti_comm *comm = m->comm;
    m->pairs[WEFTI_PAIRS_SINCE] = (double)(round + 1);
    m->pairs[WEFTI_PAIRS_GUESTS] = comm->n_learners > 0
                                       ? (double)(comm->learner_until + 2)
                                       : 0;
    m->pairs[WEFTI_PAIRS_FIRST_GUEST] = comm->size - comm->n_learners;
    m->pairs[WEFTI_PAIRS_MEMBERS] =
        (double)weft_topology_describe(m->config.topology)->members;
}

static int64_t known(const wefti_mixer *m, int i) { return (int64_t)m->pairs[i]; }

/* The first round in which a pair has met, as of `round`; -1: both have always known all. */
static int64_t begin_of(const wefti_mixer *m, int partner, int64_t round) {
    int64_t first = known(m, WEFTI_PAIRS_FIRST_GUEST);
    WEFTI_ASSERT(partner >= 0 && partner < m->comm->size);
    int64_t learners = known(m, WEFTI_PAIRS_GUESTS) - 1;
    bool came_later = partner >= first || m->comm->rank >= first;
    bool anew = came_later && learners >= 0 && round >= learners;
    return anew ? learners : known(m, WEFTI_PAIRS_SINCE) - 1;
}

/* Counts the meetings in round t of the pairs as they are in `round`, up to what is needed.
 * Returns whether an earlier round may count, too. */
static bool count_round(const wefti_mixer *m, wefti_pairs *pairs,
                        const wefti_meeting *meeting, int64_t t) {
    int needed = wefti_pairs_needed(m->config.values);
    bool more = false;
    for (int k = 0; k < meeting->n_partners; k++) {
        int64_t begin = begin_of(m, meeting->partners[k], meeting->round);
        if (begin < 0) pairs->met[k] = needed;
        for (int i = 0; i < meeting->room->n_sources && t >= begin; i++)
            pairs->met[k] += meeting->room->sources[i] == meeting->partners[k];
        if (pairs->met[k] > needed) pairs->met[k] = needed;
        more |= pairs->met[k] < needed && t > begin;
    }
    return more;
}

void wefti_pairs_count(const wefti_mixer *m, wefti_pairs *pairs,
                       const wefti_meeting *meeting) {
    int64_t round = meeting->round, t = round;
    WEFTI_ASSERT(pairs->round <= round);
    if (pairs->round == round) return;
    bool next = pairs->round == round - 1 && round + 1 != known(m, WEFTI_PAIRS_GUESTS);
    if (!next) memset(pairs->met, 0, (size_t)meeting->n_partners * sizeof *pairs->met);
    bool more = count_round(m, pairs, meeting, t) && !next;
    while (more && t > 0) {
        weft_topology_neighbours(m->config.topology, m->comm->rank, --t, meeting->room);
        more = count_round(m, pairs, meeting, t);
    }
    if (t != round)
        weft_topology_neighbours(m->config.topology, m->comm->rank, round, meeting->room);
    pairs->round = round;
}

bool wefti_pairs_pulls(const wefti_mixer *m, const wefti_pairs *pairs, int k) {
    return pairs->met[k] >= wefti_pairs_needed(m->config.values);
}
