/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/mesh.h"
#include "comm/missed.h"
#include "member/member.h"

/* A mesh that continues when processes die (docs/membership.md). Each process
 * is a node of the membership machine (member/member.h); the progress thread passes events
 * to the machine and carries out the machine's actions. Ranks that share one copy of the
 * model fail together: the world of a view consists of the copies that are whole.
 *
 * A rank's thread sees three effects. Between steps it asks whether a new world begins
 * here. Within a step its messages are pieces (comm.h): a message of a lost rank counts for
 * all members or for none. A wait between steps, for ranks that may already have left for a
 * new world, is interrupted. */
/* What the user configures (elastic.* of the configuration), the same in all processes. */
typedef struct wefti_elastic_policy {
    double silence_s; /* of a process, before the others ask each other about it */
    double
        patience_s; /* with a process that lives and does not send; 0: by the step's time;
                       < 0: no limit */
    double pause_s; /* how long too few processes wait before they give up */
    int64_t
        faults; /* a machine that has computed wrongly this often is not taken in again;
                       0: no limit */
    bool split; /* too few processes may continue */
    const char
        *witness; /* "HOST[:PORT]", or "" or NULL: there is none; borrowed at the start */
    bool own_loop; /* what happens between two steps belongs to the caller, and is waited
                      for like a step */
} wefti_elastic_policy;

/* A machine that has computed wrongly, and how often. Sent as it is in memory. */
enum { WEFTI_FAULTY_MACHINES = 32 };
typedef struct wefti_fault {
    uint64_t machine;
    int64_t n; /* 0: no entry */
} wefti_fault;

typedef struct wefti_elastic_setup {
    int shards;          /* ranks that share one copy */
    int sites, per_site; /* 1: no sites; ranks that each site begins with */
    int units;           /* of the model: at least as many as a group has buckets */
    int64_t first_step;  /* of this start of the run */
    uint64_t run;        /* its number, drawn at random for each start */
    uint64_t config_hash, data_hash; /* must be equal in all processes */
    bool joins;    /* this process joins a running run (transport.h, entry) */
    int lag;       /* a step is over this many steps later: ranks may be so far apart */
    int64_t delay; /* steps from the begin of a mixer's exchange to its end */
    bool meets;    /* the mixer gossips: each message is for its receiver alone, and
                      counts if it has arrived there */
    const void *notice; /* [notice_bytes] what must be equal in all processes, sent to a
                           rejected one; copied */
    int64_t notice_bytes;
    const char *folder; /* of the run, copied; NULL: none */
    /* Whether the run has ended without this process, as the folder shows. Asked every 5 s by a
     * waiting thread of the rank, without locks, while too few others are heard. NULL: the mesh
     * itself writes that down, and reads it (wefti_ended_write). */
    bool (*has_ended)(void *user, uint64_t run, int64_t view);
    void *user;
    wefti_elastic_policy policy;
} wefti_elastic_setup;

/* The site of a place: a process that gets a place later belongs to the same site. Places
 * beyond those that the run began with are distributed over the sites in turn. */
static inline int wefti_elastic_site_of(const wefti_elastic_setup *s, int place) {
    int founders = s->sites * s->per_site;
    if (s->sites < 2) return 0;
    return place < founders ? place / s->per_site
                            : (place - founders) / s->shards % s->sites;
}

/* Whether the membership has room for the processes of the mesh; a lag of the status
 * reduces it. */
bool wefti_elastic_fits(const weft_mesh *mesh, const wefti_elastic_setup *setup);

#define WEFTI_ENDED_WITHOUT_IT "the run has ended without it, while it was not heard"
#define WEFTI_OTHERS_ENDED                                                               \
    "the run has ended without it: the others have made all their steps"

/* From now on the run continues without lost ranks. To be called after a barrier of all
 * ranks, before the first step. */
weft_status wefti_elastic_start(weft_ctx *ctx, weft_mesh *mesh,
                                const wefti_elastic_setup *setup) WEFT_CHECKED;
