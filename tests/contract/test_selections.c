/* SPDX-License-Identifier: MIT */
/* The laws of random, striding and slicing (docs/methods.md section 3), and of full with
 * coded values. */
#include <math.h>
#include <stdlib.h>

#include "optim/optimizer.h"
#include "ranks.h"
#include "replicate/replicator.h"
#include "reference/reference.h"

enum { PIECES = 6, BUCKETS = 2, N0 = 33 * 17 + 100 + 70 * 9, N1 = 48 + 40 + 3 };
enum { N = N0 + N1, STEPS = 6, MAX_R = 4 };

static const wefti_piece pieces[PIECES] = {
    {33, 17, 0, true, 0}, {100, 1, 33 * 17, false, 1}, {70, 9, 33 * 17 + 100, true, 2},
    {48, 1, 0, false, 3}, {1, 40, 48, true, 4},        {3, 1, 88, false, 5}};
static const wefti_bucket buckets[BUCKETS] = {{3, pieces, N0}, {3, pieces + 3, N1}};
static const int64_t bucket_at[BUCKETS] = {0, N0};

static const char *const kinds[] = {"random", "striding", "slicing"};

typedef struct trial {
    wefti_replicator_config config;
    const wefti_optimizer_ops *optimizer; /* or NULL */
    bool same_gradients;                  /* every rank has rank 0's */
    float scale;                          /* of gradients */
    int resume_at;                        /* a step before which it is made anew; or 0 */
    float gradient[STEPS][N], direction[STEPS][N], kept[STEPS][N];
    int64_t count[STEPS][N]; /* of the updates of what is covered; 0 elsewhere */
    float params[STEPS + 1][N], moments[STEPS + 1][2][N];
    int64_t bytes_out, bytes_predicted;
} trial;

static trial trials[MAX_R], lone[1], other[1];

static const wefti_optimizer_config adamw = {
    .kind = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
enum { LR = 1 }; /* hundredths */

/* The optimizer on what is covered, as the exchange thread calls it. */
static void optimize(trial *t, wefti_cover_range run, int64_t base,
                     const wefti_piece *piece, int64_t count, int step) {
    float *p = t->params[step + 1], *m = t->moments[step + 1][0], *v = m + N;
    float *states[] = {m, v};
    double moved = 0;
    wefti_optimizer_step s = {.count = count, .lr = LR / 100.0f, .grad_scale = 1};
    wefti_span span = {base + run.begin, run.n, piece->decays};
    t->optimizer->apply(&adamw, &wefti_kernels_reference, &s, &span, t->direction[step],
                        p, states, &moved);
}

static void note_cover(trial *t, const wefti_replicator *r, int step) {
    if (t->optimizer) {
        memcpy(t->params[step + 1], t->params[step], sizeof t->params[0]);
        memcpy(t->moments[step + 1], t->moments[step], sizeof t->moments[0]);
    }
    for (int b = 0; b < BUCKETS; b++)
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            const wefti_piece *piece = &buckets[b].pieces[i];
            wefti_cover cover = wefti_replicator_cover(r, b, i, step);
            int64_t base = bucket_at[b] + piece->offset;
            wefti_cover_range all = {0, piece->rows * piece->cols};
            const wefti_cover_range *runs = cover.all ? &all : cover.runs;
            int64_t n = cover.all ? 1 : cover.n_runs;
            for (int64_t k = 0; k < n; k++) {
                for (int64_t e = 0; e < runs[k].n; e++)
                    t->count[step][base + runs[k].begin + e] = cover.count;
                if (t->optimizer) optimize(t, runs[k], base, piece, cover.count, step);
            }
        }
}

