/* SPDX-License-Identifier: MIT */
/* What goes wrong, and when: a list that the seed makes, so that it can be shortened. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static const char *const names[FAULT_KINDS] = {"kill", "power off",       "pause",
                                               "cut",  "split",           "slow link",
                                               "loss", "kill the sender", "leave"};

/* Kinds of messages that are good moments to die at; WEFTI_SAY_KINDS: a piece. */
static const int moments[] = {
    WEFTI_SAY_FLUSH,      WEFTI_SAY_FLUSH_OK, WEFTI_SAY_VIEW,
    WEFTI_SAY_VIEW_OK,    WEFTI_SAY_INSTALL,  WEFTI_SAY_RESEND_GET,
    WEFTI_SAY_SNAP_PIECE, WEFTI_SAY_KINDS,    WEFTI_SAY_KINDS};

static fault make_fault(world *w) {
    static const int weights[FAULT_KINDS] = {5, 2, 2, 3, 2, 1, 2, 6, 1};
    fault f = {.at_us = draw_below(w, w->opt.fault_us * 3 / 4)};
    int64_t r = draw_below(w, 24);
    for (int k = 0; k < FAULT_KINDS; k++) {
        f.kind = (fault_kind)k;
        if (r < weights[k]) break;
        r -= weights[k];
    }
    f.for_us = 20000 + draw_below(w, draw(w) % 2 ? 300000 : 3000000);
    f.a = (int)draw_below(w, w->n_hosts);
    f.b = (int)draw_below(w, w->n_hosts);
    if (f.kind == FAULT_KILL_SENDER) {
        f.a = moments[draw_below(w, (int64_t)(sizeof moments / sizeof moments[0]))];
        f.b = 1 + (int)draw_below(w, f.a == WEFTI_SAY_KINDS ? 60 : 12);
    }
    if (f.kind == FAULT_SPLIT) f.a = 1 + (int)draw_below(w, (1 << w->n_hosts) - 2);
    f.percent = 2 + (int)draw_below(w, 30);
    f.comes_back = draw(w) % 3 > 0;
    return f;
}

/* Where a witness gives votes, what would only disturb the network splits it into halves instead,
 * for longer than it takes to notice; so ties and ties within ties are common. */
static void make_split(const world *w, fault *f, int k) {
    if (!w->votes_end_us || f->kind < FAULT_CUT || f->kind > FAULT_LOSS) return;
    uint64_t r = mix(w->seed, 1000 + (uint64_t)k);
    int left = w->n_founders / 2, group = 0;
    for (int h = 0; h < w->n_founders; h++) {
        bool goes = (int)(r % (uint64_t)(w->n_founders - h)) < left;
        r = mix(r, (uint64_t)h);
        group |= goes << h;
        left -= goes;
    }
    f->kind = FAULT_SPLIT;
    f->a = group;
    f->for_us = 1500000 + (int64_t)(r % 4000000);
}

void make_faults(world *w) {
    w->n_faults = 1 + (int)draw_below(w, 7);
    for (int k = 0; k < w->n_faults; k++) {
        bool is_off = w->faults[k].is_off;
        w->faults[k] = make_fault(w);
        make_split(w, &w->faults[k], k);
        w->faults[k].is_off = is_off;
        /* some come together */
        if (k > 0 && draw(w) % 3 == 0)
            w->faults[k].at_us = w->faults[k - 1].at_us + draw_below(w, 1500000);
    }
}

/* A split world's witness is seen by all, by the hosts of the group, or by the others. */
static void cut_votes(world *w, int group, int by) {
    uint64_t sees = mix(w->seed, (uint64_t)group) % 3;
    for (int h = 0; h < w->n_hosts && sees > 0; h++)
        if ((group >> h & 1) != (sees == 1)) w->cut[h][VOTES] += by;
}

static void cut_split(world *w, int group, int by) {
    cut_votes(w, group, by);
    for (int a = 0; a < w->n_hosts; a++)
        for (int b = 0; b < w->n_hosts; b++)
            if ((group >> a & 1) != (group >> b & 1)) w->cut[a][b] += by;
}

static void leave(world *w, int slot) {
    wefti_member_event e = {.kind = WEFTI_EVENT_LEAVE};
    if (wefti_member_get_state(w->nodes[slot].m) >= WEFTI_MEMBER_IN)
        step_node(w, slot, &e);
}

void begin_fault(world *w, int k) {
    fault *f = &w->faults[k];
    if (w->is_healed) return;
    int slot = f->kind == FAULT_SPLIT || f->kind == FAULT_KILL_SENDER
                   ? -1
                   : w->slot_of_host[f->a];
    event end = {.kind = EV_FAULT_END, .to = k, .at_us = w->now_us + f->for_us};
    trace(w, "fault %d: %s %d %d", k, names[f->kind], f->a, f->b);
    switch (f->kind) {
    case FAULT_KILL:
        if (slot >= 0) kill_slot(w, slot, true, f->comes_back);
        return;
    case FAULT_POWER:
        if (slot >= 0) kill_slot(w, slot, false, f->comes_back);
        return;
    case FAULT_LEAVE:
        if (slot >= 0) leave(w, slot);
        return;
    case FAULT_PAUSE:
        if (slot >= 0) w->nodes[slot].paused_until_us = w->now_us + f->for_us;
        return;
    case FAULT_KILL_SENDER:
        w->sender_kind = f->a;
        w->sender_count = f->b;
        w->sender_comes_back = f->comes_back;
        return;
    case FAULT_CUT: w->cut[f->a][f->b] += f->a != f->b; break;
    case FAULT_SPLIT: cut_split(w, f->a, 1); break;
    case FAULT_SLOW: w->slow[f->a][f->b]++; break;
    case FAULT_LOSS: w->loss_percent += f->percent; break;
    case FAULT_KINDS: return;
    }
    push(w, &end);
}

void end_fault(world *w, int k) {
    const fault *f = &w->faults[k];
    if (w->is_healed) return;
    switch (f->kind) {
    case FAULT_CUT: w->cut[f->a][f->b] -= f->a != f->b; break;
    case FAULT_SPLIT: cut_split(w, f->a, -1); break;
    case FAULT_SLOW: w->slow[f->a][f->b]--; break;
    case FAULT_LOSS: w->loss_percent -= f->percent; break;
    default: break;
    }
}

void print_fault(const fault *f) {
    printf("    %9.6f s  %s", (double)f->at_us * 1e-6, names[f->kind]);
    switch (f->kind) {
    case FAULT_KILL_SENDER:
        printf(" of message %d of kind %d%s", f->b, f->a,
               f->a == WEFTI_SAY_KINDS ? " (pieces)" : "");
        break;
    case FAULT_SPLIT:
        printf(", group %x, %.3f s", (unsigned)f->a, (double)f->for_us * 1e-6);
        break;
    case FAULT_CUT:
    case FAULT_SLOW:
        printf(" from host %d to %d, %.3f s", f->a, f->b, (double)f->for_us * 1e-6);
        break;
    case FAULT_LOSS:
        printf(" of %d %%, %.3f s", f->percent, (double)f->for_us * 1e-6);
        break;
    case FAULT_PAUSE:
        printf(" of host %d, %.3f s", f->a, (double)f->for_us * 1e-6);
        break;
    default: printf(" of host %d", f->a);
    }
    bool may_return = f->kind == FAULT_KILL || f->kind == FAULT_POWER ||
                      f->kind == FAULT_KILL_SENDER;
    printf("%s\n", may_return && f->comes_back ? ", it comes back" : "");
}
