/* SPDX-License-Identifier: MIT */
#pragma once

#include <netdb.h>

#include "comm/connection.h"

/* Listening and calling: the sockets under the gathering of a run's processes (rendezvous.c) and
 * under processes that come later (latecomer.c). No function here knows what is said. */

/* A host's addresses, for freeaddrinfo. NULL: *error is what getaddrinfo returned, *why its
 * words. */
struct addrinfo *wefti_dial_resolve(const char *host, int port, int *error,
                                    const char **why);

/* Whether an address never leaves this machine. */
bool wefti_dial_is_loopback(const struct sockaddr *address);

/* A socket that listens, at this machine's own addresses only or at all; port 0: any. -1 with
 * errno. */
int wefti_dial_listen(bool here, int port);

/* At the first free one of n ports, or at any if none of them is. */
int wefti_dial_listen_from(bool here, int port, int n);

/* The port of a socket that listens. */
int wefti_dial_port(int listener);

/* A connection to the first of a host's addresses that answers, each tried for at most five
 * seconds, or -1 with errno. */
int wefti_dial(const char *host, int port, double until_s);

/* The handshake of who has called; without tls it is done at once. FAILED: the other side has
 * another key; AGAIN: it has hung up, or says nothing. */
wefti_shake wefti_dial_shake(const wefti_tls_context *tls, wefti_connection *s,
                             double until_s);
