/* SPDX-License-Identifier: MIT */
#pragma once

#include "member/member.h"
#include "member/quorum.h"

/* The machine's state, shared by the files of this folder. */

enum { WEFTI_PEER_GAPS = 16, WEFTI_PAST_VIEWS = 64 };

/* Another node: a member of the view, or a node that wants to become one. */
typedef struct wefti_member_node {
    bool used;
    wefti_node_id id;
    int number; /* in the view; -1: it wants to join */
    bool connected;
    bool has_departed; /* it was a member: this incarnation never returns */
    int64_t heard_us;
    wefti_member_steps steps;
    bool has_told; /* its steps, since it is known */
    wefti_standing standing;
    int64_t doubted_us; /* 0: not doubted; else when others were asked about it */
    uint64_t nonce;
    bool answered_others; /* others hear it */
    int64_t told_us;      /* when the suspicion was last sent to the others */
    int64_t behind_us;    /* 0: it keeps up; else since when others wait for the step */
    int64_t behind_step;  /* after this one */
    int unanswered;       /* ballots that it did not answer, and refused (change.c) */
    int64_t led_us, led_at_us; /* how long it has led in this view, until when */
    int64_t gap_us[WEFTI_PEER_GAPS], alive_us, limit_us;
    int n_gaps;
    uint64_t says_chain;  /* it says that this next view is decided; 0: none */
    bool says_later;      /* it says that it is in a later view */
    bool says_out;        /* and that this node is not */
    int64_t installed_us; /* when INSTALL was last sent to it */
    bool is_ready;        /* joiners */
    bool trains;          /* to a joiner: it was a member when this one was welcomed */
    int64_t ready_us;
} wefti_member_node;

typedef enum wefti_lead_phase {
    WEFTI_LEAD_IDLE,
    WEFTI_LEAD_ASKING,   /* FLUSH was sent */
    WEFTI_LEAD_PROPOSING /* VIEW was sent */
} wefti_lead_phase;

/* The inventories of all members that stay, as they arrive, over the steps base + 1 .. base
 * + 2 windows. */
typedef struct wefti_ballot_tally {
    bool has_base;
    int64_t base;
    int64_t low, high; /* least finished, highest begun */
    int n_senders;
    wefti_node_id *senders; /* [max departed] */
    uint64_t *counted;      /* [max departed] bit per step */
    uint16_t
        *holders; /* [max departed][2 windows][rounds][parts], numbers in the old view */
} wefti_ballot_tally;

typedef struct wefti_lead {
    wefti_lead_phase phase;
    wefti_ballot ballot;
    bool *asked;    /* [max_nodes] of the old view */
    bool *answered; /* [max_nodes] */
    int64_t deadline_us, again_us;
    int attempts;   /* in this view, that lacked answers */
    bool has_value; /* a member has accepted a view already */
    wefti_ballot value_ballot;
    wefti_view proposal;
    wefti_ballot_tally tally;
} wefti_lead;

typedef struct wefti_joining {
    int64_t since_us, again_us, greeted_us;
    int turn; /* which peer is asked next */
} wefti_joining;

struct wefti_member {
    weft_ctx *ctx;
    wefti_member_config config;
    wefti_member_state state;
    wefti_view view;
    int number;
    wefti_member_steps steps;
    int64_t now_us; /* time of the current event */
    uint64_t random;
    wefti_member_facts facts;

    int max_peers;
    wefti_member_node *peers;  /* [max_peers] */
    int *peer_of_number;       /* [max_nodes] index in peers; -1: this node */
    wefti_standing *standings; /* [max_nodes] work space for quorum questions */
    bool *others;              /* [max_nodes] likewise */

    /* Who has complained of whom, and how long silences are (watch.c). */
    struct {
        int32_t *first, *last; /* [max_nodes][max_nodes] ms; 0: none */
        int64_t at_us;         /* time of the last one */
    } complaints;
    struct {
        int64_t slow_until_us;
        int64_t gap_us; /* the longest silence that ended by itself */
        int64_t gap_until_us;
    } silence;

    /* This node as a voter on the next view (change.c; the heir: events.c). install.c empties it,
     * but for the counter. */
    struct {
        wefti_ballot promised;
        uint64_t highest_counter;
        bool frozen;
        bool has_answered;  /* a ballot of this view, with what it had finished */
        wefti_node_id heir; /* this node has left, and that one has its vote */
        bool *stays;        /* [max_nodes] of the view, by the last promised ballot */
        bool has_accepted;
        wefti_ballot accepted_as;
        wefti_ballot given; /* the last one accepted that another member leads, or that
                               left it out */
        wefti_view accepted;
        unsigned char *answer; /* to the last promised ballot */
        size_t n_answer;
    } voter;
    wefti_lead lead;       /* this node as the leader of a ballot (change.c, cut.c) */
    wefti_joining joining; /* while it is no member (join.c) */

