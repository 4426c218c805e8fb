/* SPDX-License-Identifier: MIT */
#pragma once

#include "member/message.h"
#include "member/votes.h"

/* clang-format off */
/* Which nodes take part in a run: the state machine of one node (docs/membership.md).
 *
 * The machine has no thread, socket or clock, and allocates nothing after create. The
 * progress thread feeds events and performs the resulting actions, in their order, before
 * the next event:
 *
 *     wefti_member_event event = {.kind = WEFTI_EVENT_TICK};
 *     ... or a message that arrived, a connection that ended, a step that advanced
 *     const wefti_member_actions *todo = wefti_member_step(member, &event, now_us, random);
 *     for (int k = 0; k < todo->n; k++) {
 *         const wefti_member_action *a = &todo->list[k];
 *         switch (a->kind) {
 *         case WEFTI_DO_SEND:    send a->bytes to a->peer; they are valid until the next step
 *         case WEFTI_DO_RECORD:  report a->record to the launcher, before the sends that follow
 *         case WEFTI_DO_FREEZE:  stop the exchange (see below); collect the inventory: all pieces
 *                                of nodes that depart (wefti_member_departs), of each open step
 *                                (wefti_member_is_open), begun here or not; feed
 *                                WEFTI_EVENT_STEPS before that, and WEFTI_EVENT_INVENTORY with
 *                                a->ballot after it
 *         case WEFTI_DO_INSTALL: continue in wefti_member_view(member): judge every piece of the
 *                                unfinished steps again, fetch from the holders, send
 *                                contributions again to new owners
 *         case WEFTI_DO_ASK:     ask the witness for a->vote; its answer is WEFTI_EVENT_VOTE. It
 *                                may be lost: the machine asks again
 *         case WEFTI_DO_OUT:     this node is out: a->out gives the reason
 *         }
 *     }
 *     sleep in poll() until todo->wake_us or until something arrives
 *
 * Frozen, from WEFTI_DO_FREEZE to WEFTI_DO_INSTALL, means: no step begins, no piece is
 * accepted, nothing is applied or summed, nothing new is sent. Messages already handed to
 * the transport are still sent, arriving messages wait. */
/* clang-format on */
typedef struct wefti_member wefti_member;

typedef enum wefti_member_state {
    WEFTI_MEMBER_OUT,
    WEFTI_MEMBER_JOINING, /* sends HELLO */
    WEFTI_MEMBER_READY,   /* a member has answered it */
    WEFTI_MEMBER_IN,
    WEFTI_MEMBER_FLUSHING, /* has promised a ballot, and is frozen */
    WEFTI_MEMBER_PAUSED    /* too few members can be heard */
} wefti_member_state;

typedef enum wefti_member_out {
    WEFTI_OUT_NONE,
    WEFTI_OUT_LEFT,      /* it has left by itself */
    WEFTI_OUT_EVICTED,   /* the others continued without it */
    WEFTI_OUT_NO_QUORUM, /* paused for longer than pause_us */
    WEFTI_OUT_REFUSED,   /* it may not join; bye says why */
    WEFTI_OUT_NO_ANSWER, /* it could not join within join_us */
    WEFTI_OUT_FAULT      /* a rule of the protocol was broken: a fault of weft */
} wefti_member_out;

typedef enum wefti_member_tie {
    WEFTI_TIE_AUTO,   /* proof with two members, lowest with more */
    WEFTI_TIE_LOWEST, /* the half with the lowest-numbered member continues */
    WEFTI_TIE_PROOF,  /* a half continues if the others are proven dead */
    WEFTI_TIE_WITNESS /* the half that has the vote of a witness (votes.h) */
} wefti_member_tie;

