/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_EVENTPLAYER_H
#define WEFTI_EVENTPLAYER_H

#include <weft/predict.h>

#include "simulate/scene.h"

/* Plays a scene event by event: each rank is two threads, the compute thread with its
 * acts and the exchange thread with its phases, that wait for messages, jobs and each
 * other as the program's do (train/step.c, comm/worker.c), and messages that book
 * interfaces as comm/local.c does. */

/* One step of one rank. */
typedef struct wefti_played {
    double step_s, exchange_s, wait_s;
    double codec_s, wire_s, late_s; /* of wait_s */
    double vote_s;                  /* waiting for votes, beside it */
} wefti_played;

typedef struct wefti_play {
    int64_t steps, warmup; /* steps after warmup are kept */
    uint64_t seed;
    bool calm;            /* no jitter, whatever the cluster says */
    wefti_played *played; /* [steps][W] out; the caller's */
    int64_t max_messages; /* stops after the step in which so many have been sent */
    int64_t done;         /* steps kept, out; all of them without max_messages */
    double wire_bytes;    /* sent between nodes in the kept steps, out, all ranks */
    /* Timeline of rank 0 in the last step; room for n_spans, out: how many there are. */
    weft_span *spans;
    int64_t span_room, n_spans;
} wefti_play;

weft_status wefti_event_player_run(const wefti_scene *scene,
                                   wefti_play *play) WEFT_CHECKED;

#endif
