/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/mesh.h>

#include "base/lock.h"
#include "comm/envelope.h"
#include "comm/world.h"

/* The inside of a weft_mesh. Two kinds of threads meet here: those of the rank, which send
 * and receive (remote.c), and the progress thread, the only one that uses the transport
 * (progress.c, incoming.c, liveness.c). Fields marked "lock" are guarded by mesh->lock; all
 * others belong to the progress thread, or do not change once the mesh exists. */

/* How long to wait for other ranks after a failure, in seconds. */
#define WEFTI_FAREWELL_S 10.0

/* An outgoing message. */
typedef struct wefti_parcel {
    struct wefti_parcel *next;      /* in its present queue */
    struct wefti_parcel *next_all;  /* lock: in the list of all parcels */
    struct wefti_parcel *next_sent; /* lock: in the list of the rank's unfinished ones */
    int peer;                       /* rank */
    wefti_envelope envelope;
    const void *data;  /* LONG: the sender's */
    int64_t n_started; /* bytes of data handed to the transport */
    int n_flying;      /* pieces that the transport has not finished */
    int64_t number;    /* in the order in which they were sent */
    int64_t n_news;    /* its receiver has to know so many of wefti_elastic_news first */
    bool opened;       /* the envelope was handed to the transport */
    void *own;         /* owned: what data points to, or NULL */
    unsigned char
        bytes[WEFTI_ENVELOPE_BYTES + WEFTI_SHORT_BYTES]; /* and a SHORT's data */
} wefti_parcel;

/* An incoming message. */
typedef struct wefti_arrival {
    struct wefti_arrival *next;     /* lock */
    struct wefti_arrival *next_all; /* lock: in the list of all arrivals */
    int sender;                     /* rank */
    int channel;
    int64_t tag, n_bytes;
    int64_t n_announced; /* bytes that receives were started for */
    int64_t n_landed;
    int64_t capacity; /* of data; grows with the bytes that arrive */
    void *data;
    double arrival_s;
    bool taken; /* lock */
    bool mine;  /* lock: for this rank alone (WEFTI_PIECE_OWN) */
} wefti_arrival;

typedef struct wefti_parcels {
    wefti_parcel *first, *last;
} wefti_parcels;

/* A message that the transport has found. */
typedef struct wefti_found {
    weft_transport_found what;
    void *message;
} wefti_found;

/* What the progress thread knows of another rank. */
typedef struct wefti_peer {
    wefti_parcels quick, bulk; /* messages of one piece; long messages, one after
                                  another */
    wefti_envelope last_long;  /* of the last long message that was sent, or begun */
    int n_flying;              /* pieces that the transport has not finished */
    double moved_s;            /* when a piece last finished, or began after a pause */
    wefti_arrival *open;       /* a LONG whose pieces are still arriving */
    unsigned char *landing;    /* room for one message with an envelope */
    bool half;                 /* that message is still arriving, */
    double half_s;             /* since then */
    int n_coming;              /* receives that the transport has not finished */
    double heard_s;            /* when its last message arrived */
    double gap_s;              /* the longest recent time between two messages */
    int64_t step;              /* its step, by its last sign of life; -1: unknown */
    char at[64];               /* its position in the step, in words */
    int64_t process; /* number of its process, if it can be looked up here; else 0 */
    bool greeted, left, here;
    bool lost; /* the place is empty: its connection has ended and the others continue
                 without it, or no process has taken the place yet */
    bool gone; /* lock: it has left, and all its messages are here */
    wefti_found held; /* waits for an earlier message, while others' are received */
    int64_t n_news;   /* of wefti_elastic_news: how many it was sent */
} wefti_peer;

/* An operation that the transport has not finished. */
typedef struct wefti_request {
    void *request;
    wefti_parcel *parcel;   /* going out, or NULL */
    wefti_arrival *arrival; /* a piece coming in; both NULL: a message with an envelope */
    int peer, n_bytes;
} wefti_request;

/* The wait of a thread of the rank: {0} before it. */
typedef struct wefti_wait {
    double since_s;
} wefti_wait;

