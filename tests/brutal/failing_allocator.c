/* SPDX-License-Identifier: MIT */
/* A library to be loaded before all others (LD_PRELOAD): the process's k-th allocation fails.
 *
 *     WEFT_TEST_FAIL_AT=k       the k-th, from 1 on; 0: none
 *     WEFT_TEST_FAIL_AFTER=1    and all that follow it
 *     WEFT_TEST_COUNT=FILE      at the end: how many there were
 *
 * Counted is what weft and the libraries that report a failure ask for. Left alone are the C
 * library's own threads and loader, OpenMP and BLAS: those end the process when memory is
 * short, whatever their caller does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANGES = 64, EARLY_BYTES = 1 << 16 };

typedef struct range {
    uintptr_t from, to;
} range;

static range counted[MOST_RANGES]; /* code whose allocations count */
static int n_counted;
static atomic_llong calls;
static long long fail_at;
static bool fail_after, ready;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned)(size_t, size_t);
static void (*next_free)(void *);

/* What dlsym itself asks for, before the next allocator is known. */
static char early[EARLY_BYTES];
static size_t n_early;

static void *early_block(size_t n) {
    size_t at = (n_early + 15) / 16 * 16;
    if (n > EARLY_BYTES || at > EARLY_BYTES - n) return NULL;
    n_early = at + n;
    return early + at;
}

static bool is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + EARLY_BYTES;
}

/* Whether what a library of this name asks for may fail. */
static bool counts(const char *path) {
    static const char *const names[] = {"weft", "jansson", "yaml", "pcre2", "libz.",
                                        "zstd", "xxhash",  "png",  "jpeg",  "utf8proc"};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!*name) return true; /* the program */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(name, names[i])) return true;
    return false;
}

static int note_library(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size, (void)user;
    if (!counts(info->dlpi_name)) return 0;
    for (int i = 0; i < info->dlpi_phnum && n_counted < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        counted[n_counted++] = (range){from, from + part->p_memsz};
    }
    return 0;
}

static void find(const char *name, void *out) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(out, &symbol, sizeof symbol);
}

static void look_up(void) {
    static bool begun;
    if (begun) return;
    begun = true;
    find("malloc", &next_malloc);
    find("calloc", &next_calloc);
    find("realloc", &next_realloc);
    find("aligned_alloc", &next_aligned);
    find("free", &next_free);
}

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("WEFT_TEST_FAIL_AT");
    look_up();
    fail_at = at ? atoll(at) : 0;
    fail_after = getenv("WEFT_TEST_FAIL_AFTER") != NULL;
    dl_iterate_phdr(note_library, NULL);
    ready = true;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("WEFT_TEST_COUNT");
    char text[32];
    if (!path) return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int n = snprintf(text, sizeof text, "%lld\n", (long long)atomic_load(&calls));
    if (fd >= 0 && write(fd, text, (size_t)n) != n) _exit(99);
    if (fd >= 0) close(fd);
}

static bool fails(const void *caller) {
    bool ours = false;
    for (int i = 0; ready && i < n_counted && !ours; i++)
        ours = (uintptr_t)caller >= counted[i].from && (uintptr_t)caller < counted[i].to;
    if (!ours) return false;
    long long k = atomic_fetch_add(&calls, 1) + 1;
    bool now = fail_at > 0 && (k == fail_at || (fail_after && k > fail_at));
    if (now) errno = ENOMEM;
    return now;
}

void *malloc(size_t n) {
    look_up();
    if (!next_malloc) return early_block(n);
    return fails(__builtin_return_address(0)) ? NULL : next_malloc(n);
}

void *calloc(size_t n, size_t item) {
    look_up();
    if (!next_calloc) return early_block(n * item); /* static memory is zero */
    return fails(__builtin_return_address(0)) ? NULL : next_calloc(n, item);
}

void *realloc(void *block, size_t n) {
    look_up();
    return fails(__builtin_return_address(0)) ? NULL : next_realloc(block, n);
}

void *aligned_alloc(size_t align, size_t n) {
    look_up();
    return fails(__builtin_return_address(0)) ? NULL : next_aligned(align, n);
}

void free(void *block) {
    look_up();
    if (block && !is_early(block) && next_free) next_free(block);
}
