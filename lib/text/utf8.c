/* SPDX-License-Identifier: MIT */
/* UTF-8 as in RFC 3629: the shortest form only, no surrogates, at most U+10FFFF.
 *   1 byte  0xxxxxxx            U+0000..U+007F
 *   2 bytes 110xxxxx 10xxxxxx   U+0080..U+07FF
 *   3 bytes 1110xxxx 10.. 10..  U+0800..U+FFFF
 *   4 bytes 11110xxx 10.. x 3   U+10000..U+10FFFF */
#include "text/utf8.h"

#include <string.h>

static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

int wefti_utf8_decode(const char *text, int64_t n, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n < 1) return 0;
    unsigned char lead = (unsigned char)text[0];
    int length = lead < 0x80   ? 1
                 : lead < 0xC0 ? 0
                 : lead < 0xE0 ? 2
                 : lead < 0xF0 ? 3
                               : 4;
    if (length == 0 || lead > 0xF4 || n < length) return 0;
    uint32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if (!continues(text[i])) return 0;
        value = value << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    if (value < least[length] || value > 0x10FFFF) return 0;
    if (value >= 0xD800 && value <= 0xDFFF) return 0;
    *code = value;
    return length;
}

int wefti_utf8_encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00u >> length & 0xF0u) | code);
    return length;
}

int64_t wefti_utf8_valid(const char *text, int64_t n) {
    int64_t i = 0;
    while (i < n) {
        uint64_t eight;
        uint32_t code;
        while (n - i >= 8) { /* plain ASCII, eight bytes at a time */
            memcpy(&eight, text + i, 8);
            if (eight & 0x8080808080808080ull) break;
            i += 8;
        }
        if (i == n) break;
        int length = wefti_utf8_decode(text + i, n - i, &code);
        if (length == 0) break;
        i += length;
    }
    return i;
}

bool wefti_is_utf8(const char *text) {
    int64_t n = (int64_t)strlen(text);
    return wefti_utf8_valid(text, n) == n;
}

bool wefti_utf8_is_space(uint32_t code) {
    if (code <= 0x20) return code == 0x20 || (code >= 0x09 && code <= 0x0D);
    if (code < 0x1680) return code == 0x85 || code == 0xA0;
    return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}
