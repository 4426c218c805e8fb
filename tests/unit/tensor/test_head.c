/* SPDX-License-Identifier: MIT */
/* Embedding, head and loss of every table against the reference, and their extremes. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

typedef struct head_case {
    int64_t N, C, V;
    double noise;
    float cap;
    float *x, *w;
    int32_t *target;
} head_case;

static head_case make_case(int64_t N, int64_t C, int64_t V, double noise) {
    head_case h = {.N = N, .C = C, .V = V, .noise = noise};
    h.x = new_noise(N * C, 1, noise), h.w = new_noise(V * C, 2, 1);
    h.target = calloc((size_t)N, sizeof *h.target);
    assert_non_null(h.target);
    for (int64_t n = 0; n < N; n++) {
        int64_t t = wefti_rng_permute(3, WEFTI_STREAM_TEST, 0, N + 3, n) % (V + 1);
        h.target[n] = (int32_t)(t == V ? -1 : t); /* a few are skipped */
    }
    return h;
}

static void free_case(head_case *h) { free(h->x), free(h->w), free(h->target); }

typedef struct head_result {
    double loss;
    float *dx, *dw;
} head_result;

static head_result run(const wefti_kernels *kernels, const head_case *h) {
    head_result r = {2, new_noise(h->N * h->C, 5, 1), new_noise(h->V * h->C, 6, 1)};
    float *scratch = new_floats(
        kernels->layers->head_scratch(h->N, h->V, wefti_kernels_threads()));
    kernels->layers->head_loss(h->N, h->C, h->V, h->x, h->w, h->target, h->cap, 0.5f,
                               &r.loss, r.dx, r.dw, false, scratch);
    double loss = 2;
    kernels->layers->head_loss(h->N, h->C, h->V, h->x, h->w, h->target, h->cap, 0.5f,
                               &loss, NULL, NULL, false, scratch);
    assert_true(loss == r.loss); /* the loss alone is the same loss */
    free(scratch);
    return r;
}

/* Logits are sums of C products below `noise`, wrong by C roundings, which is the
 * relative error of a probability; dx averages over w, dw sums over N rows. */
static void check_capped(const wefti_kernels *fast, int64_t N, int64_t C, int64_t V,
                         double noise, float cap) {
    head_case h = make_case(N, C, V, noise);
    h.cap = cap;
    head_result want = run(ref, &h), got = run(fast, &h), again = run(fast, &h);
    double tolerance = 8 * rounding * (double)C * (1 + noise);
    assert_true(fabs(got.loss - want.loss) <= tolerance * (double)N);
    assert_close(N * C, got.dx, want.dx, tolerance, "dx");
    assert_close(V * C, got.dw, want.dw, tolerance * sqrt((double)N), "dw");
    assert_true(got.loss == again.loss);
    assert_memory_equal(got.dx, again.dx, (size_t)(N * C) * sizeof(float));
    assert_memory_equal(got.dw, again.dw, (size_t)(V * C) * sizeof(float));
    head_result *all[] = {&want, &got, &again};
    for (int i = 0; i < 3; i++) free(all[i]->dx), free(all[i]->dw);
    free_case(&h);
}

/* What a fresh gradient had before does not matter, however many blocks the rows take. */
static void check_fresh(const wefti_kernels *k, int64_t N, int64_t C, int64_t V) {
    head_case h = make_case(N, C, V, 1);
    float *scratch = new_floats(k->layers->head_scratch(N, V, wefti_kernels_threads()));
    float *dx = new_noise(N * C, 5, 1), *dw = new_noise(V * C, 6, 1);
    float *want = new_noise(V * C, 6, 1);
    double loss = 0;
    for (int64_t i = 0; i < V * C; i++) want[i] = 0, dw[i] = NAN;
    k->layers->head_loss(N, C, V, h.x, h.w, h.target, 0, 1, &loss, dx, want, false,
                         scratch);
    k->layers->head_loss(N, C, V, h.x, h.w, h.target, 0, 1, &loss, dx, dw, true, scratch);
    for (int64_t i = 0; i < V * C; i++) assert_true(dw[i] == want[i]);
    free(scratch), free(dx), free(dw), free(want);
    free_case(&h);
}

static void check_stored(const wefti_kernels *fast) {
    check_fresh(fast, 3, 5, 17);
    check_fresh(fast, 40, 64, 4500); /* large enough to pass the cache */
    check_fresh(fast->bf16, 3, 5, 17);
    check_fresh(fast->bf16, 40, 64, 4500);
    check_fresh(fast->bf16, 40, 65, 4500);
}

TEST(a_fresh_gradient_is_stored) {
    check_fresh(ref, 3, 5, 17);
    check_fresh(ref->bf16, 3, 5, 17);
    each_table(check_stored);
    wefti_kernels_set_threads(2);
    check_fresh(test_kernels_find(NULL), 150, 2, 250000); /* several blocks */
    wefti_kernels_set_threads(1);
}

static void check_case(const wefti_kernels *fast, int64_t N, int64_t C, int64_t V,
                       double noise) {
    check_capped(fast, N, C, V, noise, 0);
}