static weft_status take_step(trial *t, wefti_replicator *r, int rank, int step) {
    float *d = t->direction[step];
    fill_normal(17 * (uint64_t)step + (t->same_gradients ? 0 : (uint64_t)rank * 1000), N,
                d);
    for (int i = 0; i < N; i++) d[i] *= t->scale;
    memcpy(t->gradient[step], d, sizeof t->gradient[step]);
    for (int b = 0; b < BUCKETS; b++)
        WEFT_TRY(wefti_replicator_begin(r, b, step, 0.5f, d + bucket_at[b]));
    for (int b = 0; b < BUCKETS; b++)
        WEFT_TRY(wefti_replicator_combine(r, b, step, d + bucket_at[b]));
    for (int b = 0; b < BUCKETS; b++)
        WEFT_TRY(wefti_replicator_end(r, b, step, d + bucket_at[b]));
    note_cover(t, r, step);
    if (r->n_states) memcpy(t->kept[step], r->state[0], sizeof t->kept[step]);
    return WEFT_OK;
}

static int64_t predict(const wefti_replicator *r, int step) {
    int64_t n_bytes = 0;
    for (int to = 0; to < r->comm->size; to++)
        for (int b = 0; b < BUCKETS; b++)
            n_bytes += wefti_replicator_wire_bytes(&r->config, &buckets[b], r->comm->size,
                                                   r->comm->rank, to);
    return wefti_replicator_is_due(&r->config, step) ? n_bytes : 0;
}

static weft_status create(rank_env *env, const trial *t, wefti_replicator **out) {
    return wefti_replicator_create(env->ctx, &t->config, &wefti_kernels_reference,
                                   env->replica, buckets, BUCKETS, out);
}

/* As a run that ends and is resumed: nothing is kept but the states. */
static weft_status resume(rank_env *env, const trial *t, wefti_replicator **r) {
    static const int64_t tag = -100;
    float states[WEFTI_REPLICATOR_STATES][N];
    WEFT_TRY(wefti_comm_barrier(env->control, tag)); /* nobody reads my messages now */
    for (int i = 0; i < (*r)->n_states; i++)
        memcpy(states[i], (*r)->state[i], sizeof states[i]);
    wefti_replicator_destroy(*r);
    WEFT_TRY(create(env, t, r));
    for (int i = 0; i < (*r)->n_states; i++)
        memcpy((*r)->state[i], states[i], sizeof states[i]);
    return WEFT_OK;
}

static weft_status replicate(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    WEFT_TRY(create(env, t, &r));
    if (t->optimizer) fill_normal(99, N, t->params[0]);
    int64_t allocations = weft_ctx_allocations(env->ctx);
    weft_status status = WEFT_OK;
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        if (step && step == t->resume_at) {
            status = resume(env, t, &r);
            allocations = weft_ctx_allocations(env->ctx);
        }
        if (status == WEFT_OK) status = take_step(t, r, env->replica->rank, step);
        t->bytes_predicted += predict(r, step);
    }
    if (status == WEFT_OK && weft_ctx_allocations(env->ctx) != allocations)
        status = weft_ctx_fail(env->ctx, WEFT_ERR_INTERNAL, "a step allocated memory");
    /* whoever failed wakes the others before memory they read is freed */
    if (status != WEFT_OK)
        wefti_world_poison(env->world, env->rank, status, weft_ctx_message(env->ctx));
    weft_status met = wefti_comm_barrier(env->control, -1);
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_out = traffic.bytes_out[WEFTI_LINK_WIRE];
    wefti_replicator_destroy(r);
    return status == WEFT_OK ? met : status;
}

static void prepare(trial *ts, int R, wefti_replicator_config config, void **users) {
    for (int r = 0; r < R; r++) {
        memset(&ts[r], 0, sizeof ts[r]);
        ts[r].config = config;
        ts[r].scale = 1;
        users[r] = &ts[r];
    }
}

