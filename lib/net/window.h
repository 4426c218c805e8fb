/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The round trip from which a wire is long. */
#define WEFTI_LONG_WIRE_S 2e-3

/* The bytes that a socket can have under way with so large a send buffer; 0: that which Linux
 * gives by itself. */
double wefti_window_bytes(double buffer_bytes);

/* How many sockets mesh.streams=0 opens for each of n_peers pairs: 1, or one for the heads
 * and twice those that fill the line. */
int wefti_window_streams(double rtt_s, double window, int n_peers);

/* How many of a pair's sockets count for its rate, with mesh.streams = `setting`: all that
 * carry bodies, but by the wire no more than fill the line. Falls with a shorter round trip,
 * their rate (this times window / rtt_s) does not. */
double wefti_window_filled(int64_t setting, double rtt_s, double n_peers);
