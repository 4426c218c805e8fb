/* SPDX-License-Identifier: MIT */
/* The families of decoders: LLaMA (Touvron et al. 2023), and others that differ from it
 * in the places of norms, in activation, windows, caps and biases. Names and [out,in]
 * shapes are those of Hugging Face's classes. */
#include "model/families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/decoder.h"
#include "model/describe.h"
#include "model/pieces.h"
#include "model/rotary.h"
#include "model/units.h"

enum { FFN_MULTIPLE = 64 };

#define PLAIN_NAMES(norm1, q, k, v, o, norm2, up, down)                                  \
    {                                                                                    \
        [WEFTI_NORM1] = norm1, [WEFTI_Q] = q, [WEFTI_K] = k, [WEFTI_V] = v,              \
        [WEFTI_O] = o, [WEFTI_NORM2] = norm2, [WEFTI_UP] = up, [WEFTI_DOWN] = down       \
    }
#define LLAMA_NAMES(norm1, norm2)                                                        \
    {                                                                                    \
        [WEFTI_NORM1] = norm1, [WEFTI_Q] = "self_attn.q_proj",                           \
        [WEFTI_K] = "self_attn.k_proj", [WEFTI_V] = "self_attn.v_proj",                  \
        [WEFTI_O] = "self_attn.o_proj", [WEFTI_NORM2] = norm2,                           \
        [WEFTI_GATE] = "mlp.gate_proj", [WEFTI_UP] = "mlp.up_proj",                      \
        [WEFTI_DOWN] = "mlp.down_proj"                                                   \
    }
#define LLAMA_PLACES                                                                     \
    .block_prefix = "model.layers.", .embed = "model.embed_tokens.weight",               \
    .norm = "model.norm", .head = "lm_head.weight", .rotary = true
#define BEFORE LLAMA_NAMES("input_layernorm", "post_attention_layernorm")
#define AFTER LLAMA_NAMES("post_attention_layernorm", "post_feedforward_layernorm")
#define BOTH LLAMA_NAMES("input_layernorm", "pre_feedforward_layernorm")

enum { KNOWS_LENGTHS = WEFTI_KNOWS_SCALING | WEFTI_KNOWS_HEAD_DIM };

/* ---- checks ---- */

weft_status wefti_model_refuse(weft_ctx *ctx, const char *key, double value,
                               const char *expected) {
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "model.%s is %.10g, expected %s", key,
                         value, expected);
}

/* A setting that not every family has, as a flag that `knows` may have. */
typedef struct extra {
    const char *key;
    unsigned flag;
    bool set;
} extra;
enum { N_EXTRAS = 17 };

static void list_extras(const weft_model_config *c, extra out[N_EXTRAS]) {
    const extra list[N_EXTRAS] = {
        {"window", WEFTI_KNOWS_WINDOW, c->window > 0},
        {"window_period", WEFTI_KNOWS_PERIOD, c->window_period > 0},
        {"rope_local_theta", WEFTI_KNOWS_LOCAL, c->rope_local_theta > 0},
        {"rope_share", WEFTI_KNOWS_SHARE, c->rope_share > 0},
        {"attention_cap", WEFTI_KNOWS_CAPS, c->attention_cap > 0},
        {"logit_cap", WEFTI_KNOWS_CAPS, c->logit_cap > 0},
        {"query_scale", WEFTI_KNOWS_QUERY_SCALE, c->query_scale > 0},
        {"attention_bias", WEFTI_KNOWS_BIAS, c->attention_bias},
        {"mlp_bias", WEFTI_KNOWS_MLP_BIAS, c->mlp_bias},
        {"qk_norm", WEFTI_KNOWS_QK_NORM, c->qk_norm},
        {"head_dim", WEFTI_KNOWS_HEAD_DIM, c->head_dim * c->heads != c->width},
        {"rope_scaling", WEFTI_KNOWS_SCALING, c->rope_scaling[0] != '\0'},
        {"rope_period", WEFTI_KNOWS_ROPE_PERIOD, c->rope_period > 0},
        {"embedding_multiplier", WEFTI_KNOWS_MULTIPLIERS, c->embedding_multiplier > 0},
        {"attention_multiplier", WEFTI_KNOWS_MULTIPLIERS, c->attention_multiplier > 0},
        {"residual_multiplier", WEFTI_KNOWS_MULTIPLIERS, c->residual_multiplier > 0},
        {"logits_scaling", WEFTI_KNOWS_MULTIPLIERS, c->logits_scaling > 0}};
    memcpy(out, list, sizeof list);
}

