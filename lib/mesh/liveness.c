/* SPDX-License-Identifier: MIT */
/* Detects which processes are alive. Five times a second each process sends to the two
 * after it a sign of life with its position, and expects signs from the two before it. A
 * process that has sent its farewell gets signs from all that have not, and expects them.
 * Other evidence of a death: a closed connection, the end of a process on this machine,
 * half a message without the rest. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "mesh/elastic.h"

/* A rank whose signs come late, on a slow wire, is missed later: after a multiple of the
 * gaps observed so far. */
static const double watch_every_s = 0.05, beat_every_s = 0.2, asked_silence_s = 0.8,
                    asked_gaps = 4, gap_decay = 0.98, last_words_s = 0.5;

void wefti_liveness_heard(wefti_peer *peer) {
    double now_s = wefti_now_s(), gap_s = now_s - peer->heard_s;
    peer->gap_s *= gap_decay;
    if (gap_s > peer->gap_s) peer->gap_s = gap_s;
    peer->heard_s = now_s;
}

/* "block 3 of step 17" */
static const char *whereabouts(const wefti_peer *peer, char *out, size_t size) {
    if (peer->step < 0)
        snprintf(out, size, "getting ready");
    else
        snprintf(out, size, "at %s of step %lld",
                 peer->at[0] ? peer->at : "the beginning", (long long)peer->step + 1);
    return out;
}

/* A closed connection after a farewell is normal. But if the others continue, a rank that
 * left before them has failed, and its last messages may not have arrived; and who is on its way
 * in would wait for it. */
void wefti_liveness_lose(weft_mesh *mesh, int r) {
    WEFTI_ASSERT_PROGRESS(mesh);
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    bool enters = mesh->transport->entry && !mesh->elastic;
    if (peer->left && !enters && (!mesh->elastic || mesh->end.said_bye)) return;
    if (mesh->elastic) {
        wefti_elastic_lose(mesh, r);
        return;
    }
    if (enters) { /* on its way into a run that goes on without r, or has ended */
        peer->lost = true;
        wefti_outbox_forget(mesh, r);
        pthread_mutex_lock(&mesh->lock);
        peer->greeted = true; /* its greeting never comes */
        pthread_cond_broadcast(&mesh->changed);
        pthread_mutex_unlock(&mesh->lock);
        return;
    }
    wefti_mesh_blame(
        mesh, r,
        "rank %d (host %s) has closed its connection: it has died or was ended; "
        "it was last %s",
        r, weft_mesh_host_of(mesh, r), whereabouts(peer, where, sizeof where));
}

static bool is_neighbour(const weft_mesh *mesh, int from, int to) {
    int after = (to - from + mesh->world.size) % mesh->world.size;
    return after == 1 || after == 2;
}

bool wefti_liveness_nods(const weft_mesh *mesh, int rank) {
    return is_neighbour(mesh, rank, mesh->rank);
}

/* To the two ranks after this one, and to those that have left and wait for the others. A
 * process on its way into a run says it to all: one that falls silent is given up. */
static void say_alive(weft_mesh *mesh) {
    const char *at = atomic_load(&mesh->at);
    wefti_envelope alive = {.kind = WEFTI_ENVELOPE_ALIVE,
                            .tag = atomic_load(&mesh->step)};
    for (int r = 0; r < mesh->world.size; r++) {
        bool waits = mesh->peers[r].left || mesh->transport->entry ||
                     is_neighbour(mesh, mesh->rank, r);
        if (r != mesh->rank && waits) wefti_outbox_post(mesh, r, &alive, at ? at : "");
    }
}

/* Whether a process has ended, even if its parent has not waited for it. */
static bool has_ended(int64_t process) {
    char path[64], line[512];
    if (kill((pid_t)process, 0) != 0) return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static void check_process(weft_mesh *mesh, int r) {
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    /* Its last messages may still be on their way. */
    bool quiet = wefti_now_s() - peer->heard_s > last_words_s;
    if (peer->left || peer->process == 0 || !quiet || !has_ended(peer->process)) return;
    wefti_mesh_blame(mesh, r, "rank %d (host %s, process %lld) has died; it was last %s",
                     r, weft_mesh_host_of(mesh, r), (long long)peer->process,
                     whereabouts(peer, where, sizeof where));
}

static void check_silence(weft_mesh *mesh, int r, double now_s, double limit_s) {
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    bool nods = wefti_liveness_nods(mesh, r);
    double since_s = peer->heard_s;
    if (!nods && mesh->end.said_bye && since_s < mesh->end.said_bye_s)
        since_s = mesh->end.said_bye_s;
    if (peer->left || !peer->greeted || !(nods || mesh->end.said_bye) ||
        now_s - since_s <= limit_s)
        return;
    wefti_mesh_blame(
        mesh, r,
        "rank %d (host %s) has given no sign of life for %.1f s: it has died, stands "
        "still, or the network is cut; it was last %s",
        r, weft_mesh_host_of(mesh, r), now_s - peer->heard_s,
        whereabouts(peer, where, sizeof where));
}

static void check_half(weft_mesh *mesh, int r, double now_s, double limit_s) {
    const wefti_peer *peer = &mesh->peers[r];
    if (!peer->half || now_s - peer->half_s <= limit_s) return;
    wefti_mesh_blame(mesh, r,
                     "rank %d (host %s) sent half of a short message %.1f s ago and "
                     "not the rest: it has stopped, or the network is cut",
                     r, weft_mesh_host_of(mesh, r), now_s - peer->half_s);
}

/* How long rank r may be silent. */
static double limit_of(weft_mesh *mesh, int r, bool asked) {
    double limit_s = atomic_load(&mesh->silence_s);
    if (limit_s <= 0) limit_s = (double)INFINITY;
    if (!asked) return limit_s;
    double soon_s = fmax(asked_silence_s, asked_gaps * mesh->peers[r].gap_s);
    return fmin(limit_s, soon_s);
}

static void watch(weft_mesh *mesh) {
    double now_s = wefti_now_s();
    int size = mesh->world.size;
    if (now_s - mesh->clock.watched_s < watch_every_s) return;
    mesh->clock.watched_s = now_s;
    if (now_s - mesh->clock.beat_s > beat_every_s && !mesh->end.said_bye) {
        mesh->clock.beat_s = now_s;
        say_alive(mesh);
    }
    if (mesh->transport->entry) return; /* the run judges its members, and goes on */
    bool (*ask)(void *) = atomic_load(&mesh->asked.call);
    bool asked = ask && ask(mesh->asked.user);
    for (int r = 0; r < size && !mesh->world.poisoned; r++) {
        double limit_s = limit_of(mesh, r, asked);
        if (r == mesh->rank || mesh->peers[r].lost) continue;
        check_process(mesh, r);
        check_silence(mesh, r, now_s, limit_s);
        check_half(mesh, r, now_s, limit_s);
    }
}

double wefti_liveness_watch(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    if (mesh->elastic) return wefti_elastic_pump(mesh);
    watch(mesh);
    return (double)INFINITY;
}
