/* SPDX-License-Identifier: MIT */
#pragma once

/* The two interfaces of a wire, emulated (comm/local.c) or played (simulate). A message
 * that takes an interface for busy_s leaves when the sender's is free, and its head gets to
 * the receiver's a latency later, which serves heads in order of arrival:
 *
 *     start   = max(now, out_free)               out_free = start + busy
 *     head    = start + latency
 *     arrival = max(head, in_free) + busy        in_free  = arrival
 */
typedef struct wefti_interface {
    double out_free_s, in_free_s;
} wefti_interface;

/* A message of the sender, ready at now_s; returns its start. */
static inline double wefti_interface_leave(wefti_interface *from, double now_s,
                                           double busy_s) {
    double start_s = now_s > from->out_free_s ? now_s : from->out_free_s;
    from->out_free_s = start_s + busy_s;
    return start_s;
}

/* Its head is there; returns the arrival. Heads come in the order of calls. */
static inline double wefti_interface_arrive(wefti_interface *to, double head_s,
                                            double busy_s) {
    double begin_s = head_s > to->in_free_s ? head_s : to->in_free_s;
    to->in_free_s = begin_s + busy_s;
    return to->in_free_s;
}
