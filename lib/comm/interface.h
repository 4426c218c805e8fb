/* SPDX-License-Identifier: MIT */
#pragma once

/* The two interfaces of a wire, emulated (comm/local.c) or simulated (simulate). A message
 * that occupies an interface for busy_s leaves when the sender's interface is free. Its
 * head reaches the receiver's interface a latency later, which serves heads in order of
 * arrival:
 *
 *     start   = max(now, out_free)               out_free = start + busy
 *     head    = start + latency
 *     arrival = max(head, in_free) + busy        in_free  = arrival */
typedef struct wefti_interface {
    double out_free_s, in_free_s;
} wefti_interface;

/* A message of the sender is ready at now_s; returns its start. */
static inline double wefti_interface_leave(wefti_interface *from, double now_s,
                                           double busy_s) {
    double start_s = now_s > from->out_free_s ? now_s : from->out_free_s;
    from->out_free_s = start_s + busy_s;
    return start_s;
}

/* The head has arrived; returns the arrival of the whole message. Calls must be in the
 * order of heads. */
static inline double wefti_interface_arrive(wefti_interface *to, double head_s,
                                            double busy_s) {
    double begin_s = head_s > to->in_free_s ? head_s : to->in_free_s;
    to->in_free_s = begin_s + busy_s;
    return to->in_free_s;
}
