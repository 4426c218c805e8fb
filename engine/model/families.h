/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/units.h"

/* The differences between families of decoders: the places of norms, the kind of norm and
 * activation, the supported extras, and the names of the parameters in Hugging Face's
 * classes. */

typedef enum wefti_norm_place {
    WEFTI_NORM_BEFORE,  /* h = x + a(n1 x),      y = h + m(n2 h) */
    WEFTI_NORM_AFTER,   /* h = x + n1 a(x),      y = h + n2 m(h) */
    WEFTI_NORM_BOTH,    /* h = x + p1 a(n1 x),   y = h + p2 m(n2 h) */
    WEFTI_NORM_PARALLEL /* y = x + a(n1 x) + m(n2 x) */
} wefti_norm_place;

/* What a family's config.json can express; other values of these keys are refused. */
enum {
    WEFTI_KNOWS_WINDOW = 1,
    WEFTI_KNOWS_PERIOD = 2, /* layers with and without a window */
    WEFTI_KNOWS_LOCAL = 4,  /* rope_local_theta */
    WEFTI_KNOWS_SHARE = 8,  /* rope_share */
    WEFTI_KNOWS_CAPS = 16,
    WEFTI_KNOWS_QUERY_SCALE = 32,
    WEFTI_KNOWS_BIAS = 64, /* attention_bias, of the four products */
    WEFTI_KNOWS_MLP_BIAS = 128,
    WEFTI_KNOWS_QK_NORM = 256,
    WEFTI_KNOWS_HEAD_DIM = 512,
    WEFTI_KNOWS_SCALING = 1024, /* rope_scaling */
    WEFTI_KNOWS_ROPE_PERIOD = 2048,
    WEFTI_KNOWS_MULTIPLIERS = 4096 /* of embedding, attention, residual and logits */
};

/* The roles of a block's parameters, in the order of the unit's table: q|k|v, gate|up and
 * their biases are adjacent, so that one product computes each group. */
typedef enum wefti_role {
    WEFTI_NORM1,
    WEFTI_Q,
    WEFTI_K,
    WEFTI_V,
    WEFTI_O,
    WEFTI_NORM2,
    WEFTI_GATE,
    WEFTI_UP,
    WEFTI_DOWN,
    WEFTI_Q_NORM,
    WEFTI_K_NORM,
    WEFTI_Q_BIAS,
    WEFTI_K_BIAS,
    WEFTI_V_BIAS,
    WEFTI_O_BIAS,
    WEFTI_GATE_BIAS,
    WEFTI_UP_BIAS,
    WEFTI_DOWN_BIAS,
    WEFTI_NORM1_BIAS,
    WEFTI_NORM2_BIAS,
    WEFTI_POST1,
    WEFTI_POST2,
    WEFTI_ROLES,
    WEFTI_HEAD_NORM /* of the head's unit: its first parameter, the second its bias */
} wefti_role;

struct wefti_traits {
    const char *model_type, *architecture; /* Hugging Face's */
    wefti_norm_place place;
    wefti_curve activation;
    bool layer_norm;     /* else RMSNorm */
    bool fixed_eps;      /* files have no key for norm_eps */
    bool gain_plus_one;  /* a norm's gain is 1 + its parameter */
    bool head_qk_norm;   /* qk_norm is applied to each head; else to a whole row */
    bool o_without_bias; /* attention_bias leaves o out */
    bool always_qk_norm, always_bias, always_mlp_bias;
    bool scaled_embedding;  /* by the square root of the width */
    bool rotary;            /* else a table of positions */
    int64_t first_position; /* row of position 0 there */
    bool sees_all;          /* each position sees all; else only those before it */
    unsigned knows;
    double norm_eps, rope_theta; /* defaults */
    double json_norm_eps;        /* defaults of what config.json does not have */
    double json_rope_theta;      /* 0: 10000 */
    int64_t json_head_dim;       /* 0: width / heads */
    bool json_bias;              /* of attention_bias */
    int64_t period;              /* of layers without a window, likewise; 0: none */
    const char *block_prefix, *embed, *positions, *norm, *head;
    const char *names[WEFTI_DOWN + 1]; /* of the block's, without ".weight"; norms without
                                          parameters have none, in blocks and head */
    const char *post1, *post2;
    const char *fused_qkv, *fused_ffn; /* one tensor in files; NULL: three and two */
    bool heads_interleaved;            /* fused_qkv is q0 k0 v0 q1 k1 v1 ... */
    bool pairs; /* in files the two columns that turn together are neighbours */
};

/* The parameters of a block, with the names that the specs borrow. */
enum { WEFTI_MAX_NAME = 64 };
typedef struct wefti_block_specs {
    weft_model *model;
    int n;
    wefti_param_spec specs[WEFTI_ROLES];
    char names[WEFTI_ROLES][WEFTI_MAX_NAME];
} wefti_block_specs;

/* Fills *block and the model's roles according to the traits of the model's kind. */
void wefti_families_block(weft_model *model, wefti_block_specs *block);

/* Completes and checks the settings that kinds with traits have in common. */
weft_status wefti_families_check(weft_ctx *ctx, const wefti_traits *traits,
                                 weft_model_config *config) WEFT_CHECKED;

/* Whether its norms have no parameters. */
static inline bool wefti_traits_bare_norms(const wefti_traits *traits) {
    return !traits->names[WEFTI_NORM1];
}

/* The name of the activation in Hugging Face's files. */
static inline const char *wefti_traits_activation(const wefti_traits *traits) {
    switch (traits->activation) {
    case WEFTI_CURVE_SWIGLU: return "silu";
    case WEFTI_CURVE_GELU_ERF: return "gelu";
    case WEFTI_CURVE_RELU: return "relu";
    case WEFTI_CURVE_RELU2: return "relu2";
    case WEFTI_CURVE_GEGLU:
    case WEFTI_CURVE_GELU: break;
    }
    return "gelu_pytorch_tanh";
}

/* The extras of the keys `knows` that a configuration asks for. */
unsigned wefti_traits_wanted(const weft_model_config *config);

/* WEFT_ERR_CONFIG: "model.KEY is VALUE, expected EXPECTED". */
weft_status wefti_model_refuse(weft_ctx *ctx, const char *key, double value,
                               const char *expected) WEFT_CHECKED;
