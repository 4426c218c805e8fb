/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* The group that a channel's messages go to, from the rank's point of view. */
wefti_members wefti_wires_members(const wefti_player *player, const wefti_sim_rank *rank,
                                  wefti_channel channel);

/* The question to the mixer about a bucket of the rank. */
wefti_mixer_question wefti_wires_question(const wefti_player *player,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step);

weft_status wefti_wires_send(wefti_player *player, wefti_thread *thread,
                             const wefti_action *action) WEFT_CHECKED;

/* A message's head is at the receiver's interface. */
weft_status wefti_wires_land(wefti_player *player, int64_t flight,
                             double now_s) WEFT_CHECKED;

/* Begins or continues a receive; *done: all messages have arrived, at thread->now_s. */
weft_status wefti_wires_receive(wefti_player *player, wefti_thread *thread,
                                const wefti_action *action, bool *done) WEFT_CHECKED;

/* Whether the mixer's buffer of this action may be written; else the thread waits. */
bool wefti_wires_have_room(wefti_player *player, wefti_thread *thread,
                           const wefti_action *action);

/* Wakes a thread: what it waited for may have arrived. */
weft_status wefti_wires_wake(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;