unsigned wefti_traits_wanted(const weft_model_config *c) {
    extra extras[N_EXTRAS];
    unsigned wanted = 0;
    list_extras(c, extras);
    for (int i = 0; i < N_EXTRAS; i++)
        if (extras[i].set) wanted |= extras[i].flag;
    return wanted;
}

/* Refuses the first extra that the family's config.json cannot express. */
static weft_status check_extras(weft_ctx *ctx, const wefti_traits *t,
                                const weft_model_config *c) {
    extra extras[N_EXTRAS];
    unsigned knows = t->knows | (t->always_bias ? WEFTI_KNOWS_BIAS : 0u) |
                     (t->always_mlp_bias ? WEFTI_KNOWS_MLP_BIAS : 0u) |
                     (t->always_qk_norm ? WEFTI_KNOWS_QK_NORM : 0u);
    list_extras(c, extras);
    for (int i = 0; i < N_EXTRAS; i++)
        if (extras[i].set && !(extras[i].flag & knows))
            return weft_ctx_fail(
                ctx, WEFT_ERR_CONFIG, "model.%s is set, but a %s has none%s",
                extras[i].key, c->kind,
                extras[i].flag == WEFTI_KNOWS_HEAD_DIM ? " but width / heads" : "");
    return WEFT_OK;
}

static weft_status check_rotary(weft_ctx *ctx, const weft_model_config *c) {
    int64_t R = wefti_rotary_columns(c);
    wefti_rope_scaling scaling;
    WEFT_TRY(wefti_rope_scaling_read(ctx, c->rope_scaling, &scaling));
    if (R >= 2 && R % 2 == 0 && R <= c->head_dim) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "model.width is %lld and model.heads %lld: heads of %lld columns, of which %lld "
        "turn, expected an even number for rotary positions",
        (long long)c->width, (long long)c->heads, (long long)c->head_dim, (long long)R);
}

/* Multipliers are always written, because a file without them would mean 1. */
static void complete_multipliers(weft_model_config *c) {
    if (c->embedding_multiplier == 0) c->embedding_multiplier = 1;
    if (c->residual_multiplier == 0) c->residual_multiplier = 1;
    if (c->logits_scaling == 0) c->logits_scaling = 1;
    if (c->attention_multiplier == 0)
        c->attention_multiplier = 1 / sqrt((double)c->head_dim);
}

/* The default width of the feed-forward: 8/3 C where it is gated, so that three matrices
 * weigh as much as GPT-2's two, rounded up to a multiple of 64; else 4 C. */
static int64_t default_ffn(const wefti_traits *t, int64_t C) {
    if (!wefti_curve_is_gated(t->activation)) return 4 * C;
    int64_t F = (8 * C + 2) / 3;
    return (F + FFN_MULTIPLE - 1) / FFN_MULTIPLE * FFN_MULTIPLE;
}

weft_status wefti_families_check(weft_ctx *ctx, const wefti_traits *t,
                                 weft_model_config *c) {
    if (t->always_qk_norm) c->qk_norm = true;
    if (t->always_bias) c->attention_bias = true;
    if (t->always_mlp_bias) c->mlp_bias = true;
    WEFT_TRY(check_extras(ctx, t, c));
    if (t->rotary) WEFT_TRY(check_rotary(ctx, c));
    if (!t->rotary && c->rope_theta != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.rope_theta is %.10g, expected 0: %s has learned "
                             "positions",
                             c->rope_theta, c->kind);
    if (c->ffn == 0) c->ffn = default_ffn(t, c->width);
    if (c->norm_eps == 0) c->norm_eps = t->norm_eps;
    if (t->fixed_eps && c->norm_eps != t->norm_eps)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.norm_eps is %.10g, expected %.10g: %s has no other",
                             c->norm_eps, t->norm_eps, c->kind);
    if (t->knows & WEFTI_KNOWS_MULTIPLIERS) complete_multipliers(c);
    if (c->rope_theta == 0) c->rope_theta = t->rope_theta;
    /* A file without these two keys would mean the family's defaults, so they are always
     * written. */
    if (c->rope_local_theta == 0 && t->knows & WEFTI_KNOWS_LOCAL)
        c->rope_local_theta = c->rope_theta;
    if (c->query_scale == 0 && t->knows & WEFTI_KNOWS_QUERY_SCALE)
        c->query_scale = (double)c->head_dim;
    if (c->init_std == 0) c->init_std = 0.02;
    return WEFT_OK;
}

