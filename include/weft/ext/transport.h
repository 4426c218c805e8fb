/* SPDX-License-Identifier: MIT */
#ifndef WEFT_EXT_TRANSPORT_H
#define WEFT_EXT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What carries messages between processes: TCP, MPI, or a transport that you write. A transport
 * can be simple, because weft does the rest: matching, splitting long messages, progress, byte
 * counts, failures.
 *
 * Messages from one process to another arrive in the order in which they were sent, over both
 * lanes together, whole and unchanged. None is longer than WEFT_TRANSPORT_BYTES. Every function
 * is called by one thread at a time and returns without waiting, except finish. `true` is
 * success; after `false`, `say` tells the reason. */

enum { WEFT_TRANSPORT_BYTES = 1 << 20 };

/** How many unsent bytes a transport over sockets lets the kernel take in (TCP_NOTSENT_LOWAT):
 * no later message can overtake bytes that the kernel holds. */
enum { WEFT_TRANSPORT_UNSENT_BYTES = 16 << 10 };

typedef struct weft_transport weft_transport;

/** What `probe` found. any: there is a message; closed: no more messages will come from `peer`
 * (reported once; a transport may leave this out). */
typedef struct weft_transport_found {
    bool any, closed;
    int peer, lane, n_bytes;
    bool asks; /* a process has connected and asks to join the run; peer is the number of
                  this caller, for `place` */
    int place; /* asks: the place that another process gave it; -1: it has none yet */
    uint64_t run, incarnation; /* asks: the run that it wants to join; its own name */
    char host[64];             /* asks: the host that it says it runs on, */
    uint64_t machine;          /* and the number of that machine; 0: not known */
    int n_replaced; /* asks: processes of this run whose ports are free where it runs, */
    const int
        *replaced; /* [n_replaced] peers: they have ended; valid until the next probe */
} weft_transport_found;

/** The answer to a caller that asks to join. */
typedef enum weft_transport_place_code {
    WEFT_PLACE_WELCOME = 1,
    WEFT_PLACE_LATER,     /* not now: the run has not begun, or is changing its members */
    WEFT_PLACE_FULL,      /* no place is free */
    WEFT_PLACE_NEVER,     /* this run admits no process */
    WEFT_PLACE_ELSEWHERE, /* another process gives places: its place is place->place */
    WEFT_PLACE_OVER,      /* the run admits nobody any more: it is about to end */
    WEFT_PLACE_SHUNNED = 8 /* this machine has computed wrongly too often */
} weft_transport_place_code;

/** The answer to a process that asks for a place. */
typedef struct weft_transport_place {
    weft_transport_place_code code;
    int place;    /* the caller's place; if it asked for this one, it is connected now */
    int group;    /* for a caller without a place: processes that share one copy, */
    uint64_t run; /* the run, */
    const int *rank_of;    /* [size] the rank of each process, */
    const uint64_t *names; /* [size] and its incarnation; 0: the place is free */
} weft_transport_place;

/** What a process that has joined a run got as the answer. */
typedef struct weft_transport_entry {
    size_t struct_size;
    uint64_t run, incarnation;
    int group; /* processes that share one copy of the model: this one waits until that
                  many are there, whose ranks are neighbours */
    const int *rank_of;    /* [size] */
    const uint64_t *names; /* [size] incarnations of connected processes; 0: none */
} weft_transport_entry;

