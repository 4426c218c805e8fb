/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>
#include <weft/ext/transport.h>
#include <weft/mesh.h>

/* Messages over TCP alone, for processes started by hand or by a launcher that only sets
 * numbers in the environment (docs/launching.md). */

/* Places for processes that join while the run trains, in addition to those of lost
 * processes. Each costs a row in a few tables. */
enum { WEFTI_SPARE_PLACES = 16 };

/* Processes of a run that others may join listen at the first free one of the ports from
 * the run's on, so that a joiner has to know only a host. */
enum { WEFTI_TCP_PORTS = 16 };

/* An address at which a process of a running run may be called. */
typedef struct wefti_tcp_endpoint {
    char host[256]; /* a name or an address */
    int port;
} wefti_tcp_endpoint;

typedef struct wefti_tcp_place {
    int rank, size;
    const char *host; /* of process 0: a name or an address */
    int port;
    double patience_s; /* how long to wait for the others */
    bool plain;        /* the user allows plain bytes across a network */
    int streams;       /* sockets of a pair (streams.h); 0: by the wire */
    int listener;      /* a socket that listens already, in process 0 at the port; it is
                          taken over, also on failure. 0: none */
    int spare;         /* places for processes that join later */
    const wefti_tcp_endpoint
        *endpoints; /* [n_endpoints] for a process that joins, instead of host
                                    and port: tried one after another until one of them
                                    admits it */
    int n_endpoints;
} wefti_tcp_place;

/* Parses a list of endpoints: "host", "host:port", "[address]:port", separated by commas. A
 * host without a port has `n_ports` endpoints, from `port` on. [out] *endpoints owned by the caller
 * (wefti_free). */
weft_status wefti_tcp_endpoints(weft_ctx *ctx, const char *text, int port, int n_ports,
                                wefti_tcp_endpoint **endpoints, int *n) WEFT_CHECKED;

/* Joins a run that trains already, by calling one of its processes at one of the endpoints;
 * host, port, rank, size and listener are ignored. Fails if no process answers within
 * patience_s, or if this process is refused. */
weft_status wefti_tcp_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                            const weft_mesh_security *security,
                            weft_transport **out) WEFT_CHECKED;

/* Opens a socket that listens at a port which the system chooses. [out] *listener owned by
 * the caller. */
weft_status wefti_tcp_listen(weft_ctx *ctx, int *listener, int *port) WEFT_CHECKED;

/* The same at this port. */
weft_status wefti_tcp_listen_at(weft_ctx *ctx, int port, int *listener) WEFT_CHECKED;

/* `security` may be NULL: no key. Collective. [out] *out is owned by the caller. */
weft_status wefti_tcp_open(weft_ctx *ctx, const wefti_tcp_place *place,
                           const weft_mesh_security *security,
                           weft_transport **out) WEFT_CHECKED;
