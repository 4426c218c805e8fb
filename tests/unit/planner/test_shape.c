/* SPDX-License-Identifier: MIT */
/* Models as their makers describe them, and how many parameters their makers count. */
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "model/model.h"

typedef struct example {
    const char *json;
    double parameters; /* as published */
    double share;      /* that a token passes through */
} example;

static const example examples[] = {
    {"{\"model_type\":\"llama\",\"vocab_size\":128256,\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
     "\"intermediate_size\":14336,\"rope_scaling\":{\"rope_type\":\"llama3\"}}",
     8.030e9, 1},
    {"{\"model_type\":\"qwen2\",\"vocab_size\":152064,\"hidden_size\":3584,"
     "\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,"
     "\"intermediate_size\":18944,\"tie_word_embeddings\":false}",
     7.616e9, 1},
    {"{\"model_type\":\"mistral\",\"vocab_size\":32000,\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
     "\"intermediate_size\":14336}",
     7.242e9, 1},
    {"{\"model_type\":\"gemma\",\"vocab_size\":256000,\"hidden_size\":3072,"
     "\"num_hidden_layers\":28,\"num_attention_heads\":16,\"num_key_value_heads\":16,"
     "\"intermediate_size\":24576,\"head_dim\":256}",
     8.538e9, 1},
    {"{\"model_type\":\"mixtral\",\"vocab_size\":32000,\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
     "\"intermediate_size\":14336,\"num_local_experts\":8,\"num_experts_per_tok\":2}",
     46.703e9, 0.273},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":768,\"n_layer\":12,"
     "\"n_head\":12,\"n_positions\":1024,\"n_inner\":null}",
     124.44e6, 1},
    {"{\"model_type\":\"opt\",\"vocab_size\":50272,\"hidden_size\":768,"
     "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"ffn_dim\":3072,"
     "\"max_position_embeddings\":2048}",
     125.24e6, 1},
    {"{\"model_type\":\"bert\",\"vocab_size\":30522,\"hidden_size\":768,"
     "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,"
     "\"max_position_embeddings\":512}",
     109.48e6, 1},
    {"{\"model_type\":\"vit\",\"hidden_size\":768,\"num_hidden_layers\":12,"
     "\"num_attention_heads\":12,\"intermediate_size\":3072,\"image_size\":224,"
     "\"patch_size\":16}",
     86.57e6, 1},
    {"{\"model_type\":\"t5\",\"vocab_size\":32128,\"d_model\":768,\"d_kv\":64,"
     "\"d_ff\":3072,\"num_heads\":12,\"num_layers\":12}",
     222.9e6, 1},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
     "\"vocab_size\":262144,\"hidden_size\":1152,\"num_hidden_layers\":26,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"intermediate_size\":6912,"
     "\"head_dim\":256}}",
     999.9e6, 1},
    {"{\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":2048,"
     "\"num_hidden_layers\":22,\"num_attention_heads\":32,"
     "\"num_key_value_heads\":4,\"intermediate_size\":5632,"
     "\"tie_word_embeddings\":false}",
     1.100e9, 1},
    {"{\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":4096,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"intermediate_size\":11008}",
     6.738e9, 1},
    {"{\"model_type\":\"llama\",\"vocab_size\":128256,\"hidden_size\":2048,"
     "\"num_hidden_layers\":16,\"num_attention_heads\":32,"
     "\"num_key_value_heads\":8,\"intermediate_size\":8192,\"head_dim\":64,"
     "\"tie_word_embeddings\":true}",
     1.236e9, 1},
    {"{\"model_type\":\"qwen3\",\"vocab_size\":151936,\"hidden_size\":1024,"
     "\"num_hidden_layers\":28,\"num_attention_heads\":16,"
     "\"num_key_value_heads\":8,\"intermediate_size\":3072,\"head_dim\":128,"
     "\"tie_word_embeddings\":true}",
     596.0e6, 1},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":1024,"
     "\"n_layer\":24,\"n_head\":16,\"n_positions\":1024}",
     354.8e6, 1},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":1600,"
     "\"n_layer\":48,\"n_head\":25,\"n_positions\":1024}",
     1557.6e6, 1},
    {"{\"model_type\":\"opt\",\"vocab_size\":50272,\"hidden_size\":2048,"
     "\"num_hidden_layers\":24,\"num_attention_heads\":32,\"ffn_dim\":8192,"
     "\"max_position_embeddings\":2048}",
     1315.8e6, 1},
    {"{\"model_type\":\"opt\",\"vocab_size\":50272,\"hidden_size\":1024,"
     "\"num_hidden_layers\":24,\"num_attention_heads\":16,\"ffn_dim\":4096,"
     "\"max_position_embeddings\":2048,\"word_embed_proj_dim\":512}",
     331.2e6, 1},
    {"{\"model_type\":\"arcee\",\"vocab_size\":32000,\"hidden_size\":2560,"
     "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"num_key_value_heads\":8,\"intermediate_size\":18432}",
     3708.2e6, 1},
    {"{\"model_type\":\"bert\",\"vocab_size\":30522,\"hidden_size\":1024,"
     "\"num_hidden_layers\":24,\"num_attention_heads\":16,"
     "\"intermediate_size\":4096,\"max_position_embeddings\":512}",
     335.1e6, 1},
    {"{\"model_type\":\"vit\",\"hidden_size\":1024,\"num_hidden_layers\":24,"
     "\"num_attention_heads\":16,\"intermediate_size\":4096,"
     "\"image_size\":224,\"patch_size\":16}",
     304.3e6, 1},
};

