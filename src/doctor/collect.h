/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/doctor.h>

#include "comm/comm.h"

/* Seconds of a clock that can be read by people; what differs between machines. */
typedef double (*wefti_wall_clock)(void *user);
double wefti_wall_s(void *user);

/* How far this rank's clock is ahead of rank 0's: each rank asks rank 0 for its time a
 * few times and believes the shortest round trip, up to half of which it may err. Fills
 * facts->clock_offset_s and clock_offset_error_s. Uses tags tag..tag + 63. Collective. */
weft_status wefti_gather_clock(wefti_comm *comm, int64_t tag, wefti_wall_clock clock,
                               void *user, weft_rank_facts *facts) WEFT_CHECKED;

/* all[comm->size]: each rank's facts in rank order, on every rank. Collective. */
weft_status wefti_gather_facts(wefti_comm *comm, int64_t tag, const weft_rank_facts *mine,
                               weft_rank_facts *all) WEFT_CHECKED;
