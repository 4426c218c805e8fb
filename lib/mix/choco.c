/* SPDX-License-Identifier: MIT */
/* Gossip of coded differences (CHOCO-SGD, arXiv 1902.00340; quantized, 2002.09964). For
 * each partner j that a replica i ever meets, both keep what each has sent to the other:
 *
 *     told_ij     what i has sent to j    = heard_ji, what j has heard of i
 *
 *     gossip round:    q_ij <- code(x_i - told_ij), sent to j
 *                 told_ij <- told_ij + q_ij            heard_ij <- heard_ij + q_ji
 *                 x_i <- x_i + gamma sum_j W_ij (heard_ij - told_ij)
 *
 * What j adds for i is what i subtracts for j, so the mean is preserved whatever the
 * coding loses; and what it loses remains in the next difference. Copies belong to pairs
 * because partners change from step to step. W must be symmetric.
 *
 * A pair whose two know nothing of each other begins from zeros, and only sends for
 * some rounds before it pulls (meetings.c); all pairs do when membership changes, so no rank
 * waits for a mean of all. A learner (comm.h) sends nothing. It hears all, and moves with its
 * partners, by what they have sent it:
 *
 *     x_i <- x_i + gamma sum_j W_ij (heard_ij - x_i)          i is a learner
 *     told_ij <- told_ij + q_ij                               j is a learner: no pull
 *
 * Message: head (wire/frame.h), then the bucket as a dense section (wire/section.h). Both
 * arrays change when the gossip round is mixed, so a run that is resumed between
 * sending and mixing sends the same bits again. */
#include <string.h>

#include "base/memory.h"
#include "mix/gossip_rounds.h"
#include "mix/mixer.h"
#include "mix/meetings.h"

enum { BUFFERS = 2, TOLD = 0, HEARD = 1 };

typedef struct choco {
    wefti_gossip gossip;
    int n_partners;
    int *partners;  /* [n_partners] ascending */
    float *weights; /* [n_partners] of the current gossip round; 0: takes no part, or is
                       lost */
    double others;  /* sum of the weights of those that pull */
    wefti_pairs pairs;
    wefti_section *cuts; /* [n_buckets] */
    unsigned char
        *came; /* [n_partners][all sections] what partners sent, where the caller
                            holds the states */
} choco;

/* state array 2 k: sent to partner k; 2 k + 1: heard of partner k */
static const char *const *choco_states(const wefti_mixer_config *config) {
#define PAIR(k) "told." #k, "heard." #k
    static const char *const names[] = {PAIR(15), PAIR(14), PAIR(13), PAIR(12), PAIR(11),
                                        PAIR(10), PAIR(9),  PAIR(8),  PAIR(7),  PAIR(6),
                                        PAIR(5),  PAIR(4),  PAIR(3),  PAIR(2),  PAIR(1),
                                        PAIR(0),  NULL};
#undef PAIR
    return names + 2 * (WEFTI_MAX_PARTNERS - config->partners);
}

static int64_t section_bytes(const wefti_section *section) {
    return wefti_section_bytes(section, 0, section->n_blocks);
}

static int64_t message_bytes(const wefti_mixer_config *config,
                             const wefti_bucket *bucket) {
    wefti_section cut = wefti_section_dense(bucket->n_elements, config->values);
    return WEFTI_FRAME_BYTES + section_bytes(&cut);
}

static void choco_messages(const wefti_mixer_config *config,
                           const wefti_mixer_question *q, const wefti_mixer_act *act,
                           wefti_mixer_visit visit, void *user) {
    const weft_neighbours *list = q->room;
    int64_t n_bytes = message_bytes(config, q->bucket);
    wefti_gossip_foresee(config, q->from, act->exchange, q->room);
    int first = wefti_gossip_first(list->targets, list->n_targets,
                                   list->sources[list->self]);
    for (int i = 0; i < list->n_targets && act->sends; i++)
        visit(user, list->targets[(first + i) % list->n_targets], n_bytes);
    for (int i = 0; i < list->n_sources && !act->sends; i++)
        if (i != list->self) visit(user, list->sources[i], n_bytes);
}

