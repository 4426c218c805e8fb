/* SPDX-License-Identifier: MIT */
/* The simulated world: nodes that run the real state machine, a network, faults, and what
 * is known of all of them at once. One thread; a run is a function of (seed, options,
 * faults). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "member/member.h"

enum {
    HOSTS = 8,     /* machines; each runs one incarnation at a time */
    VOTES = HOSTS, /* one more, where a witness gives votes */
    SLOTS = 40,    /* incarnations of a whole run */
    PARTS = HOSTS, /* pieces per (step, round): buckets, or ranges of owners */
    RING = 8,      /* steps of pieces that a node has room for; more than any window */
    STEPS = 2000,  /* of a whole run */
    VIEWS = 200,
    HISTORY = 256, /* steps of results that a donor keeps */
    REPLAYS = 2 * WEFTI_REPLAY_WINDOW,
    FAULTS = 16
};

typedef enum method { GATHER, OWNER, GOSSIP, METHODS } method;

/* One piece as a node holds it. */
typedef struct held {
    int slot;          /* its sender */
    int64_t step, tag; /* the step; number of the view that it was sent in */
    int64_t value;
    uint64_t mask; /* means: who is in it (slots) */
} held;

typedef struct node {
    bool used, alive;
    int host;
    wefti_node_id id;
    wefti_member *m;
    double drift;
    int64_t offset_us, paused_until_us, tick_us;
    int64_t born_us;
    int64_t
        lost_after_us[SLOTS];   /* messages to that slot sent later died with this node */
    wefti_member_record record; /* what its launcher knows */
    /* training */
    wefti_member_steps steps;
    bool computes, is_computed, is_new;
    uint64_t state;   /* after steps.finished */
    int64_t x;        /* gossip */
    int64_t speed_us; /* of a step's computing */
    int64_t residual[PARTS], gradients[PARTS], counted[PARTS], own[RING][PARTS];
    int64_t asked_us; /* when missing pieces were asked for last */
    held pieces[RING][HOSTS][2][PARTS];
    struct {
        int64_t step;
        uint64_t agreed, state;
    } past[HISTORY];
    int64_t replay_steps[REPLAYS];
    uint64_t replays[REPLAYS];
    int snap_pieces;
    int64_t snap_step;
    uint64_t snap_state;
} node;

typedef enum fault_kind {
    FAULT_KILL,        /* kill -9: the host says so */
    FAULT_POWER,       /* the machine is gone without a word */
    FAULT_PAUSE,       /* SIGSTOP for a while */
    FAULT_CUT,         /* nothing passes from a to b for a while */
    FAULT_SPLIT,       /* the hosts of a bit mask hear only each other for a while */
    FAULT_SLOW,        /* the link from a to b is slow for a while */
    FAULT_LOSS,        /* every message is lost with some probability for a while */
    FAULT_KILL_SENDER, /* who sends the nth message of a kind dies of it */
    FAULT_LEAVE,
    FAULT_KINDS
} fault_kind;

typedef struct fault {
    fault_kind kind;
    int64_t at_us, for_us;
    int a, b;    /* hosts; KILL_SENDER: kind of message, how many */
    int percent; /* LOSS */
    bool comes_back;
    bool is_off; /* left out by shrinking */
} fault;

typedef enum event_kind {
    EV_TICK,
    EV_BYTES,
    EV_PIECE,
    EV_COMPUTED,
    EV_CLOSED,
    EV_RECORD,
    EV_ASK,  /* a claim has come to the witness */
    EV_VOTE, /* its answer */
    EV_START,
    EV_FAULT,
    EV_FAULT_END,
    EV_LOOK
} event_kind;

typedef struct event {
    int64_t at_us, sent_us;
    uint64_t order;
    event_kind kind;
    int to, from; /* slots; START, FAULT: host, number of the fault */
    int tries;
    unsigned char *bytes;
    uint32_t n_bytes;
    wefti_evidence evidence;
    wefti_member_piece piece;
    held content;
    wefti_vote vote;
    bool given;
} event;

/* What the first node that finished a step said, and what has been counted. */
typedef struct step_record {
    bool is_known;
    int64_t view; /* number of its roster's view */
    uint64_t agreed, state, finished_by;
    int64_t sum[PARTS];
    uint64_t mask[PARTS];
} step_record;

