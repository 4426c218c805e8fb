/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/mesh.h"
#include "comm/missed.h"
#include "member/member.h"

/* A mesh that goes on when processes die (docs/membership.md, "In a run"). Each process is
 * a node of the membership machine (member/member.h); the progress thread feeds it and does
 * what it says. Ranks that share one copy of the model fail together: a view's world is
 * made of the copies that are whole.
 *
 * A rank's thread sees three things of it. Between steps it asks whether a new world begins
 * here. Within a step its messages are pieces (comm.h): those of who is lost count or do
 * not, for all alike. And what waits between steps, for others that may have left for a new
 * world, is interrupted. */
/* What a person chooses (elastic.* of the configuration), the same in all processes. */
typedef struct wefti_elastic_policy {
    double silence_s; /* of a process, until the others ask each other about it */
    double
        patience_s; /* with one that lives and does not send; 0: by the step's time; < 0: any */
    double pause_s; /* of too few, until they give up */
    bool split;     /* too few are enough */
    const char *witness; /* "HOST[:PORT]", or "" or NULL: there is none; borrowed at the start */
    bool own_loop; /* what lies between two steps is the caller's, and is waited for like the
                      steps */
} wefti_elastic_policy;

typedef struct wefti_elastic_setup {
    int shards;         /* ranks that share one copy */
    int sites, per_site; /* 1: none; ranks that each site begins with */
    int units;          /* of the model: at least as many as a group has buckets */
    int64_t first_step; /* of this start of the run */
    uint64_t run;       /* its number, drawn anew for each start */
    uint64_t config_hash, data_hash; /* what all have to have alike */
    bool joins;    /* this process comes into a run that trains (transport.h, entry) */
    int lag;       /* steps after which a step is over: so far apart the ranks may be */
    int64_t delay; /* steps from the begin of a mixer's exchange to its end */
    bool meets;    /* the mixer gossips: what it sends is for its receiver alone, and
                           counts where it is here */
    const void *notice; /* [notice_bytes] what all have to have alike, for who is refused; copied */
    int64_t notice_bytes;
    wefti_elastic_policy policy;
} wefti_elastic_setup;

/* The site of a place: who comes to a place later is of the same site. Places beyond those that
 * the run began with are dealt out. */
static inline int wefti_elastic_site_of(const wefti_elastic_setup *s, int place) {
    int founders = s->sites * s->per_site;
    if (s->sites < 2) return 0;
    return place < founders ? place / s->per_site : (place - founders) / s->shards % s->sites;
}

/* Whether membership has room for the mesh's processes; a lag of the status makes it scarce. */
bool wefti_elastic_fits(const weft_mesh *mesh, const wefti_elastic_setup *setup);

/* From now on lost ranks are gone on without. After a barrier of all ranks, before the
 * first step. */
weft_status wefti_elastic_start(weft_ctx *ctx, weft_mesh *mesh,
                                const wefti_elastic_setup *setup) WEFT_CHECKED;
void wefti_elastic_destroy(weft_mesh *mesh);

/* What this rank knows before its machine does. */
typedef enum wefti_elastic_fact {
    /* The last step is done, or all have agreed to stop: who calls from now on is sent away. */
    WEFTI_FACT_OVER,
    /* Another process has taken over what was its own (the run folder): the others go on without
     * it, which it has not heard yet. */
    WEFTI_FACT_REPLACED
} wefti_elastic_fact;
void wefti_elastic_note(weft_mesh *mesh, wefti_elastic_fact fact);

/* This rank begins `step`, unless (*changed) it belongs to a new world. Waits while that is
 * being decided. Without wefti_elastic_start nothing ever changes. */
weft_status wefti_elastic_begin(weft_ctx *ctx, weft_mesh *mesh, int64_t step,
                                bool *changed) WEFT_CHECKED;

/* It has finished the step: its result is applied. The status is read of all steps up to
 * `counted`, and with them nothing of these steps is needed any more. */
void wefti_elastic_finish(weft_mesh *mesh, int64_t step, int64_t counted);