/* ---- layout ---- */

static void add(wefti_block_specs *l, wefti_role role, const char *name, const char *end,
                int64_t rows, int64_t cols, double mean, double std) {
    char *text = l->names[l->n];
    snprintf(text, WEFTI_MAX_NAME, "%s%s", name, end);
    l->model->roles[role] = l->n;
    l->specs[l->n++] = (wefti_param_spec){text, rows, cols, mean, std};
}

static void add_matrices(wefti_block_specs *l, double std, double last) {
    const weft_model_config *c = &l->model->config;
    const wefti_traits *t = l->model->ops->traits;
    int64_t C = c->width, F = c->ffn, HD = c->head_dim * c->heads,
            KD = c->head_dim * c->kv_heads;
    double gain = t->gain_plus_one ? 0 : 1;
    const int64_t rows[] = {C, HD, KD, KD, C, C, F, F, C};
    const int64_t cols[] = {0, C, C, C, HD, 0, C, C, F};
    for (int role = WEFTI_NORM1; role <= WEFTI_DOWN; role++) {
        bool norm = role == WEFTI_NORM1 || role == WEFTI_NORM2;
        bool ends = role == WEFTI_O || role == WEFTI_DOWN;
        if (!t->names[role]) continue;
        add(l, (wefti_role)role, t->names[role], ".weight", rows[role], cols[role],
            norm ? gain : 0,
            norm   ? 0
            : ends ? last
                   : std);
    }
    int64_t q = t->head_qk_norm ? c->head_dim : HD,
            k = t->head_qk_norm ? c->head_dim : KD;
    if (!c->qk_norm) return;
    add(l, WEFTI_Q_NORM, "self_attn.q_norm", ".weight", q, 0, gain, 0);
    add(l, WEFTI_K_NORM, "self_attn.k_norm", ".weight", k, 0, gain, 0);
}

static void add_vectors(wefti_block_specs *l) {
    const weft_model_config *c = &l->model->config;
    const wefti_traits *t = l->model->ops->traits;
    int64_t C = c->width, HD = c->head_dim * c->heads, KD = c->head_dim * c->kv_heads;
    const struct {
        wefti_role role, of;
        int64_t rows;
        bool there;
    } rows[] = {
        {WEFTI_Q_BIAS, WEFTI_Q, HD, c->attention_bias},
        {WEFTI_K_BIAS, WEFTI_K, KD, c->attention_bias},
        {WEFTI_V_BIAS, WEFTI_V, KD, c->attention_bias},
        {WEFTI_O_BIAS, WEFTI_O, C, c->attention_bias && !t->o_without_bias},
        {WEFTI_GATE_BIAS, WEFTI_GATE, c->ffn, c->mlp_bias && t->names[WEFTI_GATE]},
        {WEFTI_UP_BIAS, WEFTI_UP, c->ffn, c->mlp_bias},
        {WEFTI_DOWN_BIAS, WEFTI_DOWN, C, c->mlp_bias},
        {WEFTI_NORM1_BIAS, WEFTI_NORM1, C, t->layer_norm && !wefti_traits_bare_norms(t)},
        {WEFTI_NORM2_BIAS, WEFTI_NORM2, C, t->layer_norm && !wefti_traits_bare_norms(t)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].there)
            add(l, rows[i].role, t->names[rows[i].of], ".bias", rows[i].rows, 0, 0, 0);
    double gain = t->gain_plus_one ? 0 : 1;
    if (t->post1) add(l, WEFTI_POST1, t->post1, ".weight", C, 0, gain, 0);
    if (t->post2) add(l, WEFTI_POST2, t->post2, ".weight", C, 0, gain, 0);
}

/* Records that a parameter shares a tensor with others, of which it is some rows. */
static void place(weft_model *model, int unit, wefti_role role, const char *name,
                  const char *end, wefti_place where) {
    int i = model->roles[role];
    if (i < 0) return;
    wefti_param *p = model->params + (model->units[unit].params - model->params) + i;
    p->file = where;
    snprintf(p->file.name, sizeof p->file.name, "%s%d.%s%s",
             model->ops->traits->block_prefix, unit - 1, name, end);
}