void wefti_elastic_destroy(weft_mesh *mesh);

/* The folder is not asked any more, for setup.user ends; a mesh without membership, or NULL, is
 * accepted. */
void wefti_elastic_ask_no_more(weft_mesh *mesh);

/* What this rank knows before its membership machine does. */
typedef enum wefti_elastic_fact {
    /* The last step is done, or all ranks have agreed to stop: processes that ask to join
     * from now on are turned away. */
    WEFTI_FACT_OVER,
    /* The others continue without this process, which has not been told yet: another one has
     * taken over what only one may do (writing the run folder), or a step begins that this one
     * lacks the state for. It may come back. */
    WEFTI_FACT_REPLACED,
    /* What this rank computed is wrong, and none of it was sent: the others continue without
     * this process, which may come back and take their parameters and state. If what all of
     * them computed is wrong, there is nothing to come back to. */
    WEFTI_FACT_WRONG
} wefti_elastic_fact;
void wefti_elastic_note(weft_mesh *mesh, wefti_elastic_fact fact);

/* This rank begins `step`, unless it belongs to a new world (*changed). Waits while that is
 * being decided. Without wefti_elastic_start nothing ever changes. */
weft_status wefti_elastic_begin(weft_ctx *ctx, weft_mesh *mesh, int64_t step,
                                bool *changed) WEFT_CHECKED;

/* This rank has finished the step: its result is applied. The status of all steps up to
 * `counted` has been read; nothing of these steps is needed any more. */
void wefti_elastic_finish(weft_mesh *mesh, int64_t step, int64_t counted);

/* Whether a wait between steps failed because the world has changed; if so, the failure is
 * forgotten. What is no failure of a wait (WEFT_ERR_PEER, WEFT_ERR_WIRE) stands: wrong numbers
 * or a file are no change of membership. */
bool wefti_elastic_interrupted(weft_ctx *ctx, weft_mesh *mesh, weft_status status);

/* Between steps: what follows needs all members (true), or no longer does (false). A member
 * that has said its farewell in the meantime is then treated as lost. */
void wefti_elastic_gather(weft_mesh *mesh, bool gathers);

/* To be called when the rank leaves its world before `step`. No rank will receive what its
 * mixer has sent ahead for exchanges of that step or later. Such messages are dropped
 * unless their sending has begun, so that the next world, in which the rank sends the same
 * to the new members, does not have to wait for the wire. */
void wefti_elastic_drop_ahead(weft_mesh *mesh, int64_t step);

/* Waits until this process, which joins a run, is a member; *step: the first step that it
 * takes part in. */
weft_status wefti_elastic_await_entry(weft_ctx *ctx, weft_mesh *mesh,
                                      int64_t *step) WEFT_CHECKED;

/* What a member sent about the values that must be equal in all processes, if this process
 * was rejected or has asked; NULL: nothing. Waits for it; borrowed. */
const void *wefti_elastic_await_notice(weft_mesh *mesh, int64_t *n);

/* Asks the members for that, in a process that joins and has not started yet. */
void wefti_elastic_ask_notice(weft_mesh *mesh);

/* The world that begins: this rank's number in it, and the number of ranks. Communicators
 * created from now on belong to it; those of the old world must be destroyed. [out] text:
 * the ranks lost since the last world, joined: those that joined, in words. */
typedef struct wefti_elastic_world {
    int64_t number, first_step;
    int rank, size, n_lost, n_joined;
    char text[512], joined[512];
} wefti_elastic_world;

void wefti_elastic_enter(weft_mesh *mesh, wefti_elastic_world *out);

/* When a world begins: the counts of this rank [WEFTI_FAULTY_MACHINES], for the others, and
 * those of another one. */
void wefti_elastic_tell_faults(weft_mesh *mesh, wefti_fault *out);
void wefti_elastic_learn_faults(weft_mesh *mesh, const wefti_fault *theirs);

/* Bytes per second of the slowest connection to another machine when the world's view was
 * installed; 0: not known. */
