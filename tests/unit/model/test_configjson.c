/* SPDX-License-Identifier: MIT */

#include "check.h"

#include "base/memory.h"
#include "model/fields.h"
#include "model/model.h"

static int with_ctx(void **state) {
    return weft_ctx_create((weft_ctx **)state) == WEFT_OK ? 0 : -1;
}

static int without_ctx(void **state) {
    int64_t held = weft_ctx_bytes_held(*state);
    weft_ctx_destroy(*state);
    return held == 0 ? 0 : -1;
}

/* The completed config of a model, and its config.json. */
static weft_model_config describe(weft_ctx *ctx, const weft_model_config *config,
                                  char **json) {
    weft_model *model;
    assert_int_equal(weft_model_create(ctx, config, &model), WEFT_OK);
    weft_model_config completed = model->config;
    assert_int_equal(model->ops->describe_json(ctx, model, json), WEFT_OK);
    weft_model_destroy(ctx, model);
    return completed;
}

static weft_model_config read(weft_ctx *ctx, const char *json) {
    weft_model_config config = {.struct_size = sizeof config};
    weft_status status = weft_model_config_from_json(ctx, json, (int64_t)strlen(json),
                                                     "config.json", &config);
    if (status != WEFT_OK) fail_msg("%s", weft_ctx_message(ctx));
    return config;
}

static void assert_same(const weft_model_config *a, const weft_model_config *b) {
    const wefti_field *field = wefti_model_differs(a, b);
    if (field) fail_msg("%s differs", field->name);
    assert_string_equal(a->kind, b->kind);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->ffn, b->ffn);
    assert_true(a->norm_eps == b->norm_eps);
    assert_true(a->rope_theta == b->rope_theta);
    assert_true(a->dropout == b->dropout);
    assert_true(a->init_std == b->init_std);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->qk_norm, b->qk_norm);
}

#define SMALL(kind_, ...)                                                                \
    {                                                                                    \
        .struct_size = sizeof(weft_model_config), .kind = kind_, .vocab = 50,            \
        .context = 9, .layers = 2, .width = 16, .heads = 4, .rope_theta = 500,           \
        __VA_ARGS__                                                                      \
    }

