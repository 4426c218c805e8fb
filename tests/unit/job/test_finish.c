/* SPDX-License-Identifier: MIT */
/* Keys that the chosen kinds do not read. */
#include <stdio.h>
#include <unistd.h>

#include "configs.h"
#include "config/layers.h"
#include "config/schema.h"
#include "job/learning_rate.h"

static weft_ctx *ctx;
static char warning[256];

static void keep_warning(void *user, weft_log_level level, const char *line) {
    (void)user;
    if (level == WEFT_LOG_WARN) snprintf(warning, sizeof warning, "%s", line);
}

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

/* Sets words of "a=b c=d", and a file's text before them if there is one. */
static weft_config *make(const char *yaml, const char *words) {
    weft_config *config;
    assert_ok(ctx, weft_config_create(ctx, &config));
    if (yaml) {
        put_text("run.yaml", yaml);
        assert_ok(ctx, weft_config_load(ctx, config, "run.yaml"));
    }
    set_keys(ctx, config, words);
    return config;
}

/* The sentence begins so: new kinds make its list of readers longer. */
static void refused(const char *yaml, const char *words, const char *sentence) {
    weft_config *config = make(yaml, words);
    assert_int_equal(weft_config_finish(ctx, config), WEFT_ERR_CONFIG);
    if (strncmp(weft_ctx_message(ctx), sentence, strlen(sentence)) != 0)
        fail_msg("%s: %s", words, weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    weft_config_destroy(ctx, config);
}

static void taken(const char *yaml, const char *words) {
    weft_config *config = make(yaml, words);
    if (weft_config_finish(ctx, config) != WEFT_OK)
        fail_msg("%s: %s", words, weft_ctx_message(ctx));
    weft_config_destroy(ctx, config);
}

TEST_IN(setup, teardown, keys_of_other_kinds_are_refused) {
    refused(NULL, "method=hsdp replicator.compression_topk=8",
            "replicator.compression_topk is set, but replicator.kind full does not read "
            "it, expected one of demo");
    refused(NULL, "method=hsdp replicator.every=3",
            "replicator.every is set, but replicator.kind full does not read it, "
            "expected one of demo");
    refused(NULL, "method=flexdemo replicator.rounding=stochastic",
            "replicator.rounding is set, but replicator.values f32 does not read it, "
            "expected one of int8");
    refused(NULL, "site_replicator.compression_rate=0.5",
            "site_replicator.compression_rate is set, but site_replicator.kind none does "
            "not read it, expected one of random");
    refused(NULL, "mixer.gamma=0.5",
            "mixer.gamma is set, but mixer.kind none does not read it, expected one of "
            "gossip");
    refused(NULL, "method=dadam mixer.values=int8",
            "mixer.values is set, but mixer.kind gossip does not read it, expected one "
            "of choco");
    refused(NULL, "method=dadam mixer.kind=choco mixer.deadline=0.25",
            "mixer.deadline is set, but mixer.kind choco does not read it, expected one "
            "of gossip");
    refused(NULL, "method=dadam mixer.links=links.yaml",
            "mixer.links is set, but mixer.topology aer does not read it, expected one "
            "of measured");
    refused(NULL, "optimizer.momentum=0.9",
            "optimizer.momentum is set, but optimizer.kind adamw does not read it, "
            "expected one of muon");
    refused(NULL, "method=flexdemo optimizer.beta1=0.8",
            "optimizer.beta1 is set, but optimizer.kind sgd does not read it, expected "
            "one of adamw");
    refused(NULL, "data.vocab=2000",
            "data.vocab is set, but data.tokenizer bytes does not read it, expected one "
            "of bpe");
    refused(NULL, "schedule.kind=constant schedule.final=0.5",
            "schedule.final is set, but schedule.kind constant does not read it, "
            "expected one of cosine");
}

TEST_IN(setup, teardown, keys_that_would_not_be_applied_are_refused) {
    static const char *const cases[][2] = {
        {"method=auto decide.keep=any optimizer.lr=1e-3",
         "optimizer.lr is set, but method auto decides it with decide.keep any"},
        {"method=auto batch.shares=speed", "batch.shares is set, but method auto plans"},
        {"method=auto mesh.straggler_time=1", "mesh.straggler_time is set, but method"},
        {"method=flexdemo replicator.values=sign replicator.rounding=stochastic",
         "replicator.rounding is set, but replicator.values sign does not read it"},
        {"data.chat_template=chatml", "data.chat_template is set, but data.rows"},
        {"data.rows=prompts data.tokenizer=a.json data.field=body",
         "data.field is set, but data.rows prompts does not read it"},
        {"adapter.init=folder model.frozen=a.*",
         "model.frozen is set, but with adapters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(NULL, cases[i][0], cases[i][1]);
    taken(NULL, "method=auto decide.keep=optimizer optimizer.lr=1e-3");
    taken(NULL, "method=flexdemo replicator.values=int8 replicator.rounding=stochastic");
    weft_config *config = make(NULL, "method=hsdp"); /* what a checkpoint says */
    assert_ok(ctx, wefti_config_suggest(ctx, config, "replicator.values", "int8"));
    assert_ok(ctx, wefti_config_suggest(ctx, config, "replicator.every", "3"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    weft_config_destroy(ctx, config);
}

TEST_IN(setup, teardown, keys_that_are_read_are_taken) {
    taken(NULL, "method=flexdemo replicator.compression_topk=8 replicator.values=int4 "
                "replicator.rounding=stochastic mesh.nodes=2");
    taken(NULL, "method=dadam mixer.topology=measured mixer.links=links.yaml");
    taken(NULL, "data.tokenizer=bpe data.vocab=2000 data.split=llama3");
    taken(NULL, "data.tokenizer=a/path.json data.vocab=2000");
    refused(NULL, "data.tokenizer=bpe data.vocab=256",
            "data.vocab is 256 with data.tokenizer bpe, expected at least 257: 256 bytes "
            "and the end of a text");
    taken(NULL, "data.tokenizer=ids data.vocab=4");
    taken(NULL, "optimizer.kind=muon optimizer.beta1=0.8 optimizer.rows=0.5");
}

TEST_IN(setup, teardown, an_optimizer_of_a_group_reads_its_keys) {
    const char *other = "optimizer.beta1 is set, but optimizer.kind sgd does not read "
                        "it, expected one of adamw";
    taken("optimizer: {kind: sgd, beta1: 0.8, groups: ['@vectors optimizer=adamw']}\n",
          "");
    taken("optimizer: {kind: sgd, beta1: 0.8, groups: ['@tables optimizer=adam lr=2']}\n",
          "");
    refused(
        "optimizer: {kind: sgd, groups: ['@vectors optimizer=sgd', '@tables lr=2']}\n",
        "optimizer.beta1=0.8", other);
    refused("optimizer: {kind: sgd, groups: ['@vectors optimizer=adamwx']}\n",
            "optimizer.beta1=0.8", other);
}

TEST_IN(setup, teardown, a_file_may_hold_defaults_and_a_wrong_line_is_named) {
    taken("replicator:\n  compression_topk: 4\nmixer:\n  outer_lr: 0.7\n  order: awc\n",
          "");
    refused("replicator:\n  kind: full\n  compression_topk: 5\n", "",
            "run.yaml:3: replicator.compression_topk is set, but replicator.kind full "
            "does not read it, expected one of demo");
    refused("replicator:\n  sign: false\n", "",
            "run.yaml:2: replicator.sign is set, but replicator.kind full does not read "
            "it, expected one of demo");
    refused("mixer:\n  outer_lr: 0.8\n", "",
            "run.yaml:2: mixer.outer_lr is set, but mixer.kind none does not read it, "
            "expected one of outer");
    refused("mixer:\n  order: atc\n", "",
            "run.yaml:2: mixer.order is set, but mixer.kind none does not read it, "
            "expected one of gossip");
    refused(NULL, "mixer.order=awc",
            "mixer.order is set, but mixer.kind none does not read it, expected one of "
            "gossip");
}

/* What a run writes down can be read again, also where another kind was chosen than the
 * preset's. */
TEST_IN(setup, teardown, the_text_of_a_configuration_is_taken) {
    static const char *const words[] = {
        "method=none", "method=streaming-diloco mixer.kind=gossip",
        "method=accumadam optimizer.kind=sgd mixer.kind=outer",
        "method=dadam mixer.kind=choco mixer.values=int4 mixer.rounding=stochastic"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *text, *again_text;
        weft_config *config = make(NULL, words[i]);
        assert_ok(ctx, weft_config_finish(ctx, config));
        assert_ok(ctx, weft_config_text(ctx, config, WEFT_CONFIG_BARE, &text));
        weft_config *again = make(text, "");
        assert_ok(ctx, weft_config_finish(ctx, again));
        assert_ok(ctx, weft_config_text(ctx, again, WEFT_CONFIG_BARE, &again_text));
        assert_string_equal(text, again_text);
        weft_config_destroy(ctx, config);
        weft_config_destroy(ctx, again);
    }
}

/* What is doubted when a run begins; NULL: nothing. */
static void doubted(const char *words, const char *sentence) {
    weft_config *config = make(NULL, words);
    warning[0] = '\0';
    assert_ok(ctx, weft_config_finish(ctx, config));
    weft_ctx_set_sink(ctx, keep_warning, NULL);
    wefti_job_doubt(ctx, config);
    weft_ctx_set_sink(ctx, NULL, NULL);
    if (strncmp(warning, sentence, strlen(sentence)) != 0 || (!*sentence && *warning))
        fail_msg("%s: '%s'", words, warning);
    weft_config_destroy(ctx, config);
}

TEST_IN(setup, teardown, a_rate_of_another_method_is_doubted) {
    doubted("method=muloco model.width=96 data.path=a.txt optimizer.lr=1e-3",
            "optimizer.lr is 0.001, 1/16 of the rate of method muloco with muon for a "
            "model of this width: 0.016, which is taken where optimizer.lr is left out");
    doubted("method=hsdp model.width=768 data.path=a.txt optimizer.lr=6e-3",
            "optimizer.lr is 0.006, 10 times the rate of method hsdp with adamw");
    doubted("method=hsdp model.width=768 data.path=a.txt optimizer.lr=2.4e-3", "");
    doubted("method=hsdp model.width=768 data.path=a.txt optimizer.lr=1.5e-4", "");
    doubted("method=hsdp model.width=768 data.path=a.txt", "");
    doubted("optimizer.kind=sgd optimizer.lr=1", "");
    doubted("method=muloco optimizer.lr=0", "");
}

TEST_IN(setup, teardown, a_robust_mean_needs_numbers_that_can_be_compared) {
    refused(NULL, "method=flexdemo mesh.robust=clip",
            "mesh.robust is clip, but with replicator.kind demo and mixer.kind none the "
            "nodes do not all send the same numbers to one mean; expected");
    refused(NULL, "method=dadam mesh.robust=trim", "mesh.robust is trim, but");
    refused(NULL, "method=sparseloco mesh.robust=trim", "mesh.robust is trim, but");
    refused(NULL, "method=signsgd mesh.robust=clip", "mesh.robust is clip, but");
    refused(NULL, "method=hsdp replicator.kind=none mesh.robust=clip",
            "mesh.robust is clip, but");
    refused(NULL,
            "method=hsdp mesh.nodes=4 mesh.sites=2 mixer.kind=outer "
            "mesh.robust=clip",
            "mesh.robust is clip with mesh.sites 2, expected one site");
    refused(NULL, "method=auto mesh.robust=clip",
            "mesh.robust is set, but method auto decides it");
    taken(NULL, "method=flexdemo mesh.robust=off");
    taken(NULL, "method=ddp mesh.nodes=3 mesh.robust=clip");
    taken(NULL, "method=random replicator.values=int8 mesh.nodes=3 mesh.robust=trim");
    taken(NULL, "method=muloco mixer.values=int4 mesh.nodes=3 mesh.robust=clip");
}

/* A preset that set a key which its kinds do not read would lose it without a word. */
TEST_IN(setup, teardown, presets_set_only_what_is_read) {
    for (const weft_choice *m = wefti_methods; m->name; m++) {
        char words[64];
        const char *key, *value;
        snprintf(words, sizeof words, "method=%s", m->name);
        weft_config *config = make(NULL, words);
        assert_ok(ctx, weft_config_finish(ctx, config));
        for (int j = 0; (key = weft_config_method_key(m->name, j, &value)); j++) {
            snprintf(words, sizeof words, "%s=%s", key, value);
            assert_ok(ctx, weft_config_set(ctx, config, words));
        }
        if (weft_config_finish(ctx, config) != WEFT_OK)
            fail_msg("%s: %s", m->name, weft_ctx_message(ctx));
        weft_config_destroy(ctx, config);
    }
}

TEST_IN(setup, teardown, a_section_is_reset_before_another_kind_is_chosen) {
    weft_config *config = make(NULL, "method=dadam mixer.gamma=0.5 optimizer.beta1=0.8");
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_ok(ctx, weft_config_reset(ctx, config, "mixer."));
    assert_ok(ctx, weft_config_set(ctx, config, "method=diloco"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_true(config->mixer.gamma == 1 && config->optimizer.beta1 == 0.8);
    weft_config_destroy(ctx, config);
}

/* The interval that a method has in a run; the run's length may change afterwards. */
TEST_IN(setup, teardown, a_methods_interval_fits_the_run) {
    static const struct {
        const char *keys;
        int64_t H;
    } cases[] = {{"method=diloco run.steps=100", 25},
                 {"method=diloco run.steps=200", 30},
                 {"method=diloco run.steps=1000", 31},
                 {"method=diloco run.steps=8000", 250},
                 {"method=diloco run.steps=100000", 500},
                 {"method=muloco run.steps=100000", 30},
                 {"method=streaming-diloco run.steps=1000", 31},
                 {"method=diloco run.steps=3", 1},
                 {"method=muloco run.steps=200", 30},
                 {"method=sparseloco run.steps=60", 15},
                 {"method=streaming-diloco run.steps=12", 6}, /* delay 5 */
                 {"method=diloco run.steps=200 mixer.outer_every=300", 300},
                 {"mixer.kind=outer replicator.kind=none run.steps=200", 500}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_config *config = make(NULL, cases[i].keys);
        assert_ok(ctx, weft_config_finish(ctx, config));
        assert_int_equal(config->mixer.outer_every, cases[i].H);
        weft_config_destroy(ctx, config);
    }
    weft_config *config = make(NULL, "method=diloco run.steps=200");
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_ok(ctx, weft_config_set(ctx, config, "run.steps=1000"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_int_equal(config->mixer.outer_every, 31);
    weft_config_destroy(ctx, config);
}

TEST_IN(setup, teardown, exchanges_behind_the_end_are_warned_of) {
    weft_ctx_set_sink(ctx, keep_warning, NULL);
    weft_config *config = make(NULL, "method=diloco run.steps=20 schedule.warmup=1");
    assert_ok(ctx, weft_config_set(ctx, config, "mixer.outer_every=500"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_non_null(strstr(warning, "outer_every (500) is longer than run.steps (20)"));
    warning[0] = '\0';
    assert_ok(ctx, weft_config_set(ctx, config, "mixer.outer_every=20"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_string_equal(warning, "");
    weft_config_destroy(ctx, config);
    for (int steps = 25; steps <= 26; steps++) { /* a fragment comes each 25 steps */
        char words[160];
        snprintf(words, sizeof words,
                 "method=streaming-diloco mixer.outer_every=100 mixer.fragments=4 "
                 "mixer.delay=1 schedule.warmup=1 run.steps=%d",
                 steps);
        warning[0] = '\0';
        config = make(NULL, words);
        assert_ok(ctx, weft_config_finish(ctx, config));
        assert_int_equal(warning[0] != '\0', steps < 26);
        weft_config_destroy(ctx, config);
    }
}
