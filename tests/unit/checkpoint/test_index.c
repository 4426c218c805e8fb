/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "checkpoint/index.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

TEST(index_has_the_bytes_of_the_format) {
    wefti_listed_file file = {.n_bytes = 3};
    wefti_listing listing = {&file, 1, 1};
    char name[] = "a", *text;
    int64_t n;
    file.name = name;
    wefti_hash_text("abc", 3, file.hash);
    assert_string_equal(file.hash, "06b05ab6733a618578af5f94892f3950"); /* xxhsum -H2 */
    assert_int_equal(wefti_index_encode(ctx, 7, "{\"k\":1}", &listing, &text, &n),
                     WEFT_OK);
    static const char expected[] =
        "{\n"
        " \"format\": 1,\n"
        " \"step\": 7,\n"
        " \"layout\": {\n"
        "  \"k\": 1\n"
        " },\n"
        " \"files\": [\n"
        "  {\n"
        "   \"name\": \"a\",\n"
        "   \"n_bytes\": 3,\n"
        "   \"xxh3_128\": \"06b05ab6733a618578af5f94892f3950\"\n"
        "  }\n"
        " ],\n"
        " ";
    char tail[128], hash[WEFTI_HASH_TEXT];
    wefti_hash_text(expected, sizeof expected - 1, hash);
    snprintf(tail, sizeof tail, "\"index_xxh3_128\": \"%s\"\n}\n", hash);
    assert_int_equal(n, sizeof expected - 1 + strlen(tail));
    assert_memory_equal(text, expected, sizeof expected - 1);
    assert_string_equal(text + sizeof expected - 1, tail);
    wefti_free(ctx, text);
}

typedef struct bad_index {
    const char *before; /* what comes before the hash */
    const char *words;
} bad_index;

#define FILES(list) "{\"format\":1,\"step\":1,\"layout\":{},\"files\":" list ","
#define HASH "\"xxh3_128\":\"06b05ab6733a618578af5f94892f3950\""

/* The hash of each is right: these were made so, not damaged. */
static const bad_index bad_indexes[] = {
    {"", "not a JSON object"},
    {"[", "not a JSON object"},
    {"{\"format\":2,\"step\":1,\"layout\":{},\"files\":[],", "format 2, expected 1"},
    {"{\"step\":1,\"layout\":{},\"files\":[],", "format 0, expected 1"},
    {"{\"format\":1,\"step\":-1,\"layout\":{},\"files\":[],", "step"},
    {"{\"format\":1,\"layout\":{},\"files\":[],", "step"},
    {"{\"format\":1,\"step\":1,\"layout\":[],\"files\":[],", "layout"},
    {"{\"format\":1,\"step\":1,\"files\":[],", "layout"},
    {"{\"format\":1,\"step\":1,\"layout\":{},\"files\":{},", "files"},
    {"{\"format\":1,\"format\":1,\"step\":1,\"layout\":{},\"files\":[],", "duplicate"},
    {FILES("[7]"), "entry 0"},
    {FILES("[{\"name\":\"a\",\"n_bytes\":1}]"), "entry 0"},
    {FILES("[{\"name\":\"a\",\"n_bytes\":1,\"xxh3_128\":\"06\"}]"), "entry 0"},
    {FILES("[{\"name\":\"a\",\"n_bytes\":\"1\"," HASH "}]"), "entry 0"},
    {FILES("[{\"name\":7,\"n_bytes\":1," HASH "}]"), "entry 0"},
    {FILES("[{\"name\":\"b\",\"n_bytes\":1," HASH "},{\"name\":\"a\",\"n_bytes\":1," HASH
           "}]"),
     "not sorted"},
    {FILES("[{\"name\":\"a\",\"n_bytes\":1," HASH "},{\"name\":\"a\",\"n_bytes\":1," HASH
           "}]"),
     "not sorted"},
};

TEST(wrong_contents_under_a_right_hash_are_refused) {
    for (size_t i = 0; i < sizeof bad_indexes / sizeof bad_indexes[0]; i++) {
        char text[1024], hash[WEFTI_HASH_TEXT], *layout;
        wefti_listing listing;
        int64_t step;
        const char *before = bad_indexes[i].before;
        wefti_hash_text(before, strlen(before), hash);
        snprintf(text, sizeof text, "%s\"index_xxh3_128\": \"%s\"\n}\n", before, hash);
        weft_status status = wefti_index_decode(
            ctx, "i.json", text, (int64_t)strlen(text), &step, &layout, &listing);
        if (before[0]) {
            if (status != WEFT_ERR_FORMAT ||
                !strstr(weft_ctx_message(ctx), bad_indexes[i].words))
                fail_msg("index %zu: %s", i, weft_ctx_message(ctx));
        }
        assert_int_equal(status, WEFT_ERR_FORMAT);
        assert_null(layout);
        assert_int_equal(listing.n, 0);
        weft_ctx_clear(ctx);
    }
}

int main(void) { return check_run(setup, teardown); }
