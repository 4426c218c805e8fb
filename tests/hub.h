/* SPDX-License-Identifier: MIT */
/* A transport inside one process: what a mesh of processes does, seen by sanitizers.
 * Members are threads; a message is copied when it is sent, and a request is done at the
 * second look, so that there is always something under way. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/ext/transport.h>

enum { HUB_MEMBERS = 8, HUB_LOG = 256 };

typedef struct hub_message {
    struct hub_message *next;
    int from, lane, n_bytes;
    bool half; /* its end never comes */
    unsigned char data[];
} hub_message;

typedef struct hub {
    pthread_mutex_t lock;
    int size;
    hub_message *first[HUB_MEMBERS], **last[HUB_MEMBERS]; /* to each member */
    const char *hosts[HUB_MEMBERS];
    uint64_t machines[HUB_MEMBERS]; /* all 0: hosts' names tell them apart */
    int finished, finished_badly;
    int sent_to[HUB_LOG], n_sent; /* where member 0's pieces of long messages went */
    atomic_int stuck;             /* what goes to this member is never done; 0: no such */
    atomic_int held;              /* not 0: nothing that member 0 sends is done */
    atomic_int paused;            /* this member looks for nothing for a while, once */
    atomic_int broken;            /* 1 + the member whose transport fails */
    atomic_int changed;           /* sends whose data changed before they were done */
    struct hub_request *requests; /* all of them */
} hub;

typedef struct hub_request {
    hub *hub;
    int to, looks;
    const unsigned char *data; /* what is sent, until it is withdrawn, */
    unsigned char *copy;       /* and how it looked first */
    struct hub_request *next;  /* in the hub's list */
    size_t n_bytes;
} hub_request;

typedef struct hub_transport {
    weft_transport head;
    weft_transport_ops ops;
    hub *hub;
} hub_transport;

static inline void hub_begin(hub *h, int size, const char *const *hosts) {
    *h = (hub){.size = size};
    pthread_mutex_init(&h->lock, NULL);
    for (int r = 0; r < size; r++) {
        h->last[r] = &h->first[r];
        h->hosts[r] = hosts ? hosts[r] : "here";
    }
}

static inline void hub_end(hub *h) {
    while (h->requests) {
        hub_request *next = h->requests->next;
        free(h->requests->copy);
        free(h->requests);
        h->requests = next;
    }
    for (int r = 0; r < h->size; r++) {
        while (h->first[r]) {
            hub_message *next = h->first[r]->next;
            free(h->first[r]);
            h->first[r] = next;
        }
    }
    pthread_mutex_destroy(&h->lock);
}

static inline void hub_add(hub *h, int to, hub_message *m) {
    pthread_mutex_lock(&h->lock);
    *h->last[to] = m;
    h->last[to] = &m->next;
    pthread_mutex_unlock(&h->lock);
}

static inline hub_message *hub_message_of(int from, int lane, const void *data,
                                          int n_bytes) {
    hub_message *m = malloc(sizeof *m + (size_t)n_bytes);
    *m = (hub_message){.from = from, .lane = lane, .n_bytes = n_bytes};
    if (n_bytes > 0) memcpy(m->data, data, (size_t)n_bytes);
    return m;
}

static inline void hub_put(hub *h, int from, int to, int lane, const void *data,
                           int n_bytes) {
    hub_add(h, to, hub_message_of(from, lane, data, n_bytes));
}

static inline void hub_put_half(hub *h, int from, int to, const void *data, int n_bytes) {
    hub_message *m = hub_message_of(from, 0, data, n_bytes);
    m->half = true;
    hub_add(h, to, m);
}

static inline hub_message *hub_take(hub *h, int to) {
    pthread_mutex_lock(&h->lock);
    hub_message *m = h->first[to];
    if (m) h->first[to] = m->next;
    if (m && !m->next) h->last[to] = &h->first[to];
    pthread_mutex_unlock(&h->lock);
    return m;
}

