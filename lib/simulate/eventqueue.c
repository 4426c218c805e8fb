/* SPDX-License-Identifier: MIT */
/* Messages in flight, and the queue of events.
 *
 *     messages   a table by key with linear probing, at most half full; a removal closes its
 *                gap, so that a search may end at the first free slot
 *     agenda     a binary heap, events[(i - 1) / 2] not behind events[i]: the earliest one first,
 *                of equal times the one with the lower order, so that a play can be repeated */
#include "simulate/eventqueue.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"

enum { FIRST_ROOM = 1 << 12 };

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 29);
}

static int64_t home(const wefti_event_queue *posts, uint64_t key) {
    return (int64_t)(mixed(key) & (uint64_t)(posts->room - 1));
}

weft_status wefti_event_queue_init(weft_ctx *ctx, wefti_event_queue *posts) {
    *posts = (wefti_event_queue){.ctx = ctx, .room = FIRST_ROOM};
    return wefti_alloc_n(ctx, posts->room, sizeof *posts->slots, "messages",
                         &posts->slots);
}

void wefti_event_queue_fini(wefti_event_queue *posts) {
    if (posts->ctx) wefti_free(posts->ctx, posts->slots);
}

static void put(wefti_event_queue *posts, wefti_posted posted) {
    int64_t i = home(posts, posted.key);
    while (posts->slots[i].key) i = (i + 1) & (posts->room - 1);
    posts->slots[i] = posted;
}

static weft_status grow(wefti_event_queue *posts) {
    wefti_posted *old = posts->slots;
    int64_t n = posts->room;
    WEFT_TRY(wefti_alloc_n(posts->ctx, 2 * n, sizeof *old, "messages", &posts->slots));
    posts->room = 2 * n;
    for (int64_t i = 0; i < n; i++)
        if (old[i].key) put(posts, old[i]);
    wefti_free(posts->ctx, old);
    return WEFT_OK;
}

weft_status wefti_event_queue_post(wefti_event_queue *posts, uint64_t key, double sent_s,
                                   double arrival_s) {
    if (2 * posts->n >= posts->room) {
        wefti_posted *old = posts->slots;
        weft_status status = grow(posts);
        if (status != WEFT_OK) {
            posts->slots = old;
            return status;
        }
    }
    put(posts, (wefti_posted){key, sent_s, arrival_s});
    posts->n++;
    return WEFT_OK;
}

wefti_posted *wefti_event_queue_find(const wefti_event_queue *posts, uint64_t key) {
    int64_t i = home(posts, key);
    while (posts->slots[i].key) {
        if (posts->slots[i].key == key) return &posts->slots[i];
        i = (i + 1) & (posts->room - 1);
    }
    return NULL;
}

void wefti_event_queue_take(wefti_event_queue *posts, wefti_posted *posted) {
    int64_t mask = posts->room - 1, gap = posted - posts->slots;
    for (int64_t i = (gap + 1) & mask; posts->slots[i].key; i = (i + 1) & mask) {
        int64_t wants = home(posts, posts->slots[i].key);
        if (((i - wants) & mask) < ((i - gap) & mask)) continue;
        posts->slots[gap] = posts->slots[i];
        gap = i;
    }
    posts->slots[gap].key = 0;
    posts->n--;
}

/* --- the agenda --- */

/* Of times that are not negative: in their order. */
static int64_t bits_of(double when_s) {
    int64_t bits;
    memcpy(&bits, &when_s, sizeof bits);
    return bits;
}

/* Without branches, as which of two events is earlier can not be foreseen. */
static bool before(const wefti_event *a, const wefti_event *b) {
    int64_t x = bits_of(a->when_s), y = bits_of(b->when_s);
    return (x < y) | ((x == y) & (a->order < b->order));
}

void wefti_agenda_fini(wefti_agenda *agenda) {
    if (agenda->ctx) wefti_free(agenda->ctx, agenda->events);
}

weft_status wefti_agenda_add(wefti_agenda *agenda, wefti_event event) {
    WEFTI_ASSERT(event.when_s >= 0 && !signbit(event.when_s));
    WEFT_TRY(wefti_reserve(agenda->ctx, &agenda->events, &agenda->room, agenda->n, 1,
                           sizeof event, "events"));
    wefti_event *events = agenda->events;
    int64_t i = agenda->n++;
    for (; i > 0 && before(&event, &events[(i - 1) / 2]); i = (i - 1) / 2)
        events[i] = events[(i - 1) / 2];
    events[i] = event;
    return WEFT_OK;
}

bool wefti_agenda_next(wefti_agenda *agenda, wefti_event *out) {
    wefti_event *events = agenda->events;
    if (agenda->n == 0) return false;
    *out = events[0];
    wefti_event last = events[--agenda->n];
    int64_t i = 0, n = agenda->n;
    /* down to a leaf and up again: the last one nearly always belongs there */
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += (child + 1 < n) & before(&events[child + 1], &events[child]);
        events[i] = events[child];
    }
    for (; i > 0 && !before(&events[(i - 1) / 2], &last); i = (i - 1) / 2)
        events[i] = events[(i - 1) / 2];
    if (n > 0) events[i] = last;
    return true;
}