static void run(trial *ts, int R, wefti_replicator_config config) {
    void *users[MAX_R];
    prepare(ts, R, config, users);
    run_ranks(R, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
}

static void run_equal(trial *ts, int R, wefti_replicator_config config) {
    void *users[MAX_R];
    prepare(ts, R, config, users);
    for (int r = 0; r < R; r++) ts[r].same_gradients = true;
    run_ranks(R, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
}

static wefti_replicator_config knobs(const char *kind, double rate,
                                     wefti_value_codec values) {
    return (wefti_replicator_config){.kind = kind,
                                     .compression_rate = rate,
                                     .compression_decay = 0.9,
                                     .alpha = 1,
                                     .values = values,
                                     .every = 1,
                                     .seed = 21,
                                     .threads = 1};
}

/* Each kind, full included, with every codec, and with the knobs that change its way. */
static void for_each_kind(void (*claim)(wefti_replicator_config config)) {
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec += 1 + UNDER_SANITIZER) {
        claim(knobs("full", 1, (wefti_value_codec)codec));
        for (int kind = 0; kind < 3; kind++) {
            wefti_replicator_config c = knobs(kinds[kind], 0.15,
                                              (wefti_value_codec)codec);
            claim(c);
            c.sign = true;
            claim(c);
            c.ema = true;
            c.alpha = 0.3;
            c.every = 2;
            c.stochastic = true;
            claim(c);
            c.sign = false;
            claim(c);
        }
    }
}

static void claim_same_bits_and_bytes(wefti_replicator_config config) {
    for (int R = 1; R <= MAX_R; R++) {
        run(trials, R, config);
        for (int r = 0; r < R; r++) {
            assert_int_equal(trials[r].bytes_out, trials[r].bytes_predicted);
            assert_memory_equal(trials[r].direction, trials[0].direction,
                                sizeof trials[0].direction);
            assert_memory_equal(trials[r].count, trials[0].count, sizeof trials[0].count);
        }
        if (R > 1) assert_true(trials[0].bytes_out > 0);
    }
}

TEST(all_replicas_get_the_same_bits_for_the_bytes_predicted) {
    for_each_kind(claim_same_bits_and_bytes);
}

/* What a step puts into the memory of rank r, in double. */
static double put_in(const wefti_replicator_config *c, const trial *t, int step, int i) {
    double g = (double)t->gradient[step][i];
    double before = step ? (double)t->kept[step - 1][i] : 0;
    if (strcmp(c->kind, "full") == 0) return before + g;
    double gain = c->ema ? 1 - (double)(float)c->compression_decay : 0.5;
    return (double)(float)c->compression_decay * before + gain * g;
}

/* Over the group: memory afterwards + alpha R d = memory before + what was put in.
 * Roundings: a few of numbers below 100. */
static void claim_nothing_is_lost(wefti_replicator_config config) {
    if (config.sign) return; /* then d does not tell */
    double share = strcmp(config.kind, "full") == 0 ? 1 : (double)(float)config.alpha;
    for (int R = 1; R <= MAX_R; R += 3) {
        run(trials, R, config);
        bool keeps = strcmp(config.kind, "full") != 0 || config.values;
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < N; i++) {
                double before = 0, after = 0;
                for (int r = 0; r < R; r++) {
                    before += put_in(&config, &trials[r], step, i);
                    if (keeps) after += (double)trials[r].kept[step][i];
                }
                after += share * R * (double)trials[0].direction[step][i];
                assert_true(fabs(before - after) < 100 * 0x1p-22);
            }
    }
}

TEST(what_is_kept_and_what_is_sent_is_all_there_was) {
    for_each_kind(claim_nothing_is_lost);
}

/* Values that f32 carries leave the momentum of the rows that were sent at (1 - alpha)
 * of what it was, with signs as well. */
TEST(what_is_sent_leaves_the_momentum) {
    for (int kind = 0; kind < 3; kind++)
        for (int sign = 0; sign < 2; sign++)
            for (int alpha = 1; alpha <= 2; alpha++) {
                wefti_replicator_config c = knobs(kinds[kind], 0.15, WEFTI_VALUES_F32);
                c.sign = sign > 0;
                c.alpha = alpha / 2.0;
                run(trials, 2, c);
                for (int step = 0; step < STEPS; step++)
                    for (int i = 0; i < N; i++) {
                        double m = put_in(&c, &trials[1], step, i);
                        if (trials[1].count[step][i]) m *= 1 - c.alpha;
                        assert_true(fabs((double)trials[1].kept[step][i] - m) < 1e-6);
                        if (alpha == 2 && trials[1].count[step][i])
                            assert_true(trials[1].kept[step][i] == 0);
                    }
            }
}

