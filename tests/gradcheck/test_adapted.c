/* SPDX-License-Identifier: MIT */
/* Models of which a part is trained, against central differences: adapters over matrices of
 * both layouts and over fused tensors, with dropout of their inputs, frozen tables, frozen
 * layers; and what is frozen leaves no trace in what is trained. */
#include "gradcheck/net.h"
#include "gradcheck/stacks.h"
#include "adapter/adapted.h"
#include "reference/reference.h"

static weft_model_config small(const char *kind) {
    return (weft_model_config){.struct_size = sizeof(weft_model_config),
                               .kind = kind,
                               .vocab = 11,
                               .context = 7,
                               .layers = 2,
                               .width = 16,
                               .heads = 4,
                               .ffn = 20,
                               .tied = -1,
                               .qk_norm = -1,
                               .attention_bias = -1,
                               .mlp_bias = -1,
                               .init_std = 0.3};
}

static float *base_values(weft_ctx *ctx, const weft_model *whole) {
    float *values, *at;
    assert_int_equal(
        wefti_alloc_n(ctx, whole->n_elements, sizeof *values, "a test", &values),
        WEFT_OK);
    at = values;
    for (int u = 0; u < whole->n_units; at += whole->units[u++].n_elements)
        for (int p = 0; p < whole->units[u].n_params; p++)
            wefti_model_init_rows(whole, 5, u, p, 0, whole->units[u].params[p].rows,
                                  at + whole->units[u].params[p].offset);
    return values;
}

/* As a run has it after some steps: B is not zero. */
static void stir(net *n) {
    for (int u = 0; u < n->model->n_units; u++)
        for (int i = 0; i < n->model->units[u].n_params; i++) {
            const wefti_param *p = &n->model->units[u].params[i];
            if (strstr(p->name, "lora_"))
                net_fill(77 + (uint64_t)(p - n->model->params), 0, 0.4f,
                         p->rows * p->cols, n->params + n->starts[u] + p->offset);
        }
}

static void open_adapted(net *n, wefti_base *base, const weft_model_config *config,
                         const wefti_adapting *what, int64_t B, int64_t T) {
    weft_ctx *ctx;
    weft_model *whole, *model;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_model_create(ctx, config, &whole), WEFT_OK);
    if (wefti_model_adapt(ctx, whole, what, &model) != WEFT_OK)
        fail_msg("%s", weft_ctx_message(ctx));
    *base = (wefti_base){.values = base_values(ctx, whole)};
    wefti_model_lend(model, base);
    net_open_around(n, ctx, model, &wefti_kernels_reference, B, T);
    n->flat = "key.bias"; /* a softmax forgets what all its scores share */
}

static void close_adapted(net *n, wefti_base *base) {
    wefti_free(n->ctx, base->values);
    net_close(n);
}

static void assert_gradients(const weft_model_config *config, const wefti_adapting *what,
                             int64_t B, int64_t T) {
    net n;
    wefti_base base;
    open_adapted(&n, &base, config, what, B, T);
    stir(&n);
    net_assert_model(&n);
    close_adapted(&n, &base);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__})
#define COUNT(...) ((int)(sizeof LIST(__VA_ARGS__) / sizeof(const char *)))
#define ADAPTERS(...)                                                                    \
    ((wefti_adapting){.rank = 2,                                                         \
                      .scale = 1.5,                                                      \
                      .targets = LIST(__VA_ARGS__),                                      \
                      .n_targets = COUNT(__VA_ARGS__)})
#define FROZEN(...)                                                                      \
    ((wefti_adapting){.frozen = LIST(__VA_ARGS__), .n_frozen = COUNT(__VA_ARGS__)})

TEST(adapters_of_matrices_with_rows_of_outputs) {
    weft_model_config llama = small("llama"), tied = small("llama");
    tied.tied = 1;
    assert_gradients(&llama, &ADAPTERS("@matrices"), 2, 6);
    assert_gradients(&tied, &ADAPTERS("q_proj", "*.1.mlp.down_proj"), 2, 6);
}

TEST(adapters_of_matrices_with_columns_of_outputs) {
    weft_model_config gpt2 = small("gpt2");
    assert_gradients(&gpt2, &ADAPTERS("@matrices"), 2, 6);
}

TEST(adapters_of_fused_tensors) {
    weft_model_config phi3 = small("phi3"), neox = small("gpt_neox");
    assert_gradients(&phi3, &ADAPTERS("qkv_proj", "gate_up_proj"), 2, 6);
    assert_gradients(&neox, &ADAPTERS("query_key_value"), 2, 6);
}

TEST(adapters_of_other_rows) {
    assert_gradients(&t5, &ADAPTERS("q", "v", "wo"), 2, 10);
    assert_gradients(&vit, &ADAPTERS("query", "value"), 2,
                     wefti_model_positions(&vit, 0));
}

/* Inputs that stay are larger by 1 / (1 - rate), and with them the softmax's curvature and the
 * differences' truncation (halving the step made the error a 16th): hence a smaller scale. */
static wefti_adapting dropping(double rate, wefti_adapting what) {
    what.dropout = rate;
    what.scale = 0.5;
    return what;
}

TEST(gradients_pass_the_masks_of_adapters) {
    weft_model_config llama = small("llama"), tied = small("llama"), gpt2 = small("gpt2");
    weft_model_config phi3 = small("phi3"), neox = small("gpt_neox");
    tied.tied = 1;
    tied.dropout = 0.2; /* the model's own beside the adapters' */
    wefti_adapting all = dropping(0.3, ADAPTERS("@matrices"));
    wefti_adapting few = dropping(0.3, ADAPTERS("v_proj", "*.1.mlp.down_proj"));
    wefti_adapting fused = dropping(0.3, ADAPTERS("qkv_proj"));
    assert_gradients(&llama, &all, 2, 6);
    assert_gradients(&tied, &few, 2, 6);
    assert_gradients(&gpt2, &all, 2, 6);
    assert_gradients(&phi3, &fused, 2, 6);
    assert_gradients(&neox, &all, 2, 6);
}

