/* SPDX-License-Identifier: MIT */
#include "gradcheck/net.h"

static const weft_model_config llama = {.struct_size = sizeof llama,
                                        .kind = "llama",
                                        .vocab = 11,
                                        .context = 7,
                                        .layers = 2,
                                        .width = 16,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .ffn = 20,
                                        .init_std = 0.3};
static const weft_model_config olmo2 = {.struct_size = sizeof olmo2,
                                        .kind = "olmo2",
                                        .vocab = 11,
                                        .context = 7,
                                        .layers = 2,
                                        .width = 16,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .ffn = 20,
                                        .rope_theta = 100,
                                        .init_std = 0.3};

static void assert_gradients(const weft_model_config *config, int64_t B, int64_t T) {
    net n;
    net_open(&n, config, B, T);
    n.vanishing = T == 1; /* a softmax over one key has no gradient */
    net_assert_units(&n);
    if (T > 1) net_assert_model(&n);
    net_close(&n);
}

TEST(llama_with_grouped_queries_has_right_gradients) { assert_gradients(&llama, 3, 5); }

TEST(llama_with_one_key_head_and_tied_head_has_right_gradients) {
    weft_model_config config = llama;
    config.kv_heads = 1;
    config.tied = true;
    assert_gradients(&config, 2, 6);
}

TEST(llama_with_normed_queries_has_right_gradients) {
    weft_model_config config = llama;
    config.kv_heads = 4;
    config.qk_norm = true;
    assert_gradients(&config, 3, 5);
}

TEST(llama_gradients_pass_the_dropout_masks) {
    weft_model_config config = llama;
    config.dropout = 0.3;
    assert_gradients(&config, 3, 5);
}

TEST(llama_has_right_gradients_at_one_position) { assert_gradients(&llama, 3, 1); }

TEST(llama_has_right_gradients_for_one_sequence_at_full_context) {
    assert_gradients(&llama, 1, 7);
}

TEST(olmo2_with_grouped_queries_has_right_gradients) { assert_gradients(&olmo2, 3, 5); }

TEST(olmo2_gradients_pass_the_dropout_masks) {
    weft_model_config config = olmo2;
    config.dropout = 0.3;
    config.tied = true;
    assert_gradients(&config, 3, 5);
}

TEST(olmo2_has_right_gradients_at_one_position) { assert_gradients(&olmo2, 1, 1); }
