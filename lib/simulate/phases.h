/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* Fill in the actions of a thread: those of thread->phase of thread->job, or those of the
 * phases apply and finish of a bucket on the compute thread. */
void wefti_play_fill(wefti_player *player, wefti_thread *thread);
void wefti_play_apply(wefti_player *player, wefti_thread *thread, int bucket);
void wefti_play_finish(wefti_player *player, wefti_thread *thread, int bucket);
