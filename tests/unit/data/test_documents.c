/* SPDX-License-Identifier: MIT */
/* Texts of all layouts and packings become the documents that they hold; what is not text is
 * refused by name. */
#include "unit/data/datatest.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <weft/shard_file.h>

#include "base/buffer.h"
#include "text/sniff.h"
#include "data/source.h"

/* Documents as one text, each followed by '|'. */
static weft_status join(weft_ctx *ctx, void *user, const char *text, int64_t n,
                        bool ends) {
    wefti_buffer *b = user;
    wefti_buffer_put(ctx, b, text, n);
    if (ends) wefti_buffer_text(ctx, b, "|");
    return b->status;
}

static void assert_documents(weft_ctx *ctx, const char *path, const wefti_fields *fields,
                             const char *expected) {
    static const wefti_fields usual = {NULL, NULL};
    wefti_buffer b = {0};
    assert_ok(ctx, wefti_documents_read(ctx, path, fields ? fields : &usual, join, &b));
    assert_string_equal(b.bytes, expected);
    wefti_buffer_fini(ctx, &b);
}

static void assert_no_documents(weft_ctx *ctx, const char *path,
                                const wefti_fields *fields, const char *words) {
    static const wefti_fields usual = {NULL, NULL};
    wefti_buffer b = {0};
    assert_refused(ctx,
                   wefti_documents_read(ctx, path, fields ? fields : &usual, join, &b),
                   WEFT_ERR_FORMAT, words);
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(with_ctx, without_leak, lines_give_one_field) {
    weft_ctx *ctx = *state;
    static const wefti_fields body = {.field = "body"};
    put_text("a.jsonl",
             "{\"text\": \"one\\ntwo\", \"body\": \"x\"}\n\n  \r\n"
             "{\"body\": \"\\u00e9\", \"text\": \"\"}\r\n{\"text\": \"end\", \"body\": "
             "\"z\"}");
    assert_documents(ctx, "a.jsonl", NULL, "one\ntwo||end|");
    assert_documents(ctx, "a.jsonl", &body, "x|\xc3\xa9|z|");
    put_text("b.jsonl", "{\"text\": \"a\"}\n{\"title\": \"b\", \"url\": \"c\"}\n");
    assert_no_documents(ctx, "b.jsonl", NULL,
                        "line 2: there is no field 'text', but title, url");
    put_text("c.jsonl", "{\"text\": 5}\n");
    assert_no_documents(ctx, "c.jsonl", NULL,
                        "line 1: expected text in the field 'text'");
    put_text("d.jsonl", "{\"text\": \"a\"}\n[1]\n");
    assert_no_documents(ctx, "d.jsonl", NULL, "line 2");
    put_text("e.jsonl", "{\"text\": \"a\"");
    assert_no_documents(ctx, "e.jsonl", NULL, "line 1");
}

TEST_IN(with_ctx, without_leak, tables_give_one_column) {
    weft_ctx *ctx = *state;
    static const wefti_fields label = {.column = "label"};
    put_text("a.csv", "\xEF\xBB\xBFtext,label\r\n"
                      "plain,1\r\n"
                      "\"with, comma\",2\r\n"
                      "\"with \"\"quotes\"\" and\nnewline\",\"3\"\r\n"
                      "\r\n"
                      ",4\n"
                      "\"\",5\n"
                      "last,6");
    assert_documents(ctx, "a.csv", NULL,
                     "plain|with, comma|with \"quotes\" and\nnewline|||last|");
    assert_documents(ctx, "a.csv", &label, "1|2|3|4|5|6|");
    put_text("a.tsv", "id\ttext\n1\ta, \"b\"\n2\tc\n");
    assert_documents(ctx, "a.tsv", NULL, "a, \"b\"|c|");
    put_text("b.csv", "id,body\n1,x\n");
    assert_no_documents(ctx, "b.csv", NULL, "none of the 2 columns is named 'text'");
    put_text("c.csv", "id,text\n1,x\n2,y,z\n");
    assert_no_documents(ctx, "c.csv", NULL, "line 3: a record of 3 fields, expected 2");
    put_text("d.csv", "id,text\n1,\"x\ny\nz\n");
    assert_no_documents(ctx, "d.csv", NULL, "line 2: a field in quotes does not end");
    put_text("e.csv", "id,text\n1,\"x\"y\n");
    assert_no_documents(ctx, "e.csv", NULL, "line 2: expected a separator");
    put_text("f.csv", "");
    assert_no_documents(ctx, "f.csv", NULL, "is empty");
}

/* -- packed -- */

static int64_t pack_gzip(const char *text, int64_t n, unsigned char *out, int64_t room) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    int64_t packed = room - (int64_t)z.avail_out;
    deflateEnd(&z);
    return packed;
}

