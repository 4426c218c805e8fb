/* SPDX-License-Identifier: MIT */
/* What a sample or a translation costs less must not change it: every kind of model gives
 * the same tokens with kept keys and values as by a pass over the whole text for each. */
#include "adapter/adapted.h"
#include "check.h"

#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "infer/inference.h"

enum { VOCAB = 258, CONTEXT = 40 };

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) {
    (void)state;
    return ctx_end(ctx);
}

static weft_model_config small(const char *kind) {
    return (weft_model_config){.struct_size = sizeof(weft_model_config),
                               .kind = kind,
                               .vocab = VOCAB,
                               .context = CONTEXT,
                               .layers = 3,
                               .width = 32,
                               .heads = 4,
                               .kv_heads = 2,
                               .ffn = 44,
                               .tied = -1,
                               .qk_norm = -1,
                               .attention_bias = -1,
                               .mlp_bias = -1,
                               .init_std = 0.4};
}

/* A model of random parameters, gains and biases among them, with the tokenizer of bytes. */
static weft_inference *open_model(const weft_model_config *config, const char *isa) {
    weft_inference *inf;
    assert_ok(ctx, wefti_alloc(ctx, sizeof *inf, "a model", &inf));
    assert_ok(ctx, weft_model_create(ctx, config, &inf->model));
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &inf->tokenizer));
    inf->kernels = wefti_kernels_find(isa);
    int n = inf->model->n_units;
    assert_ok(ctx, wefti_alloc_n(ctx, n, sizeof(float *), "a test", &inf->params));
    for (int u = 0; u < n; u++) {
        const wefti_unit *unit = &inf->model->units[u];
        assert_ok(ctx, wefti_alloc_n(ctx, unit->n_elements, sizeof(float), "a test",
                                     &inf->params[u]));
        for (int i = 0; i < unit->n_params; i++) {
            const wefti_param *p = &unit->params[i];
            float *to = inf->params[u] + p->offset;
            wefti_model_init_rows(inf->model, 3, u, i, 0, p->rows, to);
            for (int64_t r = 0; p->ndim == 1 && r < p->rows; r++)
                to[r] += 0.1f * (float)(r * 7 % 11 - 5);
        }
    }
    assert_ok(ctx, wefti_alloc_n(ctx, VOCAB, sizeof(int32_t), "a test", &inf->order));
    assert_ok(ctx, wefti_alloc_n(ctx, VOCAB, sizeof(float), "a test", &inf->logits));
    return inf;
}

static bool append(void *user, const char *bytes, int64_t n_bytes) {
    wefti_buffer_put(ctx, user, bytes, n_bytes);
    return true;
}

static wefti_buffer sample(weft_inference *inf, const char *prompt, int64_t n_tokens,
                           double temperature, bool whole) {
    wefti_buffer out = {0};
    weft_sample_options options = {.struct_size = sizeof options,
                                   .n_tokens = n_tokens,
                                   .temperature = temperature,
                                   .top_k = 20,
                                   .seed = 5};
    inf->whole_passes = whole;
    assert_ok(ctx, weft_inference_sample(ctx, inf, prompt, (int64_t)strlen(prompt),
                                         &options, append, &out));
    return out;
}

static void assert_same(weft_inference *inf, const char *prompt, int64_t n_tokens,
                        double temperature) {
    wefti_buffer want = sample(inf, prompt, n_tokens, temperature, true);
    wefti_buffer got = sample(inf, prompt, n_tokens, temperature, false);
    assert_int_equal(got.n, want.n);
    assert_true(want.n > 0);
    assert_memory_equal(got.bytes, want.bytes, (size_t)want.n);
    wefti_buffer_fini(ctx, &want), wefti_buffer_fini(ctx, &got);
}

/* Greedy and seeded, a prompt of one token and a longer one, up to the context and past it. */
static void assert_keeps(const weft_model_config *config) {
    for (const char *const *isa = wefti_kernels_names(); *isa; isa++) {
        weft_inference *inf = open_model(config, *isa);
        assert_same(inf, "a", CONTEXT - 1, 0);
        assert_same(inf, "a", CONTEXT - 1, 1);
        assert_same(inf, "what came before it", 12, 0);
        assert_same(inf, "what came before it", CONTEXT, 1);
        weft_inference_close(ctx, inf);
    }
}

TEST_IN(setup, teardown, every_kind_samples_alike) {
    const char *kind;
    int n = 0;
    for (int i = 0; (kind = weft_model_kind(i, NULL)); i++) {
        weft_model_config config = small(kind);
        if (strcmp(kind, "gpt2") == 0 || strcmp(kind, "opt") == 0 ||
            strcmp(kind, "gpt_neox") == 0)
            config.kv_heads = 4;
        if (wefti_model_find(kind)->input != WEFTI_INPUT_TEXT) continue;
        assert_keeps(&config);
        n++;
    }
    assert_true(n >= 12);
}

