/* SPDX-License-Identifier: MIT */
/* Attention of every table against the reference: T below, at and beside the vectors and
 * pairs of vectors that queries are taken in, grouped heads, strides wider than rows. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

typedef struct buffers {
    wefti_attention_shape s;
    int64_t n_q, n_kv, n_o, n_lse;
    float *q, *k, *v, *d_o;
} buffers;

typedef struct results {
    float *o, *lse, *dq, *dk, *dv;
} results;

static buffers make_buffers(wefti_attention_shape s, double noise) {
    int64_t n = s.B * s.T, n_rows = s.B * wefti_attention_rows(&s);
    buffers b = {.s = s, .n_q = n * s.ld_q, .n_kv = n_rows * s.ld_kv, .n_o = n * s.ld_o};
    b.n_lse = s.B * s.H * s.T;
    b.q = new_noise(b.n_q, 1, noise), b.k = new_noise(b.n_kv, 2, noise);
    b.v = new_noise(b.n_kv, 3, 1), b.d_o = new_noise(b.n_o, 4, 1);
    return b;
}

static void free_buffers(buffers *b) { free(b->q), free(b->k), free(b->v), free(b->d_o); }

/* Forward and backward into buffers that hold noise, the same for each call. */
static results run(const wefti_kernels *kernels, const buffers *b) {
    results r = {new_noise(b->n_o, 5, 1), new_noise(b->n_lse, 6, 1),
                 new_noise(b->n_q, 7, 1), new_noise(b->n_kv, 8, 1),
                 new_noise(b->n_kv, 9, 1)};
    int64_t n_scratch = kernels->layers->attention_scratch(&b->s,
                                                           wefti_kernels_threads());
    float *scratch = new_floats(n_scratch);
    for (int64_t i = 0; i < n_scratch; i++)
        scratch[i] = NAN; /* what it held is nothing */
    kernels->layers->attention_forward(&b->s, b->q, b->k, b->v, r.o, r.lse, scratch);
    kernels->layers->attention_backward(&b->s, b->q, b->k, b->v, r.o, r.lse, b->d_o, r.dq,
                                        r.dk, r.dv, scratch);
    free(scratch);
    return r;
}

static void free_results(results *r) {
    free(r->o), free(r->lse), free(r->dq), free(r->dk), free(r->dv);
}

/* Scores are sums of D products below `noise`^2 times the scale, wrong by D roundings;
 * that is the relative error of p, and of everything that is an average over p. dk and dv
 * sum the group's up to T queries. */
static void check_shape(const wefti_kernels *fast, wefti_attention_shape s,
                        double noise) {
    buffers b = make_buffers(s, noise);
    results want = run(ref, &b), got = run(fast, &b), again = run(fast, &b);
    double score = (double)s.D * noise * noise * (double)s.scale;
    double tolerance = 8 * rounding * (double)s.D * (1 + score);
    double sum_tolerance = tolerance * (1 + log((double)s.T) * (double)(s.H / s.K));
    assert_close(b.n_o, got.o, want.o, tolerance, "o");
    assert_close(b.n_lse, got.lse, want.lse, tolerance, "lse");
    assert_close(b.n_q, got.dq, want.dq, sum_tolerance, "dq");
    assert_close(b.n_kv, got.dk, want.dk, sum_tolerance, "dk");
    assert_close(b.n_kv, got.dv, want.dv, sum_tolerance, "dv");
    assert_memory_equal(got.o, again.o, (size_t)b.n_o * sizeof(float));
    assert_memory_equal(got.dq, again.dq, (size_t)b.n_q * sizeof(float));
    assert_memory_equal(got.dk, again.dk, (size_t)b.n_kv * sizeof(float));
    assert_memory_equal(got.dv, again.dv, (size_t)b.n_kv * sizeof(float));
    free_results(&want), free_results(&got), free_results(&again), free_buffers(&b);
}

/* Between bf16 tables a score whose last bit is another one may take p or ds to the
 * neighbouring bfloat16, 2^-8 of it away; o is an average over p, dv a sum of p times at
 * most 1, dq and dk are sums of ds, which are p times sums of D. In all they are nearer to the
 * reference's rounded products than half of what rounding does. */
