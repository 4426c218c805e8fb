/* SPDX-License-Identifier: MIT */
/* Every family of decoders, with what it knows beyond llama, against central differences. */
#include "gradcheck/net.h"

static weft_model_config small(const char *kind) {
    return (weft_model_config){.struct_size = sizeof(weft_model_config),
                               .kind = kind,
                               .vocab = 11,
                               .context = 7,
                               .layers = 2,
                               .width = 16,
                               .heads = 4,
                               .kv_heads = 2,
                               .ffn = 20,
                               .rope_theta = 100,
                               .init_std = 0.3};
}

static void assert_gradients(const weft_model_config *config) {
    net n;
    net_open(&n, config, 2, 6);
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}

TEST(llama_with_biases_and_wide_heads) {
    weft_model_config config = small("llama");
    config.head_dim = 6;
    config.attention_bias = config.mlp_bias = true;
    assert_gradients(&config);
}

TEST(mistral_with_a_window) {
    weft_model_config config = small("mistral");
    config.window = 3;
    assert_gradients(&config);
}

TEST(qwen2_and_qwen3) {
    weft_model_config two = small("qwen2"), three = small("qwen3");
    assert_gradients(&two);
    assert_gradients(&three);
}

TEST(olmo3_with_layers_of_two_sorts) {
    weft_model_config config = small("olmo3");
    config.window = 3;
    config.window_period = 2;
    config.rope_local_theta = 10;
    assert_gradients(&config);
}

TEST(gemma2_with_caps_and_dropout) {
    weft_model_config config = small("gemma2");
    config.window = 4;
    config.window_period = 2;
    config.attention_cap = 1;
    config.logit_cap = 2;
    config.query_scale = 3;
    config.tied = true;
    config.dropout = 0.2;
    assert_gradients(&config);
}

TEST(gemma3) {
    weft_model_config config = small("gemma3");
    config.head_dim = 6;
    config.window = 4;
    assert_gradients(&config);
}

TEST(smollm3_with_a_layer_without_positions) {
    weft_model_config config = small("smollm3");
    config.rope_period = 2;
    assert_gradients(&config);
}

TEST(starcoder2_with_dropout) {
    weft_model_config config = small("starcoder2");
    config.window = 4;
    config.dropout = 0.2;
    assert_gradients(&config);
}

TEST(granite_with_multipliers_and_dropout) {
    weft_model_config config = small("granite");
    config.embedding_multiplier = 3, config.attention_multiplier = 0.7;
    config.residual_multiplier = 0.4, config.logits_scaling = 0.5;
    config.tied = true;
    config.dropout = 0.2;
    assert_gradients(&config);
}

TEST(olmo_with_a_head_without_parameters) {
    weft_model_config config = small("olmo");
    assert_gradients(&config);
    config.tied = true;
    assert_gradients(&config);
}

TEST(arcee_with_biases_of_its_feed_forward) {
    weft_model_config config = small("arcee");
    config.mlp_bias = true;
    assert_gradients(&config);
}

TEST(phi3_with_a_part_of_a_head) {
    weft_model_config config = small("phi3");
    config.rope_share = 0.5;
    assert_gradients(&config);
}

TEST(branches_side_by_side_with_dropout) {
    weft_model_config config = small("gpt_neox");
    config.kv_heads = 4;
    config.attention_bias = true;
    config.rope_share = 0.5;
    config.dropout = 0.2;
    assert_gradients(&config);
}

/* Each unit of the feed-forward far from the bend of ReLU, where there is no slope. */
static void bias_away_from_zero(net *n) {
    for (int u = 0; u < n->model->n_units; u++) {
        const wefti_unit *unit = &n->model->units[u];
        for (int i = 0; i < unit->n_params; i++) {
            const wefti_param *p = &unit->params[i];
            float *values = n->params + n->starts[u] + p->offset;
            if (!strstr(p->name, "fc1.bias")) continue;
            for (int64_t r = 0; r < p->rows; r++) values[r] = r % 2 ? 8 : -8;
        }
    }
}

TEST(opt) {
    weft_model_config config = small("opt");
    net n;
    config.rope_theta = 0;
    config.kv_heads = 4;
    config.tied = true;
    net_open(&n, &config, 2, 6);
    bias_away_from_zero(&n);
    n.vanishing = true; /* of units that are off */
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}
