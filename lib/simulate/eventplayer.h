/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* Plays a timed event by event: each rank is two threads, the compute thread with its
 * ops and the exchange thread with its phases, that wait for messages, jobs and each
 * other as the program's do (rank/step.c, comm/worker.c), and messages that book
 * interfaces as comm/local.c does. */

weft_status wefti_event_player_run(const wefti_timed *timed,
                                   wefti_play *play) WEFT_CHECKED;