double wefti_elastic_rate(weft_mesh *mesh);

/* Whether two ranks of the current world run on one machine. */
bool wefti_elastic_same_host(const weft_mesh *mesh, int a, int b);

/* Its place in the mesh, and its name there: a process that gets the place later has
 * another name. */
void wefti_elastic_who(const weft_mesh *mesh, int rank, int *place, uint64_t *name);

/* The reason why the process at a place was lost, in words. */
void wefti_elastic_why(weft_mesh *mesh, int place, char *out, size_t size);

/* The messages that did not count for this rank since the last wefti_elastic_forget_missed.
 * [out] *out: [*n] owned by the caller (wefti_free); *n = -1 if there was no memory to note
 * all of them. */
weft_status wefti_elastic_missed(weft_ctx *ctx, weft_mesh *mesh, wefti_missed **out,
                                 int *n) WEFT_CHECKED;
void wefti_elastic_forget_missed(weft_mesh *mesh);

/* --- for the files of this folder --- */

/* Channels that no communicator uses. Channels of communicators contain the view's number
 * above WEFTI_VIEW_SHIFT. */
enum {
    WEFTI_WAY_BACK_BYTES = 1024,
    WEFTI_RETURNS = 1 << 20, /* in the tag of a failure, above all ranks */
    WEFTI_VIEW_SHIFT = 5,
    WEFTI_MAX_VIEWS = (1 << 25) - WEFTI_ROUNDS, /* 15 years of 250 changes an hour */
    WEFTI_CHANNEL_PART = 1 << 30,      /* + the lost rank: a part that was meant for it */
    WEFTI_NOTICE_MOST = 1 << 20,       /* bytes */
    WEFTI_CHANNEL_MISSED = 0x7ffffffb, /* what the sender has done without (wefti_news) */
    WEFTI_CHANNEL_NOTICE,              /* empty: asks what must be equal in all; else the
                                          answer */
    WEFTI_CHANNEL_RELAY, /* a lost rank's message, from a rank that has it */
    WEFTI_CHANNEL_ASK,   /* asks for such a message */
    WEFTI_CHANNEL_MEMBER /* between the membership machines */
};

/* The position of a message in the terms of the membership machine. */
typedef struct wefti_piece_place {
    int64_t step; /* the step that ends with it */
    int64_t sent; /* the step in which it was sent */
    int round, part;
} wefti_piece_place;

/* A part that was sent. Its memory is not reused until the step is over. */
typedef struct wefti_sent_part {
    struct wefti_sent_part *next;
    int peer, channel;
    int64_t tag, n_bytes;
    const void *data; /* the sender's */
    bool passed_on;
} wefti_sent_part;

/* The rates of the connections lately (elastic_rate.c). */
enum { WEFTI_RATES = 15 };
typedef struct wefti_elastic_rates {
    double Bps[WEFTI_RATES]; /* a ring */
    int64_t n;               /* samples so far */
    double looked_s;
} wefti_elastic_rates;

/* A message that this rank sent to another site on behalf of its own (elastic_sites.c). */
typedef struct wefti_site_message {
    struct wefti_site_message *next;
    int channel, peer; /* the other site, as a member of the group */
    int64_t tag, step, n_bytes, capacity;
    void *data; /* owned */
    int *
        ranks; /* [n_mine + n_theirs] owned: the mesh ranks of both sites in that world */
    int n_mine, n_theirs, max_ranks;
} wefti_site_message;

/* What a rank has done without, as it tells the others: if it is lost later they know. Sent as it
 * lies in memory. */
typedef struct wefti_news {
    wefti_missed missed;
    int64_t logged; /* its wefti_elastic.missed.logged */
    int64_t rank;   /* that did without */
    uint64_t name;  /* of the process there */
} wefti_news;

enum { WEFTI_MOST_NEWS = 1 << 20 };

typedef struct wefti_asker wefti_asker;

