/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "member/view.h"

/* The messages between nodes about membership (docs/wire-format.md has the layout). The
 * comments are from the sender's point of view. */
typedef enum wefti_message_kind {
    WEFTI_SAY_HELLO = 1, /* let me join */
    WEFTI_SAY_WELCOME,   /* the view */
    WEFTI_SAY_ALIVE,     /* a sign of life, with my steps */
    WEFTI_SAY_PROBE_REQ, /* do you hear `subject`? */
    WEFTI_SAY_PROBE_ACK, /* `subject` answers */
    WEFTI_SAY_SUSPECT,   /* I do not hear `subject`, or I know that it is dead */
    WEFTI_SAY_FLUSH,     /* promise this ballot and tell me what you hold */
    WEFTI_SAY_FLUSH_OK,  /* promised, or refused; inventory */
    WEFTI_SAY_VIEW,      /* accept this view */
    WEFTI_SAY_VIEW_OK,   /* accepted, or refused */
    WEFTI_SAY_INSTALL,   /* this view is decided, by these votes */
    WEFTI_SAY_READY,     /* I have been welcomed: let me in */
    WEFTI_SAY_LEAVE,     /* I have ended, with these promises */
    WEFTI_SAY_BYE,       /* you are not a member, or will not become one */
    WEFTI_SAY_KINDS
} wefti_message_kind;

/* Ballots are ordered by counter, then by leader. */
typedef struct wefti_ballot {
    uint64_t counter; /* 0: none */
    int leader;       /* its number in the view that it wants to replace */
} wefti_ballot;

static inline bool wefti_ballot_less(wefti_ballot a, wefti_ballot b) {
    return a.counter != b.counter ? a.counter < b.counter : a.leader < b.leader;
}

static inline bool wefti_ballot_is(wefti_ballot a, wefti_ballot b) {
    return a.counter == b.counter && a.leader == b.leader;
}

/* Why a node is thought not to take part any more, weakest evidence first. */
typedef enum wefti_evidence {
    WEFTI_EVIDENCE_NONE,
    WEFTI_EVIDENCE_MUTE,    /* it did not answer a leader's question */
    WEFTI_EVIDENCE_SILENCE, /* none of the nodes that were asked hears it */
    WEFTI_EVIDENCE_LINK,   /* two members have not heard each other for long; this one has
                            to go */
    WEFTI_EVIDENCE_CLOSED, /* its connection has ended, and its host does not answer */
    WEFTI_EVIDENCE_PATIENCE, /* it lives, but others have waited too long for its step */
    WEFTI_EVIDENCE_DEAD,     /* it is proven dead, but nobody knows what it had promised:
                              another process has taken its address, or it sent a farewell */
    WEFTI_EVIDENCE_RECORD,   /* it or its host has reported its end, and what it had
                              promised */
    WEFTI_EVIDENCES
} wefti_evidence;

/* The state of an acceptor that has ended: the last ballot that it promised, the last view that
 * it accepted and that member may not have, and the member that answers for it from now on. */
typedef struct wefti_member_record {
    int64_t promised_view; /* the view that ballot `promised` decides; 0: none */
    wefti_ballot promised;
    int64_t accepted_view; /* 0: none */
    wefti_node_id heir;    /* lower-numbered than itself; all 0: nobody */
    uint64_t chain;        /* of the last view that it installed */
} wefti_member_record;

/* Steps of a node; -1: none. */
typedef struct wefti_member_steps {
    int64_t begun;    /* its rows are chosen */
    int64_t sent;     /* all its pieces were sent */
    int64_t finished; /* its result is applied */
} wefti_member_steps;

/* One piece of `sender` in a step. */
typedef struct wefti_member_piece {
    int64_t step;
    wefti_node_id sender;
    int round, part;
} wefti_member_piece;

/* What one node holds of one departed node and step. */
typedef struct wefti_inventory_entry {
    wefti_node_id sender;
    int64_t step;
    bool counted;              /* its rows are contained in something that I hold */
    const unsigned char *held; /* [rounds][(parts + 7) / 8] bits */
} wefti_inventory_entry;

/* The reason of a BYE or a refusal. */
typedef enum wefti_bye_reason {
    WEFTI_BYE_EVICTED = 1, /* the members have continued without you */
    WEFTI_BYE_OTHER_RUN,   /* another configuration, other data, or another branch */
    WEFTI_BYE_FULL,        /* no place is free */
    WEFTI_BYE_REASONS
} wefti_bye_reason;

/* A message of any kind; unused fields are zero. Pointers of a decoded message are
 * borrowed: from the bytes (held), and from the tables given for decoding (value,
 * nodes, entries). */
typedef struct wefti_message {
    wefti_message_kind kind;
    uint64_t run;
    wefti_node_id from;
    int64_t view;   /* the sender's view; 0: none */
    uint64_t chain; /* and its chain */

    uint64_t config_hash, data_hash; /* HELLO */
    wefti_member_steps steps;        /* ALIVE, FLUSH_OK */
    wefti_node_id origin, subject;   /* PROBE_*, SUSPECT */
    uint64_t nonce;                  /* PROBE_* */
    wefti_evidence evidence;         /* SUSPECT */
    wefti_member_record record;      /* LEAVE */
    wefti_ballot ballot;             /* FLUSH, FLUSH_OK, VIEW, VIEW_OK, INSTALL */
    bool refused;                    /* FLUSH_OK, VIEW_OK */
    wefti_ballot other; /* FLUSH_OK: of the accepted view, or the higher ballot */
    bool has_value;     /* FLUSH_OK */
    int n_numbers;      /* FLUSH: members that stay; INSTALL: that have accepted it */
    uint16_t *numbers;
    int n_entries; /* FLUSH_OK */
    wefti_inventory_entry *entries;
    wefti_view *value;       /* WELCOME, FLUSH_OK, VIEW, INSTALL */
    wefti_bye_reason reason; /* BYE */
} wefti_message;

enum { WEFTI_MESSAGE_HEADER = 56 };

/* The tables for a decoded message. */
typedef struct wefti_message_room {
    wefti_view value;
    uint16_t *numbers;              /* [max_nodes] */
    wefti_inventory_entry *entries; /* [max departed * window] */
} wefti_message_room;

weft_status wefti_message_room_init(weft_ctx *ctx, const wefti_member_limits *limits,
                                    wefti_message_room *room) WEFT_CHECKED;
void wefti_message_room_fini(weft_ctx *ctx, wefti_message_room *room);

/* Bytes of the longest message. */
size_t wefti_message_max_bytes(const wefti_member_limits *limits);

/* Writes the message; returns its length, or 0 if it needs more than `size` bytes or a
 * count is above its limit. */
size_t wefti_message_encode(const wefti_member_limits *limits,
                            const wefti_message *message, unsigned char *out,
                            size_t size);

/* Reads a message of exactly n bytes. NULL on success, otherwise a sentence with the
 * reason. Lengths in the bytes are checked against the limits before anything is stored. */
const char *wefti_message_decode(const wefti_member_limits *limits,
                                 wefti_message_room *room, const unsigned char *bytes,
                                 size_t n, wefti_message *out);