/* Mean and variance over many steps of one number that the block with the last adapter computes;
 * [out] whole: what it computes without dropping. */
static void spread(double rate, double *mean, double *variance, double *whole) {
    enum { STEPS = 2000, UNIT = 2 };
    net n;
    wefti_base base;
    weft_model_config llama = small("llama");
    wefti_adapting what = dropping(rate, ADAPTERS("*.1.mlp.down_proj"));
    double sum = 0, squares = 0;
    open_adapted(&n, &base, &llama, &what, 2, 6);
    stir(&n);
    n.training = false;
    net_forward(&n, UNIT);
    *whole = (double)net_x(&n, UNIT + 1)[5];
    n.training = true;
    for (n.step = 0; n.step < STEPS; n.step++) {
        net_forward(&n, UNIT);
        double y = (double)net_x(&n, UNIT + 1)[5] - *whole;
        sum += y;
        squares += y * y;
    }
    *mean = *whole + sum / STEPS;
    *variance = squares / STEPS - sum / STEPS * sum / STEPS;
    close_adapted(&n, &base);
}

/* y = W0 x + D drop(x): the mean is what evaluation computes, the variance p / (1 - p) times a
 * number that p is not in. The variance of 2000 draws is known to about 3 %, the mean to a 45th of
 * the deviation. */
TEST(an_adapters_input_is_dropped_and_nothing_else) {
    double mean, half, fifth, whole;
    spread(0.2, &mean, &fifth, &whole);
    assert_true(fabs(mean - whole) < 5 * sqrt(fifth / 2000));
    spread(0.5, &mean, &half, &whole);
    assert_true(fabs(mean - whole) < 5 * sqrt(half / 2000));
    assert_true(half > 1e-6);
    if (fabs(half / fifth / 4 - 1) > 0.25) fail_msg("%g is not 4 x %g", half, fifth);
}

/* With B zero, as adapters begin, training computes what the base does. */
TEST(an_adapter_that_is_zero_is_dropped_without_a_trace) {
    net n;
    wefti_base base;
    weft_model_config gpt2 = small("gpt2");
    wefti_adapting what = dropping(0.5, ADAPTERS("@matrices"));
    open_adapted(&n, &base, &gpt2, &what, 2, 6);
    double dropped = net_model_loss(&n, 0);
    n.training = false;
    assert_true(net_model_loss(&n, 0) == dropped);
    close_adapted(&n, &base);
}

TEST(frozen_tables_tied_and_not) {
    weft_model_config llama = small("llama"), gpt2 = small("gpt2"), t = t5;
    assert_gradients(&llama, &FROZEN("@tables"), 2, 6);
    assert_gradients(&gpt2, &FROZEN("@tables"), 2, 6);
    assert_gradients(&llama, &FROZEN("*embed_tokens*"), 2, 6);
    assert_gradients(&gpt2, &FROZEN("*wpe*", "*ln_f*"), 2, 6);
    assert_gradients(&t, &FROZEN("shared*"), 2, 10);
}

TEST(frozen_layers_and_what_is_below_them) {
    weft_model_config llama = small("llama"), gpt2 = small("gpt2"),
                      neox = small("gpt_neox");
    assert_gradients(&llama, &FROZEN("*.layers.1.*"), 2, 6);
    assert_gradients(&llama, &FROZEN("*embed_tokens*", "*.layers.0.*", "lm_head*"), 2, 6);
    assert_gradients(&gpt2, &FROZEN("@vectors"), 2, 6);
    assert_gradients(&gpt2, &FROZEN("*.wte.*", "*.wpe.*", "*.h.*"), 2, 6);
    assert_gradients(&neox, &FROZEN("@vectors", "@tables"), 2, 6);
}

static void assert_refused_by(const weft_model_config *config, const wefti_adapting *what,
                              const char *words) {
    weft_ctx *ctx;
    weft_model *whole, *model;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_model_create(ctx, config, &whole), WEFT_OK);
    assert_int_equal(wefti_model_adapt(ctx, whole, what, &model), WEFT_ERR_CONFIG);
    if (!strstr(weft_ctx_message(ctx), words)) fail_msg("%s", weft_ctx_message(ctx));
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

static void assert_refused(const wefti_adapting *what, const char *words) {
    weft_model_config gpt2 = small("gpt2");
    assert_refused_by(&gpt2, what, words);
}

TEST(dropout_that_is_not_computed_is_refused) {
    wefti_adapting both = dropping(0.1, ADAPTERS("c_attn"));
    assert_refused_by(&t5, &both, "a t5 trains its adapters without it");
    assert_refused_by(&vit, &both, "adapter.dropout is 0.1");
    both.saved = LIST("c_fc");
    both.n_saved = 1;
    assert_refused(&both, "a matrix of a block, beside adapter.dropout");
}

TEST(patterns_that_mean_nothing_or_everything_are_refused) {
    assert_refused(&ADAPTERS("c_attn", "q_proj"), "'q_proj', which no matrix");
    assert_refused(&ADAPTERS("wte"), "'wte'");
    assert_refused(&FROZEN("*.wte.*", "*.wtf.*"), "'*.wtf.*', which no tensor");
    assert_refused(&FROZEN("*"), "nothing is left");
    wefti_adapting wide = ADAPTERS("c_proj");
    wide.rank = 17;
    assert_refused(&wide, "adapter.rank is 17");
}
