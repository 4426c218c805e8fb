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
 * does the same, since its BLAS library may use OpenMP.
 *
 * weft divides each matrix product among a rank's threads itself and calls the BLAS library
 * for each part from one thread. An OpenBLAS built with OpenMP detects such calls. The
 * variant with its own threads (Debian's libopenblas0-pthread, which outranks the other
 * where both are installed) would hand each part to a pool that all ranks share and wait
 * for: steps of 2 x 2 ranks take six times as long. Limited to one thread it is as fast as
 * the other. */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
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
        if (getenv(settings[i]))
            return; /* set by the user, or this is the program's
                                            second start */
    if (!argv[0] || !find_program(argv[0], path, sizeof path)) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
    setenv("GOMP_SPINCOUNT", "10000", 1);
    execv(path, argv);
}

/* A function of a loaded library as a pointer to a function: C knows no cast for it. */
static bool find_function(const char *name, void *function, size_t size) {
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, size);
    return found != NULL;
}

void products_in_one_thread(void) {
    enum { OWN_THREADS = 1 }; /* OPENBLAS_THREAD of its header; 0 serial, 2 OpenMP */
    int (*kind)(void);
    void (*set_threads)(int);
    if (find_function("openblas_get_parallel", &kind, sizeof kind) &&
        kind() == OWN_THREADS &&
        find_function("openblas_set_num_threads", &set_threads, sizeof set_threads))
        set_threads(1);
}
