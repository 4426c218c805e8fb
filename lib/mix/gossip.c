/* SPDX-License-Identifier: MIT */
/* Gossip (decentralized Adam, arXiv 2410.11998): replicas take weighted means with their
 * neighbours of the step (topology/), docs/methods.md:
 *
 *     awc   x_i(t+1) = sum_j W_ij(t) x_j(t) - eta u_i(t)     u_i: gradient at x_i(t)
 *     atc   x_i(t+1) = sum_j W_ij(t) (x_j(t) - eta u_j(t))
 *
 * awc (adapt while communicating) sends x(t+1) after the optimizer of step t and reads
 * the neighbours' x before the optimizer of step t + 1: an exchange has the time of a
 * whole step. atc (adapt then combine) sends and reads within the step. With gamma < 1 a
 * replica moves only that share of the way to the mean. Push-sum weights, where the
 * topology needs them: pushsum.c.
 *
 * The mean of a group of k >= 3 takes two rounds. The bucket is cut into k ranges, range
 * i = [floor(n i / k), floor(n (i + 1) / k)) for the i-th member in ascending order:
 *
 *     1  to each other member i: this rank's parameters in range i
 *     2  to every other member: the mean of this rank's own range
 *
 * so 2 (k - 1)/k copies leave each member instead of k - 1. One rank adds up a range for
 * all, in the order of the members: the bits are those of a single round, and the same
 * everywhere.
 *
 * With a deadline (SALF, arXiv 2403.18375) a gossip round waits that long for its
 * messages, and the weights of those that have arrived are scaled to add up to one.
 *
 * Payload: the bucket's parameters, or a range of them, as f32. A message lies in one of
 * two buffers, so that a slow reader delays no rank for a step. With a deadline it lies
 * in any free one of PATIENT_BUFFERS; if none is free, nothing is sent. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"
#include "mix/gossip_rounds.h"
#include "mix/mixer.h"
#include "mix/pushsum.h"

/* Messages of a bucket that may be in flight; with a deadline they may stay so for
 * longer. */
enum { BUFFERS = 2, PATIENT_BUFFERS = WEFTI_DRIVER_BUFFERS, STRIP = 1024 };

typedef struct gossip {
    wefti_gossip gossip;
    wefti_pushsum pushsum; /* where the topology needs it */
    int64_t *answered;     /* [n_buckets] last gossip round that was answered, or -1 */
    const float **sources; /* [members] parameters of one bucket, NULL: not there */
    double *row;     /* [members] weights of a gossip round that is not as planned */
    float *rounded;  /* [members] the same in f32 */
    double distance; /* of the bucket that is mixed, so far */
} gossip;

/* --- before creation --- */

static int64_t whole_bytes(const wefti_bucket *bucket) {
    return WEFTI_FRAME_BYTES + bucket->n_elements * (int64_t)sizeof(float);
}

int64_t wefti_gossip_message_bytes(const wefti_mixer_config *config,
                                   const wefti_bucket *bucket) {
    (void)config;
    return whole_bytes(bucket);
}

bool wefti_gossip_in_two_rounds(const wefti_mixer_config *config,
                                const weft_neighbours *list) {
    bool weighted = weft_topology_describe(config->topology)->push_sum;
    return list->mean && list->n_sources >= 3 && !weighted && config->deadline_s == 0;
}

/* First element of range i of a bucket of n; i = k: the end. */
static int64_t range_at(const weft_neighbours *list, int i, int64_t n) {
    return n * i / list->n_sources;
}

static int64_t range_elements(const weft_neighbours *list, int i, int64_t n) {
    return range_at(list, i + 1, n) - range_at(list, i, n);
}

static int64_t range_bytes(const weft_neighbours *list, int i, int64_t n) {
    return WEFTI_FRAME_BYTES + range_elements(list, i, n) * (int64_t)sizeof(float);
}

/* Lists the messages of an act. Range i belongs to the i-th source, which adds it up and
 * answers. */