/* What membership knows of the process at one place for ranks. */
typedef struct wefti_elastic_place {
    /* the progress thread's */
    double closed_s;  /* when its connection ended; 0: it has not, < 0: reported */
    bool replaced_at; /* a joiner has found its port free */
    bool left_out;    /* the view is without it, and its end is not proven */
    int turn;         /* the port of its machine that is called next; 0: its own */
    double left_s;    /* when its farewell was noticed; 0: none yet */
    int64_t begun;    /* step of the last piece reported to the machine */
    double told_s;    /* time of that report */
    double given_s;   /* when the place was promised to a caller; 0: never */
    bool spoke;       /* its machine has sent a message: it accepts connections */

    /* lock */
    wefti_node_id id;            /* current or last process; 0: none yet */
    bool departed, was_departed; /* not in the view; not in the one before */
    bool fresh;                  /* connected, but not in any view here yet */
    bool ended;                  /* its connection has ended */
    bool was_wrong;              /* it reported that what it computed is wrong */
    int64_t taken;               /* last step of which this rank took a part for itself */
    int cut_of;                  /* row of holders; -1: none */
    uint64_t was;                /* its incarnation in the current world; 0: none */
    int returns;      /* what it said when it failed: 1: it comes back, -1: it does not */
    char reason[200]; /* what it reported about its failure */
} wefti_elastic_place;

typedef struct wefti_elastic {
    wefti_elastic_setup setup;
    wefti_member_limits limits;
    int size;
    wefti_elastic_place *at; /* [size] */

    /* The progress thread's: the membership machine, and what is known of it. */
    struct {
        /* Reports an event to the machine and carries out what follows (elastic.c). */
        void (*feed)(weft_mesh *mesh, const wefti_member_event *event);
        wefti_member *member;
        int64_t wake_us;
        uint64_t random;
        bool has_frozen;
        bool must_meet; /* a joiner has not reported its connections to the machine yet */
        wefti_ballot ballot;           /* the ballot whose inventory is due */
        bool is_over;                  /* somebody has said that the run has ended */
        bool was_paused;               /* lock to write: at the last look */
        wefti_member_state told_state; /* what wefti_elastic_tell_vitals last said */
        double patience_s;             /* the value last given to the machine; 0: none */
        double looked_s; /* when processes on their way in were last looked after */
    } machine;
    uint64_t given_to; /* lock: who was promised a place last, here */
    int lender;        /* lock to write: it lives, and its vote is this one's; -1: none */
    wefti_elastic_rates rates; /* the progress thread's */
    void *notice; /* [setup.notice_bytes] owned; not changed after the start */

    /* The progress thread's: the vote of a witness (elastic_witness.c). */
    struct {
        wefti_asker *asker; /* owned; NULL: there is no witness */
        int answer;         /* the last one (witness.h); -1: it was not asked */
    } witness;

    /* The progress thread's: room for what is here of departing ranks (elastic.c). */
    struct {
        wefti_inventory_entry *entries;
        unsigned char *held; /* [max_entries][rounds x row bytes] */
        unsigned char *work; /* [size] */
    } inventory;

    /* Lock: the steps of this rank, as reported (elastic_steps.c), and their pace. */
    struct {
        wefti_member_steps steps;
        bool has_nothing; /* a joiner that has not begun its first step */
        bool in_step;
        double step_s; /* a long one of the last steps; 0: not enough steps yet */
        int64_t n_steps;
        bool gathers; /* the rank's thread waits for all members between steps */
    } own;

    /* Lock: a copy of the machine's view for the ranks' threads. Only the progress thread writes
     * it, when a view is installed. */
    struct {
        int64_t number, first_step;
        bool frozen;     /* the next one is being decided */
        double rate_Bps; /* of the slowest connection to another machine; 0: not known */
        int *order;      /* [n_order] the view's members, in its order */
        int n_order;
        int64_t cut_low;
        int cut_steps;
        int32_t *holders; /* [max departed][window][rounds][parts] ranks; -1: none */
    } view;

    /* Lock: messages that another rank may still ask for, and those whose fate is open. */
    struct {
        wefti_arrival *kept;
        wefti_arrival
            *parked; /* pieces, and messages of ranks that the ballot removes, while
                                  frozen; and those of ranks that are not members here yet */
        int64_t stable;
        wefti_sent_part *parts, *spare_parts;
        wefti_site_message *sent_between, *spare_sent_between;
    } pieces;
    wefti_fault faults[WEFTI_FAULTY_MACHINES]; /* lock (elastic_faults.c) */

    /* Lock: what has become of this process, and whether it comes back. */
    struct {
        bool replaced; /* another process took over what only one may do (see above), */
        bool wrong;    /* or what this rank computed is wrong */
        bool refused;  /* this process may not join */
        bool may_be_over; /* a joiner: somebody to whom it was connected has left */
        bool lost_member; /* a joiner: its connection to a member has ended */
        bool is_out;      /* the machine has ended */
        bool stays;       /* this process does not come back, though it had said so */
        char way_back[WEFTI_WAY_BACK_BYTES]; /* where the others listen, if they continued
                                                without this process; "": they did not */
    } fate;

    /* Lock: whether the run has ended, or ended without this process (elastic_policy.c). */
    struct {
        bool over;         /* the run is about to end: no process may join any more */
        char *folder;      /* owned: setup.folder */
        bool asks;         /* it may be asked whether the run has ended, */
        double ask_s;      /* when it is asked next; 0: not now */
        bool has_ended;    /* it says so */
        double over_s;     /* when a guard said so; 0: none has */
        bool asked_since;  /* and has been asked since then */
        bool others_ended; /* all others have ended their loops, and one was missed */
    } end;

    /* Lock: messages that did not count for this rank (elastic_missed.c). */
    struct {
        wefti_missed *list; /* [n] */
        int64_t n, room;
        bool forgot;      /* there was no memory to note one of them */
        int64_t logged;   /* view of the world whose first step forgot them last */
        wefti_news *news; /* [n_news] what others have to know of that, */
        int64_t n_news, news_room, first; /* first: its number since the start */
        wefti_news *heard;                /* [n_heard] what others have said */
        int64_t n_heard, heard_room;
    } missed;

    /* Lock to write: the world in which the rank is. Only the rank's thread writes it
     * (elastic_worlds.c), and reads it without the lock. */
    struct {
        int64_t entered; /* its view */
        double begun_s;  /* when the rank began its step */
        int *ranks;      /* [n_ranks] mesh ranks */
        int n_ranks, me;
    } world;
} wefti_elastic;

