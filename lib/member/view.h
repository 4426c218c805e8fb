/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ctx.h>

/* The name of a process that is a node: the node's key, which is the same after each start,
 * and 64 random bits, new with each start. A process that comes back is a new node. */
typedef struct wefti_node_id {
    uint64_t key;
    uint64_t incarnation;
} wefti_node_id;

static inline bool wefti_node_is(wefti_node_id a, wefti_node_id b) {
    return a.incarnation == b.incarnation && a.key == b.key;
}

/* Sizes that all nodes of a run agree on; every table is allocated from them, once. */
typedef struct wefti_member_limits {
    int max_nodes;
    int window; /* number of steps that may be unfinished at once: 2 if every step is
                   synchronous */
    int rounds; /* kinds of pieces: 1; 2 if an owner sums and sends a mean */
    int parts;  /* pieces that a node sends to another per (step, round) */
} wefti_member_limits;

enum {
    WEFTI_MEMBER_NOBODY = 0xffff, /* no node of the view */
    WEFTI_MEMBER_MAX_NODES = 4096,
    WEFTI_MEMBER_MAX_WINDOW = 24, /* wefti_departed.counted has a bit per step */
    WEFTI_MEMBER_MAX_ROUNDS = 4,
    WEFTI_MEMBER_MAX_PARTS = 1 << 20
};

typedef struct wefti_view_node {
    wefti_node_id id;
    int64_t first_step; /* the first step it takes part in */
} wefti_view_node;

/* A node that took part in an unfinished step and is no longer a member. */
typedef struct wefti_departed {
    wefti_node_id id;
    uint32_t counted; /* bit s: its rows of step cut_low + 1 + s count */
} wefti_departed;

/* The nodes that the steps from first_step on belong to, up to the next roster's first
 * step. */
typedef struct wefti_roster {
    int64_t number, first_step; /* of its view */
    int n_nodes;
    wefti_view_node *nodes; /* [max_nodes] */
} wefti_roster;

/* A view: which nodes take part from first_step on, and how the unfinished steps before it
 * end (the cut). A node's number is its index in `nodes`. */
typedef struct wefti_view {
    int64_t number;  /* 1, 2, 3, ... */
    uint64_t parent; /* chain of the view before; 0 for the first */
    uint64_t chain;  /* hash of this view and all before it */
    int64_t first_step;
    int n_nodes;
    wefti_view_node *nodes; /* [max_nodes] */
    int64_t cut_low;        /* every member has finished this step */
    int cut_steps;          /* steps cut_low + 1 .. first_step - 1 */
    int n_departed;
    wefti_departed *departed; /* [max_nodes * window] */
    uint16_t *holders;        /* see wefti_view_holder */
    int n_rosters;
    wefti_roster *rosters; /* [window] of the cut's steps, latest first */
    int max_rosters;
} wefti_view;

int wefti_view_max_departed(const wefti_member_limits *limits);

/* The tables of a view; fini accepts half-built ones. */
weft_status wefti_view_init(weft_ctx *ctx, const wefti_member_limits *limits,
                            wefti_view *view) WEFT_CHECKED;
void wefti_view_fini(weft_ctx *ctx, wefti_view *view);
void wefti_view_copy(const wefti_member_limits *limits, const wefti_view *from,
                     wefti_view *to);

/* The view itself as a roster; borrows its tables. */
wefti_roster wefti_view_roster(const wefti_view *view);
void wefti_roster_copy(const wefti_roster *from, wefti_roster *to);

/* A node's number, or -1. */
/* Whether a view has at most two copies of the model, of `unit` members each (0: of one): then
 * none of two decides while the other may live (quorum.c). */
bool wefti_view_is_of_two(const wefti_view *view, int unit);

int wefti_view_find(const wefti_view *view, wefti_node_id id);
int wefti_view_find_departed(const wefti_view *view, wefti_node_id id);

/* The entry in `holders` for a piece of departed node d in step cut_low + 1 + s. */
uint16_t *wefti_view_holder(const wefti_member_limits *limits, const wefti_view *view,
                            int d, int s, int round, int part);

/* Mixes one more number into a hash. */
uint64_t wefti_view_mix(uint64_t hash, uint64_t x);

/* The chain that follows from the contents and `parent`. */
uint64_t wefti_view_hash(const wefti_member_limits *limits, const wefti_view *view);