static void place_pairs(weft_model *model, int unit) {
    static const wefti_role turned[] = {WEFTI_Q, WEFTI_K};
    for (int i = 0; i < 2; i++)
        model->params[model->units[unit].params - model->params + model->roles[turned[i]]]
            .file.pairs = model->config.head_dim;
}

static void place_fused(weft_model *model, int unit) {
    const weft_model_config *c = &model->config;
    const wefti_traits *t = model->ops->traits;
    int64_t D = c->head_dim, HD = D * c->heads, KD = D * c->kv_heads, F = c->ffn;
    const int64_t starts[] = {0, HD, HD + KD, HD + 2 * KD};
    for (int i = 0; t->fused_qkv && i < 3; i++) {
        wefti_place where = {.rows = starts[3],
                             .start = starts[i],
                             .run = starts[i + 1] - starts[i],
                             .stride = starts[i + 1] - starts[i]};
        if (t->heads_interleaved)
            where = (wefti_place){
                .rows = starts[3], .start = i * D, .run = D, .stride = 3 * D};
        place(model, unit, (wefti_role)(WEFTI_Q + i), t->fused_qkv, ".weight", where);
        place(model, unit, (wefti_role)(WEFTI_Q_BIAS + i), t->fused_qkv, ".bias", where);
    }
    for (int i = 0; t->fused_ffn && i < 2; i++)
        place(model, unit, (wefti_role)(WEFTI_GATE + i), t->fused_ffn, ".weight",
              (wefti_place){.rows = 2 * F, .start = i * F, .run = F, .stride = F});
}

void wefti_families_block(weft_model *model, wefti_block_specs *block) {
    const weft_model_config *c = &model->config;
    wefti_norm_place norms = model->ops->traits->place;
    bool after = norms == WEFTI_NORM_AFTER || norms == WEFTI_NORM_BOTH;
    double std = c->init_std, last = after ? std : std / sqrt(2.0 * (double)c->layers);
    block->model = model;
    block->n = 0;
    for (int i = 0; i < WEFTI_MAX_ROLES; i++) model->roles[i] = -1;
    add_matrices(block, std, last);
    add_vectors(block);
}

/* Initial values: N(0, std), gains as if 1, biases 0. If norms are only before the branches,
 * the last products of the branches are scaled by 1/sqrt(2L), as in GPT-2; with norms after
 * the branches all matrices have the same distribution, as in the OLMo 2 paper. */
static weft_status layout(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    const wefti_traits *t = model->ops->traits;
    double std = c->init_std;
    char norm[2][WEFTI_MAX_NAME];
    wefti_block_specs l;
    wefti_families_block(model, &l);
    snprintf(norm[0], WEFTI_MAX_NAME, "%s.weight", t->norm);
    snprintf(norm[1], WEFTI_MAX_NAME, "%s.bias", t->norm);
    const wefti_param_spec embed[] = {
        {t->embed, c->vocab, c->width, 0, std},
        {t->positions, c->context + t->first_position, c->width, 0, std}};
    wefti_param_spec head[3];
    int n_head = 0;
    bool bare = wefti_traits_bare_norms(t);
    if (!bare)
        head[n_head++] = (wefti_param_spec){norm[0], c->width, 0,
                                            t->gain_plus_one ? 0 : 1, 0};
    if (!bare && t->layer_norm)
        head[n_head++] = (wefti_param_spec){norm[1], c->width, 0, 0, 0};
    if (!c->tied)
        head[n_head++] = (wefti_param_spec){t->head, c->vocab, c->width, 0, std};
    const wefti_model_spec spec = {embed, l.specs, head,           t->rotary ? 1 : 2,
                                   l.n,   n_head,  t->block_prefix};
    WEFT_TRY(wefti_units_build(ctx, model, &spec));
    for (int u = 1; u <= c->layers; u++) place_fused(model, u);
    for (int u = 1; t->pairs && u <= c->layers; u++) place_pairs(model, u);
    if (t->scaled_embedding) model->embed_scale = (float)sqrt((double)c->width);
    if (c->embedding_multiplier > 0) model->embed_scale = (float)c->embedding_multiplier;
    model->first_position = t->first_position;
    if (!t->rotary || c->described) return WEFT_OK;
    return wefti_rotary_build(ctx, model);
}

