/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* The group that a channel's messages go to, as the rank sees it. */
wefti_members wefti_wires_members(const wefti_player *player, const wefti_sim_rank *rank,
                                  wefti_channel channel);

/* What a mixer is asked for about a bucket of the rank. */
wefti_mixer_question wefti_wires_question(const wefti_player *player,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step);

weft_status wefti_wires_send(wefti_player *player, wefti_thread *thread,
                             const wefti_action *action) WEFT_CHECKED;

/* A message's head is at the receiver's interface. */
weft_status wefti_wires_land(wefti_player *player, int64_t flight,
                             double now_s) WEFT_CHECKED;

/* Begins or goes on receiving; *done: all is there, thread->now_s says when. */
weft_status wefti_wires_receive(wefti_player *player, wefti_thread *thread,
                                const wefti_action *action, bool *done) WEFT_CHECKED;

/* Whether the mixer's buffer of this action may be written; else the thread waits. */
bool wefti_wires_have_room(wefti_player *player, wefti_thread *thread,
                           const wefti_action *action);

/* What the thread waited for may be there. */
weft_status wefti_wires_wake(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;
