/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Length (1..4) of the well-formed UTF-8 sequence at the start of text[0..n), and its
 * code point; 0 if there is none: too short, overlong, a surrogate, above U+10FFFF. */
int wefti_utf8_decode(const char *text, int64_t n, uint32_t *code);

/* Writes the code point and returns its length (1..4). */
int wefti_utf8_encode(uint32_t code, char out[4]);

/* Number of bytes at the start of text[0..n) that are well-formed UTF-8. */
int64_t wefti_utf8_valid(const char *text, int64_t n);

/* Whether all of a text, up to its NUL, is well-formed UTF-8. */
bool wefti_is_utf8(const char *text);

/* The Unicode property White_Space. */
bool wefti_utf8_is_space(uint32_t code);
