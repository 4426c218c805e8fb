/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/mesh.h>

#include "comm/envelope.h"
#include "comm/world.h"

/* The inside of a weft_mesh. Two kinds of threads meet here: those of the rank, which
 * send and receive (remote.c), and the progress thread, the only one that touches the
 * transport (progress.c, incoming.c, liveness.c). What is marked "lock" is guarded by
 * mesh->lock; all else belongs to the progress thread, or does not change after the mesh
 * was made. */

/* Seconds that others are waited for after a failure. */
#define WEFTI_FAREWELL_S 10.0

/* An outgoing message. */
typedef struct wefti_parcel {
    struct wefti_parcel *next;      /* in whichever queue it is */
    struct wefti_parcel *next_all;  /* lock: among all of the mesh */
    struct wefti_parcel *next_sent; /* lock: among those of the rank that are not done */
    int peer;                       /* rank */
    wefti_envelope envelope;
    const void *data;  /* LONG: the sender's */
    int64_t n_started; /* of them, bytes handed to the transport */
    int n_flying;      /* pieces that the transport has not finished */
    int64_t number;    /* in the order in which they were sent */
    bool opened;       /* the envelope is on its way */
    void *own;         /* owned: what data points to, or NULL */
    unsigned char bytes[WEFTI_ENVELOPE_BYTES + WEFTI_SHORT_BYTES]; /* and a SHORT's own */
} wefti_parcel;

/* An incoming message. */
typedef struct wefti_arrival {
    struct wefti_arrival *next;     /* lock */
    struct wefti_arrival *next_all; /* lock: among all of the mesh */
    int sender;                     /* rank */
    int channel;
    int64_t tag, n_bytes;
    int64_t n_announced; /* bytes that receives were started for */
    int64_t n_landed;
    int64_t capacity; /* of data; grows with what comes, not with what was announced */
    void *data;
    double arrival_s;
    bool taken; /* lock */
    bool mine;  /* lock: for this rank alone (WEFTI_PIECE_OWN) */
} wefti_arrival;

typedef struct wefti_parcels {
    wefti_parcel *first, *last;
} wefti_parcels;

/* What the progress thread knows of another rank. */
typedef struct wefti_peer {
    wefti_parcels quick, bulk; /* whole in one piece; the others, one after the other */
    wefti_envelope last_long;  /* of the last long message that has left, or has begun to */
    int n_flying;              /* pieces that the transport has not finished */
    double moved_s;            /* when it last finished one, or began after a pause */
    wefti_arrival *open;       /* a LONG whose pieces are still coming */
    unsigned char *landing;    /* room for one message with an envelope */
    bool half;                 /* that message is still coming, */
    double half_s;             /* since then */
    int n_coming;              /* receives that the transport has not finished */
    double heard_s;            /* when its last message came */
    double gap_s;              /* the longest time between two of the last ones */
    int64_t step;              /* where it was, by its last sign of life; -1: not said */
    char at[64];               /* the same in words */
    int64_t process; /* number of its process, if it can be looked up here; else 0 */
    bool greeted, left, here;
    bool
        lost; /* nobody is there: its connection has ended, and the others go on without it,
                  or nobody has come yet */
    bool gone; /* lock: it has left, and all that it sent is here */
} wefti_peer;

/* Something that the transport is at. */
typedef struct wefti_request {
    void *request;
    wefti_parcel *parcel;   /* going out, or NULL */
    wefti_arrival *arrival; /* a piece coming in; both NULL: a message with an envelope */
    int peer, n_bytes;
} wefti_request;

/* A message that the transport has found. */
typedef struct wefti_found {
    weft_transport_found what;
    void *message;
} wefti_found;

struct weft_mesh {
    wefti_world world; /* first: the engine's; its shape is set by wefti_mesh_shape */
    weft_ctx *ctx;     /* owned */
    weft_transport *transport; /* owned */
    int rank;                  /* == world.first_here */
    int n_slots;            /* places for ranks; world.size of them are taken at first */
    int *peer_of, *rank_of; /* rank -> the transport's number, and back */
    int hosts, ranks_here;
    bool even;
    int64_t process; /* that joined: its forks have no part in the mesh */

    pthread_t progress_thread;
    bool has_progress;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for the rank's threads */
    pthread_cond_t wake;    /* for the progress thread, where its transport can not */
    bool resting;           /* lock: the progress thread sleeps, or is about to */

    /* lock */
    wefti_parcels submitted;
    wefti_parcel *sent, *spare_parcels, *all_parcels;
    wefti_arrival *posted, *spare_arrivals, *all_arrivals;
    wefti_traffic traffic;
    bool closing;     /* BYE is to be sent; the thread ends when all have said it */
    bool taking_back; /* after a failure: nothing reads the senders' memory any more */
    int64_t moot_from; /* what is for exchanges from this step on need not leave; -1: all must */

    _Atomic double silence_s;  /* until a rank that says nothing is given up; 0 = never */
    _Atomic double close_by_s; /* after a failure nobody is waited for beyond it */
    bool all_left;             /* read after the progress thread has ended */

    /* where this rank is: read by the progress thread */
    _Atomic int64_t step;
    const char *_Atomic at;
    bool (*_Atomic asked)(void *user); /* whether somebody wants this process to end */
    void *asked_user;

    struct wefti_elastic *_Atomic elastic; /* owned; NULL: a lost rank ends the run */
    wefti_peer *peers;                     /* [size] */
    wefti_request *flights;
    int n_flights, max_flights;
    unsigned char *landing;            /* [size] that of the peers */
    wefti_found held;                  /* waits for an earlier one of the same rank */
    int64_t n_collected;               /* messages taken from the rank's threads */
    double byte_s;                     /* that a byte to another machine takes */
    double moved_s, watched_s, beat_s; /* when something last moved; the other two when */
    bool reported;                     /* the failure was passed on */
    bool broken;                       /* the transport failed */
    int n_busy;                        /* passes since the transport was last asked */
    bool took_back;                    /* what taking_back asks for */
    bool said_bye;
    double said_bye_s;
};

