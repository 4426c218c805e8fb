/* SPDX-License-Identifier: MIT */
/* The clock of the event player: when a thread continues, and what its time was spent on.
 * Events at the same time have a random order, as on a machine. */
#include "simulate/player.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

weft_status wefti_play_at(wefti_player *player, wefti_thread *t, double when_s) {
    uint32_t draw = player->n_draws++ % WEFTI_DRAWS;
    const wefti_rng_run more = {.seed = player->play->seed,
                                .stream = WEFTI_STREAM_JITTER,
                                .step = UINT64_MAX,
                                .first = player->n_draws - 1,
                                .n = WEFTI_DRAWS};
    if (draw == 0) wefti_rng_pairs(&more, player->draws);
    t->mark++;
    return wefti_agenda_add(&player->agenda,
                            (wefti_event){when_s, (uint32_t)player->draws[draw][0],
                                          (int32_t)(t - player->threads), t->mark});
}

weft_status wefti_play_go_on(wefti_player *player, wefti_thread *t) {
    t->state = WEFTI_RUNS;
    return wefti_play_at(player, t, t->now_s);
}

weft_status wefti_play_alarm(wefti_player *player, wefti_thread *t) {
    if (isinf(t->until_s)) return WEFT_OK;
    return wefti_play_at(player, t, fmax(t->now_s, t->until_s));
}

void wefti_play_show(wefti_player *player, int lane, int index, const char *what,
                     double begin_s, double end_s) {
    wefti_play *play = player->play;
    if (!player->shows || play->n_spans == play->span_room) return;
    weft_span *span = &play->spans[play->n_spans++];
    *span = (weft_span){lane, index, "", begin_s - player->shown_s,
                        end_s - player->shown_s};
    snprintf(span->what, sizeof span->what, "%s", what);
}

static void add_segment(wefti_sim_rank *rank, int64_t piece, wefti_class class,
                        double begin_s, double end_s) {
    wefti_segment *last = rank->segments + (rank->n_segments ? rank->n_segments - 1 : 0);
    bool goes_on = rank->n_segments > 0 && last->piece == piece;
    if (!goes_on && rank->n_segments == rank->room) return;
    if (!goes_on) {
        last = &rank->segments[rank->n_segments++];
        *last = (wefti_segment){.begin_s = begin_s, .piece = piece};
    }
    last->end_s = end_s;
    last->parts_s[class] += end_s - begin_s;
}

void wefti_play_note(wefti_player *player, wefti_thread *t, wefti_class class,
                     double begin_s, double end_s) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    double spent_s = end_s - begin_s;
    if (spent_s <= 0) return;
    bool counts = t->n_actions > 0 &&
                  t->actions[t->at_action].channel == WEFTI_CHANNEL_STATUS;
    if (t->exchanges) {
        add_segment(rank, t->piece, class, begin_s, end_s);
        return;
    }
    if (counts) {
        rank->tally.status_s += class == WEFTI_CLASS_CODEC ? 0 : spent_s;
        return;
    }
    if (class == WEFTI_CLASS_CODEC) return;
    rank->tally.wait_s += spent_s;
    *(class == WEFTI_CLASS_WIRE ? &rank->tally.wire_s : &rank->tally.late_s) += spent_s;
}
