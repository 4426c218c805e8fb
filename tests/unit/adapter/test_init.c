/* SPDX-License-Identifier: MIT */

#include "check.h"

#include <math.h>

#include "adapter/adapted.h"
#include "base/memory.h"
#include "base/rng.h"

typedef struct fixture {
    weft_ctx *ctx;
    weft_model *model;
    float *values; /* of one unit */
} fixture;

static void open_model(fixture *f, const weft_model_config *config) {
    assert_int_equal(weft_ctx_create(&f->ctx), WEFT_OK);
    assert_int_equal(weft_model_create(f->ctx, config, &f->model), WEFT_OK);
    assert_int_equal(wefti_alloc_n(f->ctx, f->model->n_elements, sizeof *f->values,
                                   "values", &f->values),
                     WEFT_OK);
}

static void close_model(fixture *f) {
    wefti_free(f->ctx, f->values);
    weft_model_destroy(f->ctx, f->model);
    weft_ctx_destroy(f->ctx);
}

/* Fills values with the parameter of that name; returns it. */
static const wefti_param *init(fixture *f, uint64_t seed, const char *name) {
    for (int u = 0; u < f->model->n_units; u++) {
        for (int i = 0; i < f->model->units[u].n_params; i++) {
            const wefti_param *p = &f->model->units[u].params[i];
            if (strcmp(p->name, name) != 0) continue;
            wefti_model_init_rows(f->model, seed, u, i, 0, p->rows, f->values);
            return p;
        }
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Mean 0, the given standard deviation, and the normal's fourth moment, each within five
 * standard errors; neighbours, which come from one pair, are not correlated. */
static void assert_normal(fixture *f, const char *name, double std) {
    const wefti_param *p = init(f, 1, name);
    int64_t n = p->rows * p->cols;
    double sum = 0, squares = 0, fourth = 0, neighbours = 0, error = 5 / sqrt((double)n);
    for (int64_t i = 0; i < n; i++) {
        double z = (double)f->values[i] / std;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
        if (i % 2) neighbours += z * (double)f->values[i - 1] / std;
    }
    assert_true(fabs(sum / (double)n) < error);
    assert_true(fabs(squares / (double)n - 1) < error * sqrt(2));
    assert_true(fabs(fourth / (double)n - 3) < error * sqrt(96));
    assert_true(fabs(neighbours / (double)(n / 2)) < error * sqrt(2));
}

static void assert_all(fixture *f, const char *name, float value) {
    const wefti_param *p = init(f, 1, name);
    for (int64_t i = 0; i < p->rows * p->cols; i++) assert_true(f->values[i] == value);
}

static const weft_model_config gpt2 = {.struct_size = sizeof gpt2,
                                       .kind = "gpt2",
                                       .vocab = 600,
                                       .context = 200,
                                       .layers = 8,
                                       .width = 96,
                                       .heads = 3,
                                       .tied = true};
static const weft_model_config llama = {.struct_size = sizeof llama,
                                        .kind = "llama",
                                        .vocab = 600,
                                        .context = 16,
                                        .layers = 2,
                                        .width = 96,
                                        .heads = 3,
                                        .ffn = 101};

TEST(gpt2_starts_as_the_paper_says) {
    fixture f;
    open_model(&f, &gpt2);
    assert_normal(&f, "transformer.wte.weight", 0.02);
    assert_normal(&f, "transformer.wpe.weight", 0.02);
    assert_normal(&f, "transformer.h.7.attn.c_attn.weight", 0.02);
    assert_normal(&f, "transformer.h.7.mlp.c_fc.weight", 0.02);
    assert_normal(&f, "transformer.h.7.attn.c_proj.weight", 0.02 / 4); /* sqrt(2 * 8) */
    assert_normal(&f, "transformer.h.0.mlp.c_proj.weight", 0.02 / 4);
    assert_all(&f, "transformer.h.3.ln_1.weight", 1);
    assert_all(&f, "transformer.h.3.ln_1.bias", 0);
    assert_all(&f, "transformer.h.3.attn.c_attn.bias", 0);
    assert_all(&f, "transformer.ln_f.weight", 1);
    close_model(&f);
}

TEST(llama_scales_the_branches_ends_and_olmo2_does_not) {
    fixture f;
    weft_model_config config = llama;
    config.init_std = 0.3;
    open_model(&f, &config);
    assert_normal(&f, "model.embed_tokens.weight", 0.3);
    assert_normal(&f, "model.layers.1.self_attn.q_proj.weight", 0.3);
    assert_normal(&f, "model.layers.1.self_attn.o_proj.weight", 0.3 / 2);
    assert_normal(&f, "model.layers.1.mlp.down_proj.weight", 0.3 / 2);
    assert_normal(&f, "lm_head.weight", 0.3);
    assert_all(&f, "model.norm.weight", 1);
    close_model(&f);

    config.kind = "olmo2";
    open_model(&f, &config);
    assert_normal(&f, "model.layers.1.self_attn.o_proj.weight", 0.3);
    assert_normal(&f, "model.layers.1.mlp.down_proj.weight", 0.3);
    assert_all(&f, "model.layers.1.self_attn.q_norm.weight", 1);
    close_model(&f);
}

/* down_proj has rows of 101, so that shards begin inside a Box-Muller pair. */
TEST(any_sharding_gives_the_same_values) {
    fixture f;
    open_model(&f, &llama);
    enum { UNIT = 1, DOWN = 8 };
    const wefti_param *p = &f.model->units[UNIT].params[DOWN];
    assert_int_equal(p->cols, 101);
    float *whole = f.values, *shard = f.values + p->rows * p->cols;
    wefti_model_init_rows(f.model, 9, UNIT, DOWN, 0, p->rows, whole);
    static const int64_t heights[] = {1, 2, 3, 7, 96};
    for (size_t k = 0; k < sizeof heights / sizeof heights[0]; k++) {
        for (int64_t row = 0; row < p->rows; row += heights[k]) {
            int64_t n_rows = p->rows - row < heights[k] ? p->rows - row : heights[k];
            shard[n_rows * p->cols] = 77;
            wefti_model_init_rows(f.model, 9, UNIT, DOWN, row, n_rows, shard);
            assert_memory_equal(shard, whole + row * p->cols,
                                (size_t)(n_rows * p->cols) * sizeof *shard);
            assert_true(shard[n_rows * p->cols] == 77);
        }
    }
    close_model(&f);
}

TEST(no_rows_write_nothing) {
    fixture f;
    open_model(&f, &llama);
    f.values[0] = 77;
    wefti_model_init_rows(f.model, 9, 1, 8, 3, 0, f.values);
    assert_true(f.values[0] == 77);
    close_model(&f);
}

TEST(values_do_not_depend_on_the_thread_count) {
    fixture f;
    open_model(&f, &gpt2);
    int before = wefti_kernels_threads();
    int64_t n = gpt2.vocab * gpt2.width;
    wefti_kernels_set_threads(1);
    init(&f, 4, "transformer.wte.weight");
    float *other = f.values + n;
    wefti_kernels_set_threads(3);
    wefti_model_init_rows(f.model, 4, 0, 0, 0, gpt2.vocab, other);
    wefti_kernels_set_threads(before);
    assert_memory_equal(f.values, other, (size_t)n * sizeof *other);
    close_model(&f);
}

TEST(seeds_and_parameters_have_numbers_of_their_own) {
    fixture f;
    open_model(&f, &llama);
    float first[3];
    init(&f, 1, "model.layers.0.self_attn.q_proj.weight");
    first[0] = f.values[0];
    init(&f, 2, "model.layers.0.self_attn.q_proj.weight");
    first[1] = f.values[0];
    init(&f, 1, "model.layers.1.self_attn.q_proj.weight");
    first[2] = f.values[0];
    assert_true(first[0] != first[1] && first[0] != first[2] && first[1] != first[2]);
    close_model(&f);
}

/* Among 1.2 million values are some that no kernel can round (tensor/isa/normals.c). */
TEST(values_are_those_of_the_formula_bit_for_bit) {
    fixture f;
    weft_model_config config = gpt2;
    config.vocab = 12000;
    open_model(&f, &config);
    const wefti_param *p = init(&f, 6, "transformer.wte.weight");
    for (int64_t i = 0; i < p->rows * p->cols; i++) {
        uint64_t r[2];
        wefti_rng_pair(6, WEFTI_STREAM_INIT, (uint64_t)(p - f.model->params),
                       (uint64_t)i / 2, r);
        double u = ((double)(r[0] >> 11) + 0.5) * 0x1p-53;
        double angle = 6.283185307179586 * ((double)(r[1] >> 11) * 0x1p-53);
        double z = sqrt(-2.0 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
        float value = (float)((double)p->init_std * z);
        assert_true(f.values[i] == value);
    }
    close_model(&f);
}