void wefti_gossip_messages(const wefti_mixer_config *config,
                           const wefti_mixer_question *q, const wefti_mixer_act *act,
                           wefti_mixer_visit visit, void *user) {
    const weft_neighbours *list = q->room;
    int64_t n = q->bucket->n_elements;
    wefti_gossip_foresee(config, q->from, act->exchange, q->room);
    bool two = wefti_gossip_in_two_rounds(config, list);
    bool to_targets = act->sends && !(two && act->round == 0);
    bool about_me = act->sends == (act->round == 1);
    const int *others = to_targets ? list->targets : list->sources;
    int n_others = to_targets ? list->n_targets : list->n_sources;
    int first = wefti_gossip_first(others, n_others, list->sources[list->self]);
    for (int k = 0; k < n_others; k++) {
        int i = (first + k) % n_others;
        if (!to_targets && i == list->self) continue;
        int range = about_me ? list->self : i;
        visit(user, others[i],
              two ? range_bytes(list, range, n) : whole_bytes(q->bucket));
    }
}

/* Room for the largest gossip round: each range has a head. */
static void gossip_room(const wefti_mixer_config *config, const wefti_bucket *bucket,
                        int R, int64_t room[WEFTI_DRIVER_ROUNDS]) {
    bool means = config->average_every > 0 || config->consensus_bound > 0;
    bool groups = weft_topology_describe(config->topology)->max_sources >= 3;
    int heads = means || groups ? R : 1;
    room[0] = whole_bytes(bucket) + (heads - 1) * (int64_t)WEFTI_FRAME_BYTES;
    room[1] = 0; /* answers lie inside the messages */
}

/* Replicas hold the same bits after a mean of all, if nothing follows it and no message
 * was late. */
bool wefti_gossip_agrees(const wefti_mixer_config *config, int64_t step) {
    return config->combine_last && wefti_mixer_gamma(config, step) == 1 &&
           config->deadline_s == 0 && wefti_mixer_average_is_due(config, step);
}

/* --- creation --- */

static weft_status check_knobs(weft_ctx *ctx, const wefti_mixer_config *c) {
    weft_topology_facts facts = *weft_topology_describe(c->topology);
    if (c->deadline_s > 0 && facts.push_sum)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.deadline is %g s with mixer.topology %s, expected 0: "
                             "its weights are right only if every message arrives",
                             c->deadline_s, facts.kind);
    return WEFT_OK;
}

static weft_status gossip_send(wefti_mixer *m, int bucket, int64_t step,
                               const float *params);
static weft_status gossip_mix(wefti_mixer *m, int bucket, int64_t step, float *params);
static weft_status gossip_create(wefti_mixer *m) {
    gossip *self;
    int R = m->comm->size, n = m->n_buckets;
    WEFT_TRY(check_knobs(m->ctx, &m->config));
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the gossip mixer", &self));
    m->self = self;
    self->gossip.send = gossip_send;
    self->gossip.mix = gossip_mix;
    WEFT_TRY(wefti_gossip_init(m, &self->gossip));
    WEFT_TRY(wefti_pushsum_init(m, &self->pushsum));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(float *), "sources", &self->sources));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->row));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(float), "weights", &self->rounded));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int64_t), "steps", &self->answered));
    for (int b = 0; b < n; b++) self->answered[b] = -1;
    return WEFT_OK;
}

static void gossip_destroy(wefti_mixer *m) {
    gossip *self = m->self;
    if (!self) return;
    wefti_gossip_fini(m, &self->gossip);
    wefti_pushsum_fini(m, &self->pushsum);
    WEFTI_FREE(m->ctx, self->sources, self->row, self->rounded, self->answered, self);
}

/* --- the arithmetic of a gossip round --- */

/* How a gossip round's sources are added up. */
typedef struct blend {
    int n;                 /* sources */
    bool mean;             /* of all of them: add, then divide */
    const double *weights; /* adding up to one */
    const float *rounded;
} blend;

