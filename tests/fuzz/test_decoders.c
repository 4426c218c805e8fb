/* SPDX-License-Identifier: MIT */
/* The decoders of fuzz_decoders.c on the corpus and on changes of it that are always the
 * same: bits flipped, numbers made large, ends cut off. For compilers without libFuzzer. */
#include <dirent.h>
#include <stdio.h>

#include "base/rng.h"
#include "check.h"

#ifndef CORPUS /* another test includes this one for other files */
#define CORPUS "corpus"
enum { MAX_BYTES = 4400, ROUNDS = 20000 };
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t draw(uint64_t round, uint64_t what) {
    return (uint64_t)(wefti_rng_uniform(7, WEFTI_STREAM_TEST, round, what) *
                      4294967296.0);
}

static size_t read_file(const char *name, unsigned char *bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/" CORPUS "/%.200s", WEFT_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, MAX_BYTES, file);
    fclose(file);
    return n;
}

static size_t change(unsigned char *bytes, size_t n, uint64_t round) {
    for (uint64_t k = 0; k <= draw(round, 0) % 4 && n > 1; k++) {
        size_t at = 1 + (size_t)(draw(round, 4 * k + 1) % (n - 1));
        uint64_t how = draw(round, 4 * k + 2) % 4;
        if (how == 0) bytes[at] ^= (unsigned char)(1u << draw(round, 4 * k + 3) % 8);
        if (how == 1) bytes[at] = 0xff;
        if (how == 2) bytes[at] = (unsigned char)draw(round, 4 * k + 3);
        if (how == 3) n = at;
    }
    return n;
}

TEST(changed_bytes_are_decoded_or_refused) {
    static unsigned char original[MAX_BYTES], bytes[MAX_BYTES];
    struct dirent *entry;
    int n_files = 0;
    DIR *folder = opendir(WEFT_SOURCE_DIR "/tests/fuzz/" CORPUS);
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.') continue;
        size_t n = read_file(entry->d_name, original);
        n_files++;
        LLVMFuzzerTestOneInput(original, n);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            memcpy(bytes, original, n);
            LLVMFuzzerTestOneInput(bytes, change(bytes, n, round));
        }
    }
    closedir(folder);
    assert_true(n_files >= 6);
}
