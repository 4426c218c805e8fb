/* SPDX-License-Identifier: MIT */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/ext/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processes that train together, one rank each, as seen by this one. Ranks are
 * numbered host by host, so that those of one machine are neighbours. Behind it is a
 * thread that moves the messages and sleeps between looks. */
typedef struct weft_mesh weft_mesh;

/* How the bytes between processes are protected where weft's own transport carries them.
 * Paths may be NULL. Without any, processes of one machine train together, and others are
 * refused. */
typedef struct weft_mesh_security {
    const char *key; /* file of the run's key, the same for all (weft key new) */
    const char *cert, *cert_key, *ca; /* in its place: PEM files of this process's
                                         certificate, its key and the authority */
    bool plain; /* bytes may cross a network as they are: everybody there is trusted */
    const char *run; /* name of the run, the same for all, or NULL: who has the key and
                        another name is refused like one without the key */
} weft_mesh_security;

/* Joins the processes that a launcher (mpirun, mpiexec, srun) has started together with
 * this one, through the MPI that the launcher belongs to; or by TCP alone those that were
 * told RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (29500) in the environment. *out is
 * NULL if nothing of that was done to this process, or to it alone. `security` (may be
 * NULL) is for TCP: MPI encrypts nothing. Raises the limit of open files where ranks are
 * many. Collective. To be called at most once per process, before other threads are
 * started. */
WEFT_API weft_status weft_mesh_open(weft_ctx *ctx, const weft_mesh_security *security,
                                    weft_mesh **out) WEFT_CHECKED;

/* For programs that know who takes part, from a store or a list of their own: rank 0
 * listens, tells the others its address by whatever way the program has, and all join.
 * Any number of times, at any time, by any thread. */
typedef struct weft_mesh_seat {
    int rank, size;
    const char *host; /* of rank 0: a name or an address that all others reach */
    int port;
    int listener;    /* from weft_mesh_listen; taken, also on failure. Of others than rank 0
                        may be 0: then they listen at a port that the system chooses */
    double patience; /* seconds that others are waited for; 0: two minutes */
    const weft_mesh_security *security; /* or NULL */
} weft_mesh_seat;

/* A socket that listens, at a port that the system chooses. [out] *listener owned by the
 * caller, for weft_mesh_join or close(). Not collective. */
WEFT_API weft_status weft_mesh_listen(weft_ctx *ctx, int *listener,
                                      int *port) WEFT_CHECKED;

/* The same at a port that the caller chooses, so that others know where to call
 * (weft_mesh_enter). Fails where somebody listens there already. Not collective. */
WEFT_API weft_status weft_mesh_listen_at(weft_ctx *ctx, int port,
                                         int *listener) WEFT_CHECKED;

/* Joins by TCP; processes that come later have 16 places besides those of the lost. [out] *out is
 * NULL if the process is alone. Collective. */
WEFT_API weft_status weft_mesh_join(weft_ctx *ctx, const weft_mesh_seat *seat,
                                    weft_mesh **out) WEFT_CHECKED;

/* Begins a mesh of this process alone, into which others come by weft_mesh_enter at this port:
 * from any machine with a key in `security`, or where that says plain; else from this one only.
 * Not collective. */
WEFT_API weft_status weft_mesh_begin(weft_ctx *ctx, int port,
                                     const weft_mesh_security *security,
                                     weft_mesh **out) WEFT_CHECKED;

/* Comes into a run that trains by TCP already, by calling one of its processes; port 0: whichever
 * listens at one of the 16 ports from MASTER_PORT (29500) on. `host` may name several with commas
 * between them, with or without a port of their own ("a:29500,[fd00::2]:29501,c"): the first that
 * answers is enough. `patience` in seconds, 0: two minutes. The run goes on meanwhile; weft_train
 * then waits until this process is a member, and gets parameters and state from the others. Not
 * collective. */
WEFT_API weft_status weft_mesh_enter(weft_ctx *ctx, const char *host, int port,
                                     double patience, const weft_mesh_security *security,
                                     weft_mesh **out) WEFT_CHECKED;

/* The same over a transport, which is taken over, also on failure. Collective. */
WEFT_API weft_status weft_mesh_create(weft_ctx *ctx, weft_transport *transport,
                                      weft_mesh **out) WEFT_CHECKED;

/* The way back into a run that has gone on without this process, which lives: it stood still (a
 * laptop's lid), could not be heard (a cut network), or waited too long for too few others.
 * [out] `out`: where the others listen, as weft_mesh_enter takes it. False: it was not left behind,
 * or knows nobody. After weft_train has failed; then the process leaves this mesh, best by
 * beginning anew, and comes in again as somebody new. */
WEFT_API bool weft_mesh_way_back(weft_mesh *mesh, char *out, size_t size);

/* Leaves: waits until the others leave too. After a failure it does not wait for the rank
 * that failed, and ten seconds at most; false: not all have left, and the process should
 * end without more ado. NULL is accepted. */
WEFT_API bool weft_mesh_close(weft_mesh *mesh);

/* In a child that fork() made of the mesh's process (a worker that loads data, say): closes
 * the child's copies of the sockets, without a word to anybody, so that the others hear when
 * the parent ends although the child lives on. The parent's mesh goes on as it was. `ctx` is
 * one that the child created. The mesh's memory stays, and nothing can be done with it here
 * any more; weft_mesh_close in a child does the same. An error in the process that joined. */
WEFT_API weft_status weft_mesh_forget(weft_ctx *ctx, weft_mesh *mesh) WEFT_CHECKED;

/* Tells all ranks that this one has failed, unless some rank has before: the first
 * failure counts. Returns its status, and makes the context's sentence say which rank and
 * host. */
WEFT_API weft_status weft_mesh_fail(weft_ctx *ctx, weft_mesh *mesh, weft_status status);

/* Whether this rank should say what went wrong: rank 0, and rank 1 if that one is not heard any
 * more; a rank that the others go on without; and over weft's own transport, whose processes a
 * person starts on each machine, every rank on another machine than rank 0's. */
WEFT_API bool weft_mesh_speaks(weft_mesh *mesh);

typedef struct weft_mesh_facts {
    int rank, size;
    int hosts;           /* machines */
    int ranks_here;      /* ranks on this machine */
    bool even;           /* as many on every machine */
    const char *host;    /* this machine's name; lives as long as the mesh */
    const char *version; /* of what carries the messages, the same */
} weft_mesh_facts;

WEFT_API weft_mesh_facts weft_mesh_look(const weft_mesh *mesh);

/* Where a rank runs. Lives as long as the mesh. */
WEFT_API const char *weft_mesh_host_of(const weft_mesh *mesh, int rank);

/* Fits a configuration (not finished yet) to where the ranks run: mesh.nodes = machines,
 * mesh.ranks_per_node = ranks on each, unless they are set and their product is the
 * number of ranks: then neighbouring ranks stand for nodes as it says. Refuses uneven
 * machines and an emulated wire. */
WEFT_API weft_status weft_mesh_fit(weft_ctx *ctx, const weft_mesh *mesh,
                                   weft_config *config) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
