/* SPDX-License-Identifier: MIT */
/* A model's tensors are found by name, however many they and their files are. */
#include "check.h"
#include "checkpoint/weights.h"

#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"

enum { N_FILES = 4096, N_EACH = 49, CEILING_S = 12 };

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

/* Tensors without bytes: file f holds those of numbers f, f + N_FILES, ... */
static void write_file(int f) {
    wefti_buffer b = {0};
    char row[120];
    wefti_buffer_put(ctx, &b, "\0\0\0\0\0\0\0\0", 8);
    for (int k = 0; k < N_EACH; k++) {
        snprintf(row, sizeof row,
                 "%c\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
                 k ? ',' : '{', f + k * N_FILES);
        wefti_buffer_text(ctx, &b, row);
    }
    wefti_buffer_text(ctx, &b, "}");
    assert_ok(ctx, b.status);
    for (int i = 0; i < 8; i++) b.bytes[i] = (char)((uint64_t)(b.n - 8) >> (8 * i));
    snprintf(row, sizeof row, "many/f%04d.safetensors", f);
    FILE *file = fopen(row, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(b.bytes, 1, (size_t)b.n, file), b.n);
    assert_int_equal(fclose(file), 0);
    wefti_buffer_fini(ctx, &b);
}

static void write_map(void) {
    wefti_buffer b = {0};
    char row[120];
    wefti_buffer_text(ctx, &b, "{\"weight_map\":");
    for (int i = 0; i < N_FILES * N_EACH; i++) {
        snprintf(row, sizeof row, "%c\"t%d\":\"f%04d.safetensors\"", i ? ',' : '{', i,
                 i % N_FILES);
        wefti_buffer_text(ctx, &b, row);
    }
    wefti_buffer_text(ctx, &b, "}}");
    assert_ok(ctx, b.status);
    assert_ok(ctx,
              wefti_file_write(ctx, "many/model.safetensors.index.json", b.bytes, b.n));
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(setup, teardown, two_hundred_thousand_tensors_of_four_thousand_files_are_found) {
    wefti_weights *w;
    char name[40];
    mkdir("many", 0777);
    for (int f = 0; f < N_FILES; f++) write_file(f);
    write_map();
    double begun = (double)clock() / CLOCKS_PER_SEC;
    assert_ok(ctx, wefti_weights_open(ctx, "many", &w));
    assert_int_equal(wefti_weights_count(w), N_FILES * N_EACH);
    for (int i = 0; i < N_FILES * N_EACH; i++) {
        snprintf(name, sizeof name, "t%d", i);
        int index = wefti_weights_find(w, name);
        assert_true(index >= i % N_FILES * N_EACH && index < (i % N_FILES + 1) * N_EACH);
        assert_string_equal(wefti_weights_spec(w, index)->name, name);
    }
    assert_int_equal(wefti_weights_find(w, "t"), -1);
    assert_int_equal(wefti_weights_find(w, "u"), -1);
    assert_int_equal(wefti_weights_find(w, ""), -1);
    assert_ok(ctx, wefti_weights_close(ctx, w));
    double took = (double)clock() / CLOCKS_PER_SEC - begun;
    if (took > CEILING_S) fail_msg("%.0f s, expected at most %d s", took, CEILING_S);
}