/** What a plug-in for a message library does. All but `turn` are called by one thread. */
typedef struct weft_transport_ops {
    size_t struct_size;
    const char *name; /* of the kind: "mpi" */
    /** Starts sending; `data` must not change until the request is done or withdrawn. `lane` is
     * 0 or 1 and is transmitted with the message. */
    bool (*send)(weft_transport *t, int peer, int lane, const void *data, int n_bytes,
                 void **request);
    /** Looks for a message. If there is one, it is taken out of the queue, and the caller must
     * then receive *message. */
    bool (*probe)(weft_transport *t, weft_transport_found *found, void **message);
    bool (*receive)(weft_transport *t, void *message, void *data, int n_bytes,
                    void **request);
    /** May be NULL. Sends messages that `send` has only queued, as many as can be sent now. */
    void (*flush)(weft_transport *t);
    /** NULL: the transport has to be polled. Sleeps until something may have changed, `wake` was
     * called, or the time is over; 0 seconds: only looks. */
    void (*wait)(weft_transport *t, double seconds);
    /** Ends the current sleep, or the next one. May be called by any thread. */
    void (*wake)(weft_transport *t);
    /** Whether a request is done; if it is, the request is freed. */
    bool (*test)(weft_transport *t, void *request, bool *done);
    /** Gives the data of an unfinished send back to the sender: the rest of it has been copied,
     * or the connection is closed. The request continues. NULL: `send` copies its data. */
    void (*withdraw)(weft_transport *t, void *request);
    /** May be NULL: a lost process ends the run. Keeps n bytes (at most 128) that say how this
     * process stands: `now` goes to who inquires while it lives, `after` to who inquires after
     * it has ended, however it ended. n_askers: how many may want to know; -1: nobody
     * knows how many, and after an orderly end, too. */
    void (*keep)(weft_transport *t, const void *now, const void *after, int n_bytes,
                 int n_askers);
    /** May be NULL. Bytes per second that have lately arrived at `peer`; 0: not known. */
    double (*rate)(const weft_transport *t, int peer);
    /** May be NULL. Where a process listens, as "address:port"; false: not known. */
    bool (*where)(const weft_transport *t, int peer, char *out, int size);
    /** May be NULL: no process can join later. Answers a caller. Returns whether the caller is
     * now connected as place->place, whose former connection had ended or never existed. */
    bool (*give_place)(weft_transport *t, int caller, const weft_transport_place *place);
    void (*say)(const weft_transport *t, char *text, int size);
    /** Ends the transport and frees t; waits for the other processes unless `failed`. False:
     * this could not be completed, and the process should end at once. */
    bool (*finish)(weft_transport *t, bool failed);
    /** May be NULL. In a child that fork() made: closes the inherited descriptors and sends
     * nothing; t stays allocated. Takes no locks, because other threads may have held them at
     * the fork, and would then never release them. */
    void (*forget)(weft_transport *t);
    /** May be NULL. Connects to a process outside of the run, with the same protection as the
     * run's connections, sends n bytes and waits for one byte, which it returns; 0: none came
     * in time. Blocks. May be called by any thread, concurrently with all other functions. */
    int (*ask)(weft_transport *t, const char *host, int port, const void *bytes,
               int n_bytes, double seconds);
    /** May be NULL: a host name is a machine. The number of the machine that a process runs on
     * (weft_mesh_machine, called there); processes with the same number are on one machine. */
    uint64_t (*machine)(const weft_transport *t, int peer);
    /** NULL as `keep`. Calls the place where a process listens, and never waits: > 0: so many
     * bytes came that were kept there; 0: it was accepted, and nothing came; -1: no answer
     * yet, ask again; -2: refused, by the host or by something on the way. */
    int (*inquire)(weft_transport *t, int peer, void *bytes, int size);
    /** NULL as `keep`. Ends the connection to a peer, which probe then reports as closed. */
    void (*hang_up)(weft_transport *t, int peer);
    /** May be NULL. Where the next inquiries at a peer go: 0: where it listens; k: to the k-th port
     * of those that processes of a run listen at, on its machine: another one may have come there.
     * Returns k, or 0 if there are fewer. */
    int (*turn)(weft_transport *t, int peer, int k);
    /* May be NULL: none. How many ways to a peer carry long messages side by side, besides the
     * one of short messages: so many more pieces are sent at the same time. */
    int (*paths)(const weft_transport *t, int peer);
    /** May be NULL: none. Bytes that this process has passed on between two others, each counted
     * once, though it comes in and goes out. May be called by any thread. */
    int64_t (*relayed)(const weft_transport *t);
} weft_transport_ops;

/** A mesh's way to its peers: a table of functions; a plug-in puts its own state behind it. */
struct weft_transport {
    const weft_transport_ops *ops;
    int rank, size;
    bool streams;            /* long messages cost it no more than short ones */
    const char *version;     /* "Open MPI 4.1.4", lives as long as t */
    const char *const *host; /* [size] where each process runs; lives as long */
    int founders; /* 0: all processes are there from the beginning; else this many are,
                     and the other places are for processes that join later */
    const weft_transport_entry *entry; /* this process has joined a run; else NULL */
};

#ifdef __cplusplus
}
#endif
#endif