/* Whether what waited between steps failed because the world has changed; then the failure
 * is forgotten. */
bool wefti_elastic_interrupted(weft_ctx *ctx, weft_mesh *mesh);

/* Between steps: what follows needs all members, or (false) no more. One that has said its
 * farewell meanwhile is gone on without. */
void wefti_elastic_gather(weft_mesh *mesh, bool gathers);

/* The rank leaves its world before `step`: what its mixer has sent ahead, for exchanges of that
 * step or a later one, nobody will take. What of it has not begun to leave is dropped, so that
 * the next world, which sends the same anew to its own members, need not wait for the wire. */
void wefti_elastic_drop_ahead(weft_mesh *mesh, int64_t step);

/* Waits until this process, which joins a run, is a member; *step: the first that it takes
 * part in. */
weft_status wefti_elastic_await_entry(weft_ctx *ctx, weft_mesh *mesh,
                                      int64_t *step) WEFT_CHECKED;

/* If this process was refused: what a member has told of what all have to have alike, or NULL.
 * Waits for it; borrowed. */
const void *wefti_elastic_await_notice(weft_mesh *mesh, int64_t *n);

/* The world that begins: this rank's number in it, and how many there are. Communicators
 * that are made from now on are of it; those of the old one must be gone. [out] text: who is
 * lost since the last one, joined: who has come, in words. */
typedef struct wefti_elastic_world {
    int64_t number, first_step;
    int rank, size, n_lost, n_joined;
    char text[512], joined[512];
} wefti_elastic_world;

weft_status wefti_elastic_enter(weft_ctx *ctx, weft_mesh *mesh,
                                wefti_elastic_world *out) WEFT_CHECKED;

/* Bytes per second of the slowest connection to another machine when the world's view was
 * installed; 0: not known. */
double wefti_elastic_rate(weft_mesh *mesh);

/* Where a rank of the current world runs. */
const char *wefti_elastic_host_of(const weft_mesh *mesh, int rank);

/* Its place in the mesh, and its name there: who comes to a place later has another one. */
void wefti_elastic_who(const weft_mesh *mesh, int rank, int *place, uint64_t *name);

/* This rank has sent what it computed in a step, if a message (channel, tag) is what comes last
 * of that. Lock held. */
void wefti_elastic_note_sent(weft_mesh *mesh, int channel, int64_t tag);

/* Why the process that had a place was lost, in words. */
void wefti_elastic_why(weft_mesh *mesh, int place, char *out, size_t size);

/* What did not count for this rank since it was forgotten last. [out] *out: [*n] owned by the
 * caller (wefti_free); *n = -1 if there was no memory to note all of it. */
weft_status wefti_elastic_missed(weft_ctx *ctx, weft_mesh *mesh, wefti_missed **out,
                                 int *n) WEFT_CHECKED;
void wefti_elastic_forget_missed(weft_mesh *mesh);

/* --- for the files of this folder --- */

/* Channels that no communicator has. Those of communicators carry the view's number above
 * WEFTI_VIEW_SHIFT. */
enum {
    WEFTI_WAY_BACK_BYTES = 1024,
    WEFTI_VIEW_SHIFT = 5,
    WEFTI_MAX_VIEWS = 1 << 10,
    WEFTI_CHANNEL_PART = 0x8000,  /* + the lost rank: a part that it was to get */
    WEFTI_NOTICE_MOST = 1 << 20, /* bytes */
    WEFTI_CHANNEL_NOTICE = 0xfffc, /* empty: asks what all have to have alike; else says it */
    WEFTI_CHANNEL_RELAY = 0xfffd, /* a lost rank's message, from who has it */
    WEFTI_CHANNEL_ASK = 0xfffe,   /* asks for that */
    WEFTI_CHANNEL_MEMBER = 0xffff /* between the machines */
};

/* What a message is in the terms of the machine. */
typedef struct wefti_piece_place {
    int64_t step; /* that ends with it */
    int64_t sent; /* that it was sent in */
    int round, part;
} wefti_piece_place;