/* What is said of waits: of one at a time, which is the first. */
typedef struct wefti_waits {
    const wefti_wait *first; /* lock: NULL: nobody waits */
    double told_s;           /* lock: how long it had lasted when it was told last */
    double longest_s;        /* lock: the longest one that ended by itself */
    char why[1024];          /* lock: to be said by who waits; "": nothing */
    _Atomic double since_s;  /* of the first; 0: nobody waits */
    _Atomic int rank;        /* whom it waits for; -1: all members */
    double look_s;           /* when the progress thread looks again */
} wefti_waits;

/* Exchanges on a mesh before their channels are used again. */
enum { WEFTI_ROUNDS = 64 };

struct weft_mesh {
    wefti_world world;         /* first member; its shape is set by wefti_mesh_shape */
    weft_ctx *ctx;             /* owned */
    weft_transport *transport; /* owned; its ops and entry are now these: */
    weft_transport_ops ops;
    weft_transport_entry entry;
    int rank;        /* == world.first_here */
    int64_t process; /* that created the mesh: its forks can not use it */

    /* Which rank runs where (places.c); not changed once the mesh exists. */
    struct {
        int n_slots;            /* for ranks; world.size of them are taken at first */
        int *peer_of, *rank_of; /* rank -> the transport's number, and back */
        int hosts, ranks_here;
        bool even;
    } places;
    weft_mesh_facts facts; /* that weft_mesh_look returned last: the caller's thread */

    /* Exchanges (successors.c): the rank's thread that joins communicators; open: lock. */
    struct {
        int n, world; /* that of communicators that are joined now */
        bool open[WEFTI_ROUNDS];
    } rounds;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* for the rank's threads */

    /* The progress thread. Lock, but for what does not change while it runs. */
    struct {
        pthread_t id, self; /* for who joins it; set by itself, before `works` */
        bool runs;
        _Atomic bool works;
        pthread_cond_t wake; /* if its transport has no wait */
        bool resting;        /* it sleeps, or is about to */
    } thread;

    /* Lock: what the rank's threads have given to the progress thread. */
    struct {
        wefti_parcels submitted;
        wefti_parcel *sent, *spare, *all;
    } outgoing;

    /* Lock: what the progress thread has for the rank's threads. */
    struct {
        wefti_arrival *posted, *spare, *all;
    } incoming;
    wefti_traffic traffic; /* lock */

    /* Lock: what the rank's threads ask of the progress thread. */
    struct {
        bool closing;      /* send BYE; the thread ends when all have sent it */
        bool taking_back;  /* after a failure: stop reading the senders' memory */
        int64_t moot_from; /* drop messages for exchanges from this step on; -1: none */
    } orders;

    _Atomic double silence_s;  /* until a silent rank is given up; 0 = never */
    _Atomic double close_by_s; /* after a failure, waits end at this time */

    /* the position of this rank: read by the progress thread */
    _Atomic int64_t step;
    const char *_Atomic at;
    struct {
        bool (*_Atomic call)(void *user); /* whether this process was asked to end */
        void *user;                       /* written before */
    } asked;

    wefti_waits waits;

    /* Lock: what must be equal in all processes. */
    struct {
        bool asks;  /* this one wants to know */
        void *data; /* [n_bytes] owned: what a member has answered, or NULL */
        int64_t n_bytes;
    } notice;

    struct wefti_elastic *_Atomic elastic; /* owned; NULL: a lost rank ends the run */
    wefti_peer *peers;                     /* [size] the progress thread's */

    /* The progress thread's: what is on its way. */
    struct {
        wefti_request *flights;
        int n_flights, max_flights;
        unsigned char *landing; /* [size] the peers' landing buffers */
        wefti_found held;       /* waits for an earlier message of its rank */
        int n_held;             /* of peers */
        int64_t n_collected;    /* messages taken from the rank's threads */
        double byte_s;          /* time of a byte to another machine */
        bool broken;            /* the transport failed */
        int n_busy;             /* passes since the last rest */
    } wire;

