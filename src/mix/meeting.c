/* SPDX-License-Identifier: MIT */
/* When gossiping mixers send and mix:
 *
 *     awc   after step t: send for the meeting of t + 1      before the optimizer: mix
 *     atc   after step t: send for the meeting of t          then, in finish: mix
 *
 * A run's last step sends nothing that no later step would read. */
#include "mix/meeting.h"

#include "base/memory.h"

weft_status wefti_meeting_init(wefti_mixer *m, wefti_meeting *meeting) {
    WEFT_TRY(weft_neighbours_create(m->ctx, m->config.everybody, &meeting->neighbours));
    return wefti_alloc_n(m->ctx, m->n_buckets, sizeof(double), "distances",
                         &meeting->distances);
}

void wefti_meeting_fini(wefti_mixer *m, wefti_meeting *meeting) {
    weft_neighbours_destroy(m->ctx, meeting->neighbours);
    wefti_free(m->ctx, meeting->distances);
}

static bool averages_all(const wefti_mixer_config *config, int64_t step) {
    return config->average_every > 0 && (step + 1) % config->average_every == 0;
}

void wefti_meeting_look_up(const wefti_mixer_config *config, int member, int64_t step,
                           weft_neighbours *room) {
    bool all = averages_all(config, step);
    weft_topology_neighbours(all ? config->everybody : config->topology, member, step,
                             room);
}

int64_t wefti_meeting_of(const wefti_mixer_config *config,
                         const wefti_mixer_question *q) {
    int64_t step = config->combine_last ? q->step : q->step + 1;
    if (step >= config->steps) return -1;
    wefti_meeting_look_up(config, q->from, step, q->room);
    for (int i = 0; i < q->room->n_targets; i++)
        if (q->room->targets[i] == q->to) return step;
    return -1;
}

static weft_status mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    wefti_meeting *meeting = m->self;
    wefti_meeting_look_up(&m->config, m->comm->rank, step, meeting->neighbours);
    bool alone = meeting->neighbours->n_sources == 1;
    return alone ? WEFT_OK : meeting->mix(m, bucket, step, params);
}

static weft_status send(wefti_mixer *m, int bucket, int64_t step, const float *params) {
    wefti_meeting *meeting = m->self;
    if (step >= m->config.steps) return WEFT_OK;
    wefti_meeting_look_up(&m->config, m->comm->rank, step, meeting->neighbours);
    return meeting->send(m, bucket, step, params);
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
    return send(m, bucket, m->config.combine_last ? step : step + 1, params);
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