/* ---- the tables ---- */

static weft_status check_kind(weft_ctx *ctx, weft_model_config *c) {
    return wefti_families_check(ctx, wefti_model_find(c->kind)->traits, c);
}

#define NORM_EPS(new, file) .norm_eps = new, .json_norm_eps = file
#define UNPACKED(...) __VA_ARGS__
/* One family: `own` are the defaults of its models, the rest its traits. */
#define FAMILY(id, name_, type, architecture_, summary_, own, ...)                       \
    static const wefti_traits id = {                                                     \
        .model_type = type, .architecture = architecture_, __VA_ARGS__};                 \
    const wefti_model_ops wefti_model_##id = {                                           \
        .name = name_,                                                                   \
        .summary = summary_,                                                             \
        .traits = &id,                                                                   \
        .layout = layout,                                                                \
        .saved_floats = wefti_decoder_saved_floats,                                      \
        .scratch_floats = wefti_decoder_scratch_floats,                                  \
        .forward = wefti_decoder_forward,                                                \
        .backward = wefti_decoder_backward,                                              \
        .logits = wefti_decoder_logits,                                                  \
        .unit_flop = wefti_units_flop,                                                   \
        .describe_json = wefti_describe_decoder,                                         \
        .check = check_kind,                                                             \
        UNPACKED own};

/* norm_eps of new models as in the Llama 2 and 3 releases, rope_theta as in LLaMA. */
FAMILY(llama, "llama", "llama", "LlamaForCausalLM",
       "LLaMA: RMSNorm, rotary positions, SwiGLU, grouped queries (Touvron et al. 2023)",
       (),
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_MLP_BIAS |
                WEFTI_KNOWS_QK_NORM,
       NORM_EPS(1e-5, 1e-6), .rope_theta = 10000, .names = BEFORE, LLAMA_PLACES)

FAMILY(mistral, "mistral", "mistral", "MistralForCausalLM",
       "Mistral: as llama, with a sliding window (2023)", (),
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_WINDOW, NORM_EPS(1e-5, 1e-6),
       .rope_theta = 10000, .names = BEFORE, LLAMA_PLACES)

FAMILY(qwen2, "qwen2", "qwen2", "Qwen2ForCausalLM",
       "Qwen 2 and 2.5: as llama, with biases of q, k and v (2024)",
       (.attention_bias = true), .o_without_bias = true, .always_bias = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_WINDOW | WEFTI_KNOWS_PERIOD,
       NORM_EPS(1e-6, 1e-6), .rope_theta = 1000000, .names = BEFORE, LLAMA_PLACES)

FAMILY(qwen3, "qwen3", "qwen3", "Qwen3ForCausalLM",
       "Qwen 3: as llama, norms on each head's query and key (2025)", (.qk_norm = true),
       .head_qk_norm = true, .always_qk_norm = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_WINDOW |
                WEFTI_KNOWS_PERIOD,
       NORM_EPS(1e-6, 1e-6), .rope_theta = 1000000, .names = BEFORE, LLAMA_PLACES)

/* The numbers of the OLMo 2 paper; queries and keys are always normalized. */
FAMILY(olmo2, "olmo2", "olmo2", "Olmo2ForCausalLM",
       "OLMo 2: as llama, norms after the branches and on queries and keys (2024)",
       (.qk_norm = true), .place = WEFTI_NORM_AFTER, .always_qk_norm = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS, NORM_EPS(1e-6, 1e-5),
       .rope_theta = 500000, .names = AFTER, LLAMA_PLACES)

FAMILY(olmo3, "olmo3", "olmo3", "Olmo3ForCausalLM",
       "OLMo 3: as olmo2, most layers with a sliding window (2025)", (.qk_norm = true),
       .place = WEFTI_NORM_AFTER, .always_qk_norm = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_WINDOW |
                WEFTI_KNOWS_PERIOD | WEFTI_KNOWS_LOCAL,
       NORM_EPS(1e-6, 1e-5), .rope_theta = 500000, .json_rope_theta = 500000, .period = 4,
       .names = AFTER, LLAMA_PLACES)

