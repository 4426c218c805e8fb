/* SPDX-License-Identifier: MIT */
/* A recorded table does what the table under it does, and counts it. */
#include "helpers.h"

#include "kernels/rate.h"
#include "tensor/recorder.h"
#include "reference/reference.h"

/* The record of that name and shape; the test fails without it. */
static const wefti_record *found(const wefti_recorder *r, const char *kernel,
                                 const char *shape) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->of[i].kernel, kernel) == 0 && strcmp(r->of[i].shape, shape) == 0)
            return &r->of[i];
    fail_msg("no record of %s %s", kernel, shape);
    return NULL;
}

/* Fails if one of n pointers is NULL, but for number `may`. */
static void check_full(const char *table, const void *const *entries, size_t n,
                       size_t may) {
    for (size_t i = 0; i < n; i++)
        if (!entries[i] && i != may)
            fail_msg("entry %zu of the recorded %s is empty", i, table);
}

TEST(every_entry_is_recorded) {
    static wefti_recorder r;
    enum {
        KERNELS = sizeof(wefti_kernels) / sizeof(void *),
        ENTRIES = sizeof(wefti_layers) / sizeof(void *)
    };
    wefti_recorder_begin(&r, wefti_kernels_reference.bf16);
    const void *kernels[KERNELS], *layers[ENTRIES];
    memcpy(kernels, &r.table, sizeof r.table);
    memcpy(layers, &r.layers, sizeof r.layers);
    check_full("table", kernels, KERNELS, KERNELS);
    check_full("layers", layers, ENTRIES,
               offsetof(wefti_layers, attention_halves) / sizeof *layers);
    wefti_recorder_end();
}

TEST(products_of_each_shape_are_counted_by_themselves) {
    static wefti_recorder r;
    enum { M = 5, N = 7, K = 3 };
    float *a = new_noise(M * K, 1, 1), *b = new_noise(K * N, 2, 1);
    float *want = new_floats(M * N), *got = new_floats(M * N);
    wefti_kernels_reference.gemm(false, false, M, N, K, 1, a, K, b, N, 0, want, N);
    wefti_recorder_begin(&r, &wefti_kernels_reference);
    for (int i = 0; i < 2; i++)
        r.table.gemm(false, false, M, N, K, 1, a, K, b, N, 0, got, N);
    assert_memory_equal(got, want, M * N * sizeof *want);
    r.table.gemm(true, false, K, N, M, 1, a, K, want, N, 1, b, N);
    wefti_recorder_end();
    const wefti_record *plain = found(&r, "gemm", "[5,3] x [3,7]");
    assert_int_equal(plain->calls, 2);
    assert_true(plain->flop == 2 * 2.0 * M * N * K);
    assert_true(plain->bytes == 2 * 4.0 * (M * K + K * N + M * N));
    const wefti_record *added = found(&r, "gemm", "[5,3]' x [5,7] +");
    assert_int_equal(added->calls, 1);
    assert_true(added->bytes == 4.0 * (K * M + M * N + 2 * K * N));
    assert_true(plain->seconds >= 0 && added->seconds >= 0);
    free(a), free(b), free(want), free(got);
}

TEST(sums_come_back_and_calls_add_up) {
    static wefti_recorder r;
    float x[3] = {1, 2, 3}, y[3] = {1, 1, 1};
    wefti_recorder_begin(&r, &wefti_kernels_reference);
    assert_true(r.table.sum_squares(3, x) == 14);
    assert_true(r.table.sum_squares(2, x) == 5);
    r.table.accumulate(3, x, y);
    wefti_recorder_end();
    assert_true(y[0] == 2 && y[1] == 3 && y[2] == 4);
    assert_int_equal(found(&r, "sum_squares", "")->calls, 2);
    assert_true(found(&r, "sum_squares", "")->bytes == 4.0 * 5);
    assert_true(found(&r, "accumulate", "")->flop == 3);
    assert_true(found(&r, "accumulate", "")->bytes == 4.0 * 9);
    assert_int_equal(r.n, 2);
}

/* Shapes beyond its room are not counted, and nothing is overwritten. */
TEST(a_full_recorder_goes_on_working) {
    static wefti_recorder r;
    float *x = new_noise(WEFTI_RECORDS + 8, 3, 1), one = 2, y;
    wefti_recorder_begin(&r, &wefti_kernels_reference);
    for (int64_t k = 1; k <= WEFTI_RECORDS + 7; k++)
        r.table.gemm(false, false, 1, 1, k, 0, x, k, x, 1, 0, &y, 1);
    assert_int_equal(r.n, WEFTI_RECORDS);
    r.table.scale(1, 3, &one);
    wefti_recorder_end();
    assert_true(one == 6);
    free(x);
}

TEST(every_table_has_a_peak) {
    for (const char *const *name = test_kernels_names(); *name; name++) {
        const wefti_kernels *table = test_kernels_find(*name);
        double plain = wefti_peak_flops(table, 1e-3);
        double rounded = wefti_peak_flops(table->bf16, 1e-3);
        assert_true(plain > 0 && isfinite(plain) && rounded > 0 && isfinite(rounded));
    }
}
