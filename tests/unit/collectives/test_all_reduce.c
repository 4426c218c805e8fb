/* SPDX-License-Identifier: MIT */
/* The direct all-reduce: raw, coded, signs; what it keeps, counts and refuses. */
#include <math.h>
#include <stdlib.h>

#include "ranks.h"
#include "collectives/all_reduce.h"
#include "wire/frame.h"
#include "reference/reference.h"

enum { MAX_N = 700, MAX_R = 4, STEPS = 4, VECTORS = 2, STAGE = 2 };

typedef struct trial {
    wefti_coding coding;
    int64_t n[VECTORS];
    bool same;     /* every rank has rank 0's numbers */
    bool poisoned; /* rank 0 has a NaN in element 1, an infinity in element 70 */
    bool feedback; /* what is lost is kept */
    float sent[STEPS][VECTORS][MAX_N], mean[STEPS][VECTORS][MAX_N];
    float kept[STEPS][VECTORS][MAX_N];
    int64_t bytes_out, bytes_predicted;
} trial;

static trial trials[MAX_R], lone[1];

static void draw(const trial *t, int rank, int step, int v, float *x) {
    uint64_t seed = (uint64_t)(step * 10 + v) + (t->same ? 0 : 100 * (uint64_t)rank);
    fill_normal(seed, MAX_N, x);
    for (int i = 0; i < MAX_N; i += 5) x[i] *= 100; /* blocks are not all alike */
    if (t->poisoned && rank == 0) x[1] = NAN, x[70] = INFINITY;
}

/* All vectors are under way at once, as buckets are. */
static weft_status take_step(trial *t, wefti_all_reduce *a, int rank, int step,
                             float (*x)[MAX_N], float (*kept)[MAX_N]) {
    wefti_range lost;
    for (int v = 0; v < VECTORS; v++) {
        draw(t, rank, step, v, x[v]);
        memcpy(t->sent[step][v], x[v], sizeof x[v]);
        WEFT_TRY(wefti_all_reduce_begin(a, v, step, x[v], t->feedback ? kept[v] : NULL));
    }
    for (int v = 0; v < VECTORS; v++) {
        WEFT_TRY(wefti_all_reduce_combine(a, v, step, x[v], &lost));
        for (int64_t i = lost.begin; i < lost.begin + lost.n; i++) kept[v][i] += x[v][i];
    }
    for (int v = 0; v < VECTORS; v++) {
        WEFT_TRY(wefti_all_reduce_end(a, v, step, x[v]));
        memcpy(t->mean[step][v], x[v], sizeof x[v]);
        memcpy(t->kept[step][v], kept[v], sizeof x[v]);
    }
    return WEFT_OK;
}

/* What `from` sends `to`. */
static int64_t both_rounds(const wefti_coding *coding, int64_t n, int R, int from,
                           int to) {
    if (from == to) return 0;
    return wefti_all_reduce_round_bytes(coding, n, R, 0, to) +
           wefti_all_reduce_round_bytes(coding, n, R, 1, from);
}

static weft_status reduce(rank_env *env) {
    trial *t = env->user;
    wefti_comm *comm = env->replica;
    float x[VECTORS][MAX_N], kept[VECTORS][MAX_N] = {{0}};
    wefti_all_reduce_setup setup = {.ctx = env->ctx,
                                    .kernels = &wefti_kernels_reference,
                                    .comm = comm,
                                    .coding = t->coding,
                                    .stage = STAGE,
                                    .n_vectors = VECTORS};
    wefti_all_reduce *a;
    WEFT_TRY(wefti_all_reduce_create(&setup, &a));
    weft_status status = WEFT_OK;
    for (int v = 0; v < VECTORS && status == WEFT_OK; v++)
        status = wefti_all_reduce_open(a, v, t->n[v]);
    int64_t allocations = weft_ctx_allocations(env->ctx);
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        status = take_step(t, a, comm->rank, step, x, kept);
        for (int to = 0; to < comm->size; to++)
            for (int v = 0; v < VECTORS; v++)
                t->bytes_predicted += both_rounds(&t->coding, t->n[v], comm->size,
                                                  comm->rank, to);
    }
    assert_true(weft_ctx_allocations(env->ctx) == allocations);
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_out = traffic.bytes_out[WEFTI_LINK_WIRE];
    wefti_all_reduce_destroy(a);
    return status;
}

