/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

#include "base/rng.h"

typedef struct refusal {
    const char *yaml;
    weft_status status;
    const char *sentence;
} refusal;

static void refuse_all(fixture *f, const refusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_refused(f, load_text(f, cases[i].yaml), cases[i].status,
                       cases[i].sentence);
}
#define REFUSE_ALL(f, cases) refuse_all(f, cases, sizeof cases / sizeof cases[0])

TEST_IN(setup, teardown, unknown_names_are_refused_with_line_and_guess) {
    static const refusal cases[] = {
        {"run:\n  steps: 5\noptimizer:\n  lrr: 1\n", WEFT_ERR_CONFIG,
         "run.yaml:4: unknown key 'optimizer.lrr' (did you mean 'optimizer.lr'?)"},
        {"\noptimiser:\n  lr: 1\n", WEFT_ERR_CONFIG,
         "run.yaml:2: unknown section 'optimiser' (did you mean 'optimizer'?)"},
        {"lr: 1e-3\n", WEFT_ERR_CONFIG,
         "run.yaml:1: unknown key 'lr' (did you mean 'optimizer.lr'?)"},
        {"run: {warmup: 3}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: unknown key 'run.warmup' (did you mean 'schedule.warmup'?)"},
        {"data:\n  zzzzzzzz: 1\n", WEFT_ERR_CONFIG,
         "run.yaml:2: unknown key 'data.zzzzzzzz'"},
        {"qqqqqq: {a: 1}\n", WEFT_ERR_CONFIG, "run.yaml:1: unknown section 'qqqqqq'"},
        {"<<: {a: 1}\n", WEFT_ERR_CONFIG, "run.yaml:1: unknown section '<<'"},
        {"'': 1\n", WEFT_ERR_CONFIG, "run.yaml:1: unknown key ''"},
    };
    REFUSE_ALL((fixture *)*state, cases);
}

TEST_IN(setup, teardown, wrong_values_are_refused_with_line_and_expectation) {
    static const refusal cases[] = {
        {"mesh:\n  nodes: 2\n  link: 100Mbitt\n", WEFT_ERR_CONFIG,
         "run.yaml:3: mesh.link is '100Mbitt', expected 'none' or RATE,LATENCY such as "
         "'100Mbit,10ms'"},
        {"mesh: {link: '100Mbit,10'}", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.link is '100Mbit,10', expected 'none' or RATE,LATENCY such as "
         "'100Mbit,10ms'"},
        {"mesh: {link: '0Mbit,1ms'}", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.link is '0Mbit,1ms', expected 'none' or RATE,LATENCY such as "
         "'100Mbit,10ms'"},
        {"optimizer:\n  beta1: 1\n", WEFT_ERR_CONFIG,
         "run.yaml:2: optimizer.beta1 is '1', expected a number from 0 to below 1"},
        {"optimizer:\n  lr: fast\n", WEFT_ERR_CONFIG,
         "run.yaml:2: optimizer.lr is 'fast', expected a number from 0 to 1000"},
        {"optimizer:\n  lr: nan\n", WEFT_ERR_CONFIG,
         "run.yaml:2: optimizer.lr is 'nan', expected a number from 0 to 1000"},
        {"schedule: {final: 1.5}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: schedule.final is '1.5', expected a number from 0 to 1"},
        {"schedule: {kind: cosin}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: schedule.kind is 'cosin', expected cosine, linear, inverse_sqrt or "
         "constant (did you mean 'cosine'?)"},
        {"method: magic\n", WEFT_ERR_CONFIG,
         "run.yaml:1: method is 'magic', expected none, auto, ddp, fsdp, hsdp, flexdemo, "
         "async-demo, "
         "topk, signsgd, powersgd, random, striding, slicing, deto-adamw, "
         "dadam, accumadam, diloco, streaming-diloco, muloco, noloco or sparseloco"},
        {"mesh: {nodes: 1.5}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.nodes is '1.5', expected a whole number from 1 to 1024"},
        {"mesh: {nodes: 0}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.nodes is '0', expected a whole number from 1 to 1024"},
        {"run: {steps: 99999999999999999999}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: run.steps is '99999999999999999999', expected a whole number of at "
         "least "
         "1 (steps)"},
        {"mesh: {min_message: 64 furlongs}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.min_message is '64 furlongs', expected a size such as 64kB or "
         "4MB"},
        {"mesh: {overlap: maybe}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.overlap is 'maybe', expected true or false"},
        {"mesh: {overlap: }\n", WEFT_ERR_CONFIG,
         "run.yaml:1: mesh.overlap is '', expected true or false"},
        {"model: {tied: 1}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: model.tied is '1', expected auto, true or false"},
        {"run: {folder: ''}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: run.folder is '', expected a text that is not empty"},
        {"data:\n  weights:\n  - 1\n  - heavy\n", WEFT_ERR_CONFIG,
         "run.yaml:2: data.weights is 'heavy', expected a list of numbers of at least 0 "
         "such "
         "as [0.7, 0.3]"},
        {"data: {path: [a, '']}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: data.path is '', expected a list of texts such as [a, b]"},
        {"replicator: {compression_dims: 3}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: replicator.compression_dims is '3', expected a whole number from 1 "
         "to 2"},
    };
    REFUSE_ALL((fixture *)*state, cases);
}