TEST_IN(with_ctx, without_ctx, what_is_written_is_read_back) {
    static const weft_model_config configs[] = {
        {.struct_size = sizeof configs[0],
         .kind = "gpt2",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 12,
         .heads = 3,
         .tied = true},
        {.struct_size = sizeof configs[0],
         .kind = "gpt2",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 12,
         .heads = 3,
         .ffn = 7,
         .dropout = 0.1,
         .norm_eps = 1.0 / 3,
         .init_std = 0.3},
        {.struct_size = sizeof configs[0],
         .kind = "llama",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 16,
         .heads = 4,
         .kv_heads = 2,
         .rope_theta = 2.0 / 3},
        {.struct_size = sizeof configs[0],
         .kind = "llama",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 16,
         .heads = 4,
         .qk_norm = true,
         .tied = true,
         .dropout = 0.25},
        {.struct_size = sizeof configs[0],
         .kind = "olmo2",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 16,
         .heads = 4,
         .kv_heads = 1,
         .norm_eps = 1e-7},
        SMALL("llama", .head_dim = 6, .attention_bias = true, .mlp_bias = true,
              .rope_scaling = "llama3 factor=8 low=1 high=4 original=8192"),
        SMALL("mistral", .window = 5, .rope_scaling = "linear factor=2.5"),
        SMALL("qwen2", .window = 5,
              .rope_scaling = "yarn factor=4 original=32768 fast=32 slow=1"),
        SMALL("qwen3", .head_dim = 8),
        SMALL("olmo3", .window = 5, .window_period = 2, .rope_local_theta = 7,
              .rope_scaling = "yarn factor=8 original=8 fast=32 slow=1 attention=1.2 "
                              "truncate=0"),
        SMALL("gemma2", .window = 4, .window_period = 2, .attention_cap = 50,
              .logit_cap = 30, .query_scale = 144, .tied = true),
        SMALL("gemma3", .window = 4, .rope_local_theta = 10000, .query_scale = 168),
        SMALL("gemma", .head_dim = 6, .tied = true),
        SMALL("seed_oss", .head_dim = 6, .attention_bias = true),
        SMALL("seed_oss", .tied = true),
        SMALL("smollm3", .rope_period = 2, .mlp_bias = true),
        SMALL("smollm3", .tied = true),
        SMALL("smollm3", .rope_period = 5),
        SMALL("starcoder2", .kv_heads = 2, .window = 3, .dropout = 0.1),
        SMALL("ernie4_5", .head_dim = 6, .tied = true),
        SMALL("helium", .norm_eps = 1e-8),
        SMALL("granite", .embedding_multiplier = 12, .attention_multiplier = 0.3,
              .residual_multiplier = 0.22, .logits_scaling = 1.0 / 3),
        SMALL("granite", .head_dim = 6, .kv_heads = 2, .mlp_bias = true),
        SMALL("olmo", .kv_heads = 2, .attention_bias = true),
        SMALL("olmo", .tied = true, .rope_scaling = "linear factor=2"),
        SMALL("arcee", .kv_heads = 2, .attention_bias = true, .mlp_bias = true),
        SMALL("gemma2", .window = 4, .window_period = 2),
        SMALL("gemma3", .window = 4),
        SMALL("olmo3", .rope_scaling = "linear factor=2"),
        SMALL("phi3", .window = 3, .rope_share = 0.5),
        SMALL("gpt_neox", .attention_bias = true, .rope_share = 0.5),
        {.struct_size = sizeof configs[0],
         .kind = "opt",
         .vocab = 50,
         .context = 9,
         .layers = 2,
         .width = 16,
         .heads = 4,
         .tied = true},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char *json;
        weft_model_config written = describe(*state, &configs[i], &json);
        weft_model_config back = read(*state, json);
        if (back.kv_heads == 0) back.kv_heads = back.heads; /* gpt2 has no such key */
        if (back.head_dim == 0) back.head_dim = back.width / back.heads; /* nor this */
        assert_same(&back, &written);
        wefti_free(*state, json);
    }
}

static void assert_contains(const char *json, const char *part) {
    if (!strstr(json, part)) fail_msg("no %s in %s", part, json);
}

TEST_IN(with_ctx, without_ctx, hugging_face_finds_its_classes) {
    weft_model_config config = {.struct_size = sizeof config,
                                .kind = "gpt2",
                                .vocab = 50,
                                .context = 9,
                                .layers = 2,
                                .width = 12,
                                .heads = 3};
    char *json;
    describe(*state, &config, &json);
    assert_contains(json, "\"model_type\": \"gpt2\"");
    assert_contains(json, "\"GPT2LMHeadModel\"");
    assert_contains(json, "\"activation_function\": \"gelu_new\"");
    assert_contains(json, "\"tie_word_embeddings\": false");
    wefti_free(*state, json);
    config.kind = "llama";
    config.heads = 2;
    describe(*state, &config, &json);
    assert_contains(json, "\"model_type\": \"llama\"");
    assert_contains(json, "\"LlamaForCausalLM\"");
    wefti_free(*state, json);
    config.qk_norm = true; /* no Hugging Face llama */
    describe(*state, &config, &json);
    assert_contains(json, "\"model_type\": \"weft-llama\"");
    assert_null(strstr(json, "\"LlamaForCausalLM\""));
    wefti_free(*state, json);
    config.kind = "olmo2";
    describe(*state, &config, &json);
    assert_contains(json, "\"model_type\": \"olmo2\"");
    assert_contains(json, "\"Olmo2ForCausalLM\"");
    assert_contains(json,
                    "\"pad_token_id\": null"); /* else Hugging Face trains no row 1 */
    wefti_free(*state, json);
}

TEST_IN(with_ctx, without_ctx, numbers_are_written_as_people_write_them) {
    weft_model_config config = {.struct_size = sizeof config,
                                .kind = "gpt2",
                                .vocab = 50,
                                .context = 9,
                                .layers = 2,
                                .width = 12,
                                .heads = 3,
                                .dropout = 0.1};
    char *json;
    describe(*state, &config, &json);
    assert_contains(json, "\"resid_pdrop\": 0.1,");
    assert_contains(json, "\"initializer_range\": 0.02,");
    wefti_free(*state, json);
}