static void run(trial *ts, int R, const trial *like) {
    void *users[MAX_R];
    for (int r = 0; r < R; r++) {
        ts[r] = *like;
        users[r] = &ts[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, reduce, users, NULL);
}

/* Every codec, with and without signs, every mean, lengths that are multiples of nothing. */
static void for_each_coding(void (*claim)(const trial *like)) {
    static const int64_t lengths[][VECTORS] = {{0, 700}, {1, 449}, {64, 130}};
    static const wefti_robust rules[] = {WEFTI_ROBUST_TRIM, WEFTI_ROBUST_OFF,
                                         WEFTI_ROBUST_CLIP};
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec += 1 + UNDER_SANITIZER)
        for (int sign = 0; sign < 2; sign++)
            for (int i = 0; i < 9; i++) {
                trial like = {.coding = {.values = (wefti_value_codec)codec,
                                         .sign = sign > 0,
                                         .stochastic = i % 3 == 1,
                                         .seed = 5,
                                         .threads = 1,
                                         .robust = rules[i / 3]},
                              .n = {lengths[i % 3][0], lengths[i % 3][1]},
                              .feedback = codec > 0};
                claim(&like);
            }
}

static void claim_same_bits_and_bytes(const trial *like) {
    for (int R = 1; R <= MAX_R; R++) {
        run(trials, R, like);
        for (int r = 0; r < R; r++) {
            assert_int_equal(trials[r].bytes_out, trials[r].bytes_predicted);
            for (int step = 0; step < STEPS; step++)
                for (int v = 0; v < VECTORS; v++)
                    assert_memory_equal(trials[r].mean[step][v], trials[0].mean[step][v],
                                        (size_t)like->n[v] * sizeof(float));
        }
        if (R > 1) assert_true(trials[0].bytes_out > 0);
    }
}

TEST(all_ranks_get_the_same_bits_for_the_bytes_predicted) {
    for_each_coding(claim_same_bits_and_bytes);
}

/* sum over ranks of kept + R mean = sum of kept before + sum of x. Roundings: a few of
 * each addend, which are below 1000. With signs the mean is not told, so it is left out.
 */
static void claim_nothing_is_lost(const trial *like) {
    if (like->coding.sign || !like->feedback || like->coding.robust) return;
    for (int R = 1; R <= MAX_R; R++) {
        run(trials, R, like);
        for (int step = 0; step < STEPS; step++)
            for (int v = 0; v < VECTORS; v++)
                for (int64_t i = 0; i < like->n[v]; i++) {
                    double before = 0, after = 0;
                    for (int r = 0; r < R; r++) {
                        if (step) before += (double)trials[r].kept[step - 1][v][i];
                        before += (double)trials[r].sent[step][v][i];
                        after += (double)trials[r].kept[step][v][i];
                    }
                    after += R * (double)trials[0].mean[step][v][i];
                    assert_true(fabs(before - after) < 1000 * 0x1p-22);
                }
    }
}

TEST(what_is_kept_and_what_is_told_is_all_there_was) {
    for_each_coding(claim_nothing_is_lost);
}

/* The mean of R equal numbers may be off by a rounding, which at worst moves a scale to
 * the next bf16 and every number by a step: max/127, max/7, or a rounding of the mean
 * magnitude. */
static void claim_identical(const trial *like) {
    static const float steps[] = {0, 0, 4, 65, 0.5f}; /* numbers are below 450 */
    trial same = *like;
    same.same = true;
    same.coding.stochastic = false;
    same.feedback = false;
    run(lone, 1, &same);
    for (int R = 2; R <= MAX_R; R++) {
        run(trials, R, &same);
        bool exact = R != 3 || same.coding.sign;
        for (int step = 0; step < STEPS; step++)
            for (int v = 0; v < VECTORS; v++)
                for (int64_t i = 0; i < same.n[v]; i++) {
                    float a = trials[0].mean[step][v][i], b = lone->mean[step][v][i];
                    float room = 0x1p-8f * fabsf(b) + steps[same.coding.values];
                    assert_true(fabsf(a - b) <= (exact ? 0 : room));
                }
    }
}

TEST(equal_ranks_are_one_rank) { for_each_coding(claim_identical); }