TEST_IN(setup, teardown, wrong_shapes_are_refused) {
    static const refusal cases[] = {
        {"run:\n  steps: [1, 2]\n", WEFT_ERR_CONFIG,
         "run.yaml:2: run.steps is a list, expected a whole number of at least 1 "
         "(steps)"},
        {"run:\n  steps: {a: 1}\n", WEFT_ERR_CONFIG,
         "run.yaml:2: run.steps is a mapping, expected a whole number of at least 1 "
         "(steps)"},
        {"model: gpt2\n", WEFT_ERR_CONFIG,
         "run.yaml:1: model is a single value or list, expected its keys, one in each "
         "line"},
        {"data:\n  path: [[a]]\n", WEFT_ERR_CONFIG,
         "run.yaml:2: a list holds plain values only, found a list or mapping in it"},
        {"- a\n- b\n", WEFT_ERR_CONFIG,
         "run.yaml:1: found a single value or list, expected sections and keys"},
        {"hello\n", WEFT_ERR_CONFIG,
         "run.yaml:1: found a single value or list, expected sections and keys"},
        {"[a]: 1\n", WEFT_ERR_CONFIG,
         "run.yaml:1: found a list or mapping, expected the name of a key"},
    };
    REFUSE_ALL((fixture *)*state, cases);
}

TEST_IN(setup, teardown, what_makes_yaml_hard_to_read_is_refused) {
    static const refusal cases[] = {
        {"run: &a {steps: 1}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: anchors and aliases (& and *) are not supported, write the value "
         "out"},
        {"run:\n  steps: *a\n", WEFT_ERR_CONFIG,
         "run.yaml:2: anchors and aliases (& and *) are not supported, write the value "
         "out"},
        {"run:\n  steps: !!int 5\n", WEFT_ERR_CONFIG,
         "run.yaml:2: tags (!) are not supported, write the plain value"},
        {"run: {steps: 1}\n---\nrun: {steps: 2}\n", WEFT_ERR_CONFIG,
         "run.yaml:2: a second document starts here, expected a single one"},
        {"run:\n  steps: 1\n  keep: 2\n  steps: 3\n", WEFT_ERR_CONFIG,
         "run.yaml:4: 'run.steps' is given twice, first in line 2"},
        {"run:\n  steps: 1\nmodel:\nrun:\n  keep: 2\n", WEFT_ERR_CONFIG,
         "run.yaml:4: 'run' is given twice, first in line 1"},
        {"run:\n  steps: 1\nrun.steps: 4\n", WEFT_ERR_CONFIG,
         "run.yaml:3: 'run.steps' is given twice, first in line 2"},
        {"run: {folder: \"a\\0b\"}\n", WEFT_ERR_CONFIG,
         "run.yaml:1: a value contains a zero byte"},
    };
    REFUSE_ALL((fixture *)*state, cases);
}