FAMILY(gemma, "gemma", "gemma", "GemmaForCausalLM",
       "Gemma: as llama, GeGLU, gains of 1 + weight (2024)", (.tied = true),
       .activation = WEFTI_CURVE_GEGLU, .gain_plus_one = true, .scaled_embedding = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS, NORM_EPS(1e-6, 1e-6),
       .json_head_dim = 256, .rope_theta = 10000, .names = BEFORE, LLAMA_PLACES)

FAMILY(seed_oss, "seed_oss", "seed_oss", "SeedOssForCausalLM",
       "Seed-OSS: as llama, biases of q, k and v, wide heads (2025)",
       (.attention_bias = true), .o_without_bias = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS, NORM_EPS(1e-6, 1e-6),
       .json_head_dim = 128, .json_bias = true, .rope_theta = 10000, .names = BEFORE,
       LLAMA_PLACES)

FAMILY(smollm3, "smollm3", "smollm3", "SmolLM3ForCausalLM",
       "SmolLM3: as llama, layers without positions (2025)", (.tied = true),
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_MLP_BIAS |
                WEFTI_KNOWS_ROPE_PERIOD,
       NORM_EPS(1e-6, 1e-6), .rope_theta = 2000000, .json_rope_theta = 2000000,
       .names = BEFORE, LLAMA_PLACES)

FAMILY(starcoder2, "starcoder2", "starcoder2", "Starcoder2ForCausalLM",
       "Starcoder2: as llama, LayerNorm, GELU, biases (2024)",
       (.tied = true, .attention_bias = true, .mlp_bias = true),
       .activation = WEFTI_CURVE_GELU, .layer_norm = true, .always_bias = true,
       .always_mlp_bias = true, .knows = WEFTI_KNOWS_WINDOW | WEFTI_KNOWS_SCALING,
       NORM_EPS(1e-5, 1e-5), .rope_theta = 10000,
       .names = PLAIN_NAMES("input_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                            "self_attn.v_proj", "self_attn.o_proj",
                            "post_attention_layernorm", "mlp.c_fc", "mlp.c_proj"),
       LLAMA_PLACES)

FAMILY(ernie, "ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM",
       "ERNIE 4.5: as llama, pairs of columns turn (2025)", (.tied = true),
       .knows = KNOWS_LENGTHS, NORM_EPS(1e-5, 1e-5), .json_head_dim = 128,
       .rope_theta = 500000, .json_rope_theta = 500000, .names = BEFORE, .pairs = true,
       LLAMA_PLACES)

FAMILY(helium, "helium", "helium", "HeliumForCausalLM",
       "Helium: as llama, pairs of columns turn (2025)", (),
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_MLP_BIAS, NORM_EPS(1e-8, 1e-8),
       .json_head_dim = 128, .rope_theta = 100000, .json_rope_theta = 100000,
       .names = BEFORE, .pairs = true, LLAMA_PLACES)

FAMILY(granite, "granite", "granite", "GraniteForCausalLM",
       "Granite: as llama, multipliers of branches, scores, embedding and logits (2024)",
       (),
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_MLP_BIAS |
                WEFTI_KNOWS_MULTIPLIERS,
       NORM_EPS(1e-5, 1e-6), .rope_theta = 10000, .names = BEFORE, LLAMA_PLACES)

/* Its norms are of the default epsilon of LayerNorm in PyTorch. */
FAMILY(olmo, "olmo", "olmo", "OlmoForCausalLM",
       "OLMo 1: as llama, LayerNorm without parameters (2024)", (), .layer_norm = true,
       .fixed_eps = true, .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS, NORM_EPS(1e-5, 1e-5),
       .rope_theta = 10000, .names = LLAMA_NAMES(NULL, NULL), LLAMA_PLACES)

FAMILY(arcee, "arcee", "arcee", "ArceeForCausalLM",
       "Arcee: as llama, a plain feed-forward with the square of ReLU (2025)", (),
       .activation = WEFTI_CURVE_RELU2,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_MLP_BIAS,
       NORM_EPS(1e-5, 1e-5), .rope_theta = 10000,
       .names = PLAIN_NAMES("input_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                            "self_attn.v_proj", "self_attn.o_proj",
                            "post_attention_layernorm", "mlp.up_proj", "mlp.down_proj"),
       LLAMA_PLACES)