static void choco_room(const wefti_mixer_config *config, const wefti_bucket *bucket,
                       int R, int64_t room[WEFTI_DRIVER_ROUNDS]) {
    (void)R;
    room[0] = config->partners * message_bytes(config, bucket);
    room[1] = 0;
}

static int slot_of(const choco *self, int partner) {
    for (int k = 0; k < self->n_partners; k++)
        if (self->partners[k] == partner) return k;
    return -1;
}

/* section <- code(x - sent), block by block. */
static void encode_difference(const wefti_section *cut, const wefti_rounding *rounding,
                              const float *x, const float *sent, unsigned char *section) {
    float values[WEFTI_BLOCK_VALUES];
    for (int64_t b = 0; b < cut->n_blocks; b++) {
        int64_t n = wefti_section_block_values(cut, b), at = b * cut->block_values;
        for (int64_t i = 0; i < n; i++) values[i] = x[at + i] - sent[at + i];
        wefti_section_encode(cut, b, NULL, values, rounding,
                             section + wefti_section_bytes(cut, 0, b));
    }
}

/* copy <- copy + what the section holds. */
static weft_status add_section(wefti_mixer *m, const wefti_section *cut,
                               const unsigned char *section, float *copy) {
    float values[WEFTI_BLOCK_VALUES];
    for (int64_t b = 0; b < cut->n_blocks; b++) {
        int64_t n = wefti_section_block_values(cut, b), at = b * cut->block_values;
        WEFT_TRY(wefti_section_decode(
            m->ctx, cut, b, section + wefti_section_bytes(cut, 0, b), NULL, values));
        for (int64_t i = 0; i < n; i++) copy[at + i] += values[i];
    }
    return WEFT_OK;
}

/* The share of the difference to partner k that is made up for. */
static float strength_of(const wefti_mixer *m, float gamma, int k) {
    const choco *self = m->self;
    return wefti_pairs_pulls(m, &self->pairs, k) ? gamma * self->weights[k] : 0;
}

/* x <- x + gamma sum_k w_k (heard_k - told_k), partners ascending, a learner's x instead of
 * sent; returns sum_k w_k |heard_k - told_k|^2. */
static double pull(const wefti_mixer *m, const wefti_round *round, float gamma) {
    const choco *self = m->self;
    int bucket = round->bucket;
    float *x = round->x;
    bool learner = wefti_gossip_is_learner(m, m->comm->rank, round->step);
    double sum = 0;
    for (int k = 0; k < self->n_partners; k++) {
        const float *sent = wefti_mixer_state(m, 2 * k + TOLD, bucket);
        const float *heard = wefti_mixer_state(m, 2 * k + HEARD, bucket);
        float strength = strength_of(m, gamma, k);
        double squares = 0;
        if (strength == 0) continue;
        for (int64_t i = 0; i < m->buckets[bucket].n_elements; i++) {
            float apart = heard[i] - (learner ? x : sent)[i];
            x[i] += strength * apart;
            squares += (double)(apart * apart);
        }
        sum += (double)self->weights[k] * squares;
    }
    return sum;
}

/* --- functions for the driver --- */

static int64_t bytes(const void *mixer, const wefti_round *round, int sender,
                     int member) {
    const wefti_mixer *m = mixer;
    (void)sender;
    if (member == round->party.me) return 0;
    return message_bytes(&m->config, &m->buckets[round->bucket]);
}

/* Of stochastic rounding: one for each sender, receiver and bucket. */
static uint64_t place_of(const wefti_mixer *m, int bucket, int partner) {
    return (uint64_t)(m->comm->rank * m->comm->size + partner) * (uint64_t)m->n_buckets +
           (uint64_t)bucket;
}

static weft_status encode(void *mixer, const wefti_round *round, int member,
                          unsigned char *out) {
    const wefti_mixer *m = mixer;
    const choco *self = m->self;
    int partner = round->party.members[member], k = slot_of(self, partner);
    wefti_rounding rounding = {.stochastic = m->config.stochastic,
                               .seed = m->config.seed,
                               .step = (uint64_t)round->step,
                               .place = place_of(m, round->bucket, partner)};
    if (m->config.held) {
        const wefti_held_parcel *parcel;
        WEFT_TRY(wefti_mixer_handed(m, round->bucket, k, &parcel));
        memcpy(out, parcel->bytes, (size_t)parcel->n_bytes);
        return WEFT_OK;
    }
    encode_difference(&self->cuts[round->bucket], &rounding, round->from,
                      wefti_mixer_state(m, 2 * k + TOLD, round->bucket), out);
    return WEFT_OK;
}

