/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>
#include <weft/ext/transport.h>
#include <weft/mesh.h>

/* Messages by TCP alone, for processes that are started by hand or by a launcher that
 * only sets numbers in the environment (docs/launching.md). */

/* Places for processes that come while the run trains, beside those of processes that were lost.
 * What they cost is a row in a few tables. */
enum { WEFTI_SPARE_PLACES = 16 };

/* Processes of a run that others may join listen at the first free port from the run's on, so that
 * a joiner has to know a host only. */
enum { WEFTI_TCP_PORTS = 16 };

/* Where a process of a run that trains may be called. */
typedef struct wefti_tcp_door {
    char host[256]; /* a name or an address */
    int port;
} wefti_tcp_door;

typedef struct wefti_tcp_place {
    int rank, size;
    const char *host; /* of process 0: a name or an address */
    int port;
    double patience_s; /* how long the others are waited for */
    bool plain;        /* not encrypted although it crosses a network: somebody said so */
    int listener;      /* a socket that listens already, of process 0 at the port, and is taken,
                          also on failure; 0: none does */
    int spare;         /* places for processes that come later */
    const wefti_tcp_door *doors; /* [n_doors] of who joins, in place of host and port: tried one
                                    after another, until one of them takes it in */
    int n_doors;
} wefti_tcp_place;

/* The doors that a text means: "host", "host:port", "[address]:port", with commas between them. A
 * host without a port has `n_ports` doors, from `port` on. [out] *doors owned by the caller
 * (wefti_free). */
weft_status wefti_tcp_doors(weft_ctx *ctx, const char *text, int port, int n_ports,
                            wefti_tcp_door **doors, int *n) WEFT_CHECKED;

/* Joins a run that trains already, by calling one of its processes at one of the doors; host, port,
 * rank, size and listener are not looked at. Fails if nobody answers in patience_s, or it is
 * refused. */
weft_status wefti_tcp_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                            const weft_mesh_security *security,
                            weft_transport **out) WEFT_CHECKED;

/* A socket that listens at a port which the system chooses. [out] *listener owned by the
 * caller. */
weft_status wefti_tcp_listen(weft_ctx *ctx, int *listener, int *port) WEFT_CHECKED;

/* The same at this port. */
weft_status wefti_tcp_listen_at(weft_ctx *ctx, int port, int *listener) WEFT_CHECKED;

/* `security` may be NULL: no key. Collective. [out] *out is owned by the caller. */
weft_status wefti_tcp_open(weft_ctx *ctx, const wefti_tcp_place *place,
                           const weft_mesh_security *security,
                           weft_transport **out) WEFT_CHECKED;
