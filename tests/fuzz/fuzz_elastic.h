/* SPDX-License-Identifier: MIT */
/* Messages on a mesh whose members may be lost (mesh/elastic.c), by foreign bytes: what asks for a
 * lost rank's message, brings one, repeats what a site has said, tells what all have alike, or
 * is of the membership itself. A mesh of four ranks in two sites without a thread; rank 3 is lost,
 * this is rank 0. The bytes are messages one after another,
 *
 *     sender u8 | channel i16 | tag i64 | length u8 | that many bytes       cut off where they end
 *
 * (channels below 0 are counted from 2^31 down, where those without a communicator are),
 *
 * and after them the law of a mesh holds: each message is in one list, of a rank that exists. */
#pragma once

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "mesh/elastic.h"

enum { HEARERS = 4, MESSAGE_HEAD = 12, LOST = 3 };

typedef struct hearers {
    weft_ctx *ctx;
    weft_mesh mesh;
    weft_transport transport;
    wefti_peer peers[HEARERS];
    int numbers[HEARERS];
} hearers;

static void must(bool sound) {
    if (!sound) abort();
}

static void begin_hearers(hearers *h) {
    static const weft_transport_ops ops = {.struct_size = sizeof ops, .name = "none"};
    static const char *const hosts[HEARERS] = {"a", "b", "c", "d"};
    static const char notice[] = "what all have alike";
    const wefti_world_shape shape = {
        .replicas = HEARERS, .shards = 1, .replicas_per_node = 1, .sites = 2};
    const wefti_elastic_setup setup = {.shards = 1,
                                       .sites = 2,
                                       .per_site = 2,
                                       .units = 3,
                                       .run = 5,
                                       .notice = notice,
                                       .notice_bytes = sizeof notice,
                                       .policy = {.silence_s = 1e6, .pause_s = 1e6}};
    *h = (hearers){.transport = {.ops = &ops, .size = HEARERS, .host = hosts}};
    for (int r = 0; r < HEARERS; r++) h->numbers[r] = r;
    must(weft_ctx_create(&h->ctx) == WEFT_OK);
    must(wefti_world_init(h->ctx, &h->mesh.world, &wefti_remote_ops, &shape) == WEFT_OK);
    h->mesh.ctx = h->ctx;
    h->mesh.transport = &h->transport;
    h->mesh.peers = h->peers;
    h->mesh.places.n_slots = HEARERS;
    h->mesh.places.peer_of = h->mesh.places.rank_of = h->numbers;
    must(!pthread_mutex_init(&h->mesh.lock, NULL) &&
         !pthread_cond_init(&h->mesh.changed, NULL) &&
         !pthread_cond_init(&h->mesh.thread.wake, NULL));
    must(wefti_elastic_start(h->ctx, &h->mesh, &setup) == WEFT_OK);
    h->mesh.elastic->at[LOST].departed = true;
}

static void end_hearers(hearers *h) {
    wefti_elastic_destroy(&h->mesh);
    while (h->mesh.outgoing.all) {
        wefti_parcel *next = h->mesh.outgoing.all->next_all;
        WEFTI_FREE(h->ctx, h->mesh.outgoing.all->own, h->mesh.outgoing.all);
        h->mesh.outgoing.all = next;
    }
    while (h->mesh.incoming.all) {
        wefti_arrival *next = h->mesh.incoming.all->next_all;
        WEFTI_FREE(h->ctx, h->mesh.incoming.all->data, h->mesh.incoming.all);
        h->mesh.incoming.all = next;
    }
    pthread_cond_destroy(&h->mesh.thread.wake);
    pthread_cond_destroy(&h->mesh.changed);
    pthread_mutex_destroy(&h->mesh.lock);
    pthread_mutex_destroy(&h->mesh.world.failure_lock);
    must(weft_ctx_bytes_held(h->ctx) == 0);
    weft_ctx_destroy(h->ctx);
}

/* One message; how many bytes it has taken. */
static size_t hear_message(hearers *h, const unsigned char *bytes, size_t n) {
    size_t length = bytes[MESSAGE_HEAD - 1];
    if (length > n - MESSAGE_HEAD) length = n - MESSAGE_HEAD;
    wefti_arrival *arrival = wefti_incoming_room(&h->mesh, (int64_t)length);
    must(arrival != NULL);
    arrival->sender = 1 + bytes[0] % (HEARERS - 1);
    arrival->channel = (int16_t)wefti_get_u16(bytes + 1) & INT_MAX;
    arrival->tag = (int64_t)wefti_get_u64(bytes + 3);
    arrival->n_bytes = (int64_t)length;
    arrival->taken = arrival->mine = false;
    memcpy(arrival->data, bytes + MESSAGE_HEAD, length);
    must(wefti_elastic_takes(&h->mesh, arrival));
    return MESSAGE_HEAD + length;
}

static int count(const wefti_arrival *list) {
    int n = 0;
    for (; list; list = list->next, n++) {
        must(list->sender >= 0 && list->sender < HEARERS);
        must(list->n_bytes >= 0 && list->n_bytes <= list->capacity);
    }
    return n;
}

static void hear_messages(const unsigned char *bytes, size_t n) {
    hearers h;
    int heard = 0, all = 0;
    begin_hearers(&h);
    while (n >= MESSAGE_HEAD) {
        size_t taken = hear_message(&h, bytes, n);
        bytes += taken;
        n -= taken;
        heard++;
    }
    for (const wefti_arrival *a = h.mesh.incoming.all; a; a = a->next_all) all++;
    must(all <= heard);
    must(count(h.mesh.incoming.posted) + count(h.mesh.incoming.spare) +
             count(h.mesh.elastic->pieces.parked) + count(h.mesh.elastic->pieces.kept) ==
         all);
    for (const wefti_parcel *p = h.mesh.outgoing.submitted.first; p; p = p->next)
        must(p->peer >= 0 && p->peer < HEARERS && p->envelope.n_bytes < 1 << 20);
    end_hearers(&h);
}
