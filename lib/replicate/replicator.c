/* SPDX-License-Identifier: MIT */
/* The front of all replicators: creation, states, steps that are left out, and the three
 * phases of methods that leave their messages to the driver.
 *
 *     begin      encode; send                        every bucket, in backward order
 *     combine    with two rounds: add, answer        each phase passes the buckets in order
 *     end        add, or take the answers; finish    the gradient has become the direction
 *
 *     a method has                        what runs
 *     encode, add, finish                 the driver (collectives/driver.h), one message buffer
 *     begin, combine, end                 its own, as `full` over the all-reduce
 *     neither                             nothing is exchanged
 *
 * A step that is not due (replicator.every) only adds to the momentum, and its direction
 * is zero. Lengths of messages are counted once, when the replicator is made: a length
 * never changes afterwards, so receivers can check it. */
#include "replicate/replicator.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"
#include "wire/values.h"

#define WEFTI_KIND(name, summary) &wefti_replicator_##name,
const wefti_replicator_ops *const wefti_replicator_registry[] = {
#include "replicate/replicators.def"
    NULL,
};
#undef WEFTI_KIND

const wefti_replicator_ops *wefti_replicator_find(const char *kind) {
    for (int i = 0; wefti_replicator_registry[i]; i++) /* a job's is the name itself */
        if (wefti_replicator_registry[i]->name == kind)
            return wefti_replicator_registry[i];
    for (int i = 0; wefti_replicator_registry[i]; i++)
        if (strcmp(wefti_replicator_registry[i]->name, kind) == 0)
            return wefti_replicator_registry[i];
    return NULL;
}

/* With a delay the direction waits in the last state, and it covers everything. */
static weft_status prepare_delay(wefti_replicator *r) {
    bool fits = r->config.delay == 1 && r->ops->encode && !r->ops->cover &&
                r->n_states == 2;
    for (int b = 0; b < r->n_buckets; b++) fits &= r->n_rounds[b] <= 1;
    if (!fits)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator.delay is %lld with %s, expected 0; or 1 with "
                             "demo or topk whose messages go to all",
                             (long long)r->config.delay, r->ops->name);
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(int64_t), "steps under way",
                           &r->under_way));
    for (int b = 0; b < r->n_buckets; b++) r->under_way[b] = -1;
    return WEFT_OK;
}

/* --- over the driver --- */

/* The driver's functions; they call those of the method. */
static int64_t bytes(const void *replicator, const wefti_round *round, int sender,
                     int member) {
    const wefti_replicator *r = replicator;
    int rounds = round->bucket * WEFTI_DRIVER_ROUNDS + round->number;
    int64_t row = (int64_t)rounds * wefti_values_rows(&r->config) +
                  wefti_values_row(&r->config, sender);
    return r->lengths[row * r->comm->size + member];
}

static weft_status encode(void *replicator, const wefti_round *round, int member,
                          unsigned char *out) {
    wefti_replicator *r = replicator;
    return r->ops->encode(r, round, member, out);
}

static weft_status add(void *replicator, const wefti_round *round, int member,
                       const unsigned char *in) {
    wefti_replicator *r = replicator;
    return r->ops->add(r, round, member, in);
}

static weft_status finish(void *replicator, const wefti_round *round,
                          unsigned char *answer) {
    wefti_replicator *r = replicator;
    return r->ops->finish ? r->ops->finish(r, round, answer) : WEFT_OK;
}

static const wefti_driver_ops driver_ops = {
    .bytes = bytes, .encode = encode, .add = add, .finish = finish};

static int64_t longer(int64_t a, int64_t b) { return a > b ? a : b; }

/* The configuration of the codec that takes most room. */
static wefti_replicator_config longest_of(const wefti_replicator_config *config, int R) {
    wefti_replicator_config longest = wefti_replicator_sending(config, 0);
    for (int i = 1; i < R && config->values_of; i++)
        if (wefti_value_ops_of(config->values_of[i])->bits >
            wefti_value_ops_of(longest.sent)->bits)
            longest.sent = config->values_of[i];
    return longest;
}

/* Room for a rank's messages about a bucket: all that it sends in the first round, and
 * its longest answer. */
