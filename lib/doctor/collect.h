/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/doctor.h>

#include "comm/comm.h"

/* Seconds of a wall clock, which may differ between machines. */
typedef double (*wefti_wall_clock)(void *user);
double wefti_wall_s(void *user);

/* Measures how far this rank's clock is ahead of rank 0's. Each rank asks rank 0 for its time a
 * few times and uses the shortest round trip; the error is at most half of that round trip.
 * Fills facts->clock_offset_s and clock_offset_error_s. Uses tags tag..tag + 63. Collective. */
weft_status wefti_gather_clock(wefti_comm *comm, int64_t tag, wefti_wall_clock clock,
                               void *user, weft_rank_facts *facts) WEFT_CHECKED;

/* all[comm->size]: each rank's facts in rank order, on every rank. Collective. */
weft_status wefti_gather_facts(wefti_comm *comm, int64_t tag, const weft_rank_facts *mine,
                               weft_rank_facts *all) WEFT_CHECKED;