/* The rank-order sum in f32, times 1/R: the bits themselves. */
TEST(raw_is_the_sum_in_rank_order_times_one_over_R) {
    for (int R = 1; R <= MAX_R; R++) {
        trial like = {.n = {449, 3}, .coding = {.threads = 1}};
        run(trials, R, &like);
        for (int from = 0; from < R; from++)
            for (int to = 0; to < R; to++) {
                int64_t part = 449 * (to + 1) / R - 449 * to / R;
                int64_t own = 449 * (from + 1) / R - 449 * from / R;
                assert_int_equal(both_rounds(&like.coding, 449, R, from, to),
                                 from == to ? 0 : 4 * (part + own));
            }
        for (int i = 0; i < 449; i++) {
            float sum = 0;
            for (int r = 0; r < R; r++) sum += trials[r].sent[1][0][i];
            sum *= 1.0f / (float)R;
            assert_true(trials[0].mean[1][0][i] == sum);
        }
    }
}

/* The rule, in each owner's range by itself; one of 4 ranks sends 100 times too much. A rank
 * whose range has a NaN counts for nothing in it, and in the others as before. */
static void claim_robust(const trial *like, bool poisoned) {
    enum { R = 4, N = 449 };
    trial wild = *like;
    wild.poisoned = poisoned;
    run(trials, R, &wild);
    for (int owner = 0; owner < R; owner++) {
        int begin = N * owner / R, end = N * (owner + 1) / R, n = 0;
        double squares[R], sizes[R], weights[R], divisor;
        float factors[R], room[R][N], *rows[R], sum[N];
        for (int r = 0; r < R; r++) {
            weights[r] = 1;
            squares[r] = wefti_robust_squares(end - begin, trials[r].sent[0][0] + begin);
        }
        const wefti_robust_members all = {R, squares, weights, sizes, factors};
        divisor = wefti_robust_factors(like->coding.robust, &all);
        for (int r = 0; r < R; r++) {
            if (factors[r] == 0) continue;
            for (int i = begin; i < end; i++)
                room[n][i - begin] = factors[r] * trials[r].sent[0][0][i];
            rows[n] = room[n];
            n++;
        }
        assert_int_equal(n, poisoned && owner == 0 ? R - 1 : R);
        wefti_robust_sum(like->coding.robust, n, rows, end - begin, sum);
        for (int i = begin; i < end; i++) {
            float wanted = sum[i - begin] * (1.0f / (float)divisor);
            if (like->coding.sign) wanted = (float)((wanted > 0) - (wanted < 0));
            assert_true(trials[3].mean[0][0][i] == wanted);
        }
    }
}

TEST(robust_means_are_those_of_each_range) {
    for (int i = 0; i < 8; i++) {
        trial like = {
            .n = {449, 3},
            .coding = {.threads = 1,
                       .sign = i % 2 > 0,
                       .robust = i / 4 ? WEFTI_ROBUST_TRIM : WEFTI_ROBUST_CLIP}};
        claim_robust(&like, i / 2 % 2 > 0);
    }
}

TEST(signs_are_those_of_the_mean) {
    trial like = {.n = {449, 70}, .coding = {.sign = true, .threads = 1}};
    trial plain = like;
    plain.coding.sign = false;
    run(trials, 3, &like);
    static float signs[MAX_N];
    memcpy(signs, trials[2].mean[1][0], sizeof signs);
    run(trials, 3, &plain);
    for (int i = 0; i < 449; i++) {
        float mean = trials[0].mean[1][0][i];
        assert_true(signs[i] == (float)((mean > 0) - (mean < 0)));
    }
}

TEST(what_is_not_finite_stays_so_and_stays_in_its_block) {
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
        for (int sign = 0; sign < 2; sign++) {
            trial like = {.n = {449, 300},
                          .poisoned = true,
                          .coding = {.values = (wefti_value_codec)codec,
                                     .sign = sign > 0,
                                     .threads = 1}};
            run(trials, 3, &like);
            for (int r = 0; r < 3; r++) {
                const float *mean = trials[r].mean[0][0];
                assert_true(!isfinite(mean[1]));
                assert_true(!isfinite(mean[70]));
                for (int i = 128; i < 449; i++) assert_true(isfinite(mean[i]));
            }
        }
}

