/* SPDX-License-Identifier: MIT */
/* The byte alphabet of GPT-2 (Radford et al. 2019): the 188 bytes that print in
 * Latin-1 (0x21..0x7E, 0xA1..0xAC, 0xAE..0xFF) keep their code points; the other 68 in
 * ascending order (0x00..0x20, 0x7F..0xA0, 0xAD) are U+0100..U+0143. */
#include "token/bytemap.h"

#include "text/utf8.h"

uint32_t wefti_bytemap_code(unsigned char byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    if (byte == 0xAD) return 0x143u;
    return byte;
}

int wefti_bytemap_byte(uint32_t code) {
    if (code >= WEFTI_BYTEMAP_CODES) return -1;
    if (code < 0x100)
        return wefti_bytemap_code((unsigned char)code) == code ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);
    return code < 0x143 ? (int)(code - 0x121 + 0x7F) : 0xAD;
}

int64_t wefti_bytemap_decode(const char *text, int64_t n, char *out) {
    uint32_t code;
    for (int64_t i = 0; i < n;) {
        int length = wefti_utf8_decode(text + i, n - i, &code);
        if (length == 0 || wefti_bytemap_byte(code) < 0) return -1;
        i += length;
    }
    int64_t n_out = 0;
    for (int64_t i = 0; i < n;) {
        i += wefti_utf8_decode(text + i, n - i, &code);
        out[n_out++] = (char)wefti_bytemap_byte(code);
    }
    return n_out;
}

int64_t wefti_bytemap_encode(const char *bytes, int64_t n, char *out) {
    int64_t n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        char one[4];
        int length = wefti_utf8_encode(wefti_bytemap_code((unsigned char)bytes[i]), one);
        for (int k = 0; k < length; k++) out[n_out++] = one[k];
    }
    return n_out;
}
