/* SPDX-License-Identifier: MIT */
/* The files of tests/golden/make_sections.py, which follow docs/wire-format.md without
 * weft: decoded they are what the rules of that script say, and encoding that gives them
 * again. */
#include "base/memory.h"
#include "draws.h"
#include "wire/section.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

typedef struct golden {
    const char *name;
    int64_t n_chunks, elements, k; /* dense: n_chunks values */
    wefti_value_codec values;
    wefti_index_codec indices; /* AUTO: dense */
} golden;

enum { MAX_N = 500 };

static wefti_section section_of(const golden *g, wefti_binomials **table) {
    *table = NULL;
    if (g->indices == WEFTI_INDICES_AUTO)
        return wefti_section_dense(g->n_chunks, g->values);
    if (g->indices == WEFTI_INDICES_ENUMERATIVE)
        assert_ok(ctx, wefti_binomials_create(ctx, g->elements, g->k, table));
    return wefti_section_sparse(g->n_chunks, g->k, g->elements, g->values, g->indices,
                                *table);
}

static char *bytes_of(const golden *g, int64_t *n_bytes) {
    char path[200];
    snprintf(path, sizeof path, WEFT_SOURCE_DIR "/tests/golden/section-%s.bin", g->name);
    return read_text(ctx, path, n_bytes);
}

static void content(const wefti_section *s, int32_t *indices, float *values) {
    for (int64_t v = 0; v < s->n_values; v++) {
        int64_t c = v / s->k, j = v % s->k, step = s->elements / s->k;
        indices[v] = (int32_t)(s->elements * j / s->k + (c * 7 + j * 3) % step);
        values[v] = (float)(v * 37 % 101 - 50) / 8;
    }
}

static void assert_is_golden(const golden *g) {
    wefti_binomials *table;
    wefti_section s = section_of(g, &table);
    static int32_t indices[MAX_N], back[MAX_N];
    static float values[MAX_N], values_back[MAX_N];
    static unsigned char again[4 * MAX_N + MAX_N];
    int64_t n_bytes;
    char *file = bytes_of(g, &n_bytes);
    assert_int_equal(n_bytes, wefti_section_bytes(&s, 0, s.n_blocks));
    content(&s, indices, values);
    for (int64_t b = 0; b < s.n_blocks; b++) {
        int64_t at = b * s.block_values, byte = b * s.block_bytes;
        wefti_section_encode(&s, b, s.dense ? NULL : indices + at, values + at, NULL,
                             again + byte);
        assert_ok(ctx,
                  wefti_section_decode(ctx, &s, b, (unsigned char *)file + byte,
                                       s.dense ? NULL : back + at, values_back + at));
    }
    assert_memory_equal(again, file, (size_t)n_bytes);
    if (!s.dense) assert_memory_equal(indices, back, (size_t)s.n_values * 4);
    assert_memory_equal(values, values_back, (size_t)s.n_values * 4);
    wefti_free(ctx, file);
    wefti_binomials_destroy(ctx, table);
}

TEST(good_files_are_read_and_written_again) {
    static const golden files[] = {
        {"4-of-64-f32", 37, 64, 4, WEFTI_VALUES_F32, WEFTI_INDICES_ENUMERATIVE},
        {"4-of-64-bf16", 37, 64, 4, WEFTI_VALUES_BF16, WEFTI_INDICES_ENUMERATIVE},
        {"4-of-64-int8", 37, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
        {"4-of-64-int4", 37, 64, 4, WEFTI_VALUES_INT4, WEFTI_INDICES_ENUMERATIVE},
        {"4-of-64-sign", 37, 64, 4, WEFTI_VALUES_SIGN, WEFTI_INDICES_ENUMERATIVE},
        {"4-of-64-fixed", 37, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_FIXED},
        {"4-of-64-bitmap", 37, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_BITMAP},
        {"8-of-64", 37, 64, 8, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
        {"50-of-64", 9, 64, 50, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
        {"32-of-4096", 5, 4096, 32, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
        {"5-of-1000", 20, 1000, 5, WEFTI_VALUES_INT4, WEFTI_INDICES_ENUMERATIVE},
        {"dense-f32", 150, 0, 0, WEFTI_VALUES_F32, WEFTI_INDICES_AUTO},
        {"dense-bf16", 150, 0, 0, WEFTI_VALUES_BF16, WEFTI_INDICES_AUTO},
        {"dense-int8", 150, 0, 0, WEFTI_VALUES_INT8, WEFTI_INDICES_AUTO},
        {"dense-int4", 150, 0, 0, WEFTI_VALUES_INT4, WEFTI_INDICES_AUTO},
        {"dense-sign", 150, 0, 0, WEFTI_VALUES_SIGN, WEFTI_INDICES_AUTO},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) assert_is_golden(&files[i]);
}

TEST(broken_files_are_refused) {
    static const struct {
        golden file;
        const char *words;
    } cases[] = {
        {{"broken-number", 16, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
         "enumerative indices of chunk 1 "},
        {{"broken-scale-negative", 16, 64, 4, WEFTI_VALUES_INT8,
          WEFTI_INDICES_ENUMERATIVE},
         "a scale that is neither"},
        {{"broken-scale-infinite", 16, 64, 4, WEFTI_VALUES_INT8,
          WEFTI_INDICES_ENUMERATIVE},
         "a scale that is neither"},
        {{"broken-scale-zero", 16, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
         "beside a scale of 0 or NaN"},
        {{"broken-minus-128", 16, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE},
         "-128 steps"},
        {{"broken-spare-bits", 1, 64, 4, WEFTI_VALUES_SIGN, WEFTI_INDICES_ENUMERATIVE},
         "behind the values"},
        {{"broken-equal-indices", 1, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_FIXED},
         "fixed indices of chunk 0 "},
        {{"broken-ones", 1, 64, 4, WEFTI_VALUES_INT8, WEFTI_INDICES_BITMAP},
         "bitmap indices of chunk 0 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wefti_binomials *table;
        wefti_section s = section_of(&cases[i].file, &table);
        int32_t indices[64];
        float values[64];
        int64_t n_bytes;
        char *file = bytes_of(&cases[i].file, &n_bytes);
        assert_int_equal(n_bytes, wefti_section_bytes(&s, 0, 1));
        assert_fails(
            ctx, wefti_section_decode(ctx, &s, 0, (unsigned char *)file, indices, values),
            WEFT_ERR_WIRE, cases[i].words);
        wefti_free(ctx, file);
        wefti_binomials_destroy(ctx, table);
    }
}

int main(void) { return check_run(setup, teardown); }
