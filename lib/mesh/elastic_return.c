/* SPDX-License-Identifier: MIT */
/* The way back for a live process that the others have continued without.
 *
 *     stood still, or behind a cut link --> heard again: EVICTED     the others train; it is out
 *     too few others for elastic.pause  --> NO_QUORUM                they may train, or may not
 *
 * Its parameters and state are those of an earlier step, and its incarnation number is not
 * accepted again. So it joins like any other process: with a new incarnation, and with
 * parameters and state from the others. Of the old mesh it keeps only where the ranks that
 * it knew listened; any of these, or a successor at the same address, admits it or tells
 * which process does (joiner.h).
 *
 * A rank whose numbers are wrong (WEFTI_FACT_WRONG) leaves before it has sent any of them,
 * and comes back for those of the others.
 *
 * The rank that leads may notice first, before any message says so, that another process
 * has taken over the run folder: it then fails by itself, and also goes back.
 *
 * Ranks that share a copy of the model come back all together or not at all. They are informed
 * one after another: the first one fails, says that it comes back, and makes the others fail.
 *
 *     FAILED, returns   from all others of the copy   all of them have mine, or will: go
 *     FAILED            or a connection that ends     one does not come back: end
 *     nothing           for mates_s (elastic_worlds.c)                end, and take it back
 *
 * A process that goes has heard all others. So one that stood still in the meantime, and finds
 * that it is alone, has not been heard, and the others have ended. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "mesh/elastic.h"

/* Appends the address where a rank is called; false: it does not fit any more. */
static bool add_called(const weft_mesh *mesh, int rank, char *out, size_t size) {
    const weft_transport *t = mesh->transport;
    char endpoint[128];
    size_t n = strlen(out);
    if (!t->ops->where ||
        !t->ops->where(t, mesh->places.peer_of[rank], endpoint, sizeof endpoint))
        return true;
    if (n + strlen(endpoint) + 2 > size) return false;
    snprintf(out + n, size - n, "%s%s", n ? "," : "", endpoint);
    return true;
}

/* Another port may be called last, where somebody had come since; its own one is named, too. */
static bool add_endpoint(weft_mesh *mesh, int rank, char *out, size_t size) {
    weft_transport *t = mesh->transport;
    if (!add_called(mesh, rank, out, size)) return false;
    if (mesh->elastic->at[rank].turn == 0) return true;
    mesh->elastic->at[rank].turn = t->ops->turn(t, mesh->places.peer_of[rank], 0);
    return add_called(mesh, rank, out, size);
}

