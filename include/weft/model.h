/* SPDX-License-Identifier: MIT */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The shape of a model; 0 in most fields means the kind's default. */
typedef struct weft_model_config {
    size_t struct_size;
    const char *kind;  /* "gpt2", "llama", "olmo2", ...: weft_model_kind */
    int64_t vocab;     /* V */
    int64_t context;   /* longest T (rows of a position table) */
    int64_t layers;    /* L */
    int64_t width;     /* C */
    int64_t heads;     /* H */
    int64_t kv_heads;  /* K; 0 = heads; heads % kv_heads == 0; gpt2: must equal heads */
    int64_t head_dim;  /* D; 0 = C/H, which must then be whole */
    int64_t ffn;       /* F, hidden width of the feed-forward; 0 = the kind's default */
    double norm_eps;   /* 0 = the kind's default */
    double rope_theta; /* 0 = the kind's default */
    /** How rotary frequencies are scaled for longer texts: "", or a rule and its numbers:
     *   "linear factor=2", "llama3 factor=8 low=1 high=4 original=8192",
     *   "yarn factor=4 original=4096 fast=32 slow=1 attention=1.14 truncate=1". */
    char rope_scaling[128];
    double rope_local_theta; /* of layers with a window, unscaled; 0 = like the others */
    double rope_share;       /* rotated share of a head, from its start; 0 = all */
    int64_t window; /* tokens that a token sees, itself included; 0 = all before it */
    int64_t window_period; /* every window_period-th layer has no window; 0 = none */
    double query_scale;    /* q.k is divided by its square root; 0 = D */
    double attention_cap;  /* c tanh(score / c) before the softmax; 0 = none */
    double logit_cap;      /* the same for the logits */
    double dropout;        /* at least 0, less than 1 */
    int tied;              /* the head uses the token embedding; -1 = as the kind does */
    int qk_norm;           /* RMSNorm of queries and keys; -1 as above */
    int attention_bias;    /* the attention's products have biases; -1 as above */
    int mlp_bias;          /* the feed-forward's products have biases; -1 as above */
    double init_std;       /* 0 = the kind's default */
    /** Encoder and decoder (t5): 0 = the kind's default. */
    int64_t decoder_layers; /* `layers` counts the encoder's; 0 = the same number */
    int64_t source;         /* positions of a row that belong to the encoder */
    int64_t buckets;        /* of relative positions */
    int64_t distance;       /* from which on all positions share a bucket */
    /** Images (vit); vocab counts their classes. */
    int64_t image, patch; /* side in pixels, of the image and of a patch */
    int64_t channels;     /* 0 = 3 */
    bool described; /* nothing is computed with it: tables of positions are left out */
    int64_t rope_period; /* every such layer has no rotary positions; 0 = none */
    /** Factors (granite) of the embedding's rows, of q.k instead of query_scale, and of what
     * attention and feed-forward add; 0 = none. */
    double embedding_multiplier, attention_multiplier, residual_multiplier;
    double logits_scaling; /* what divides the logits; 0 = none */
} weft_model_config;

/** A model's description: its ordered units and their parameters; holds no parameter
 * values. */
typedef struct weft_model weft_model;

/** Builds the description of a model: no parameter memory. Errors name the key and the
 * numbers, e.g. "model.width is 100, expected a multiple of model.heads (12)". Errors: CONFIG. */
WEFT_API weft_status weft_model_create(weft_ctx *ctx, const weft_model_config *config,
                                       weft_model **out) WEFT_CHECKED;
WEFT_API void weft_model_destroy(weft_ctx *ctx, weft_model *model);

/** Reads a Hugging Face config.json (as written by describe_json) back into a config. The
 * `kind` points to static storage. Errors: FORMAT. */
WEFT_API weft_status weft_model_config_from_json(weft_ctx *ctx, const char *json,
                                                 int64_t n_bytes, const char *where,
                                                 weft_model_config *out) WEFT_CHECKED;

/** The number of parameters; and the FLOP of one forward + backward pass for one token at
 * length T. */
WEFT_API int64_t weft_model_parameters(const weft_model *model);
WEFT_API double weft_model_flop_per_token(const weft_model *model, int64_t T);

/** Name and one-line summary of the i-th kind of model, or NULL past the last. */
WEFT_API const char *weft_model_kind(int i, const char **summary);

#ifdef __cplusplus
}
#endif
#endif