static int64_t pack_zstd(const char *text, int64_t n, unsigned char *out, int64_t room) {
    size_t packed = ZSTD_compress(out, (size_t)room, text, (size_t)n, 3);
    assert_false(ZSTD_isError(packed));
    return (int64_t)packed;
}

enum { N = 700000 }; /* more than one piece, packed and unpacked */

/* Two members or frames, one after another, are one text; each cut of the file is an error. */
TEST_IN(with_ctx, without_leak, packed_texts_are_unpacked) {
    weft_ctx *ctx = *state;
    static char text[N + 1], expected[N + 2];
    static unsigned char packed[2 * N];
    static const char *const paths[] = {"a.txt.gz", "a.txt.zst"};
    mixed_text(5, text, N, true);
    memcpy(expected, text, N);
    expected[N] = '|';
    for (int k = 0; k < 2; k++) {
        int64_t (*pack)(const char *, int64_t, unsigned char *, int64_t) = k ? pack_zstd
                                                                             : pack_gzip;
        int64_t first = pack(text, N / 3, packed, N);
        int64_t n = first + pack(text + N / 3, N - N / 3, packed + first, N);
        write_file(ctx, paths[k], packed, n);
        assert_documents(ctx, paths[k], NULL, expected);
        write_file(ctx, "other-name", packed, n); /* known by its first bytes */
        assert_documents(ctx, "other-name", NULL, expected);
        write_file(ctx, paths[k], packed, n - 9);
        assert_no_documents(ctx, paths[k], NULL, "ends in the middle");
        write_file(ctx, paths[k], packed, first / 2);
        assert_no_documents(ctx, paths[k], NULL, "ends in the middle");
        for (int i = 0; i < 64; i++) packed[first / 2 + i] ^= 0x5A;
        write_file(ctx, paths[k], packed, n);
        assert_no_documents(ctx, paths[k], NULL, "data");
    }
}