/* Times and rules. All members of a run have the same rules (`tie`, `split`); times may differ. */
typedef struct wefti_member_policy {
    int64_t alive_us;     /* a sign of life is sent this often */
    int64_t silence_us;   /* the least silence after which a member is doubted */
    int64_t probe_us;     /* how long others are asked whether they hear it */
    int64_t late_us;      /* a node that wakes later than this doubles its limits */
    int64_t link_us;      /* how long two members may fail to hear each other */
    int64_t answer_us;    /* how long a leader waits for answers */
    int64_t takeover_us;  /* after this the next member leads */
    int64_t retry_us;     /* after this unanswered messages are sent again */
    int64_t patience_us;  /* how long others wait for a member's step; 0: for ever */
    int64_t gather_us;    /* joiners that are ready within this time enter together */
    int64_t join_us;      /* after this a joiner gives up */
    int64_t pause_us;     /* after this a node without quorum gives up */
    int64_t vote_us;      /* a witness that does not answer is asked again after this */
    wefti_member_tie tie; /* the rule for exactly half of the members */
    bool split;           /* no quorum is needed: both halves continue, as two runs */
    bool rests_count;     /* patience also covers the time between steps */
    int unit; /* above 1: nodes whose keys k have the same (k - 1) / unit are useless
                 without each other; joiners enter when all nodes of their unit are
                 ready */
} wefti_member_policy;

/* Defaults that suit most runs. */
wefti_member_policy wefti_member_policy_default(void);

/* What the user of a run sets (elastic.*), and what follows from its shape. */
typedef struct wefti_member_rules {
    int shards; /* ranks that share one copy of the model */
    bool split, has_witness;
    bool own_loop; /* what happens between two steps is waited for like a step */
    double silence_s, patience_s /* 0: for ever */, pause_s;
} wefti_member_rules;

/* The policy of every run. */
wefti_member_policy wefti_member_policy_of(const wefti_member_rules *rules);

/* The limits of a run whose status is read `lag` steps late, with this many units of the
 * model. */
wefti_member_limits wefti_member_limits_of(int max_nodes, int lag, int units);

typedef struct wefti_member_config {
    wefti_member_limits limits;
    wefti_member_policy policy;
    uint64_t run, config_hash, data_hash;
    wefti_node_id self;
    int n_founders; /* the members of view 1, equal everywhere; 0: join an existing run */
    const wefti_view_node *founders;
    int64_t now_us;
} wefti_member_config;

/* Whether the tables of a view have room for this many nodes and unfinished steps. */
bool wefti_member_fits(const wefti_member_limits *limits);

/* [out] *out owned by the caller; NULL on failure. */
weft_status wefti_member_create(weft_ctx *ctx, const wefti_member_config *config,
                                wefti_member **out) WEFT_CHECKED;
void wefti_member_destroy(wefti_member *member);

typedef enum wefti_member_event_kind {
    WEFTI_EVENT_TICK,      /* wake_us has come */
    WEFTI_EVENT_MESSAGE,   /* bytes from peer */
    WEFTI_EVENT_CONNECTED, /* messages can be sent to peer; a joiner and a paused node try
                              all addresses of the run that they know */
    WEFTI_EVENT_CLOSED,    /* the connection to peer has ended; evidence CLOSED or DEAD */
    WEFTI_EVENT_DATA,  /* a piece of peer arrived: it lives and has begun steps.begun */
    WEFTI_EVENT_STEPS, /* my steps; a joiner has -1, -1, -1 until it has the state */
    WEFTI_EVENT_INVENTORY, /* the answer to FREEZE */
    WEFTI_EVENT_RECORD,    /* the host of `peer` reports that it has ended */
    WEFTI_EVENT_VOTE,      /* the witness has `given` `vote` to this half, or has
                              refused */
    WEFTI_EVENT_LEAVE,     /* this node wants to leave */
    WEFTI_EVENT_YIELD, /* it comes back as a new one, for it and `peer` can not hear each
                              other any more: peer has its vote from now on */
    WEFTI_EVENT_LEND   /* the same, of two members; but it stays until peer has gone on:
                          it decides nothing unless peer is dead */
} wefti_member_event_kind;