/* The mean of R equal numbers is the number but for roundings; in a sign they show where
 * the number is 0. Codes may round the other way by a step. */
static void claim_identical(wefti_replicator_config config) {
    static const float step_of[] = {0, 0.04f, 0.15f, 1.5f, 2};
    if (config.stochastic) return;
    run_equal(lone, 1, config);
    for (int R = 2; R <= MAX_R; R++) {
        run_equal(trials, R, config);
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < N; i++) {
                float a = trials[0].direction[step][i], b = lone->direction[step][i];
                float room = 1e-5f * (1 + fabsf(b));
                if (R == 3) room += step_of[config.values];
                /* what the mean's coding loses stays with its owner, who differs by R */
                if (step == 0 || config.values == WEFTI_VALUES_F32)
                    assert_true(fabsf(a - b) <= room);
            }
    }
}

TEST(equal_ranks_are_one_rank) { for_each_kind(claim_identical); }

TEST(a_direction_is_zero_where_it_does_not_cover) {
    for (int kind = 0; kind < 3; kind++) {
        wefti_replicator_config c = knobs(kinds[kind], 0.15, WEFTI_VALUES_F32);
        run(trials, 2, c);
        for (int step = 0; step < STEPS; step++) {
            int covered = 0;
            for (int i = 0; i < N; i++) {
                bool is_zero = trials[0].direction[step][i] == 0;
                assert_int_equal(is_zero, trials[0].count[step][i] == 0);
                covered += !is_zero;
            }
            assert_in_range(covered, N / 10, N / 4); /* of a rate of 0.15 */
        }
    }
}

