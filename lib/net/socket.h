/* SPDX-License-Identifier: MIT */
#pragma once

#include <netdb.h>

#include "net/connection.h"

/* Listening and connecting: the sockets that are used when a run's processes gather
 * (rendezvous.c) and when processes join later (joiner.c). The functions here do not
 * depend on the protocol above. */

/* A host's addresses, for freeaddrinfo. NULL: *error is getaddrinfo's result, *why its
 * text. */
struct addrinfo *wefti_socket_resolve(const char *host, int port, int *error,
                                      const char **why);

/* Whether packets to an address never leave this machine. */
bool wefti_socket_is_loopback(const struct sockaddr *address);

/* An address as digits, without a port; an IPv4 one that came through a socket for both versions
 * without "::ffff:". "" if it has none. */
void wefti_socket_address(const struct sockaddr *address, char *out, size_t size);

/* The same of this end of a socket. */
void wefti_socket_own(int fd, char *out, size_t size);

/* A listening socket, at this machine's own addresses only (here) or at all; port 0: any.
 * A guard of a dead process (guard.h) gives up the port. -1 with errno. */
int wefti_socket_listen(bool here, int port);

/* Whether nobody listens at a port of this machine. */
bool wefti_socket_is_free(int port);

/* Listens at the first free one of n ports, or at any port if none of them is free. */
int wefti_socket_listen_from(bool here, int port, int n);

/* The port of a listening socket. */
int wefti_socket_port(int listener);

/* A connection to the first of a host's addresses that answers, each tried for at most five
 * seconds, or -1 with errno; also when `ctx` (or NULL) is asked to stop. */
int wefti_socket_connect(const weft_ctx *ctx, const char *host, int port, double until_s);

/* Begins a connection to an address, without waiting for it; -1 with errno. */
int wefti_socket_begin(const struct sockaddr_storage *to);

/* A socket that programs this one starts do not inherit; a stream never blocks. -1 with errno. */
int wefti_socket_open(int family, int type);

/* The connection of a caller who waits at this listener, the same way; -1 with errno. */
int wefti_socket_accept(int listener, struct sockaddr *from, socklen_t *size);

/* Whether the other side will send no more. */
bool wefti_socket_is_left(int fd);

/* For a long wire: the kernel sends evenly, not all that may be under way in one burst, and does
 * not take every lost packet for a full line, where it can. */
void wefti_socket_pace(int fd);

/* An address of digits and a port; false: the text is none. */
bool wefti_socket_parse(const char *text, int port, struct sockaddr_storage *out);

/* Its bytes: some kernels refuse more. */
socklen_t wefti_socket_size(const struct sockaddr_storage *address);

/* The kernel's figures of a connection (tcp_rate.c): bytes per second that have lately arrived
 * at the other end, and the time of a round trip; 0: not known. */
double wefti_tcp_rate(int fd);
double wefti_tcp_round_trip_s(int fd);

/* Whether the address at which this end of a connection is has gone from the machine. */
bool wefti_socket_has_moved(int fd);

/* The caller's side of the handshake; without tls there is nothing to do. FAILED: the other
 * side has another key; AGAIN: the other side has hung up (fd is -1), or does not answer. */
wefti_shake wefti_socket_shake(const wefti_tls_context *tls, wefti_connection *s,
                               double until_s);