typedef struct wefti_member_event {
    wefti_member_event_kind kind;
    wefti_node_id peer;
    const unsigned char *bytes;
    size_t n_bytes;
    wefti_evidence evidence;
    wefti_member_steps steps;
    wefti_ballot ballot; /* INVENTORY: the ballot of FREEZE */
    int n_entries;
    wefti_inventory_entry *entries;
    wefti_member_record record;
    wefti_vote vote;
    bool given;
} wefti_member_event;

typedef enum wefti_member_action_kind {
    WEFTI_DO_SEND,
    WEFTI_DO_RECORD,
    WEFTI_DO_FREEZE,
    WEFTI_DO_INSTALL,
    WEFTI_DO_ASK,
    WEFTI_DO_OUT
} wefti_member_action_kind;

typedef struct wefti_member_action {
    wefti_member_action_kind kind;
    wefti_node_id peer; /* SEND: the receiver */
    const unsigned char *bytes;
    size_t n_bytes;
    wefti_ballot ballot;
    wefti_member_record record;
    wefti_vote vote; /* ASK */
    wefti_member_out out;
} wefti_member_action;

/* Valid until the next step. */
typedef struct wefti_member_actions {
    int n;
    wefti_member_action *list;
    int64_t wake_us;
} wefti_member_actions;

/* Sets how long the others wait for a member's step from now on; 0: for ever. */
void wefti_member_set_patience(wefti_member *member, int64_t patience_us);

/* Processes one event. `random` is any 64-bit number, a new one for each call. A message
 * that cannot be read is dropped and counted (wefti_member_facts). */
const wefti_member_actions *wefti_member_step(wefti_member *member,
                                              const wefti_member_event *event,
                                              int64_t now_us, uint64_t random);

wefti_member_state wefti_member_get_state(const wefti_member *member);
bool wefti_member_is_frozen(const wefti_member *member);
const wefti_view *wefti_member_view(const wefti_member *member); /* number 0: none yet */
int wefti_member_number(const wefti_member *member); /* in the view; -1: not in it */

/* What this node has promised and accepted: what others must know when it has ended. */
wefti_member_record wefti_member_own_record(const wefti_member *member);

/* The nodes that a step belongs to: the last view whose first step is not after it; valid
 * until the next step of the machine. False: the step is so old that all have finished it,
 * or is before this node's time. */
bool wefti_member_roster(const wefti_member *member, int64_t step, wefti_roster *out);

/* While frozen: whether a node departs by the last promised ballot. Its pieces then belong
 * in the inventory. */
bool wefti_member_departs(const wefti_member *member, wefti_node_id id);

/* Whether a member of the view is suspected. */
bool wefti_member_suspects(const wefti_member *member, wefti_node_id id);

/* Whether a node's end is proven, also of one that the view is without. */
bool wefti_member_is_dead(const wefti_member *member, wefti_node_id id);

/* Whether a node was a member when it, or another one, welcomed this joiner. */
bool wefti_member_trains(const wefti_member *member, wefti_node_id id);

/* Whether pieces of this step belong in the inventory: those of steps that some member may
 * not have finished, or may have begun although this node knows nothing of it yet. */
bool wefti_member_is_open(const wefti_member *member, int64_t step);

/* The last step that every member has finished: pieces up to it are no longer needed. */
int64_t wefti_member_stable(const wefti_member *member);

/* Encodes a message with this node's header; returns its length or 0. */
size_t wefti_member_encode(const wefti_member *member, wefti_message *message,
                           unsigned char *out, size_t size);

/* Counts since create. */
typedef struct wefti_member_facts {
    int64_t refused_messages; /* messages that could not be read */
    int64_t faults;
} wefti_member_facts;
wefti_member_facts wefti_member_get_facts(const wefti_member *member);