/* --- elastic.c: the progress thread --- */

/* Updates the time, the steps, and connections that have ended; returns the seconds until
 * the next call is due. */
double wefti_elastic_pump(weft_mesh *mesh);

/* --- elastic_deaths.c: the progress thread --- */

/* Tells who inquires, now or after this process has ended, how it stands. */
void wefti_elastic_tell_vitals(weft_mesh *mesh);

/* The run is over. A process that was left out and lives may ask, or look into the folder, and
 * would wait. After the progress thread has ended. */
void wefti_elastic_tell_over(weft_mesh *mesh);

/* Whether all other members have ended their loops, and this rank has missed one of them. */
bool wefti_elastic_others_ended(weft_mesh *mesh);

/* Looks after ranks whose connection has ended; returns the seconds until the next call. */
double wefti_elastic_watch_deaths(weft_mesh *mesh, double now_s);

/* Whose vote this process has, while that one lives; -1: nobody's. No step begins so long. */
void wefti_elastic_set_lender(weft_mesh *mesh, int rank);

/* A process that asks to join has found this rank's port free on its machine. */
void wefti_elastic_hear_replaced(weft_mesh *mesh, int rank);

/* A rank's connection has ended. */
void wefti_elastic_lose(weft_mesh *mesh, int rank);

/* This rank has failed and leaves, so the others do not have to detect it. */
void wefti_elastic_leave(weft_mesh *mesh);

