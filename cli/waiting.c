/* SPDX-License-Identifier: MIT */
/* How threads wait for each other where the work of one kernel ends.
 *
 * OpenMP's libraries spin for milliseconds (libgomp) or 200 of them (libomp) by default. On a
 * machine that does nothing else nobody minds; beside another program the spinning threads take
 * the very cores that the displaced thread needs, the scheduler counts it against them, and a run
 * of 2 threads falls behind one of a single thread. So weft spins for about a tenth of a
 * millisecond, longer than threads of a free machine are apart, and then sleeps.
 *
 * The libraries read their environment when they are loaded, before main, and have no call for
 * it: so the program starts itself again, once, with the environment that it wants. What the
 * user has set stays. Where the program can not be found again it goes on as it is. A weft without
 * OpenMP does the same, for its BLAS library may have it. */
#include "waiting.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The file of this program; none where another one runs it (a loader, an emulator). */
static bool find_program(const char *name, char *path, size_t size) {
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0 || (size_t)n >= size - 1) return false;
    path[n] = 0;
    return strcmp(base_name(path), base_name(name)) == 0;
}

void threads_sleep(char **argv) {
    static const char *const settings[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
                                           "KMP_BLOCKTIME"};
    char path[4096];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (getenv(settings[i])) return; /* the user's, or this program's second start */
    if (!argv[0] || !find_program(argv[0], path, sizeof path)) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
    setenv("GOMP_SPINCOUNT", "10000", 1);
    execv(path, argv);
}
