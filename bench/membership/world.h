/* SPDX-License-Identifier: MIT */
/* The simulated world: nodes that run the real state machine, a network, faults, and what
 * is known of all of them at once. One thread; a run is a function of (seed, options,
 * faults). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "member/member.h"

enum {
    HOSTS = 8,             /* machines; each runs one incarnation at a time */
    VOTES = HOSTS,         /* one more, where a witness gives votes */
    SLOTS = 40,            /* incarnations of a whole run */
    UNITS = HOSTS / 2,     /* of the model: so many parts of a message, and more */
    PARTS = 2 * UNITS + 1, /* pieces per (step, round): buckets, or ranges of owners */
    ROUNDS = 2,
    RING = 64,     /* steps of pieces that a node has room for; more than any window */
    ENTRIES = 256, /* of an inventory */
    STEPS = 2000,  /* of a whole run */
    VIEWS = 200,
    HISTORY = 256, /* steps of results that a donor keeps */
    FAULTS = 32
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
    wefti_member_record record; /* what its host keeps */
    bool has_record;            /* it has died, and its host hands out the record */
    bool has_lost_mates, has_state;
    /* training */
    wefti_member_steps steps;
    bool computes, is_computed, is_new;
    bool has_news;    /* steps that the machine has not been told */
    uint64_t state;   /* after steps.finished */
    int64_t x;        /* gossip */
    int64_t speed_us; /* of a step's computing */
    int64_t residual[PARTS], gradients[PARTS], counted[PARTS], own[RING][PARTS];
    int64_t fetched; /* the last step whose missing pieces were asked for */
    bool fetches;
    held pieces[RING][HOSTS][ROUNDS][PARTS];
    struct {
        int64_t step;
        uint64_t agreed, state;
    } past[HISTORY];
} node;

typedef enum fault_kind {
    FAULT_KILL,         /* kill -9: the host says so */
    FAULT_POWER,        /* the machine is gone without a word */
    FAULT_PAUSE,        /* SIGSTOP for a while */
    FAULT_CUT,          /* nothing passes from a to b for a while */
    FAULT_SPLIT,        /* the hosts of a bit mask hear only each other for a while */
    FAULT_SLOW,         /* the link from a to b is slow for a while */
    FAULT_LOSS,         /* every message is lost with some probability for a while */
    FAULT_LOSS_OF_KIND, /* the same, of messages of one kind */
    FAULT_LEAVE,
    /* of who sends the nth message of a kind */
    FAULT_KILL_SENDER,  /* it dies of it */
    FAULT_PAUSE_SENDER, /* it stops right after it, for a while */
    FAULT_CUT_SENDER,   /* from then on it is not heard, or hears nobody, for a while */
    FAULT_DELAY_SENDER, /* what it sends arrives late, for a while */
    FAULT_LIE, /* a member says what is not true, outside of ballots, again and again */
    FAULT_KINDS
} fault_kind;

typedef struct fault {
    fault_kind kind;
    int64_t at_us, for_us;
    int a, b;     /* hosts; _SENDER: kind of message, how many */
    bool is_deaf; /* CUT_SENDER: it hears nobody */
    int sender;   /* _SENDER: its host, once it has happened; -1: not yet */
    int hidden;   /* _SENDER: FLUSH does not reach this host meanwhile; -1: none */
    int percent;  /* LOSS */
    bool comes_back;
    bool is_off; /* left out by shrinking */
} fault;

typedef enum event_kind {
    EV_TICK,
    EV_BYTES,
    EV_PIECE,
    EV_PIECE_GET, /* who misses a piece asks for it */
    EV_STATE,     /* the state after a step, for who has joined */
    EV_STATE_GET,
    EV_COMPUTED,
    EV_FEED, /* the machine is told what has been done */
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
    int n_departed, departed[SLOTS];
    uint32_t counted[SLOTS];
    int cut_steps;
    uint8_t held[SLOTS][WEFTI_MEMBER_MAX_WINDOW][2][PARTS];
} view_record;