FAMILY(gemma2, "gemma2", "gemma2", "Gemma2ForCausalLM",
       "Gemma 2: norms on both sides, GeGLU, soft-capped scores, windows (2024)",
       (.tied = true), .place = WEFTI_NORM_BOTH, .activation = WEFTI_CURVE_GEGLU,
       .gain_plus_one = true, .scaled_embedding = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_WINDOW |
                WEFTI_KNOWS_PERIOD | WEFTI_KNOWS_CAPS | WEFTI_KNOWS_QUERY_SCALE,
       NORM_EPS(1e-6, 1e-6), .json_head_dim = 256, .rope_theta = 10000, .period = 2,
       .names = BOTH, .post1 = "post_attention_layernorm",
       .post2 = "post_feedforward_layernorm", LLAMA_PLACES)

FAMILY(gemma3, "gemma3", "gemma3_text", "Gemma3ForCausalLM",
       "Gemma 3 (text): as gemma2, heads normed instead of caps (2025)",
       (.tied = true, .qk_norm = true), .place = WEFTI_NORM_BOTH,
       .activation = WEFTI_CURVE_GEGLU, .gain_plus_one = true, .scaled_embedding = true,
       .head_qk_norm = true, .always_qk_norm = true,
       .knows = KNOWS_LENGTHS | WEFTI_KNOWS_BIAS | WEFTI_KNOWS_WINDOW |
                WEFTI_KNOWS_PERIOD | WEFTI_KNOWS_CAPS | WEFTI_KNOWS_QUERY_SCALE |
                WEFTI_KNOWS_LOCAL,
       NORM_EPS(1e-6, 1e-6), .json_head_dim = 256, .rope_theta = 1000000,
       .json_rope_theta = 1000000, .period = 6, .names = BOTH,
       .post1 = "post_attention_layernorm", .post2 = "post_feedforward_layernorm",
       LLAMA_PLACES)

FAMILY(phi3, "phi3", "phi3", "Phi3ForCausalLM",
       "Phi-3: as llama, q|k|v and gate|up fused in its files (2024)", (),
       .knows = WEFTI_KNOWS_WINDOW | WEFTI_KNOWS_SHARE, NORM_EPS(1e-5, 1e-5),
       .rope_theta = 10000, .names = BEFORE, .fused_qkv = "self_attn.qkv_proj",
       .fused_ffn = "mlp.gate_up_proj", LLAMA_PLACES)

FAMILY(neox, "gpt_neox", "gpt_neox", "GPTNeoXForCausalLM",
       "GPT-NeoX, Pythia: LayerNorm, parallel branches, GELU (2022)",
       (.attention_bias = true, .mlp_bias = true), .place = WEFTI_NORM_PARALLEL,
       .activation = WEFTI_CURVE_GELU_ERF, .layer_norm = true, .always_mlp_bias = true,
       .rotary = true,
       .knows = WEFTI_KNOWS_BIAS | WEFTI_KNOWS_SHARE | WEFTI_KNOWS_SCALING,
       NORM_EPS(1e-5, 1e-5), .rope_theta = 10000, .block_prefix = "gpt_neox.layers.",
       .embed = "gpt_neox.embed_in.weight", .norm = "gpt_neox.final_layer_norm",
       .head = "embed_out.weight",
       .names = PLAIN_NAMES("input_layernorm", "attention.query", "attention.key",
                            "attention.value", "attention.dense",
                            "post_attention_layernorm", "mlp.dense_h_to_4h",
                            "mlp.dense_4h_to_h"),
       .fused_qkv = "attention.query_key_value", .heads_interleaved = true)

FAMILY(opt, "opt", "opt", "OPTForCausalLM",
       "OPT: LayerNorm, learned positions, ReLU (2022)",
       (.tied = true, .attention_bias = true, .mlp_bias = true),
       .activation = WEFTI_CURVE_RELU, .layer_norm = true, .always_bias = true,
       .always_mlp_bias = true, .first_position = 2, .fixed_eps = true,
       NORM_EPS(1e-5, 1e-5), .block_prefix = "model.decoder.layers.",
       .embed = "model.decoder.embed_tokens.weight",
       .positions = "model.decoder.embed_positions.weight",
       .norm = "model.decoder.final_layer_norm", .head = "lm_head.weight",
       .names = PLAIN_NAMES("self_attn_layer_norm", "self_attn.q_proj",
                            "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj",
                            "final_layer_norm", "fc1", "fc2"))