TEST_IN(with_ctx, without_leak, packed_lines_are_lines) {
    weft_ctx *ctx = *state;
    static const char text[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    unsigned char packed[400];
    int64_t n = pack_gzip(text, sizeof text - 1, packed, sizeof packed);
    memset(packed + n, 0, 100); /* zeros pad what tapes and some programs write */
    write_file(ctx, "a.jsonl.gz", packed, n + 100);
    assert_documents(ctx, "a.jsonl.gz", NULL, "one|two|");
    n = pack_zstd(text, sizeof text - 1, packed, sizeof packed);
    write_file(ctx, "a.jsonl.zst", packed, n);
    assert_documents(ctx, "a.jsonl.zst", NULL, "one|two|");
}

/* -- what is not text -- */

TEST_IN(with_ctx, without_leak, binary_files_are_named) {
    weft_ctx *ctx = *state;
    char head[300] = {0};
    static const struct {
        const char *bytes;
        int n;
        const char *name;
    } cases[] = {{"\x89PNG\r\n\x1A\n", 8, "a PNG picture"},
                 {"\xFF\xD8\xFF\xE0", 4, "a JPEG picture"},
                 {"PK\3\4 bytes up to thirty, then name/data.pkl", 43,
                  "a file of torch.save (weights begin a run as model.init=FOLDER"},
                 {"PK\3\4", 4, "a ZIP archive"},
                 {"PAR1", 4, "a Parquet table (python examples/tables.py FILE"},
                 {"\xFF\xFF\xFF\xFF", 4, "an Arrow stream"},
                 {"\x7F"
                  "ELF",
                  4, "a program or library"},
                 {"\xFF\xFEh\0i\0", 6, "text in UTF-16"},
                 {"what\0else", 9, "a binary file (it holds NUL bytes)"}};
    for (int k = 0; k < COUNT(cases); k++) {
        memset(head, 0, sizeof head);
        memcpy(head, cases[k].bytes, (size_t)cases[k].n);
        write_file(ctx, "binary", head, sizeof head);
        assert_no_documents(ctx, "binary", NULL, cases[k].name);
        assert_no_documents(ctx, "binary", NULL, "expected text in UTF-8");
    }
    assert_null(wefti_sniff("PAR1 is how a text may begin", 28));
    assert_null(wefti_sniff("caf\xE9 in Latin-1 is not UTF-8, but text", 36));
    assert_null(wefti_sniff("", 0));
}

/* Printable from the first byte to the last, and no text to train on all the same. */
TEST_IN(with_ctx, without_leak, pages_and_documents_are_named) {
    static const struct {
        const char *head, *name; /* NULL: a text */
    } cases[] = {
        {"%PDF-1.4\n\xE2\xE3\xCF\xD3 and so on", "a PDF document"},
        {"%PDF-1.4\n1 0 obj", "a PDF document"},
        {"%PDF is a format", NULL},
        {"%!PS-Adobe-3.0", "a PostScript document"},
        {"{\\rtf1\\ansi words}", "an RTF document"},
        {"version https://git-lfs.github.com/spec/v1\noid ", "what Git LFS leaves"},
        {"\xEF\xBB\xBF\n <!DOCTYPE html>", "an HTML page"},
        {"<html lang=en>", "an HTML page"},
        {"<html>", "an HTML page"},
        {"<htmlx> is no tag", NULL},
        {"<mediawiki> is text to train on", NULL}};
    for (int k = 0; k < COUNT(cases); k++) {
        const char *found = wefti_sniff(cases[k].head, (int64_t)strlen(cases[k].head));
        if (cases[k].name ? !found || strncmp(found, cases[k].name, strlen(cases[k].name))
                          : found != NULL)
            fail_msg("'%s' is %s", cases[k].head, found ? found : "text");
    }
    assert_non_null(strstr(wefti_sniff("h\0i\0 \0y\0o\0u\0", 12), "-f UTF-16LE"));
    assert_non_null(strstr(wefti_sniff("\0h\0i\0 \0y\0o\0u", 12), "-f UTF-16BE"));
    assert_non_null(strstr(wefti_sniff("\0h\0\0\0\0\0y\0o\0u", 12), "a binary file"));
    assert_non_null(strstr(wefti_sniff_mark("\x80\4\x95\0\0", 5), "a pickle"));
}

TEST_IN(with_ctx, without_leak, json_is_told_from_a_text_with_brackets) {
    weft_ctx *ctx = *state;
    static const char list[] = "a JSON list (jq -c '.[]'",
                      object[] = "a JSON object (jq -c . ",
                      lines[] = "JSON, an object on each line",
                      notebook[] = "a Jupyter notebook";
    static const struct {
        const char *head, *name;
    } cases[] = {{"[{\"text\": \"a\"}, {\"te", list},
                 {"{\"rows\": [1, -2.5e3, true, null, \"\\\"\"]}\n", object},
                 {"{\"rows\": [fal", object},
                 {"[[], {}]", list},
                 {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n", lines},
                 {"{\n \"cells\": [\n  {\n   \"cell_type\": \"code\"", notebook},
                 {"[a link](page)", NULL},
                 {"[1] Smith, of 1998", NULL},
                 {"[1] [2] both", NULL},
                 {"[\"Yes\", she said]", NULL},
                 {"[test]", NULL},
                 {"[1}", NULL},
                 {"{a: 1}", NULL},
                 {"{1: 2}", NULL},
                 {"{\"a\"; 1}", NULL},
                 {"{\"a\": 1, 2}", NULL},
                 {"plain [1, 2]", NULL},
                 {"", NULL}};
    for (int k = 0; k < COUNT(cases); k++) {
        const char *head = cases[k].head;
        const char *found = wefti_sniff_json(head, (int64_t)strlen(head));
        if (cases[k].name ? !found || strncmp(found, cases[k].name, strlen(cases[k].name))
                          : found != NULL)
            fail_msg("'%s' is %s", head, found ? found : "text");
    }
    write_file(ctx, "x.json", "[1, 2]\n", 7);
    assert_no_documents(ctx, "x.json", NULL, "x.json is a JSON list");
    write_file(ctx, "x.txt.gz", "{\"a\": 1}\n{\"a\": 2}\n", 18);
    assert_no_documents(ctx, "x.txt.gz", NULL, "is JSON, an object on each line");
}

TEST_IN(with_ctx, without_leak, shards_that_are_archives_are_named) {
    weft_ctx *ctx = *state;
    weft_shard *shard;
    char zip[64] = "PK\3\4";
    write_file(ctx, "pytorch_model.bin", zip, sizeof zip);
    assert_refused(ctx, weft_shard_open(ctx, "pytorch_model.bin", NULL, &shard),
                   WEFT_ERR_FORMAT, "a ZIP archive");
}

/* -- ids -- */

static weft_tokenizer *trained(weft_ctx *ctx) {
    static char text[20000];
    weft_tokenizer *t;
    mixed_text(3, text, sizeof text, false);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 300, "gpt2", &t));
    return t;
}

