/* SPDX-License-Identifier: MIT */
#ifndef WEFT_WITNESS_H
#define WEFT_WITNESS_H

#include <weft/ctx.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A process that does not train, and decides which half of a run continues when a network
 * failure cuts the run into two halves (elastic.witness; docs/membership.md, "A witness").
 * For each view of a run it gives one vote, to the half that asks first. It writes the vote
 * into a file before it answers, and never gives that vote to another half, not even after
 * a restart. Any number of runs with the same key (mesh.key, mesh.run) may use one witness. */
typedef struct weft_witness weft_witness;

enum { WEFT_WITNESS_PORT = 29600 };

/** Where a witness listens, and with which key. */
typedef struct weft_witness_setup {
    size_t struct_size;
    int port;          /* to listen at; 0: WEFT_WITNESS_PORT */
    const char *votes; /* file of the votes, created if missing; used by one process
                          only */
    const weft_mesh_security *security; /* that of the runs. Without a key only this
                                           machine is answered, unless `plain` is set; may
                                           be NULL */
} weft_witness_setup;

/** Starts to listen. While the witness exists, it reports events to the context's sink.
 * [out] *out owned by the caller. Not collective. Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_witness_open(weft_ctx *ctx, const weft_witness_setup *setup,
                                       weft_witness **out) WEFT_CHECKED;

/** Answers requests for `seconds` seconds. Fails if no request can be answered any more. May
 * be called repeatedly, by one thread. Errors: PEER. */
WEFT_API weft_status weft_witness_serve(weft_ctx *ctx, weft_witness *witness,
                                        double seconds) WEFT_CHECKED;

/** The number of runs that have got a vote from it. */
WEFT_API int weft_witness_runs(const weft_witness *witness);

/** NULL is accepted. */
WEFT_API void weft_witness_close(weft_witness *witness);

#ifdef __cplusplus
}
#endif
#endif
