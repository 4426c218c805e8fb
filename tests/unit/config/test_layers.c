/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

static const char *const layered = "method: flexdemo\n"
                                   "optimizer:\n"
                                   "  lr: 2e-3\n"
                                   "run: {steps: 50}\n";

TEST_IN(setup, teardown, defaults_are_those_of_the_table) {
    fixture *f = *state;
    assert_string_equal(f->c->method, "none");
    assert_string_equal(f->c->run.folder, "runs/weft");
    assert_int_equal(f->c->run.steps, 1000);
    assert_true(f->c->run.tensorboard);
    assert_int_equal(f->c->data.path.n, 0);
    assert_true(f->c->data.validation == 0.05);
    assert_string_equal(f->c->data.tokenizer, "bytes");
    assert_int_equal(f->c->model.tied, -1);
    assert_string_equal(f->c->model.init, "");
    assert_int_equal(f->c->mesh.min_message, 64000);
    assert_string_equal(f->c->replicator.kind, "full");
    assert_true(f->c->optimizer.lr == 6e-4);
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

TEST_IN(setup, teardown, default_is_below_preset_below_file_below_override) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, layered));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=7"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.beta1 == 0.9);          /* default */
    assert_string_equal(f->c->replicator.kind, "demo"); /* preset over default */
    assert_string_equal(f->c->optimizer.kind, "sgd");
    assert_true(f->c->optimizer.clip == 0);
    assert_true(f->c->optimizer.lr == 2e-3); /* file over preset */
    assert_int_equal(f->c->run.steps, 7);    /* override over file */
}

TEST_IN(setup, teardown, order_of_calls_does_not_matter) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=7"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "optimizer.clip=3"));
    assert_ok(f->ctx, load_text(f, layered));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_int_equal(f->c->run.steps, 7);
    assert_true(f->c->optimizer.clip == 3);
    assert_true(f->c->optimizer.lr == 2e-3);
}

TEST_IN(setup, teardown, value_below_a_higher_layer_is_still_checked) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=7"));
    assert_refused(
        f, load_text(f, "run: {steps: many}"), WEFT_ERR_CONFIG,
        "run.yaml:1: run.steps is 'many', expected a whole number of at least 1 "
        "(steps)");
    assert_int_equal(f->c->run.steps, 7);
}

/* What files and overrides set is the user's. */
TEST_IN(setup, teardown, what_the_user_has_set_is_given) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "run: {steps: 9}\nmethod: diloco\n"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.seed=4"));
    assert_ok(f->ctx, wefti_config_suggest(f->ctx, f->c, "model.width", "96"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(wefti_config_given(f->c, "run.steps"));
    assert_true(wefti_config_given(f->c, "run.seed"));
    assert_false(wefti_config_given(f->c, "model.width"));
    assert_false(wefti_config_given(f->c, "mixer.kind")); /* the method's */
    assert_false(wefti_config_given(f->c, "model.layers"));
}

TEST_IN(setup, teardown, later_override_wins) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=a.txt,b.txt"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=c.txt"));
    assert_int_equal(f->c->data.path.n, 1);
    assert_string_equal(f->c->data.path.items[0], "c.txt");
}

TEST_IN(setup, teardown, later_file_wins) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "run: {steps: 5, keep: 9}"));
    assert_ok(f->ctx, load_text(f, "run: {steps: 6}"));
    assert_int_equal(f->c->run.steps, 6);
    assert_int_equal(f->c->run.keep, 9);
}

/* A file that is not here is looked for where config.yaml was written. */
TEST_IN(setup, teardown, every_relative_path_is_seen_from_the_folder_of_the_file) {
    fixture *f = *state;
    write_file("here.txt", "", 0);
    assert_int_equal(load_text(f, "# relative paths are seen from /dev\n"
                                  "data: {path: [here.txt, 'null'], tokenizer: 'null'}\n"
                                  "mesh: {key: 'null', run: 'null'}\n"
                                  "mixer: {links: 'null'}\n"),
                     WEFT_OK);
    assert_string_equal(f->c->data.path.items[0], "here.txt");
    assert_string_equal(f->c->data.path.items[1], "/dev/null");
    assert_string_equal(f->c->data.tokenizer, "/dev/null");
    assert_string_equal(f->c->mesh.key, "/dev/null");
    assert_string_equal(f->c->mixer.links, "/dev/null");
    assert_string_equal(f->c->mesh.run, "null");
}

