/* SPDX-License-Identifier: MIT */
#ifndef WEFT_WITNESS_H
#define WEFT_WITNESS_H

#include <weft/ctx.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that trains nothing and decides which half of a run goes on when its network is cut in
 * the middle (elastic.witness; docs/membership.md, "A witness"). It gives one vote for each
 * view of a run, to the half that asks first, writes it into a file before it says so, and gives it
 * to nobody else, also after it was started again. Any number of runs that have the same key
 * (mesh.key, mesh.run) may use one. */
typedef struct weft_witness weft_witness;

enum { WEFT_WITNESS_PORT = 29600 };

typedef struct weft_witness_setup {
    int port;          /* that it listens at; 0: WEFT_WITNESS_PORT */
    const char *votes; /* file of the votes, made if it is not there; one process at a time */
    const weft_mesh_security *security; /* the runs'; without a key it hears this machine only,
                                           unless that says plain; may be NULL */
} weft_witness_setup;

/* Listens from now on. What happens is said to the context's sink, as long as the witness lives.
 * [out] *out owned by the caller. Not collective. */
WEFT_API weft_status weft_witness_open(weft_ctx *ctx, const weft_witness_setup *setup,
                                       weft_witness **out) WEFT_CHECKED;

/* Answers for so many seconds. Fails where nothing can be answered any more. May be called again
 * and again, by one thread. */
WEFT_API weft_status weft_witness_serve(weft_ctx *ctx, weft_witness *witness,
                                        double seconds) WEFT_CHECKED;

/* How many runs it has given a vote to. */
WEFT_API int weft_witness_runs(const weft_witness *witness);

/* NULL is accepted. */
WEFT_API void weft_witness_close(weft_witness *witness);

#ifdef __cplusplus
}
#endif
#endif
