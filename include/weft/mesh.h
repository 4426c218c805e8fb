/* SPDX-License-Identifier: MIT */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/ext/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The processes that train together, one rank each, as seen by this process. Ranks are numbered
 * host by host, so the ranks of one machine are neighbours. Each mesh has a thread that moves
 * its messages and sleeps between polls. */
typedef struct weft_mesh weft_mesh;

/** How the bytes between processes are protected when weft's own transport carries them. Paths
 * may be NULL. With none of these set, the processes of one machine can train together, and
 * processes of other machines are rejected. */
typedef struct weft_mesh_security {
    size_t struct_size;
    const char *key; /* file of the run's key, the same for all (weft key new) */
    const char *cert, *cert_key, *ca; /* instead of `key`: PEM files of this process's
                                         certificate, its key and the authority */
    bool plain; /* bytes may cross a network unencrypted: everybody there is trusted */
    const char *run; /* name of the run, the same for all, or NULL. A process with the key
                        but another run name is rejected like one without the key */
    int streams;     /* TCP sockets between two processes; 0: as many as the wire needs */
} weft_mesh_security;

/** Joins the processes that a launcher (mpirun, mpiexec, srun) has started together with this
 * one, through the launcher's MPI. Otherwise joins, by TCP alone, the processes that got RANK,
 * WORLD_SIZE, MASTER_ADDR and MASTER_PORT (29500) in the environment. *out is NULL if this
 * process was started in neither way, or is the only one. `security` (may be NULL) is for TCP:
 * MPI encrypts nothing. Raises the limit of open files if there are many ranks. Collective. To
 * be called at most once per process, before other threads are started.
 * Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_mesh_open(weft_ctx *ctx, const weft_mesh_security *security,
                                    weft_mesh **out) WEFT_CHECKED;

/** For programs that know which processes take part, from a store or a list of their own: rank 0
 * listens, the program tells its address to the other ranks in its own way, and all ranks join.
 * May be used any number of times, at any time, by any thread. */
typedef struct weft_mesh_place {
    size_t struct_size;
    int rank, size;
    const char *host; /* of rank 0: a name or an address that all others reach */
    int port;
    int listener;    /* from weft_mesh_listen; taken over, also on failure. Ranks other
                        than 0 may pass 0: they then listen at a port that the system
                        chooses */
    double patience; /* seconds to wait for the other ranks; 0: two minutes */
    const weft_mesh_security *security; /* or NULL */
} weft_mesh_place;

/** Opens a listening socket at a port that the system chooses. [out] *listener owned by the
 * caller, for weft_mesh_join or close(). Not collective. Errors: PEER. */
WEFT_API weft_status weft_mesh_listen(weft_ctx *ctx, int *listener,
                                      int *port) WEFT_CHECKED;

/** The same at a port that the caller chooses, so that other processes know where to connect
 * (weft_mesh_enter). Fails if the port is in use already. Not collective. Errors: CONFIG, PEER. */
WEFT_API weft_status weft_mesh_listen_at(weft_ctx *ctx, int port,
                                         int *listener) WEFT_CHECKED;

/** Joins by TCP. Besides the places of lost processes there are 16 places for processes that
 * join later. [out] *out is NULL if the process is the only one. Collective.
 * Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_mesh_join(weft_ctx *ctx, const weft_mesh_place *place,
                                    weft_mesh **out) WEFT_CHECKED;

/** Begins a mesh that consists of this process alone, and that others join by weft_mesh_enter at
 * this port. They may come from any machine if `security` has a key or says plain, else from
 * this machine only. Not collective. Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_mesh_begin(weft_ctx *ctx, int port,
                                     const weft_mesh_security *security,
                                     weft_mesh **out) WEFT_CHECKED;

/** Joins a run that already trains over TCP, by connecting to one of its processes. Port 0:
 * tries the 16 ports from MASTER_PORT (29500) on. `host` may be a list of hosts separated by
 * commas, each with or without a port of its own ("a:29500,[fd00::2]:29501,c"); one host that
 * answers is enough. `patience` is in seconds, 0: two minutes. The run continues meanwhile:
 * weft_train then waits until this process is a member, and receives parameters and state from
 * the other members. Not collective. Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_mesh_enter(weft_ctx *ctx, const char *host, int port,
                                     double patience, const weft_mesh_security *security,
                                     weft_mesh **out) WEFT_CHECKED;

/** The number of the machine that this process runs on, for a transport of one's own: equal for
 * processes of one machine, different for two machines, even of the same name. It follows from
 * the host name, the boot of the kernel, the network namespace and the variable WEFT_MACHINE
 * (docs/launching.md). Never 0. */
