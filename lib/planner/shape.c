/* SPDX-License-Identifier: MIT */
/* Represents any model by one that weft knows. A Hugging Face config.json gives the number
 * of parameters of a block; the nearest kind of weft gets the same number of blocks of the
 * same width, with a feed-forward that gives the block the same number of parameters:
 *
 *     gated   llama    C (2 H D + 2 K D) + 3 C F E        E: experts, 1 if there are none
 *     plain   gpt2     4 C^2 + 2 C F + biases
 *     t5      t5       4 C I + 3 C F' each block of the encoder, 8 C I + 3 C F' of the decoder;
 *                      F' = F of a gated feed-forward, 2/3 F of a plain one
 *
 * So bytes, memory and FLOP of the products are correct, and the differences (heads of
 * another width, relative positions, layers that differ) are within one per cent. */
#include <stdio.h>
#include <string.h>

#include <weft/plan.h>

#include "text/json.h"
#include "base/memory.h"

enum { MOST = 1 << 22, MOST_LAYERS = 4096 };

struct family;

/* Keeps the first failure. */
typedef struct reader {
    weft_ctx *ctx;
    const char *where;
    const json_t *root;
    weft_status status;
    const struct family *family;
} reader;

/* One row for each model_type. */
typedef struct family {
    const char *name;
    void (*read)(reader *r, weft_shape *s);
    bool tied;  /* unless the file says otherwise */
    bool plain; /* a feed-forward of two matrices, where `read` knows both */
} family;

/* Reads the first of these keys that is present, as a whole number from 1; fallback -1:
 * one of them is required. */
static int64_t read_count(reader *r, const char *key, const char *other,
                          int64_t fallback) {
    const json_t *value = json_object_get(r->root, key);
    if (!json_is_integer(value) && other) value = json_object_get(r->root, other);
    if (r->status != WEFT_OK) return 1;
    if (!value || json_is_null(value)) {
        if (fallback >= 0) return fallback;
        r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s: %s is missing", r->where,
                                  key);
        return 1;
    }
    int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    if (n >= 1 && n <= MOST) return n;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: %s is not a whole number from 1 to %d", r->where, key,
                              (int)MOST);
    return 1;
}

static bool read_flag(const reader *r, const char *key, bool fallback) {
    const json_t *value = json_object_get(r->root, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* Fits a block of `block` parameters to a kind of weft: the feed-forward gets the
 * parameters that remain after the attention. */
static void fit_block(reader *r, weft_shape *s, double block) {
    weft_model_config *m = s->model;
    double C = (double)m->width, K = (double)m->kv_heads / (double)m->heads;
    bool gated = strcmp(m->kind, "llama") == 0;
    double attention = gated ? 2 * C * C * (1 + K) + 2 * C : 4 * C * C + 9 * C;
    double rows = gated ? 3 * C : 2 * C + 1;
    double ffn = (block - attention) / rows;
    m->ffn = ffn < 1 ? 1 : (int64_t)(ffn + 0.5);
    if (m->ffn <= MOST || r->status != WEFT_OK) return;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: a block of %.3g parameters and width %lld, expected "
                              "less",
                              r->where, block, (long long)m->width);
}

/* Checks that the heads divide the model's width, if the file gives no separate width of
 * a head. */
static void check_heads(reader *r, int64_t width, int64_t heads, bool own_width) {
    if (r->status != WEFT_OK || own_width || width % heads == 0) return;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: %lld heads and a width of %lld, expected a number of "
                              "heads that divides it",
                              r->where, (long long)heads, (long long)width);
}

/* Checks that all groups of heads that share keys and values have the same size. */
static void check_groups(reader *r, int64_t heads, int64_t groups) {
    if (r->status != WEFT_OK || heads % groups == 0) return;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: %lld heads and %lld heads of keys, expected a number "
                              "that divides the heads",
                              r->where, (long long)heads, (long long)groups);
}

/* Sets heads that weft supports: they divide the width into even parts, and the groups
 * divide the heads. */
static void fit_heads(weft_model_config *m, int64_t heads, int64_t groups) {
    bool even = m->width % heads == 0 && m->width / heads % 2 == 0;
    m->heads = even && heads <= MOST_LAYERS ? heads : 1;
    m->kv_heads = m->heads == heads && heads % groups == 0 ? groups : m->heads;
}

