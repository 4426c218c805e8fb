/* SPDX-License-Identifier: MIT */
/* The software in use: versions of weft and its libraries, hashes of program and library. A
 * library is asked for its version only if it is already loaded, by the name of its function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <weft/version.h>

#include "doctor/examine.h"
#include "doctor/hash.h"

enum { PIECE = 1 << 14 };

const char *weft_version(void) { return WEFT_VERSION; }

uint64_t wefti_digest_file(const char *path, int64_t most, uint64_t seed) {
    unsigned char piece[PIECE];
    XXH3_state_t state;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed);
    for (int64_t done = 0; done < most;) {
        size_t want = most - done < PIECE ? (size_t)(most - done) : PIECE;
        size_t got = fread(piece, 1, want, file);
        if (got == 0) break;
        XXH3_64bits_update(&state, piece, got);
        done += (int64_t)got;
    }
    fclose(file);
    return XXH3_64bits_digest(&state);
}

uint64_t wefti_digest_text(const char *text) { return XXH3_64bits(text, strlen(text)); }

/* Stores the address of a function of a loaded library. C has no cast from an object
 * pointer to a function pointer, so the bytes are copied. */
static bool find_function(const char *name, void *function, size_t size) {
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, size);
    return found != NULL;
}

static void ask_mpi(weft_rank_facts *facts) {
    enum { ROOM = 8192 + 1 }; /* the longest text that an MPI library may return */
    int (*version)(char *text, int *length);
    char text[ROOM] = "";
    int length = 0;
    if (!find_function("MPI_Get_library_version", &version, sizeof version)) return;
    if (version(text, &length) != 0) return;
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    text[strcspn(text, ",\n")] = '\0'; /* the rest says who compiled it and when */
    wefti_set_text(facts->mpi, sizeof facts->mpi, text);
}

static void ask_blas(weft_rank_facts *facts) {
    char *(*text)(void);
    if (find_function("openblas_get_config", &text, sizeof text))
        wefti_set_text(facts->blas, sizeof facts->blas, text());
    if (find_function("openblas_get_corename", &text, sizeof text))
        wefti_set_text(facts->blas_core, sizeof facts->blas_core, text());
}

void wefti_examine_software(weft_ctx *ctx, weft_rank_facts *facts) {
    Dl_info library;
    const char *(*own)(void) = weft_version;
    void *address;
    (void)ctx;
    memcpy(&address, &own, sizeof address);
    facts->program_hash = wefti_digest_file("/proc/self/exe", INT64_MAX, 0);
    if (dladdr(address, &library) && library.dli_fname)
        facts->library_hash = wefti_digest_file(library.dli_fname, INT64_MAX, 0);
    ask_mpi(facts);
    ask_blas(facts);
}