/* What happens to ballots, counted over all seeds of a call. */
typedef enum counter {
    COUNT_BALLOTS,
    COUNT_REFUSED_FLUSH,
    COUNT_REFUSED_VIEW,
    COUNT_VIEW_ALONE, /* VIEW without its FLUSH */
    COUNT_ADOPTED,    /* what a member has accepted is proposed again */
    COUNT_PROMISES_BROKEN_OFF,
    COUNT_RECORDS,
    COUNT_DEAD, /* proof of death without a record */
    COUNT_VOTES,
    COUNT_ENTERED,
    COUNT_LIES,
    COUNTERS
} counter;
extern const char *const counter_names[COUNTERS];

typedef struct options {
    int nodes;  /* 0: the seed says */
    int method; /* METHODS: the seed says */
    bool verbose;
    bool votes;       /* there is a witness that gives votes; else the seed says */
    const char *only; /* the one invariant that counts; NULL: all */
    int64_t fault_us; /* length of the first phase */
    int64_t feed_us;  /* -1: the seed says */
} options;

typedef struct world {
    uint64_t seed, draws;
    options opt;
    method how;
    int n_hosts, n_founders, n_parts;
    int unit, lag; /* hosts that are useless without each other; steps that a node may
                      begin before it has finished one */
    bool has_launchers, is_fifo, has_storm, has_liar;
    int64_t
        votes_end_us; /* the witness that gives votes is dead from then on; 0: there is none */
    wefti_votes votes;
    int64_t latency_us;
    int64_t feed_us; /* how often steps are told; 0: at once; -1: when a machine wakes */
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
    int64_t delay_us[HOSTS]; /* of what a host sends */
    int loss_percent, loss_of_kind[WEFTI_SAY_KINDS][HOSTS];
    int64_t last_us[SLOTS][SLOTS];
    uint64_t lies[FAULTS]; /* chains of views that nobody has decided */
    int n_lies, liar;      /* slot of who lies; -1: nobody */
    bool could_decide[SLOTS], has_left_itself[SLOTS];
    bool is_deceived; /* who could not have gone on without it has believed it */
    int n_armed, armed[FAULTS]; /* faults that wait for their message */
    fault faults[FAULTS];
    int n_faults;
    event *queue;
    int n_queue, max_queue;
    uint64_t order, n_events;
    step_record *steps;
    view_record *views;
    int n_views;
    int64_t last_view, best_finished;
    int64_t target;    /* steps to be finished after all is healed */
    char failure[256]; /* "": none yet */
    int64_t n_installs, n_kills, n_joins;
    int64_t counts[COUNTERS]; /* kept from seed to seed */
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
bool is_unit_whole(const world *w, int host); /* on all its hosts a node runs */
void leave_alone(world *w, int slot);         /* a node without its unit leaves */
void trace(const world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -- faults.c -- */
void make_faults(world *w);
void begin_fault(world *w, int k);
void end_fault(world *w, int k);
void print_fault(const fault *f);
void judge_lies(world *w, int slot);
void tell_lie(world *w, int slot);
void check_left(world *w, int slot);
void check_believed(world *w, int slot, const char *what);
void watch_sender(world *w, int slot, int kind);

/* -- choose.c: what the seed decides -- */
void choose(world *w);

/* -- count.c -- */
void count_message(world *w, int from, const wefti_member_action *a);
void trace_members(const world *w); /* what each thinks of the others */
void count_event(world *w, int slot, const wefti_member_event *e);

/* -- host.c: the training -- */
void host_reset(world *w, int slot);
void host_installed(world *w, int slot);
void host_freeze(world *w, int slot, wefti_ballot ballot);
void host_answer(world *w, int slot, const event *get);
void host_state(world *w, int slot, const event *e);
void host_piece(world *w, int slot, event *e);
void host_computed(world *w, int slot, int64_t step);
void host_look(world *w, int slot);
void host_feed(world *w, int slot);

/* -- checks.c -- */
uint64_t mix(uint64_t a, uint64_t b);
int64_t row_gradient(int64_t step, int share, int of, int part);
int64_t code(int64_t x);
void check_install(world *w, int slot);
void check_begin(world *w, int slot, int64_t step);
void check_finish(world *w, int slot, int64_t step, const step_record *mine);
void check_meeting(world *w, int slot, int other, int64_t step, int64_t shift);
void check_node(world *w, int slot);
void check_end(world *w);
bool in_last_view(const world *w, int slot);
bool has_progressed(world *w);
bool may_be_stuck(world *w);
