/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/mesh.h"

/* The processes of a run while it is prepared, before the mesh has its shape: what the
 * first one finds out the others are told, and what all have to hold alike is compared.
 * Alone (comm NULL), a process leads and nothing is sent. */
typedef struct wefti_bootstrap {
    wefti_comm *comm; /* all ranks; borrowed; or NULL */
    int64_t n_messages;
    weft_mesh *mesh; /* borrowed; or NULL */
    /* [ranks] Who can read what the leader writes into the run folder: filled by
     * wefti_bootstrap_look, which allocates it. NULL: nobody was asked, all can. */
    bool *sees;
} wefti_bootstrap;

/* Joins the processes of `mesh`, or none (NULL). */
weft_status wefti_bootstrap_join(weft_ctx *ctx, weft_mesh *mesh,
                                 wefti_bootstrap *out) WEFT_CHECKED;
void wefti_bootstrap_leave(weft_ctx *ctx, wefti_bootstrap *c);

bool wefti_bootstrap_leads(const wefti_bootstrap *c);

/* The leader's n bytes become everybody's. Collective. */
weft_status wefti_bootstrap_tell(wefti_bootstrap *c, void *data,
                                 int64_t n_bytes) WEFT_CHECKED;

/* Values that must be alike; else an error that names a rank and `what`: "the
 * configuration". Collective. */
weft_status wefti_bootstrap_same(weft_ctx *ctx, wefti_bootstrap *c, uint64_t value,
                                 const char *what) WEFT_CHECKED;

/* The sum over all processes. Collective. */
weft_status wefti_bootstrap_sum(wefti_bootstrap *c, double *value) WEFT_CHECKED;

/* Whether a rank sees the run folder as the leader does, after wefti_bootstrap_look. */
bool wefti_bootstrap_sees(const wefti_bootstrap *c, int rank);

/* This process's number, 0 if it is alone. */
int wefti_bootstrap_rank(const wefti_bootstrap *c);

/* Finds out who sees the leader's `folder`; makes it where it is not seen. Collective. */
weft_status wefti_bootstrap_look(weft_ctx *ctx, wefti_bootstrap *c,
                                 const char *folder) WEFT_CHECKED;

/* The leader's folder `from` with its files, under the name `to` on each machine that
 * does not see it. Collective. */
weft_status wefti_bootstrap_copy_folder(weft_ctx *ctx, wefti_bootstrap *c,
                                        const char *from, const char *to) WEFT_CHECKED;

/* A file of rank `from` is written at the same path by rank `to`. The others do nothing.
 */
weft_status wefti_bootstrap_send_file(weft_ctx *ctx, wefti_bootstrap *c, int from, int to,
                                      const char *path) WEFT_CHECKED;