TEST_IN(setup, teardown, another_method_takes_back_what_the_first_one_set) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "method=flexdemo"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 4e-3);
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "method=hsdp"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_string_equal(f->c->replicator.kind, "full");
    assert_string_equal(f->c->optimizer.kind, "adamw");
    assert_true(f->c->optimizer.lr == 6e-4);
    assert_true(f->c->optimizer.clip == 1);
}

/* Adam's is 6e-4 at width 768 as published, and 5.6e-3 below width 83. */
TEST_IN(setup, teardown, rate_that_nobody_names_falls_with_the_width) {
    fixture *f = *state;
    static const struct {
        const char *method, *kind;
        int width;
        double lr;
    } cases[] = {
        {"hsdp", "adamw", 768, 6e-4},        {"hsdp", "adamw", 3072, 1.5e-4},
        {"hsdp", "adamw", 384, 1.2e-3},      {"diloco", "adamw", 96, 4.8e-3},
        {"muloco", "muon", 96, 1.6e-2},      {"muloco", "muon", 768, 2.4e-3},
        {"none", "accum_adam", 192, 2.4e-3}, {"none", "sgd", 96, 6e-4},
        {"dadam", "adamw", 66, 5.6e-3},      {"hsdp", "adamw", 222, 2.1e-3},
        {"flexdemo", "sgd", 96, 4e-3},       {"flexdemo", "sgd", 768, 6e-4},
        {"random", "sgd", 240, 7.7e-3},      {"flexdemo", "adamw", 240, 1.9e-3},
    };
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=a.txt"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f->c->model.width = cases[i].width;
        char text[64];
        snprintf(text, sizeof text, "method=%s", cases[i].method);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        snprintf(text, sizeof text, "optimizer.kind=%s", cases[i].kind);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c)); /* twice is once */
        assert_true(f->c->optimizer.lr == cases[i].lr);
    }
}

/* Few outer steps have less momentum: what was measured with 5, 10, 20 and 50 of them. */
TEST_IN(setup, teardown, momentum_rises_with_the_number_of_outer_steps) {
    fixture *f = *state;
    static const struct {
        const char *method;
        int steps, every;
        double momentum;
    } cases[] = {{"diloco", 100, 20, 0.33},     {"diloco", 200, 20, 0.47},
                 {"diloco", 400, 20, 0.58},     {"diloco", 1000, 20, 0.69},
                 {"diloco", 1, 1, 0},           {"streaming-diloco", 2000, 100, 0.58},
                 {"diloco", 1000000, 100, 0.9}, {"muloco", 10000, 20, 0.4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "method=%s", cases[i].method);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        snprintf(text, sizeof text, "run.steps=%d", cases[i].steps);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        snprintf(text, sizeof text, "mixer.outer_every=%d", cases[i].every);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c)); /* twice is once */
        assert_true(f->c->mixer.outer_momentum == cases[i].momentum);
    }
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mixer.outer_momentum=0.8"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=10"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->mixer.outer_momentum == 0.8);
}

TEST_IN(setup, teardown, rate_that_is_named_stays) {
    fixture *f = *state;
    assert_ok(
        f->ctx,
        load_text(f,
                  "data: {path: [a.txt]}\nmodel: {width: 96}\noptimizer: {lr: 6e-4}\n"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 6e-4);
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "optimizer.lr=7e-4"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 7e-4);
}

/* Weights that are there already are to be kept near. */
TEST_IN(setup, teardown, rate_from_a_checkpoint_is_no_higher_than_at_full_width) {
    fixture *f = *state;
    f->c->model.width = 96;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=a.txt"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.init=folder"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 6e-4);
    f->c->model.width = 3072;
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 1.5e-4);
}

/* A program of its own brings a model whose width the keys do not say (weft/sync.h). */
TEST_IN(setup, teardown, rate_without_a_text_is_the_default) {
    fixture *f = *state;
    f->c->model.width = 96;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "method=hsdp"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_true(f->c->optimizer.lr == 6e-4);
}

TEST_IN(setup, teardown, one_key_or_a_section_goes_back_to_its_default) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.init=here"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.init_std=0.5"));
    assert_ok(f->ctx, weft_config_reset(f->ctx, f->c, "model.init"));
    assert_string_equal(f->c->model.init, "");
    assert_true(f->c->model.init_std == 0.5);
    assert_ok(f->ctx, weft_config_reset(f->ctx, f->c, "model."));
    assert_true(f->c->model.init_std != 0.5);
    assert_int_equal(weft_config_reset(f->ctx, f->c, "model.ini"), WEFT_ERR_CONFIG);
    assert_int_equal(weft_config_reset(f->ctx, f->c, ""), WEFT_ERR_CONFIG);
}

