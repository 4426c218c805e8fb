/* SPDX-License-Identifier: MIT */

#include "check.h"

#include <math.h>

#include "model/model.h"
#include "model/rotary.h"

static const weft_model_config gpt2 = {.struct_size = sizeof gpt2,
                                       .kind = "gpt2",
                                       .vocab = 50257,
                                       .context = 1024,
                                       .layers = 12,
                                       .width = 768,
                                       .heads = 12,
                                       .tied = true};
static const weft_model_config llama = {.struct_size = sizeof llama,
                                        .kind = "llama",
                                        .vocab = 32000,
                                        .context = 128,
                                        .layers = 2,
                                        .width = 512,
                                        .heads = 8,
                                        .kv_heads = 2};

static int with_ctx(void **state) {
    return weft_ctx_create((weft_ctx **)state) == WEFT_OK ? 0 : -1;
}

static int without_ctx(void **state) {
    int64_t held = weft_ctx_bytes_held(*state);
    weft_ctx_destroy(*state);
    return held == 0 ? 0 : -1;
}

static void assert_refused(weft_ctx *ctx, weft_model_config config,
                           const char *sentence) {
    weft_model *model;
    weft_ctx_clear(ctx);
    assert_int_equal(weft_model_create(ctx, &config, &model), WEFT_ERR_CONFIG);
    assert_null(model);
    assert_string_equal(weft_ctx_message(ctx), sentence);
    weft_ctx_clear(ctx);
}

#define REFUSE(base, key, value, sentence)                                               \
    do {                                                                                 \
        weft_model_config refused = base;                                                \
        refused.key = value;                                                             \
        assert_refused(*state, refused, sentence);                                       \
    } while (0)

#define KINDS                                                                            \
    "gpt2, llama, mistral, qwen2, qwen3, olmo2, olmo3, gemma, gemma2, gemma3, phi3, "    \
    "gpt_neox, opt, seed_oss, smollm3, starcoder2, ernie4_5, helium, granite, olmo, "    \
    "arcee, t5, vit"

TEST_IN(with_ctx, without_ctx, what_a_kind_does_not_know_is_refused) {
    REFUSE(llama, window, 5, "model.window is set, but a llama has none");
    REFUSE(llama, logit_cap, 5, "model.logit_cap is set, but a llama has none");
    REFUSE(llama, embedding_multiplier, 2,
           "model.embedding_multiplier is set, but a llama has none");
    REFUSE(llama, attention_multiplier, 2,
           "model.attention_multiplier is set, but a llama has none");
    REFUSE(llama, residual_multiplier, 2,
           "model.residual_multiplier is set, but a llama has none");
    REFUSE(llama, logits_scaling, 2, "model.logits_scaling is set, but a llama has none");
    REFUSE(llama, rope_share, 0.5, "model.rope_share is set, but a llama has none");
    REFUSE(
        gpt2, window, 5,
        "gpt2 has no windows, caps, multipliers, rotary positions, optional biases and "
        "heads but of width / heads columns");
    REFUSE(
        gpt2, logits_scaling, 2,
        "gpt2 has no windows, caps, multipliers, rotary positions, optional biases and "
        "heads but of width / heads columns");
}

/* Their files have no key for it: what reads them computes with the usual number. */
TEST_IN(with_ctx, without_ctx, an_epsilon_that_no_file_says_is_refused) {
    weft_model_config olmo = llama, opt = gpt2;
    olmo.kind = "olmo", opt.kind = "opt";
    REFUSE(olmo, norm_eps, 1e-6,
           "model.norm_eps is 1e-06, expected 1e-05: olmo has no other");
    REFUSE(opt, norm_eps, 1e-6,
           "model.norm_eps is 1e-06, expected 1e-05: opt has no other");
}

TEST_IN(with_ctx, without_ctx, rules_of_rotary_scaling_are_read_or_refused) {
    static const char *const wrong[] = {"cubic",
                                        "linear",
                                        "linear factor=0",
                                        "linear factor=two",
                                        "linear factor",
                                        "llama3 factor=8 low=1 high=1 original=8",
                                        "yarn factor=2",
                                        "linear factor=nan",
                                        "yarn factor=2 original=9 fast=1 slow=1",
                                        "linear factor=2 length=9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wefti_rope_scaling s;
        assert_int_equal(wefti_rope_scaling_read(*state, wrong[i], &s), WEFT_ERR_CONFIG);
        assert_non_null(strstr(weft_ctx_message(*state), wrong[i]));
        weft_ctx_clear(*state);
    }
    char text[128];
    wefti_rope_scaling s;
    const char *yarn =
        "yarn factor=2.5 original=9 fast=3 slow=2 attention=1.5 truncate=0";
    assert_int_equal(wefti_rope_scaling_read(*state, yarn, &s), WEFT_OK);
    wefti_rope_scaling_text(&s, text, sizeof text);
    assert_string_equal(text, yarn);
}

