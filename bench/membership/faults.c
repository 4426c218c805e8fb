/* SPDX-License-Identifier: MIT */
/* What goes wrong, and when: a list that the seed makes, so that it can be shortened. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static const char *const names[FAULT_KINDS] = {"kill",
                                               "power off",
                                               "pause",
                                               "cut",
                                               "split",
                                               "slow link",
                                               "loss",
                                               "loss of a kind",
                                               "leave",
                                               "kill the sender",
                                               "pause the sender",
                                               "cut the sender",
                                               "delay the sender",
                                               "lie"};

/* Kinds of messages that are good moments for a fault; WEFTI_SAY_KINDS: a piece. */
static const int moments[] = {WEFTI_SAY_FLUSH,   WEFTI_SAY_FLUSH,   WEFTI_SAY_FLUSH_OK,
                              WEFTI_SAY_VIEW,    WEFTI_SAY_VIEW,    WEFTI_SAY_VIEW_OK,
                              WEFTI_SAY_INSTALL, WEFTI_SAY_SUSPECT, WEFTI_SAY_KINDS,
                              WEFTI_SAY_KINDS};

static bool is_of_sender(fault_kind kind) {
    return kind >= FAULT_KILL_SENDER && kind <= FAULT_DELAY_SENDER;
}

static fault make_fault(world *w) {
    static const int weights[FAULT_KINDS] = {5, 2, 3, 3, 2, 1, 2, 2, 1, 5, 5, 4, 5, 0};
    fault f = {
        .at_us = draw_below(w, w->opt.fault_us * 3 / 4), .sender = -1, .hidden = -1};
    int64_t r = draw_below(w, 40);
    for (int k = 0; k < FAULT_KINDS; k++) {
        f.kind = (fault_kind)k;
        if (r < weights[k]) break;
        r -= weights[k];
    }
    f.for_us = 20000 + draw_below(w, draw(w) % 2 ? 300000 : 3000000);
    f.a = (int)draw_below(w, w->n_hosts);
    f.b = (int)draw_below(w, w->n_hosts);
    if (is_of_sender(f.kind)) {
        f.a = moments[draw_below(w, (int64_t)(sizeof moments / sizeof moments[0]))];
        f.b = 1 + (int)draw_below(w, f.a == WEFTI_SAY_KINDS ? 60 : 12);
        if (f.kind != FAULT_KILL_SENDER) f.for_us += 300000;
    }
    if (f.kind == FAULT_SPLIT) f.a = 1 + (int)draw_below(w, (1 << w->n_hosts) - 2);
    f.percent = 2 + (int)draw_below(w, 30);
    if (f.kind == FAULT_LOSS_OF_KIND) {
        f.a = WEFTI_SAY_FLUSH + (int)draw_below(w, 5); /* to INSTALL */
        f.percent = 20 + (int)draw_below(w, 60);
    }
    f.is_deaf = draw(w) % 2;
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

/* Leaders that compete: somebody is lost, messages of a ballot are lost, and who sends one stops,
 * is cut off, or is heard too late. */
static void make_storm(world *w) {
    static const fault_kind kinds[] = {FAULT_PAUSE_SENDER, FAULT_CUT_SENDER,
                                       FAULT_DELAY_SENDER, FAULT_KILL_SENDER};
    static const int of[] = {WEFTI_SAY_FLUSH, WEFTI_SAY_VIEW, WEFTI_SAY_VIEW_OK};
    int64_t at_us = draw_below(w, w->opt.fault_us / 2);
    int n = 3 + (int)draw_below(w, 4);
    bool loses = draw(w) % 2; /* somebody else than a leader */
    for (int i = loses ? 0 : 1; i <= n && w->n_faults < FAULTS; i++) {
        fault f = make_fault(w);
        f.at_us = at_us + draw_below(w, 100000);
        f.a = i == 0   ? (int)draw_below(w, w->n_hosts)
              : i % 2  ? WEFTI_SAY_VIEW
              : i == 2 ? WEFTI_SAY_FLUSH
                       : of[draw_below(w, 3)];
        f.kind = i == 0                  ? draw(w) % 2 ? FAULT_KILL : FAULT_PAUSE
                 : i % 2                 ? kinds[draw_below(w, 4)]
                 : i == 2 || draw(w) % 2 ? FAULT_LOSS_OF_KIND
                                         : kinds[draw_below(w, 4)];
        if (i > 0) f.b = 1 + (int)draw_below(w, 6);
        if (f.kind == FAULT_LOSS_OF_KIND) f.percent = 20 + (int)draw_below(w, 60);
        if (f.is_deaf) f.percent = 100;
        f.for_us = 300000 + draw_below(w, 2500000);
        if (i > 0 && i < 3) f.for_us += 1500000; /* until the next leader asks */
        if (i % 2) f.hidden = (int)draw_below(w, w->n_hosts);
        f.is_off = w->faults[w->n_faults].is_off;
        w->faults[w->n_faults++] = f;
    }
}

void make_faults(world *w) {
    w->n_faults = 1 + (int)draw_below(w, 11);
    for (int k = 0; k < w->n_faults; k++) {
        bool is_off = w->faults[k].is_off;
        w->faults[k] = make_fault(w);
        make_split(w, &w->faults[k], k);
        w->faults[k].is_off = is_off;
        /* some come together */
        if (k > 0 && draw(w) % 3 == 0)
            w->faults[k].at_us = w->faults[k - 1].at_us + draw_below(w, 1500000);
    }
    for (int k = 0; w->has_liar && k < 6 && w->n_faults < FAULTS; k++) {
        fault f = make_fault(w);
        f.kind = FAULT_LIE;
        f.a = w->n_founders - 1;
        f.is_off = w->faults[w->n_faults].is_off;
        w->faults[w->n_faults++] = f;
    }
    if (w->has_storm) make_storm(w);
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

/* On their way to one host, or to all. */
static void lose_kind(world *w, const fault *f, int by) {
    for (int h = 0; h < w->n_hosts; h++)
        if (!f->is_deaf || h == f->b % w->n_hosts) w->loss_of_kind[f->a][h] += by;
}

/* Of two leaves one may be because it and a lower-numbered member can not hear each other. */
static void leave(world *w, int slot, int k) {
    wefti_member_event e = {.kind = WEFTI_EVENT_LEAVE};
    const wefti_member *m = w->nodes[slot].m;
    uint64_t r = mix(w->seed, 2000 + (uint64_t)k);
    if (wefti_member_get_state(m) < WEFTI_MEMBER_IN) return;
    if (r % 2 && wefti_member_number(m) > 0) {
        e.kind = WEFTI_EVENT_YIELD;
        e.peer = wefti_member_view(m)->nodes[r / 2 % (uint64_t)wefti_member_number(m)].id;
    }
    step_node(w, slot, &e);
}

void begin_fault(world *w, int k) {
    fault *f = &w->faults[k];
    if (w->is_healed) return;
    bool no_host = f->kind == FAULT_SPLIT || f->kind == FAULT_LOSS_OF_KIND ||
                   is_of_sender(f->kind);
    int slot = no_host ? -1 : w->slot_of_host[f->a];
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
        if (slot >= 0) leave(w, slot, k);
        return;
    case FAULT_PAUSE:
        if (slot >= 0) w->nodes[slot].paused_until_us = w->now_us + f->for_us;
        return;
    case FAULT_KILL_SENDER:
    case FAULT_PAUSE_SENDER:
    case FAULT_CUT_SENDER:
    case FAULT_DELAY_SENDER: w->armed[w->n_armed++] = k; return;
    case FAULT_CUT: w->cut[f->a][f->b] += f->a != f->b; break;
    case FAULT_SPLIT: cut_split(w, f->a, 1); break;
    case FAULT_SLOW: w->slow[f->a][f->b]++; break;
    case FAULT_LIE:
        if (slot >= 0) tell_lie(w, slot);
        return;
    case FAULT_LOSS: w->loss_percent += f->percent; break;
    case FAULT_LOSS_OF_KIND: lose_kind(w, f, f->percent); break;
    case FAULT_KINDS: return;
    }
    push(w, &end);
}

/* Nobody hears a host, or it hears nobody. */
static void cut_host(world *w, const fault *f, int by) {
    for (int h = 0; h < w->n_hosts; h++) {
        if (h == f->sender) continue;
        *(f->is_deaf ? &w->cut[h][f->sender] : &w->cut[f->sender][h]) += by;
    }
}

static void strike(world *w, int slot, int k) {
    fault *f = &w->faults[k];
    node *n = &w->nodes[slot];
    event end = {.kind = EV_FAULT_END, .to = k, .at_us = w->now_us + f->for_us};
    trace(w, "fault %d: %s, node %d, of a message of kind %d", k, names[f->kind], slot,
          f->a);
    f->sender = n->host;
    if (f->kind == FAULT_KILL_SENDER) kill_slot(w, slot, true, f->comes_back);
    if (f->kind == FAULT_PAUSE_SENDER) n->paused_until_us = w->now_us + f->for_us;
    if (f->kind == FAULT_CUT_SENDER) cut_host(w, f, 1);
    if (f->kind == FAULT_DELAY_SENDER) w->delay_us[n->host] += f->for_us;
    if (f->hidden >= 0) w->loss_of_kind[WEFTI_SAY_FLUSH][f->hidden] += 100;
    push(w, &end);
}

/* A node sends a message of this kind: is it one that a fault waits for? */
void watch_sender(world *w, int slot, int kind) {
    for (int i = 0; i < w->n_armed; i++) {
        int k = w->armed[i];
        if (w->faults[k].a != kind || --w->faults[k].b > 0) continue;
        w->armed[i--] = w->armed[--w->n_armed];
        if (w->nodes[slot].alive) strike(w, slot, k);
    }
}

void end_fault(world *w, int k) {
    const fault *f = &w->faults[k];
    if (w->is_healed) return;
    if (f->hidden >= 0) w->loss_of_kind[WEFTI_SAY_FLUSH][f->hidden] -= 100;
    switch (f->kind) {
    case FAULT_CUT: w->cut[f->a][f->b] -= f->a != f->b; break;
    case FAULT_SPLIT: cut_split(w, f->a, -1); break;
    case FAULT_SLOW: w->slow[f->a][f->b]--; break;
    case FAULT_LOSS: w->loss_percent -= f->percent; break;
    case FAULT_LOSS_OF_KIND: lose_kind(w, f, -f->percent); break;
    case FAULT_CUT_SENDER: cut_host(w, f, -1); break;
    case FAULT_DELAY_SENDER: w->delay_us[f->sender] -= f->for_us; break;
    default: break;
    }
}

void print_fault(const fault *f) {
    printf("    %9.6f s  %s", (double)f->at_us * 1e-6, names[f->kind]);
    switch (f->kind) {
    case FAULT_KILL_SENDER:
    case FAULT_PAUSE_SENDER:
    case FAULT_CUT_SENDER:
    case FAULT_DELAY_SENDER:
        printf(" of a message of kind %d%s%s, %.3f s", f->a,
               f->a == WEFTI_SAY_KINDS ? " (pieces)" : "",
               f->kind == FAULT_CUT_SENDER && f->is_deaf ? ", deaf" : "",
               (double)f->for_us * 1e-6);
        break;
    case FAULT_SPLIT:
        printf(", group %x, %.3f s", (unsigned)f->a, (double)f->for_us * 1e-6);
        break;
    case FAULT_CUT:
    case FAULT_SLOW:
        printf(" from host %d to %d, %.3f s", f->a, f->b, (double)f->for_us * 1e-6);
        break;
    case FAULT_LOSS_OF_KIND:
        printf(" %d, %d %%%s, %.3f s", f->a, f->percent, f->is_deaf ? ", to one" : "",
               (double)f->for_us * 1e-6);
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
