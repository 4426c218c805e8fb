/* SPDX-License-Identifier: MIT */
/* When gossiping mixers send and mix:
 *
 *     awc   after step t: send for the meeting of t + 1      before the optimizer: mix
 *     atc   after step t: send for the meeting of t          then, in finish: mix
 *
 * A run's last step sends nothing that no later step would read. */
#include "mix/meeting.h"

#include <math.h>

#include "base/memory.h"

weft_status wefti_meeting_init(wefti_mixer *m, wefti_meeting *meeting) {
    WEFT_TRY(weft_neighbours_create(m->ctx, m->config.everybody, &meeting->neighbours));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_buckets, sizeof(double), "distances",
                           &meeting->distances));
    for (int b = 0; b < m->n_buckets; b++) meeting->distances[b] = (double)NAN;
    return WEFT_OK;
}

void wefti_meeting_fini(wefti_mixer *m, wefti_meeting *meeting) {
    weft_neighbours_destroy(m->ctx, meeting->neighbours);
    wefti_free(m->ctx, meeting->distances);
}

static void look_up(const wefti_mixer_config *config, bool all, int member, int64_t step,
                    weft_neighbours *room) {
    weft_topology_neighbours(all ? config->everybody : config->topology, member, step,
                             room);
}

void wefti_meeting_look_up(const wefti_mixer *m, int member, int64_t step,
                           weft_neighbours *room) {
    look_up(&m->config, wefti_mixer_averages_all(m, step), member, step, room);
}

void wefti_meeting_foresee(const wefti_mixer_config *config, int member, int64_t step,
                           weft_neighbours *room) {
    look_up(config, wefti_mixer_average_is_due(config, step), member, step, room);
}

int64_t wefti_meeting_sent_in(const wefti_mixer_config *config, int64_t step) {
    int64_t meeting = config->combine_last ? step : step + 1;
    return meeting < config->steps ? meeting : -1;
}

int wefti_meeting_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                       bool (*two_rounds)(const wefti_mixer_config *config,
                                          const weft_neighbours *list),
                       wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    bool last = config->combine_last, two = false;
    wefti_moment answers = last ? WEFTI_MOMENT_FINISH : WEFTI_MOMENT_TURN;
    wefti_moment mixes = last ? WEFTI_MOMENT_FINISH : WEFTI_MOMENT_BEFORE;
    wefti_mixer_act send = {WEFTI_MOMENT_AFTER, true,
                            wefti_meeting_sent_in(config, q->step), 0};
    int n = 0;
    if (last && q->step >= 0) acts[n++] = send;
    if (q->step >= 0) {
        wefti_meeting_foresee(config, q->from, q->step, q->room);
        two = two_rounds && two_rounds(config, q->room);
        acts[n++] = (wefti_mixer_act){two ? answers : mixes, false, q->step, 0};
    }
    if (two) {
        acts[n++] = (wefti_mixer_act){answers, true, q->step, 1};
        acts[n++] = (wefti_mixer_act){mixes, false, q->step, 1};
    }
    if (!last && send.exchange >= 0) acts[n++] = send;
    return n;
}

double wefti_meeting_variance_share(int n, const double *weights, int R) {
    double squares = 0;
    for (int j = 0; j < n; j++) squares += weights[j] * weights[j];
    return R > 1 ? (1 - squares) * R / (R - 1) : 0;
}

void wefti_meeting_round(int n, const double *weights, float *rounded) {
    const double one = 16777216; /* 2^24 */
    double sum = 0, left = one;
    int largest = 0;
    for (int j = 0; j < n; j++) {
        sum += weights[j];
        if (weights[j] > weights[largest]) largest = j;
    }
    for (int j = 0; j < n; j++) {
        double units = nearbyint(weights[j] / sum * one);
        rounded[j] = (float)(units / one);
        if (j != largest) left -= units;
    }
    rounded[largest] = (float)(left / one);
}

static weft_status mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    wefti_meeting *meeting = m->self;
    wefti_meeting_look_up(m, m->comm->rank, step, meeting->neighbours);
    meeting->distances[bucket] = (double)NAN;
    return meeting->mix(m, bucket, step, params);
}

static weft_status send(wefti_mixer *m, int bucket, int64_t step, const float *params) {
    wefti_meeting *meeting = m->self;
    if (step < 0 || step >= m->config.steps) return WEFT_OK;
    wefti_meeting_look_up(m, m->comm->rank, step, meeting->neighbours);
    return meeting->send(m, bucket, step, params);
}

int wefti_meeting_first(const int *others, int n, int member) {
    int place = 0;
    while (place < n && others[place] < member) place++;
    return place;
}

weft_status wefti_meeting_prime(wefti_mixer *m, int bucket, int64_t step,
                                const float *params) {
    return m->config.combine_last ? WEFT_OK : send(m, bucket, step, params);
}

weft_status wefti_meeting_before(wefti_mixer *m, int bucket, int64_t step,
                                 float *params) {
    return m->config.combine_last ? WEFT_OK : mix(m, bucket, step, params);
}

weft_status wefti_meeting_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return send(m, bucket, wefti_meeting_sent_in(&m->config, step), params);
}

weft_status wefti_meeting_finish(wefti_mixer *m, int bucket, int64_t step,
                                 float *params) {
    return m->config.combine_last ? mix(m, bucket, step, params) : WEFT_OK;
}

double wefti_meeting_distance(const wefti_mixer *m) {
    const wefti_meeting *meeting = m->self;
    double sum = 0;
    for (int b = 0; b < m->n_buckets; b++) sum += meeting->distances[b];
    return sum;
}
