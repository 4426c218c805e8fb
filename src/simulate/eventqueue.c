/* SPDX-License-Identifier: MIT */
/* A table with linear probing, at most half full; what is taken closes its gap. A binary
 * heap. */
#include "simulate/eventqueue.h"

#include "base/memory.h"

enum { FIRST_ROOM = 1 << 12 };

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 29);
}

static int64_t home(const wefti_event_queue *board, uint64_t key) {
    return (int64_t)(mixed(key) & (uint64_t)(board->room - 1));
}

weft_status wefti_event_queue_init(weft_ctx *ctx, wefti_event_queue *board) {
    *board = (wefti_event_queue){.ctx = ctx, .room = FIRST_ROOM};
    return wefti_alloc_n(ctx, board->room, sizeof *board->slots, "messages",
                         &board->slots);
}

void wefti_event_queue_fini(wefti_event_queue *board) {
    if (board->ctx) wefti_free(board->ctx, board->slots);
}

static void put(wefti_event_queue *board, wefti_posted posted) {
    int64_t i = home(board, posted.key);
    while (board->slots[i].key) i = (i + 1) & (board->room - 1);
    board->slots[i] = posted;
}

static weft_status grow(wefti_event_queue *board) {
    wefti_posted *old = board->slots;
    int64_t n = board->room;
    WEFT_TRY(wefti_alloc_n(board->ctx, 2 * n, sizeof *old, "messages", &board->slots));
    board->room = 2 * n;
    for (int64_t i = 0; i < n; i++)
        if (old[i].key) put(board, old[i]);
    wefti_free(board->ctx, old);
    return WEFT_OK;
}

weft_status wefti_event_queue_post(wefti_event_queue *board, uint64_t key, double sent_s,
                                   double arrival_s) {
    if (2 * board->n >= board->room) {
        wefti_posted *old = board->slots;
        weft_status status = grow(board);
        if (status != WEFT_OK) {
            board->slots = old;
            return status;
        }
    }
    put(board, (wefti_posted){key, sent_s, arrival_s});
    board->n++;
    return WEFT_OK;
}

wefti_posted *wefti_event_queue_find(const wefti_event_queue *board, uint64_t key) {
    int64_t i = home(board, key);
    while (board->slots[i].key) {
        if (board->slots[i].key == key) return &board->slots[i];
        i = (i + 1) & (board->room - 1);
    }
    return NULL;
}

void wefti_event_queue_take(wefti_event_queue *board, wefti_posted *posted) {
    int64_t mask = board->room - 1, gap = posted - board->slots;
    for (int64_t i = (gap + 1) & mask; board->slots[i].key; i = (i + 1) & mask) {
        int64_t wants = home(board, board->slots[i].key);
        if (((i - wants) & mask) < ((i - gap) & mask)) continue;
        board->slots[gap] = board->slots[i];
        gap = i;
    }
    board->slots[gap].key = 0;
    board->n--;
}

/* --- the agenda --- */

static bool before(const wefti_event *a, const wefti_event *b) {
    return a->when_s < b->when_s || (a->when_s == b->when_s && a->order < b->order);
}

void wefti_agenda_fini(wefti_agenda *agenda) {
    if (agenda->ctx) wefti_free(agenda->ctx, agenda->events);
}

weft_status wefti_agenda_add(wefti_agenda *agenda, wefti_event event) {
    if (agenda->n == agenda->room) {
        int64_t room = 2 * agenda->room + 256;
        WEFT_TRY(wefti_grow(agenda->ctx, &agenda->events, agenda->n, room, sizeof event,
                            "moments"));
        agenda->room = room;
    }
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
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&events[child + 1], &events[child])) child++;
        if (!before(&events[child], &last)) break;
        events[i] = events[child];
    }
    if (n > 0) events[i] = last;
    return true;
}