/* Of 4 ranks with the same numbers, rounded by chance: the error of the mean is that of
 * one rank's rounding, up to a step s, divided by root 4; of one rank 1/6 s^2 on average.
 */
TEST(chance_is_right_on_average_and_no_rank_has_that_of_another) {
    trial like = {.same = true,
                  .n = {640, 640},
                  .feedback = true,
                  .coding = {.values = WEFTI_VALUES_INT4,
                             .sign = true, /* so that only the first round is coded */
                             .stochastic = true,
                             .threads = 1}};
    run(trials, MAX_R, &like);
    double alone = 0, together = 0, bias = 0;
    for (int i = 0; i < 640; i++) {
        double sum = 0;
        for (int r = 0; r < MAX_R; r++) {
            double lost = (double)trials[r].kept[0][0][i];
            alone += lost * lost / MAX_R;
            sum += lost;
        }
        together += sum / MAX_R * sum / MAX_R;
        bias += sum / MAX_R;
    }
    assert_true(alone > 640); /* steps are about 400 / 7 in blocks of 64 */
    assert_true(together < 0.35 * alone && together > 0.15 * alone);
    assert_true(fabs(bias) < 5 * sqrt(together));
    like.coding.seed = 6;
    run(lone, 1, &like);
    assert_memory_not_equal(lone->kept[0], trials[0].kept[0], sizeof lone->kept[0]);
}

TEST(threads_change_no_bit) {
    for (int codec = 1; codec < WEFTI_VALUE_CODECS; codec++) {
        trial like = {.n = {700, 300},
                      .feedback = true,
                      .coding = {.values = (wefti_value_codec)codec,
                                 .stochastic = true,
                                 .seed = 1,
                                 .threads = 1}};
        run(lone, 1, &like);
        like.coding.threads = 3;
        run(trials, 1, &like);
        assert_memory_equal(lone->mean, trials->mean, sizeof lone->mean);
        assert_memory_equal(lone->kept, trials->kept, sizeof lone->kept);
    }
}

/* Steps with error feedback, gradients that do not grow: what is kept does not either. */
static weft_status feed_back(rank_env *env) {
    trial *t = env->user;
    enum { LONG = UNDER_SANITIZER ? 150 : 600, N = 256 };
    wefti_all_reduce_setup setup = {.ctx = env->ctx,
                                    .kernels = &wefti_kernels_reference,
                                    .comm = env->replica,
                                    .coding = t->coding,
                                    .n_vectors = 1};
    wefti_all_reduce *a;
    wefti_range lost;
    float x[N], kept[N] = {0}, most = 0;
    WEFT_TRY(wefti_all_reduce_create(&setup, &a));
    WEFT_TRY(wefti_all_reduce_open(a, 0, N));
    for (int64_t step = 0; step < LONG; step++) {
        fill_normal((uint64_t)(step * 8 + env->rank), N, x);
        WEFT_TRY(wefti_all_reduce_begin(a, 0, step, x, kept));
        WEFT_TRY(wefti_all_reduce_combine(a, 0, step, x, &lost));
        for (int64_t i = lost.begin; i < lost.begin + lost.n; i++) kept[i] += x[i];
        WEFT_TRY(wefti_all_reduce_end(a, 0, step, x));
        for (int i = 0; i < N; i++) most = fmaxf(most, fabsf(kept[i]));
    }
    t->kept[0][0][0] = most;
    WEFT_TRY(wefti_comm_barrier(env->control, -1));
    wefti_all_reduce_destroy(a);
    return WEFT_OK;
}

TEST(what_is_kept_stays_bounded) {
    /* about twice the largest seen, of 4 ranks with normal gradients */
    static const float bound[] = {0, 0.07f, 0.1f, 2, 30};
    void *users[MAX_R];
    for (int codec = 1; codec < WEFTI_VALUE_CODECS; codec++) {
        for (int r = 0; r < MAX_R; r++) {
            trials[r] = (trial){
                .coding = {.values = (wefti_value_codec)codec, .threads = 1}};
            users[r] = &trials[r];
        }
        run_ranks(MAX_R, 1, (wefti_wire_model){0, 0}, feed_back, users, NULL);
        for (int r = 0; r < MAX_R; r++) {
            assert_true(trials[r].kept[0][0][0] < bound[codec]);
        }
    }
}

