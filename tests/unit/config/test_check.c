/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

/* Loads `yaml`, finishes, and expects this sentence. */
static void refused(fixture *f, const char *yaml, const char *sentence) {
    weft_config *fresh;
    assert_ok(f->ctx, weft_config_create(f->ctx, &fresh));
    weft_config_destroy(f->ctx, f->c);
    f->c = fresh;
    assert_ok(f->ctx, load_text(f, yaml));
    assert_refused(f, wefti_config_settle(f->ctx, f->c), WEFT_ERR_CONFIG, sentence);
}

TEST_IN(setup, teardown, methods_refuse_a_mesh_they_cannot_use) {
    fixture *f = *state;
    refused(f, "mesh:\n  ranks_per_node: 2\nmethod: ddp\n",
            "run.yaml:3: method is ddp, which needs mesh.ranks_per_node 1, found 2 (hsdp "
            "shards "
            "the model inside a node)");
    refused(
        f, "method: fsdp\nmesh: {nodes: 2}\n",
        "run.yaml:1: method is fsdp, which needs mesh.nodes 1, found 2 (hsdp goes over "
        "several nodes)");
    assert_ok(f->ctx, load_text(f, "method: ddp\nmesh: {nodes: 2}\n"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

TEST_IN(setup, teardown, line_is_that_of_the_key_in_the_file) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "\n\nmesh:\n  ranks_per_node: 2\n"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "method=ddp"));
    assert_refused(
        f, wefti_config_settle(f->ctx, f->c), WEFT_ERR_CONFIG,
        "run.yaml:4: method is ddp, which needs mesh.ranks_per_node 1, found 2 (hsdp "
        "shards the model inside a node)");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.ranks_per_node=4"));
    assert_refused(
        f, wefti_config_settle(f->ctx, f->c), WEFT_ERR_CONFIG,
        "method is ddp, which needs mesh.ranks_per_node 1, found 4 (hsdp shards the "
        "model inside a node)");
}

TEST_IN(setup, teardown, topk_fits_in_a_chunk) {
    fixture *f = *state;
    refused(f, "replicator:\n  compression_topk: 17\n  compression_chunk: 16\n",
            "run.yaml:2: replicator.compression_topk is 17, expected at most 16, the "
            "size of a "
            "chunk (replicator.compression_chunk)");
    refused(f,
            "replicator: {compression_topk: 257, compression_chunk: 16, "
            "compression_dims: 2}\n",
            "run.yaml:1: replicator.compression_topk is 257, expected at most 256, the "
            "size of a "
            "chunk (replicator.compression_chunk squared)");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "replicator.compression_topk=256"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

TEST_IN(setup, teardown, shapes_of_the_model_fit_together) {
    fixture *f = *state;
    refused(f, "model: {width: 100, heads: 12}\n",
            "run.yaml:1: model.width is 100, expected a multiple of model.heads (12)");
    refused(f, "model: {heads: 6, kv_heads: 4}\n",
            "run.yaml:1: model.kv_heads is 4, expected a divisor of model.heads (6)");
    refused(f, "model: {context: 128}\n",
            "run.yaml:1: model.context is 128, expected at least data.length (256)");
}

TEST_IN(setup, teardown, batch_gives_every_rank_the_same_number_of_sequences) {
    fixture *f = *state;
    refused(f, "batch: {tokens_per_step: 512}\nmesh: {nodes: 3}\ndata: {path: [a.txt]}\n",
            "run.yaml:1: batch.tokens_per_step is 512, expected a multiple of 768 (3 "
            "ranks times "
            "data.length 256) such as 768");
    refused(
        f, "mesh: {nodes: 3}\ndata: {length: 128, path: [a.txt]}\n",
        "run.yaml:2: batch.tokens_per_step is 16384, expected a multiple of 384 (3 ranks "
        "times data.length 128) such as 16128");
    refused(f, "mesh: {nodes: 2}\nbatch: {micro: 3}\ndata: {path: [a.txt]}\n",
            "run.yaml:2: batch.micro is 3, expected a divisor of 32, the sequences of "
            "each rank "
            "in a step");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "batch.micro=16"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

TEST_IN(setup, teardown, without_text_there_is_no_batch_to_check) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.nodes=3"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=text.txt"));
    assert_int_equal(wefti_config_settle(f->ctx, f->c), WEFT_ERR_CONFIG);
}

