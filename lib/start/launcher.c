/* SPDX-License-Identifier: MIT */
/* Finds the launcher that has started this process, if any, and the library that speaks
 * with it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/mesh.h>

#include "base/memory.h"
#include "base/sized.h"
#include "start/tcp.h"

typedef struct launcher {
    const char *size_variable; /* in the environment: number of processes */
    const char *needs;         /* must be set, too; NULL: nothing */
    const char *library;       /* "openmpi" */
    const char *name;          /* for people */
} launcher;

/* The first one whose variables are set counts. Under Slurm each mpirun starts its helpers
 * by srun, and the ranks inherit srun's variables, with PMIX_RANK if pmix is the cluster's
 * default; srun --mpi=pmix itself sets no PMI_SIZE. */
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, "openmpi", "Open MPI's mpirun"},
    {"PMI_SIZE", NULL, "mpich", "MPICH's mpiexec or srun --mpi=pmi2"},
    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", "openmpi", "srun --mpi=pmix"},
};

enum { LAUNCHERS = sizeof launchers / sizeof launchers[0], GATHERING_S = 120 };
enum { MOST_PLACES = 1024 };

static int count_in(const char *variable) {
    const char *text = getenv(variable);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? (int)n : 0;
}

/* [out] *out: the whole number that a variable has, as it was if it is not set. */
static weft_status number_in(weft_ctx *ctx, const char *variable, int low, int high,
                             int *out) {
    const char *text = getenv(variable);
    char *end;
    if (!text || !text[0]) return WEFT_OK;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < low || n > high)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s is '%s', expected a whole number from %d to %d; unset "
                             "WORLD_SIZE and RANK to train in this process alone",
                             variable, text, low, high);
    *out = (int)n;
    return WEFT_OK;
}

static const launcher *find_launcher(void) {
    for (int i = 0; i < LAUNCHERS; i++)
        if (count_in(launchers[i].size_variable) > 0 &&
            (!launchers[i].needs || getenv(launchers[i].needs)))
            return &launchers[i];
    return NULL;
}

/* Several processes of one program that do not know of each other would do the same work
 * and write the same files. */
static weft_status check_unknown(weft_ctx *ctx, int size) {
    if (size > 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "WORLD_SIZE=%d is set, but not RANK; expected this process's "
            "number, from 0 on; unset WORLD_SIZE to train in this "
            "process alone",
            size);
    if (getenv("RANK") && !getenv("WORLD_SIZE"))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "RANK=%s is set, but not WORLD_SIZE; expected the number of "
                             "processes; unset RANK to train in this process alone",
                             getenv("RANK"));
    int tasks = count_in("SLURM_STEP_NUM_TASKS");
    if (tasks > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "srun has started %d tasks without telling them of each "
                             "other; use srun --mpi=pmix for Open MPI, --mpi=pmi2 for "
                             "MPICH",
                             tasks);
    return WEFT_OK;
}

/* The path of a library in the folder of this one, with this one's version. */
static bool beside(const char *name, char *out) {
    Dl_info here;
    union {
        weft_status (*function)(weft_ctx *, const weft_mesh_security *, weft_mesh **);
        void *address;
    } self = {.function = weft_mesh_open};
    if (dladdr(self.address, &here) == 0 || !here.dli_fname) return false;
    const char *slash = strrchr(here.dli_fname, '/');
    int n = slash ? (int)(slash - here.dli_fname) + 1 : 0;
    return snprintf(out, PATH_MAX, "%.*slibweft_%s.so.0", n, here.dli_fname, name) <
           PATH_MAX;
}

typedef weft_status (*launch)(weft_ctx *ctx, weft_mesh **out);

/* Loads the launcher's library, which stays loaded. Open MPI looks up its own plug-ins
 * among global symbols. */
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

/* torchrun keeps the port in MASTER_PORT for itself. */
static weft_status master_port(weft_ctx *ctx, int *port) {
    int own = getenv("TORCHELASTIC_RUN_ID") != NULL;
    *port = 0;
    WEFT_TRY(number_in(ctx, "MASTER_PORT", 1, 65535 - own, port));
    if (*port > 0) *port += own;
    if (*port == 0) *port = 29500;
    return WEFT_OK;
}

/* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as for other trainers. */
static weft_status open_tcp(weft_ctx *ctx, int size, const weft_mesh_security *security,
                            weft_mesh **out) {
    const char *host = getenv("MASTER_ADDR");
    int rank = 0, port;
    WEFT_TRY(number_in(ctx, "RANK", 0, size - 1, &rank));
    WEFT_TRY(master_port(ctx, &port));
    if (!host || !host[0])
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "WORLD_SIZE=%d and RANK=%d are set, but not MASTER_ADDR; "
                             "expected the name of rank 0's machine; unset WORLD_SIZE "
                             "and RANK to train in this process alone",
                             size, rank);
    wefti_tcp_place place = {.rank = rank,
                             .size = size,
                             .host = host,
                             .port = port,
                             .patience_s = GATHERING_S,
                             .plain = security && security->plain,
                             .streams = security ? security->streams : 0};
    place.spare = place.size + WEFTI_SPARE_PLACES <= MOST_PLACES ? WEFTI_SPARE_PLACES : 0;
    weft_transport *transport;
    WEFT_TRY(wefti_tcp_open(ctx, &place, security, &transport));
    return weft_mesh_create(ctx, transport, out);
}

weft_status weft_mesh_enter(weft_ctx *ctx, const char *host, int port, double patience,
                            const weft_mesh_security *security, weft_mesh **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_mesh_security, security);
    wefti_tcp_place place = {.patience_s = patience > 0 ? patience : GATHERING_S,
                             .plain = security && security->plain,
                             .streams = security ? security->streams : 0};
    weft_transport *transport;
    wefti_tcp_endpoint *endpoints;
    if (port < 0 || port > 65535)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "port %d, expected 0 to 65535", port);
    int standard = 0;
    if (!port) WEFT_TRY(master_port(ctx, &standard));
    WEFT_TRY(wefti_tcp_endpoints(ctx, host, port ? port : standard,
                                 port ? 1 : WEFTI_TCP_PORTS, &endpoints,
                                 &place.n_endpoints));
    place.endpoints = endpoints;
    weft_status status = wefti_tcp_enter(ctx, &place, security, &transport);
    wefti_free(ctx, endpoints);
    WEFT_TRY(status);
    return weft_mesh_create(ctx, transport, out);
}

weft_status weft_mesh_begin(weft_ctx *ctx, int port, const weft_mesh_security *security,
                            weft_mesh **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_mesh_security, security);
    const wefti_tcp_place place = {.size = 1,
                                   .host = "",
                                   .port = port,
                                   .plain = security && security->plain,
                                   .streams = security ? security->streams : 0,
                                   .spare = WEFTI_SPARE_PLACES};
    weft_transport *transport;
    WEFT_TRY(wefti_tcp_open(ctx, &place, security, &transport));
    return weft_mesh_create(ctx, transport, out);
}

weft_status weft_mesh_listen(weft_ctx *ctx, int *listener, int *port) {
    return wefti_tcp_listen(ctx, listener, port);
}

weft_status weft_mesh_listen_at(weft_ctx *ctx, int port, int *listener) {
    *listener = -1;
    if (port < 1 || port > 65535)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "port %d, expected 1 to 65535", port);
    return wefti_tcp_listen_at(ctx, port, listener);
}

weft_status weft_mesh_join(weft_ctx *ctx, const weft_mesh_place *where, weft_mesh **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_mesh_place, where);
    WEFTI_SIZED_PART(ctx, weft_mesh_security, where, security);
    wefti_tcp_place place = {.rank = where->rank,
                             .size = where->size,
                             .host = where->host ? where->host : "",
                             .port = where->port,
                             .patience_s = where->patience > 0 ? where->patience
                                                               : GATHERING_S,
                             .plain = where->security && where->security->plain,
                             .streams = where->security ? where->security->streams : 0,
                             .listener = where->listener};
    if (place.size > 1 && place.size + WEFTI_SPARE_PLACES <= MOST_PLACES)
        place.spare = WEFTI_SPARE_PLACES;
    weft_transport *transport;
    WEFT_TRY(wefti_tcp_open(ctx, &place, where->security, &transport));
    if (where->size > 1) return weft_mesh_create(ctx, transport, out);
    (void)transport->ops->finish(transport, false);
    return WEFT_OK;
}

weft_status weft_mesh_open(weft_ctx *ctx, const weft_mesh_security *security,
                           weft_mesh **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_mesh_security, security);
    const launcher *l = find_launcher();
    int size = 0;
    if (!l) WEFT_TRY(number_in(ctx, "WORLD_SIZE", 1, INT_MAX, &size));
    if (size > 1 && getenv("RANK")) return open_tcp(ctx, size, security, out);
    if (!l) return check_unknown(ctx, size);
    if (count_in(l->size_variable) == 1) return WEFT_OK;
    launch start;
    WEFT_TRY(load(ctx, l, &start));
    return start(ctx, out);
}