typedef struct list {
    int32_t ids[10000];
    int64_t n;
} list;

static weft_status collect(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n) {
    list *l = user;
    (void)ctx;
    assert_true(l->n + n <= COUNT(l->ids));
    memcpy(l->ids + l->n, ids, (size_t)n * sizeof *ids);
    l->n += n;
    return WEFT_OK;
}

static void append_encoded(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                           list *l) {
    int32_t *ids;
    int64_t n;
    assert_ok(ctx,
              weft_tokenizer_encode(ctx, t, text, (int64_t)strlen(text), 1, &ids, &n));
    assert_ok(ctx, collect(ctx, l, ids, n));
    wefti_free(ctx, ids);
}

/* Whatever the chunks and threads: each document's own ids, then the end token. */
TEST_IN(with_ctx, without_leak, documents_are_told_apart) {
    weft_ctx *ctx = *state;
    static const char *const texts[] = {"the warp", "", "weft thread 's", "a",
                                        "the\n\n weft 4567 don't"};
    static const char lines[] = "{\"text\": \"the warp\"}\n{\"text\": \"\"}\n"
                                "{\"text\": \"weft thread 's\"}\n{\"text\": \"a\"}\n"
                                "{\"text\": \"the\\n\\n weft 4567 don't\"}\n";
    weft_tokenizer *t = trained(ctx), *bytes;
    list expected = {.n = 0};
    put_text("apart.jsonl", lines);
    for (int k = 0; k < COUNT(texts); k++) {
        if (!texts[k][0]) continue;
        append_encoded(ctx, t, texts[k], &expected);
        expected.ids[expected.n++] = weft_tokenizer_end(t);
    }
    for (int64_t chunk = 1; chunk <= 64; chunk += 7) {
        list found = {.n = 0};
        wefti_encoding how = {.tokenizer = t,
                              .threads = (int)chunk % 3,
                              .chunk_bytes = chunk,
                              .ends = true};
        assert_ok(ctx, wefti_encode_file(ctx, &how, "apart.jsonl", collect, &found));
        assert_int_equal(found.n, expected.n);
        assert_memory_equal(found.ids, expected.ids, (size_t)found.n * sizeof *found.ids);
    }
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &bytes));
    list found = {.n = 0}, newlines = {.n = 0};
    wefti_encoding how = {.tokenizer = bytes, .chunk_bytes = 10, .ends = true};
    assert_ok(ctx, wefti_encode_file(ctx, &how, "apart.jsonl", collect, &found));
    append_encoded(ctx, bytes, "the warp\nweft thread 's\na\nthe\n\n weft 4567 don't\n",
                   &newlines);
    assert_int_equal(found.n, newlines.n);
    assert_memory_equal(found.ids, newlines.ids, (size_t)found.n * sizeof *found.ids);
    weft_tokenizer_destroy(ctx, t);
    weft_tokenizer_destroy(ctx, bytes);
}

