/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Messages that have been sent but not received, by key; and future events, in order. */

typedef struct wefti_posted {
    uint64_t key;
    double sent_s, arrival_s; /* INFINITY: in flight, not known yet */
} wefti_posted;

typedef struct wefti_event_queue {
    weft_ctx *ctx; /* borrowed */
    wefti_posted *slots;
    int64_t room, n; /* room: a power of two */
} wefti_event_queue;

weft_status wefti_event_queue_init(weft_ctx *ctx, wefti_event_queue *posts) WEFT_CHECKED;
void wefti_event_queue_fini(wefti_event_queue *posts);

/* Adds a message; key > 0, and not in the table yet. */
weft_status wefti_event_queue_post(wefti_event_queue *posts, uint64_t key, double sent_s,
                                   double arrival_s) WEFT_CHECKED;
wefti_posted *wefti_event_queue_find(const wefti_event_queue *posts,
                                     uint64_t key); /* or NULL */
void wefti_event_queue_take(wefti_event_queue *posts, wefti_posted *posted);

/* An event for `whom` at a time; among equal times the lowest `order` comes first. */
typedef struct wefti_event {
    double when_s;
    uint32_t order;
    int32_t whom;
    int64_t mark; /* the caller's */
} wefti_event;

typedef struct wefti_agenda {
    weft_ctx *ctx; /* borrowed */
    wefti_event *events;
    int64_t n, room;
} wefti_agenda;

void wefti_agenda_fini(wefti_agenda *agenda);
weft_status wefti_agenda_add(wefti_agenda *agenda, wefti_event event) WEFT_CHECKED;
bool wefti_agenda_next(wefti_agenda *agenda, wefti_event *out); /* false: empty */