TEST_IN(setup, teardown, broken_yaml_is_refused_with_its_line) {
    static const refusal cases[] = {
        {"run:\n  steps: 1\n keep: 2\n", WEFT_ERR_FORMAT,
         "run.yaml:3: not valid YAML: did not find expected key, while parsing a block "
         "mapping"},
        {"run: {steps: 1\n", WEFT_ERR_FORMAT,
         "run.yaml:2: not valid YAML: did not find expected ',' or '}', while parsing a "
         "flow "
         "mapping"},
        {"run:\n\tsteps: 1\n", WEFT_ERR_FORMAT,
         "run.yaml:2: not valid YAML: found character that cannot start any token, while "
         "scanning for the next token"},
        {"run:\n  folder: \"open\n", WEFT_ERR_FORMAT,
         "run.yaml:3: not valid YAML: found unexpected end of stream, while scanning a "
         "quoted "
         "scalar"},
        {"run:\n  folder: a\n  keep: \xff\n", WEFT_ERR_FORMAT,
         "run.yaml:3: not valid YAML: invalid leading UTF-8 octet"},
    };
    REFUSE_ALL((fixture *)*state, cases);
}

TEST_IN(setup, teardown, only_utf8_is_read) {
    fixture *f = *state;
    static const char utf16[] = "\xff\xfer\0u\0n\0:\0\n\0";
    write_file("run.yaml", utf16, sizeof utf16 - 1);
    assert_refused(f, weft_config_load(f->ctx, f->c, "run.yaml"), WEFT_ERR_FORMAT,
                   "run.yaml is text in UTF-16 or UTF-32 (convert it by iconv -t UTF-8), "
                   "expected text in YAML");
    static const char program[] = "\x7f"
                                  "ELF\2\1\1\0\0\0";
    write_file("run.yaml", program, sizeof program - 1);
    assert_refused(f, weft_config_load(f->ctx, f->c, "run.yaml"), WEFT_ERR_FORMAT,
                   "run.yaml is a program or library (ELF), expected text in YAML");
    assert_ok(f->ctx, load_text(f, "\xef\xbb\xbfrun:\n  steps: 12\n"));
    assert_int_equal(f->c->run.steps, 12);
}

TEST_IN(setup, teardown, missing_file_is_named) {
    fixture *f = *state;
    assert_refused(f, weft_config_load(f->ctx, f->c, "nowhere.yaml"), WEFT_ERR_FILE,
                   "could not open nowhere.yaml: No such file or directory");
}

TEST_IN(setup, teardown, bad_overrides_are_refused) {
    fixture *f = *state;
    assert_refused(f, weft_config_set(f->ctx, f->c, "optimizer.lrr=1"), WEFT_ERR_CONFIG,
                   "unknown key 'optimizer.lrr' (did you mean 'optimizer.lr'?)");
    assert_refused(f, weft_config_set(f->ctx, f->c, "steps=many"), WEFT_ERR_CONFIG,
                   "unknown key 'steps' (did you mean 'run.steps'?)");
    assert_refused(f, weft_config_set(f->ctx, f->c, "optimizer.lr"), WEFT_ERR_CONFIG,
                   "'optimizer.lr' is not an override, expected section.key=value");
    assert_refused(f, weft_config_set(f->ctx, f->c, "=5"), WEFT_ERR_CONFIG,
                   "'=5' is not an override, expected section.key=value");
    assert_refused(f, weft_config_set(f->ctx, f->c, "run.folder=\xff\xfe"),
                   WEFT_ERR_CONFIG,
                   "run.folder is '\xff\xfe', expected a text that is not empty");
    assert_refused(f, weft_config_set(f->ctx, f->c, "run.steps=a\nb"), WEFT_ERR_CONFIG,
                   "run.steps is 'a?b', expected a whole number of at least 1 (steps)");
}

TEST_IN(setup, teardown, empty_files_and_sections_are_fine) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, ""));
    assert_ok(f->ctx, load_text(f, "# nothing yet\n"));
    assert_ok(f->ctx, load_text(f, "---\n"));
    assert_ok(f->ctx, load_text(f, "run:\n  # steps: 4\nmodel:\n  layers: 2\n"));
    assert_int_equal(f->c->model.layers, 2);
    assert_int_equal(f->c->run.steps, 1000);
}