static void message_room(const wefti_replicator_config *config,
                         const wefti_bucket *bucket, int R,
                         int64_t room[WEFTI_DRIVER_ROUNDS]) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    wefti_replicator_config c = longest_of(config, R);
    int n_rounds = ops->rounds(&c, bucket, R);
    room[0] = room[1] = 0;
    for (int owner = 0; owner < R && n_rounds > 0; owner++) {
        int64_t n_bytes = ops->round_bytes(&c, bucket, R, 0, owner);
        room[0] = n_rounds == 2 ? room[0] + n_bytes : longer(room[0], n_bytes);
        if (n_rounds == 2)
            room[1] = longer(room[1], ops->round_bytes(&c, bucket, R, 1, owner));
    }
}

/* With a delay a bucket is encoded while others may still read its last message. */
static int n_buffers(const wefti_replicator_config *config) {
    return 1 + (int)config->delay;
}

static int64_t lengths_of(const wefti_replicator_config *config, int n_buckets, int R) {
    return (int64_t)n_buckets * WEFTI_DRIVER_ROUNDS * wefti_values_rows(config) * R;
}

void wefti_replicator_lengths(const wefti_replicator_config *config,
                              const wefti_bucket *bucket, int R, int round,
                              int64_t *out) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    wefti_replicator_config c = *config;
    for (int row = 0; row < wefti_values_rows(config); row++) {
        c.sent = (wefti_value_codec)row;
        for (int owner = 0; owner < R; owner++)
            *out++ = ops->round_bytes(&c, bucket, R, round, owner);
    }
}

/* Makes the driver, with room for every bucket's messages, and the table of their
 * lengths. */
static weft_status open_driver(wefti_replicator *r) {
    wefti_driver_setup setup = {.ctx = r->ctx,
                                .comm = r->comm,
                                .ops = &driver_ops,
                                .self = r,
                                .times = r->config.delay > 0 ? &r->times : NULL,
                                .n_buckets = r->n_buckets,
                                .n_buffers = n_buffers(&r->config),
                                .own_answers = r->ops->own_answers};
    int R = r->comm->size;
    int64_t room[WEFTI_DRIVER_ROUNDS], *length;
    WEFT_TRY(wefti_driver_create(&setup, &r->driver));
    int64_t n = lengths_of(&r->config, 1, R) / WEFTI_DRIVER_ROUNDS;
    WEFT_TRY(wefti_alloc_n(r->ctx, lengths_of(&r->config, r->n_buckets, R),
                           sizeof(int64_t), "lengths of messages", &r->lengths));
    length = r->lengths;
    for (int b = 0; b < r->n_buckets; b++)
        for (int round = 0; round < WEFTI_DRIVER_ROUNDS; round++, length += n)
            if (round < r->n_rounds[b])
                wefti_replicator_lengths(&r->config, &r->buckets[b], R, round, length);
    for (int b = 0; b < r->n_buckets; b++) {
        message_room(&r->config, &r->buckets[b], r->comm->size, room);
        WEFT_TRY(wefti_driver_open(r->driver, b, room));
    }
    return WEFT_OK;
}

/* One exchange of a bucket among all ranks of the group; the direction takes the place of
 * the gradient. */
static wefti_round round_of(const wefti_replicator *r, int bucket, int64_t step,
                            float *grad) {
    WEFTI_ASSERT(bucket >= 0 && bucket < r->n_buckets && step >= 0);
    WEFTI_ASSERT(r->n_rounds[bucket] <= WEFTI_DRIVER_ROUNDS);
    return (wefti_round){.shape = r->n_rounds[bucket] == 2 ? WEFTI_SHAPE_OWNER
                                                           : WEFTI_SHAPE_ALL,
                         .step = step,
                         .bucket = bucket,
                         .kinds = {r->ops->kinds[0], r->ops->kinds[1]},
                         .together = !r->ops->one_by_one,
                         .party = wefti_party_all(r->comm),
                         .from = grad,
                         .x = grad};
}

