/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/model.h>

#include "kernels/kernels.h"

/* A model is an ordered list of units: the embedding, each block, the head. A unit is the
 * granularity of all operations: it is gathered before use, reduce-scattered after its backward,
 * exchanged while the next unit's backward runs, recomputed when activations are not kept.
 *
 *     tokens[B,T] -> unit 0 -> x[B,T,C] -> unit 1 -> ... -> x[B,T,C] -> unit L+1 -> loss
 */

typedef enum wefti_unit_kind { WEFTI_EMBED, WEFTI_BLOCK, WEFTI_HEAD } wefti_unit_kind;

/* The kinds of rows, with their numbers of tokens, positions of x, and targets.
 *
 *     text     T tokens                           T positions        T targets
 *     pairs    source and target, T together      T                  those of the target
 *     images   the bytes of the pixels            patches and one    1, its class */
typedef enum wefti_input {
    WEFTI_INPUT_TEXT,
    WEFTI_INPUT_PAIRS,
    WEFTI_INPUT_IMAGES
} wefti_input;

/* The dimensions of a tensor in files, if they differ from rows and columns. */
typedef struct wefti_dims {
    int n; /* 0: as the parameter */
    int64_t dims[4];
} wefti_dims;

/* The place of a parameter in files: its row r is row start + r / run * stride + r % run
 * of the tensor of that name, which other parameters may share; or, with `pairs`, the
 * columns j and j + pairs / 2 of each head of that many are neighbours there. */
typedef struct wefti_place {
    char name[96];                    /* Hugging Face's */
    int64_t rows, start, run, stride; /* rows: of the tensor */
    int64_t pairs;
    wefti_dims shape;
} wefti_place;

/* One parameter of a unit. Sharded along its first dimension. */
typedef struct wefti_param {
    char name[96]; /* unique, e.g. "transformer.h.0.attn.c_attn.weight" */
    wefti_place file;
    int ndim;           /* 1 or 2 */
    int64_t rows, cols; /* cols = 1 when ndim == 1 */
    bool decays;        /* weight decay applies (matrices only) */
    bool hidden; /* a matrix of a product inside a block, neither table nor vector */
    bool
        stored; /* its gradient begins with a product that can store it: hidden ones, and the
                    matrix of the head, whose backward comes first */
    bool cols_are_outputs; /* of that product; else its rows are */
    int parts;             /* equal matrices, adjacent in the columns: 3 for q, k and v */
    float init_mean;       /* initial value = init_mean + init_std * N(0,1) */
    float init_std;
    int64_t offset; /* of its first element in the unit's flat buffer */
} wefti_param;

typedef struct wefti_unit {
    char name[32]; /* "embed", "block.3", "head" */
    wefti_unit_kind kind;
    int n_params;
    const wefti_param *params; /* borrowed from the model */
    int64_t n_elements; /* floats of the flat buffer: the parameters one after another */
    int borrows;        /* unit whose parameters it also reads (tied head: 0), or -1 */
    bool lent;          /* another unit borrows it */
} wefti_unit;

typedef struct wefti_pass wefti_pass;       /* model/model.h */
typedef struct wefti_traits wefti_traits;   /* model/families.h */
typedef struct wefti_adapted wefti_adapted; /* model/adapted.h */

enum { WEFTI_MAX_ROLES = 24 };

/* What a model kind implements: one constant per kind at the end of its file, one line in
 * registry.c. */
typedef struct wefti_model_ops {
    const char *name;
    const char *summary;
    wefti_input input;
    /* Fills defaults into config and refuses what cannot be built. */
    weft_status (*check)(weft_ctx *ctx, weft_model_config *config);
    /* Fills model->units and their parameter tables. */
    weft_status (*layout)(weft_ctx *ctx, weft_model *model);
    /* Floats of saved activations of a unit, and of shared scratch, for B sequences of T in
     * passes with these kernels (saved: NULL for passes with any). */
    int64_t (*saved_floats)(const weft_model *model, int unit, int64_t B, int64_t T,
                            const wefti_kernels *kernels);
    int64_t (*scratch_floats)(const weft_model *model, int64_t B, int64_t T, int threads,
                              const wefti_kernels *kernels);
    void (*forward)(const weft_model *model, int unit, const wefti_pass *pass);
    void (*backward)(const weft_model *model, int unit, const wefti_pass *pass);
    /* Head only: see wefti_model_logits. */
    void (*logits)(const weft_model *model, const wefti_pass *pass, float *logits);
    /* FLOP of forward + backward of a unit for one of the T positions of a row: matrix
     * products and attention. */
    double (*unit_flop)(const weft_model *model, int unit, int64_t T);
    /* Hugging Face config.json text; [out] owned by the caller (wefti_free). */
    weft_status (*describe_json)(weft_ctx *ctx, const weft_model *model, char **json);
    const wefti_traits *traits; /* of the kinds in families.c; else NULL */
    /* Values for a configuration that does not set them. */
    bool tied, qk_norm, attention_bias, mlp_bias;
} wefti_model_ops;

struct weft_model {
    const wefti_model_ops *ops;
    weft_model_config config; /* completed with defaults */
    int n_units;              /* layers of all stacks + 2 */
    wefti_unit *units;        /* owned */
    wefti_param *params;      /* owned; the units' tables point into it */
    int n_params;
    int64_t n_elements;         /* all units */
    float *tables;              /* owned; read-only tables of the kind (RoPE), or NULL */
    int roles[WEFTI_MAX_ROLES]; /* of a block's parameters (decoder.h); -1: not there */
    float embed_scale;          /* factor of the embedding's rows; 0: none */
    int64_t first_position;     /* row of the position table */
    wefti_adapted *adapted;     /* owned; of a model that is trained in part, or NULL */
    /* Frees `adapted`; or NULL. */
    void (*fini)(weft_ctx *ctx, weft_model *model);
};

/* Positions of x (T below) for a row of `length` (data.length); tokens and targets of a
 * row of T positions. */
int64_t wefti_model_positions(const weft_model_config *config, int64_t length);
int64_t wefti_model_row_tokens(const weft_model *model, int64_t T);
int64_t wefti_model_row_targets(const weft_model *model, int64_t T);

/* A tensor of a model that another program computes. */
typedef struct wefti_foreign_tensor {
    const char *name;
    int64_t rows, cols;
    bool decays;
} wefti_foreign_tensor;

/* A model that consists only of tensors, each of which is a unit; it cannot be run
 * (foreign.c). */
weft_status wefti_model_foreign(weft_ctx *ctx, const wefti_foreign_tensor *tensors, int n,
                                weft_model **out) WEFT_CHECKED;

/* Whether a pattern matches a parameter: its name, with the wildcards of fnmatch(3), or
 * one of @matrices (of blocks), @tables (embeddings and heads), @vectors. */
bool wefti_param_is_in(const char *pattern, const wefti_param *param);
