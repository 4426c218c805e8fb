/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/player.h"

/* Schedules the thread to continue at a given time; at its own clock. */
weft_status wefti_play_at(wefti_player *player, wefti_thread *thread,
                          double when_s) WEFT_CHECKED;
weft_status wefti_play_go_on(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;

/* The thread waits for a message, until a deadline. */
weft_status wefti_play_alarm(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;

/* A span of the timeline, if this step is shown; lane: weft_span. */
void wefti_play_show(wefti_player *player, int lane, int index, const char *what,
                     double begin_s, double end_s);

/* Records what a thread's time was spent on. */
void wefti_play_note(wefti_player *player, wefti_thread *thread, wefti_class class,
                     double begin_s, double end_s);
