/* SPDX-License-Identifier: MIT */
/* Where the hot loop could go wrong: ties, numbers that are none, memory, threads. */
#include <pthread.h>

#include "compress/spectrum.h"
#include "compress/selection.h"
#include "spectrum_case.h"
#include "reference/reference.h"

static const shape shapes[] = {
    {1, 64, 1, 1, 64 * 18 + 9}, {1, 64, 4, 3, 500},   {1, 64, 7, 1, 1100},
    {1, 64, 33, 1, 64 * 17},    {1, 64, 63, 1, 200},  {1, 5, 2, 1, 99},
    {1, 8, 6, 2, 90},           {1, 200, 17, 1, 900}, {1, 256, 100, 1, 256 * 5},
    {2, 64, 32, 70, 130},       {2, 64, 1, 64, 64},   {2, 64, 700, 64, 70},
    {2, 8, 3, 20, 20},          {2, 16, 100, 17, 40}, {2, 30, 50, 40, 61},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], ALL = 1000000 };

static void each_shape(const char *kernels, void (*check)(kase *k)) {
    for (int i = 0; i < N_SHAPES; i++) {
        kase k = kase_open(kernels, shapes[i], (uint64_t)i + 1);
        check(&k);
        kase_close(&k);
    }
}

static uint32_t magnitude(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

/* The first k of the whole spectrum by magnitude, then index: by marking them in turn. */
static void check_against_spectrum(const kase *k, int64_t chunk, const float *spectrum) {
    int64_t E = k->s.elements, K = k->s.k, n = 0;
    bool *is_chosen = room(E, sizeof *is_chosen);
    for (int64_t j = 0; j < K; j++) {
        int64_t best = -1;
        for (int64_t f = 0; f < E; f++)
            if (!is_chosen[f] &&
                (best < 0 || magnitude(spectrum[f]) > magnitude(spectrum[best])))
                best = f;
        is_chosen[best] = true;
    }
    for (int64_t f = 0; f < E; f++) {
        if (!is_chosen[f]) continue;
        assert_int_equal(k->indices[chunk * K + n], f);
        assert_memory_equal(&k->values[chunk * K + n], &spectrum[f], sizeof(float));
        n++;
    }
    free(is_chosen);
}

/* Few small whole numbers: coefficients coincide, in magnitude and altogether. */
static void check_ties(kase *k) {
    for (int64_t i = 0; i < k->n; i++) {
        uint64_t u = wefti_rng_u64(9, WEFTI_STREAM_TEST, 0, (uint64_t)i);
        k->m[i] = i % 700 < 64 || u % 11 ? 0 : (float)(int)(u / 11 % 3) - 1;
    }
    kase all = *k;
    all.s.k = all.s.elements;
    all.indices = room(all.s.n * all.s.k, sizeof *all.indices);
    all.values = room(all.s.n * all.s.k, sizeof *all.values);
    kase_select(&all, ALL, NULL, NULL);
    kase_select(k, ALL, NULL, NULL);
    for (int64_t i = 0; i < k->s.n; i++) {
        for (int64_t f = 0; f < k->s.elements; f++)
            assert_int_equal(all.indices[i * k->s.elements + f], f);
        check_against_spectrum(k, i, all.values + i * k->s.elements);
    }
    free(all.indices), free(all.values);
}

static void ties_of(const char *kernels) { each_shape(kernels, check_ties); }

TEST(selection_is_exact_with_ties_to_the_lower_index) { each_set(ties_of); }

static void check_zero(kase *k) {
    memset(k->m, 0, (size_t)k->n * sizeof *k->m);
    k->m[0] = -0.0f;
    kase_select(k, ALL, NULL, NULL);
    for (int64_t i = 0; i < k->s.n * k->s.k; i++) {
        assert_int_equal(k->indices[i], i % k->s.k);
        assert_true(k->values[i] == 0);
    }
    kase_subtract(k, ALL, 1);
    for (int64_t i = 0; i < k->n; i++) assert_true(k->m[i] == 0);
}

static void zeros_of(const char *kernels) { each_shape(kernels, check_zero); }

TEST(zeros_select_the_first_indices) { each_set(zeros_of); }

/* `bad` in chunk `chunk` of one of two equal momenta: all of that chunk is lost and
 * nothing of any other chunk. */
static void check_lost(const char *kernels, shape h, float bad) {
    kase good = kase_open(kernels, h, 1), k = kase_open(kernels, h, 1);
    int64_t chunk = k.s.n / 2, K = k.s.k;
    k.m[place_of(&k.s, chunk, 1)] = bad;
    kase_select(&k, ALL, NULL, NULL), kase_select(&good, ALL, NULL, NULL);
    const int32_t *index = k.indices + chunk * K;
    for (int64_t j = 0; j < K; j++) {
        assert_in_range(index[j], j ? index[j - 1] + 1 : 0, k.s.elements - 1);
        assert_true(!isfinite(k.values[chunk * K + j]));
    }
    kase_subtract(&k, ALL, 1), kase_subtract(&good, ALL, 1);
    float *d = room(k.n, sizeof *d), *e = room(k.n, sizeof *e);
    const int32_t *indices[2] = {k.indices, good.indices};
    const float *values[2] = {k.values, good.values};
    wefti_spectrum_combine(k.spectrum, 0, &k.s, 0, k.s.n, 2, indices, values,
                           WEFTI_DIRECTION_SIGN, d);
    indices[0] = good.indices, values[0] = good.values;
    wefti_spectrum_combine(k.spectrum, 0, &k.s, 0, k.s.n, 2, indices, values,
                           WEFTI_DIRECTION_SIGN, e);
    for (int64_t i = 0; i < k.s.n; i++) {
        for (int64_t j = 0; j < k.s.elements; j++) {
            int64_t at = place_of(&k.s, i, j);
            if (at < 0) continue;
            if (i == chunk) {
                assert_true(!isfinite(k.m[at]));
                assert_true(isnan(d[at]));
            } else {
                assert_true(k.m[at] == good.m[at] && d[at] == e[at]);
            }
        }
    }
    free(d), free(e);
    kase_close(&k), kase_close(&good);
}

static void lost_of(const char *kernels) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < N_SHAPES; i++) check_lost(kernels, shapes[i], bad[i % 3]);
}