static double apart(int64_t n, const float *a, const float *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = (double)a[i] - (double)b[i];
        sum += difference * difference;
    }
    return sqrt(sum);
}

static void assert_rounds_alike(int64_t n, const float *got, const float *want,
                                const float *exact, const char *what) {
    double rounds = apart(n, want, exact), off = apart(n, got, want);
    if (!(off <= rounds / 2))
        fail_msg("%s: %.3g apart, rounding itself makes %.3g", what, off, rounds);
}

static void check_rounded(const wefti_kernels *fast, wefti_attention_shape s) {
    buffers b = make_buffers(s, 1);
    results want = run(ref->bf16, &b), got = run(fast->bf16, &b), exact = run(ref, &b);
    double p = 0x1p-8 * (1 + log((double)s.T) * (double)(s.H / s.K));
    assert_close(b.n_o, got.o, want.o, 0x1p-8, "o");
    assert_close(b.n_lse, got.lse, want.lse, 8 * rounding * (double)(s.D + 8), "lse");
    assert_close(b.n_q, got.dq, want.dq, p * sqrt((double)s.D), "dq");
    assert_close(b.n_kv, got.dk, want.dk, p * sqrt((double)s.D), "dk");
    assert_close(b.n_kv, got.dv, want.dv, p, "dv");
    if (s.T > 60) {
        assert_rounds_alike(b.n_o, got.o, want.o, exact.o, "o");
        assert_rounds_alike(b.n_q, got.dq, want.dq, exact.dq, "dq");
        assert_rounds_alike(b.n_kv, got.dk, want.dk, exact.dk, "dk");
        assert_rounds_alike(b.n_kv, got.dv, want.dv, exact.dv, "dv");
    }
    free_results(&want), free_results(&got), free_results(&exact), free_buffers(&b);
}

static wefti_attention_shape shape(int64_t B, int64_t T, int64_t H, int64_t K, int64_t D,
                                   int64_t gap) {
    return (wefti_attention_shape){.B = B,
                                   .T = T,
                                   .H = H,
                                   .K = K,
                                   .D = D,
                                   .ld_q = H * D + gap,
                                   .ld_kv = K * D + 2 * gap,
                                   .ld_o = H * D + 3 * gap,
                                   .scale = 1 / sqrtf((float)D)};
}

static void check_small_shapes(const wefti_kernels *fast) {
    check_shape(fast, shape(1, 1, 1, 1, 1, 0), 1);
    check_shape(fast, shape(2, 3, 2, 1, 5, 1), 1);
    check_shape(fast, shape(2, 17, 3, 3, 16, 0), 1);
    check_shape(fast, shape(1, 64, 6, 2, 8, 3), 1);
    check_shape(fast, shape(2, 65, 4, 4, 17, 2), 1);
    check_shape(fast, shape(1, 33, 2, 1, 80, 0), 1);
    check_shape(fast, shape(1, 130, 4, 2, 24, 5), 2);
    wefti_attention_shape s = shape(2, 1, 4, 2, 24, 5); /* one query that sees a past */
    s.all = true, s.n_rows = 77, s.n_keys = (const int32_t[]){70, 77};
    check_shape(fast, s, 1);
    s.cap = 0.7f;
    check_shape(fast, s, 1);
}

static void check_rounded_shapes(const wefti_kernels *fast) {
    check_rounded(fast, shape(1, 1, 1, 1, 1, 0));
    check_rounded(fast, shape(2, 3, 2, 1, 5, 1));
    check_rounded(fast, shape(2, 17, 3, 3, 16, 0));
    check_rounded(fast, shape(1, 64, 6, 2, 8, 3));
    check_rounded(fast, shape(2, 65, 4, 4, 17, 2));
    check_rounded(fast, shape(1, 33, 2, 1, 80, 0));
    check_rounded(fast, shape(1, 131, 4, 2, 33, 5));
    check_rounded(fast, shape(1, 32, 2, 2, 32, 0)); /* whole tiles, and parts of them */
    check_rounded(fast, shape(2, 75, 4, 2, 64, 5));
    check_rounded(fast, shape(1, 141, 2, 1, 96, 0));
    wefti_attention_shape s = shape(2, 67, 4, 2, 9, 1);
    s.window = 21;
    check_rounded(fast, s);
    s.cap = 0.7f;
    check_rounded(fast, s);
    s = shape(2, 67, 4, 2, 64, 1);
    s.window = 21;
    check_rounded(fast, s);
    s.cap = 0.7f;
    check_rounded(fast, s);
    check_rounded(fast, shape(1, 193, 2, 1, 32, 1)); /* blocks before the diagonal */
}