/* A process with this name has connected at a place that was empty. */
void wefti_elastic_greet(weft_mesh *mesh, int rank, uint64_t incarnation);

/* --- elastic_notice.c: the progress thread --- */

/* Before the start: copies what is sent to a process that asks. */
weft_status wefti_elastic_keep_notice(weft_ctx *ctx, wefti_elastic *e) WEFT_CHECKED;

/* This process was rejected and asks for the reason. False: no member would answer. */
bool wefti_elastic_ask_why(weft_mesh *mesh);
void wefti_elastic_take_notice(weft_mesh *mesh, const wefti_arrival *arrival);

/* --- elastic_rate.c: the progress thread --- */

/* The first takes a sample if one is due. The second: bytes per second, 0 until something
 * was measured. */
void wefti_elastic_watch_rate(wefti_elastic_rates *rates, const weft_mesh *mesh,
                              double now_s);
double wefti_elastic_usual_rate(const wefti_elastic_rates *rates);

/* --- elastic_witness.c: the progress thread, except at the start and the end --- */

/* Finds the address of the witness, if there is one, and checks whether it answers. */
weft_status wefti_elastic_know_witness(weft_ctx *ctx, weft_mesh *mesh,
                                       wefti_elastic *e) WEFT_CHECKED;

/* Ends the thread that asks the witness, in at most two seconds; to be called before the
 * transport ends. */
void wefti_elastic_leave_witness(weft_mesh *mesh);

/* Asks for a vote, unless a request is already pending. */
void wefti_elastic_ask_witness(weft_mesh *mesh, const wefti_vote *vote);

/* Passes an answer that has arrived to the machine, by `feed`. */
void wefti_elastic_hear_witness(weft_mesh *mesh,
                                void (*feed)(weft_mesh *, const wefti_member_event *));

/* The witness's last answer, as the end of a sentence about too few processes; "": there is
 * none. */
const char *wefti_elastic_witness_text(const wefti_elastic *e, wefti_member_out out);

/* --- elastic_return.c: the progress thread --- */

/* Ranks of one copy end together once they are members: a rank has ended. */
void wefti_elastic_check_copy(weft_mesh *mesh, int rank);

/* The text of a process that the others have continued without. */
#define WEFTI_LEFT_BEHIND                                                                \
    "the others could not hear it, or waited for it in vain, and went on without it"

/* A rank has reported that it failed. */
void wefti_elastic_hear_failure(weft_mesh *mesh, int sender,
                                const wefti_envelope *envelope, const char *text);

/* This process has failed: whether it comes back if all ranks of its copy do. */
bool wefti_elastic_returns(weft_mesh *mesh);

/* Before the farewell: whether it said so, and does not. */
bool wefti_elastic_stays(weft_mesh *mesh);

/* The machine has ended: notes whether this process may join again, and where. */
void wefti_elastic_note_way_back(weft_mesh *mesh, wefti_member_out out);

/* The same, and this process fails with a sentence. */
void wefti_elastic_note_out(weft_mesh *mesh, wefti_member_out out);

/* <folder>/ended-RUN: this start of the run has ended in order, with the members of a view. The
 * last of them write it, all of them the same; by the thread that closes the mesh. */
weft_status wefti_ended_write(weft_ctx *ctx, const char *folder, uint64_t run,
                              int64_t view) WEFT_CHECKED;

/* Whether it is there, of a later view; without locks, by a thread of the rank. A folder that can
 * not be read shows nothing. */
bool wefti_ended_after(const char *folder, uint64_t run, int64_t view);

/* An incoming message is complete. Returns true if it is not for the ranks' threads, or not
 * yet. */
bool wefti_elastic_takes(weft_mesh *mesh, wefti_arrival *arrival);

/* --- elastic_pieces.c: messages of lost senders; lock held --- */

bool wefti_piece_of(const wefti_elastic *e, int channel, int64_t tag,
                    wefti_piece_place *out);