int64_t wefti_replicator_work_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *buckets, int n_buckets, int R) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    int64_t room[WEFTI_DRIVER_ROUNDS], n_bytes = 0;
    if (ops->work_bytes) n_bytes = ops->work_bytes(config, buckets, n_buckets, R);
    if (!ops->encode) return n_bytes;
    for (int b = 0; b < n_buckets; b++) {
        if (b == 0 || !wefti_bucket_is_like(&buckets[b - 1], &buckets[b]))
            message_room(config, &buckets[b], R, room);
        n_bytes += wefti_driver_bucket_bytes(room, n_buffers(config));
    }
    n_bytes += wefti_alloc_n_cost(lengths_of(config, n_buckets, R), sizeof(int64_t));
    return n_bytes + wefti_driver_bytes(n_buckets, n_buffers(config), false, R);
}

/* --- creation --- */

/* States are flat, as long as this rank's parameters, one bucket after another. The
 * method is created next, because it may refuse its knobs; the number of rounds may
 * depend on what it has found. */
static weft_status allocate_state(wefti_replicator *r) {
    int64_t n = 0;
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(int64_t), "replicator state",
                           &r->bucket_at));
    for (int b = 0; b < r->n_buckets; b++) {
        r->bucket_at[b] = n;
        n += r->buckets[b].n_elements;
    }
    for (const char *const *name = r->ops->states(&r->config); *name;
         name++, r->n_states++)
        WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "replicator state",
                               &r->state[r->n_states]));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(int), "rounds", &r->n_rounds));
    if (r->ops->create) WEFT_TRY(r->ops->create(r)); /* also checks the knobs */
    for (int b = 0; b < r->n_buckets; b++)
        r->n_rounds[b] = r->ops->rounds(&r->config, &r->buckets[b], r->comm->size);
    WEFTI_ASSERT(r->n_states <= WEFTI_REPLICATOR_STATES);
    if (r->config.delay > 0) WEFT_TRY(prepare_delay(r));
    return r->ops->encode ? open_driver(r) : WEFT_OK;
}

weft_status wefti_replicator_create(weft_ctx *ctx, const wefti_replicator_config *config,
                                    const wefti_kernels *kernels, wefti_comm *comm,
                                    const wefti_bucket *buckets, int n_buckets,
                                    wefti_replicator **out) {
    *out = NULL;
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    if (!ops)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown replicator '%s'",
                             config->kind);
    if (config->every < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.every is %lld, expected 1 or more",
                             (long long)config->every);
    wefti_replicator *r;
    WEFT_TRY(wefti_alloc(ctx, sizeof *r, "the replicator", &r));
    *r = (wefti_replicator){.ops = ops,
                            .ctx = ctx,
                            .kernels = kernels,
                            .comm = comm,
                            .config = *config,
                            .n_buckets = n_buckets,
                            .buckets = buckets};
    WEFTI_TRY_OR(allocate_state(r), wefti_replicator_destroy(r));
    *out = r;
    return WEFT_OK;
}

void wefti_replicator_destroy(wefti_replicator *r) {
    if (!r) return;
    if (r->ops->destroy) r->ops->destroy(r);
    wefti_driver_destroy(r->driver);
    WEFTI_FREE(r->ctx, r->n_rounds, r->under_way, r->lengths);
    for (int i = 0; i < r->n_states; i++) wefti_free(r->ctx, r->state[i]);
    WEFTI_FREE(r->ctx, r->bucket_at, r);
}

/* In the first round a rank sends what `to` is in charge of, in the second its own
 * answer. */
int64_t wefti_replicator_wire_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *bucket, int R, int from, int to) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    wefti_replicator_config c = wefti_replicator_sending(config, from);
    int n_rounds = from == to ? 0 : ops->rounds(&c, bucket, R);
    int64_t n_bytes = 0;
    WEFTI_ASSERT(from >= 0 && from < R && to >= 0 && to < R);
    for (int round = 0; round < n_rounds; round++)
        n_bytes += ops->round_bytes(&c, bucket, R, round, round ? from : to);
    return n_bytes;
}

bool wefti_replicator_is_due(const wefti_replicator_config *config, int64_t step) {
    WEFTI_ASSERT(config->every >= 1);
    return step % config->every == 0;
}

/* --- what several kinds have in common --- */

/* Bits of the number of one of the (n choose k) sets: the least that places can take on
 * the wire. */
double wefti_log2_choose(int64_t n, int64_t k) {
    double bits = 0;
    for (int64_t i = 1; i <= k; i++) bits += log2((double)(n - k + i) / (double)i);
    return bits;
}