/* The numbers of bfloat16 are those of x, rounded. */
static void assert_rounded(int64_t n, const float *half, const float *x,
                           const char *what) {
    const uint16_t *got = (const uint16_t *)(const void *)half;
    uint16_t *want = new_halves(n, x);
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s[%lld] is %04x, expected %04x", what, (long long)i, got[i],
                     want[i]);
    free(want);
}

static const float *half_at(const float *x, int64_t i) {
    return (const float *)(const void *)((const char *)x + 2 * i);
}

/* Runs a shape with q, k, v, do in bfloat16 and, where `half`, everything so. The results of
 * both are the same but for one rounding, if o of the backward pass is rounded too. */
static void check_halves_of(const wefti_kernels *bf16, wefti_attention_shape s) {
    buffers b = make_buffers(s, 1), h = b;
    assert_true(bf16->layers->attention_halves(&s));
    h.s.half = true;
    h.q = (float *)(void *)new_halves(b.n_q, b.q),
    h.k = (float *)(void *)new_halves(b.n_kv, b.k);
    h.v = (float *)(void *)new_halves(b.n_kv, b.v),
    h.d_o = (float *)(void *)new_halves(b.n_o, b.d_o);
    float *const exact[] = {b.q, b.k, b.v, b.d_o};
    b.q = new_widened(b.n_q, (uint16_t *)(void *)h.q);
    b.k = new_widened(b.n_kv, (uint16_t *)(void *)h.k);
    b.v = new_widened(b.n_kv, (uint16_t *)(void *)h.v);
    b.d_o = new_widened(b.n_o, (uint16_t *)(void *)h.d_o);
    results got = run(bf16, &h), want = run(bf16, &b);
    int64_t n_scratch = bf16->layers->attention_scratch(&s, wefti_kernels_threads());
    int64_t rows = s.B * s.T;
    float *scratch = new_floats(n_scratch);
    float *o = new_widened(b.n_o, (uint16_t *)(void *)got.o);
    bf16->layers->attention_backward(&s, b.q, b.k, b.v, o, want.lse, b.d_o, want.dq,
                                     want.dk, want.dv, scratch);
    assert_memory_equal(got.lse, want.lse, (size_t)b.n_lse * sizeof(float));
    for (int64_t i = 0; i < rows; i++) { /* between the rows is what was there */
        int64_t at = i * s.ld_o, at_q = i * s.ld_q, at_kv = i * s.ld_kv;
        assert_rounded(s.H * s.D, half_at(got.o, at), want.o + at, "o");
        assert_rounded(s.H * s.D, half_at(got.dq, at_q), want.dq + at_q, "dq");
        assert_rounded(s.K * s.D, half_at(got.dk, at_kv), want.dk + at_kv, "dk");
        assert_rounded(s.K * s.D, half_at(got.dv, at_kv), want.dv + at_kv, "dv");
    }
    for (int i = 0; i < 4; i++) free(exact[i]);
    free(o), free(scratch), free_results(&got), free_results(&want);
    free_buffers(&b), free_buffers(&h);
}

static void check_halves(const wefti_kernels *fast) {
    if (!fast->bf16->layers->attention_halves) return;
    check_halves_of(fast->bf16, shape(1, 1, 1, 1, 32, 0));
    check_halves_of(fast->bf16, shape(2, 75, 4, 2, 64, 6));
    check_halves_of(fast->bf16, shape(1, 141, 2, 2, 96, 3));
    wefti_attention_shape s = shape(2, 67, 4, 2, 64, 1);
    s.window = 21;
    check_halves_of(fast->bf16, s);
    s.D = 40; /* no whole tiles */
    assert_false(fast->bf16->layers->attention_halves(&s));
}

TEST(numbers_in_bfloat16_follow_those_in_f32) { each_table(check_halves); }