TEST_IN(with_ctx, without_ctx, the_config_of_gpt2_is_read) {
    weft_model_config config = read(
        *state, "{\"activation_function\": \"gelu_new\", \"architectures\": "
                "[\"GPT2LMHeadModel\"],"
                " \"attn_pdrop\": 0.1, \"bos_token_id\": 50256, \"embd_pdrop\": 0.1,"
                " \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, "
                "\"model_type\": \"gpt2\","
                " \"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12,"
                " \"n_positions\": 1024, \"n_inner\": null, \"resid_pdrop\": 0.1, "
                "\"vocab_size\": 50257}");
    static const weft_model_config expected = {.struct_size = sizeof expected,
                                               .kind = "gpt2",
                                               .vocab = 50257,
                                               .context = 1024,
                                               .layers = 12,
                                               .width = 768,
                                               .heads = 12,
                                               .norm_eps = 1e-5,
                                               .dropout = 0.1,
                                               .tied = true,
                                               .init_std = 0.02};
    assert_same(&config, &expected);
}

#define LLAMA_SIZES                                                                      \
    "\"vocab_size\": 32, \"hidden_size\": 16, \"num_hidden_layers\": 2,"                 \
    " \"num_attention_heads\": 4, \"max_position_embeddings\": 64,"                      \
    " \"intermediate_size\": 48"

TEST_IN(with_ctx, without_ctx, missing_keys_get_the_defaults_of_hugging_face) {
    weft_model_config config = read(*state,
                                    "{\"model_type\": \"llama\", " LLAMA_SIZES "}");
    weft_model_config expected = {.struct_size = sizeof expected,
                                  .kind = "llama",
                                  .vocab = 32,
                                  .context = 64,
                                  .layers = 2,
                                  .width = 16,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .ffn = 48,
                                  .norm_eps = 1e-6,
                                  .rope_theta = 10000};
    assert_same(&config, &expected);
    config = read(*state, "{\"model_type\": \"olmo2\", " LLAMA_SIZES "}");
    expected.kind = "olmo2";
    expected.norm_eps = 1e-5;
    expected.qk_norm = true;
    assert_same(&config, &expected);
}

/* Scores of Granite are multiplied by 1 where its file has no other number. */
TEST_IN(with_ctx, without_ctx, missing_multipliers_are_one) {
    weft_model_config config = read(*state,
                                    "{\"model_type\": \"granite\", " LLAMA_SIZES "}");
    assert_true(config.embedding_multiplier == 1 && config.attention_multiplier == 1);
    assert_true(config.residual_multiplier == 1 && config.logits_scaling == 1);
    assert_true(config.norm_eps == 1e-6);
}

/* Every fourth layer of SmolLM3 has no positions, whatever its sizes. */
TEST_IN(with_ctx, without_ctx, layers_without_positions_are_counted) {
#define SMOLLM3(more) read(*state, "{\"model_type\": \"smollm3\", " LLAMA_SIZES more "}")
    assert_int_equal(SMOLLM3("").rope_period, 4);
    assert_true(SMOLLM3("").tied);
    assert_true(SMOLLM3("").rope_theta == 2000000);
    assert_int_equal(SMOLLM3(", \"no_rope_layer_interval\": 3").rope_period, 3);
    assert_int_equal(SMOLLM3(", \"no_rope_layers\": [1, 0]").rope_period, 2);
    assert_int_equal(SMOLLM3(", \"no_rope_layers\": [0, 0]").rope_period, 1);
}

TEST_IN(with_ctx, without_ctx, rope_theta_is_found_inside_rope_parameters) {
    weft_model_config config = read(
        *state, "{\"model_type\": \"llama\", " LLAMA_SIZES ", \"rope_parameters\":"
                " {\"rope_type\": \"default\", \"rope_theta\": 5000.0}}");
    assert_true(config.rope_theta == 5000);
}