static void read_gated(reader *r, weft_shape *s) {
    weft_model_config *m = s->model;
    m->kind = "llama";
    m->vocab = read_count(r, "vocab_size", NULL, -1);
    m->width = read_count(r, "hidden_size", NULL, -1);
    m->layers = read_count(r, "num_hidden_layers", NULL, -1);
    int64_t H = read_count(r, "num_attention_heads", NULL, -1);
    int64_t K = read_count(r, "num_key_value_heads", NULL, H);
    int64_t F = read_count(r, "intermediate_size", NULL, -1);
    int64_t D = read_count(r, "head_dim", NULL, m->width >= H ? m->width / H : 1);
    check_heads(r, m->width, H, json_is_integer(json_object_get(r->root, "head_dim")));
    check_groups(r, H, K);
    int64_t E = read_count(r, "num_local_experts", "num_experts", 1);
    int64_t used = read_count(r, "num_experts_per_tok", NULL, E);
    m->tied = read_flag(r, "tie_word_embeddings", r->family->tied);
    double C = (double)m->width;
    double one = (r->family->plain ? 2 : 3) * C * (double)F;
    double attention = C * (double)D * 2 * (double)(H + K) + 2 * C;
    double block = attention + one * (double)E + (E > 1 ? C * (double)E : 0);
    s->active_share = (attention + one * (double)used) / block;
    if (E > 1)
        snprintf(s->note, sizeof s->note,
                 "%lld experts are read as one dense layer of their size, of which %.0f "
                 "%% computes: all of it is kept and exchanged",
                 (long long)E, 100 * s->active_share);
    fit_heads(m, H, K);
    fit_block(r, s, block);
    s->parameters = (double)m->vocab * C * (m->tied ? 1 : 2) + (double)m->layers * block +
                    C;
}

static void read_plain(reader *r, weft_shape *s) {
    weft_model_config *m = s->model;
    bool gpt2 = strcmp(s->family, "gpt2") == 0;
    m->kind = "gpt2";
    m->vocab = read_count(r, "vocab_size", NULL, -1);
    m->width = read_count(r, gpt2 ? "n_embd" : "hidden_size", "dim", -1);
    m->layers = read_count(r, gpt2 ? "n_layer" : "num_hidden_layers", "n_layers", -1);
    int64_t H = read_count(r, gpt2 ? "n_head" : "num_attention_heads", "n_heads", -1);
    int64_t F = read_count(r, "intermediate_size",
                           gpt2                            ? "n_inner"
                           : strcmp(s->family, "opt") == 0 ? "ffn_dim"
                                                           : "hidden_dim",
                           4 * m->width);
    m->context = read_count(r, gpt2 ? "n_positions" : "max_position_embeddings", NULL,
                            2048);
    m->tied = read_flag(r, "tie_word_embeddings", r->family->tied);
    /* embeddings narrower than the model, with a product before and after its blocks (opt), are
     * represented by fewer rows of the model's width: the same number of parameters and FLOP */
    int64_t P = read_count(r, "word_embed_proj_dim", NULL, m->width);
    if (P < m->width) m->vocab = m->vocab * P / m->width + 2 * P;
    check_heads(r, m->width, H, false);
    fit_heads(m, H, H);
    m->kv_heads = 0;
    m->ffn = F;
    double C = (double)m->width;
    double block = 4 * C * C + 9 * C + (2 * C + 1) * (double)F;
    s->parameters = (double)m->vocab * C * (m->tied ? 1 : 2) + (double)m->context * C +
                    (double)m->layers * block + 2 * C;
}

/* Reads a ViT: patches instead of tokens, classes instead of a vocabulary. */
static void read_vit(reader *r, weft_shape *s) {
    weft_model_config *m = s->model;
    int64_t side = read_count(r, "image_size", NULL, 224),
            patch = read_count(r, "patch_size", NULL, 16);
    m->kind = "gpt2";
    m->width = read_count(r, "hidden_size", NULL, -1);
    m->layers = read_count(r, "num_hidden_layers", NULL, -1);
    int64_t H = read_count(r, "num_attention_heads", NULL, -1);
    m->ffn = read_count(r, "intermediate_size", NULL, 4 * m->width);
    m->vocab = (int64_t)json_object_size(json_object_get(r->root, "id2label"));
    if (m->vocab < 1) m->vocab = 1000;
    fit_heads(m, H, H);
    m->kv_heads = 0;
    m->tied = true;
    check_heads(r, m->width, H, false);
    s->tokens = patch <= side ? side / patch * (side / patch) + 1 : 1;
    m->context = s->tokens;
    double C = (double)m->width;
    double block = 4 * C * C + 9 * C + (2 * C + 1) * (double)m->ffn;
    s->parameters = (double)(m->vocab + m->context + 3 * patch * patch) * C +
                    (double)m->layers * block;
    snprintf(s->note, sizeof s->note,
             "an image is a sequence of %lld patches: tokens are patches",
             (long long)s->tokens);
}