/* The machine has ended: notes whether this process may join again, and where. */
void wefti_elastic_note_way_back(weft_mesh *mesh, wefti_member_out out) {
    wefti_elastic *e = mesh->elastic;
    char text[WEFTI_WAY_BACK_BYTES] = "";
    int S = e->setup.shards;
    for (int r = 0; r < e->size; r++)
        if (r / S != mesh->rank / S && !add_endpoint(mesh, r, text, sizeof text)) break;
    pthread_mutex_lock(&mesh->lock);
    bool lives = out == WEFTI_OUT_EVICTED || out == WEFTI_OUT_NO_QUORUM ||
                 (out == WEFTI_OUT_LEFT && (e->fate.replaced || e->fate.wrong));
    if (lives)
        memcpy(e->fate.way_back, text,
               sizeof text); /* a later LEFT does not change this */
    e->fate.is_out = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

/* Whose guards are gone, and whose folder this process does not see. */
#define IF_ENDED "; if they have ended the run, its results are in their folder"

#define WEFTI_OTHER_RUN                                                                  \
    "it was refused, for its configuration, or its text or tensors, are not the run's"

void wefti_elastic_note_out(weft_mesh *mesh, wefti_member_out out) {
    WEFTI_ASSERT_PROGRESS(mesh);
    static const char *const why[] = {
        [WEFTI_OUT_NONE] = "it is out",
        [WEFTI_OUT_LEFT] = "it has left",
        [WEFTI_OUT_EVICTED] = WEFTI_LEFT_BEHIND,
        [WEFTI_OUT_NO_QUORUM] = "it hears too few of the others to go on",
        [WEFTI_OUT_REFUSED] = WEFTI_OTHER_RUN,
        [WEFTI_OUT_NO_ANSWER] = "nobody answered it",
        [WEFTI_OUT_FAULT] = "membership contradicts itself, which is a fault of weft"};
    const wefti_elastic *e = mesh->elastic;
    bool over = out == WEFTI_OUT_LEFT && e->machine.is_over;
    pthread_mutex_lock(&mesh->lock);
    bool shown = over && e->end.has_ended;
    const char *ended = e->end.others_ended ? WEFTI_OTHERS_ENDED : WEFTI_ENDED_WITHOUT_IT;
    pthread_mutex_unlock(&mesh->lock);
    wefti_elastic_note_way_back(mesh, out);
    if (out == WEFTI_OUT_REFUSED && wefti_elastic_ask_why(mesh)) return;
    wefti_mesh_blame(
        mesh, mesh->rank, "rank %d (host %s) takes no part any more: %s%s%s%s%s",
        mesh->rank, weft_mesh_host_of(mesh, mesh->rank), over ? ended : why[out],
        shown ? "; its results are in " : "", shown ? e->setup.folder : "",
        wefti_elastic_witness_text(e, out), out == WEFTI_OUT_NO_QUORUM ? IF_ENDED : "");
}

void wefti_elastic_ask_no_more(weft_mesh *mesh) {
    if (!mesh || !mesh->elastic) return;
    pthread_mutex_lock(&mesh->lock);
    mesh->elastic->end.asks = false;
    mesh->elastic->end.ask_s = 0;
    pthread_mutex_unlock(&mesh->lock);
}

bool wefti_elastic_returns(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    if (!e) return false;
    pthread_mutex_lock(&mesh->lock);
    bool returns = (e->fate.way_back[0] || e->fate.replaced || e->fate.wrong) &&
                   !e->fate.stays;
    pthread_mutex_unlock(&mesh->lock);
    return returns;
}

bool wefti_elastic_stays(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    if (!mesh->elastic) return false;
    pthread_mutex_lock(&mesh->lock);
    bool stays = mesh->elastic->fate.stays;
    pthread_mutex_unlock(&mesh->lock);
    return stays;
}

void wefti_elastic_check_copy(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    int S = mesh->elastic->setup.shards;
    if (rank / S == mesh->rank / S && !mesh->elastic->at[rank].departed)
        wefti_mesh_blame(
            mesh, rank,
            "rank %d (host %s), which held a part of the same copy of the model, "
            "has ended",
            rank, weft_mesh_host_of(mesh, rank));
}

void wefti_elastic_hear_failure(weft_mesh *mesh, int sender,
                                const wefti_envelope *envelope, const char *text) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    bool shares = sender / e->setup.shards == mesh->rank / e->setup.shards;
    bool wrong = envelope->channel == WEFT_ERR_NUMERIC;
    bool returns = envelope->tag & WEFTI_RETURNS;
    pthread_mutex_lock(&mesh->lock);
    e->at[sender].returns = returns ? 1 : -1;
    bool last = wrong && wefti_elastic_count_fault(mesh, sender);
    snprintf(e->at[sender].reason, sizeof e->at[sender].reason, "%.172s%s", text,
             last ? "; it is not taken in again" : "");
    e->at[sender].was_wrong = wrong;
    e->fate.wrong = e->fate.wrong || (shares && wrong);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    if (shares && returns &&
        e->view.number > 0) /* on its way in it waits for another one */
        wefti_elastic_note_way_back(mesh, WEFTI_OUT_EVICTED);
    wefti_elastic_check_copy(mesh, sender);
}

/* --- a run that has ended --- */

/* A process that slept asks at the ports of the others how they stand; a minute after their end
 * nobody answers there. The folder that all see still does. A view that all members have left
 * in order is the run's last one: the next one would need a member of it. */
static weft_status path_of(weft_ctx *ctx, const char *folder, uint64_t run,
                           char path[PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "ended-%016llx", (unsigned long long)run);
    return wefti_file_path(ctx, folder, name, path);
}

weft_status wefti_ended_write(weft_ctx *ctx, const char *folder, uint64_t run,
                              int64_t view) {
    char path[PATH_MAX], text[64];
    WEFT_TRY(path_of(ctx, folder, run, path));
    snprintf(text, sizeof text, "view %lld\n", (long long)view);
    return wefti_file_write(ctx, path, text, (int64_t)strlen(text));
}

bool wefti_ended_after(const char *folder, uint64_t run, int64_t view) {
    weft_ctx *ctx;
    char path[PATH_MAX];
    long long ended = -1;
    if (weft_ctx_create(&ctx) != WEFT_OK) return false;
    FILE *file = path_of(ctx, folder, run, path) == WEFT_OK ? fopen(path, "re") : NULL;
    if (file && fscanf(file, "view %lld", &ended) != 1) ended = -1;
    if (file) fclose(file);
    weft_ctx_destroy(ctx);
    return ended > view;
}