static void assert_refused(weft_ctx *ctx, const char *json, const char *sentence) {
    weft_model_config config = {.struct_size = sizeof config};
    weft_ctx_clear(ctx);
    weft_status status = weft_model_config_from_json(ctx, json, (int64_t)strlen(json),
                                                     "c.json", &config);
    assert_int_equal(status, WEFT_ERR_FORMAT);
    assert_string_equal(weft_ctx_message(ctx), sentence);
    weft_ctx_clear(ctx);
}

TEST_IN(with_ctx, without_ctx, broken_files_are_refused_with_the_line) {
    weft_model_config config = {.struct_size = sizeof config};
    assert_int_equal(
        weft_model_config_from_json(*state, "{\n\"a\" 1}", 8, "c.json", &config),
        WEFT_ERR_FORMAT);
    assert_ptr_equal(
        strstr(weft_ctx_message(*state), "c.json: not a JSON object: line 2, "),
        weft_ctx_message(*state));
    assert_refused(*state, "[1]", "c.json: not a JSON object");
}

#define OF_TYPES                                                                         \
    "gpt2, llama, mistral, qwen2, qwen3, olmo2, olmo3, gemma, gemma2, gemma3_text, "     \
    "phi3, gpt_neox, opt, seed_oss, smollm3, starcoder2, ernie4_5, helium, granite, "    \
    "olmo, arcee, t5, vit, or weft-llama"

TEST_IN(with_ctx, without_ctx, unknown_types_are_refused) {
    assert_refused(*state, "{\"model_type\": \"bert\"}",
                   "c.json: model_type is \"bert\", expected one of " OF_TYPES);
    assert_refused(*state, "{}", "c.json: model_type is \"\", expected one of " OF_TYPES);
    assert_refused(*state, "{\"model_type\": 3}", "c.json: model_type is not a string");
}

TEST_IN(with_ctx, without_ctx, missing_and_mistyped_keys_are_named) {
    assert_refused(*state, "{\"model_type\": \"gpt2\"}", "c.json: vocab_size is missing");
    assert_refused(*state, "{\"model_type\": \"gpt2\", \"vocab_size\": 1.5}",
                   "c.json: vocab_size is not a whole number");
#define REFUSE_LLAMA(more, sentence)                                                     \
    assert_refused(*state, "{\"model_type\": \"llama\", " LLAMA_SIZES ", " more "}",     \
                   "c.json: " sentence)
    REFUSE_LLAMA("\"rms_norm_eps\": \"small\"", "rms_norm_eps is not a number");
    REFUSE_LLAMA("\"tie_word_embeddings\": 1",
                 "tie_word_embeddings is not true or false");
    REFUSE_LLAMA("\"hidden_act\": 1", "hidden_act is not a string");
    REFUSE_LLAMA("\"rope_scaling\": 2", "rope_scaling is not an object");
}