TEST(rounded_factors_follow_the_reference) { each_table(check_rounded_shapes); }

/* A task's numbers hang on its head alone. */
static void check_threads_and_batch(const wefti_kernels *bf16, int64_t D) {
    buffers b = make_buffers(shape(3, 70, 4, 2, D, 0), 1), last = b;
    wefti_kernels_set_threads(1);
    results one = run(bf16, &b);
    wefti_kernels_set_threads(3);
    results many = run(bf16, &b);
    assert_memory_equal(one.o, many.o, (size_t)b.n_o * sizeof(float));
    assert_memory_equal(one.dq, many.dq, (size_t)b.n_q * sizeof(float));
    assert_memory_equal(one.dk, many.dk, (size_t)b.n_kv * sizeof(float));
    assert_memory_equal(one.dv, many.dv, (size_t)b.n_kv * sizeof(float));
    last.s.B = 1; /* the last sequence alone */
    last.q += 2 * b.s.T * b.s.ld_q, last.k += 2 * b.s.T * b.s.ld_kv;
    last.v += 2 * b.s.T * b.s.ld_kv, last.d_o += 2 * b.s.T * b.s.ld_o;
    results alone = run(bf16, &last);
    assert_memory_equal(alone.dk, one.dk + 2 * b.s.T * b.s.ld_kv,
                        (size_t)(b.s.T * b.s.ld_kv) * sizeof(float));
    free_results(&one), free_results(&many), free_results(&alone), free_buffers(&b);
    wefti_kernels_set_threads(1);
}

TEST(rounded_factors_have_the_same_bits_with_any_threads) {
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        check_threads_and_batch(test_kernels_find(*name)->bf16, 40);
        check_threads_and_batch(test_kernels_find(*name)->bf16, 64);
    }
}

TEST(small_shapes_follow_the_reference) { each_table(check_small_shapes); }

TEST(a_long_sequence_follows_the_reference) {
    wefti_kernels_set_threads(2);
    check_shape(test_kernels_find(NULL), shape(1, 601, 2, 1, 7, 1), 2);
    wefti_kernels_set_threads(1);
}

/* Scores up to 10^5: one key takes all and nothing overflows. */
static void check_large_scores(const wefti_kernels *fast) {
    enum { T = 520, D = 4 };
    wefti_attention_shape s = shape(1, T, 1, 1, D, 0);
    buffers b = make_buffers(s, 1);
    for (int64_t i = 0; i < b.n_q; i++) {
        b.q[i] = 100;
        b.k[i] = (float)(i / D); /* the newest key scores highest, by 200 */
    }
    results r = run(fast, &b);
    for (int64_t i = 0; i < b.n_o; i++) assert_true(r.o[i] == b.v[i]);
    for (int64_t t = 0; t < T; t++) assert_true(r.lse[t] == 200.0f * (float)t);
    /* ds is 0 but for the roundings of two sums of D products, times a key or query */
    const double tolerance = 2 * D * D * rounding * (double)s.scale;
    for (int64_t i = 0; i < b.n_o; i++) {
        assert_true(fabs((double)r.dq[i]) <= tolerance * (double)T);
        assert_true(fabs((double)r.dk[i]) <= tolerance * 100);
    }
    for (int64_t i = 0; i < b.n_o; i++) assert_true(r.dv[i] == b.d_o[i]);
    free_results(&r), free_buffers(&b);
}

/* The same of rounded factors, where keys are multiples of 4 that bf16 can say. */
static void check_large_rounded_scores(const wefti_kernels *fast) {
    enum { T = 300, D = 4 };
    buffers b = make_buffers(shape(1, T, 1, 1, D, 0), 1);
    for (int64_t i = 0; i < b.n_q; i++) {
        b.q[i] = 64;
        b.k[i] = (float)(i / D < 256 ? i / D : 256 + (i / D - 256) / 4 * 4);
        b.v[i] = (float)(i / D % 100); /* the queries after 256 average four of them */
    }
    results r = run(fast->bf16, &b);
    for (int64_t i = 0; i < 256 * D; i++) assert_true(r.o[i] == b.v[i]);
    for (int64_t i = 256 * D; i < b.n_o; i++) assert_true(r.o[i] >= 0 && r.o[i] < 100);
    for (int64_t t = 0; t < 256; t++) assert_true(r.lse[t] == 128.0f * (float)t);
    for (int64_t i = 0; i < b.n_o; i++)
        assert_true(isfinite(r.dq[i]) && isfinite(r.dk[i]) && isfinite(r.dv[i]));
    b.q[7 * D] = NAN; /* what is not a number stays that */
    results lost = run(fast->bf16, &b);
    assert_true(isnan(lost.o[7 * D]) && isnan(lost.dv[0]));
    free_results(&r), free_results(&lost), free_buffers(&b);
}

