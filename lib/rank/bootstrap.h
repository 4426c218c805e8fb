/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/mesh.h"

/* The processes of a run while it is prepared, before the mesh has its shape. The first
 * process tells the others what it finds out, and what must be the same everywhere is
 * compared. A process that is alone (comm NULL) is the leader, and nothing is sent. */
typedef struct wefti_bootstrap {
    wefti_comm *comm; /* all ranks; borrowed; or NULL */
    int64_t n_messages;
    weft_mesh *mesh; /* borrowed; or NULL */
    /* [ranks] Which ranks can read what the leader writes into the run folder: allocated
     * and filled by wefti_bootstrap_look. NULL: not tested, all can. */
    bool *sees;
} wefti_bootstrap;

/* Joins the processes of `mesh`, or none (NULL). */
weft_status wefti_bootstrap_join(weft_ctx *ctx, weft_mesh *mesh,
                                 wefti_bootstrap *out) WEFT_CHECKED;
void wefti_bootstrap_leave(weft_ctx *ctx, wefti_bootstrap *c);

bool wefti_bootstrap_leads(const wefti_bootstrap *c);

/* Copies the leader's n bytes to all processes. Collective. */
weft_status wefti_bootstrap_tell(wefti_bootstrap *c, void *data,
                                 int64_t n_bytes) WEFT_CHECKED;

/* The same from another rank. Collective. */
weft_status wefti_bootstrap_tell_from(wefti_bootstrap *c, int from, void *data,
                                      int64_t n_bytes) WEFT_CHECKED;

/* Checks that a value is the same everywhere; else fails with an error that names a rank
 * and `what`, for example "the configuration". Collective. */
weft_status wefti_bootstrap_same(weft_ctx *ctx, wefti_bootstrap *c, uint64_t value,
                                 const char *what) WEFT_CHECKED;

/* The sum over all processes. Collective. */
weft_status wefti_bootstrap_sum(wefti_bootstrap *c, double *value) WEFT_CHECKED;

/* Whether a rank sees the run folder as the leader does, after wefti_bootstrap_look. */
bool wefti_bootstrap_sees(const wefti_bootstrap *c, int rank);

/* This process's number, 0 if it is alone. */
int wefti_bootstrap_rank(const wefti_bootstrap *c);

/* Finds out which ranks see the leader's `folder`; creates it where it is not seen.
 * Where that fails the rank sees nothing, or with `required` ends. Collective. */
weft_status wefti_bootstrap_look(weft_ctx *ctx, wefti_bootstrap *c, const char *folder,
                                 bool required) WEFT_CHECKED;

/* Copies the leader's folder `from` with its files to the name `to` on each machine that
 * does not see it. Collective. */
weft_status wefti_bootstrap_copy_folder(weft_ctx *ctx, wefti_bootstrap *c,
                                        const char *from, const char *to) WEFT_CHECKED;

/* Copies a file of rank `from` to the same path on rank `to`. The other ranks do
 * nothing. */
weft_status wefti_bootstrap_send_file(weft_ctx *ctx, wefti_bootstrap *c, int from, int to,
                                      const char *path) WEFT_CHECKED;