/* Drops what wefti_elastic_drop_ahead has asked for. Called by the progress thread, lock
 * not held. */
void wefti_elastic_drop_moot(weft_mesh *mesh, int64_t step);

/* Finds a message that is here, whether taken or not. */
wefti_arrival *wefti_elastic_find(weft_mesh *mesh, int sender, int channel, int64_t tag);

/* What happens to a lost rank's message: returns the rank that has it, or -1. */
int wefti_elastic_holder(const wefti_elastic *e, int sender, int channel, int64_t tag);

/* Keeps a released message if another rank may still ask for it. */
bool wefti_elastic_keep(weft_mesh *mesh, wefti_arrival *arrival);
void wefti_elastic_forget(weft_mesh *mesh, int64_t stable);

/* Sends the part that was meant for a lost rank to all remaining ranks. */
void wefti_elastic_pass_on(weft_mesh *mesh, wefti_sent_part *part);

/* Sends a copy of any bytes, in a channel. */
void wefti_elastic_submit(weft_mesh *mesh, int peer, int channel, int64_t tag,
                          const void *data, int64_t n_bytes);

/* The same, outside of all communicators. Takes the lock. */
void wefti_elastic_post(weft_mesh *mesh, int peer, int channel, int64_t tag,
                        const void *data, int64_t n_bytes);

/* --- elastic_sites.c: copies, and a site's messages to other sites; lock held --- */

/* Whether all ranks of the copy of `rank` are there. A copy that has lost a rank can not
 * continue: its other ranks end. */
bool wefti_elastic_is_whole(const wefti_elastic *e, int rank);

/* Keeps what this rank sends to a member of the group between sites, until all have it. Of
 * `what`, the fields channel, peer, tag and n_bytes are read. The data is copied. */
weft_status wefti_elastic_keep_sent(weft_mesh *mesh, const wefti_members *m,
                                    const wefti_site_message *what,
                                    const void *data) WEFT_CHECKED;
void wefti_elastic_forget_sent(weft_mesh *mesh, int64_t stable); /* takes the lock */
void wefti_elastic_free_sent(weft_ctx *ctx, wefti_elastic *e);

/* Number k (0, 1, ...) of the ranks of member `peer` that this rank sends to on behalf of
 * its site, as a mesh rank; -1: there are no more. */
int wefti_elastic_hearer(const wefti_elastic *e, const wefti_members *m, int peer, int k);

/* Number k of the ranks that may send to this rank on behalf of a member, as a mesh rank;
 * -1: no more. */
int wefti_elastic_speaker(const wefti_elastic *e, const wefti_members *m, int peer,
                          int k);

/* Whether all ranks of a member are lost. */
bool wefti_elastic_lost_site(const wefti_elastic *e, const wefti_members *m, int peer);

/* After a view was installed: sends again to ranks of other sites whose sender was lost
 * with that view what this rank has sent to its site. */
void wefti_elastic_say_again(weft_mesh *mesh);

/* Whether a message of another site has already arrived from another of its ranks. */
bool wefti_elastic_heard(weft_mesh *mesh, const wefti_arrival *arrival);

/* Whether the members of a channel's group are sites with several ranks. Then another rank
 * of the site replaces a lost one, and no answer is computed again. */
bool wefti_elastic_has_mates(const wefti_elastic *e, int channel);

/* Whether a message between sites is the same for all ranks of the receiving site. */
bool wefti_elastic_is_alike(const wefti_elastic *e, int channel, int64_t tag);

/* A site that has lost all its ranks, if that ends the run; -1: none. */
int wefti_elastic_lost_whole(const wefti_elastic *e);

/* --- elastic_policy.c: what the user configures --- */

wefti_member_policy wefti_elastic_member_policy(const wefti_elastic_setup *setup);

/* How long to wait for other ranks, in seconds; 0: without limit. Lock held. */
double wefti_elastic_patience(const wefti_elastic *e);

/* Before a wait of a rank's thread, lock held: asks whether the run has ended, if that is due.
 * False: the lock was given up for it; else *until_s is when it will be. */
