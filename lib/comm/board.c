/* SPDX-License-Identifier: MIT */
/* A ring of tables under one lock. A round is open from the first rank that tells to the last one
 * that has heard; only the last that tells wakes anybody, so a round of W ranks costs W wakes. */
#define _GNU_SOURCE
#include "comm/board.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"

typedef struct round_table {
    wefti_board_key key;
    int n_told, n_heard; /* n_told 0: it is free */
    double *arrival_s;   /* [n_ranks][WEFTI_LINK_CLASSES] in the board's memory */
    unsigned char *bytes;
} round_table;

struct wefti_board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const atomic_int *poisoned;
    int n_ranks, n_rounds;
    size_t n_bytes;
    round_table *rounds;  /* [n_rounds] owned */
    double *arrivals;     /* owned */
    unsigned char *bytes; /* owned */
};

static weft_status fill(weft_ctx *ctx, wefti_board *b) {
    int64_t places = (int64_t)b->n_ranks * b->n_rounds;
    WEFT_TRY(wefti_alloc_n(ctx, b->n_rounds, sizeof *b->rounds, "a board", &b->rounds));
    WEFT_TRY(wefti_alloc_n(ctx, places, WEFTI_LINK_CLASSES * sizeof(double), "a board",
                           &b->arrivals));
    WEFT_TRY(wefti_alloc_n(ctx, places, b->n_bytes, "a board", &b->bytes));
    for (int i = 0; i < b->n_rounds; i++) {
        int64_t first = (int64_t)i * b->n_ranks;
        b->rounds[i].arrival_s = b->arrivals + first * WEFTI_LINK_CLASSES;
        b->rounds[i].bytes = b->bytes + first * (int64_t)b->n_bytes;
    }
    return WEFT_OK;
}

weft_status wefti_board_create(weft_ctx *ctx, int n_ranks, int n_rounds, int n_bytes,
                               const atomic_int *poisoned, wefti_board **out) {
    wefti_board *b;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *b, "a board", &b));
    b->n_ranks = n_ranks;
    b->n_rounds = n_rounds;
    b->n_bytes = (size_t)n_bytes;
    b->poisoned = poisoned;
    if (pthread_mutex_init(&b->lock, NULL) || wefti_cond_init(&b->changed)) {
        wefti_free(ctx, b);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not create a board");
    }
    WEFTI_TRY_OR(fill(ctx, b), wefti_board_destroy(ctx, b));
    *out = b;
    return WEFT_OK;
}

void wefti_board_destroy(weft_ctx *ctx, wefti_board *b) {
    if (!b) return;
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    WEFTI_FREE(ctx, b->rounds, b->arrivals, b->bytes, b);
}

void wefti_board_wake(wefti_board *b) {
    pthread_mutex_lock(&b->lock);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

/* Lock held. The round, or NULL: nobody has published anything in it. */
static round_table *find(wefti_board *b, wefti_board_key key) {
    WEFTI_ASSERT_HELD(&b->lock);
    for (int i = 0; i < b->n_rounds; i++) {
        round_table *r = &b->rounds[i];
        if (r->n_told > 0 && r->key.tag == key.tag && r->key.channel == key.channel)
            return r;
    }
    return NULL;
}

static round_table *find_free(wefti_board *b) {
    for (int i = 0; i < b->n_rounds; i++)
        if (b->rounds[i].n_told == 0) return &b->rounds[i];
    return NULL;
}

bool wefti_board_tell(wefti_board *b, wefti_board_key key, int rank, const void *bytes,
                      const double arrival_s[WEFTI_LINK_CLASSES]) {
    pthread_mutex_lock(&b->lock);
    round_table *r = find(b, key);
    if (!r) r = find_free(b);
    if (r) {
        r->key = key;
        memcpy(r->arrival_s + (int64_t)rank * WEFTI_LINK_CLASSES, arrival_s,
               WEFTI_LINK_CLASSES * sizeof *arrival_s);
        memcpy(r->bytes + (size_t)rank * b->n_bytes, bytes, b->n_bytes);
        if (++r->n_told == b->n_ranks) pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return r != NULL;
}

/* When the last of a round is here. */
static double last_arrival(const wefti_board *b, const round_table *r,
                           const unsigned char *links) {
    double last_s = 0;
    for (int i = 0; i < b->n_ranks; i++)
        last_s = fmax(last_s, r->arrival_s[(int64_t)i * WEFTI_LINK_CLASSES + links[i]]);
    return last_s;
}

bool wefti_board_hear(wefti_board *b, wefti_board_key key, const unsigned char *links,
                      double until_s, const unsigned char **bytes) {
    round_table *r = NULL;
    *bytes = NULL;
    pthread_mutex_lock(&b->lock);
    while (!atomic_load(b->poisoned) && wefti_now_s() < until_s &&
           (!(r = find(b, key)) || r->n_told < b->n_ranks))
        wefti_cond_wait(&b->changed, &b->lock, until_s);
    while (!atomic_load(b->poisoned) && r && r->n_told == b->n_ranks) {
        double last_s = last_arrival(b, r, links);
        if (last_s <= wefti_now_s()) {
            *bytes = r->bytes;
            break;
        }
        wefti_cond_wait(&b->changed, &b->lock, last_s);
    }
    pthread_mutex_unlock(&b->lock);
    return *bytes != NULL;
}

void wefti_board_leave(wefti_board *b, wefti_board_key key) {
    pthread_mutex_lock(&b->lock);
    round_table *r = find(b, key);
    if (r && ++r->n_heard == b->n_ranks) r->n_told = r->n_heard = 0;
    pthread_mutex_unlock(&b->lock);
}