static bool near(double x, double y, double share) { return fabs(x / y - 1) < share; }

TEST_IN(begin, end, parameters_are_those_that_makers_count) {
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const example *e = &examples[i];
        weft_shape *s;
        weft_model *model;
        assert_ok(ctx, weft_shape_from_json(ctx, e->json, (int64_t)strlen(e->json),
                                            "config.json", &s));
        if (s->model->context < 1) s->model->context = 64;
        assert_ok(ctx, weft_model_create(ctx, s->model, &model));
        double own = (double)weft_model_parameters(model);
        weft_model_destroy(ctx, model);
        if (!near(s->parameters, e->parameters, 0.01))
            fail_msg("%s: %.6g parameters, published %.6g", s->family, s->parameters,
                     e->parameters);
        if (!near(own, e->parameters, 0.015))
            fail_msg("%s: %.6g parameters as %s, published %.6g", s->family, own,
                     s->model->kind, e->parameters);
        assert_true(near(s->active_share, e->share, 0.02));
        weft_free(ctx, s);
    }
}

/* Every kind that train reads, from what it writes itself: the next kind is not forgotten. */
TEST_IN(begin, end, plan_knows_every_model_that_train_reads) {
    for (int i = 0; wefti_model_registry[i]; i++) {
        const wefti_model_ops *ops = wefti_model_registry[i];
        weft_model_config wanted = {.struct_size = sizeof wanted,
                                    .kind = ops->name,
                                    .vocab = 5000,
                                    .context = 64,
                                    .layers = 12,
                                    .width = 256,
                                    .heads = 8,
                                    .tied = ops->tied,
                                    .attention_bias = ops->attention_bias,
                                    .mlp_bias = ops->mlp_bias,
                                    .qk_norm = ops->qk_norm,
                                    .described = true};
        if (ops->input == WEFTI_INPUT_PAIRS) wanted.decoder_layers = 12;
        if (ops->input == WEFTI_INPUT_IMAGES)
            wanted.image = 32, wanted.patch = 4, wanted.channels = 3, wanted.context = 65;
        weft_model *model;
        weft_shape *s;
        char *json;
        assert_ok(ctx, weft_model_create(ctx, &wanted, &model));
        assert_ok(ctx, ops->describe_json(ctx, model, &json));
        weft_status status = weft_shape_from_json(ctx, json, (int64_t)strlen(json),
                                                  "config.json", &s);
        if (status != WEFT_OK) fail_msg("%s: %s", ops->name, weft_ctx_message(ctx));
        if (!near(s->parameters, (double)weft_model_parameters(model), 0.02))
            fail_msg("%s: %.6g parameters, the model has %.6g", ops->name, s->parameters,
                     (double)weft_model_parameters(model));
        weft_free(ctx, s);
        weft_free(ctx, json);
        weft_model_destroy(ctx, model);
    }
}

