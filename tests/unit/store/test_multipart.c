/* SPDX-License-Identifier: MIT */
/* Sizes of parts, and what a server may answer to an upload in parts. */
#include "check.h"
#include "store/multipart.h"

TEST(a_file_has_ten_thousand_parts_at_most) {
    static const int64_t gib = (int64_t)1 << 30,
                         sizes[] = {(int64_t)64 << 20, 5 * gib, 156 * gib, 157 * gib,
                                    5120 * gib};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t part = wefti_multipart_part_bytes(sizes[i]);
        assert_true((sizes[i] + part - 1) / part <= 10000);
        assert_true(part >= (int64_t)16 << 20 && part <= 5 * gib);
    }
    assert_int_equal(wefti_multipart_part_bytes(156 * gib), 16 << 20);
}

TEST(a_tag_that_would_write_xml_of_its_own_is_none) {
    static const struct {
        const char *line;
        bool good;
    } lines[] = {{"ETag: \"0a1b\"\r\n", true}, {"ETag: 0a1b\r\n", false},
                 {"ETag: \"\"\r\n", false},    {"ETag: \"a</ETag>\"\r\n", false},
                 {"ETag: \"a&b\"\r\n", false}, {"Last-Modified: \"today\r\n", false}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        wefti_response r;
        wefti_response_init(&r);
        wefti_response_line(&r, lines[i].line, strlen(lines[i].line));
        assert_int_equal(wefti_response_tag(&r) != NULL, lines[i].good);
    }
}

static void expect_upload(const char *page, const char *expected) {
    char id[WEFTI_UPLOAD_BYTES];
    wefti_response r;
    wefti_response_init(&r);
    for (const char *c = page; *c; c++) wefti_response_page(&r, c, 1);
    wefti_response_upload(&r, id);
    assert_string_equal(id, expected);
}

TEST(an_id_of_an_upload_is_read_or_is_none) {
    expect_upload(" \r\n<R><UploadId>2~a+b/c=._-</UploadId></R>", "2~a+b/c=._-");
    expect_upload("<R><UploadId>a&amp;b</UploadId></R>", "");
    expect_upload("<R><UploadId>a b</UploadId></R>", "");
    expect_upload("<R><UploadId>ab", "");
}