typedef struct view_record {
    bool is_known;
    int64_t number, first_step, cut_low;
    uint64_t chain;
    int n_nodes, nodes[HOSTS]; /* slots */
    int64_t node_first[HOSTS];
    bool witness[HOSTS];
    int n_departed, departed[SLOTS];
    uint32_t counted[SLOTS];
    int cut_steps;
    uint8_t held[SLOTS][WEFTI_MEMBER_MAX_WINDOW][2][PARTS];
    int n_owed;
    wefti_row_block owed[256];
} view_record;

typedef struct options {
    int nodes;  /* 0: the seed says */
    int method; /* METHODS: the seed says */
    bool verbose;
    bool votes;       /* there is a witness that gives votes; else the seed says */
    const char *only; /* the one invariant that counts; NULL: all */
    int64_t fault_us; /* length of the first phase */
} options;

typedef struct world {
    uint64_t seed, draws;
    options opt;
    method how;
    int n_hosts, n_founders, n_parts;
    bool has_launchers, is_fifo, has_witness;
    int64_t
        votes_end_us; /* the witness that gives votes is dead from then on; 0: there is none */
    wefti_votes votes;
    int64_t latency_us;
    wefti_member_limits limits;
    wefti_member_policy policy;
    weft_ctx *ctx;
    int64_t now_us, healed_us;
    bool is_healed, has_progressed;
    int n_slots, slot_of_host[HOSTS]; /* -1: none runs */
    bool host_is_off[HOSTS];          /* no power */
    node *nodes;                      /* [SLOTS] */
    int cut[HOSTS + 1][HOSTS + 1];    /* VOTES as well */
    int slow[HOSTS][HOSTS];
    int loss_percent;
    int64_t last_us[SLOTS][SLOTS];
    int sender_kind, sender_count; /* KILL_SENDER */
    bool sender_comes_back;
    fault faults[FAULTS];
    int n_faults;
    event *queue;
    int n_queue, max_queue;
    uint64_t order, n_events;
    step_record *steps;
    view_record *views;
    int n_views;
    int64_t last_view, best_finished;
    uint8_t (*counted_blocks)[HOSTS + 1][HOSTS]; /* [STEPS] [of] [share] */
    int64_t target;    /* steps to be finished after all is healed */
    char failure[256]; /* "": none yet */
    int64_t n_installs, n_kills, n_joins, worst_stall_us;
} world;

/* -- world.c -- */
uint64_t draw(world *w);
int64_t draw_below(world *w, int64_t n);
void fail(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void push(world *w, const event *e);
int slot_of(const world *w, wefti_node_id id); /* -1: nobody's */
void step_node(world *w, int slot, const wefti_member_event *event);
void kill_slot(world *w, int slot, bool has_power, bool comes_back);
bool passes(world *w, int from, int to);
bool has_votes(const world *w); /* a witness that gives votes is alive */
int64_t arrival(world *w, int from, int to);
void tell_death(world *w, int dead, int slot);
unsigned char *copy_bytes(const unsigned char *bytes, size_t n); /* owned by the event */
void run_world(world *w);
void tell_deaths(world *w, int slot);
void trace(const world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -- faults.c -- */
void make_faults(world *w);
void begin_fault(world *w, int k);
void end_fault(world *w, int k);
void print_fault(const fault *f);

/* -- host.c: the training -- */
void host_reset(world *w, int slot);
void host_installed(world *w, int slot);
void host_freeze(world *w, int slot, wefti_ballot ballot);
void host_message(world *w, int slot, const wefti_message *message);
void host_piece(world *w, int slot, event *e);
void host_computed(world *w, int slot, int64_t step);
void host_look(world *w, int slot);

/* -- checks.c -- */
uint64_t mix(uint64_t a, uint64_t b);
int64_t row_gradient(const wefti_row_block *block, int part);
int64_t code(int64_t x);
void check_install(world *w, int slot);
void check_begin(world *w, int slot, int64_t step);
void check_finish(world *w, int slot, int64_t step, const step_record *mine);
void check_meeting(world *w, int slot, int other, int64_t step, int64_t shift);
void check_node(world *w, int slot);
void check_end(world *w);
bool has_progressed(world *w);
bool may_be_stuck(world *w);