TEST(at_rate_one_all_kinds_are_full_with_momentum) {
    for (int alpha = 1; alpha <= 5; alpha += 4) {
        for (int kind = 0; kind < 3; kind++) {
            wefti_replicator_config c = knobs(kinds[kind], 1, WEFTI_VALUES_F32);
            c.alpha = alpha / 5.0;
            run(trials, 3, c);
            if (kind == 0) *other = trials[0];
            assert_memory_equal(trials[0].direction, other->direction,
                                sizeof other->direction);
            for (int step = 0; step < STEPS; step++)
                for (int i = 0; i < N; i++) {
                    double mean = 0;
                    for (int r = 0; r < 3; r++)
                        mean += put_in(&c, &trials[r], step, i) / 3;
                    assert_true(fabs(mean - (double)other->direction[step][i]) < 1e-5);
                    assert_int_equal(other->count[step][i], step + 1);
                }
        }
    }
    /* with alpha = 1 nothing is left of the momentum: bit for bit full's mean of lr g */
    void *users[MAX_R];
    prepare(trials, 3, knobs("full", 1, WEFTI_VALUES_F32), users);
    for (int r = 0; r < 3; r++) trials[r].scale = 0.5f;
    run_ranks(3, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
    assert_memory_equal(trials[0].direction, other->direction, sizeof other->direction);
}

TEST(a_step_that_is_not_due_moves_nothing_and_takes_no_turn) {
    for (int kind = 0; kind < 3; kind++) {
        wefti_replicator_config c = knobs(kinds[kind], 0.15, WEFTI_VALUES_F32);
        run(lone, 1, c);
        c.every = 3;
        run(trials, 2, c);
        for (int step = 0; step < STEPS; step++) {
            const trial *t = &trials[1];
            if (step % 3 == 0)
                assert_memory_equal(t->count[step], lone->count[step / 3],
                                    sizeof t->count[step]);
            for (int i = 0; step % 3 && i < N; i++) {
                assert_true(t->direction[step][i] == 0 && t->count[step][i] == 0);
                double all = put_in(&c, t, step, i);
                assert_true(fabs((double)t->kept[step][i] - all) < 1e-6);
            }
        }
    }
}

static void claim_resumes(wefti_replicator_config config) {
    void *users[MAX_R];
    prepare(trials, 2, config, users);
    run_ranks(2, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
    *other = trials[1];
    prepare(trials, 2, config, users);
    for (int r = 0; r < 2; r++) trials[r].resume_at = 4;
    run_ranks(2, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
    assert_memory_equal(trials[1].direction, other->direction, sizeof other->direction);
    assert_memory_equal(trials[1].kept, other->kept, sizeof other->kept);
    assert_memory_equal(trials[1].count, other->count, sizeof other->count);
}

TEST(nothing_but_the_states_goes_on_from_step_to_step) { for_each_kind(claim_resumes); }

TEST(rounding_by_chance_is_another_rounding) {
    for (int kind = -1; kind < 3; kind++) {
        const char *name = kind < 0 ? "full" : kinds[kind];
        wefti_replicator_config c = knobs(name, 0.15, WEFTI_VALUES_INT4);
        run(lone, 1, c);
        c.stochastic = true;
        run(other, 1, c);
        assert_memory_not_equal(lone->direction[0], other->direction[0],
                                sizeof lone->direction[0]);
        memcpy(lone, other, sizeof *lone);
        c.seed++;
        if (kind == 0) continue; /* the seed decides the rows as well */
        run(other, 1, c);
        assert_memory_not_equal(lone->direction[0], other->direction[0],
                                sizeof lone->direction[0]);
    }
}

/* --- with AdamW --- */

typedef struct element {
    double p, m, v;
    int64_t updates;
} element;

/* One AdamW step of one element by its own count, as if it stood alone. */
static void step_element(element *e, double d, double decay, int64_t t) {
    e->m = 0.9 * e->m + 0.1 * d;
    e->v = 0.95 * e->v + 0.05 * d * d;
    double mh = e->m / (1 - pow(0.9, (double)t)), vh = e->v / (1 - pow(0.95, (double)t));
    e->p -= LR / 100.0 * (decay * e->p + mh / (sqrt(vh) + 1e-8));
}

static double decay_of(int i) {
    bool in_vector = (i >= 33 * 17 && i < 33 * 17 + 100) || (i >= N0 && i < N0 + 48) ||
                     i >= N0 + 88;
    return in_vector ? 0 : 0.1;
}

static void run_adamw(const char *kind) {
    void *users[MAX_R];
    prepare(trials, 2, knobs(kind, 1.0 / 3, WEFTI_VALUES_F32), users);
    for (int r = 0; r < 2; r++) trials[r].optimizer = wefti_optimizer_find("adamw");
    run_ranks(2, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
}

TEST(moments_and_parameters_move_where_the_direction_covers_alone) {
    for (int kind = 0; kind < 3; kind++) {
        run_adamw(kinds[kind]);
        const trial *t = &trials[0];
        assert_memory_equal(t->params, trials[1].params, sizeof t->params);
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < N; i++) {
                bool still = t->params[step][i] == t->params[step + 1][i] &&
                             t->moments[step][0][i] == t->moments[step + 1][0][i] &&
                             t->moments[step][1][i] == t->moments[step + 1][1][i];
                assert_int_equal(still, t->count[step][i] == 0);
            }
    }
}

/* Two periods of striding: each element has had its own AdamW, bias correction included.
 */
TEST(each_element_has_an_adamw_of_its_own) {
    for (int kind = 1; kind < 3; kind++) {
        run_adamw(kinds[kind]);
        const trial *t = &trials[0];
        for (int i = 0; i < N; i++) {
            element e = {.p = (double)t->params[0][i]};
            for (int step = 0; step < STEPS; step++) {
                if (t->count[step][i] == 0) continue;
                assert_int_equal(t->count[step][i], ++e.updates);
                step_element(&e, (double)t->direction[step][i], decay_of(i), e.updates);
            }
            bool one_row = i >= N0 + 48 && i < N0 + 88; /* sent in each step */
            if (kind == 1) assert_int_equal(e.updates, one_row ? STEPS : 2);
            assert_true(e.updates > 0);
            assert_true(fabs(e.p - (double)t->params[STEPS][i]) < 1e-5);
        }
    }
}

/* --- errors --- */

TEST(ranks_that_disagree_are_refused_and_nobody_hangs) {
    for (int kind = 0; kind < 3; kind++)
        for (int knob = 0; knob < 3; knob++) {
            void *users[MAX_R];
            weft_status statuses[2];
            prepare(trials, 2, knobs(kinds[kind], 0.15, WEFTI_VALUES_INT8), users);
            if (knob == 0) trials[1].config.compression_rate = 0.3;
            if (knob == 1) trials[1].config.values = WEFTI_VALUES_INT4;
            if (knob == 2) trials[1].config.sign = true;
            run_ranks(2, 1, (wefti_wire_model){0, 0}, replicate, users, statuses);
            for (int r = 0; r < 2; r++)
                assert_true(statuses[r] == WEFT_ERR_WIRE || statuses[r] == WEFT_ERR_PEER);
            assert_true(statuses[0] == WEFT_ERR_WIRE || statuses[1] == WEFT_ERR_WIRE);
        }
}

TEST(bad_knobs_are_refused_in_a_sentence) {
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm lonely = {.size = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int kind = 0; kind < 3; kind++)
        for (int knob = 0; knob < 7; knob++) {
            wefti_replicator_config bad = knobs(kinds[kind], 0.1, WEFTI_VALUES_F32);
            if (knob == 0) bad.compression_rate = 0;
            if (knob == 1) bad.compression_rate = 1.01;
            if (knob == 2) bad.compression_rate = (double)NAN;
            if (knob == 3) bad.alpha = 0;
            if (knob == 4) bad.alpha = 1.1;
            if (knob == 5) bad.every = 0;
            if (knob == 6) bad.values = WEFTI_VALUE_CODECS;
            weft_status status = wefti_replicator_create(
                ctx, &bad, &wefti_kernels_reference, &lonely, buckets, BUCKETS, &r);
            assert_int_equal(status, WEFT_ERR_CONFIG);
            assert_null(r);
            assert_non_null(strstr(weft_ctx_message(ctx), "expected"));
            assert_int_equal(weft_ctx_bytes_held(ctx), 0);
            weft_ctx_clear(ctx);
        }
    weft_ctx_destroy(ctx);
}

TEST(memory_is_as_predicted_and_a_failed_allocation_is_a_clean_error) {
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm pair = {.size = 2};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int kind = 0; kind < 3; kind++) {
        wefti_replicator_config c = knobs(kinds[kind], 0.15, WEFTI_VALUES_INT8);
        weft_status status = WEFT_ERR_MEMORY;
        for (int64_t k = 0; status != WEFT_OK; k++) {
            weft_ctx_fail_allocation(ctx, k);
            status = wefti_replicator_create(ctx, &c, &wefti_kernels_reference, &pair,
                                             buckets, BUCKETS, &r);
            if (status != WEFT_OK) assert_int_equal(status, WEFT_ERR_MEMORY);
            if (status == WEFT_OK) {
                int64_t held = weft_ctx_bytes_held(ctx) - N * 4;
                int64_t said = wefti_replicator_work_bytes(&c, buckets, BUCKETS, 2);
                assert_true(held <= said + 4096 && said <= 2 * held + 4096);
            }
            wefti_replicator_destroy(r);
            assert_int_equal(weft_ctx_bytes_held(ctx), 0);
            weft_ctx_clear(ctx);
        }
        weft_ctx_fail_allocation(ctx, -1);
    }
    weft_ctx_destroy(ctx);
}