TEST_IN(setup, teardown, windows_caps_and_two_rotations_sample_alike) {
    weft_model_config gemma = small("gemma2"), olmo = small("olmo3");
    weft_model_config mistral = small("mistral"), phi = small("phi3");
    weft_model_config granite = small("granite");
    gemma.window = 5, gemma.window_period = 2;
    gemma.attention_cap = 1, gemma.logit_cap = 9, gemma.query_scale = 3;
    olmo.window = 7, olmo.window_period = 2, olmo.rope_local_theta = 10;
    mistral.window = 6;
    phi.rope_share = 0.5;
    granite.embedding_multiplier = 3, granite.attention_multiplier = 0.5;
    granite.residual_multiplier = 0.3, granite.logits_scaling = 0.5;
    assert_keeps(&gemma);
    assert_keeps(&olmo);
    assert_keeps(&mistral);
    assert_keeps(&phi);
    assert_keeps(&granite);
}

TEST_IN(setup, teardown, scaled_rotations_and_biases_sample_alike) {
    weft_model_config yarn = small("llama"), llama3 = yarn, biased = yarn;
    strcpy(yarn.rope_scaling, "yarn factor=4 original=10");
    strcpy(llama3.rope_scaling, "llama3 factor=8 low=1 high=4 original=16");
    biased.attention_bias = biased.mlp_bias = 1;
    biased.head_dim = 6;
    assert_keeps(&yarn);
    assert_keeps(&llama3);
    assert_keeps(&biased);
}

/* ---- translations ---- */

enum { SOURCE = 9, TARGET = 14, TEXTS = 3 };

static const char *const sources[TEXTS] = {"one", "a longer text", "b"};

typedef struct whole_pass {
    weft_inference *inf;
    int64_t T;
    int32_t tokens[SOURCE + TARGET];
} whole_pass;

/* The likeliest id after the row's last token, by all units over all of it. */
static int32_t next_id(whole_pass *w) {
    weft_inference *inf = w->inf;
    weft_model *model = inf->model;
    int head = model->n_units - 1;
    assert_ok(ctx, wefti_inference_reserve(ctx, inf, 1, SOURCE + TARGET));
    for (int u = 0; u < head; u++) {
        wefti_pass pass = wefti_inference_pass(inf, u, 1, w->T);
        pass.tokens = w->tokens;
        model->ops->forward(model, u, &pass);
    }
    float logits[TARGET * VOCAB];
    wefti_pass pass = wefti_inference_pass(inf, head, 1, w->T);
    wefti_model_logits(model, &pass, logits);
    const float *row = logits + (w->T - SOURCE - 1) * VOCAB;
    int32_t best = 0;
    for (int32_t v = 0; v < VOCAB; v++)
        if (v != VOCAB - 2 && row[v] > row[best]) best = v;
    return best;
}

static void translate_whole(weft_inference *inf, const char *source, char *out) {
    whole_pass w = {.inf = inf, .T = SOURCE + 1};
    int64_t n = (int64_t)strlen(source) < SOURCE - 1 ? (int64_t)strlen(source)
                                                     : SOURCE - 1;
    for (int64_t i = 0; i < SOURCE; i++)
        w.tokens[i] = i < n ? (unsigned char)source[i] : i == n ? VOCAB - 1 : -1;
    w.tokens[SOURCE] = VOCAB - 2;
    wefti_inference_set_source(ctx, inf, SOURCE);
    for (; w.T <= SOURCE + TARGET; w.T++) {
        int32_t id = next_id(&w);
        if (id == VOCAB - 1) break;
        *out++ = (char)id;
        if (w.T < SOURCE + TARGET) w.tokens[w.T] = id;
    }
    *out = '\0';
}

static bool compare(void *user, int64_t i, const char *text) {
    char(*want)[TARGET + 1] = user;
    assert_string_equal(text, want[i]);
    return true;
}

static void assert_translates(int64_t encoders, const char *isa) {
    char want[TEXTS][TARGET + 1];
    weft_model_config config = small("t5");
    weft_translate_options options = {
        .struct_size = sizeof options, .source_length = SOURCE, .target_length = TARGET};
    config.layers = encoders, config.decoder_layers = 2, config.kv_heads = 4;
    config.buckets = 8, config.distance = 9, config.init_std = 1;
    weft_inference *inf = open_model(&config, isa);
    for (int i = 0; i < TEXTS; i++) translate_whole(inf, sources[i], want[i]);
    assert_ok(
        ctx, weft_inference_translate(ctx, inf, sources, TEXTS, &options, compare, want));
    weft_inference_close(ctx, inf);
}

TEST_IN(setup, teardown, translations_of_a_batch_are_those_of_whole_passes) {
    for (const char *const *isa = wefti_kernels_names(); *isa; isa++) {
        assert_translates(2, *isa);
        assert_translates(3, *isa);
    }
}
