/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/partners.h"
#include "simulate/timed.h"

/* All replicas of a timed at once: a step is a sequence of operations on arrays, one
 * number per replica, in the order in which a typical rank does them. The ranks of a
 * replica stay together. Links serve messages in order of arrival. For messages from all
 * to all only sums are kept, not single messages. */

/* The differences between machines; a calm run has none. */
typedef struct wefti_weather {
    bool jitter; /* as the cluster says */
    bool alike;  /* whatever the cluster says of single machines */
    uint64_t seed;
    const float *slower;       /* [nodes] factors of computing, or NULL */
    const float *slower_links; /* [nodes] factors of an interface's time, or NULL */
    double slower_wire;        /* factor of the time of all interfaces; 0: 1 */
    bool no_wire, no_work;     /* links cost nothing; coding and optimizing neither */
    int ahead;                 /* the order of phases: how many buckets begin ahead */
    bool primed;               /* the messages that the first step waits for were sent
                                  before it */
} wefti_weather;

/* The orders that are played; the prediction is the minimum of their times (arrayorder.c). */
enum { WEFTI_ARRAY_ORDERS = 3 };
int wefti_array_orders(int n_buckets, int out[WEFTI_ARRAY_ORDERS]);

typedef struct wefti_array_player wefti_array_player;

weft_status wefti_array_player_create(const wefti_timed *timed,
                                      wefti_partner_lists *partners,
                                      const wefti_weather *weather,
                                      wefti_array_player **out) WEFT_CHECKED;
void wefti_array_player_destroy(wefti_array_player *e);

/* Plays the next step. */
void wefti_array_player_step(wefti_array_player *e);

/* From now on all interfaces take `times` times as long as the cluster says. */
void wefti_array_player_slow_wire(wefti_array_player *e, double times);

/* For the last step: the time when each replica had settled [replicas], the means over
 * them of its parts, and of the time for computing alone. */
const double *wefti_array_player_settled(const wefti_array_player *e);
wefti_played wefti_array_player_played(const wefti_array_player *e);
double wefti_array_player_compute_s(const wefti_array_player *e);
