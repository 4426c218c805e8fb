/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* What a thread has to do: thread->phase of thread->job; or those two phases of a bucket on
 * the compute thread. */
void wefti_play_fill(wefti_player *player, wefti_thread *thread);
void wefti_play_apply(wefti_player *player, wefti_thread *thread, int bucket);
void wefti_play_finish(wefti_player *player, wefti_thread *thread, int bucket);