/* --- a peer that sends something else --- */

typedef struct forgery {
    wefti_coding coding;
    int round; /* whose message is forged */
    int flip;  /* byte that is changed, or -1 */
    bool seal; /* the checksum is made right again */
    wefti_frame_kind kind;
    int64_t step;
    int64_t n_bytes; /* sent, if not 0 */
    int64_t n_sent[2];
    char message[1024];
} forgery;

enum { FORGED = 96 }; /* elements; ranges of 64 and 32 when coded, 48 and 48 when not */

static weft_status victim(rank_env *env, forgery *f) {
    wefti_all_reduce_setup setup = {.ctx = env->ctx,
                                    .kernels = &wefti_kernels_reference,
                                    .comm = env->replica,
                                    .coding = f->coding,
                                    .n_vectors = 1};
    wefti_all_reduce *a;
    wefti_range lost;
    float x[FORGED];
    fill_normal(3, FORGED, x);
    WEFT_TRY(wefti_all_reduce_create(&setup, &a));
    weft_status status = wefti_all_reduce_open(a, 0, FORGED);
    if (status == WEFT_OK) status = wefti_all_reduce_begin(a, 0, 7, x, NULL);
    if (status == WEFT_OK) status = wefti_all_reduce_combine(a, 0, 7, x, &lost);
    if (status == WEFT_OK) status = wefti_all_reduce_end(a, 0, 7, x);
    snprintf(f->message, sizeof f->message, "%s", weft_ctx_message(env->ctx));
    /* what was sent must live until the forger has ended */
    wefti_world_poison(env->world, env->rank, WEFT_ERR_WIRE, "over");
    weft_status ignored = wefti_comm_barrier(env->control, -1);
    (void)ignored;
    wefti_all_reduce_destroy(a);
    return status;
}

/* Rank 1 of 2: the true messages of an all-reduce, but for one. Returns its bytes. */
static int64_t forge(const forgery *f, int round, unsigned char *message) {
    const wefti_coding *c = &f->coding;
    bool coded = c->values != WEFTI_VALUES_F32;
    int64_t n = coded ? round ? 32 : 64 : 48;
    unsigned char *payload = message + WEFTI_FRAME_BYTES;
    float x[64];
    fill_normal(4, 64, x);
    wefti_frame frame = {WEFTI_FRAME_PART, 7, 0, 1, 0};
    if (round && c->sign) {
        frame.kind = WEFTI_FRAME_SIGNS;
        frame.payload_bytes = n / 4;
        memset(payload, 0x12, (size_t)frame.payload_bytes);
    } else if (coded) {
        wefti_section section = wefti_section_dense(n, c->values);
        wefti_rounding nearest = {.stochastic = false};
        if (round) frame.kind = WEFTI_FRAME_MEAN;
        frame.payload_bytes = wefti_section_bytes(&section, 0, 1);
        wefti_section_encode(&section, 0, NULL, x, &nearest, payload);
    } else {
        memcpy(message, x, (size_t)n * sizeof(float));
        return round == f->round && f->n_bytes ? f->n_bytes : n * (int64_t)sizeof(float);
    }
    bool forged = round == f->round;
    if (forged && f->kind) frame.kind = f->kind;
    if (forged && f->step) frame.step = f->step;
    if (forged && f->seal && f->flip >= WEFTI_FRAME_BYTES) message[f->flip] ^= 0x80;
    wefti_frame_encode(&frame, message);
    if (forged && !f->seal && f->flip >= 0) message[f->flip] ^= 0x04;
    return forged && f->n_bytes ? f->n_bytes : WEFTI_FRAME_BYTES + frame.payload_bytes;
}

static weft_status send_and_wait(rank_env *env, const forgery *f,
                                 const unsigned char *first,
                                 const unsigned char *second) {
    wefti_comm *comm = env->replica;
    wefti_section mine = wefti_section_dense(32, f->coding.values);
    bool coded = f->coding.values != WEFTI_VALUES_F32;
    int64_t n_mine = coded ? WEFTI_FRAME_BYTES + wefti_section_bytes(&mine, 0, 1) : 192;
    int64_t one = wefti_comm_tag(7, 0, 0), two = wefti_comm_tag(7, 0, 1);
    const void *view;
    WEFT_TRY(wefti_comm_send(comm, 0, one, first, f->n_sent[0]));
    WEFT_TRY(wefti_comm_send(comm, 0, two, second, f->n_sent[1]));
    WEFT_TRY(wefti_comm_receive(comm, 0, one, n_mine, &view));
    wefti_comm_release(comm, 0, one);
    /* this one never comes: wait until the victim has ended */
    return wefti_comm_receive(comm, 0, 99, 0, &view);
}

