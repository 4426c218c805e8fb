/* SPDX-License-Identifier: MIT */
/* A program that embeds weft in a locale whose numbers have a comma: the same configuration, the
 * same bits, files that others read. The locale is one file in the C library's own format
 * (glibc, little-endian), so that no package has to bring it; elsewhere the test is skipped. */
#include <locale.h>
#include <sys/stat.h>

#include <jansson.h>

#include "dist/training.h"

static bool in_comma_locale(void) {
    static const unsigned char numeric[] = {
        0x14, 0x11, 0x03, 0x20, 6,    0,   0,   0,   0x20, 0,   0,   0,   0x22, 0,   0, 0,
        0x24, 0,    0,    0,    0x28, 0,   0,   0,   0x2c, 0,   0,   0,   0x30, 0,   0, 0,
        ',',  0,    '.',  0,    3,    3,   0,   0,   ',',  0,   0,   0,   '.',  0,   0, 0,
        'A',  'N',  'S',  'I',  '_',  'X', '3', '.', '4',  '-', '1', '9', '6',  '8', 0};
    char text[16];
    mkdir("comma", 0777);
    FILE *file = fopen("comma/LC_NUMERIC", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(numeric, 1, sizeof numeric, file), sizeof numeric);
    fclose(file);
    setenv("LOCPATH", ".", 1);
    if (!setlocale(LC_NUMERIC, "comma")) return false;
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

static void leave_locale(void) { setlocale(LC_NUMERIC, "C"); }

static const char *const odd_keys[] = {"optimizer.lr=1.5e-3",
                                       "model.dropout=0.25",
                                       "mesh.nodes=2",
                                       "mesh.link=1Gbit,0.5ms",
                                       "method=flexdemo",
                                       "optimizer.groups=[* lr=0.5]",
                                       NULL};

TEST(a_run_has_the_same_bits_in_every_locale) {
    static outcome plain, comma;
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx,
              wefti_file_remove_tree(ctx, "plain")); /* of an earlier run of this test */
    weft_ctx_destroy(ctx);
    train(&plain, "same", false, odd_keys);
    assert_trained(&plain);
    assert_int_equal(rename("same/config.yaml", "plain.yaml"), 0);
    assert_int_equal(rename("same", "plain"), 0);
    if (!in_comma_locale()) skip();
    train(&comma, "same", false, odd_keys);
    leave_locale();
    assert_trained(&comma);
    assert_same_file("same/config.yaml", "plain.yaml");
    assert_same_file("same/checkpoints/step-00000012/model.safetensors",
                     "plain/checkpoints/step-00000012/model.safetensors");
    assert_same_file("same/checkpoints/step-00000012/config.json",
                     "plain/checkpoints/step-00000012/config.json");
}

/* Every line of the run's files is JSON, with numbers that are numbers. */
TEST(what_it_writes_is_read_elsewhere) {
    static const char *const files[] = {"both/metrics.jsonl", "both/nodes.jsonl",
                                        "both/views.jsonl", "both/timeline.json"};
    static outcome run;
    if (!in_comma_locale()) skip();
    train(&run, "both", false, odd_keys);
    leave_locale();
    assert_trained(&run);
    for (int i = 0; i < 4; i++) {
        int64_t n;
        char *text = slurp(files[i], &n);
        text[n] = '\0';
        for (char *line = text; *line && i < 3; line += strcspn(line, "\n") + 1) {
            json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);
            if (!object) fail_msg("%s: %.200s", files[i], line);
            json_decref(object);
        }
        json_t *whole = i == 3 ? json_loads(text, 0, NULL) : NULL;
        assert_true(i < 3 || json_is_object(whole));
        json_decref(whole);
        free(text);
    }
    train(&run, "both", true,
          KEYS("method=flexdemo", "mesh.nodes=2", "run.steps=16", "optimizer.lr=1.5e-3",
               "model.dropout=0.25"));
    assert_trained(&run); /* begun there, resumed here */
    if (!in_comma_locale()) skip();
    train(&run, "both", true,
          KEYS("method=flexdemo", "mesh.nodes=2", "run.steps=18", "optimizer.lr=1.5e-3",
               "model.dropout=0.25"));
    leave_locale();
    assert_trained(&run); /* and there again */
}

static double rate_of_method(weft_ctx *ctx) {
    weft_config *c;
    assert_ok(ctx, weft_config_create(ctx, &c));
    assert_ok(ctx, weft_config_set(ctx, c, "method=async-demo"));
    assert_ok(ctx, weft_config_set(ctx, c, "model.width=96"));
    assert_ok(ctx, weft_config_finish(ctx, c));
    double rate = c->optimizer.lr;
    weft_config_destroy(ctx, c);
    return rate;
}

TEST(a_methods_own_rate_is_read_in_every_locale) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    double rate = rate_of_method(ctx);
    if (!in_comma_locale()) skip();
    double again = rate_of_method(ctx);
    leave_locale();
    weft_ctx_destroy(ctx);
    assert_true(rate > 0 && again == rate);
}
