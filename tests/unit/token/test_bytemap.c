/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/bytemap.h"

TEST(bytes_and_characters_are_one_to_one) {
    bool used[WEFTI_BYTEMAP_CODES] = {false};
    for (int byte = 0; byte < 256; byte++) {
        uint32_t code = wefti_bytemap_code((unsigned char)byte);
        assert_true(code < WEFTI_BYTEMAP_CODES);
        assert_false(used[code]);
        used[code] = true;
        assert_int_equal(wefti_bytemap_byte(code), byte);
    }
    for (uint32_t code = 0; code < 2 * WEFTI_BYTEMAP_CODES; code++)
        if (code >= WEFTI_BYTEMAP_CODES || !used[code])
            assert_int_equal(wefti_bytemap_byte(code), -1);
}

TEST(the_alphabet_is_that_of_gpt2) {
    /* bytes that do not print take U+0100 and up in their own order */
    uint32_t next = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                      byte >= 0xAE;
        uint32_t expected = prints ? (uint32_t)byte : next++;
        assert_int_equal(wefti_bytemap_code((unsigned char)byte), expected);
    }
    assert_int_equal(next, WEFTI_BYTEMAP_CODES);
}

TEST(strings_come_back_and_foreign_ones_are_refused) {
    char all[256], text[512], back[512];
    for (int byte = 0; byte < 256; byte++) all[byte] = (char)byte;
    int64_t n = wefti_bytemap_encode(all, 256, text);
    assert_int_equal(n, 188 + 68 + 256 - 94); /* 94 of the bytes are ASCII that prints */
    assert_int_equal(wefti_bytemap_decode(text, n, back), 256);
    assert_memory_equal(back, all, 256);
    assert_int_equal(wefti_bytemap_decode(text, n, text), 256); /* in place */
    assert_memory_equal(text, all, 256);
    assert_int_equal(wefti_bytemap_decode("a b", 3, back), -1);
    assert_int_equal(wefti_bytemap_decode("\xe4\xb8\xad", 3, back), -1);
    assert_int_equal(wefti_bytemap_decode("\xff", 1, back), -1);
}
