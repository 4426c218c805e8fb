/* SPDX-License-Identifier: MIT */
/* What comes before the libraries that the program is linked with start. OpenBLAS takes 128 MiB of
 * addresses when it is loaded. Where the process may not have them (ulimit -v) it asks again, for
 * ever: the program would hang before main. Sanitizers start even earlier. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__ELF__)

enum { ROOM_MIB = 256, CODE = 1 };

static void check_room(int argc, char **argv, char **environment) {
    static const char sentence[] = "weft: the process may have too few addresses (ulimit "
                                   "-v) to load the matrix library, "
                                   "expected at least 256 MiB more\n";
    (void)argc, (void)argv, (void)environment;
    void *room = mmap(NULL, (size_t)ROOM_MIB << 20, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, (size_t)ROOM_MIB << 20);
        return;
    }
    if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0) _exit(CODE + 1);
    _exit(CODE);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const early)(int, char **, char **) = check_room;

#endif
