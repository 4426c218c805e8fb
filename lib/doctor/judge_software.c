/* SPDX-License-Identifier: MIT */
/* Versions, binaries, libraries, instruction sets: these should be the same everywhere.
 *
 *     weft, its binary, MPI         different ones may be incompatible: an error
 *     BLAS, instruction sets        different ones round differently, or are slower: a warning
 *
 * Each fact is compared with rank 0's, and the first rank that differs is named. */
#include <string.h>

#include "doctor/judge.h"

/* The first rank whose bytes at [offset, offset + size) differ from rank 0's, or -1. */
static int64_t differs(const wefti_judge *j, size_t offset, size_t size) {
    for (int64_t r = 1; r < j->n_ranks; r++)
        if (memcmp((const char *)&j->ranks[0] + offset,
                   (const char *)&j->ranks[r] + offset, size) != 0)
            return r;
    return -1;
}
#define DIFFERS(j, field)                                                                \
    differs(j, offsetof(weft_rank_facts, field), sizeof((j)->ranks[0].field))

static const char *or_none(const char *text) { return text[0] ? text : "none"; }

static void compare_binaries(wefti_judge *j) {
    const weft_rank_facts *all = j->ranks;
    int64_t r = DIFFERS(j, version);
    if (r >= 0) {
        wefti_find(j, WEFT_FINDING_ERROR, "version", r,
                   "install the same weft on every machine, or start it from a folder "
                   "that all of them see",
                   "rank 0 runs weft %s and rank %lld (%s) weft %s", all[0].version,
                   (long long)r, all[r].host, all[r].version);
        return;
    }
    int64_t program = DIFFERS(j, program_hash), library = DIFFERS(j, library_hash);
    r = program >= 0 ? program : library;
    if (r < 0) return;
    wefti_find(j, WEFT_FINDING_ERROR, "version", r,
               "copy one build to every machine: ranks of different builds may not "
               "understand each other, or drift apart",
               "the %s of rank %lld (%s) is another file than that of rank 0 (%s), "
               "though both say version %s",
               program >= 0 ? "program" : "library", (long long)r, all[r].host,
               all[0].host, all[0].version);
}

static void compare_libraries(wefti_judge *j) {
    const weft_rank_facts *all = j->ranks;
    int64_t r = DIFFERS(j, mpi);
    if (r >= 0)
        wefti_find(
            j, WEFT_FINDING_ERROR, "version", r,
            "install one version of one MPI everywhere, and start with its own mpirun",
            "rank 0 uses %s and rank %lld (%s) uses %s", or_none(all[0].mpi),
            (long long)r, all[r].host, or_none(all[r].mpi));
    r = DIFFERS(j, blas);
    if (r < 0) r = DIFFERS(j, blas_core);
    if (r >= 0)
        wefti_find(
            j, WEFT_FINDING_WARNING, "version", r,
            "install the same version everywhere, or set OPENBLAS_CORETYPE to the oldest "
            "of the processors on all machines: else bits depend on who computes",
            "the matrix library of rank 0 is %s (%s kernels), of rank %lld (%s) %s (%s "
            "kernels)",
            or_none(all[0].blas), or_none(all[0].blas_core), (long long)r, all[r].host,
            or_none(all[r].blas), or_none(all[r].blas_core));
}

static const char *instructions_name(int64_t level) {
    static const char *const names[] = {"no AVX", "AVX", "AVX2", "AVX-512",
                                        "AVX-512 and AMX"};
    return level >= 0 && level < 5 ? names[level] : "unknown instructions";
}

static void compare_processors(wefti_judge *j) {
    const weft_rank_facts *all = j->ranks;
    int64_t r = DIFFERS(j, instructions);
    if (r >= 0)
        wefti_find(j, WEFT_FINDING_WARNING, "processor", r,
                   "set mesh.kernels to a set that all processors have (avx512, avx2 or "
                   "base): with "
                   "different kernels copies of the model drift apart in the last bit",
                   "rank 0 (%s) has %s and rank %lld (%s) has %s", all[0].host,
                   instructions_name(all[0].instructions), (long long)r, all[r].host,
                   instructions_name(all[r].instructions));
    int64_t processor = DIFFERS(j, processor), cores = DIFFERS(j, cores);
    r = processor >= 0 ? processor : cores;
    if (r >= 0)
        wefti_find(j, WEFT_FINDING_WARNING, "processor", r,
                   "in every step all wait for the slowest: use equal machines, or a "
                   "mixer with a deadline",
                   "the machines are unequal: %s has %lld cores (%s), %s has %lld (%s)",
                   all[0].host, (long long)all[0].cores, or_none(all[0].processor),
                   all[r].host, (long long)all[r].cores, or_none(all[r].processor));
}

void wefti_judge_software(wefti_judge *j) {
    const weft_rank_facts *first = &j->ranks[0];
    wefti_find(j, WEFT_FINDING_OK, "version", 0, NULL, "weft %s, MPI: %s, matrices: %s",
               first->version, or_none(first->mpi), or_none(first->blas));
    if (j->n_ranks > 1 && first->mpi[0])
        wefti_find(j, WEFT_FINDING_OK, "wire", 0, NULL,
                   "%s carries the messages as they are: nothing is encrypted between "
                   "machines",
                   first->mpi);
    for (int64_t r = 0; r < j->n_ranks; r++)
        if (wefti_first_of_host(j, r))
            wefti_find(j, WEFT_FINDING_OK, "processor", r, NULL,
                       "%s: %lld cores, %s, %s, %s", wefti_place(j, r),
                       (long long)j->ranks[r].cores, or_none(j->ranks[r].processor),
                       instructions_name(j->ranks[r].instructions), j->ranks[r].system);
    compare_binaries(j);
    compare_libraries(j);
    compare_processors(j);
}