TEST_IN(with_ctx, without_ctx, unknown_kinds_are_refused_with_the_list) {
    REFUSE(gpt2, kind, "gtp2", "model.kind is \"gtp2\", expected one of " KINDS);
    REFUSE(gpt2, kind, NULL, "model.kind is \"\", expected one of " KINDS);
}

TEST_IN(with_ctx, without_ctx, sizes_out_of_range_are_refused_with_the_range) {
    REFUSE(gpt2, vocab, 0, "model.vocab is 0, expected 1 to 2147483647");
    REFUSE(gpt2, vocab, 1ll << 31, "model.vocab is 2147483648, expected 1 to 2147483647");
    REFUSE(gpt2, context, 0, "model.context is 0, expected 1 to 16777216");
    REFUSE(gpt2, layers, -3, "model.layers is -3, expected 1 to 10000");
    REFUSE(gpt2, layers, 10001, "model.layers is 10001, expected 1 to 10000");
    REFUSE(gpt2, width, 0, "model.width is 0, expected 1 to 1048576");
    REFUSE(gpt2, heads, 0, "model.heads is 0, expected 1 to 768");
    REFUSE(gpt2, heads, 769, "model.heads is 769, expected 1 to 768");
    REFUSE(llama, kv_heads, 9, "model.kv_heads is 9, expected 0 to 8");
    REFUSE(llama, kv_heads, -1, "model.kv_heads is -1, expected 0 to 8");
    REFUSE(gpt2, ffn, -1, "model.ffn is -1, expected 0 to 4194304");
}

TEST_IN(with_ctx, without_ctx, sizes_that_do_not_divide_are_refused_with_both_numbers) {
    REFUSE(gpt2, width, 100,
           "model.width is 100, expected a multiple of model.heads (12)");
    REFUSE(llama, kv_heads, 3,
           "model.heads is 8, expected a multiple of model.kv_heads (3)");
    REFUSE(llama, width, 24,
           "model.width is 24 and model.heads 8: heads of 3 columns, of which 3 turn, "
           "expected an even "
           "number for "
           "rotary positions");
}

TEST_IN(with_ctx, without_ctx, numbers_out_of_range_are_refused) {
    REFUSE(gpt2, dropout, 1, "model.dropout is 1, expected at least 0 and less than 1");
    REFUSE(gpt2, dropout, -0.5,
           "model.dropout is -0.5, expected at least 0 and less than 1");
    REFUSE(llama, norm_eps, -1,
           "model.norm_eps is -1, expected a positive number, or 0 for the default");
    REFUSE(llama, rope_theta, -2.5,
           "model.rope_theta is -2.5, expected a positive number, or 0 for the default");
    REFUSE(llama, init_std, INFINITY,
           "model.init_std is inf, expected a positive number, or 0 for the default");
}

TEST_IN(with_ctx, without_ctx, nan_is_refused) {
    weft_model *model;
    weft_model_config config = gpt2;
    config.dropout = NAN;
    assert_int_equal(weft_model_create(*state, &config, &model), WEFT_ERR_CONFIG);
    config = gpt2;
    config.init_std = NAN;
    assert_int_equal(weft_model_create(*state, &config, &model), WEFT_ERR_CONFIG);
}

TEST_IN(with_ctx, without_ctx, what_gpt2_has_not_is_refused) {
    REFUSE(gpt2, kv_heads, 4,
           "model.kv_heads is 4, expected model.heads (12): gpt2 has no grouped queries");
    REFUSE(gpt2, qk_norm, true,
           "model.qk_norm is 1, expected 0: gpt2 has no norm of queries and keys");
    REFUSE(gpt2, rope_theta, 10000,
           "model.rope_theta is 10000, expected 0: gpt2 has learned positions");
}

static weft_model *create(weft_ctx *ctx, const weft_model_config *config) {
    weft_model *model;
    assert_int_equal(weft_model_create(ctx, config, &model), WEFT_OK);
    return model;
}

