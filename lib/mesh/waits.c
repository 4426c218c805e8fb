/* SPDX-License-Identifier: MIT */
/* How the rank's threads wait, and what they say about it.
 *
 *     thread      await -> sleeps ........................ wakes -> says the sentence
 *     progress                   10 s later: why it waits ---^
 *
 * The progress thread knows who is heard of, so it writes the sentence; a context and its sink
 * belong to the thread that waits, so that one says it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "mesh/elastic.h"

/* A wait of first_s is logged, and again each time that it has doubled. One that ended by itself is
 * what a run with slow wires or unequal machines has in each step: only longer ones are logged. */
static const double first_s = WEFTI_SAY_AFTER_S, heard_s = 2, look_every_s = 0.5;

void wefti_mesh_wait(weft_mesh *mesh, double until_s) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    if (wefti_elastic_may_wait(mesh, &until_s))
        wefti_cond_wait(&mesh->changed, &mesh->lock, until_s);
}

/* Lock held. */
static bool is_sending_long(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    for (const wefti_parcel *p = mesh->outgoing.sent; p; p = p->next_sent)
        if (p->envelope.kind == WEFTI_ENVELOPE_LONG) return true;
    return false;
}

void wefti_mesh_settle(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    while (is_sending_long(mesh)) {
        if (atomic_load(&mesh->world.poisoned) && !mesh->orders.taking_back) {
            mesh->orders.taking_back = true;
            wefti_outbox_wake(mesh);
        }
        wefti_mesh_wait(mesh, (double)INFINITY);
    }
    pthread_mutex_unlock(&mesh->lock);
}

/* --- the thread that waits --- */

void wefti_mesh_await(weft_ctx *ctx, weft_mesh *mesh, wefti_wait *wait, int rank,
                      double until_s) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    char why[sizeof mesh->waits.why];
    wefti_waits *w = &mesh->waits;
    if (wait->since_s <= 0) wait->since_s = wefti_now_s();
    if (!w->first) {
        w->first = wait;
        w->told_s = 0;
        atomic_store(&w->rank, rank);
        atomic_store(&w->since_s, wait->since_s);
    }
    wefti_mesh_wait(mesh, until_s);
    if (w->first != wait || !w->why[0]) return;
    memcpy(why, w->why, sizeof why);
    w->why[0] = '\0';
    pthread_mutex_unlock(&mesh->lock);
    weft_ctx_log(ctx, WEFT_LOG_WAIT, "%s", why);
    pthread_mutex_lock(&mesh->lock);
}

void wefti_mesh_awaited(weft_mesh *mesh, const wefti_wait *wait) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_waits *w = &mesh->waits;
    if (w->first != wait) return;
    w->first = NULL;
    w->why[0] = '\0';
    w->longest_s = fmax(w->longest_s, wefti_now_s() - wait->since_s);
    atomic_store(&w->since_s, 0);
}

/* --- the progress thread --- */

/* "rank 2 (host b), rank 3 (host b)": the members whom this one does not hear. */
static int list_silent(const weft_mesh *mesh, char *out, size_t size) {
    const wefti_elastic *e = mesh->elastic;
    int n = 0;
    out[0] = '\0';
    for (int r = 0; r < e->size; r++) {
        size_t used = strlen(out);
        if (r == mesh->rank || e->at[r].departed || e->at[r].fresh ||
            !wefti_member_suspects(e->machine.member, e->at[r].id))
            continue;
        if (size - used > 120)
            snprintf(out + used, size - used, "%srank %d (host %.80s)", n ? ", " : "", r,
                     weft_mesh_host_of(mesh, r));
        else if (size - used > 5)
            snprintf(out + used, size - used, ", ...");
        n++;
    }
    return n;
}

/* Returns false if this process does not wait for want of others. */
static bool say_paused(const weft_mesh *mesh, double waited_s, char *out, size_t size) {
    char silent[480];
    const wefti_elastic *e = mesh->elastic;
    if (!e || wefti_member_get_state(e->machine.member) != WEFTI_MEMBER_PAUSED)
        return false;
    int n = list_silent(mesh, silent, sizeof silent);
    if (n == 0) return false;
    snprintf(
        out, size,
        "rank %d has waited %.0f s: nothing is heard of %s, and without %s those that "
        "hear each other are too few to go on; it waits for %g s (elastic.pause)",
        mesh->rank, waited_s, silent, n > 1 ? "them" : "it", e->setup.policy.pause_s);
    return true;
}

static void say_why(const weft_mesh *mesh, int rank, double waited_s, double now_s,
                    char *out, size_t size) {
    const wefti_elastic *e = mesh->elastic;
    if (say_paused(mesh, waited_s, out, size)) return;
    if (rank < 0) {
        snprintf(out, size, "rank %d has waited %.0f s for the members to %s", mesh->rank,
                 waited_s, e && e->view.number == 0 ? "take it in" : "agree who goes on");
        return;
    }
    int n = snprintf(out, size, "rank %d has waited %.0f s for rank %d (host %.80s)",
                     mesh->rank, waited_s, rank, weft_mesh_host_of(mesh, rank));
    if (rank == mesh->rank || n < 0 || (size_t)n >= size) return;
    double quiet_s = now_s - mesh->peers[rank].heard_s;
    int64_t step = e ? e->at[rank].begun : mesh->peers[rank].step;
    bool silent = wefti_liveness_nods(mesh, rank);
    if (e) silent = wefti_member_suspects(e->machine.member, e->at[rank].id);
    if (quiet_s < heard_s)
        snprintf(out + n, size - (size_t)n, ", which lives and was last at step %lld",
                 (long long)step + 1);
    else if (silent)
        snprintf(out + n, size - (size_t)n, ", which has been silent for %.0f s",
                 quiet_s);
}

/* Of the members on a machine the lowest-numbered one speaks, unless another one waits for it. */
static bool is_spoken_for(const weft_mesh *mesh, int rank, double now_s) {
    if (mesh->elastic && mesh->elastic->view.number == 0)
        return false; /* on its way in */
    for (int r = 0; r < mesh->rank; r++) {
        const wefti_peer *peer = &mesh->peers[r];
        bool here = wefti_mesh_same_host(mesh, r, mesh->rank);
        if (here && r != rank && !peer->left && !peer->lost &&
            now_s - peer->heard_s < heard_s)
            return true;
    }
    return false;
}

void wefti_waits_watch(weft_mesh *mesh, double now_s) {
    WEFTI_ASSERT_PROGRESS(mesh);
    char why[sizeof mesh->waits.why];
    wefti_waits *w = &mesh->waits;
    double since_s = atomic_load(&w->since_s);
    if (since_s <= 0 || now_s - since_s < first_s || now_s < w->look_s) return;
    int rank = atomic_load(&w->rank);
    w->look_s = now_s + look_every_s;
    if (is_spoken_for(mesh, rank, now_s)) return;
    say_why(mesh, rank, now_s - since_s, now_s, why, sizeof why);
    pthread_mutex_lock(&mesh->lock);
    double waited_s = w->first ? now_s - w->first->since_s : 0;
    if (waited_s >= wefti_wait_due_s(first_s, w->longest_s, w->told_s)) {
        w->told_s = waited_s;
        memcpy(w->why, why, sizeof why);
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
}
