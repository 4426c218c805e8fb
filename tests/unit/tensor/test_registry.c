/* SPDX-License-Identifier: MIT */
#include "helpers.h"

#include "kernels/isa.h"
#include "reference/reference.h"

TEST(names_are_found_and_end_with_base) {
    const char *const *names = wefti_kernels_names();
    const char *last = NULL;
    for (int i = 0; names[i] != NULL; i++) {
        const wefti_kernels *table = wefti_kernels_find(names[i]);
        assert_non_null(table);
        assert_string_equal(table->bf16->name, names[i]);
        bool own = strcmp(names[i], "amx") != 0; /* in f32 it has the bits of avx512 */
        assert_string_equal(table->name, own ? names[i] : "avx512");
        last = names[i];
    }
    assert_string_equal(last, "base");
    assert_ptr_equal(wefti_kernels_find(NULL), wefti_kernels_find(names[0]));
}

TEST(unknown_or_unrunnable_names_are_not_found) {
    assert_null(wefti_kernels_find("avx1024"));
    assert_null(wefti_kernels_find(""));
    bool runs_avx512 = wefti_kernels_find("avx512") != NULL;
    assert_true(runs_avx512 == (wefti_isa_detect() >= WEFTI_ISA_AVX512));
}

/* A processor without AMX, or a system that refuses its registers, has the other tables. */
TEST(amx_has_the_kernels_of_avx512_but_for_products_of_bf16) {
    const wefti_kernels *amx = wefti_kernels_find("amx");
    assert_true((amx != NULL) == wefti_isa_asks_amx());
    if (amx == NULL) skip();
    const wefti_kernels *avx512 = wefti_kernels_find("avx512");
    assert_ptr_equal(wefti_kernels_find(NULL), amx);
    assert_true(amx->gemm == avx512->gemm && amx->adam == avx512->adam);
    assert_true(amx->bf16->gemm != avx512->bf16->gemm);
    assert_true(amx->bf16->layers->head_loss != avx512->bf16->layers->head_loss);
    assert_true(amx->bf16->adam == avx512->adam);
}

TEST(every_entry_of_every_table_is_filled) {
    typedef void (*entry)(void);
    for (const char *const *name = wefti_kernels_names(); *name != NULL; name++) {
        const wefti_kernels *table = wefti_kernels_find(*name);
        assert_ptr_equal(table->bf16->bf16, table->bf16);
        assert_true(table->layers->gemm_mixed == NULL &&
                    table->bf16->layers->gemm_mixed != NULL);
        size_t n = (sizeof *table - offsetof(wefti_kernels, gemm)) / sizeof(entry);
        for (size_t i = 0; i < n; i++) {
            entry f;
            const char *at = (const char *)table + offsetof(wefti_kernels, gemm);
            memcpy(&f, at + i * sizeof f, sizeof f);
            assert_true(f != NULL);
            at = (const char *)table->bf16 + offsetof(wefti_kernels, gemm);
            memcpy(&f, at + i * sizeof f, sizeof f);
            assert_true(f != NULL);
        }
    }
}

TEST(threads_are_as_many_as_set) {
#ifdef _OPENMP
    wefti_kernels_set_threads(3);
    assert_int_equal(wefti_kernels_threads(), 3);
#endif
    wefti_kernels_set_threads(0);
    assert_int_equal(wefti_kernels_threads(), 1);
}
