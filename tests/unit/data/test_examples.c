/* SPDX-License-Identifier: MIT */
/* Rows that are pairs of texts or images: every example of a file comes out as it lies
 * there, however many there are, and what is no such file is refused. */
#include "datatest.h"

#include <weft/dataset.h>

enum { T = 24, START = 256, END = 257, MANY = 300 };

static weft_tokenizer *bytes_of(weft_ctx *ctx) {
    weft_tokenizer *tokenizer;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &tokenizer));
    return tokenizer;
}

/* Opens paths whole for validation, whose rows come in the files' order. */
static weft_status open_rows(weft_ctx *ctx, weft_rows rows, const char *const *paths,
                             int n, const weft_tokenizer *tokenizer, weft_dataset **out) {
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = paths,
                                  .n_paths = n,
                                  .validation_paths = paths,
                                  .n_validation_paths = n,
                                  .rows = rows,
                                  .T = T,
                                  .source_length = T,
                                  .vocab = START + 2};
    return weft_dataset_open(ctx, &config, tokenizer, out);
}

/* Text k, of a length that changes from one to the next, some longer than a row. */
static int text_at(int k, char *out) {
    int n = (int)pick(5, k, T + 8);
    for (int i = 0; i < n; i++) out[i] = (char)('a' + (k * 7 + i) % 26);
    out[n] = 0;
    return n;
}

static void assert_pair(const weft_dataset *d, int k) {
    int32_t tokens[2 * T], targets[T];
    char source[2 * T], target[2 * T];
    int n = text_at(2 * k, source), m = text_at(2 * k + 1, target);
    weft_dataset_validation_batch(d, k, 1, tokens, targets);
    for (int i = 0; i < T; i++) {
        int most = n < T - 1 ? n : T - 1; /* a source keeps its end */
        assert_int_equal(tokens[i], i < most ? source[i] : i == most ? END : -1);
        assert_int_equal(targets[i], i < m ? target[i] : i == m ? END : -1);
        if (i > 0 && i <= m) assert_int_equal(tokens[T + i], target[i - 1]);
    }
    assert_int_equal(tokens[T], START);
    assert_int_equal(weft_dataset_validation_targets(d, k, 1), m + 1 < T ? m + 1 : T);
}

static void check_pairs(weft_ctx *ctx, const char *const *paths, int n) {
    weft_tokenizer *tokenizer = bytes_of(ctx);
    weft_dataset *d;
    assert_ok(ctx, open_rows(ctx, WEFT_ROWS_PAIRS, paths, n, tokenizer, &d));
    assert_int_equal(weft_dataset_validation_rows(d), MANY);
    for (int k = 0; k < MANY; k++) assert_pair(d, k);
    weft_dataset_close(ctx, d);
    weft_tokenizer_destroy(ctx, tokenizer);
}

/* So many that every array of the reader has grown several times. */
TEST_IN(with_ctx, without_leak, pairs_are_what_their_lines_say) {
    weft_ctx *ctx = *state;
    static char tsv[MANY * 4 * T], lines[2][MANY * 2 * T], json[MANY * 6 * T];
    size_t at = 0, at_json = 0, at_line[2] = {0, 0};
    for (int k = 0; k < MANY; k++) {
        char text[2][2 * T];
        for (int i = 0; i < 2; i++) {
            text_at(2 * k + i, text[i]);
            at_line[i] += (size_t)snprintf(lines[i] + at_line[i], 2 * T, "%s%s", text[i],
                                           k % 2 ? "\r\n" : "\n");
        }
        at += (size_t)snprintf(tsv + at, 4 * T, "%s\t%s%s%s\n", text[0], text[1],
                               k % 3 ? "" : "\tignored", k % 2 ? "\r" : "");
        at_json += (size_t)snprintf(json + at_json, 6 * T,
                                    "{\"target\": \"%s\", \"source\": \"%s\"}\n\n",
                                    text[1], text[0]);
    }
    write_file(ctx, "pairs.tsv", tsv, (int64_t)at);
    write_file(ctx, "pairs.jsonl", json, (int64_t)at_json);
    write_file(ctx, "pairs.en", lines[0], (int64_t)at_line[0]);
    write_file(ctx, "pairs.de", lines[1], (int64_t)at_line[1]);
    check_pairs(ctx, (const char *[]){"pairs.tsv"}, 1);
    check_pairs(ctx, (const char *[]){"pairs.jsonl"}, 1);
    check_pairs(ctx, (const char *[]){"pairs.en", "pairs.de"}, 2);
}

static void refuses(weft_ctx *ctx, weft_rows rows, const char *const *paths, int n,
                    weft_status status, const char *part) {
    weft_tokenizer *tokenizer = bytes_of(ctx);
    weft_dataset *d = NULL;
    assert_refused(ctx, open_rows(ctx, rows, paths, n, tokenizer, &d), status, part);
    assert_null(d);
    weft_tokenizer_destroy(ctx, tokenizer);
}

static void refuses_text(weft_ctx *ctx, const char *path, const char *text,
                         const char *part) {
    write_file(ctx, path, text, (int64_t)strlen(text));
    refuses(ctx, WEFT_ROWS_PAIRS, &path, 1, WEFT_ERR_FORMAT, part);
}

