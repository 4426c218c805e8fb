/* SPDX-License-Identifier: MIT */
/* How threads wait for each other at the end of a kernel.
 *
 * By default the OpenMP libraries spin for a few milliseconds (libgomp) or for 200 ms
 * (libomp). On a machine without other load that does no harm. Beside another program,
 * however, the spinning threads occupy the cores that the preempted thread needs, the
 * scheduler charges them for that time, and a run with 2 threads becomes slower than one
 * with a single thread. So weft spins for about 0.1 ms, which is longer than the threads
 * differ on a machine without other load, and then sleeps.
 *
 * The libraries read the environment when they are loaded, before main, and have no
 * function to change the setting later. So the program executes itself again, once, with
 * the environment variables that it needs. Variables that the user has set are kept. If
 * the program's file cannot be found it continues unchanged. A weft built without OpenMP
 * does the same, since its BLAS library may use OpenMP. */
#include "waiting.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Finds the file of this program. Returns false if another program runs it (a loader, an
 * emulator). */
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
        if (getenv(settings[i])) return; /* set by the user, or this is the program's
                                            second start */
    if (!argv[0] || !find_program(argv[0], path, sizeof path)) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
    setenv("GOMP_SPINCOUNT", "10000", 1);
    execv(path, argv);
}