bool wefti_elastic_may_wait(weft_mesh *mesh, double *until_s);

/* Records how long a step took this rank. Lock held. */
void wefti_elastic_learn_step(wefti_elastic *e, double step_s);

/* --- elastic_steps.c: the steps that this rank reports; lock held --- */

/* It has come to these steps, each of which may be lower than what it has reported. */
void wefti_elastic_reach(wefti_elastic *e, wefti_member_steps to);

/* It begins a step of its world. */
void wefti_elastic_reach_begin(wefti_elastic *e, int64_t step);

/* It has sent what it computed in a step, if the message (channel, tag) is the last one of
 * that. */
void wefti_elastic_note_sent(weft_mesh *mesh, int channel, int64_t tag);

/* --- elastic_faults.c: machines that compute wrongly; lock held --- */

/* A rank has reported that what it computed is wrong, unless another rank of its copy had.
 * Returns whether its machine is not taken in again. */
bool wefti_elastic_count_fault(weft_mesh *mesh, int rank);

/* Whether no process of the caller's machine is taken in. */
bool wefti_elastic_shuns(const wefti_elastic *e, const weft_transport_found *found);

/* --- elastic_missed.c: what did not count; lock held --- */

/* Whether a message is an owner's answer, which is computed again if it is lost. */
bool wefti_elastic_is_answer(int channel, int64_t tag);
void wefti_elastic_miss(weft_mesh *mesh, const wefti_missed *missed);

/* The answer to which these parts belong (tag, channel, receiver) is final, or is
 * discarded. */
void wefti_elastic_settle(weft_mesh *mesh, const wefti_missed *answer, bool stands);

/* How many of the news the receiver of a message that is submitted now on this channel has to know
 * before it: all of them if the message may count. */
int64_t wefti_elastic_news(const wefti_elastic *e, int channel);

/* A message of a lost rank is passed on: what that rank has said belongs to the news. */
void wefti_elastic_pass_news(weft_mesh *mesh, int sender);

/* These take the lock. Copies news from number `from` on, below `until`, as many as a SHORT
 * message has room for. Returns the number of the next one. */
int64_t wefti_elastic_copy_news(weft_mesh *mesh, int64_t from, int64_t until, void *out,
                                int64_t *n_bytes);
void wefti_elastic_hear_missed(weft_mesh *mesh, const wefti_arrival *arrival);

/* --- farewells --- */

/* How long a wait for a message continues after its sender has said farewell, when no
 * message of the sender is still on its way. If a loss ends the run, the wait ends at once.
 * If the others continue, a member that fails says its farewell and leaves; the others
 * receive it at different times and agree on a view without this member, and only that view
 * decides which of its messages count:
 *
 *     wait --- farewell heard ----- view without it          ends: the member is lost
 *     wait --- farewell heard ----- message comes            ends: with the message
 *     wait --- farewell heard ----- nothing, and all are     ends: it has left
 *                                   heard, for that long
 *
 * If the farewell came before the wait began, the time counts from the beginning of the
 * wait. No view can come where too few are heard, which is noticed after at most 10 silence_s
 * (member/watch.c): while it is so the time does not count. Ballots take well under a second, so
 * the last row is a fault of the membership, or of a loop that ends earlier than another one. */
static inline double wefti_farewell_patience_s(const wefti_elastic *e) {
    return 10 + 10 * e->setup.policy.silence_s;
}

/* `farewell`: the sender has said it, and all its messages are here. `e`: NULL where the others do
 * not continue without the sender. *until_s: 0 when the wait begins; afterwards the end of the
 * patience. Lock of the mesh held. */
static inline bool wefti_farewell_ends_wait(bool farewell, const wefti_elastic *e,
                                            double now_s, double *until_s) {
    if (!farewell || !e) return farewell;
    if (*until_s == 0 || e->machine.was_paused)
        *until_s = now_s + wefti_farewell_patience_s(e);
    return now_s >= *until_s;
}
