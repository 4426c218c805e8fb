/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "text/utf8.h"

TEST(every_code_point_comes_back) {
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        char bytes[4];
        uint32_t back = ~code;
        int n = wefti_utf8_encode(code, bytes);
        assert_int_equal(wefti_utf8_decode(bytes, n, &back), n);
        assert_int_equal(back, code);
        assert_int_equal(wefti_utf8_decode(bytes, n - 1, &back), 0);
    }
}

TEST(malformed_bytes_are_refused) {
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2 ",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xe2\x80",
                                      "\xe2\x80 ",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xfe",
                                      "\xff"};
    uint32_t code;
    for (int k = 0; k < COUNT(bad); k++)
        assert_int_equal(wefti_utf8_decode(bad[k], (int64_t)strlen(bad[k]), &code), 0);
    assert_int_equal(wefti_utf8_decode("", 0, &code), 0);
}

TEST(the_valid_prefix_ends_at_the_first_bad_byte) {
    char text[64];
    memset(text, 'a', sizeof text);
    memcpy(text + 7, "\xc3\xa9", 2); /* across the edge of eight bytes */
    assert_int_equal(wefti_utf8_valid(text, 64), 64);
    for (int64_t at = 9; at < 64; at++) {
        char kept = text[at];
        text[at] = (char)0xff;
        assert_int_equal(wefti_utf8_valid(text, 64), at);
        text[at] = kept;
    }
    assert_int_equal(wefti_utf8_valid(text, 8), 7); /* cut inside a character */
    assert_int_equal(wefti_utf8_valid(text, 0), 0);
}

TEST(white_space_is_the_unicode_property) {
    int n = 0;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) n += wefti_utf8_is_space(code);
    assert_int_equal(n, 25); /* PropList.txt: White_Space has 25 code points */
    static const uint32_t yes[] = {9,      0xA,    0xD,    0x20,   0x85,
                                   0xA0,   0x1680, 0x2000, 0x200A, 0x2028,
                                   0x2029, 0x202F, 0x205F, 0x3000};
    for (int k = 0; k < COUNT(yes); k++) assert_true(wefti_utf8_is_space(yes[k]));
    assert_false(wefti_utf8_is_space(0x180E));
    assert_false(wefti_utf8_is_space(0x1C));
    assert_false(wefti_utf8_is_space(0x200B));
}
