/* SPDX-License-Identifier: MIT */
#include "gradcheck/net.h"

static const weft_model_config small = {.struct_size = sizeof small,
                                        .kind = "gpt2",
                                        .vocab = 11,
                                        .context = 7,
                                        .layers = 2,
                                        .width = 12,
                                        .heads = 3,
                                        .ffn = 20,
                                        .tied = true,
                                        .init_std = 0.3};

TEST(gpt2_units_have_right_gradients) {
    net n;
    net_open(&n, &small, 3, 5);
    net_assert_units(&n);
    net_close(&n);
}

TEST(gpt2_loss_has_right_gradients_through_a_tied_head) {
    net n;
    net_open(&n, &small, 3, 5);
    net_assert_model(&n);
    net_close(&n);
}

TEST(gpt2_loss_has_right_gradients_through_an_untied_head) {
    net n;
    weft_model_config config = small;
    config.tied = false;
    net_open(&n, &config, 3, 5);
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}

TEST(gpt2_gradients_pass_the_dropout_masks) {
    net n;
    weft_model_config config = small;
    config.dropout = 0.3;
    net_open(&n, &config, 3, 5);
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}

TEST(gpt2_has_right_gradients_at_one_position) {
    net n;
    net_open(&n, &small, 3, 1);
    n.vanishing = true; /* a softmax over one key has no gradient */
    net_assert_units(&n);
    net_close(&n);
}

TEST(gpt2_has_right_gradients_for_one_sequence_at_full_context) {
    net n;
    net_open(&n, &small, 1, 7);
    net_assert_units(&n);
    net_close(&n);
}