/* The weights: as planned, or of push-sum, or scaled to the sources that are there. */
static blend choose_weights(wefti_mixer *m, int64_t step, int present) {
    gossip *self = m->self;
    const weft_neighbours *from = self->gossip.neighbours;
    bool plain = wefti_gossip_is_plain(from);
    blend how = {from->n_sources, plain, from->weights, from->weights_f32};
    double sum = 0;
    WEFTI_ASSERT(present >= 1 && present <= from->n_sources);
    if (m->weights) how.weights = wefti_pushsum_row(m, &self->pushsum, step);
    if (!m->weights && present == from->n_sources) return how;
    for (int i = 0; i < how.n; i++) sum += self->sources[i] ? how.weights[i] : 0;
    for (int i = 0; i < how.n; i++) {
        double alone = i == from->self; /* nobody who is there has a weight */
        self->row[i] = sum == 0 ? alone : self->sources[i] ? how.weights[i] / sum : 0;
    }
    wefti_gossip_round(how.n, self->row, self->rounded);
    return (blend){how.n, false, self->row, self->rounded};
}

/* mixed[n] <- weighted mean of the sources' elements from `at` on; returns the weighted
 * sum of their squared distances from it. */
static double mean_strip(const gossip *self, const blend *how, int64_t at, int64_t n,
                         float *mixed) {
    float share = 1.0f / (float)how->n, distance[STRIP] = {0};
    double sum = 0;
    memset(mixed, 0, (size_t)n * sizeof *mixed);
    for (int j = 0; j < how->n; j++) {
        if (!self->sources[j]) continue;
        const float *x = self->sources[j] + at;
        float weight = how->mean ? 1 : how->rounded[j];
        for (int64_t i = 0; i < n; i++) mixed[i] += weight * x[i];
    }
    for (int64_t i = 0; i < n && how->mean; i++) mixed[i] *= share;
    for (int j = 0; j < how->n; j++) {
        if (!self->sources[j]) continue;
        const float *x = self->sources[j] + at;
        float weight = how->mean ? share : how->rounded[j];
        for (int64_t i = 0; i < n; i++)
            distance[i] += weight * (x[i] - mixed[i]) * (x[i] - mixed[i]);
    }
    for (int64_t i = 0; i < n; i++) sum += (double)distance[i];
    return sum;
}

/* Moves params towards the weighted mean, by gamma; returns the weighted sum of squares.
 * Push-sum weights contain gamma already. */
static double blend_bucket(wefti_mixer *m, const blend *how, int64_t step, int64_t n,
                           float *params) {
    float mixed[STRIP], gamma = 1;
    double distance = 0;
    if (!m->weights) gamma = (float)wefti_mixer_gamma(&m->config, step);
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t count = n - at < STRIP ? n - at : STRIP;
        distance += mean_strip(m->self, how, at, count, mixed);
        if (gamma == 1)
            memcpy(params + at, mixed, (size_t)count * sizeof *mixed);
        else
            for (int64_t i = 0; i < count; i++)
                params[at + i] += gamma * (mixed[i] - params[at + i]);
    }
    return distance;
}

/* mean[n] <- the weighted mean of all sources that are there; mean may be one of the sources. */
static void add_up(const gossip *self, int present, int64_t n, float *mean) {
    const weft_neighbours *list = self->gossip.neighbours;
    float sum[STRIP], weights = 0;
    WEFTI_ASSERT(present >= 1 && present <= list->n_sources);
    for (int j = 0; j < list->n_sources; j++)
        weights += self->sources[j] ? list->weights_f32[j] : 0;
    bool plain = weights == 0 || wefti_gossip_is_plain(list);
    float share = 1.0f / (plain ? (float)present : weights);
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t count = n - at < STRIP ? n - at : STRIP;
        memset(sum, 0, sizeof sum);
        for (int j = 0; j < list->n_sources; j++) {
            float weight = plain ? 1 : list->weights_f32[j];
            for (int64_t i = 0; i < count && self->sources[j]; i++)
                sum[i] += weight * self->sources[j][at + i];
        }
        for (int64_t i = 0; i < count; i++) mean[at + i] = sum[i] * share;
    }
}

