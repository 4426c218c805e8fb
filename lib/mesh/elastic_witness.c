/* SPDX-License-Identifier: MIT */
/* The connection to the witness (elastic.witness). The witness is asked when exactly half
 * of the processes hear each other (member/change.c). This may never happen, so no
 * connection to it is kept open. Resolving a name, connecting and shaking hands take time,
 * for which the progress thread can not wait, so a separate thread does it:
 *
 *     progress thread              asker's thread                     witness
 *     question, once a second -->  call, show the card       -->      judge
 *     answer, at the next pump <-- wake the progress thread  <--      one byte
 *
 * There is one question at a time; the machine asks again if no answer comes. At the start
 * of a run the witness is asked once whether it is there, so that a wrong address is
 * noticed before the witness is needed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "mesh/elastic.h"
#include "start/witness.h"

static const double ask_s = 2;

struct wefti_asker {
    weft_mesh *mesh; /* borrowed */
    char host[256];
    int port;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* lock */
    bool ends, asks, has_answer;
    wefti_vote vote;
    wefti_witness_answer answer;
};

static wefti_witness_answer call(const wefti_asker *a, const wefti_vote *vote) {
    weft_transport *t = a->mesh->transport;
    wefti_witness_card card = {.vote = *vote, .rank = a->mesh->rank};
    unsigned char bytes[WEFTI_CARD_BYTES];
    gethostname(card.host, sizeof card.host - 1);
    wefti_witness_card_write(&card, bytes);
    int code = t->ops->ask(t, a->host, a->port, bytes, sizeof bytes, ask_s);
    bool known = code > WEFTI_WITNESS_SILENT && code <= WEFTI_WITNESS_CAN_NOT;
    return known ? (wefti_witness_answer)code : WEFTI_WITNESS_SILENT;
}

static void wake_progress(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    wefti_outbox_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

static void *ask_when_asked(void *user) {
    wefti_asker *a = user;
    pthread_mutex_lock(&a->lock);
    while (!a->ends) {
        if (!a->asks || a->has_answer) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        wefti_vote vote = a->vote;
        pthread_mutex_unlock(&a->lock);
        wefti_witness_answer answer = call(a, &vote);
        pthread_mutex_lock(&a->lock);
        a->answer = answer;
        a->has_answer = true;
        pthread_mutex_unlock(&a->lock);
        wake_progress(a->mesh);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void wefti_elastic_ask_witness(weft_mesh *mesh, const wefti_vote *vote) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_asker *a = mesh->elastic->witness.asker;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    if (!a->asks) {
        a->vote = *vote;
        a->asks = true;
        pthread_cond_signal(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

void wefti_elastic_hear_witness(weft_mesh *mesh,
                                void (*feed)(weft_mesh *, const wefti_member_event *)) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    wefti_asker *a = e->witness.asker;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    bool heard = a->has_answer;
    wefti_witness_answer answer = a->answer;
    wefti_member_event event = {.kind = WEFTI_EVENT_VOTE, .vote = a->vote};
    if (heard) a->asks = a->has_answer = false;
    pthread_mutex_unlock(&a->lock);
    if (!heard) return;
    event.given = answer == WEFTI_WITNESS_GIVES;
    e->witness.answer = (int)answer;
    if (event.given || answer == WEFTI_WITNESS_REFUSES) feed(mesh, &event);
}

const char *wefti_elastic_witness_text(const wefti_elastic *e, wefti_member_out out) {
    static const char *const text[] = {
        [WEFTI_WITNESS_SILENT] = ", and the witness does not answer",
        [WEFTI_WITNESS_GIVES] = ", though the witness gave them its vote",
        [WEFTI_WITNESS_REFUSES] = ", and the witness gave its vote to the others",
        [WEFTI_WITNESS_IS_HERE] = "",
        [WEFTI_WITNESS_CAN_NOT] = ", and the witness could not store its vote"};
    bool few = out == WEFTI_OUT_NO_QUORUM;
    return few && e->witness.asker && e->witness.answer >= 0 ? text[e->witness.answer]
                                                             : "";
}

/* --- birth and death --- */

static weft_status find_endpoint(weft_ctx *ctx, const char *text, wefti_asker *a) {
    wefti_tcp_endpoint *endpoints;
    int n;
    weft_status status = wefti_tcp_endpoints(ctx, text, WEFT_WITNESS_PORT, 1, &endpoints,
                                             &n);
    if (status == WEFT_OK && n == 1) {
        snprintf(a->host, sizeof a->host, "%s", endpoints[0].host);
        a->port = endpoints[0].port;
        wefti_free(ctx, endpoints);
        return WEFT_OK;
    }
    if (status == WEFT_OK) wefti_free(ctx, endpoints);
    weft_ctx_clear(ctx);
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "elastic.witness is %s, expected HOST or HOST:PORT of one witness, "
        "with a port from 1 to 65535",
        text);
}

static weft_status start(weft_ctx *ctx, wefti_asker *a) {
    if (pthread_mutex_init(&a->lock, NULL) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the witness");
    bool has_cond = pthread_cond_init(&a->changed, NULL) == 0;
    if (has_cond && pthread_create(&a->thread, NULL, ask_when_asked, a) == 0)
        return WEFT_OK;
    if (has_cond) pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no thread for the witness");
}

/* To be called before anything depends on the witness. A run whose witness does not answer
 * runs like one without a witness. */
static void look_whether_it_is_there(weft_ctx *ctx, const wefti_asker *a) {
    const wefti_vote nothing = {0};
    if (call(a, &nothing) == WEFTI_WITNESS_IS_HERE) return;
    weft_ctx_log(
        ctx, WEFT_LOG_WARN,
        "the witness at %s:%d does not answer rank %d; the run goes on without it, and "
        "asks it if its network is cut into two halves",
        a->host, a->port, a->mesh->rank);
}

weft_status wefti_elastic_know_witness(weft_ctx *ctx, weft_mesh *mesh, wefti_elastic *e) {
    const char *where = e->setup.policy.witness;
    e->witness.answer = -1;
    if (!where || !where[0]) return WEFT_OK;
    if (!mesh->transport->ops->ask)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "elastic.witness is %s, but %s can not call it; expected weft's own "
            "transport",
            where, mesh->transport->version);
    wefti_asker *a;
    WEFT_TRY(wefti_alloc(mesh->ctx, sizeof *a, "the witness", &a));
    a->mesh = mesh;
    weft_status status = find_endpoint(ctx, where, a);
    if (status == WEFT_OK) look_whether_it_is_there(ctx, a);
    if (status == WEFT_OK) status = start(ctx, a);
    if (status == WEFT_OK)
        e->witness.asker = a;
    else
        wefti_free(mesh->ctx, a);
    return status;
}

void wefti_elastic_leave_witness(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    wefti_asker *a = e ? e->witness.asker : NULL;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->ends = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    e->witness.asker = NULL;
    wefti_free(mesh->ctx, a);
}