TEST_IN(with_ctx, without_ctx, defaults_are_those_of_the_kind) {
    weft_model *model = create(*state, &gpt2);
    assert_int_equal(model->config.ffn, 3072);
    assert_int_equal(model->config.kv_heads, 12);
    assert_true(model->config.norm_eps == 1e-5 && model->config.init_std == 0.02);
    weft_model_destroy(*state, model);

    model = create(*state, &llama);
    assert_int_equal(model->config.ffn, 1408); /* 8/3 512 = 1365.3 -> 22 * 64 */
    assert_true(model->config.norm_eps == 1e-5 && model->config.rope_theta == 10000);
    assert_false(model->config.qk_norm);
    weft_model_destroy(*state, model);

    weft_model_config config = llama;
    config.kind = "olmo2";
    config.width = 384; /* 8/3 384 = 1024 = 16 * 64 exactly */
    model = create(*state, &config);
    assert_int_equal(model->config.ffn, 1024);
    assert_true(model->config.norm_eps == 1e-6 && model->config.rope_theta == 500000);
    assert_true(model->config.qk_norm);
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, given_numbers_are_kept) {
    weft_model_config config = llama;
    config.ffn = 100;
    config.norm_eps = 1e-3;
    config.rope_theta = 7;
    config.init_std = 0.5;
    weft_model *model = create(*state, &config);
    assert_int_equal(model->config.ffn, 100);
    assert_int_equal(model->config.kv_heads, 2);
    assert_true(model->config.norm_eps == 1e-3 && model->config.rope_theta == 7);
    assert_true(model->config.init_std == 0.5);
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, gpt2_small_has_its_published_size) {
    weft_model *model = create(*state, &gpt2);
    assert_int_equal(weft_model_parameters(model), 124439808);
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, llama_7b_has_its_published_size) {
    weft_model_config config = {.struct_size = sizeof config,
                                .kind = "llama",
                                .vocab = 32000,
                                .context = 2,
                                .layers = 32,
                                .width = 4096,
                                .heads = 32,
                                .ffn = 11008};
    weft_model *model = create(*state, &config);
    assert_int_equal(weft_model_parameters(model), 6738415616);
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, flop_count_is_six_per_matrix_element_and_attention) {
    weft_model_config config = gpt2;
    weft_model *model = create(*state, &config);
    double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
    double attention = 12.0 * 12 * 768 * (1024 + 1) / 2;
    assert_true(weft_model_flop_per_token(model, 1024) == 6 * matrices + attention);
    weft_model_destroy(*state, model);

    config.tied = false; /* the lookup stays free, the head's matrix counts once */
    model = create(*state, &config);
    assert_true(weft_model_flop_per_token(model, 1024) == 6 * matrices + attention);
    weft_model_destroy(*state, model);

    model = create(*state, &llama);
    double block = 512.0 * (512 + 2 * 128 + 512) + 3.0 * 512 * 1408;
    double expected = 6 * (2 * block + 32000.0 * 512) + 12.0 * 2 * 512 * (64 + 1) / 2;
    assert_true(weft_model_flop_per_token(model, 64) == expected);
    weft_model_destroy(*state, model);
}

TEST(kinds_are_listed_in_order_and_end) {
    static const char *const expected[] = {
        "gpt2",    "llama",    "mistral", "qwen2",      "qwen3",    "olmo2",
        "olmo3",   "gemma",    "gemma2",  "gemma3",     "phi3",     "gpt_neox",
        "opt",     "seed_oss", "smollm3", "starcoder2", "ernie4_5", "helium",
        "granite", "olmo",     "arcee",   "t5",         "vit"};
    for (int i = 0; i < 23; i++) {
        const char *summary = NULL;
        assert_string_equal(weft_model_kind(i, &summary), expected[i]);
        assert_true(summary && strlen(summary) > 0);
    }
    assert_null(weft_model_kind(23, NULL));
    assert_null(weft_model_kind(-1, NULL));
}

/* In a file column 2 j of a head and its neighbour turn together; here columns j and
 * j + D/2. Values and the other kinds have their rows in order. */
TEST_IN(with_ctx, without_ctx, turned_columns_are_neighbours_in_files) {
    static const int64_t in_file[] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    weft_model_config config = {.struct_size = sizeof config,
                                .kind = "helium",
                                .vocab = 9,
                                .context = 8,
                                .layers = 2,
                                .width = 12,
                                .heads = 2};
    weft_model *model;
    assert_int_equal(weft_model_create(*state, &config, &model), WEFT_OK);
    for (int p = 0; p < model->n_params; p++) {
        const wefti_param *param = &model->params[p];
        bool turns = strstr(param->name, "q_proj") || strstr(param->name, "k_proj");
        if (!turns && !strstr(param->name, "v_proj")) continue;
        for (int64_t row = 0, n; row < 12; row++) {
            int64_t at = wefti_place_row(&param->file, row, 12 - row, &n);
            assert_int_equal(at, turns ? in_file[row] : row);
            assert_int_equal(n, turns ? 1 : 12 - row);
        }
    }
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, a_failed_allocation_is_a_clean_error) {
    weft_model *model = NULL;
    int64_t failures = 0;
    for (int64_t k = 0; !model; k++) {
        assert_true(k < 100);
        weft_ctx_clear(*state);
        weft_ctx_fail_allocation(*state, k);
        weft_status status = weft_model_create(*state, &llama, &model);
        if (model) break;
        failures++;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_int_equal(weft_ctx_bytes_held(*state), 0);
    }
    weft_ctx_fail_allocation(*state, -1);
    assert_int_equal(failures, 4); /* model, units, parameters, rotary table */
    weft_model_destroy(*state, model);
}

TEST_IN(with_ctx, without_ctx, destroy_accepts_null) {
    weft_model_destroy(*state, NULL);
    assert_int_equal(weft_ctx_bytes_held(*state), 0);
}