/* A part that was sent: where it lies until the step is over. */
typedef struct wefti_sent_part {
    struct wefti_sent_part *next;
    int peer, channel;
    int64_t tag, n_bytes;
    const void *data; /* the sender's */
    bool passed_on;
} wefti_sent_part;

/* What connections have lately carried (elastic_rate.c). */
enum { WEFTI_RATES = 15 };
typedef struct wefti_elastic_rates {
    double Bps[WEFTI_RATES]; /* a ring */
    int64_t n;               /* samples so far */
    double looked_s;
} wefti_elastic_rates;

/* What this rank has said for its site to another one (elastic_sites.c). */
typedef struct wefti_said {
    struct wefti_said *next;
    int channel, peer; /* the other site, as a member of the group */
    int64_t tag, step, n_bytes, capacity;
    void *data; /* owned */
    int *ranks; /* [n_mine + n_theirs] owned: the mesh ranks of both sites in that world */
    int n_mine, n_theirs, max_ranks;
} wefti_said;

typedef struct wefti_asker wefti_asker;

typedef struct wefti_elastic {
    wefti_elastic_setup setup;
    wefti_member_limits limits;
    int size;

    /* the progress thread's */
    wefti_member *member;
    int64_t wake_us;
    uint64_t random;
    bool has_frozen;
    bool must_meet; /* a joiner has not told the machine yet whom it is connected to */
    wefti_ballot ballot; /* whose inventory is owed */
    double
        *closed_s;  /* [size] since when a connection is gone; 0: it is not, < 0: known */
    double *left_s; /* [size] when it was seen to have said its farewell; 0: it has not */
    int64_t *begun; /* [size] step of the last piece that was told to the machine */
    double *told_s; /* [size] when that was */
    double patience_s; /* that the machine was told last; 0: none */
    wefti_elastic_rates rates;
    void *notice; /* [setup.notice_bytes] owned */
    wefti_asker *asker; /* owned; NULL: there is no witness */
    int witness_said;   /* its last answer (witness.h); -1: it was not asked */
    wefti_inventory_entry *entries;
    unsigned char *held; /* [max_entries][rounds x row bytes] */
    wefti_arrival
        *parked;     /* of who departs by the ballot, while frozen, and of who is not a
                              member yet here */
    double *given_s; /* [size] when a place was promised to a caller; 0: never */
    bool *spoke;     /* [size] a machine is there, so that it can be called at, too */
    unsigned char *work; /* [size] */

    /* lock */
    wefti_member_steps steps;
    bool frozen, in_step;
    double step_s; /* a long one of the last steps; 0: too few to tell */
    int64_t n_steps;
    bool gathers; /* the rank's thread waits between steps, for all members */
    int64_t view, first_step; /* of the machine's view; copies for the ranks' threads */
    double rate_Bps;          /* of the slowest connection to another machine; 0: not known */
    bool *departed;           /* [size] not in it */
    wefti_node_id *id;        /* [size] who has a place, or had it last; 0: nobody had */
    bool *fresh;              /* [size] connected, and a member of no view here yet */
    int *order;               /* [n_order] the view's members, in its order */
    int n_order;
    int64_t *taken; /* [size] last step of which a part for this rank was taken */
    int64_t cut_low;
    int cut_steps;
    int *cut_of;      /* [size] row of holders; -1: none */
    int32_t *holders; /* [max departed][window][rounds][parts] ranks; -1: nobody */
    wefti_arrival *kept;
    int64_t stable;
    wefti_sent_part *parts, *spare_parts;
    wefti_said *said, *spare_said;
    bool *was_departed;           /* [size] before the last view */
    char (*reason)[200]; /* [size] what a rank said of its failure */
    bool replaced; /* another process does what only one may do: the others go on without this */
    bool refused; /* this process may not join */
    void *heard_notice; /* [n_heard] owned: what a member has told it then */
    int64_t n_heard;
    bool over;     /* the run is about to end: nobody is taken in any more */
    bool is_out;   /* the machine has come to its end */
    char way_back[WEFTI_WAY_BACK_BYTES]; /* where the others listen, if they went on without this
                                            process; "": they did not */
    bool *ended;         /* [size] its connection has ended */
    wefti_missed *missed; /* [n_missed] of messages that this rank did without */
    int n_missed, max_missed;
    bool forgot_missed; /* there was no memory for one of them */

    /* the rank's thread */
    int64_t entered; /* view of the current world */
    double begun_s;  /* when it began its step */
    uint64_t *was;   /* [size] incarnations of its members; 0: none */
    int *ranks;      /* [n_ranks] mesh ranks of the current world */
    int n_ranks, me;
} wefti_elastic;

