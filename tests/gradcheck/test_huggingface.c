/* SPDX-License-Identifier: MIT */
/* Loss and gradients of small models against those that Hugging Face's classes computed
 * in float64; make_huggingface.py printed the table. Parameters and tokens are formulas,
 * the same in both files. This pins the mathematics of the forward pass (which norm
 * where, which half rotates, which GELU), on which central differences have no opinion.
 */
#include "gradcheck/net.h"

enum { V = 53, CONTEXT = 16, L = 2, C = 24, H = 4, F = 40, B = 3, T = 13 };

typedef struct golden {
    const char *kind;
    bool tied;
    int64_t kv_heads;
    double loss;
    double norms[L + 2]; /* of the gradient of each unit's parameters */
    double projection;   /* of the gradient on the parameters' formula, shifted by one */
} golden;

static const golden table[] = {
    {"gpt2",
     true,
     4,
     165.604431,
     {59.7808092, 78.3525922, 43.135968, 12.9963772},
     -48.4149531},
    {"gpt2",
     false,
     4,
     167.150034,
     {51.0578599, 79.3433592, 41.513746, 35.0940779},
     -43.9618887},
    {"llama",
     true,
     2,
     159.414287,
     {78.7230975, 97.5469149, 40.4126537, 8.06949767},
     -25.7528643},
    {"llama",
     false,
     4,
     181.254878,
     {88.4046893, 102.226808, 45.8136006, 33.8453323},
     53.426346},
    {"olmo2",
     true,
     1,
     157.945801,
     {72.3868462, 91.246557, 40.401327, 7.23175439},
     -111.987266},
    {"olmo2",
     false,
     4,
     176.543085,
     {67.4625881, 91.0520147, 40.9371463, 33.7979931},
     -16.3356843},
    {"gemma",
     true,
     1,
     162.568631,
     {52.4486154, 45.1820037, 28.0802199, 9.93590712},
     -27.2322724},
    {"seed_oss",
     false,
     2,
     169.743506,
     {81.488536, 107.546455, 41.7523325, 33.1052442},
     18.322931},
    {"smollm3",
     true,
     2,
     156.0065,
     {72.4824969, 92.6937398, 37.514655, 7.57417742},
     -46.7795567},
    {"starcoder2",
     false,
     2,
     158.692913,
     {48.7433939, 70.9684353, 32.7644366, 32.5370908},
     -53.1588227},
    {"granite",
     true,
     2,
     203.439234,
     {75.5991715, 46.5177509, 31.2285312, 30.7077492},
     -41.0333914},
    {"granite",
     false,
     4,
     205.12972,
     {51.6858139, 40.2384123, 29.678032, 52.5478992},
     20.6649358},
    {"olmo", true, 2, 155.764709, {71.5782033, 93.9500458, 44.0315799, 0}, 2.12078038},
    {"olmo",
     false,
     4,
     164.915801,
     {56.9615735, 78.7652542, 35.6180348, 32.034972},
     13.8132773},
    {"arcee",
     true,
     2,
     163.686795,
     {59.155362, 74.5688312, 32.4500288, 10.2189426},
     -43.9423075},
};

/* Ten roundings to float in a chain, of numbers whose errors a softmax may multiply by
 * the size of its logits (below 10): 100 FLT_EPSILON / 2 of the gradient's norm. */
#define CHAIN_TOLERANCE (100 * (double)FLT_EPSILON / 2)

static void fill(net *n) {
    net_fill_params(n);
    for (int i = 0; i < B * T; i++) {
        n->tokens[i] = (i * i * 7 + i * 3 + 5) % V;
        n->targets[i] = i == 2 ? -1 : (i * i + i * 5 + 2) % V;
    }
}

TEST(loss_and_gradients_are_those_of_hugging_face) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const golden *want = &table[i];
        bool gpt2 = strcmp(want->kind, "gpt2") == 0;
        weft_model_config config = {.struct_size = sizeof config,
                                    .kind = want->kind,
                                    .vocab = V,
                                    .context = CONTEXT,
                                    .layers = L,
                                    .width = C,
                                    .heads = H,
                                    .kv_heads = want->kv_heads,
                                    .ffn = F,
                                    .tied = want->tied,
                                    .attention_bias = strcmp(want->kind, "seed_oss") == 0,
                                    .norm_eps = 1e-5,
                                    .rope_period = strcmp(want->kind, "smollm3") == 0 ? 2
                                                                                      : 0,
                                    .rope_theta = gpt2 ? 0 : 1000};
        if (strcmp(want->kind, "granite") == 0) {
            config.embedding_multiplier = 3, config.attention_multiplier = 0.4;
            config.residual_multiplier = 0.3, config.logits_scaling = 0.7;
        }
        net n;
        net_open(&n, &config, B, T);
        n.grad_scale = 1;
        fill(&n);
        net_model_gradient(&n);
        double projection = 0, squares = 0;
        assert_true(fabs(n.loss / want->loss - 1) <= CHAIN_TOLERANCE);
        for (int u = 0; u < L + 2; u++) {
            double norm = measure(&n, u, &projection);
            squares += norm * norm;
            assert_true(fabs(norm - want->norms[u]) <= CHAIN_TOLERANCE * want->norms[u]);
        }
        /* a projection of independent errors on numbers of size 1/sqrt(3) */
        assert_true(fabs(projection - want->projection) <=
                    CHAIN_TOLERANCE * sqrt(squares));
        net_close(&n);
    }
}