TEST(what_is_not_finite_stays_in_its_chunk) { each_set(lost_of); }

/* Two coefficients of equal value, the constant and the one of half the length, cancel to
 * 0 in half of the elements; their mean over three lists, one of which has neither, is
 * the same. */
static void check_zero_signs(const char *kernels, shape h, int32_t half) {
    kase k = kase_open(kernels, h, 1);
    int64_t n = k.s.n, stride = wefti_chunks_bits_bytes(&k.s), zeros = 0;
    int32_t *other = room(n * 2, sizeof *other);
    float *none = room(n * 2, sizeof *none), *d = room(k.n, sizeof *d);
    unsigned char *states = room(n, 1), *bits = room(n * stride, 1);
    for (int64_t i = 0; i < n; i++) {
        k.indices[2 * i + 1] = half;
        k.values[2 * i] = k.values[2 * i + 1] = 2;
        other[2 * i] = 1, other[2 * i + 1] = 3; /* where there are as many */
    }
    const int32_t *indices[] = {k.indices, other, k.indices};
    const float *values[] = {k.values, none, k.values};
    for (int R = 1; R <= (k.s.elements > 2 ? 3 : 1); R++) {
        wefti_spectrum_combine(k.spectrum, 0, &k.s, 0, n, R, indices, values,
                               WEFTI_DIRECTION_VALUE, d);
        for (int64_t i = 0; i < k.n; i++) zeros += d[i] == 0;
        assert_true(zeros >= R * (k.n / 2 - 3));
        wefti_spectrum_combine(k.spectrum, 0, &k.s, 0, n, R, indices, values,
                               WEFTI_DIRECTION_SIGN, d);
        for (int64_t i = 0; i < k.n; i++) assert_true(d[i] == 1);
        wefti_spectrum_combine_signs(k.spectrum, 0, &k.s, 0, n, R, indices, values,
                                     states, bits);
        for (int64_t i = 0; i < n; i++) assert_int_equal(states[i], WEFTI_SIGNS_BITS);
        for (int64_t i = 0; i < n * stride; i++) assert_int_equal(bits[i], 0);
    }
    free(other), free(none), free(d), free(states), free(bits);
    kase_close(&k);
}