TEST_IN(with_ctx, without_ctx, other_mathematics_are_refused) {
    REFUSE_LLAMA("\"hidden_act\": \"relu\"", "hidden_act is \"relu\", expected \"silu\"");
    REFUSE_LLAMA("\"rope_scaling\": {\"rope_type\": \"llama3\"}", "factor is missing");
    REFUSE_LLAMA("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}",
                 "the rotary positions are scaled by \"dynamic\", expected default, "
                 "linear, llama3 or yarn");
    REFUSE_LLAMA("\"quantization_config\": {}",
                 "quantization_config is there, but quantized parameters are not read");
#define REFUSE(type, more, sentence)                                                     \
    assert_refused(*state, "{\"model_type\": \"" type "\", " LLAMA_SIZES ", " more "}",  \
                   "c.json: " sentence)
    REFUSE("qwen2", "\"use_sliding_window\": true, \"max_window_layers\": 1",
           "max_window_layers lies between the layers, expected 0 or all");
    REFUSE("olmo3",
           "\"sliding_window\": 4, \"layer_types\": [\"full_attention\", "
           "\"sliding_attention\"]",
           "layer_types is no list of sliding_attention and full_attention with the "
           "latter in each so-manieth layer");
    REFUSE("gemma2", "\"hidden_activation\": \"gelu\"",
           "hidden_activation is \"gelu\", expected \"gelu_pytorch_tanh\"");
    REFUSE("gemma3_text", "\"use_bidirectional_attention\": true",
           "use_bidirectional_attention is true, expected false");
    REFUSE("gpt_neox", "\"use_parallel_residual\": false",
           "use_parallel_residual is false, expected true");
    REFUSE("smollm3", "\"no_rope_layers\": [0, 1]",
           "no_rope_layers is no list of 1, with 0 in each so-manieth layer");
    REFUSE("smollm3", "\"no_rope_layers\": [2, 1]",
           "no_rope_layers is no list of 1, with 0 in each so-manieth layer");
    REFUSE("smollm3", "\"use_sliding_window\": true",
           "use_sliding_window is true, expected false");
    REFUSE("olmo", "\"clip_qkv\": 8.0",
           "clip_qkv is set, expected null: queries, keys and values are not clipped");
    REFUSE("olmo", "\"hidden_act\": \"gelu\"",
           "hidden_act is \"gelu\", expected \"silu\"");
    REFUSE("arcee", "\"hidden_act\": \"silu\"",
           "hidden_act is \"silu\", expected \"relu2\"");
    REFUSE("granite", "\"logits_scaling\": 0", "logits_scaling is not above 0");
    REFUSE("granite", "\"residual_multiplier\": \"0.2\"",
           "residual_multiplier is not a number");
    REFUSE("ernie4_5", "\"use_bias\": true", "use_bias is true, expected false");
    REFUSE("starcoder2", "\"use_bias\": false", "use_bias is false, expected true");
    REFUSE("opt", "\"ffn_dim\": 8, \"word_embed_proj_dim\": 3",
           "word_embed_proj_dim is not hidden_size");
    REFUSE("opt", "\"ffn_dim\": 8, \"do_layer_norm_before\": false",
           "do_layer_norm_before is false, expected true");
    static const char gpt2[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 9, \"n_positions\": 9,"
        " \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 2,"
        " \"scale_attn_weights\": false}";
    assert_refused(*state, gpt2, "c.json: scale_attn_weights is false, expected true");
}

/* What transformers 5 writes says "tied" even where the head is a matrix of its own; then it
 * says too that the decoder's outputs are not scaled, as they are before a tied head. */
TEST_IN(with_ctx, without_ctx, a_t5_is_tied_where_its_outputs_are_scaled) {
#define T5(more)                                                                         \
    "{\"model_type\": \"t5\", \"vocab_size\": 50, \"d_model\": 16, \"d_kv\": 4, "        \
    "\"d_ff\": 24, \"num_layers\": 2, \"num_heads\": 4, "                                \
    "\"feed_forward_proj\": \"gated-gelu\"" more "}"
    assert_true(read(*state, T5("")).tied);
    assert_true(read(*state, T5(", \"tie_word_embeddings\": true")).tied);
    assert_false(read(*state, T5(", \"tie_word_embeddings\": false")).tied);
    assert_false(read(*state, T5(", \"tie_word_embeddings\": true, "
                                 "\"scale_decoder_outputs\": false"))
                     .tied);
    assert_refused(
        *state, T5(", \"tie_word_embeddings\": false, \"scale_decoder_outputs\": true"),
        "c.json: scale_decoder_outputs is true with a head that is not tied");
}

TEST_IN(with_ctx, without_ctx, a_failed_allocation_is_a_clean_error) {
    static const weft_model_config config = {.struct_size = sizeof config,
                                             .kind = "gpt2",
                                             .vocab = 50,
                                             .context = 9,
                                             .layers = 2,
                                             .width = 12,
                                             .heads = 3};
    weft_model *model;
    char *json = NULL;
    assert_int_equal(weft_model_create(*state, &config, &model), WEFT_OK);
    weft_ctx_fail_allocation(*state, 0);
    assert_int_equal(model->ops->describe_json(*state, model, &json), WEFT_ERR_MEMORY);
    assert_null(json);
    weft_model_destroy(*state, model);
}
