/* SPDX-License-Identifier: MIT */

#include "check.h"

#include "model/units.h"

typedef struct expected {
    const char *name;
    int64_t rows, cols; /* cols = 0: a vector */
} expected;

typedef struct fixture {
    weft_ctx *ctx;
    weft_model *model;
} fixture;

static void open_model(fixture *f, const weft_model_config *config) {
    assert_int_equal(weft_ctx_create(&f->ctx), WEFT_OK);
    assert_int_equal(weft_model_create(f->ctx, config, &f->model), WEFT_OK);
}

static void close_model(fixture *f) {
    weft_model_destroy(f->ctx, f->model);
    weft_ctx_destroy(f->ctx);
}

/* Names, shapes, and offsets one after another. */
static void assert_unit(const weft_model *model, int u, const char *name,
                        const expected *want, int n) {
    const wefti_unit *unit = &model->units[u];
    int64_t offset = 0;
    assert_string_equal(unit->name, name);
    assert_int_equal(unit->n_params, n);
    for (int i = 0; i < n; i++) {
        const wefti_param *p = &unit->params[i];
        assert_string_equal(p->name, want[i].name);
        assert_int_equal(p->ndim, want[i].cols ? 2 : 1);
        assert_int_equal(p->rows, want[i].rows);
        assert_int_equal(p->cols, want[i].cols ? want[i].cols : 1);
        assert_int_equal(p->offset, offset);
        assert_int_equal(p->decays, want[i].cols != 0);
        offset += p->rows * p->cols;
    }
    assert_int_equal(unit->n_elements, offset);
}

#define ASSERT_UNIT(model, u, name, want)                                                \
    assert_unit(model, u, name, want, (int)(sizeof want / sizeof want[0]))

TEST(gpt2_has_the_names_and_shapes_of_hugging_face) {
    static const weft_model_config config = {.struct_size = sizeof config,
                                             .kind = "gpt2",
                                             .vocab = 50,
                                             .context = 9,
                                             .layers = 3,
                                             .width = 12,
                                             .heads = 3,
                                             .tied = true};
    static const expected embed[] = {{"transformer.wte.weight", 50, 12},
                                     {"transformer.wpe.weight", 9, 12}};
    static const expected block[] = {{"transformer.h.2.ln_1.weight", 12, 0},
                                     {"transformer.h.2.ln_1.bias", 12, 0},
                                     {"transformer.h.2.attn.c_attn.weight", 12, 36},
                                     {"transformer.h.2.attn.c_attn.bias", 36, 0},
                                     {"transformer.h.2.attn.c_proj.weight", 12, 12},
                                     {"transformer.h.2.attn.c_proj.bias", 12, 0},
                                     {"transformer.h.2.ln_2.weight", 12, 0},
                                     {"transformer.h.2.ln_2.bias", 12, 0},
                                     {"transformer.h.2.mlp.c_fc.weight", 12, 48},
                                     {"transformer.h.2.mlp.c_fc.bias", 48, 0},
                                     {"transformer.h.2.mlp.c_proj.weight", 48, 12},
                                     {"transformer.h.2.mlp.c_proj.bias", 12, 0}};
    static const expected head[] = {{"transformer.ln_f.weight", 12, 0},
                                    {"transformer.ln_f.bias", 12, 0},
                                    {"lm_head.weight", 50, 12}};
    fixture f;
    open_model(&f, &config);
    assert_int_equal(f.model->n_units, 5);
    ASSERT_UNIT(f.model, 0, "embed", embed);
    ASSERT_UNIT(f.model, 3, "block.2", block);
    assert_unit(f.model, 4, "head", head, 2);
    assert_int_equal(f.model->units[4].borrows, 0);
    assert_int_equal(f.model->units[3].borrows, -1);
    close_model(&f);

    weft_model_config untied = config;
    untied.tied = false;
    open_model(&f, &untied);
    assert_unit(f.model, 4, "head", head, 3);
    assert_int_equal(f.model->units[4].borrows, -1);
    close_model(&f);
}

static const weft_model_config llama = {.struct_size = sizeof llama,
                                        .kind = "llama",
                                        .vocab = 50,
                                        .context = 9,
                                        .layers = 12,
                                        .width = 16,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .ffn = 20};

