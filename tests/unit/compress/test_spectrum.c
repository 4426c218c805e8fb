/* SPDX-License-Identifier: MIT */
/* Selection, subtraction and combination of each instruction set against double. */
#include "spectrum_case.h"
#include "reference/reference.h"

static const shape shapes[] = {
    {1, 64, 1, 1, 64 * 40}, {1, 64, 2, 7, 300},    {1, 64, 4, 1, 64 * 33 + 5},
    {1, 64, 8, 3, 64 * 17}, {1, 64, 16, 1, 1111},  {1, 64, 32, 1, 64 * 16},
    {1, 64, 63, 1, 64 * 5}, {1, 64, 64, 5, 100},   {1, 2, 1, 1, 77},
    {1, 2, 2, 3, 11},       {1, 3, 2, 5, 29},      {1, 4, 3, 1, 130},
    {1, 7, 1, 9, 31},       {1, 7, 5, 1, 500},     {1, 8, 3, 2, 99},
    {1, 16, 3, 1, 16 * 37}, {1, 16, 15, 1, 401},   {1, 32, 5, 1, 32 * 35 + 1},
    {1, 100, 9, 1, 2017},   {1, 128, 20, 1, 4100}, {1, 256, 3, 1, 256 * 17},
    {1, 512, 40, 3, 700},   {2, 64, 1, 64, 64},    {2, 64, 32, 65, 70},
    {2, 64, 32, 64, 129},   {2, 64, 600, 65, 64},  {2, 64, 2000, 40, 100},
    {2, 64, 4096, 64, 80},  {2, 64, 128, 300, 1},  {2, 8, 1, 17, 9},
    {2, 8, 5, 24, 40},      {2, 8, 64, 9, 9},      {2, 16, 7, 33, 50},
    {2, 16, 100, 16, 16},   {2, 3, 4, 10, 11},     {2, 7, 49, 8, 15},
    {2, 100, 77, 101, 99},  {2, 32, 40, 1, 100},   {2, 128, 64, 128, 100},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void each_shape(const char *kernels, void (*check)(kase *k)) {
    for (int i = 0; i < N_SHAPES; i++) {
        kase k = kase_open(kernels, shapes[i], (uint64_t)i + 1);
        check(&k);
        kase_close(&k);
    }
}

/* Values are the coefficients at their indices, and nothing left out is larger. */
static void check_chosen(const kase *k, int64_t chunk, double error) {
    int64_t E = k->s.elements, K = k->s.k;
    double *x = room(E, sizeof *x), least = INFINITY, most_left = 0;
    chunk_double(k, chunk, k->m, x);
    double allowed = error * norm_of(E, x);
    transform_double(k, false, x, x);
    const int32_t *index = k->indices + chunk * K;
    const float *value = k->values + chunk * K;
    for (int64_t j = 0; j < K; j++) {
        assert_in_range(index[j], j ? index[j - 1] + 1 : 0, E - 1);
        assert_true(fabs((double)value[j] - x[index[j]]) <= allowed);
        least = fmin(least, fabs(x[index[j]]));
        x[index[j]] = 0;
    }
    for (int64_t j = 0; j < E; j++) most_left = fmax(most_left, fabs(x[j]));
    assert_true(most_left <= least + 2 * allowed);
    free(x);
}

static void check_selection(kase *k) {
    kase_select(k, 1000000, NULL, NULL);
    for (int64_t i = 0; i < k->s.n; i++) check_chosen(k, i, transform_error(k));
}

static void selection_of(const char *kernels) { each_shape(kernels, check_selection); }

TEST(the_largest_coefficients_are_selected) { each_set(selection_of); }

/* The factored transform is as near as its few stages, not as c products. */
static void check_error(const char *kernels) {
    if (strcmp(kernels, "reference") == 0) return;
    for (int64_t c = 2; c <= 1024; c *= 2) {
        kase k = kase_open(kernels, (shape){1, c, c, 1, 33 * c}, 5);
        kase_select(&k, 1000000, NULL, NULL);
        for (int64_t i = 0; i < k.s.n; i++) check_chosen(&k, i, fast_transform_error(&k));
        kase_close(&k);
    }
    kase k = kase_open(kernels, (shape){2, 64, 4096, 128, 64}, 6);
    kase_select(&k, 1000000, NULL, NULL);
    for (int64_t i = 0; i < k.s.n; i++) check_chosen(&k, i, fast_transform_error(&k));
    kase_close(&k);
}

TEST(powers_of_two_err_by_a_few_roundings_of_the_norm) { each_set(check_error); }

static void check_momentum(kase *k) {
    const wefti_momentum momentum = {.decay = 0.9f, .gain = 0.25f};
    float *g = room(k->n, sizeof *g), *old = copy_of(k->m, k->n, sizeof *old);
    fill_normal(77, k->n, g);
    kase_select(k, 1000000, &momentum, g);
    for (int64_t i = 0; i < k->n; i++) {
        double a = (double)momentum.decay * (double)old[i],
               b = (double)momentum.gain * (double)g[i];
        assert_true(fabs((double)k->m[i] - (a + b)) <= 2 * unit * (fabs(a) + fabs(b)));
    }
    int64_t n = k->s.n * k->s.k;
    float *values = copy_of(k->values, n, sizeof *values);
    int32_t *indices = copy_of(k->indices, n, sizeof *indices);
    float *m = copy_of(k->m, k->n, sizeof *m);
    kase_select(k, 1000000, NULL, NULL); /* of the same momentum, as it is now */
    assert_memory_equal(k->values, values, (size_t)n * sizeof *values);
    assert_memory_equal(k->indices, indices, (size_t)n * sizeof *indices);
    assert_memory_equal(k->m, m, (size_t)k->n * sizeof *m);
    free(g), free(old), free(values), free(indices), free(m);
}

static void momentum_of(const char *kernels) { each_shape(kernels, check_momentum); }

TEST(the_momentum_takes_the_gradient_once) { each_set(momentum_of); }

/* What was sent and what was kept is all there was; the kept has none of it. */
static void check_subtraction(kase *k) {
    const float alpha = k->s.c % 3 ? 1.0f : 0.2f;
    int64_t E = k->s.elements, K = k->s.k;
    float *old = copy_of(k->m, k->n, sizeof *old);
    double *q = room(E, sizeof *q);
    kase_select(k, 1000000, NULL, NULL);
    kase_subtract(k, 1000000, alpha);
    for (int64_t i = 0; i < k->s.n; i++) {
        memset(q, 0, (size_t)E * sizeof *q);
        for (int64_t j = i * K; j < (i + 1) * K; j++)
            q[k->indices[j]] = (double)k->values[j];
        double allowed = transform_error(k) * norm_of(E, q);
        transform_double(k, true, q, q);
        for (int64_t j = 0; j < E; j++) {
            int64_t at = place_of(&k->s, i, j);
            if (at < 0) continue;
            double want = (double)old[at] - (double)alpha * q[j];
            assert_true(fabs((double)k->m[at] - want) <=
                        allowed + 3 * unit * (fabs((double)old[at]) + fabs(q[j])));
        }
    }
    free(old), free(q);
}

static void subtraction_of(const char *kernels) {
    each_shape(kernels, check_subtraction);
}

TEST(sent_and_kept_is_all) { each_set(subtraction_of); }

/* R lists from R different momenta, some alike so that indices coincide. */
enum { MOST_LISTS = 5 };
typedef struct lists {
    int R;
    int32_t *indices[MOST_LISTS];
    float *values[MOST_LISTS];
} lists;

static lists make_lists(kase *k, int R) {
    lists l = {.R = R};
    for (int r = 0; r < R; r++) {
        for (int64_t i = 0; i < k->n; i++)
            if ((i + r) % 3 == 0)
                k->m[i] = (float)wefti_rng_normal((uint64_t)r, WEFTI_STREAM_TEST, 1,
                                                  (uint64_t)i);
        kase_select(k, 1000000, NULL, NULL);
        l.indices[r] = copy_of(k->indices, k->s.n * k->s.k, sizeof(int32_t));
        l.values[r] = copy_of(k->values, k->s.n * k->s.k, sizeof(float));
    }
    return l;
}

static void free_lists(lists *l) {
    for (int r = 0; r < l->R; r++) free(l->indices[r]), free(l->values[r]);
}

static void combine(kase *k, const lists *l, int64_t step, wefti_direction direction,
                    float *d) {
    for (int64_t i = 0; i < k->s.n; i += step) {
        const int32_t *indices[MOST_LISTS];
        const float *values[MOST_LISTS];
        for (int r = 0; r < l->R; r++) {
            indices[r] = l->indices[r] + i * k->s.k;
            values[r] = l->values[r] + i * k->s.k;
        }
        wefti_spectrum_combine(k->spectrum, (int)(i & 1), &k->s, i,
                               step < k->s.n - i ? step : k->s.n - i, l->R, indices,
                               values, direction, d);
    }
}

static void mean_double(const kase *k, const lists *l, int64_t chunk, double *q) {
    double *senders = room(k->s.elements, sizeof *senders);
    memset(q, 0, (size_t)k->s.elements * sizeof *q);
    for (int r = 0; r < l->R; r++) {
        for (int64_t j = chunk * k->s.k; j < (chunk + 1) * k->s.k; j++) {
            q[l->indices[r][j]] += (double)l->values[r][j];
            senders[l->indices[r][j]]++;
        }
    }
    for (int64_t f = 0; f < k->s.elements; f++)
        if (senders[f] > 0) q[f] /= senders[f];
    free(senders);
}

static void check_combination(kase *k, int R) {
    lists l = make_lists(k, R);
    float *d = room(k->n, sizeof *d), *sign = room(k->n, sizeof *sign);
    double *q = room(k->s.elements, sizeof *q);
    combine(k, &l, 1000000, WEFTI_DIRECTION_VALUE, d);
    combine(k, &l, 1000000, WEFTI_DIRECTION_SIGN, sign);
    for (int64_t i = 0; i < k->s.n; i++) {
        mean_double(k, &l, i, q);
        double allowed = (transform_error(k) + R * unit) * norm_of(k->s.elements, q);
        transform_double(k, true, q, q);
        for (int64_t j = 0; j < k->s.elements; j++) {
            int64_t at = place_of(&k->s, i, j);
            if (at < 0) continue;
            assert_true(fabs((double)d[at] - q[j]) <= allowed);
            assert_true(sign[at] == (d[at] >= 0 ? 1.0f : -1.0f));
        }
    }
    free(d), free(sign), free(q);
    free_lists(&l);
}

static void combination_of(const char *kernels) {
    static const int counts[] = {2, 3, 5, 1};
    for (int i = 0; i < N_SHAPES; i++) {
        for (int j = 0; j < 2; j++) {
            kase k = kase_open(kernels, shapes[i], (uint64_t)i + 1);
            check_combination(&k, counts[(i + 2 * j) % 4]);
            kase_close(&k);
        }
    }
}

TEST(combination_is_the_mean_over_those_that_sent) { each_set(combination_of); }

static void signs_through_bits(kase *k, const lists *l, float *d) {
    int64_t stride = wefti_chunks_bits_bytes(&k->s), n = k->s.n;
    assert_int_equal(stride, (k->s.elements + 7) / 8);
    unsigned char *states = room(n, 1), *bits = room(n, (size_t)stride);
    memset(bits, 0xa5, (size_t)(n * stride)); /* what was there must not matter */
    const int32_t *indices[MOST_LISTS];
    const float *values[MOST_LISTS];
    for (int r = 0; r < l->R; r++) indices[r] = l->indices[r], values[r] = l->values[r];
    wefti_spectrum_combine_signs(k->spectrum, 0, &k->s, 0, n, l->R, indices, values,
                                 states, bits);
    for (int64_t i = 0; i < n; i++) {
        if (k->s.elements % 8)
            assert_int_equal(bits[(i + 1) * stride - 1] >> k->s.elements % 8, 0);
        for (int64_t b = 0; b < stride && states[i] != WEFTI_SIGNS_BITS; b++)
            assert_int_equal(bits[i * stride + b], 0);
    }
    for (int64_t i = 0; i < n; i += 3)
        wefti_chunks_store_bits(k->spectrum, &k->s, i, n - i < 3 ? n - i : 3, states + i,
                                bits + i * stride, d);
    free(states), free(bits);
}

/* Chunk 0 all zero, the last not finite. */
static void check_bits(kase *k) {
    lists l = make_lists(k, 2);
    for (int r = 0; r < 2; r++) memset(l.values[r], 0, (size_t)k->s.k * sizeof(float));
    if (k->s.n > 1) l.values[1][k->s.n * k->s.k - 1] = INFINITY;
    float *want = room(k->n, sizeof *want), *got = room(k->n, sizeof *got);
    combine(k, &l, 1000000, WEFTI_DIRECTION_SIGN, want);
    signs_through_bits(k, &l, got);
    for (int64_t i = 0; i < k->n; i++)
        assert_true(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])));
    assert_true(want[0] == 0);
    if (k->s.n > 1) assert_true(isnan(want[place_of(&k->s, k->s.n - 1, 0)]));
    free(want), free(got);
    free_lists(&l);
}