/* The mark of GPT-2's corpora separates documents, wherever the pieces of a file end. */
TEST_IN(with_ctx, without_leak, a_plain_text_may_hold_several_documents) {
    weft_ctx *ctx = *state;
    enum { PIECE = 1 << 18 };
    static char text[PIECE + 64], expected[PIECE + 64];
    put_text("mark.txt", "one<|endoftext|>\ntwo <|end of<|endoftext|>a<b<|endoftext");
    assert_documents(ctx, "mark.txt", NULL, "one|\ntwo <|end of|a<b<|endoftext|");
    for (int at = PIECE - 14; at <= PIECE + 1; at++) {
        memset(text, 'x', sizeof text);
        snprintf(text + at, 32, "<|endoftext|>y<");
        memset(expected, 'x', sizeof expected);
        snprintf(expected + at, 32, "|y<|");
        put_text("mark.txt", text);
        assert_documents(ctx, "mark.txt", NULL, expected);
    }
    list found = {.n = 0}, wanted = {.n = 0};
    weft_tokenizer *t = trained(ctx);
    wefti_encoding how = {.tokenizer = t, .chunk_bytes = 10};
    put_text("mark.txt", "<|endoftext|>the warp<|endoftext|><|endoftext|>weft thread");
    assert_ok(ctx, wefti_encode_file(ctx, &how, "mark.txt", collect, &found));
    append_encoded(ctx, t, "the warp", &wanted);
    wanted.ids[wanted.n++] = weft_tokenizer_end(t);
    append_encoded(ctx, t, "weft thread", &wanted);
    assert_int_equal(found.n, wanted.n);
    assert_memory_equal(found.ids, wanted.ids, (size_t)found.n * sizeof *found.ids);
    weft_tokenizer_destroy(ctx, t);
}

static void read_all(const wefti_source *s, list *l) {
    l->n = s->n_tokens;
    assert_true(l->n <= COUNT(l->ids));
    wefti_source_read(s, 0, l->n, l->ids);
}

TEST_IN(with_ctx, without_leak, folders_are_walked) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = trained(ctx);
    wefti_source s = {0};
    wefti_id_limit none = {0};
    wefti_source_wish wish = {.encoding = {.tokenizer = t}, .limit = &none};
    static list found, expected;
    char kind[80];
    assert_ok(ctx, wefti_file_remove_tree(ctx, "tree"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "tree/b/deep"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "tree/.git"));
    put_text("tree/c.jsonl", "{\"text\": \"three\"}\n{\"text\": \"four\"}\n");
    put_text("tree/b/deep/x.md", "two");
    put_text("tree/a.txt", "one");
    put_text("tree/b/skipped.py", "print()");
    put_text("tree/.git/hidden.txt", "hidden");
    assert_int_equal(symlink("..", "tree/b/circle"), 0);
    assert_int_equal(symlink("a.txt", "tree/d.txt"), 0);
    assert_ok(ctx, wefti_source_open(ctx, &s, "tree", &wish));
    static const char *const texts[] = {"one", "two", "three", "four", "one"};
    for (int k = 0; k < COUNT(texts); k++) {
        append_encoded(ctx, t, texts[k], &expected);
        expected.ids[expected.n++] = weft_tokenizer_end(t);
    }
    read_all(&s, &found);
    assert_int_equal(found.n, expected.n);
    assert_memory_equal(found.ids, expected.ids, (size_t)found.n * sizeof *found.ids);
    assert_string_equal(wefti_source_kind(&s, kind, sizeof kind),
                        "4 files, 1 of other kinds left out");
    wefti_source_close(ctx, &s);
    weft_tokenizer_destroy(ctx, t);
}

/* Ids that do not stay in memory are read back as those that do. */
TEST_IN(with_ctx, without_leak, many_ids_go_to_a_file) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = trained(ctx);
    static char text[9000];
    wefti_source in_memory = {0}, in_file = {0};
    wefti_id_limit limit = {0};
    wefti_source_wish wish = {.encoding = {.tokenizer = t, .chunk_bytes = 500},
                              .limit = &limit};
    static list a, b;
    mixed_text(9, text, sizeof text, true);
    write_file(ctx, "many.txt", text, sizeof text);
    assert_ok(ctx, wefti_source_open(ctx, &in_memory, "many.txt", &wish));
    limit = (wefti_id_limit){.folder = "room", .bytes_left = 2001};
    assert_ok(ctx, wefti_source_open(ctx, &in_file, "many.txt", &wish));
    assert_int_equal(in_file.texts.n_held, 1000);
    assert_int_equal(limit.bytes_left, 1);
    assert_true(in_file.texts.spill.fd >= 0 && in_memory.texts.spill.fd < 0);
    assert_int_equal(rmdir("room"), 0); /* the file has no name */
    read_all(&in_memory, &a);
    read_all(&in_file, &b);
    assert_int_equal(a.n, b.n);
    assert_true(a.n > 2000);
    assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof *a.ids);
    assert_true(in_memory.hash == in_file.hash && in_file.hash != 0);
    wefti_source_close(ctx, &in_memory);
    wefti_source_close(ctx, &in_file);
    limit.folder = NULL;
    text[4000] ^= 1;
    write_file(ctx, "many.txt", text, sizeof text);
    assert_ok(ctx, wefti_source_open(ctx, &in_memory, "many.txt", &wish));
    assert_true(in_memory.hash != in_file.hash);
    wefti_source_close(ctx, &in_memory);
    weft_tokenizer_destroy(ctx, t);
}

