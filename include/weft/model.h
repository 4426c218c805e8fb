/* SPDX-License-Identifier: MIT */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model_config {
    const char *kind;  /* "gpt2", "llama", "olmo2" */
    int64_t vocab;     /* V */
    int64_t context;   /* longest T (rows of gpt2's position table) */
    int64_t layers;    /* L */
    int64_t width;     /* C */
    int64_t heads;     /* H; C % H == 0, D = C/H */
    int64_t kv_heads;  /* K; 0 = heads; heads % kv_heads == 0; gpt2: must equal heads */
    int64_t ffn;       /* F, hidden width of the feed-forward; 0 = the kind's default */
    double norm_eps;   /* 0 = the kind's default */
    double rope_theta; /* 0 = the kind's default */
    double dropout;    /* at least 0, less than 1 */
    int tied;          /* the head uses the token embedding; -1 = as the kind does */
    int qk_norm;       /* RMSNorm of queries and keys (OLMo-2); -1 = as the kind does */
    double init_std;   /* 0 = the kind's default */
} weft_model_config;

/* A model's description: its ordered units and their parameters; holds no parameter
 * values. */
typedef struct weft_model weft_model;

/* Builds the description of a model: no parameter memory. Errors name the key and the
 * numbers, e.g. "model.width is 100, expected a multiple of model.heads (12)". */
WEFT_API weft_status weft_model_create(weft_ctx *ctx, const weft_model_config *config,
                                       weft_model **out) WEFT_CHECKED;
WEFT_API void weft_model_destroy(weft_ctx *ctx, weft_model *model);

/* Reads a Hugging Face config.json (as written by describe_json) back into a config. The
 * `kind` points to static storage. */
WEFT_API weft_status weft_model_config_from_json(weft_ctx *ctx, const char *json,
                                                 int64_t n_bytes, const char *where,
                                                 weft_model_config *out) WEFT_CHECKED;

/* Number of parameters, and FLOP of one forward + backward pass for one token at length
 * T. */
WEFT_API int64_t weft_model_parameters(const weft_model *model);
WEFT_API double weft_model_flop_per_token(const weft_model *model, int64_t T);

/* Name and one-line summary of the i-th kind of model, or NULL past the last. */
WEFT_API const char *weft_model_kind(int i, const char **summary);

#ifdef __cplusplus
}
#endif
#endif
