/* SPDX-License-Identifier: MIT */
/* When gossiping mixers send and mix:
 *
 *     awc   after step t: send for the gossip round of t + 1      before the optimizer: mix
 *     atc   after step t: send for the gossip round of t          then, in finish: mix
 *
 * of those steps that have one (wefti_mixer_round).
 *
 * A run's last step sends nothing that no later step would read.
 *
 * Where members weigh w_i (comm->weights), sum_i w_i x_i is kept in place of sum_i x_i:
 *
 *     mean of a group     W_ij <- w_j / sum_k w_k
 *     else, W symmetric   W_ij <- W_ij min(1, w_j / w_i), j other than i; W_ii is the rest to 1
 *
 * so w_i W_ij = w_j W_ji (Metropolis-Hastings). As i, so does who has no weight follow all
 * others; among equal weights W stays. */
#include "mix/gossip_rounds.h"

#include <math.h>

#include "base/assert.h"
#include "base/memory.h"

weft_status wefti_gossip_init(wefti_mixer *m, wefti_gossip *gossip) {
    WEFT_TRY(weft_neighbours_create(m->ctx, m->config.everybody, &gossip->neighbours));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_buckets, sizeof(double), "distances",
                           &gossip->distances));
    for (int b = 0; b < m->n_buckets; b++) gossip->distances[b] = (double)NAN;
    return WEFT_OK;
}

void wefti_gossip_fini(wefti_mixer *m, wefti_gossip *gossip) {
    weft_neighbours_destroy(m->ctx, gossip->neighbours);
    wefti_free(m->ctx, gossip->distances);
}

static void look_up(const wefti_mixer_config *config, bool all, int member, int64_t step,
                    weft_neighbours *room) {
    weft_topology_neighbours(all ? config->everybody : config->topology, member,
                             wefti_mixer_round(config, step), room);
}

static bool weigh_alike(const double *w, const weft_neighbours *list) {
    for (int j = 1; j < list->n_sources; j++)
        if (w[list->sources[j]] != w[list->sources[0]]) return false;
    return true;
}

static void weigh(const double *w, weft_neighbours *list) {
    double all = 0, mine = w[list->sources[list->self]], rest = 1;
    if (weigh_alike(w, list)) return;
    for (int j = 0; j < list->n_sources; j++) all += w[list->sources[j]];
    for (int j = 0; j < list->n_sources; j++) {
        double theirs = w[list->sources[j]];
        if (list->mean)
            list->weights[j] = theirs / all;
        else if (j != list->self) {
            if (theirs < mine) list->weights[j] *= theirs / mine;
            rest -= list->weights[j];
        }
    }
    if (!list->mean) list->weights[list->self] = rest;
    wefti_gossip_round(list->n_sources, list->weights, list->weights_f32);
}

void wefti_gossip_look_up(const wefti_mixer *m, int member, int64_t step,
                          weft_neighbours *room) {
    look_up(&m->config, wefti_mixer_averages_all(m, step), member, step, room);
    if (m->comm->weights && !m->weights) weigh(m->comm->weights, room);
}

bool wefti_gossip_is_plain(const weft_neighbours *list) {
    bool plain = list->mean;
    for (int j = 1; j < list->n_sources; j++)
        plain = plain && list->weights[j] == list->weights[0];
    return plain;
}

void wefti_gossip_foresee(const wefti_mixer_config *config, int member, int64_t step,
                          weft_neighbours *room) {
    look_up(config, wefti_mixer_average_is_due(config, step), member, step, room);
}

bool wefti_gossip_is_learner(const wefti_mixer *m, int member, int64_t step) {
    return wefti_comm_is_learner(m->comm, member, step - 1);
}

int64_t wefti_gossip_sent_in(const wefti_mixer_config *config, int64_t step) {
    int64_t round = config->combine_last ? step : step + 1;
    bool is_there = round >= 0 && round < config->steps;
    return is_there && wefti_mixer_round(config, round) >= 0 ? round : -1;
}

int wefti_gossip_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                      wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    bool last = config->combine_last, two = false;
    wefti_mixer_phase answers = last ? WEFTI_MIXER_FINISH : WEFTI_MIXER_ANSWER;
    wefti_mixer_phase mixes = last ? WEFTI_MIXER_FINISH : WEFTI_MIXER_BEFORE;
    wefti_mixer_act send = {WEFTI_MIXER_AFTER, true,
                            wefti_gossip_sent_in(config, q->step), 0};
    bool mixing = q->step >= 0 && wefti_mixer_round(config, q->step) >= 0;
    int n = 0;
    if (last && mixing) acts[n++] = send;
    if (mixing) {
        wefti_gossip_foresee(config, q->from, q->step, q->room);
        two = ops->two_rounds && ops->two_rounds(config, q->room);
        acts[n++] = (wefti_mixer_act){two ? answers : mixes, false, q->step, 0};
    }
    if (two) {
        acts[n++] = (wefti_mixer_act){answers, true, q->step, 1};
        acts[n++] = (wefti_mixer_act){mixes, false, q->step, 1};
    }
    if (!last && send.exchange >= 0) acts[n++] = send;
    return n;
}

double wefti_gossip_variance_share(int n, const double *weights, int R) {
    double squares = 0;
    for (int j = 0; j < n; j++) squares += weights[j] * weights[j];
    return R > 1 ? (1 - squares) * R / (R - 1) : 0;
}

void wefti_gossip_round(int n, const double *weights, float *rounded) {
    const double one = 16777216; /* 2^24 */
    double left = one;
    int largest = 0;
    for (int j = 0; j < n; j++)
        if (weights[j] > weights[largest]) largest = j;
    for (int j = 0; j < n; j++) {
        double units = nearbyint(weights[j] * one);
        rounded[j] = (float)(units / one);
        if (j != largest) left -= units;
    }
    WEFTI_ASSERT(n > 0 && left >= 0 && left <= one);
    rounded[largest] = (float)(left / one);
}

static weft_status mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    wefti_gossip *gossip = m->self;
    gossip->distances[bucket] = (double)NAN;
    if (wefti_mixer_round(&m->config, step) < 0) return WEFT_OK;
    wefti_gossip_look_up(m, m->comm->rank, step, gossip->neighbours);
    return gossip->mix(m, bucket, step, params);
}

static weft_status send(wefti_mixer *m, int bucket, int64_t step, const float *params) {
    wefti_gossip *gossip = m->self;
    if (step < 0) return WEFT_OK;
    wefti_gossip_look_up(m, m->comm->rank, step, gossip->neighbours);
    return gossip->send(m, bucket, step, params);
}

int wefti_gossip_first(const int *others, int n, int member) {
    int place = 0;
    while (place < n && others[place] < member) place++;
    return place;
}

weft_status wefti_gossip_prime(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    return m->config.combine_last
               ? WEFT_OK
               : send(m, bucket, wefti_gossip_sent_in(&m->config, step - 1), params);
}

weft_status wefti_gossip_before(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return m->config.combine_last ? WEFT_OK : mix(m, bucket, step, params);
}

weft_status wefti_gossip_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return send(m, bucket, wefti_gossip_sent_in(&m->config, step), params);
}

weft_status wefti_gossip_finish(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return m->config.combine_last ? mix(m, bucket, step, params) : WEFT_OK;
}

double wefti_gossip_distance(const wefti_mixer *m) {
    const wefti_gossip *gossip = m->self;
    double sum = 0;
    for (int b = 0; b < m->n_buckets; b++) sum += gossip->distances[b];
    return sum;
}