    /* The progress thread's: when something last moved, the peers were last checked, and signs of
     * life were last sent. */
    struct {
        double moved_s, watched_s, beat_s;
    } clock;
    _Atomic double carried_s; /* when a piece of a long message last came or went */

    /* The progress thread's: how far it is with its end. */
    struct {
        bool reported;  /* the failure was passed on */
        bool took_back; /* what taking_back asks for is done */
        bool said_bye;
        double said_bye_s;
        bool all_left; /* read after the thread has ended */
    } end;
};

/* What is the progress thread's: it is this one, or does not run. */
static inline bool wefti_mesh_is_progress(const weft_mesh *mesh) {
    return !atomic_load(&mesh->thread.works) ||
           pthread_equal(pthread_self(), mesh->thread.self);
}
#define WEFTI_ASSERT_PROGRESS(mesh) WEFTI_ASSERT(wefti_mesh_is_progress(mesh))

/* The mesh as the world of a run: R x S ranks, one of which is in this process. Later calls
 * change the shape; existing communicators keep theirs. Not collective. [out] *out lives as
 * long as the mesh; wefti_world_destroy does not destroy it. */
weft_status wefti_mesh_shape(weft_ctx *ctx, weft_mesh *mesh,
                             const wefti_world_shape *shape,
                             wefti_world **out) WEFT_CHECKED;

/* A rank that is silent for silence_s is given up; 0 = never. The progress thread calls
 * `asked` (may be NULL): once it returns true, a few missing signs of life are enough. */
void wefti_mesh_watch(weft_mesh *mesh, double silence_s, bool (*asked)(void *user),
                      void *user);

/* Fails in a fork of the process with the number `process` (getpid); `what` is the object's
 * name for the message. */
weft_status wefti_process_check(weft_ctx *ctx, int64_t process,
                                const char *what) WEFT_CHECKED;

/* Returns the first failure of any rank as the failure of the whole world, threads or a
 * mesh; WEFT_OK if there is none. */
weft_status wefti_mesh_verdict(weft_ctx *ctx, wefti_world *world) WEFT_CHECKED;

/* --- waits.c --- */

/* Lock held. Waits until something changes, or until_s. */
void wefti_mesh_wait(weft_mesh *mesh, double until_s);

/* The same, for a message of a rank, or for all (-1); once this has lasted 10 s, and again as it
 * doubles, ctx logs for whom, for which the lock is given back. */
void wefti_mesh_await(weft_ctx *ctx, weft_mesh *mesh, wefti_wait *wait, int rank,
                      double until_s);

/* Lock held. The wait is over. */
void wefti_mesh_awaited(weft_mesh *mesh, const wefti_wait *wait);

/* Waits until nothing reads the memory of messages being sent: after a failure such
 * messages are withdrawn. */
void wefti_mesh_settle(weft_mesh *mesh);

/* The progress thread: writes the sentence of a wait that has become long. */
void wefti_waits_watch(weft_mesh *mesh, double now_s);

/* --- progress.c --- */

weft_status wefti_progress_start(weft_mesh *mesh) WEFT_CHECKED;

/* --- places.c --- */

/* The text that must be equal at both ends of a connection. */
const char *wefti_mesh_greeting(void);

/* Fills in rank_of, peer_of, hosts, which peers are on this host, and which places are
 * empty. */
void wefti_mesh_number_ranks(weft_mesh *mesh);

/* Whether two ranks run on one machine. */
bool wefti_mesh_same_host(const weft_mesh *mesh, int a, int b);

/* --- successors.c --- */

/* Communicators that are joined from here to wefti_mesh_end_joins have channels that no earlier
 * exchange had. [out] *round: for the functions below; -1 after a failure. */
weft_status wefti_mesh_begin_round(weft_ctx *ctx, weft_mesh *mesh,
                                   int *round) WEFT_CHECKED;
void wefti_mesh_end_joins(weft_mesh *mesh);

/* The exchange was made: the next one is another round. Called alike on all ranks. */
void wefti_mesh_count_round(weft_mesh *mesh, int round);

/* Its messages are nobody's from now on. */
void wefti_mesh_end_round(weft_mesh *mesh, int round);

/* --- outbox.c --- */