static void zero_signs_of(const char *kernels) {
    check_zero_signs(kernels, (shape){1, 64, 2, 1, 64 * 20 - 3}, 32);
    check_zero_signs(kernels, (shape){1, 2, 2, 1, 99}, 1);
    check_zero_signs(kernels, (shape){2, 64, 2, 64, 64}, 32);
}

TEST(the_sign_of_zero_beside_others_is_one) { each_set(zero_signs_of); }

/* Three lists with the same coefficients: of chunk i list j has a 0 where bit j of i is
 * set. The mean is over those that have none, whatever the way that is taken. */
static void check_senders(kase *k) {
    int64_t n = k->s.n, K = k->s.k, E = k->s.elements;
    float *values[3], *d = room(k->n, sizeof *d), *want = room(k->n, sizeof *want),
                      *mean = room(n * K, sizeof *mean);
    for (int r = 0; r < 3; r++) values[r] = room(n * K, sizeof(float));
    for (int64_t i = 0; i < n * K; i++) {
        int senders = 0;
        k->indices[i] = (int32_t)((i / K + i % K * (E / K)) % E);
        for (int r = 0; r < 3; r++) {
            bool is_sent = !(i / K >> r & 1);
            values[r][i] = is_sent ? (float)(12 * (r + 1)) : 0.0f;
            mean[i] += values[r][i];
            senders += is_sent;
        }
        if (senders) mean[i] /= (float)senders;
    }
    const int32_t *indices[3] = {k->indices, k->indices, k->indices};
    const float *lists[3] = {values[0], values[1], values[2]}, *one[1] = {mean};
    wefti_spectrum_combine(k->spectrum, 0, &k->s, 0, n, 3, indices, lists,
                           WEFTI_DIRECTION_VALUE, d);
    wefti_spectrum_combine(k->spectrum, 0, &k->s, 0, n, 1, indices, one,
                           WEFTI_DIRECTION_VALUE, want);
    for (int64_t i = 0; i < k->n; i++)
        assert_true(fabsf(d[i] - want[i]) <= 1e-4f * (float)K);
    for (int r = 0; r < 3; r++) free(values[r]);
    free(d), free(want), free(mean);
}

static void senders_of(const char *kernels) { each_shape(kernels, check_senders); }

TEST(who_has_a_zero_has_not_sent_it) { each_set(senders_of); }

/* The largest coefficient of chunk i is 2^-63 if i is even and a little less if not. */
static void check_still(kase *k) {
    int64_t n = k->s.n, stride = wefti_chunks_bits_bytes(&k->s);
    float *d = room(k->n, sizeof *d);
    unsigned char *states = room(n, 1), *bits = room(n * stride, 1);
    for (int64_t i = 0; i < n * k->s.k; i++) {
        k->indices[i] = (int32_t)(i % k->s.k);
        k->values[i] = i / k->s.k % 2 ? 0x0.ffffffp-63f : 0x1p-63f;
    }
    const int32_t *indices[2] = {k->indices, k->indices};
    const float *values[2] = {k->values, k->values};
    for (int R = 1; R <= 2; R++) {
        wefti_spectrum_combine_signs(k->spectrum, 0, &k->s, 0, n, R, indices, values,
                                     states, bits);
        wefti_spectrum_combine(k->spectrum, 0, &k->s, 0, n, R, indices, values,
                               WEFTI_DIRECTION_SIGN, d);
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(states[i], i % 2 ? WEFTI_SIGNS_ZERO : WEFTI_SIGNS_BITS);
            for (int64_t j = 0; j < k->s.elements; j++) {
                int64_t at = place_of(&k->s, i, j);
                if (at >= 0) assert_int_equal(d[at] != 0, i % 2 == 0);
            }
        }
    }
    free(d), free(states), free(bits);
}

static void still_of(const char *kernels) { each_shape(kernels, check_still); }

