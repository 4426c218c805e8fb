/* SPDX-License-Identifier: MIT */
/* The parsers of fuzz_files.c on their corpus and on changes of it, as test_decoders.c does. */
#define CORPUS "corpus_files"
enum { MAX_BYTES = 16000, ROUNDS = 500 };
#include "fuzz/test_decoders.c"