const char *const *wefti_replicator_no_states(const wefti_replicator_config *config) {
    static const char *const none[] = {NULL};
    (void)config;
    return none;
}

const char *const *
wefti_replicator_momentum_state(const wefti_replicator_config *config) {
    static const char *const names[][3] = {{"momentum", NULL},
                                           {"momentum", "direction", NULL}};
    return names[config->delay > 0];
}

int wefti_replicator_one_round(const wefti_replicator_config *config,
                               const wefti_bucket *bucket, int R) {
    (void)config, (void)bucket, (void)R;
    return 1;
}

int wefti_replicator_two_rounds(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R) {
    (void)config, (void)bucket, (void)R;
    return 2;
}

double wefti_replicator_momentum_floor(const wefti_replicator_config *config, double n,
                                       double values, int R) {
    (void)config, (void)values, (void)R;
    return 4 * sizeof(float) * n;
}

weft_status wefti_replicator_check_alpha(weft_ctx *ctx,
                                         const wefti_replicator_config *config) {
    if (config->alpha > 0 && config->alpha <= 1) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "replicator.alpha is %g, expected above 0 and at most 1: "
                         "what is sent has to leave the momentum",
                         config->alpha);
}

weft_status wefti_replicator_check_coding(const wefti_replicator *r, int64_t room) {
    int64_t c = r->config.compression_chunk, k = r->config.compression_topk;
    int values = (int)r->config.values, indices = (int)r->config.indices;
    if (c < 2 || c > 1024)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_chunk is %lld, expected 2 to 1024",
                             (long long)c);
    if (k < 1 || k > room)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_topk is %lld, expected 1 to %lld",
                             (long long)k, (long long)room);
    if (values < 0 || values >= WEFTI_VALUE_CODECS || indices < 0 ||
        indices >= WEFTI_INDEX_CODECS)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator codecs %d and %d, expected names that "
                             "`weft train --help` lists",
                             values, indices);
    return wefti_replicator_check_alpha(r->ctx, &r->config);
}

/* --- the phases --- */

float wefti_replicator_gain(const wefti_replicator *r) {
    return r->config.ema ? (float)(1 - r->config.compression_decay) : r->lr;
}

wefti_rounding wefti_replicator_rounding(const wefti_replicator *r,
                                         const wefti_round *round, int number) {
    uint64_t place = (uint64_t)r->comm->rank << 40 | (uint64_t)round->bucket << 20;
    return (wefti_rounding){.stochastic = r->config.stochastic,
                            .seed = r->config.seed,
                            .step = (uint64_t)round->step,
                            .place = place + (uint64_t)number};
}

/* m <- beta m + gain g, over one bucket. Elements are independent, so threads change no bit. */
void wefti_replicator_accumulate(const wefti_replicator *r, int bucket,
                                 const float *grad) {
    int64_t n = r->buckets[bucket].n_elements;
    float beta = (float)r->config.compression_decay, gain = wefti_replicator_gain(r);
    float *restrict m = wefti_replicator_state(r, 0, bucket);
    const float *restrict g = grad;
    int t = r->config.threads;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int64_t i = 0; i < n; i++) m[i] = beta * m[i] + gain * g[i];
}

/* --- a step later ---
 *
 *     step t     bucket's begin: take in the messages of t - 1 -> state "direction"
 *                                encode and send those of t
 *                        end:    grad <- "direction", that of t - 1
 *     step t+1   begin: take in the messages of t, ...
 *
 * The messages of t have until the bucket's gradient of t + 1 is ready, a whole step.
 * Their contents depend on the gradients alone, so the directions are those without a
 * delay, one step later, bit for bit. Before a checkpoint `settle` takes in what is in
 * flight; then "direction" holds what the next step applies, and nothing that was sent is
 * lost. */

/* The state in which the direction waits for its step. */
static float *direction_of(const wefti_replicator *r, int bucket) {
    WEFTI_ASSERT(r->config.delay > 0 && r->n_states > 0);
    return wefti_replicator_state(r, r->n_states - 1, bucket);
}