static weft_status forger(rank_env *env, forgery *f) {
    unsigned char first[2048] = {0}, second[2048] = {0};
    f->n_sent[0] = forge(f, 0, first);
    f->n_sent[1] = forge(f, 1, second);
    weft_status status = send_and_wait(env, f, first, second);
    return status == WEFT_ERR_PEER ? WEFT_OK : WEFT_ERR_INTERNAL;
}

static weft_status play(rank_env *env) {
    return env->rank == 0 ? victim(env, env->user) : forger(env, env->user);
}

static weft_status outcome_of(forgery *f) {
    void *users[] = {f, f};
    weft_status statuses[2];
    run_ranks(2, 1, (wefti_wire_model){0, 0}, play, users, statuses);
    assert_int_equal(statuses[1], WEFT_OK);
    return statuses[0];
}

static void assert_refused(forgery f) {
    assert_int_equal(outcome_of(&f), WEFT_ERR_WIRE);
    assert_true(f.message[0]);
}

TEST(a_flipped_byte_is_refused_in_either_round) {
    for (int round = 0; round < 2; round++)
        for (int sign = 0; sign < 2; sign++) {
            forgery f = {
                .coding = {.values = WEFTI_VALUES_INT8, .sign = sign > 0, .threads = 1},
                .round = round,
                .flip = -1};
            assert_int_equal(outcome_of(&f), WEFT_OK); /* the true messages pass */
            for (f.flip = 0; f.flip < WEFTI_FRAME_BYTES + 6; f.flip += 5)
                assert_refused(f);
        }
}

TEST(a_message_of_another_kind_step_or_length_is_refused) {
    for (int round = 0; round < 2; round++)
        for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
            for (int sign = 0; sign < 2; sign++) {
                forgery f = {.coding = {.values = (wefti_value_codec)codec,
                                        .sign = sign > 0,
                                        .threads = 1},
                             .round = round,
                             .flip = -1,
                             .n_bytes = 44};
                assert_refused(f);
                if (codec == 0 && !(sign && round)) continue; /* no head */
                f.n_bytes = 0;
                f.kind = WEFTI_FRAME_DEMO;
                assert_refused(f);
                f.kind = 0;
                f.step = 8;
                assert_refused(f);
            }
}

/* A peer that can compute checksums, and sends what no encoder writes: a scale below 0.
 */
TEST(a_sealed_message_that_no_encoder_writes_is_refused) {
    for (int round = 0; round < 2; round++) {
        forgery f = {.coding = {.values = WEFTI_VALUES_INT8, .threads = 1},
                     .round = round,
                     .flip = WEFTI_FRAME_BYTES + 1,
                     .seal = true};
        assert_refused(f);
    }
}

TEST(every_failed_allocation_is_a_clean_error) {
    weft_ctx *ctx;
    wefti_comm pair = {.size = 2};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    weft_status status = WEFT_ERR_MEMORY;
    for (int64_t k = 0; status != WEFT_OK; k++) {
        wefti_all_reduce_setup setup = {
            .ctx = ctx,
            .kernels = &wefti_kernels_reference,
            .comm = &pair,
            .coding = {.values = WEFTI_VALUES_INT4, .threads = 1},
            .n_vectors = 1};
        wefti_all_reduce *a;
        weft_ctx_fail_allocation(ctx, k);
        status = wefti_all_reduce_create(&setup, &a);
        if (status == WEFT_OK) status = wefti_all_reduce_open(a, 0, 500);
        int64_t held = weft_ctx_bytes_held(ctx);
        if (status == WEFT_OK)
            assert_true(held >= 500 / 2 && held <= 1024 + wefti_all_reduce_work_bytes(
                                                              &setup.coding, 500, 2));
        wefti_all_reduce_destroy(a);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_clear(ctx);
        assert_true(k < 10);
    }
    weft_ctx_destroy(ctx);
}
