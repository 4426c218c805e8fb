/* SPDX-License-Identifier: MIT */
/* Addresses as URLs, and their last parts as names of files. */
#include <stdlib.h>

#include "check.h"
#include "store/address.h"

static weft_ctx *ctx;

static int setup(void **state) {
    setenv("AWS_REGION", "eu-test-1", 1);
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_S3");
    return ctx_begin(&ctx);
}

static int teardown(void **state) { return ctx_end(ctx); }

static void expect(const char *address, const char *below, const char *url) {
    char found[WEFTI_URL_BYTES];
    assert_ok(ctx, wefti_address_url(ctx, address, below, found));
    assert_string_equal(found, url);
}

TEST_IN(setup, teardown, buckets_have_a_place_at_the_store) {
    expect("s3://b/k/x.txt", "", "https://s3.eu-test-1.amazonaws.com/b/k/x.txt");
    expect("s3://b/k/", "x", "https://s3.eu-test-1.amazonaws.com/b/k/x");
    expect("s3://b", "x", "https://s3.eu-test-1.amazonaws.com/b/x");
    setenv("AWS_ENDPOINT_URL", "http://store:9000/", 1);
    expect("s3://b/a b+\xc3\xa4%?.txt", "",
           "http://store:9000/b/a%20b%2B%C3%A4%25%3F.txt");
    setenv("AWS_ENDPOINT_URL_S3", "http://s3", 1);
    expect("s3://b/x", "", "http://s3/b/x");
    unsetenv("AWS_ENDPOINT_URL_S3");
    expect("https://h/a%20b?x=1", "", "https://h/a%20b?x=1");
    expect("https://h/m/", "", "https://h/m/");
    expect("https://h/m/", "config.json", "https://h/m/config.json");
    expect("https://h/m/?sig=a/b", "config.json", "https://h/m/config.json?sig=a/b");
}

TEST_IN(setup, teardown, what_others_would_resolve_is_refused) {
    static const char *const bad[][2] = {
        {"s3://b", ""},     {"s3://b/", ""}, {"s3://b/../c", ""},   {"s3://b//c", ""},
        {"s3://b/./c", ""}, {"s3:///c", ""}, {"https://h/m#x", "f"}};
    char url[WEFTI_URL_BYTES];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(ctx, wefti_address_url(ctx, bad[i][0], bad[i][1], url),
                     WEFT_ERR_CONFIG, "is no address that is understood");
}

TEST_IN(setup, teardown, what_is_signed_for_one_file_or_for_nothing_is_refused) {
    char url[WEFTI_URL_BYTES];
    assert_fails(ctx,
                 wefti_address_url(ctx, "https://h/m?X-Amz-Signature=12ab", "f", url),
                 WEFT_ERR_CONFIG, "https://h/m?... is signed for one file");
    assert_fails(ctx, wefti_address_url(ctx, "https://h/m?v=1&...", "", url),
                 WEFT_ERR_CONFIG, "the signature of https://h/m?v=1&... was not kept");
    expect("s3://b/m?...", "", "https://s3.eu-test-1.amazonaws.com/b/m%3F...");
}

/* S3 signs the path; of other tokens nothing is known. */
TEST_IN(setup, teardown, a_copy_is_known_by_the_file_that_is_signed) {
    static const char *const keys[][2] = {
        {"https://h/m?versionId=1&X-Amz-Date=2&X-Amz-Signature=3",
         "https://h/m?versionId=1&..."},
        {"https://h/m?AWSAccessKeyId=1&Signature=2&Expires=3", "https://h/m?..."},
        {"https://h/m?X-Goog-Signature=1&generation=2", "https://h/m?generation=2&..."},
        {"https://h/m?token=1", "https://h/m?token=1"},
        {"https://h/m?...", "https://h/m?..."},
        {"s3://b/m?X-Amz-Signature=1", "s3://b/m?X-Amz-Signature=1"}};
    char key[WEFTI_URL_BYTES];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        wefti_address_key(keys[i][0], key);
        assert_string_equal(key, keys[i][1]);
    }
}

TEST_IN(setup, teardown, the_last_part_is_a_name) {
    static const char *const names[][2] = {{"s3://b/k/x.jsonl", "x.jsonl"},
                                           {"https://h/a.bin?sig=/b", "a.bin"},
                                           {"https://h/", "data"},
                                           {"https://h/.hidden", "data"},
                                           {"https://h/a b", "data"}};
    char name[NAME_MAX + 1];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        wefti_address_name(names[i][0], name);
        assert_string_equal(name, names[i][1]);
    }
}

TEST_IN(setup, teardown, other_words_are_files) {
    assert_true(wefti_address_is("https://x") && wefti_address_is("http://x"));
    assert_true(wefti_address_is("s3://x") && wefti_address_is_s3("s3://x"));
    assert_false(wefti_address_is("ftp://x") || wefti_address_is("s3:/x"));
    assert_false(wefti_address_is_s3("https://x"));
}
