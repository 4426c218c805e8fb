/* SPDX-License-Identifier: MIT */
/* Gradients of the encoder and decoder: sources that end early, stacks of unlike depth,
 * heads whose columns are not the width's, tied and untied heads. */
#include "gradcheck/net.h"
#include "gradcheck/stacks.h"

static void assert_gradients(const weft_model_config *config, int64_t B, int64_t Td,
                             int64_t missing) {
    net n;
    int64_t T = config->source + Td;
    net_open(&n, config, B, T);
    for (int64_t i = 0; i < missing; i++) n.tokens[config->source - 1 - i] = -1;
    n.vanishing = config->source - missing == 1 || Td == 1;
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}

TEST(both_stacks_have_right_gradients) { assert_gradients(&t5, 3, 4, 0); }

TEST(sources_that_end_early_have_right_gradients) { assert_gradients(&t5, 2, 4, 3); }

TEST(a_tied_head_has_right_gradients) {
    weft_model_config config = t5;
    config.tied = true;
    config.decoder_layers = 1;
    assert_gradients(&config, 2, 5, 1);
}

TEST(gradients_pass_the_dropout_masks) {
    weft_model_config config = t5;
    config.dropout = 0.3;
    config.layers = 1;
    assert_gradients(&config, 3, 4, 1);
}

TEST(a_target_longer_than_its_source_has_right_gradients) {
    weft_model_config config = t5;
    config.source = 3;
    assert_gradients(&config, 2, 9, 1);
}

TEST(one_position_has_right_gradients) {
    weft_model_config config = t5;
    config.layers = config.decoder_layers = 1;
    assert_gradients(&config, 1, 1, 5);
}

/* What pads the source changes no bit of the loss: the row as if it were not there. */
TEST(padding_changes_nothing_but_its_own_rows) {
    double losses[2];
    for (int i = 0; i < 2; i++) {
        net n;
        net_open(&n, &t5, 2, 10);
        n.tokens[4] = n.tokens[5] = -1;
        if (i) n.tokens[5] = 7; /* behind the first that pads */
        losses[i] = net_model_loss(&n, 0);
        net_close(&n);
    }
    assert_true(losses[0] == losses[1]);
}

/* The same masks for a row wherever it is computed: alone, or second of a batch. */
TEST(rows_are_computed_alike_in_any_batch) {
    weft_model_config config = t5;
    config.dropout = 0.3;
    net both, one;
    net_open(&both, &config, 2, 10);
    net_open(&one, &config, 1, 10);
    memcpy(one.tokens, both.tokens + 10, 10 * sizeof *one.tokens);
    one.row = both.row + 1;
    for (int u = 0; u < both.model->n_units - 1; u++) net_forward(&both, u);
    for (int u = 0; u < one.model->n_units - 1; u++) net_forward(&one, u);
    int last = one.model->n_units - 1;
    const float *x = net_x(&both, last), *y = net_x(&one, last);
    for (int64_t i = 0; i < 6 * one.C; i++) assert_true(x[6 * one.C + i] == y[i]);
    for (int64_t i = 0; i < 4 * one.C; i++)
        assert_true(x[(12 + 4) * one.C + i] == y[6 * one.C + i]);
    net_close(&both);
    net_close(&one);
}