static void read_t5(reader *r, weft_shape *s) {
    weft_model_config *m = s->model;
    m->kind = "t5";
    m->vocab = read_count(r, "vocab_size", NULL, -1);
    m->width = read_count(r, "d_model", NULL, -1);
    int64_t H = read_count(r, "num_heads", NULL, -1), D = read_count(r, "d_kv", NULL, -1);
    int64_t F = read_count(r, "d_ff", NULL, -1);
    int64_t encoder = read_count(r, "num_layers", NULL, -1);
    int64_t decoder = read_count(r, "num_decoder_layers", NULL, encoder);
    const char *way = json_string_value(json_object_get(r->root, "feed_forward_proj"));
    int matrices = way && strncmp(way, "gated", 5) == 0 ? 3 : 2;
    m->tied = read_flag(r, "tie_word_embeddings", r->family->tied);
    m->layers = encoder;
    m->decoder_layers = decoder;
    m->heads = H;
    m->head_dim = D;
    m->ffn = matrices == 3 ? F : (2 * F + 1) / 3;
    double C = (double)m->width, attention = 4 * C * (double)(H * D);
    s->parameters = (double)m->vocab * C * (m->tied ? 1 : 2) +
                    (double)(encoder + 2 * decoder) * attention +
                    (double)(encoder + decoder) * matrices * C * (double)F;
    if (matrices == 2)
        snprintf(s->note, sizeof s->note,
                 "a plain feed-forward is read as a gated one of as many parameters");
}

/* Those that train reads are all here: tests/unit/planner/test_shape.c. */
/* clang-format off */
static const family families[] = {
    {"llama",       read_gated, false, false}, {"mistral",    read_gated, false, false},
    {"mixtral",     read_gated, false, false}, {"qwen2",      read_gated, false, false},
    {"qwen3",       read_gated, false, false}, {"gemma",      read_gated, true,  false},
    {"gemma2",      read_gated, true,  false}, {"gemma3_text", read_gated, true, false},
    {"olmo",        read_gated, false, false}, {"olmo2",      read_gated, false, false},
    {"olmo3",       read_gated, false, false}, {"weft-llama", read_gated, false, false},
    {"seed_oss",    read_gated, false, false}, {"smollm3",    read_gated, true,  false},
    {"starcoder2",  read_gated, true,  true},  {"ernie4_5",   read_gated, true,  false},
    {"helium",      read_gated, false, false}, {"granite",    read_gated, false, false},
    {"arcee",       read_gated, false, true},  {"phi3",       read_gated, false, false},
    {"gpt2",        read_plain, true,  true},  {"opt",        read_plain, true,  true},
    {"bert",        read_plain, true,  true},  {"roberta",    read_plain, true,  true},
    {"gpt_neox",    read_plain, false, true},  {"vit",        read_vit,   true,  true},
    {"t5",          read_t5,    true,  false},
};
/* clang-format on */
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static void read_root(reader *r, weft_shape *s) {
    const json_t *inner = json_object_get(r->root, "text_config");
    if (json_is_object(inner)) r->root = inner;
    const char *type = json_string_value(json_object_get(r->root, "model_type"));
    char known[512] = "";
    size_t used = 0;
    for (int i = 0; type && i < N_FAMILIES; i++)
        if (strcmp(type, families[i].name) == 0) {
            snprintf(s->family, sizeof s->family, "%s", type);
            r->family = &families[i];
            families[i].read(r, s);
            return;
        }
    for (int i = 0; i < N_FAMILIES; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 families[i].name);
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: model_type is '%.40s', expected one of %s; of other "
                              "models say parameters, layers and FLOP per token",
                              r->where, type ? type : "", known);
}

/* A shape and its model in one block. */
typedef struct whole_shape {
    weft_shape shape;
    weft_model_config model;
} whole_shape;

static weft_status create(weft_ctx *ctx, weft_shape **out) {
    whole_shape *whole;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *whole, "a model's shape", &whole));
    whole->shape = (weft_shape){.active_share = 1, .model = &whole->model};
    whole->model.struct_size = sizeof whole->model;
    *out = &whole->shape;
    return WEFT_OK;
}