/* The mesh as the world of a run: R x S ranks, of which this process has one. Further
 * calls change the shape; communicators keep theirs. Not collective. [out] *out lives as
 * long as the mesh; wefti_world_destroy leaves it alone. */
weft_status wefti_mesh_shape(weft_ctx *ctx, weft_mesh *mesh,
                             const wefti_world_shape *shape,
                             wefti_world **out) WEFT_CHECKED;

/* A rank that says nothing for so long is given up; 0 = never. `asked` (may be NULL) is
 * called by the progress thread: once it returns true, a few missed signs of life are enough. */
void wefti_mesh_watch(weft_mesh *mesh, double silence_s, bool (*asked)(void *user),
                      void *user);

/* The mesh of a world, or NULL if its ranks are threads. */
weft_mesh *wefti_mesh_of(wefti_world *world);

/* An error in a fork of the process that `process` numbers (getpid); `what` it came with. */
weft_status wefti_process_check(weft_ctx *ctx, int64_t process,
                                const char *what) WEFT_CHECKED;

/* The first failure of any rank as that of the whole world, threads or a mesh; WEFT_OK if
 * there is none. */
weft_status wefti_mesh_verdict(weft_ctx *ctx, wefti_world *world) WEFT_CHECKED;

/* Lock held: until something changes, or the time has come. */
void wefti_mesh_wait(weft_mesh *mesh, double until_s);

/* Waits until nothing reads the memory of those who send: after a failure it is taken
 * back. */
void wefti_mesh_settle(weft_mesh *mesh);

/* --- progress.c --- */

weft_status wefti_progress_start(weft_mesh *mesh) WEFT_CHECKED;

/* --- places.c --- */

/* What the two ends of a connection must have in common. */
const char *wefti_mesh_greeting(void);

/* Fills in rank_of, peer_of, hosts and which peers are here, and whose places are empty. */
void wefti_mesh_number_ranks(weft_mesh *mesh);

/* --- outbox.c --- */

/* First in, first out. Lock held where the queue is shared. */
void wefti_parcels_push(wefti_parcels *queue, wefti_parcel *parcel);
wefti_parcel *wefti_parcels_pop(wefti_parcels *queue);

/* Ends the progress thread's sleep. Lock held. */
void wefti_outbox_wake(weft_mesh *mesh);

/* Hands a parcel over. */
void wefti_outbox_submit(weft_mesh *mesh, wefti_parcel *parcel);

/* A parcel, filled in but not submitted; NULL: no memory. */
wefti_parcel *wefti_outbox_parcel(weft_mesh *mesh, int peer,
                                  const wefti_envelope *envelope, const void *data);

/* Fills in a parcel that was not used before. */
void wefti_outbox_fill(wefti_parcel *parcel, int peer, const wefti_envelope *envelope,
                       const void *data);

/* Makes a spare parcel. */
weft_status wefti_outbox_reserve(weft_mesh *mesh) WEFT_CHECKED;

/* A message of the progress thread's own. */
void wefti_outbox_post(weft_mesh *mesh, int peer, const wefti_envelope *envelope,
                       const char *text);

/* Takes a request among those that are looked after; false: no memory, all is lost. */
bool wefti_outbox_add(weft_mesh *mesh, const wefti_request *flight);

/* Nothing more comes of this rank: what has begun to come never ends. */
void wefti_outbox_forget(weft_mesh *mesh, int rank);

/* A message has left, or will not: its parcel is free. The progress thread's, like the next two. */
void wefti_outbox_finish(weft_mesh *mesh, wefti_parcel *parcel);

/* No more of a long message is begun. */
void wefti_outbox_drop(weft_mesh *mesh, wefti_parcel *parcel);

/* Nobody waits any more for what is on its way to a rank, and its memory is free: the rank is
 * gone on without, and may be connected still, but take in nothing. */
void wefti_outbox_let_go(weft_mesh *mesh, int rank);

/* Says to a rank what program this is. */
void wefti_outbox_greet(weft_mesh *mesh, int rank);

/* A rank has failed, by these words; the transport, by its own. */
void wefti_mesh_blame(weft_mesh *mesh, int rank, const char *format, ...)
    WEFT_PRINTF(3, 4);
void wefti_mesh_break(weft_mesh *mesh);

/* --- incoming.c --- */

/* Takes in what the transport has found; whether there was something. */
bool wefti_incoming_pick_up(weft_mesh *mesh);

/* Room for a message of n bytes, as far as it is believed; NULL: no memory. */
wefti_arrival *wefti_incoming_room(weft_mesh *mesh, int64_t n_bytes);

/* A receive has ended. */
void wefti_incoming_finish(weft_mesh *mesh, const wefti_request *flight);

/* --- reception.c --- */

/* Answers somebody who wants to take part (transport.h). */
void wefti_reception_answer(weft_mesh *mesh, const weft_transport_found *found);

/* --- liveness.c --- */

/* Signs of life: says its own, misses those of others. Seconds until it is due again. */
double wefti_liveness_watch(weft_mesh *mesh);

/* Something came from this rank. */
void wefti_liveness_heard(wefti_peer *peer);

/* Its connection has ended. */
void wefti_liveness_lose(weft_mesh *mesh, int rank);

/* --- remote.c --- */

extern const wefti_world_ops wefti_remote_ops;