TEST(llama_has_the_names_and_shapes_of_hugging_face) {
    static const expected embed[] = {{"model.embed_tokens.weight", 50, 16}};
    static const expected block[] = {
        {"model.layers.11.input_layernorm.weight", 16, 0},
        {"model.layers.11.self_attn.q_proj.weight", 16, 16},
        {"model.layers.11.self_attn.k_proj.weight", 8, 16},
        {"model.layers.11.self_attn.v_proj.weight", 8, 16},
        {"model.layers.11.self_attn.o_proj.weight", 16, 16},
        {"model.layers.11.post_attention_layernorm.weight", 16, 0},
        {"model.layers.11.mlp.gate_proj.weight", 20, 16},
        {"model.layers.11.mlp.up_proj.weight", 20, 16},
        {"model.layers.11.mlp.down_proj.weight", 16, 20},
        {"model.layers.11.self_attn.q_norm.weight", 16, 0},
        {"model.layers.11.self_attn.k_norm.weight", 8, 0}};
    static const expected head[] = {{"model.norm.weight", 16, 0},
                                    {"lm_head.weight", 50, 16}};
    fixture f;
    open_model(&f, &llama);
    ASSERT_UNIT(f.model, 0, "embed", embed);
    assert_unit(f.model, 12, "block.11", block, 9);
    ASSERT_UNIT(f.model, 13, "head", head);
    close_model(&f);

    weft_model_config normed = llama;
    normed.qk_norm = normed.tied = true;
    open_model(&f, &normed);
    ASSERT_UNIT(f.model, 12, "block.11", block);
    assert_unit(f.model, 13, "head", head, 1);
    assert_int_equal(f.model->units[13].borrows, 0);
    close_model(&f);
}

TEST(olmo2_norms_behind_the_branches) {
    static const expected block[] = {
        {"model.layers.0.post_attention_layernorm.weight", 16, 0},
        {"model.layers.0.self_attn.q_proj.weight", 16, 16},
        {"model.layers.0.self_attn.k_proj.weight", 8, 16},
        {"model.layers.0.self_attn.v_proj.weight", 8, 16},
        {"model.layers.0.self_attn.o_proj.weight", 16, 16},
        {"model.layers.0.post_feedforward_layernorm.weight", 16, 0},
        {"model.layers.0.mlp.gate_proj.weight", 20, 16},
        {"model.layers.0.mlp.up_proj.weight", 20, 16},
        {"model.layers.0.mlp.down_proj.weight", 16, 20},
        {"model.layers.0.self_attn.q_norm.weight", 16, 0},
        {"model.layers.0.self_attn.k_norm.weight", 8, 0}};
    fixture f;
    weft_model_config config = llama;
    config.kind = "olmo2";
    open_model(&f, &config);
    ASSERT_UNIT(f.model, 1, "block.0", block);
    close_model(&f);
}

TEST(units_share_one_parameter_table_in_order) {
    fixture f;
    open_model(&f, &llama);
    int64_t n_elements = 0;
    int n_params = 0;
    for (int u = 0; u < f.model->n_units; u++) {
        assert_ptr_equal(f.model->units[u].params, f.model->params + n_params);
        n_params += f.model->units[u].n_params;
        n_elements += f.model->units[u].n_elements;
    }
    assert_int_equal(n_params, f.model->n_params);
    assert_int_equal(n_elements, f.model->n_elements);
    assert_int_equal(n_elements, weft_model_parameters(f.model));
    close_model(&f);
}

TEST(only_blocks_save_activations) {
    fixture f;
    open_model(&f, &llama);
    const wefti_model_ops *ops = f.model->ops;
    assert_int_equal(ops->saved_floats(f.model, 0, 2, 5, NULL), 0);
    assert_int_equal(ops->saved_floats(f.model, 13, 2, 5, NULL), 0);
    /* per token: q|k|v 32, attention 16, lse 4, gate|up 40, middle 16, two statistics */
    int64_t saved = ops->saved_floats(f.model, 1, 16, 32, NULL);
    assert_int_equal(saved, 16 * 32 * (32 + 16 + 4 + 40 + 16 + 2));
    close_model(&f);
}

TEST(a_room_counts_what_it_gives) {
    float buffer[80];
    wefti_room counted = {NULL, 0}, given = {buffer, 0};
    static const int64_t sizes[] = {1, 16, 17, 0, 15};
    static const int64_t starts[] = {0, 16, 32, 64, 64};
    for (int i = 0; i < 5; i++) {
        assert_null(wefti_room_take(&counted, sizes[i]));
        assert_ptr_equal(wefti_room_take(&given, sizes[i]), buffer + starts[i]);
    }
    assert_int_equal(counted.used, 80);
    assert_int_equal(given.used, 80);
}