TEST(large_scores_do_not_overflow) {
    each_table(check_large_scores);
    each_table(check_large_rounded_scores);
}

static void check_equal_scores(const wefti_kernels *fast) {
    enum { T = 70, D = 3 };
    wefti_attention_shape s = shape(1, T, 1, 1, D, 0);
    buffers b = make_buffers(s, 1);
    for (int64_t i = 0; i < b.n_q; i++) b.q[i] = 0;
    results r = run(fast, &b);
    double sum = 0;
    for (int64_t t = 0; t < T; t++) {
        sum += (double)b.v[t * D];
        assert_true(fabs((double)r.o[t * D] - sum / (double)(t + 1)) <=
                    (double)T * rounding);
        assert_true(fabs((double)r.lse[t] - log((double)(t + 1))) <= 8 * rounding);
    }
    free_results(&r), free_buffers(&b);
}

TEST(equal_scores_give_the_mean_of_the_past) { each_table(check_equal_scores); }

/* Windows that end in, at and beside a vector of queries, and caps that bend scores. */
static void check_narrow_shapes(const wefti_kernels *fast) {
    static const int64_t windows[] = {1, 2, 7, 8, 16, 17, 31, 40, 64, 90};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        wefti_attention_shape s = shape(2, 67, 4, 2, 9, 1);
        s.window = windows[i];
        check_shape(fast, s, 1);
        s.cap = 0.7f;
        check_shape(fast, s, 2);
    }
    wefti_attention_shape s = shape(1, 19, 2, 1, 8, 0);
    s.cap = 2;
    check_shape(fast, s, 2);
}

TEST(windows_and_caps_follow_the_reference) { each_table(check_narrow_shapes); }

/* With a window as long as the sequence the bits are those without. */
static void check_wide_window(const wefti_kernels *fast) {
    wefti_attention_shape s = shape(1, 40, 2, 1, 8, 0);
    buffers b = make_buffers(s, 1);
    results want = run(fast, &b);
    b.s.window = 40;
    results got = run(fast, &b);
    assert_memory_equal(got.o, want.o, (size_t)b.n_o * sizeof(float));
    assert_memory_equal(got.dk, want.dk, (size_t)b.n_kv * sizeof(float));
    b.s.window = 39; /* the last query does not see the first key */
    results other = run(fast, &b);
    assert_memory_equal(other.o, want.o, (size_t)(39 * s.ld_o) * sizeof(float));
    assert_true(memcmp(other.o + 39 * s.ld_o, want.o + 39 * s.ld_o, 4) != 0);
    free_results(&want), free_results(&got), free_results(&other), free_buffers(&b);
}

static void check_wide_rounded_window(const wefti_kernels *fast) {
    check_wide_window(fast->bf16);
}

TEST(a_window_of_the_whole_sequence_changes_nothing) {
    each_table(check_wide_window);
    each_table(check_wide_rounded_window);
}

/* Attention that is not causal: of one's own keys and of another sequence's, some of them
 * missing, with and without a bias, whose gradient is compared too. */
typedef struct open_case {
    int64_t B, T, Tk, H, K, D;
    bool all, biased, missing;
} open_case;