/* Gives a shape to the caller, or frees it after a failure. */
static weft_status hand_over(weft_ctx *ctx, weft_status status, weft_shape *made,
                             weft_shape **out) {
    if (status != WEFT_OK) wefti_free(ctx, made);
    *out = status == WEFT_OK ? made : NULL;
    return status;
}

static weft_status from_json(weft_ctx *ctx, const char *json, int64_t n_bytes,
                             const char *where, weft_shape *out) {
    json_t *root;
    WEFT_TRY(wefti_json_read(ctx, "", where, json, n_bytes, WEFT_ERR_FORMAT, &root));
    reader r = {ctx, where, root, WEFT_OK, NULL};
    read_root(&r, out);
    json_decref(root);
    int64_t layers = out->model->layers, decoder = out->model->decoder_layers;
    if (decoder > layers) layers = decoder;
    if (r.status == WEFT_OK && layers > MOST_LAYERS)
        r.status = weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "%s: %lld layers, expected at most %d", where,
                                 (long long)layers, (int)MOST_LAYERS);
    return r.status;
}

weft_status weft_shape_from_json(weft_ctx *ctx, const char *json, int64_t n_bytes,
                                 const char *where, weft_shape **out) {
    weft_shape *made;
    WEFT_TRY(create(ctx, &made));
    return hand_over(ctx, from_json(ctx, json, n_bytes, where, made), made, out);
}

static weft_status of_size(weft_ctx *ctx, double parameters, int64_t layers,
                           weft_shape *out) {
    enum { VOCAB = 256 };
    weft_model_config *m = out->model;
    out->parameters = parameters;
    reader r = {ctx, "parameters", NULL, WEFT_OK, NULL};
    if (layers < 1 || layers > MOST_LAYERS || !(parameters >= 1e4 && parameters <= 1e14))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%.6g parameters in %lld layers, expected 1e4 to 1e14 in 1 "
                             "to %d",
                             parameters, (long long)layers, (int)MOST_LAYERS);
    snprintf(out->family, sizeof out->family, "any");
    *m = (weft_model_config){.struct_size = sizeof(weft_model_config),
                             .kind = "llama",
                             .layers = layers,
                             .vocab = VOCAB,
                             .tied = true};
    double block = parameters / (double)layers, C = 2; /* llama: no positions to count */
    while (12 * (C + 2) * (C + 2) <= block && C < (double)(MOST / 4)) C += 2;
    m->width = (int64_t)C;
    m->heads = m->kv_heads = 1;
    fit_block(&r, out, (parameters - (VOCAB + 1) * C) / (double)layers);
    return r.status;
}

weft_status weft_shape_of_size(weft_ctx *ctx, double parameters, int64_t layers,
                               weft_shape **out) {
    weft_shape *made;
    WEFT_TRY(create(ctx, &made));
    return hand_over(ctx, of_size(ctx, parameters, layers, made), made, out);
}

weft_status weft_shape_apply(weft_ctx *ctx, const weft_shape *shape,
                             weft_config *config) {
    const weft_model_config *m = shape->model;
    bool plain = strcmp(m->kind, "gpt2") == 0, pairs = m->decoder_layers > 0;
    int64_t T = shape->tokens > 0 ? shape->tokens : config->data.length;
    int64_t context = plain && m->context > T ? m->context : T;
    char keys[512], word[64];
    const char *at = keys;
    snprintf(
        keys, sizeof keys,
        "model.kind=%s model.layers=%lld model.width=%lld model.heads=%lld "
        "model.kv_heads=%lld model.ffn=%lld model.vocab=%lld model.context=%lld "
        "model.tied=%s model.head_dim=%lld model.decoder_layers=%lld data.length=%lld",
        m->kind, (long long)m->layers, (long long)m->width, (long long)m->heads,
        (long long)m->kv_heads, (long long)m->ffn, (long long)m->vocab,
        (long long)(pairs ? 0 : context), m->tied ? "true" : "false",
        (long long)m->head_dim, (long long)m->decoder_layers, (long long)T);
    for (int n = 0; sscanf(at, " %63s%n", word, &n) == 1; at += n)
        WEFT_TRY(weft_config_set(ctx, config, word));
    WEFT_TRY(weft_config_set(ctx, config, "model.init="));
    return weft_config_finish(ctx, config);
}