/* --- elastic.c: the progress thread --- */

/* Takes note of time, steps, and connections that are gone; seconds until it is due again. */
double wefti_elastic_pump(weft_mesh *mesh);

/* A rank's connection has ended; it said that it has failed. */
void wefti_elastic_lose(weft_mesh *mesh, int rank);
void wefti_elastic_hear_failure(weft_mesh *mesh, int sender, const char *text);

/* This rank has failed: the others need not find out. */
void wefti_elastic_leave(weft_mesh *mesh);

/* Somebody is connected at a place that was empty, by this name. */
void wefti_elastic_greet(weft_mesh *mesh, int rank, uint64_t incarnation);

/* --- elastic_notice.c: the progress thread --- */

/* Before it starts: copies what it will tell. */
weft_status wefti_elastic_keep_notice(weft_ctx *ctx, wefti_elastic *e) WEFT_CHECKED;

/* This process is refused. False: nobody would tell why. */
bool wefti_elastic_ask_why(weft_mesh *mesh);
void wefti_elastic_take_notice(weft_mesh *mesh, const wefti_arrival *arrival);

/* --- elastic_rate.c: the progress thread --- */

/* Looks, if it is time. Bytes per second: 0 until something was seen. */
void wefti_elastic_watch_rate(wefti_elastic_rates *rates, const weft_mesh *mesh,
                              double now_s);
double wefti_elastic_usual_rate(const wefti_elastic_rates *rates);

/* --- elastic_witness.c: the progress thread, but for its birth and death --- */

/* Learns where the witness is, if there is one, and looks whether it answers. */
weft_status wefti_elastic_know_witness(weft_ctx *ctx, weft_mesh *mesh,
                                       wefti_elastic *e) WEFT_CHECKED;

/* The thread that asks it ends, at most two seconds later; before the transport does. */
void wefti_elastic_leave_witness(weft_mesh *mesh);

/* Asks for a vote, unless a question is under way. */
void wefti_elastic_ask_witness(weft_mesh *mesh, const wefti_vote *vote);

/* Tells the machine, by `feed`, of an answer that has come. */
void wefti_elastic_hear_witness(weft_mesh *mesh,
                                void (*feed)(weft_mesh *, const wefti_member_event *));

/* What it said last, as the end of a sentence about too few processes; "": nothing. */
const char *wefti_elastic_witness_text(const wefti_elastic *e, wefti_member_out out);

/* --- elastic_return.c: the progress thread --- */

/* What a process says of itself that was gone on without. */
#define WEFTI_LEFT_BEHIND                                                              \
    "the others could not hear it, or waited for it in vain, and went on without it"

/* The machine is out: whether this process may come in again, and where. */
void wefti_elastic_note_way_back(weft_mesh *mesh, wefti_member_out out);

/* A message is whole. True: it is not for the ranks' threads, or not now. */
bool wefti_elastic_takes(weft_mesh *mesh, wefti_arrival *arrival);

/* --- elastic_pieces.c: messages whose sender is lost; lock held --- */

bool wefti_piece_of(const wefti_elastic *e, int channel, int64_t tag,
                    wefti_piece_place *out);

/* Drops what wefti_elastic_drop_ahead has asked for. The progress thread's, lock not held. */
void wefti_elastic_drop_moot(weft_mesh *mesh, int64_t step);

/* Looks for a message that is here, taken or not. */
wefti_arrival *wefti_elastic_find(weft_mesh *mesh, int sender, int channel, int64_t tag);

