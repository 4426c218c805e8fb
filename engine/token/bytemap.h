/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* GPT-2's alphabet: each byte is written as one printable character, so that tokens are
 * printable strings (a space becomes U+0120). */
enum { WEFTI_BYTEMAP_CODES = 324 }; /* code points of the alphabet are below this */

/* The code point that stands for a byte. */
uint32_t wefti_bytemap_code(unsigned char byte);

/* The byte that a code point stands for, or -1. */
int wefti_bytemap_byte(uint32_t code);

/* Bytes of a token from its printable string; out has room for n bytes and may be `text`.
 * Returns their number, or -1 (out untouched) if a character is not of the alphabet. */
int64_t wefti_bytemap_decode(const char *text, int64_t n, char *out);

/* The printable string of n bytes, not terminated; out has room for 2n. Returns its
 * length. */
int64_t wefti_bytemap_encode(const char *bytes, int64_t n, char *out);