static weft_status take_in(wefti_replicator *r, int bucket) {
    int64_t step = r->under_way ? r->under_way[bucket] : -1;
    if (step < 0) return WEFT_OK;
    wefti_round round = round_of(r, bucket, step, direction_of(r, bucket));
    WEFTI_ASSERT(r->n_rounds[bucket] == 1); /* a delay has no second round */
    r->under_way[bucket] = -1;
    return wefti_driver_receive(r->driver, &round);
}

weft_status wefti_replicator_settle(wefti_replicator *r) {
    for (int b = 0; b < r->n_buckets; b++) WEFT_TRY(take_in(r, b));
    return WEFT_OK;
}

/* Whether the step applies anything: with a delay, whether the one before it was due. */
static bool applies(const wefti_replicator_config *config, int64_t step) {
    WEFTI_ASSERT(config->delay >= 0 && config->every >= 1);
    step -= config->delay;
    return step >= 0 && wefti_replicator_is_due(config, step);
}

static void deliver(const wefti_replicator *r, int bucket, int64_t step, float *grad) {
    size_t n_bytes = (size_t)r->buckets[bucket].n_elements * sizeof(float);
    if (applies(&r->config, step))
        memcpy(grad, direction_of(r, bucket), n_bytes);
    else
        memset(grad, 0, n_bytes);
}

weft_status wefti_replicator_begin(wefti_replicator *r, int bucket, int64_t step,
                                   float lr, float *grad) {
    r->lr = lr;
    WEFTI_ASSERT(bucket >= 0 && bucket < r->n_buckets && step >= 0);
    WEFT_TRY(take_in(r, bucket));
    if (!wefti_replicator_is_due(&r->config, step)) {
        if (r->n_states > 0) wefti_replicator_accumulate(r, bucket, grad);
        return WEFT_OK;
    }
    if (r->ops->begin) return r->ops->begin(r, bucket, step, grad);
    wefti_round round = round_of(r, bucket, step, grad);
    WEFTI_ASSERT(!r->under_way || r->under_way[bucket] < 0);
    if (r->under_way) r->under_way[bucket] = step;
    return r->driver ? wefti_driver_send(r->driver, &round) : WEFT_OK;
}

weft_status wefti_replicator_combine(wefti_replicator *r, int bucket, int64_t step,
                                     float *grad) {
    WEFTI_ASSERT(bucket >= 0 && bucket < r->n_buckets);
    if (!wefti_replicator_is_due(&r->config, step)) return WEFT_OK;
    if (r->ops->combine) return r->ops->combine(r, bucket, step, grad);
    wefti_round round = round_of(r, bucket, step, grad);
    bool answers = r->driver && r->n_rounds[bucket] == 2;
    return answers ? wefti_driver_answer(r->driver, &round) : WEFT_OK;
}

weft_status wefti_replicator_end(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad) {
    WEFTI_ASSERT(bucket >= 0 && bucket < r->n_buckets);
    if (r->under_way) {
        deliver(r, bucket, step, grad);
        return WEFT_OK;
    }
    if (!wefti_replicator_is_due(&r->config, step)) {
        size_t n_bytes = (size_t)r->buckets[bucket].n_elements * sizeof(float);
        if (r->n_states > 0) memset(grad, 0, n_bytes);
        return WEFT_OK;
    }
    if (r->ops->end) return r->ops->end(r, bucket, step, grad);
    wefti_round round = round_of(r, bucket, step, grad);
    return r->driver ? wefti_driver_receive(r->driver, &round) : WEFT_OK;
}

wefti_cover wefti_replicator_cover(const wefti_replicator *r, int bucket, int piece,
                                   int64_t step) {
    WEFTI_ASSERT(bucket >= 0 && piece >= 0);
    int64_t sent = step - r->config.delay;
    int64_t due_so_far = sent < 0 ? 0 : sent / r->config.every + 1;
    if (r->gathers || !applies(&r->config, step))
        return (wefti_cover){.count = due_so_far};
    if (r->ops->cover) return r->ops->cover(r, bucket, piece, step);
    return (wefti_cover){.all = true, .count = due_so_far};
}

float *wefti_replicator_state(const wefti_replicator *r, int i, int bucket) {
    WEFTI_ASSERT(i >= 0 && i < r->n_states && bucket >= 0 && bucket < r->n_buckets);
    return r->state[i] + r->bucket_at[bucket];
}