/* What becomes of a lost rank's message: the rank that has it, or -1. */
int wefti_elastic_holder(const wefti_elastic *e, int sender, int channel, int64_t tag);

/* Keeps a message that was released, if it may be asked for. */
bool wefti_elastic_keep(weft_mesh *mesh, wefti_arrival *arrival);
void wefti_elastic_forget(weft_mesh *mesh, int64_t stable);

/* Sends the part that a lost rank was to get to all that are left. */
void wefti_elastic_pass_on(weft_mesh *mesh, wefti_sent_part *part);

/* The same of any bytes, which are copied, in a channel. */
void wefti_elastic_submit(weft_mesh *mesh, int peer, int channel, int64_t tag,
                          const void *data, int64_t n_bytes);

/* Sends bytes of its own, which are copied, outside of all communicators. Lock not held. */
void wefti_elastic_post(weft_mesh *mesh, int peer, int channel, int64_t tag,
                        const void *data, int64_t n_bytes);

/* --- elastic_sites.c: copies, and a site's messages to other sites; lock held --- */

/* The copies of the model that have lost a rank can not go on: who is of one ends. */
bool wefti_elastic_is_whole(const wefti_elastic *e, int rank);

/* Keeps what this rank says to a member of the group between sites until all have it. Of `what`
 * are read: channel, peer, tag and n_bytes. The data is copied. */
weft_status wefti_elastic_keep_said(weft_mesh *mesh, const wefti_members *m,
                                    const wefti_said *what, const void *data) WEFT_CHECKED;
void wefti_elastic_forget_said(weft_mesh *mesh, int64_t stable); /* takes the lock */
void wefti_elastic_free_said(weft_ctx *ctx, wefti_elastic *e);

/* Number k (0, 1, ...) of those ranks of a member that this rank speaks to for its site, as mesh
 * ranks; -1: there are no more. `gone` has who is lost. */
int wefti_elastic_hearer(const wefti_elastic *e, const wefti_members *m, int peer, int k,
                         const bool *gone);

/* Number k of the ranks that may speak for a member to this one: a mesh rank, -1: no more. */
int wefti_elastic_speaker(const wefti_elastic *e, const wefti_members *m, int peer, int k);

/* Whether all ranks of a member are lost. */
bool wefti_elastic_lost_site(const wefti_elastic *e, const wefti_members *m, int peer);

/* A view was installed: to those whose speaker is lost with it, what this rank has said. */
void wefti_elastic_say_again(weft_mesh *mesh);

/* Whether such a message has come twice. */
bool wefti_elastic_heard(weft_mesh *mesh, const wefti_arrival *arrival);

/* Whether members of a channel's group are sites of several ranks: then one that is lost has
 * another in its place, and nothing is made again. */
bool wefti_elastic_has_mates(const wefti_elastic *e, int channel);

/* Whether a message between sites is the same for all ranks of the site that it is for. */
bool wefti_elastic_is_alike(const wefti_elastic *e, int channel, int64_t tag);

/* A site that has lost all its ranks, where that ends the run; -1: none. */
int wefti_elastic_lost_whole(const wefti_elastic *e);

/* --- elastic_policy.c: what a person chooses --- */

void wefti_elastic_set_policy(const wefti_elastic_setup *setup, wefti_member_policy *out);

/* So long the others are waited for, in seconds; 0: however long it takes. Lock held. */
double wefti_elastic_patience(const wefti_elastic *e);

/* A step took this rank so long. Lock held. */
void wefti_elastic_learn_step(wefti_elastic *e, double step_s);

/* --- elastic_missed.c: what did not count; lock held --- */

/* Whether a message is an owner's answer, which is made again if it is lost. */
bool wefti_elastic_is_answer(int channel, int64_t tag);
void wefti_elastic_miss(weft_mesh *mesh, const wefti_missed *missed);

/* The answer to which these parts belong (tag, channel, receiver) stands, or is given up. */
void wefti_elastic_settle(weft_mesh *mesh, const wefti_missed *answer, bool stands);
