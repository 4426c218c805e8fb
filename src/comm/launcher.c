/* SPDX-License-Identifier: MIT */
/* Which launcher has started this process, if any, and the library that speaks with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/mesh.h>

typedef struct launcher {
    const char *size_variable; /* in the environment: number of processes */
    const char *needs;         /* also set there; NULL: nothing */
    const char *library;       /* "openmpi" */
    const char *name;          /* for people */
} launcher;

/* The first whose variables are set counts: Slurm sets its own in any case. */
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, "openmpi", "Open MPI's mpirun"},
    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", "openmpi", "srun --mpi=pmix"},
    {"PMI_SIZE", NULL, "mpich", "MPICH's mpiexec or srun --mpi=pmi2"},
};

enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

static int count_in(const char *variable) {
    const char *text = getenv(variable);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? (int)n : 0;
}

static const launcher *find_launcher(void) {
    for (int i = 0; i < LAUNCHERS; i++)
        if (count_in(launchers[i].size_variable) > 0 &&
            (!launchers[i].needs || getenv(launchers[i].needs)))
            return &launchers[i];
    return NULL;
}

/* Several copies of a program that know nothing of each other would do the same work and
 * write the same files. */
static weft_status check_unknown(weft_ctx *ctx) {
    int tasks = count_in("SLURM_STEP_NUM_TASKS"), world = count_in("WORLD_SIZE");
    if (tasks > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "srun has started %d tasks without telling them of each "
                             "other; use srun --mpi=pmix for Open MPI, --mpi=pmi2 for "
                             "MPICH",
                             tasks);
    if (world > 1 && getenv("RANK"))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "RANK and WORLD_SIZE=%d are set as torchrun does it, which "
                             "starts no MPI program; use mpirun -np %d, or unset "
                             "WORLD_SIZE to train in this process alone",
                             world, world);
    return WEFT_OK;
}

/* The path of a library that lies beside this one. */
static bool beside(const char *name, char *out) {
    Dl_info here;
    union {
        weft_status (*function)(weft_ctx *, weft_mesh **);
        void *address;
    } self = {.function = weft_mesh_open};
    if (dladdr(self.address, &here) == 0 || !here.dli_fname) return false;
    const char *slash = strrchr(here.dli_fname, '/');
    int n = slash ? (int)(slash - here.dli_fname) + 1 : 0;
    return snprintf(out, PATH_MAX, "%.*slibweft_%s.so", n, here.dli_fname, name) <
           PATH_MAX;
}

typedef weft_status (*launch)(weft_ctx *ctx, weft_mesh **out);

/* Open MPI looks for its own parts among global symbols. The library stays loaded. */
static weft_status load(weft_ctx *ctx, const launcher *l, launch *out) {
    char path[PATH_MAX];
    union {
        void *address;
        launch function;
    } found = {NULL};
    if (!beside(l->library, path)) return WEFT_ERR_INTERNAL;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library) found.address = dlsym(library, "weft_mpi_launch");
    if (!found.address)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "started by %s, but weft has no part for it: %s", l->name,
                             dlerror());
    *out = found.function;
    return WEFT_OK;
}

weft_status weft_mesh_open(weft_ctx *ctx, weft_mesh **out) {
    *out = NULL;
    const launcher *l = find_launcher();
    if (!l) return check_unknown(ctx);
    if (count_in(l->size_variable) == 1) return WEFT_OK;
    launch start;
    WEFT_TRY(load(ctx, l, &start));
    return start(ctx, out);
}