WEFT_API uint64_t weft_mesh_machine(void);

/** Creates a mesh over a transport, which it takes over, also on failure. Collective.
 * Errors: CONFIG, FILE, PEER. */
WEFT_API weft_status weft_mesh_create(weft_ctx *ctx, weft_transport *transport,
                                      weft_mesh **out) WEFT_CHECKED;

/** The way back into a run that has continued without this process, which still lives: it was
 * suspended (a laptop whose lid was closed), could not be reached (a cut network), or waited
 * too long because too few other processes were left. [out] `out`: where the other processes
 * listen, in the form that weft_mesh_enter takes. False: the run did not leave this process
 * behind, or no address is known. To be called after weft_train has failed. The process then
 * leaves this mesh, preferably by restarting, and joins again as a new process. */
WEFT_API bool weft_mesh_way_back(weft_mesh *mesh, char *out, size_t size);

/** Leaves the mesh: waits until the others leave too. After a failure it does not wait for the
 * rank that failed, and for the others at most ten seconds. False: not all ranks have left, and
 * the process should end immediately. NULL is accepted. */
WEFT_API bool weft_mesh_close(weft_mesh *mesh);

/** For a child that fork() made of the mesh's process (a worker that loads data, for example):
 * closes the child's copies of the sockets without sending anything, so that the other ranks
 * notice when the parent ends although the child lives on. The parent's mesh is not affected.
 * `ctx` is a context that the child created. The mesh's memory stays allocated, and no other
 * call on the mesh is allowed in the child; weft_mesh_close in a child does the same. An error
 * in the process that joined. Errors: FILE. */
WEFT_API weft_status weft_mesh_forget(weft_ctx *ctx, weft_mesh *mesh) WEFT_CHECKED;

/** Tells all ranks that this one has failed, unless another rank has failed before: the first
 * failure counts. Returns the status of that failure, and makes the context's message say which
 * rank and host it was. */
WEFT_API weft_status weft_mesh_fail(weft_ctx *ctx, weft_mesh *mesh, weft_status status);

/** Whether this rank should print what went wrong: rank 0; rank 1 if rank 0 can not be reached
 * any more; a process that has joined a running run; a rank that the others continue without;
 * and, over weft's own transport, whose processes a person starts on each machine, every rank
 * on another machine than rank 0's. */
WEFT_API bool weft_mesh_speaks(weft_mesh *mesh);

/** This process's place among all; counts of processes, not of threads. */
typedef struct weft_mesh_facts {
    int rank, size;
    int hosts;           /* machines */
    int ranks_here;      /* ranks on this machine */
    bool even;           /* every machine has the same number of ranks */
    const char *host;    /* this machine's name; lives as long as the mesh */
    const char *version; /* of the transport; lives as long as the mesh */
    int awaited;         /* the rank that this one waits for now; -1: none, or several */
    double quiet_s;      /* seconds since a piece of a long message last came or went */
} weft_mesh_facts;

/** As of now; the next call may change what is pointed to. Lives as long as the mesh. */
WEFT_API const weft_mesh_facts *weft_mesh_look(weft_mesh *mesh);

/** Where a rank runs. Lives as long as the mesh. */
WEFT_API const char *weft_mesh_host_of(const weft_mesh *mesh, int rank);

/** Fits a configuration (not finished yet) to where the ranks run: mesh.nodes = machines,
 * mesh.ranks_per_node = ranks on each. If both are set and their product is the number of
 * ranks, they stay, and neighbouring ranks form nodes of that size. Rejects machines with
 * different numbers of ranks, and an emulated wire. Errors: CONFIG. */
WEFT_API weft_status weft_mesh_fit(weft_ctx *ctx, const weft_mesh *mesh,
                                   weft_config *config) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
