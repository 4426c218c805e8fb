/* SPDX-License-Identifier: MIT */
/* One parser of several: with WEFT_FUZZ_ONLY=C in the environment a fuzzer turns away every input
 * that does not begin with the byte C (fuzz_files: a letter; fuzz_decoders: a
 * number, the remainder of the byte). A find is
 * read again without it: its first byte says which parser it is for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Whether an input that begins with `first`, one of `n` numbers of parsers, is turned away. */
static inline bool fuzz_turns_away(uint8_t first, int n) {
    static int only = -2; /* not known yet; -1: all are taken */
    if (only == -2) {
        const char *text = getenv("WEFT_FUZZ_ONLY");
        only = !text || !text[0] ? -1 : n < 256 ? (int)strtol(text, NULL, 10) : text[0];
    }
    return only >= 0 && first % n != only;
}
