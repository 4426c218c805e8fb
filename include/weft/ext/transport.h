/* SPDX-License-Identifier: MIT */
#ifndef WEFT_EXT_TRANSPORT_H
#define WEFT_EXT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What carries messages between processes: MPI, and whatever somebody writes. It is asked
 * to be simple, because weft does the rest: matching, pieces of long messages, progress,
 * byte counts, failures.
 *
 * Messages from one process to another arrive in the order in which they were sent, of
 * both lanes, whole and unchanged. None is longer than WEFT_TRANSPORT_BYTES. Every
 * function is called by one thread at a time and returns without waiting, except finish.
 * `true` is success; after `false`, `say` tells why. */

enum { WEFT_TRANSPORT_BYTES = 1 << 20 };

/* What a transport over sockets lets the kernel take in and not send (TCP_NOTSENT_LOWAT):
 * nothing can overtake it any more. */
enum { WEFT_TRANSPORT_UNSENT_BYTES = 16 << 10 };

typedef struct weft_transport weft_transport;

/* any: a message; closed: this process can say nothing more, told once, may be left out.
 */
typedef struct weft_transport_found {
    bool any, closed;
    int peer, lane, n_bytes;
    bool asks; /* somebody has called who wants to take part from now on: peer is that
                  caller's number, for `seat` */
    int place; /* asks: the place that it wants, given by another process; -1: any */
    uint64_t run, incarnation; /* asks: of the run that it means, and its own name */
    char host[64];             /* asks: where it says that it runs */
} weft_transport_found;

/* The answer to a caller who wants to take part. */
typedef enum weft_transport_seat_code {
    WEFT_SEAT_WELCOME = 1,
    WEFT_SEAT_LATER,    /* not now: the run has not begun, or changes just then */
    WEFT_SEAT_FULL,     /* no place is free */
    WEFT_SEAT_NEVER,    /* this run takes nobody */
    WEFT_SEAT_ELSEWHERE, /* another process gives places: seat->place is where it is */
    WEFT_SEAT_OVER       /* it takes nobody any more, for it is about to end */
} weft_transport_seat_code;

typedef struct weft_transport_seat {
    weft_transport_seat_code code;
    int place; /* which it gets; if it has asked for that one, it is connected now */
    int group; /* to who has asked for any: processes that share one copy of the model, */
    uint64_t run;          /* the run, */
    const int *rank_of;    /* [size] the rank of each process, */
    const uint64_t *names; /* [size] and its incarnation; 0: nobody is there */
} weft_transport_seat;

/* Of a process that has joined a run: what it was told. */
typedef struct weft_transport_entry {
    uint64_t run, incarnation;
    int group; /* processes that share one copy of the model: this one waits until
                              so many are there, whose ranks are neighbours */
    const int *rank_of;    /* [size] */
    const uint64_t *names; /* [size] incarnations of whom it is connected to; 0: nobody */
} weft_transport_entry;

typedef struct weft_transport_ops {
    const char *name; /* of the kind: "mpi" */
    /* Starts sending; `data` stays unchanged until the request is done or withdrawn.
     * `lane` is 0 or 1 and comes with the message. */
    bool (*send)(weft_transport *t, int peer, int lane, const void *data, int n_bytes,
                 void **request);
    /* Whether there is a message; then it is taken out of the queue: *message must be
     * received. */
    bool (*probe)(weft_transport *t, weft_transport_found *found, void **message);
    bool (*receive)(weft_transport *t, void *message, void *data, int n_bytes,
                    void **request);
    /* May be NULL. Messages that `send` only took are sent, as far as that goes. */
    void (*flush)(weft_transport *t);
    /* NULL: it has to be asked again and again. Sleeps until something may have changed,
     * `wake` was called, or the time is over; 0 only looks. */
    void (*wait)(weft_transport *t, double seconds);
    /* Ends a sleep, or the next one; by any thread. */
    void (*wake)(weft_transport *t);
    /* Whether a request is done; then it is freed. */
    bool (*test)(weft_transport *t, void *request, bool *done);
    /* The data of a send that is not done is the sender's again: what is left of it has
     * been copied, or the connection is closed. The request goes on. NULL: `send` copies. */
    void (*withdraw)(weft_transport *t, void *request);
    /* May be NULL. Of a process whose connection has ended: whether its host takes calls for it
     * (0), refuses them, so that it is dead (1), or has not answered yet (-1: ask again). */
    int (*redial)(weft_transport *t, int peer);
    /* May be NULL. Bytes per second that have lately arrived at a process; 0: not known. */
    double (*rate)(const weft_transport *t, int peer);
    /* May be NULL. Where a process listens, as "address:port"; false: that is not known. */
    bool (*where)(const weft_transport *t, int peer, char *out, int size);
    /* May be NULL: nobody can take part later. Answers a caller; whether it is connected: to
     * seat->place, which had ended or never was. */
    bool (*seat)(weft_transport *t, int caller, const weft_transport_seat *seat);
    void (*say)(const weft_transport *t, char *text, int size);
    /* Ends it, and frees t: waiting for the others if nothing went wrong. False: that did
     * not come to an end, and the process should end at once. */
    bool (*finish)(weft_transport *t, bool failed);
    /* May be NULL. In a child that fork() made: closes what it has inherited, and says nothing
     * to anybody; t stays. Other threads' locks may be held for ever, so it takes none. */
    void (*forget)(weft_transport *t);
    /* May be NULL. Calls somebody who is no process of the run, protected as the run's connections
     * are: sends n bytes and waits for one byte, which it returns; 0: none came in time. Blocks, by
     * any thread, at the same time as all else. */
    int (*ask)(weft_transport *t, const char *host, int port, const void *bytes, int n_bytes,
               double seconds);
} weft_transport_ops;

struct weft_transport {
    const weft_transport_ops *ops;
    int rank, size;
    bool streams;            /* the length of its messages costs it nothing */
    const char *version;     /* "Open MPI 4.1.4", lives as long as t */
    const char *const *host; /* [size] where each process runs, the same */
    int founders; /* 0: all are there from the beginning; else so many are, and the other
                     places are for processes that come later */
    const weft_transport_entry *entry; /* this process has joined a run; else NULL */
};

#ifdef __cplusplus
}
#endif
#endif