TEST_IN(setup, teardown, ranks_are_not_more_than_can_be_addressed) {
    refused(
        *state, "mesh: {nodes: 64, ranks_per_node: 32}\n",
        "run.yaml:1: mesh.nodes times mesh.ranks_per_node is 2048, expected at most 1024 "
        "ranks");
}

TEST_IN(setup, teardown, weights_belong_to_paths) {
    fixture *f = *state;
    refused(
        f, "data: {path: [a, b, a]}\n",
        "run.yaml:1: data.path names a twice, expected it once; data.weights says how "
        "often each text is read");
    refused(f, "data: {path: [a, b], weights: [1]}\n",
            "run.yaml:1: data.weights has 1 number, expected one for each data.path (2)");
    refused(f, "data: {path: [a, b], weights: [0, 0]}\n",
            "run.yaml:1: data.weights holds a 0, expected numbers above 0: leave the "
            "path out instead");
}

TEST_IN(setup, teardown, misspelt_tokenizer_is_not_looked_for_as_a_file) {
    fixture *f = *state;
    refused(
        f, "data: {tokenizer: byte}\n",
        "run.yaml:1: data.tokenizer is 'byte', expected bytes, bpe, ids or the path of a "
        "tokenizer.json");
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.tokenizer=my.json"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

TEST_IN(setup, teardown, odd_combinations_are_warned_of) {
    fixture *f = *state;
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=20"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_non_null(
        strstr(f->warning, "schedule.warmup (100) is longer than run.steps (20)"));
    f->warning[0] = '\0'; /* a plan settles many configurations of one run */
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_string_equal(f->warning, "");
}

TEST_IN(setup, teardown, runs_of_a_sparse_outer_step_hold_what_is_sent) {
    fixture *f = *state;
    refused(
        f,
        "method: sparseloco\n"
        "mixer: {compression_topk: 101, compression_chunk: 100}\n",
        "run.yaml:2: mixer.compression_topk is 101, expected at most 100, the length of "
        "a run (mixer.compression_chunk)");
}

TEST_IN(setup, teardown, nodes_that_would_drift_apart_are_refused) {
    fixture *f = *state;
    refused(f, "replicator: {kind: none}\nmesh: {nodes: 2}\n",
            "run.yaml:1: replicator.kind is none with 2 copies of the model: they would "
            "train "
            "unrelated models; choose a replicator or a mixer");
    refused(
        f, "mesh: {nodes: 4, sites: 2}\n",
        "run.yaml:1: mesh.sites is 2, but neither site_replicator.kind nor mixer.kind "
        "joins the sites: they would train unrelated models");
    refused(
        f,
        "replicator: {kind: none}\nmesh: {nodes: 4, sites: 2}\n"
        "site_replicator: {kind: full}\n",
        "run.yaml:1: replicator.kind is none with 2 copies of the model in a site: they "
        "would train unrelated models; choose a replicator");
    refused(
        f, "site_replicator: {kind: full}\n",
        "run.yaml:1: site_replicator.kind is full with mesh.sites 1, expected none or "
        "several sites");
    refused(f, "mixer: {kind: outer}\n",
            "run.yaml:1: mixer.kind is outer beside replicator.kind full, which already "
            "keeps the same copies equal: set one of them to none");
    refused(f, "mesh: {nodes: 3, sites: 2}\n",
            "run.yaml:1: mesh.sites is 2, expected a divisor of mesh.nodes (3)");
    refused(
        f, "mesh: {ranks_per_node: 4, shards: 3}\n",
        "run.yaml:1: mesh.shards is 3, expected a divisor of mesh.ranks_per_node (4)");
}