/* Bytes of the sections of the first n buckets. */
static int64_t bytes_before(const wefti_mixer *m, int n) {
    const choco *self = m->self;
    int64_t n_bytes = 0;
    for (int b = 0; b < n; b++) n_bytes += section_bytes(&self->cuts[b]);
    return n_bytes;
}

/* Where the caller finds what partner k has sent about a bucket. */
static unsigned char *came_from(const wefti_mixer *m, int bucket, int k) {
    const choco *self = m->self;
    return self->came + k * bytes_before(m, m->n_buckets) + bytes_before(m, bucket);
}

/* Checks and keeps what partner k has sent. */
static weft_status keep(const wefti_mixer *m, int bucket, int k,
                        const unsigned char *in) {
    const choco *self = m->self;
    const wefti_section *cut = &self->cuts[bucket];
    float values[WEFTI_BLOCK_VALUES];
    for (int64_t b = 0; b < cut->n_blocks; b++)
        WEFT_TRY(wefti_section_decode(m->ctx, cut, b, in + wefti_section_bytes(cut, 0, b),
                                      NULL, values));
    memcpy(came_from(m, bucket, k), in, (size_t)section_bytes(cut));
    return WEFT_OK;
}

static void deliver_heard(wefti_mixer *m, int bucket, int64_t step, float gamma) {
    const choco *self = m->self;
    for (int k = 0; k < self->n_partners; k++)
        if (self->weights[k] != 0)
            wefti_mixer_deliver(
                m, &(wefti_held_parcel){.kind = WEFTI_HELD_HEARD,
                                        .bucket = bucket,
                                        .partner = k,
                                        .exchange = step,
                                        .share = strength_of(m, gamma, k),
                                        .n_bytes = section_bytes(&self->cuts[bucket]),
                                        .bytes = came_from(m, bucket, k)});
}

/* Adds what this rank has sent; a learner has sent nothing. */
static weft_status note_told(wefti_mixer *m, const wefti_round *round, int member) {
    const choco *self = m->self;
    int k = slot_of(self, round->party.members[member]);
    if (wefti_gossip_is_learner(m, m->comm->rank, round->step)) return WEFT_OK;
    return add_section(m, &self->cuts[round->bucket],
                       wefti_driver_sent(m->driver, round, member),
                       wefti_mixer_state(m, 2 * k + TOLD, round->bucket));
}

/* Brings both copies of the pair up to date. */
static weft_status add(void *mixer, const wefti_round *round, int member,
                       const unsigned char *in) {
    wefti_mixer *m = mixer;
    choco *self = m->self;
    const weft_neighbours *from = self->gossip.neighbours;
    const wefti_section *cut = &self->cuts[round->bucket];
    int k = slot_of(self, round->party.members[member]);
    self->weights[k] = from->weights_f32[member];
    if (wefti_pairs_pulls(m, &self->pairs, k)) self->others += from->weights[member];
    if (m->config.held) return keep(m, round->bucket, k, in);
    WEFT_TRY(add_section(m, cut, in, wefti_mixer_state(m, 2 * k + HEARD, round->bucket)));
    return note_told(m, round, member);
}

static weft_status finish(void *mixer, const wefti_round *round, unsigned char *answer) {
    wefti_mixer *m = mixer;
    const choco *self = m->self;
    double R = m->comm->size;
    (void)answer;
    /* with independent deviations, the squared difference of two replicas is on average 2
     * R/(R-1) times the distance */
    float gamma = (float)wefti_mixer_gamma(&m->config, round->step);
    if (m->config.held) {
        deliver_heard(m, round->bucket, round->step, gamma);
        return WEFT_OK;
    }
    double squares = pull(m, round, gamma);
    if (self->others > 0)
        self->gossip.distances[round->bucket] = squares * (R - 1) /
                                                (2 * self->others * R);
    return WEFT_OK;
}