TEST_IN(setup, teardown, lists_are_read_in_every_form) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "data:\n  path:\n    - a.txt\n    - b c.txt\n"));
    assert_int_equal(f->c->data.path.n, 2);
    assert_string_equal(f->c->data.path.items[1], "b c.txt");
    assert_ok(f->ctx, load_text(f, "data: {path: only.txt, weights: 2}"));
    assert_int_equal(f->c->data.path.n, 1);
    assert_string_equal(f->c->data.path.items[0], "only.txt");
    assert_true(f->c->data.weights.items[0] == 2);
    assert_ok(f->ctx, load_text(f, "data:\n  path: []\n  weights:\n"));
    assert_int_equal(f->c->data.path.n, 0);
    assert_int_equal(f->c->data.weights.n, 0);
}

TEST_IN(setup, teardown, huge_file_is_refused) {
    fixture *f = *state;
    size_t n = (1 << 20) + 1;
    char *data = malloc(n);
    assert_non_null(data);
    memset(data, '#', n);
    write_file("huge.yaml", data, n);
    free(data);
    assert_refused(f, weft_config_load(f->ctx, f->c, "huge.yaml"), WEFT_ERR_FILE,
                   "huge.yaml has 1048577 bytes, expected at most 1048576");
}

TEST_IN(setup, teardown, deep_nesting_is_refused_at_once) {
    fixture *f = *state;
    char yaml[20001];
    memset(yaml, '[', sizeof yaml - 1);
    yaml[sizeof yaml - 1] = '\0';
    assert_int_not_equal(load_text(f, yaml), WEFT_OK);
    memcpy(yaml, "data: {path: ", 13);
    assert_int_not_equal(load_text(f, yaml), WEFT_OK);
}

/* Whatever the bytes: a status, and a sentence exactly when it is not OK. */
static void load_any(const char *bytes, size_t n) {
    weft_ctx *ctx;
    weft_config *c;
    write_file("fuzz.yaml", bytes, n);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_config_create(ctx, &c), WEFT_OK);
    weft_status status = weft_config_load(ctx, c, "fuzz.yaml");
    assert_int_equal(status == WEFT_OK, weft_ctx_message(ctx)[0] == '\0');
    if (status == WEFT_OK) status = wefti_config_settle(ctx, c);
    assert_int_equal(status == WEFT_OK, weft_ctx_message(ctx)[0] == '\0');
    assert_null(strchr(weft_ctx_message(ctx), '\n'));
    weft_config_destroy(ctx, c);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(random_bytes_never_crash) {
    char bytes[256];
    for (uint64_t round = 0; round < 1500; round++) {
        size_t n = wefti_rng_u64(1, WEFTI_STREAM_TEST, round, 0) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(wefti_rng_u64(1, WEFTI_STREAM_TEST, round, i + 1) & 0xff);
        load_any(bytes, n);
    }
}

TEST(mutated_yaml_never_crashes) {
    static const char sound[] = "method: hsdp # note\nrun:\n  folder: \"a b\"\n  steps: "
                                "5k\ndata:\n  path: [a, 'b']\n"
                                "  weights:\n  - 1\n  - 2.5\nmesh: {nodes: 2, link: "
                                "'1Gbit,1ms', min_message: 1MB}\n"
                                "optimizer.lr: 1e-3\nmodel:\n  tied: auto\n";
    static const char tokens[] = "\n\t :-[]{},&*!|>'\"%@`#?0.e~\xff\x80\xc3";
    char bytes[sizeof sound];
    for (uint64_t round = 0; round < 4000; round++) {
        memcpy(bytes, sound, sizeof sound);
        uint64_t changes = 1 + wefti_rng_u64(2, WEFTI_STREAM_TEST, round, 0) % 4;
        for (uint64_t k = 0; k < changes; k++) {
            uint64_t where = wefti_rng_u64(2, WEFTI_STREAM_TEST, round, 2 * k + 1);
            uint64_t what = wefti_rng_u64(2, WEFTI_STREAM_TEST, round, 2 * k + 2);
            bytes[where % (sizeof sound - 1)] = tokens[what % (sizeof tokens - 1)];
        }
        load_any(bytes, sizeof sound - 1);
    }
}