/* x <- x + gamma (mean - x); returns |x - mean|^2 before the move. */
static double pull(int64_t n, float gamma, const float *mean, float *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float off = mean[i] - x[i];
        sum += (double)(off * off);
        x[i] = gamma == 1 ? mean[i] : x[i] + gamma * off;
    }
    return sum;
}

/* --- functions for the driver --- */

static bool has_ranges(const wefti_round *round) {
    return round->shape == WEFTI_SHAPE_OWNER;
}

static int64_t bytes(const void *mixer, const wefti_round *round, int sender,
                     int member) {
    const wefti_mixer *m = mixer;
    (void)sender;
    const gossip *self = m->self;
    const wefti_bucket *bucket = &m->buckets[round->bucket];
    if (!has_ranges(round)) return whole_bytes(bucket);
    return range_bytes(self->gossip.neighbours, member, bucket->n_elements);
}

/* Where the range of a member begins in the bucket. */
static int64_t start_of(const wefti_mixer *m, const wefti_round *round, int member) {
    const gossip *self = m->self;
    int64_t n = m->buckets[round->bucket].n_elements;
    return has_ranges(round) ? range_at(self->gossip.neighbours, member, n) : 0;
}

static weft_status encode(void *mixer, const wefti_round *round, int member,
                          unsigned char *out) {
    memcpy(out, round->from + start_of(mixer, round, member),
           (size_t)(bytes(mixer, round, round->party.me, member) - WEFTI_FRAME_BYTES));
    return WEFT_OK;
}

static weft_status add(void *mixer, const wefti_round *round, int member,
                       const unsigned char *in) {
    const wefti_mixer *m = mixer;
    gossip *self = m->self;
    bool mine = member == round->party.me && !has_ranges(round);
    const float *values = mine ? round->x : (const float *)(const void *)in;
    int64_t n = m->buckets[round->bucket].n_elements;
    if (round->number == 0)
        self->sources[member] = values;
    else
        self->distance += pull(range_elements(self->gossip.neighbours, member, n),
                               (float)wefti_mixer_gamma(&m->config, round->step), values,
                               round->x + start_of(m, round, member));
    return WEFT_OK;
}

static void keep_distance(const wefti_mixer *m, int bucket, double distance, int n,
                          const double *weights) {
    const gossip *self = m->self;
    double share = wefti_gossip_variance_share(n, weights, m->comm->size);
    self->gossip.distances[bucket] = share > 0 ? distance / share : (double)NAN;
}

static weft_status finish(void *mixer, const wefti_round *round, unsigned char *answer) {
    wefti_mixer *m = mixer;
    const gossip *self = m->self;
    const weft_neighbours *list = self->gossip.neighbours;
    int64_t n = m->buckets[round->bucket].n_elements;
    if (answer) {
        add_up(self, round->counted, range_elements(list, list->self, n),
               (float *)(void *)answer);
        return WEFT_OK;
    }
    if (round->number == 1) {
        keep_distance(m, round->bucket, self->distance, list->n_sources, list->weights);
        return WEFT_OK;
    }
    blend how = choose_weights(m, round->step, round->counted);
    if (round->counted == 1) return WEFT_OK;
    double distance = blend_bucket(m, &how, round->step, n, round->x);
    keep_distance(m, round->bucket, distance, how.n, how.weights);
    return WEFT_OK;
}

static const wefti_driver_ops driver_ops = {
    .bytes = bytes, .encode = encode, .add = add, .finish = finish};

static wefti_driver_setup gossip_driver(const wefti_mixer_config *config) {
    bool patient = config->deadline_s > 0;
    return (wefti_driver_setup){.ops = &driver_ops,
                                .n_buffers = patient ? PATIENT_BUFFERS : BUFFERS,
                                .answers_inside = true,
                                .here_only = true,
                                .deadline_s = config->deadline_s};
}

/* --- the phases --- */