static const wefti_driver_ops driver_ops = {
    .bytes = bytes, .encode = encode, .add = add, .finish = finish};

static wefti_driver_setup choco_driver(const wefti_mixer_config *config) {
    (void)config;
    return (wefti_driver_setup){
        .ops = &driver_ops, .n_buffers = BUFFERS, .here_only = true};
}

/* --- the phases --- */

/* W is symmetric: every source is a target, too. */
static wefti_round round_of(const wefti_mixer *m, int bucket, int64_t step) {
    const choco *self = m->self;
    const weft_neighbours *list = self->gossip.neighbours;
    return (wefti_round){
        .shape = WEFTI_SHAPE_EACH,
        .step = step,
        .bucket = bucket,
        .kinds = {WEFTI_FRAME_CHOCO},
        .party = {.n = list->n_sources, .me = list->self, .members = list->sources}};
}

static weft_status choco_send(wefti_mixer *m, int bucket, int64_t step,
                              const float *params) {
    wefti_round round = round_of(m, bucket, step);
    round.from = params;
    return wefti_driver_send(m->driver, &round);
}

static weft_status choco_mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    choco *self = m->self;
    wefti_round round = round_of(m, bucket, step);
    const wefti_meeting meeting = {step, self->n_partners, self->partners,
                                   self->gossip.neighbours};
    wefti_pairs_count(m, &self->pairs, &meeting);
    round.x = params;
    self->others = 0;
    memset(self->weights, 0, (size_t)self->n_partners * sizeof *self->weights);
    WEFT_TRY(wefti_driver_receive(m->driver, &round));
    round.number = 0;
    for (int i = 0; i < round.party.n; i++) /* learners answer nothing */
        if (i != round.party.me &&
            wefti_gossip_is_learner(m, round.party.members[i], step))
            WEFT_TRY(note_told(m, &round, i));
    return WEFT_OK;
}

/* Lists the ranks that this rank meets in a period; all others if there is no period. */
static weft_status list_partners(wefti_mixer *m) {
    choco *self = m->self;
    weft_topology_facts facts = *weft_topology_describe(m->config.topology);
    bool *met;
    int R = m->comm->size;
    WEFT_TRY(wefti_alloc_n(m->ctx, m->config.partners, sizeof(int), "partners",
                           &self->partners));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(bool), "partners", &met));
    for (int64_t t = 0; t < facts.period; t++) {
        weft_topology_neighbours(m->config.topology, m->comm->rank, t,
                                 self->gossip.neighbours);
        for (int i = 0; i < self->gossip.neighbours->n_targets; i++)
            met[self->gossip.neighbours->targets[i]] = true;
    }
    for (int j = 0; j < R; j++)
        if (j != m->comm->rank && (met[j] || facts.period == 0))
            self->partners[self->n_partners++] = j;
    wefti_free(m->ctx, met);
    return WEFT_OK;
}

static weft_status check_knobs(weft_ctx *ctx, const wefti_mixer_config *c) {
    weft_topology_facts facts = *weft_topology_describe(c->topology);
    if (facts.directed)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.kind choco needs both to hear each other, but "
                             "mixer.topology %s of %lld is directed",
                             facts.kind, (long long)facts.members);
    if (c->partners > WEFTI_MAX_PARTNERS)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.kind choco keeps two copies for each partner, and "
                             "mixer.topology %s has %d, expected at most %d",
                             facts.kind, c->partners, (int)WEFTI_MAX_PARTNERS);
    if (c->average_every > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.average_every is %lld with mixer.kind choco, "
                             "expected 0: coded differences give no exact mean",
                             (long long)c->average_every);
    if (c->consensus_bound > 0 || c->deadline_s > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.consensus_bound is %g and mixer.deadline %g s with "
                             "mixer.kind choco, expected 0: coded differences give no "
                             "exact mean, and both ends have to hear every message",
                             c->consensus_bound, c->deadline_s);
    return WEFT_OK;
}

