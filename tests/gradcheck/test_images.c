/* SPDX-License-Identifier: MIT */
/* Gradients of the classifier of images, with one and with several channels and patches. */
#include "gradcheck/net.h"
#include "gradcheck/stacks.h"
#include "model/model.h"

static void assert_gradients(const weft_model_config *config, int64_t B) {
    net n;
    net_open(&n, config, B, wefti_model_positions(config, 0));
    n.flat = "attention.key.bias"; /* a softmax forgets what all its scores share */
    net_assert_units(&n);
    net_assert_model(&n);
    net_close(&n);
}

TEST(images_of_two_channels_have_right_gradients) { assert_gradients(&vit, 3); }

TEST(one_patch_has_right_gradients) {
    weft_model_config config = vit;
    config.patch = 6;
    config.channels = 1;
    assert_gradients(&config, 2);
}

TEST(gradients_pass_the_dropout_masks) {
    weft_model_config config = vit;
    config.dropout = 0.3;
    assert_gradients(&config, 2);
}

/* The head's count of right classes is that of its own logits. */
TEST(hits_are_the_largest_logits) {
    net n;
    double hits = 0, expected = 0;
    float out[16 * 5];
    net_open(&n, &vit, 16, 10);
    int head = n.model->n_units - 1;
    for (int u = 0; u < head; u++) net_forward(&n, u);
    wefti_pass pass = net_pass(&n, head);
    wefti_model_logits(n.model, &pass, out);
    for (int b = 0; b < 16; b++) {
        int best = 0;
        for (int v = 1; v < 5; v++)
            if (out[b * 5 + v] > out[b * 5 + best]) best = v;
        if (b % 3 == 0) n.targets[b] = best;
        expected += n.targets[b] == best;
    }
    pass.training = false;
    pass.hits = &hits;
    n.model->ops->forward(n.model, head, &pass);
    assert_true(hits == expected && hits >= 6);
    net_close(&n);
}
