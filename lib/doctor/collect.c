/* SPDX-License-Identifier: MIT */
/* Gathers the facts of all ranks, and compares their clocks.
 *
 *     rank 0   <- question     answer: its time t0 ->      r asked at a, heard at b:
 *     rank r   at a                          at b          offset = (a + b)/2 - t0,
 *                                                          error <= (b - a)/2 */
#include "base/sized.h"
#include "doctor/collect.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "mesh/mesh.h"
#include "doctor/examine.h"
#include "doctor/fact_fields.h"

enum { ROUNDS = 8, CHANNEL = 6, CLOCK_TAG = 1, FACTS_TAG = 100 };

double wefti_wall_s(void *user) {
    (void)user;
    return wefti_unix_now_s();
}

/* Rank 0 answers one peer's questions. */
static weft_status answer(wefti_comm *comm, int peer, int64_t tag, wefti_wall_clock clock,
                          void *user) {
    for (int i = 0; i < ROUNDS; i++) {
        const void *question;
        double now_s;
        WEFT_TRY(wefti_comm_receive(comm, peer, tag + 2 * i, sizeof now_s, &question));
        wefti_comm_release(comm, peer, tag + 2 * i);
        now_s = clock(user);
        WEFT_TRY(wefti_comm_send(comm, peer, tag + 2 * i + 1, &now_s, sizeof now_s));
        WEFT_TRY(wefti_comm_await(comm, tag + 2 * i + 1));
    }
    return WEFT_OK;
}

static weft_status ask(wefti_comm *comm, int64_t tag, wefti_wall_clock clock, void *user,
                       weft_rank_facts *facts) {
    facts->clock_offset_error_s = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        const void *view;
        double told_s, asked_s = clock(user);
        WEFT_TRY(wefti_comm_send(comm, 0, tag + 2 * i, &asked_s, sizeof asked_s));
        WEFT_TRY(wefti_comm_receive(comm, 0, tag + 2 * i + 1, sizeof told_s, &view));
        double heard_s = clock(user);
        memcpy(&told_s, view, sizeof told_s);
        wefti_comm_release(comm, 0, tag + 2 * i + 1);
        WEFT_TRY(wefti_comm_await(comm, tag + 2 * i));
        double error_s = (heard_s - asked_s) / 2;
        if (error_s >= facts->clock_offset_error_s) continue;
        facts->clock_offset_error_s = error_s;
        facts->clock_offset_s = (asked_s + heard_s) / 2 - told_s;
    }
    return WEFT_OK;
}

weft_status wefti_gather_clock(wefti_comm *comm, int64_t tag, wefti_wall_clock clock,
                               void *user, weft_rank_facts *facts) {
    facts->clock_offset_s = facts->clock_offset_error_s = 0;
    if (comm->rank > 0) return ask(comm, tag, clock, user, facts);
    for (int peer = 1; peer < comm->size; peer++)
        WEFT_TRY(answer(comm, peer, tag, clock, user));
    return WEFT_OK;
}

static weft_status decode_all(weft_ctx *ctx, const char *bytes, size_t n, int size,
                              weft_rank_facts *all) {
    for (int r = 0; r < size; r++)
        WEFT_TRY(wefti_facts_decode(ctx, bytes + (size_t)r * n, n, &all[r]));
    return WEFT_OK;
}

weft_status wefti_gather_facts(wefti_comm *comm, int64_t tag, const weft_rank_facts *mine,
                               weft_rank_facts *all) {
    size_t n = wefti_facts_bytes();
    char *bytes = NULL, *own;
    WEFT_TRY(wefti_alloc(comm->ctx, n, "a rank's facts", &own));
    weft_status status = wefti_alloc_n(comm->ctx, comm->size, n, "all ranks' facts",
                                       &bytes);
    if (status == WEFT_OK) {
        wefti_facts_encode(mine, own);
        status = wefti_comm_all_gather(comm, tag, own, (int64_t)n, bytes);
    }
    if (status == WEFT_OK) status = decode_all(comm->ctx, bytes, n, comm->size, all);
    WEFTI_FREE(comm->ctx, bytes, own);
    return status;
}

static weft_status gather(weft_ctx *ctx, weft_mesh *mesh, weft_rank_facts *mine,
                          weft_rank_facts *all) {
    wefti_comm *comm;
    if (!mesh) {
        *all = *mine;
        return WEFT_OK;
    }
    WEFT_TRY(wefti_world_join(ctx, &mesh->world, weft_mesh_look(mesh)->rank,
                              WEFTI_GROUP_WORLD, CHANNEL, &comm));
    wefti_examine_calls(ctx, mesh, mine);
    weft_status status = wefti_gather_clock(comm, CLOCK_TAG, wefti_wall_s, NULL, mine);
    if (status == WEFT_OK) status = wefti_gather_facts(comm, FACTS_TAG, mine, all);
    wefti_comm_destroy(comm);
    return status;
}

weft_status weft_doctor_gather(weft_ctx *ctx, weft_mesh *mesh, weft_rank_facts *mine,
                               weft_rank_facts *all) {
    const wefti_sized *kind = &wefti_sized_weft_rank_facts;
    int n = mesh ? weft_mesh_look(mesh)->size : 1;
    weft_rank_facts *own;
    WEFTI_SIZED_OUT(ctx, weft_rank_facts, mine);
    WEFT_TRY(wefti_sized_list_in(ctx, kind, all, n, &own));
    weft_status status = gather(ctx, mesh, mine, own);
    wefti_sized_list_out(kind, own, all, n, status);
    wefti_free(ctx, own);
    return WEFTI_SIZED_GIVE(weft_rank_facts, mine, status);
}