static weft_status choco_create(wefti_mixer *m) {
    choco *self;
    WEFT_TRY(check_knobs(m->ctx, &m->config));
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the choco mixer", &self));
    m->self = self;
    self->gossip.send = choco_send;
    self->gossip.mix = choco_mix;
    WEFT_TRY(wefti_gossip_init(m, &self->gossip));
    WEFT_TRY(list_partners(m));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, m->n_buckets, sizeof *self->cuts, "sections", &self->cuts));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->config.partners, sizeof(float), "weights",
                           &self->weights));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->config.partners, sizeof(int), "partners",
                           &self->pairs.met));
    self->pairs.round = -1;
    for (int b = 0; b < m->n_buckets; b++)
        self->cuts[b] = wefti_section_dense(m->buckets[b].n_elements, m->config.values);
    if (!m->config.held) return WEFT_OK;
    return wefti_alloc_n(m->ctx, m->config.partners * bytes_before(m, m->n_buckets), 1,
                         "partners' messages", &self->came);
}

/* All replicas of a new run begin with the same parameters, so all copies begin with them,
 * too. */
static weft_status choco_prime(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    size_t n_bytes = (size_t)m->buckets[bucket].n_elements * sizeof(float);
    bool equal = step == 0 && m->pairs[WEFTI_PAIRS_SINCE] == 0;
    for (int i = 0; i < m->n_states && equal; i++)
        memcpy(wefti_mixer_state(m, i, bucket), params, n_bytes);
    return wefti_gossip_prime(m, bucket, step, params);
}

/* One parcel for each partner that is met, in the order of the partners. */
static void choco_parcels(wefti_mixer *m, int bucket, int64_t step, bool prime) {
    const choco *self = m->self;
    const weft_neighbours *list = self->gossip.neighbours;
    int64_t round = m->config.combine_last || prime ? step : step + 1;
    if (prime && m->config.combine_last) return;
    wefti_gossip_look_up(m, m->comm->rank, round, self->gossip.neighbours);
    for (int k = 0; k < self->n_partners; k++)
        for (int i = 0; i < list->n_sources; i++)
            if (list->sources[i] == self->partners[k])
                wefti_mixer_expect(m, &(wefti_held_parcel){
                                          .bucket = bucket,
                                          .partner = k,
                                          .exchange = round,
                                          .seed = m->config.seed,
                                          .place = place_of(m, bucket, self->partners[k]),
                                          .n_bytes = section_bytes(&self->cuts[bucket])});
}

static bool choco_agrees(const wefti_mixer_config *config, int64_t step) {
    (void)config, (void)step;
    return false;
}

static void choco_destroy(wefti_mixer *m) {
    choco *self = m->self;
    if (!self) return;
    wefti_gossip_fini(m, &self->gossip);
    WEFTI_FREE(m->ctx, self->partners, self->weights, self->pairs.met, self->cuts,
               self->came, self);
}

static wefti_touched choco_touched(int R) {
    (void)R;
    return (wefti_touched){.begin = 16, .combine_peer = 44};
}

static const char *const choco_keys[] = {"topology", "links",       "order",
                                         "gamma",    "gamma_power", "gamma_start",
                                         "values",   "rounding",    NULL};
static const wefti_value_codec choco_measured[] = {WEFTI_VALUES_INT8, WEFTI_VALUES_INT4,
                                                   WEFTI_VALUE_CODECS};

const wefti_mixer_ops wefti_mixer_choco = {
    .name = "choco",
    .keys = choco_keys,
    .coded = true,
    .meets = true,
    .keeps_partners = true,
    .measured = choco_measured,
    .touched = choco_touched,
    .states = choco_states,
    .acts = wefti_gossip_acts,
    .messages = choco_messages,
    .message_bytes = message_bytes,
    .driver = choco_driver,
    .room = choco_room,
    .create = choco_create,
    .parcels = choco_parcels,
    .prime = choco_prime,
    .before = wefti_gossip_before,
    .after = wefti_gossip_after,
    .finish = wefti_gossip_finish,
    .distance = wefti_gossip_distance,
    .agrees = choco_agrees,
    .destroy = choco_destroy,
};