/* Which side of its bound a value is on; and warnings. */
TEST_IN(setup, teardown, bounds_are_where_they_are_said_to_be) {
    enum { REFUSED, TAKEN, WARNED };
    static const struct {
        const char *yaml;
        int answer;
    } cases[] = {
        {"mesh: {nodes: 64, ranks_per_node: 16}\n", TAKEN},
        {"mesh: {nodes: 205, ranks_per_node: 5}\n", REFUSED},
        {"model: {context: 256}\n", TAKEN},
        {"model: {context: 255}\n", REFUSED},
        {"data: {path: [a, b], weights: [1, 0]}\n", REFUSED},
        {"data: {tokenizer: bpe, vocab: 257}\n", TAKEN},
        {"data: {tokenizer: bpe, vocab: 256}\n", REFUSED},
        {"data: {tokenizer: bpe, vocab: 512, rows: prompts}\n", REFUSED},
        {"data: {tokenizer: my.json, rows: prompts}\n", TAKEN},
        {"method: diloco\nmixer: {outer_every: 9, delay: 8}\n", TAKEN},
        {"method: diloco\nmixer: {outer_every: 9, delay: 9}\n", REFUSED},
        {"method: diloco\nmixer: {outer_every: 9, fragments: 9}\n", TAKEN},
        {"method: diloco\nmixer: {outer_every: 9, fragments: 10}\n", REFUSED},
        {"method: sparseloco\nmixer: {compression_topk: 64, compression_chunk: 64}\n",
         TAKEN},
        {"method: dadam\nmesh: {nodes: 4, sites: 4}\n", TAKEN},
        {"method: dadam\nmesh: {nodes: 4, sites: 2}\n", REFUSED},
        {"schedule: {warmup: 20}\nrun: {steps: 20}\n", TAKEN},
        {"schedule: {warmup: 21}\nrun: {steps: 20}\n", WARNED},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_config *fresh;
        assert_ok(f->ctx, weft_config_create(f->ctx, &fresh));
        weft_config_destroy(f->ctx, f->c);
        f->c = fresh;
        f->warning[0] = '\0';
        assert_ok(f->ctx, load_text(f, cases[i].yaml));
        int answer = wefti_config_settle(f->ctx, f->c) == WEFT_OK;
        if (answer + (f->warning[0] != '\0') != cases[i].answer)
            fail_msg("%s: %s %s", cases[i].yaml, weft_ctx_message(f->ctx), f->warning);
        weft_ctx_clear(f->ctx);
    }
}

TEST_IN(setup, teardown, busy_hours_are_hours_and_a_rate) {
    fixture *f = *state;
    static const char *const wrong[] = {
        "25:00-3:00,2Mbit", "24:00-3:00,2Mbit", "1:60-3:00,2Mbit",  "1:00-24:01,2Mbit",
        "1:00-1:00,2Mbit",  "-1:00-3:00,2Mbit", "1:00--3:00,2Mbit", "1:00-3:00",
        "1:00-3:00,2",      "1:00-3:00,0bit",   "1:00 -3:00,2Mbit", "evenings"};
    static const char *const right[] = {"0:00-24:00,1bit", "23:59-00:00,2Mbit", ""};
    char text[120], words[200];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "method: auto\ndecide: {busy: \"%s\"}\n", wrong[i]);
        snprintf(words, sizeof words,
                 "decide.busy is '%s', expected hours of a day and a rate such as "
                 "18:00-23:30,2Mbit",
                 wrong[i]);
        refused(f, text, words);
    }
    refused(
        f, "method: auto\ndecide: {busy: \"1:00-2:00,1Mbit\", keep: exact}\n",
        "decide.busy is '1:00-2:00,1Mbit', but with decide.keep=exact nothing changes "
        "during a run: leave one out");
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        snprintf(text, sizeof text, "decide.busy=%s", right[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "decide.keep=optimizer"));
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    }
}