TEST(what_is_below_the_threshold_moves_nothing) { each_set(still_of); }

/* Denormal numbers have an absolute error: half the smallest one per rounding. */
static void check_denormals(kase *k) {
    for (int64_t i = 0; i < k->n; i++) k->m[i] *= 1e-39f;
    float *old = copy_of(k->m, k->n, sizeof *old);
    int64_t E = k->s.elements;
    double *q = room(E, sizeof *q);
    double tiny = 16 * (double)(k->s.c + k->s.k + 8) * 0x1p-149;
    kase_select(k, ALL, NULL, NULL);
    kase_subtract(k, ALL, 1);
    for (int64_t i = 0; i < k->s.n; i++) {
        memset(q, 0, (size_t)E * sizeof *q);
        for (int64_t j = i * k->s.k; j < (i + 1) * k->s.k; j++)
            q[k->indices[j]] = (double)k->values[j];
        transform_double(k, true, q, q);
        for (int64_t j = 0; j < E; j++) {
            int64_t at = place_of(&k->s, i, j);
            if (at >= 0)
                assert_true(fabs((double)old[at] - q[j] - (double)k->m[at]) <= tiny);
        }
    }
    free(old), free(q);
}

static void denormals_of(const char *kernels) {
    for (int i = 0; i < N_SHAPES; i++) {
        if (shapes[i].dims == 2 && i % 2) continue;
        kase k = kase_open(kernels, shapes[i], (uint64_t)i + 1);
        check_denormals(&k);
        kase_close(&k);
    }
}

TEST(denormals_are_sent_and_kept) { each_set(denormals_of); }

/* Lines of the cache begin elsewhere: the same bits, and nothing beside the tensor. */
static void check_offset(kase *k, int64_t offset) {
    enum { GUARD = 32 };
    const wefti_momentum momentum = {.decay = 0.5f, .gain = 2};
    float *g = room(k->n, sizeof *g), *d = room(k->n, sizeof *d),
          *old = copy_of(k->m, k->n, sizeof *old),
          *wide = aligned_alloc(64, (size_t)((k->n + 2 * GUARD + 31) / 16 * 64));
    assert_non_null(wide);
    fill_normal(5, k->n, g);
    kase_select(k, ALL, &momentum, g);
    kase_subtract(k, ALL, 1);
    const int32_t *indices[1] = {k->indices};
    const float *values[1] = {k->values};
    wefti_spectrum_combine(k->spectrum, 0, &k->s, 0, k->s.n, 1, indices, values,
                           WEFTI_DIRECTION_VALUE, d);
    float *aside = wide + GUARD - 16 + offset, *kept = k->m;
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < k->n + 2 * GUARD; i++) wide[i] = 77;
        if (round == 0) {
            memcpy(aside, old, (size_t)k->n * sizeof *old);
            k->m = aside;
            kase_select(k, ALL, &momentum, g);
            kase_subtract(k, ALL, 1);
            k->m = kept;
        } else {
            wefti_spectrum_combine(k->spectrum, 0, &k->s, 0, k->s.n, 1, indices, values,
                                   WEFTI_DIRECTION_VALUE, aside);
        }
        assert_memory_equal(aside, round ? d : kept, (size_t)k->n * sizeof *d);
        for (float *p = wide; p < aside; p++) assert_true(*p == 77);
        for (float *p = aside + k->n; p < wide + k->n + 2 * GUARD; p++)
            assert_true(*p == 77);
    }
    free(g), free(d), free(old), free(wide);
}

static void offsets_of(const char *kernels) {
    for (int i = 0; i < N_SHAPES; i++) {
        kase k = kase_open(kernels, shapes[i], 3);
        check_offset(&k, i % 17);
        kase_close(&k);
    }
}

TEST(any_alignment_gives_the_same_bits) { each_set(offsets_of); }

typedef struct worker {
    kase *k;
    int thread;
    float *d;
    pthread_t id;
} worker;