/* First in, first out. Lock held where the queue is shared. */
void wefti_parcels_push(wefti_parcels *queue, wefti_parcel *parcel);
wefti_parcel *wefti_parcels_pop(wefti_parcels *queue);

/* Ends the progress thread's sleep. Lock held. */
void wefti_outbox_wake(weft_mesh *mesh);

/* Submits a parcel to the progress thread; push: lock held. */
void wefti_outbox_push(weft_mesh *mesh, wefti_parcel *parcel);
void wefti_outbox_submit(weft_mesh *mesh, wefti_parcel *parcel);

/* A new parcel, filled in but not submitted; NULL: no memory. */
wefti_parcel *wefti_outbox_parcel(weft_mesh *mesh, int peer,
                                  const wefti_envelope *envelope, const void *data);

/* Fills in an unused parcel. */
void wefti_outbox_fill(wefti_parcel *parcel, int peer, const wefti_envelope *envelope,
                       const void *data);

/* Adds a spare parcel. */
weft_status wefti_outbox_reserve(weft_mesh *mesh) WEFT_CHECKED;

/* Queues a message of the progress thread's own. */
void wefti_outbox_post(weft_mesh *mesh, int peer, const wefti_envelope *envelope,
                       const char *text);

/* Adds a request to those that are tested until done; false: no memory, the mesh is broken. */
bool wefti_outbox_add(weft_mesh *mesh, const wefti_request *flight);

/* Nothing more will arrive from this rank: drops the receives that have begun. */
void wefti_outbox_forget(weft_mesh *mesh, int rank);

/* Forgets the message of this rank that waits. */
void wefti_outbox_unhold(weft_mesh *mesh, int rank);

/* A message has been sent, or will not be: recycles its parcel. Called by the progress
 * thread, like the next two. */
void wefti_outbox_finish(weft_mesh *mesh, wefti_parcel *parcel);

/* Starts no more pieces of a long message. */
void wefti_outbox_drop(weft_mesh *mesh, wefti_parcel *parcel);

/* Stops waiting for messages on their way to a rank, and lets their memory be freed: the
 * others continue without this rank, which may still be connected, but does not receive. */
void wefti_outbox_let_go(weft_mesh *mesh, int rank);

/* Sends to a rank which program this is. */
void wefti_outbox_greet(weft_mesh *mesh, int rank);

/* Record that a rank has failed, with this text, and that the transport has failed, with
 * its own text. */
void wefti_mesh_blame(weft_mesh *mesh, int rank, const char *format, ...)
    WEFT_PRINTF(3, 4);
void wefti_mesh_break(weft_mesh *mesh);

/* --- incoming.c --- */

/* Receives what the transport has found; returns whether there was anything. */
bool wefti_incoming_pick_up(weft_mesh *mesh);

/* A buffer for a message of n bytes, at first not larger than what is plausible; NULL: no
 * memory. */
wefti_arrival *wefti_incoming_room(weft_mesh *mesh, int64_t n_bytes);

/* Makes a buffer spare. Lock held. */
static inline void wefti_incoming_recycle(weft_mesh *mesh, wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    arrival->next = mesh->incoming.spare;
    mesh->incoming.spare = arrival;
}

/* Handles a receive that has ended. */
void wefti_incoming_finish(weft_mesh *mesh, const wefti_request *flight);

/* --- admission.c --- */

/* Answers a process that wants to join (transport.h). */
void wefti_admission_answer(weft_mesh *mesh, const weft_transport_found *found);

/* --- liveness.c --- */

/* Sends signs of life, and notices missing ones. Returns the seconds until the next call is
 * due. */
double wefti_liveness_watch(weft_mesh *mesh);

/* Whether this rank gets the signs of life of another one as long as that one lives. */
bool wefti_liveness_nods(const weft_mesh *mesh, int rank);

/* Notes that something arrived from this rank. */
void wefti_liveness_heard(wefti_peer *peer);

/* The connection to a rank has ended. */
void wefti_liveness_lose(weft_mesh *mesh, int rank);

/* --- remote.c --- */

extern const wefti_world_ops wefti_remote_ops;