static inline void *hub_begin_request(hub *h, int to) {
    hub_request *request = calloc(1, sizeof *request);
    pthread_mutex_lock(&h->lock);
    *request = (hub_request){.hub = h, .to = to, .next = h->requests};
    h->requests = request;
    pthread_mutex_unlock(&h->lock);
    return request;
}

static inline bool hub_send(weft_transport *t, int peer, int lane, const void *data,
                            int n_bytes, void **request) {
    hub *h = ((hub_transport *)t)->hub;
    if (t->rank == 0 && lane == 1 && h->n_sent < HUB_LOG) h->sent_to[h->n_sent++] = peer;
    hub_put(h, t->rank, peer, lane, data, n_bytes);
    *request = hub_begin_request(h, peer);
    hub_request *r = *request;
    r->data = data;
    r->n_bytes = (size_t)n_bytes;
    r->copy = malloc(r->n_bytes + 1);
    memcpy(r->copy, data, r->n_bytes);
    return n_bytes <= WEFT_TRANSPORT_BYTES;
}

static inline bool hub_probe(weft_transport *t, weft_transport_found *found,
                             void **message) {
    hub *h = ((hub_transport *)t)->hub;
    int who = t->rank;
    if (atomic_load(&h->broken) == who + 1) return false;
    if (who > 0 && atomic_compare_exchange_strong(&h->paused, &who, 0))
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    hub_message *m = hub_take(h, t->rank);
    *found = (weft_transport_found){.any = m != NULL};
    if (m)
        *found = (weft_transport_found){
            .any = true, .peer = m->from, .lane = m->lane, .n_bytes = m->n_bytes};
    *message = m;
    return true;
}

static inline bool hub_receive(weft_transport *t, void *message, void *data, int n_bytes,
                               void **request) {
    hub_message *m = message;
    memcpy(data, m->data, (size_t)n_bytes);
    *request = hub_begin_request(((hub_transport *)t)->hub, t->rank);
    if (m->half) ((hub_request *)*request)->looks = -1000000000;
    free(m);
    return true;
}

static inline bool hub_test(weft_transport *t, void *request, bool *done) {
    hub_request *r = request;
    int to = atomic_load(&r->hub->stuck);
    bool stuck = (to > 0 && r->to == to && to != t->rank) ||
                 (t->rank == 0 && r->data && atomic_load(&r->hub->held));
    *done = ++r->looks >= 2 && !stuck;
    if (r->data && memcmp(r->data, r->copy, r->n_bytes) != 0)
        atomic_fetch_add(&r->hub->changed, 1);
    if (!*done) return true;
    free(r->copy);
    r->copy = NULL;
    r->data = NULL;
    return true;
}

static inline void hub_withdraw(weft_transport *t, void *request) {
    (void)t;
    ((hub_request *)request)->data = NULL;
}

static inline void hub_say(const weft_transport *t, char *text, int size) {
    (void)t;
    snprintf(text, (size_t)size, "the hub broke");
}

static inline bool hub_finish(weft_transport *t, bool failed) {
    hub *h = ((hub_transport *)t)->hub;
    pthread_mutex_lock(&h->lock);
    h->finished++;
    h->finished_badly += failed;
    pthread_mutex_unlock(&h->lock);
    free(t);
    return true;
}

static inline uint64_t hub_machine(const weft_transport *t, int peer) {
    return ((const hub_transport *)t)->hub->machines[peer];
}

static inline weft_transport *hub_member(hub *h, int number) {
    static const weft_transport_ops ops = {.struct_size = sizeof ops,
                                           .name = "hub",
                                           .send = hub_send,
                                           .probe = hub_probe,
                                           .receive = hub_receive,
                                           .test = hub_test,
                                           .withdraw = hub_withdraw,
                                           .say = hub_say,
                                           .finish = hub_finish};
    hub_transport *t = calloc(1, sizeof *t);
    t->hub = h;
    t->ops = ops;
    if (h->machines[0]) t->ops.machine = hub_machine;
    t->head = (weft_transport){.ops = &t->ops,
                               .rank = number,
                               .size = h->size,
                               .version = "hub 1",
                               .host = h->hosts};
    return &t->head;
}