/* Every second chunk, again and again. */
static void *work(void *user) {
    worker *w = user;
    kase *k = w->k;
    for (int64_t i = w->thread; i < k->s.n; i += 2) {
        int32_t *indices = k->indices + i * k->s.k;
        float *values = k->values + i * k->s.k;
        wefti_spectrum_select(k->spectrum, w->thread, &k->s, i, 1, NULL, NULL, k->m,
                              indices, values);
        wefti_spectrum_subtract(k->spectrum, w->thread, &k->s, i, 1, 1, indices, values,
                                k->m);
        const int32_t *lists[] = {indices, indices};
        const float *numbers[] = {values, values};
        wefti_spectrum_combine(k->spectrum, w->thread, &k->s, i, 1, 2, lists, numbers,
                               WEFTI_DIRECTION_SIGN, w->d);
    }
    return NULL;
}

static void threads_of(const char *kernels) {
    for (int i = 0; i < N_SHAPES; i++) {
        kase a = kase_open(kernels, shapes[i], 2), b = kase_open(kernels, shapes[i], 2);
        float *d = room(a.n, sizeof *d), *e = room(a.n, sizeof *e);
        worker two[2] = {{&a, 0, d, 0}, {&a, 1, d, 0}},
               one[2] = {{&b, 0, e, 0}, {&b, 1, e, 0}};
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&two[t].id, NULL, work, &two[t]), 0);
        for (int t = 0; t < 2; t++) pthread_join(two[t].id, NULL);
        for (int t = 0; t < 2; t++) work(&one[t]);
        assert_memory_equal(a.m, b.m, (size_t)a.n * sizeof(float));
        assert_memory_equal(d, e, (size_t)a.n * sizeof(float));
        free(d), free(e);
        kase_close(&a), kase_close(&b);
    }
}

TEST(threads_do_not_disturb_each_other) { each_set(threads_of); }

TEST(the_reference_is_matrix_products_and_topk) {
    kase k = kase_open("reference", (shape){2, 16, 9, 16, 16}, 4);
    float basis[256], x[256], scratch[256], value[9];
    int32_t index[9];
    uint32_t keys[256];
    wefti_dct_basis(16, basis);
    wefti_dct_blocks(&wefti_kernels_reference, 16, basis, 1, false, k.m, x, scratch);
    wefti_topk(256, x, 9, index, value, keys);
    kase_select(&k, ALL, NULL, NULL);
    assert_memory_equal(k.indices, index, sizeof index);
    assert_memory_equal(k.values, value, sizeof value);
    kase_close(&k);
}

TEST(batches_are_whole_rows_of_chunks) {
    for (int64_t c = 2; c <= 1024; c += c / 3 + 1) {
        for (int64_t cols = 1; cols < 100000; cols = cols * 3 + 1) {
            wefti_chunks one = wefti_chunks_make(1, c, 1, 1, cols),
                         two = wefti_chunks_make(2, c, 1, 100, cols);
            int64_t batch = wefti_spectrum_batch(&one);
            assert_true(batch > 0 && batch % 16 == 0);
            batch = wefti_spectrum_batch(&two);
            assert_true(batch > 0);
            if (batch >= two.across && two.lines > 1)
                assert_int_equal(batch % two.across, 0);
        }
    }
}

TEST(creation_costs_what_it_says_or_fails_whole) {
    for (int dims = 0; dims <= 2; dims++) {
        weft_ctx *ctx;
        wefti_spectrum *spectrum;
        assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
        const wefti_kernels *kernels = test_kernels_find(NULL);
        for (int64_t k = 0;; k++) {
            weft_ctx_fail_allocation(ctx, k);
            weft_status status = wefti_spectrum_create(ctx, kernels, dims, 64, 3,
                                                       &spectrum);
            if (status == WEFT_OK) break;
            assert_int_equal(status, WEFT_ERR_MEMORY);
            assert_null(spectrum);
            assert_int_equal(weft_ctx_bytes_held(ctx), 0);
            weft_ctx_clear(ctx);
        }
        int64_t held = weft_ctx_bytes_held(ctx), cost = wefti_spectrum_cost(dims, 64, 3);
        assert_true(cost >= held && cost < held + 8 * 128);
        wefti_spectrum_destroy(ctx, spectrum);
        wefti_spectrum_destroy(ctx, NULL);
        weft_ctx_destroy(ctx);
    }
}