static void check_caps(const wefti_kernels *fast) {
    check_capped(fast, 3, 2, 5, 1, 1);
    check_capped(fast, 17, 5, 37, 2, 0.5f);
    check_capped(fast, 20, 16, 300, 3, 30);
    float logits[3] = {-4, 0.25f, 1000}, same[3] = {-4, 0.25f, 1000};
    fast->layers->cap_logits(3, 2, logits), ref->layers->cap_logits(3, 2, same);
    assert_close(3, logits, same, 4 * rounding, "cap_logits");
    assert_true(same[2] == 2);
}

TEST(capped_logits_follow_the_reference) { each_table(check_caps); }

static void check_cases(const wefti_kernels *fast) {
    check_case(fast, 1, 1, 1, 1);
    check_case(fast, 3, 5, 17, 2);
    check_case(fast, 17, 16, 33, 5);
    check_case(fast, 70, 24, 999, 3);
    check_case(fast, 5, 3, 12345, 3);
}

TEST(head_follows_the_reference) { each_table(check_cases); }

/* A vocabulary so large that the rows take several blocks. */
TEST(blocks_of_rows_follow_the_reference) {
    wefti_kernels_set_threads(2);
    const wefti_kernels *fast = test_kernels_find(NULL);
    assert_true(fast->layers->head_scratch(150, 250000, 2) < 150 * 250000);
    check_case(fast, 150, 1, 250000, 1);
    wefti_kernels_set_threads(1);
}

static void check_extreme_logits(const wefti_kernels *fast) {
    enum { V = 19 };
    float x[] = {1e4f}, w[V], dx[1], dw[V] = {0};
    int32_t target[] = {V - 1};
    float *scratch = new_floats(
        fast->layers->head_scratch(1, V, wefti_kernels_threads()));
    for (int v = 0; v < V; v++) w[v] = v == 3 ? 1.0f : -1.0f;
    double loss = 0;
    fast->layers->head_loss(1, 1, V, x, w, target, 0, 1, &loss, dx, dw, false, scratch);
    assert_true(loss == 2e4); /* all weight lies on token 3 */
    assert_true(dx[0] == 2.0f && dw[3] == 1e4f && dw[V - 1] == -1e4f && dw[0] == 0.0f);
    for (int v = 0; v < V; v++) w[v] = 1.0f;
    loss = 0;
    fast->layers->head_loss(1, 1, V, x, w, target, 0, 1, &loss, NULL, NULL, false,
                            scratch);
    assert_true(fabs(loss - log(V)) < 4 * rounding);
    free(scratch);
}

TEST(extreme_logits_do_not_overflow) { each_table(check_extreme_logits); }

static void check_skipped(const wefti_kernels *fast) {
    head_case h = make_case(4, 3, 7, 1);
    for (int n = 0; n < 4; n++) h.target[n] = -1;
    head_result r = run(fast, &h);
    float *untouched = new_noise(21, 6, 1);
    assert_true(r.loss == 2);
    for (int i = 0; i < 12; i++) assert_true(r.dx[i] == 0);
    assert_memory_equal(r.dw, untouched, 21 * sizeof(float));
    free(r.dx), free(r.dw), free(untouched), free_case(&h);
}

TEST(skipped_targets_have_no_loss_and_no_gradient) { each_table(check_skipped); }

static void check_embedding(const wefti_kernels *fast, int64_t N, int64_t T, int64_t C,
                            bool positions) {
    enum { V = 11 };
    int32_t *token = calloc((size_t)N, sizeof *token);
    assert_non_null(token);
    for (int64_t n = 0; n < N; n++)
        token[n] = (int32_t)wefti_rng_permute(1, WEFTI_STREAM_TEST, 0, V, n * n % V);
    float *table = new_noise(V * C, 1, 1),
          *pos = positions ? new_noise(T * C, 2, 1) : NULL;
    float *want = new_floats(N * C), *got = new_floats(N * C),
          *dy = new_noise(N * C, 3, 1);
    ref->layers->embed_forward(N, T, C, token, table, pos, want);
    fast->layers->embed_forward(N, T, C, token, table, pos, got);
    assert_memory_equal(got, want, (size_t)(N * C) * sizeof *got);
    float *table2 = new_copy(V * C, table),
          *pos2 = positions ? new_copy(T * C, pos) : NULL;
    ref->layers->embed_backward(N, T, C, token, dy, table, pos);
    fast->layers->embed_backward(N, T, C, token, dy, table2, pos2);
    assert_memory_equal(table2, table,
                        (size_t)(V * C) * sizeof *table); /* the same order */
    if (positions) assert_memory_equal(pos2, pos, (size_t)(T * C) * sizeof *pos);
    free(token), free(table), free(pos), free(want), free(got), free(dy), free(table2),
        free(pos2);
}

static void check_embeddings(const wefti_kernels *fast) {
    check_embedding(fast, 1, 1, 1, true);
    check_embedding(fast, 34, 17, 19, true);
    check_embedding(fast, 300, 100, 200, true);
    check_embedding(fast, 300, 100, 200, false);
}

TEST(embedding_is_the_reference_bit_for_bit) { each_table(check_embeddings); }
