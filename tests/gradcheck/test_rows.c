/* SPDX-License-Identifier: MIT */
/* Loss and gradients of a small T5 and ViT against those that Hugging Face's classes
 * computed in float64; make_rows.py printed the table. Parameters, tokens and pixels are
 * formulas, the same in both files. One source of three ends nine tokens early; distances
 * reach beyond the last bucket. */
#include "gradcheck/net.h"

enum { V = 53, LE = 2, LD = 1, C = 24, H = 3, D = 10, F = 40, B = 3, TS = 37, TD = 29 };
enum { MAX_UNITS = LE + LD + 2 };

typedef struct golden {
    const char *kind;
    bool tied;
    double loss;
    double norms[MAX_UNITS]; /* of the gradient of each unit's parameters */
    double projection; /* of the gradient on the parameters' formula, shifted by one */
} golden;

static const golden table[] = {
    {"t5",
     false,
     384.870072,
     {308.744102, 335.773514, 107.337887, 206.418823, 54.6003661},
     79.0476308},
    {"t5",
     true,
     343.572736,
     {62.2500055, 71.7090979, 24.1474379, 38.8671171, 1.88859446},
     -19.6479527},
    {"vit",
     false,
     14.2457841,
     {7.25482552, 10.7816761, 8.3026255, 8.88269325},
     -3.23288872},
};

/* As in test_huggingface.c; with scores that no root of D divides, twice the logits. */
#define CHAIN_TOLERANCE (200 * (double)FLT_EPSILON / 2)

static void fill_rows(net *n, bool pairs) {
    int64_t ids = pairs ? V : 256;
    for (int64_t i = 0; i < n->n_tokens; i++)
        n->tokens[i] = (int32_t)((i * i * 7 + i * 3 + 5) % ids);
    for (int64_t i = 0; i < n->n_targets; i++)
        n->targets[i] = (int32_t)((i * i + i * 5 + 2) % V);
    if (!pairs) return;
    n->targets[2] = -1;
    for (int i = TS - 9; i < TS; i++) n->tokens[TS + TD + i] = -1;
}

static weft_model_config config_of(const golden *want, bool pairs) {
    weft_model_config config = {.struct_size = sizeof config,
                                .kind = want->kind,
                                .vocab = V,
                                .context = 1,
                                .layers = LE,
                                .width = C,
                                .heads = H,
                                .ffn = F,
                                .tied = want->tied,
                                .norm_eps = 1e-6};
    if (pairs) {
        config.decoder_layers = LD;
        config.head_dim = D;
        config.source = TS;
        config.buckets = 12;
        config.distance = 30;
    } else {
        config.image = 8;
        config.patch = 4;
    }
    return config;
}

static void check(const golden *want) {
    bool pairs = strcmp(want->kind, "t5") == 0;
    weft_model_config config = config_of(want, pairs);
    double projection = 0, squares = 0;
    net n;
    net_open(&n, &config, B, wefti_model_positions(&config, TD));
    n.grad_scale = 1;
    net_fill_params(&n);
    fill_rows(&n, pairs);
    net_model_gradient(&n);
    assert_true(fabs(n.loss / want->loss - 1) <= CHAIN_TOLERANCE);
    for (int u = 0; u < n.model->n_units; u++) {
        double norm = measure(&n, u, &projection);
        squares += norm * norm;
        assert_true(fabs(norm / want->norms[u] - 1) <= CHAIN_TOLERANCE);
    }
    assert_true(fabs(projection - want->projection) <= CHAIN_TOLERANCE * sqrt(squares));
    net_close(&n);
}

TEST(loss_and_gradients_are_those_of_hugging_face) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) check(&table[i]);
}