    /* What the last change has decided (change.c); until the next one. */
    struct {
        wefti_ballot ballot; /* that decided this view, and who has accepted it then */
        int n_voters;
        uint16_t *voters; /* [max_nodes] numbers in the view before */
    } decided;
    /* chains of the last views that it was in, at their numbers; 0: not known */
    uint64_t past[WEFTI_PAST_VIEWS];

    /* When a ballot begins, and when its leader waits no longer (change.c); since when others say
     * that they have gone on (events.c); 0: not now. */
    struct {
        int64_t reason_us, progress_us, backoff_us, paused_us, behind_us;
    } due;

    /* Claims to the witness's vote for this view (change.c); 0: none. */
    struct {
        uint64_t vote, refused;
        uint64_t asked; /* the one last sent, and when */
        int64_t asked_us;
    } witness;

    /* The event that is read, and what is done because of it: of one wefti_member_step. */
    wefti_message_room room;
    wefti_message message;
    struct {
        wefti_member_actions actions;
        int max_actions;
        unsigned char *bytes; /* of the messages to send */
        size_t n_bytes, max_bytes, most_bytes;
        int64_t next_alive_us, wake_us;
    } out;
};

/* A member that sends every alive_us has been silent for this long before it is doubted. */
static inline int64_t wefti_member_least_limit(const wefti_member_policy *p) {
    return p->silence_us > 5 * p->alive_us ? p->silence_us : 5 * p->alive_us;
}

/* -- ask.c -- */
wefti_member_node *wefti_member_peer(const wefti_member *m, wefti_node_id id);

/* -- member.c -- */
uint64_t wefti_member_draw(wefti_member *m);
bool wefti_member_is_in(const wefti_member *m);
wefti_member_action *wefti_member_act(wefti_member *m, wefti_member_action_kind kind);
void wefti_member_say(wefti_member *m, wefti_node_id to, wefti_message *message);
typedef bool (*wefti_peer_test)(const wefti_member *m, const wefti_member_node *peer);
void wefti_member_say_all(wefti_member *m, wefti_message *message, wefti_peer_test test);
bool wefti_peer_is_sound(const wefti_member *m, const wefti_member_node *peer);
wefti_member_node *wefti_member_add_peer(wefti_member *m, wefti_node_id id);
/* Where no entry is free, that of the one heard longest ago is taken: for a member of all that are
 * no members, for a joiner of those that are gone. NULL: there is none. */
wefti_member_node *wefti_member_make_peer(wefti_member *m, wefti_node_id id,
                                          bool is_member);
void wefti_member_dismiss(wefti_member *m, wefti_node_id id, wefti_bye_reason reason);
void wefti_member_say_leave(wefti_member *m);
void wefti_member_leave(wefti_member *m, wefti_member_out why);
void wefti_member_see(wefti_member *m, wefti_ballot ballot);
void wefti_member_wake_by(wefti_member *m, int64_t when_us);
void wefti_member_install(wefti_member *m, const wefti_view *value);

/* -- watch.c: which nodes live -- */
void wefti_watch_heard(wefti_member *m, wefti_member_node *peer, bool is_alive);
void wefti_watch_silence_ends(wefti_member *m, wefti_member_node *peer);
int64_t wefti_watch_limit(const wefti_member *m, const wefti_member_node *peer);
void wefti_watch_suspect(wefti_member *m, wefti_member_node *peer,
                         wefti_evidence evidence);
void wefti_watch_message(wefti_member *m, wefti_member_node *peer,
                         const wefti_message *message);
void wefti_watch_late(wefti_member *m);
void wefti_watch_pump(wefti_member *m);
void wefti_watch_ended(wefti_member *m, wefti_node_id id,
                       const wefti_member_record *record);
void wefti_watch_forget(wefti_member *m);

/* -- change.c: the next view -- */
void wefti_change_message(wefti_member *m, wefti_member_node *peer,
                          const wefti_message *message);
void wefti_change_inventory(wefti_member *m, const wefti_member_event *event);
void wefti_change_vote(wefti_member *m, const wefti_member_event *event);
bool wefti_change_outvotes(wefti_member *m, const bool *answered);
void wefti_change_pump(wefti_member *m);

/* -- cut.c: how unfinished steps end -- */
void wefti_tally_reset(wefti_member *m);
bool wefti_tally_add(wefti_member *m, int number, const wefti_message *flush_ok);
bool wefti_cut_propose(wefti_member *m);
bool wefti_cut_may_enter(wefti_member *m, const wefti_member_node *peer);

/* -- join.c -- */
void wefti_join_message(wefti_member *m, wefti_member_node *peer,
                        const wefti_message *message);
void wefti_join_pump(wefti_member *m);