/* The limit is of all texts together: a folder of small ones is held no more than one large. */
TEST_IN(with_ctx, without_leak, the_texts_of_a_folder_share_the_memory) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    wefti_source s = {0}, other = {0};
    wefti_id_limit limit = {.folder = "room", .bytes_left = 2 * 7};
    wefti_source_wish wish = {.limit = &limit};
    static list found;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    wish.encoding.tokenizer = t;
    assert_ok(ctx, wefti_file_remove_tree(ctx, "small"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "small"));
    put_text("small/a.txt", "abcd\n");
    put_text("small/b.txt", "efgh\n");
    put_text("small/c.txt", "ij\n");
    assert_ok(ctx, wefti_source_open(ctx, &s, "small", &wish));
    assert_int_equal(s.texts.n_held, 7);
    assert_ok(ctx, wefti_source_open(ctx, &other, "small", &wish));
    assert_int_equal(other.texts.n_held, 0); /* the first one took it all */
    read_all(&s, &found);
    assert_int_equal(found.n, 13);
    for (int i = 0; i < 13; i++) assert_int_equal(found.ids[i], "abcd\nefgh\nij\n"[i]);
    wefti_source_read(&other, 4, 5, found.ids);
    for (int i = 0; i < 5; i++) assert_int_equal(found.ids[i], "\nefgh"[i]);
    wefti_source_close(ctx, &other);
    wefti_source_close(ctx, &s);
    assert_int_equal(rmdir("room"), 0);
    weft_tokenizer_destroy(ctx, t);
}

/* The process must not end by SIGBUS, and the ids that are gone must be seen to be. */
TEST_IN(with_ctx, without_leak, a_shard_shortened_in_place_gives_lost_tokens) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = trained(ctx);
    static char text[20000];
    static int32_t ids[20000];
    weft_shard *shard;
    mixed_text(11, text, sizeof text, false);
    write_file(ctx, "whole.txt", text, sizeof text);
    assert_ok(ctx, weft_shard_encode_text(ctx, t, "whole.txt", "whole.bin", 1, NULL));
    assert_ok(ctx, weft_shard_open(ctx, "whole.bin", t, &shard));
    int64_t n = weft_shard_tokens(shard);
    assert_int_equal(truncate("whole.bin", 64 + 2 * 100), 0);
    weft_shard_read(shard, 0, n, ids);
    for (int64_t i = 0; i < n; i++) assert_true(i < 100 ? ids[i] >= 0 : ids[i] == -1);
    weft_shard_close(ctx, shard);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, a_text_is_gathered_up_to_a_bound) {
    weft_ctx *ctx = *state;
    static const wefti_fields fields = {NULL, NULL};
    wefti_buffer b = {0};
    put_text("gather.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\\n\"}\n"
                             "{\"text\": \"three\"}\n");
    assert_ok(ctx, wefti_source_text(ctx, "gather.jsonl", &fields, 1000, &b));
    assert_string_equal(b.bytes, "one\ntwo\nthree");
    b.n = 0;
    assert_ok(ctx, wefti_source_text(ctx, "gather.jsonl", &fields, 6, &b));
    assert_string_equal(b.bytes, "one\ntw");
    assert_ok(ctx, wefti_source_twice(ctx, "gather.jsonl"));
    assert_refused(ctx, wefti_source_twice(ctx, "-"), WEFT_ERR_FILE,
                   "can be read only once");
    wefti_buffer_fini(ctx, &b);
}