/* The gossip round with the neighbours of `step`. */
static wefti_round round_of(const wefti_mixer *m, int bucket, int64_t step, float *x) {
    const gossip *self = m->self;
    const weft_neighbours *list = self->gossip.neighbours;
    bool two = wefti_gossip_in_two_rounds(&m->config, list);
    return (wefti_round){.shape = two ? WEFTI_SHAPE_OWNER : WEFTI_SHAPE_ALL,
                         .step = step,
                         .bucket = bucket,
                         .kinds = {two ? WEFTI_FRAME_GROUP_PART : WEFTI_FRAME_GOSSIP,
                                   WEFTI_FRAME_GROUP_MEAN},
                         .together = true,
                         .party = {list->n_sources, list->self, list->sources,
                                   list->n_targets, list->targets},
                         .x = x};
}

/* Sends the parameters that `step` will mix. */
static weft_status gossip_send(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    gossip *self = m->self;
    wefti_round round = round_of(m, bucket, step, NULL);
    if (self->gossip.neighbours->n_targets == 0) return WEFT_OK;
    round.from = params;
    return wefti_driver_send(m->driver, &round);
}

/* Clears the sources before messages come in. Nothing comes from a member that is lost:
 * its weight goes to the others, and in its range of a group's mean each member keeps its
 * own numbers. */
static void forget_sources(const gossip *self) {
    for (int i = 0; i < self->gossip.neighbours->n_sources; i++) self->sources[i] = NULL;
}

/* Does the second round of a group's mean, unless it is done. */
static weft_status answer_group(wefti_mixer *m, wefti_round *round) {
    gossip *self = m->self;
    if (!has_ranges(round) || self->answered[round->bucket] == round->step)
        return WEFT_OK;
    self->answered[round->bucket] = round->step;
    forget_sources(self);
    return wefti_driver_answer(m->driver, round);
}

/* Called before the gradients of a step are there: answers what was sent in the step
 * before. */
static weft_status gossip_answer(wefti_mixer *m, int bucket, int64_t step) {
    const gossip *self = m->self;
    bool none = wefti_mixer_round(&m->config, step) < 0;
    if (m->config.combine_last || none) return WEFT_OK;
    wefti_gossip_look_up(m, m->comm->rank, step, self->gossip.neighbours);
    wefti_round round = round_of(m, bucket, step, NULL);
    return answer_group(m, &round);
}

static weft_status gossip_mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    gossip *self = m->self;
    wefti_round round = round_of(m, bucket, step, params);
    WEFT_TRY(answer_group(m, &round));
    forget_sources(self);
    self->distance = 0;
    if (m->weights)
        wefti_pushsum_row(m, &self->pushsum, step); /* also if nobody is heard */
    return wefti_driver_receive(m->driver, &round);
}

static wefti_touched gossip_touched(int R) {
    (void)R;
    return (wefti_touched){.begin = 8, .combine_peer = 8, .end = 12};
}

static const char *const gossip_keys[] = {
    "topology",    "links",         "order",           "gamma",    "gamma_power",
    "gamma_start", "average_every", "consensus_bound", "deadline", NULL};
static const wefti_value_codec gossip_measured[] = {WEFTI_VALUES_F32, WEFTI_VALUE_CODECS};

const wefti_mixer_ops wefti_mixer_gossip = {
    .name = "gossip",
    .keys = gossip_keys,
    .meets = true,
    .measured = gossip_measured,
    .touched = gossip_touched,
    .states = wefti_mixer_no_states,
    .acts = wefti_gossip_acts,
    .two_rounds = wefti_gossip_in_two_rounds,
    .messages = wefti_gossip_messages,
    .message_bytes = wefti_gossip_message_bytes,
    .driver = gossip_driver,
    .room = gossip_room,
    .create = gossip_create,
    .prime = wefti_gossip_prime,
    .answer = gossip_answer,
    .before = wefti_gossip_before,
    .after = wefti_gossip_after,
    .finish = wefti_gossip_finish,
    .distance = wefti_gossip_distance,
    .agrees = wefti_gossip_agrees,
    .destroy = gossip_destroy,
};