static void check_open_of(const wefti_kernels *fast, const wefti_kernels *law,
                          const open_case *c, double slack) {
    const int32_t n_keys[] = {(int32_t)(c->Tk - c->Tk / 3), (int32_t)c->Tk, 1};
    wefti_attention_shape s = shape(c->B, c->T, c->H, c->K, c->D, 1);
    s.all = c->all;
    s.n_rows = c->Tk;
    s.n_keys = c->missing ? n_keys : NULL;
    s.biased = c->biased;
    int64_t row = wefti_attention_bias_row(&s), n = c->H * row;
    float *bias = new_floats(n), *want = new_noise(n, 21, 1), *got = new_copy(n, want);
    for (int64_t h = 0; h < c->H; h++)
        for (int64_t i = 0; i < c->T + c->Tk - 1; i++)
            bias[h * row + i] = (float)((h * 7 + i * 5) % 11) / 5 - 1;
    buffers b = make_buffers(s, 1);
    b.s.bias = c->biased ? bias : NULL;
    b.s.dbias = c->biased ? want : NULL;
    results wanted = run(law, &b);
    b.s.dbias = c->biased ? got : NULL;
    results found = run(fast, &b);
    double tolerance = slack * (double)c->D;
    double sum_tolerance = tolerance * (1 + log((double)(c->T * c->B)));
    assert_close(b.n_o, found.o, wanted.o, tolerance, "o");
    assert_close(b.n_lse, found.lse, wanted.lse, tolerance, "lse");
    assert_close(b.n_q, found.dq, wanted.dq, tolerance, "dq");
    assert_close(b.n_kv, found.dk, wanted.dk, sum_tolerance, "dk");
    assert_close(b.n_kv, found.dv, wanted.dv, sum_tolerance, "dv");
    assert_close(n, got, want, sum_tolerance, "dbias");
    free(bias), free(want), free(got);
    free_results(&wanted), free_results(&found), free_buffers(&b);
}

static void check_open(const wefti_kernels *fast, const open_case *c) {
    check_open_of(fast, ref, c, 64 * rounding);
    check_open_of(fast->bf16, ref->bf16, c, 0x1p-8);
}

static void check_open_shapes(const wefti_kernels *fast) {
    static const open_case cases[] = {
        {1, 1, 1, 1, 1, 1, true, false, false},
        {2, 3, 5, 2, 1, 5, true, true, false},
        {3, 17, 17, 3, 3, 16, true, true, true},
        {3, 33, 9, 4, 2, 8, true, false, true},
        {2, 5, 70, 2, 2, 17, true, true, true},
        {2, 70, 5, 2, 1, 3, true, true, true},
        {1, 65, 65, 2, 1, 8, false, true, false},
        {2, 40, 40, 1, 1, 24, false, true, false},
        {3, 17, 17, 3, 3, 64, true, true, true},
        {2, 70, 45, 2, 1, 32, true, true, true},
        {3, 9, 70, 2, 2, 64, true, false, true},
        {2, 75, 75, 2, 2, 32, false, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_open(fast, &cases[i]);
}

TEST(open_and_biased_attention_follows_the_reference) { each_table(check_open_shapes); }

/* Keys that are not there weigh nothing, whatever they hold: the bits are those without. */
static void check_missing_of(const wefti_kernels *fast, int64_t D) {
    const int32_t n_keys[] = {9};
    wefti_attention_shape s = shape(1, 20, 2, 2, D, 0);
    s.all = true;
    s.n_rows = 20;
    s.n_keys = n_keys;
    buffers b = make_buffers(s, 1);
    results want = run(fast, &b);
    for (int64_t i = 9 * s.ld_kv; i < b.n_kv; i++) b.k[i] = b.v[i] = 1e30f;
    results got = run(fast, &b);
    assert_memory_equal(got.o, want.o, (size_t)b.n_o * sizeof(float));
    assert_memory_equal(got.dq, want.dq, (size_t)b.n_q * sizeof(float));
    for (int64_t i = 9 * s.ld_kv; i < b.n_kv; i++)
        assert_true(got.dk[i] == 0 && got.dv[i] == 0);
    free_results(&want), free_results(&got), free_buffers(&b);
}

static void check_missing(const wefti_kernels *fast) {
    check_missing_of(fast, 8);
    check_missing_of(fast, 64);
}

static void check_missing_rounded(const wefti_kernels *fast) {
    check_missing(fast->bf16);
}

TEST(missing_keys_weigh_nothing) {
    each_table(check_missing);
    each_table(check_missing_rounded);
    check_missing(ref);
    check_missing(ref->bf16);
}