TEST_IN(with_ctx, without_leak, what_holds_no_pairs_is_refused) {
    weft_ctx *ctx = *state;
    refuses_text(ctx, "bad.tsv", "a\tb\n\nc d\n",
                 "line 3 of bad.tsv has no tab, expected source, tab, target");
    refuses_text(ctx, "bad.tsv", "\n\n", "bad.tsv has no examples");
    refuses_text(ctx, "bad.jsonl", "{\"source\": \"a\"}\n",
                 "line 1 of bad.jsonl has no texts \"source\" and \"target\"");
    refuses_text(ctx, "bad.jsonl", "{\"source\": \"a\",\n", "bad.jsonl");
    write_file(ctx, "one.en", "a\nb\n", 4);
    write_file(ctx, "one.de", "a\n", 2);
    refuses(ctx, WEFT_ROWS_PAIRS, (const char *[]){"one.en", "one.de"}, 2,
            WEFT_ERR_FORMAT, "one.en has 2 lines and one.de 1");
    refuses(ctx, WEFT_ROWS_PAIRS, (const char *[]){"one.en"}, 1, WEFT_ERR_CONFIG,
            "one.en has no partner");
}

enum { SIDE = 3, IMAGES = 40, CLASSES = 7 };

static unsigned char pixel_at(int k, int i) { return (unsigned char)(k * 31 + i * 5); }

static void check_images(weft_ctx *ctx, const char *const *paths) {
    weft_dataset *d;
    int32_t tokens[SIDE * SIDE], label;
    assert_ok(ctx, open_rows(ctx, WEFT_ROWS_IMAGES, paths, 2, NULL, &d));
    assert_int_equal(weft_dataset_validation_rows(d), IMAGES);
    assert_int_equal(weft_dataset_image(d), SIDE);
    assert_int_equal(weft_dataset_channels(d), 1);
    assert_int_equal(weft_dataset_classes(d), CLASSES);
    for (int k = 0; k < IMAGES; k++) {
        weft_dataset_validation_batch(d, k, 1, tokens, &label);
        assert_int_equal(label, k % CLASSES);
        for (int i = 0; i < SIDE * SIDE; i++) assert_int_equal(tokens[i], pixel_at(k, i));
    }
    weft_dataset_close(ctx, d);
}

/* An array's file: its head, and its numbers. */
static void write_array(weft_ctx *ctx, const char *path, const char *head, size_t n_head,
                        bool images) {
    unsigned char all[256 + IMAGES * SIDE * SIDE];
    size_t n = n_head, per = images ? SIDE * SIDE : 1;
    memcpy(all, head, n_head);
    for (int k = 0; k < IMAGES; k++)
        for (size_t i = 0; i < per; i++, n++) {
            if (images)
                all[n] = pixel_at(k, (int)i);
            else
                all[n] = (unsigned char)(k % CLASSES);
        }
    write_file(ctx, path, all, (int64_t)n);
}

/* "\x93NUMPY", version 1.0, a dictionary filled up with spaces to 64 bytes in all. */
static void write_npy(weft_ctx *ctx, const char *path, const char *shape, bool images) {
    char head[129];
    int n = snprintf(head, sizeof head,
                     "\x93NUMPY\x01%c%c%c{'descr': '|u1', 'fortran_order': False, "
                     "'shape': (%s), }",
                     0, 118, 0, shape);
    memset(head + n, ' ', (size_t)(127 - n));
    head[127] = '\n';
    write_array(ctx, path, head, 128, images);
}

TEST_IN(with_ctx, without_leak, images_are_what_their_arrays_say) {
    weft_ctx *ctx = *state;
    static const char idx3[] = {0, 0, 8, 3,    0, 0, 0, IMAGES,
                                0, 0, 0, SIDE, 0, 0, 0, SIDE};
    static const char idx1[] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    write_array(ctx, "images.idx", idx3, sizeof idx3, true);
    write_array(ctx, "classes.idx", idx1, sizeof idx1, false);
    check_images(ctx, (const char *[]){"images.idx", "classes.idx"});
    write_npy(ctx, "images.npy", "40, 3, 3", true);
    write_npy(ctx, "classes.npy", "40,", false);
    check_images(ctx, (const char *[]){"images.npy", "classes.npy"});
}

TEST_IN(with_ctx, without_leak, arrays_of_other_sizes_are_refused) {
    weft_ctx *ctx = *state;
    const char *const paths[] = {"images.npy", "classes.npy"};
    write_npy(ctx, "classes.npy", "40,", false);
    write_npy(ctx, "images.npy", "40, 3, 4", true);
    refuses(ctx, WEFT_ROWS_IMAGES, paths, 2, WEFT_ERR_FORMAT, "images.npy");
    write_npy(ctx, "images.npy", "39, 3, 3",
              true); /* nine numbers more than its shape has */
    refuses(ctx, WEFT_ROWS_IMAGES, paths, 2, WEFT_ERR_FORMAT,
            "its length is not that of its shape");
    write_npy(ctx, "images.npy", "9223372036854775807, 3, 3", true);
    refuses(ctx, WEFT_ROWS_IMAGES, paths, 2, WEFT_ERR_FORMAT, "images.npy");
    write_npy(ctx, "images.npy", "120, 3", true);
    refuses(ctx, WEFT_ROWS_IMAGES, paths, 2, WEFT_ERR_FORMAT, "2 dimensions");
    write_npy(ctx, "images.npy", "40, 3, 3", true);
    refuses(ctx, WEFT_ROWS_IMAGES, paths, 1, WEFT_ERR_CONFIG, "has no partner");
}