TEST_IN(begin, end, a_size_alone_is_a_model_of_that_size) {
    for (int i = 0; i < 40; i++) {
        double wanted = 1e5 * pow(10, i / 8.0);
        weft_shape *s;
        weft_model *model;
        assert_ok(ctx, weft_shape_of_size(ctx, wanted, 1 + i % 24, &s));
        s->model->context = 1;
        assert_ok(ctx, weft_model_create(ctx, s->model, &model));
        if (!near((double)weft_model_parameters(model), wanted, 0.02))
            fail_msg("%.6g parameters, wanted %.6g in %d layers",
                     (double)weft_model_parameters(model), wanted, 1 + i % 24);
        weft_model_destroy(ctx, model);
        weft_free(ctx, s);
    }
}

TEST_IN(begin, end, a_run_takes_the_shape) {
    weft_config *run;
    weft_shape *s;
    assert_ok(ctx, weft_config_create(ctx, &run));
    assert_ok(ctx, weft_config_set(ctx, run, "data.path=none.txt"));
    assert_ok(ctx, weft_config_set(ctx, run, "data.length=64"));
    assert_ok(ctx, weft_config_set(ctx, run, "model.init=somewhere"));
    assert_ok(ctx, weft_shape_from_json(ctx, examples[1].json,
                                        (int64_t)strlen(examples[1].json), "x", &s));
    assert_ok(ctx, weft_shape_apply(ctx, s, run));
    assert_string_equal(run->model.kind, "llama");
    assert_int_equal(run->model.layers, 28);
    assert_int_equal(run->model.kv_heads, 4);
    assert_string_equal(run->model.init, "");
    weft_free(ctx, s);
    weft_config_destroy(ctx, run);
}

static void refuses(const char *json, const char *sentence) {
    weft_shape *s;
    weft_ctx_clear(ctx);
    assert_int_not_equal(
        weft_shape_from_json(ctx, json, (int64_t)strlen(json), "config.json", &s),
        WEFT_OK);
    if (!strstr(weft_ctx_message(ctx), sentence))
        fail_msg("'%s', expected '%s'", weft_ctx_message(ctx), sentence);
}

TEST_IN(begin, end, files_that_are_no_models_are_refused) {
    refuses("", "config.json");
    refuses("[1]", "config.json");
    refuses("{\"model_type\":\"mamba\"}", "model_type is 'mamba', expected one of llama");
    refuses("{}", "model_type is ''");
    refuses("{\"model_type\":\"gpt2\"}", "vocab_size is missing");
    refuses("{\"model_type\":\"gpt2\",\"vocab_size\":-1}",
            "vocab_size is not a whole number from 1");
    refuses("{\"model_type\":\"gpt2\",\"vocab_size\":1e300}", "vocab_size is not");
    refuses("{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":0}",
            "hidden_size is");
    refuses("{\"model_type\":\"t5\",\"vocab_size\":8,\"d_model\":8,\"num_heads\":1,"
            "\"d_kv\":4,\"d_ff\":8,\"num_layers\":4000000}",
            "4000000 layers, expected at most 4096");
    refuses("{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":64,\"num_hidden_"
            "layers\":2,"
            "\"num_attention_heads\":5,\"intermediate_size\":96}",
            "5 heads and a width of 64, expected a number of heads that divides it");
    refuses(
        "{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":64,\"num_hidden_"
        "layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":3,\"intermediate_size\":96}",
        "4 heads and 3 heads of keys, expected a number that divides the heads");
    refuses("{\"model_type\":\"gpt2\",\"vocab_size\":8,\"n_embd\":64,\"n_layer\":2,\"n_"
            "head\":7}",
            "7 heads and a width of 64");
    refuses("{\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":2,"
            "\"num_attention_heads\":6}",
            "6 heads and a width of 64");
    weft_shape *s;
    assert_int_not_equal(weft_shape_of_size(ctx, 1e9, 0, &s), WEFT_OK);
    assert_int_not_equal(weft_shape_of_size(ctx, NAN, 4, &s), WEFT_OK);
}