static void bits_of(const char *kernels) { each_shape(kernels, check_bits); }

TEST(signs_survive_their_way_through_bits) { each_set(bits_of); }

/* Everything, `step` chunks at a time. */
static void whole_pass(kase *k, int64_t step, const float *g, float *d) {
    const wefti_momentum momentum = {.decay = 0.999f, .gain = 1e-3f};
    kase_select(k, step, &momentum, g);
    kase_subtract(k, step, 1);
    int64_t n = k->s.n * k->s.k;
    lists l = {.R = 2, .indices = {k->indices, k->indices}};
    float *other = copy_of(k->values, n, sizeof *other);
    for (int64_t i = 0; i < n; i += 5) other[i] *= 3;
    l.values[0] = k->values, l.values[1] = other;
    combine(k, &l, step, WEFTI_DIRECTION_VALUE, d);
    free(other);
}

static void cuts_of(const char *kernels) {
    for (int i = 0; i < N_SHAPES; i++) {
        kase a = kase_open(kernels, shapes[i], 3), b = kase_open(kernels, shapes[i], 3);
        float *g = room(a.n, sizeof *g), *d = room(a.n, sizeof *d),
              *e = room(a.n, sizeof *e);
        fill_normal(4, a.n, g);
        whole_pass(&a, 1000000, g, d);
        whole_pass(&b, 1 + i % 7, g, e);
        size_t n = (size_t)a.n * sizeof *d, kept = (size_t)(a.s.n * a.s.k);
        assert_memory_equal(d, e, n);
        assert_memory_equal(a.m, b.m, n);
        assert_memory_equal(a.indices, b.indices, kept * sizeof(int32_t));
        assert_memory_equal(a.values, b.values, kept * sizeof(float));
        free(g), free(d), free(e);
        kase_close(&a), kase_close(&b);
    }
}

TEST(bits_do_not_depend_on_how_batches_are_cut) { each_set(cuts_of); }