TEST_IN(setup, teardown, failed_override_changes_nothing) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.weights=1,2"));
    assert_int_equal(weft_config_set(f->ctx, f->c, "data.weights=1,two"),
                     WEFT_ERR_CONFIG);
    assert_int_equal(f->c->data.weights.n, 2);
    assert_true(f->c->data.weights.items[1] == 2);
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.weights=[0.75, 0.25 ,1]"));
    assert_int_equal(f->c->data.weights.n, 3);
    assert_true(f->c->data.weights.items[0] == 0.75 &&
                f->c->data.weights.items[1] == 0.25);
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=[a b, \"c, d\" ,e]"));
    assert_int_equal(f->c->data.path.n, 3);
    assert_string_equal(f->c->data.path.items[0], "a b");
    assert_string_equal(f->c->data.path.items[1], "c, d");
    assert_string_equal(f->c->data.path.items[2], "e");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=[ ]"));
    assert_int_equal(f->c->data.path.n, 0);
    assert_int_equal(weft_config_set(f->ctx, f->c, "data.weights=[1,,2]"),
                     WEFT_ERR_CONFIG);
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.weights=1,2"));
}

TEST_IN(setup, teardown, values_carry_units) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "batch.tokens_per_step=64k"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=1e6"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.min_message=2MiB"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.rope_theta=500k"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.link=100Mbit,10ms"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.overlap=off"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.tied=Yes"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_int_equal(f->c->batch.tokens_per_step, 64000);
    assert_int_equal(f->c->run.steps, 1000000);
    assert_int_equal(f->c->mesh.min_message, 2 << 20);
    assert_true(f->c->model.rope_theta == 500000);
    assert_true(f->c->mesh.bandwidth_Bps == 12.5e6);
    assert_true(f->c->mesh.latency_s > 0.00999 && f->c->mesh.latency_s < 0.01001);
    assert_false(f->c->mesh.overlap);
    assert_int_equal(f->c->model.tied, 1);
}

TEST_IN(setup, teardown, every_word_for_a_truth_value_is_understood) {
    fixture *f = *state;
    static const char *const words[] = {"true", "yes", "on", "True", "ON"};
    static const char *const others[] = {"false", "no", "off", "FALSE", "No"};
    char text[40];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "model.recompute=%s", words[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_true(f->c->model.recompute);
        snprintf(text, sizeof text, "model.recompute=%s", others[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_false(f->c->model.recompute);
    }
}

TEST_IN(setup, teardown, override_of_a_list_may_empty_it) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "data: {path: [a, 'b,c']}"));
    assert_int_equal(f->c->data.path.n, 2);
    assert_string_equal(f->c->data.path.items[1], "b,c");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path="));
    assert_int_equal(f->c->data.path.n, 0);
}

/* Creating, setting and finishing with the k-th allocation failing, k = 0, 1, 2, ...: an
 * error and nothing left, until k is past the last allocation. */
static weft_status whole_life(weft_ctx *ctx) {
    weft_config *c;
    const char *text;
    weft_status status = weft_config_create(ctx, &c);
    if (status != WEFT_OK) return status;
    status = weft_config_load(ctx, c, "run.yaml");
    if (status == WEFT_OK) status = weft_config_set(ctx, c, "data.path=a,b");
    if (status == WEFT_OK) status = weft_config_set(ctx, c, "data.weights=1,2");
    if (status == WEFT_OK) status = wefti_config_settle(ctx, c);
    if (status == WEFT_OK) status = weft_config_text(ctx, c, WEFT_CONFIG_DOCS, &text);
    if (status == WEFT_OK) status = weft_config_write(ctx, c, "out.yaml");
    weft_config_destroy(ctx, c);
    return status;
}

TEST(every_failing_allocation_is_a_clean_error) {
    weft_ctx *ctx;
    const char *yaml =
        "method: flexdemo\ndata:\n  path: [x, y, z]\n  weights: [1, 2, 3]\n";
    write_file("run.yaml", yaml, strlen(yaml));
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    int64_t k = 0;
    weft_status status = WEFT_ERR_MEMORY;
    for (; k < 200 && status != WEFT_OK; k++) {
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = whole_life(ctx);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        if (status == WEFT_OK) break;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_non_null(strstr(weft_ctx_message(ctx), "could not allocate"));
    }
    weft_ctx_fail_allocation(ctx, -1);
    assert_int_equal(status, WEFT_OK);
    assert_true(k > 15);
    weft_ctx_destroy(ctx);
}
