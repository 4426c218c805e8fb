/* SPDX-License-Identifier: MIT */
/* A few machines joined by hand, and their time. */
#pragma once

#include "check.h"

#include <stdlib.h>

#include "member/member.h"

enum { MOST = 5 };

typedef struct group {
    weft_ctx *ctx;
    int n;
    int64_t now_us;
    wefti_view_node nodes[MOST];
    wefti_member *m[MOST];
    bool deaf[MOST]; /* messages to it are lost */
    int installs[MOST], frozen[MOST];
    wefti_member_out out[MOST];
    wefti_member_record record[MOST]; /* the last one that its host keeps */
    int sent[WEFTI_SAY_KINDS];
    bool cut[MOST][MOST];       /* messages between these two are lost */
    bool lost[WEFTI_SAY_KINDS]; /* and of these kinds */
    wefti_member_policy policy; /* what is 0 is the default */
    wefti_votes *witness; /* NULL: there is none; else asked at once by whom it hears */
    bool unseen[MOST];    /* the witness does not hear it */
    int n_asked;
    int unit; /* nodes that enter together, by their keys; 0: each for itself */
    struct {
        int to, from;
        size_t n;
        unsigned char bytes[2048];
    } queue[512];
    int n_queue;
} group;

static inline void feed(group *g, int i, const wefti_member_event *event);

/* The witness's answer comes with the next event. */
static inline void ask_votes(group *g, int i, const wefti_vote *vote) {
    wefti_member_event e = {.kind = WEFTI_EVENT_VOTE, .vote = *vote};
    g->n_asked++;
    if (g->unseen[i]) return;
    wefti_vote_answer answer = wefti_votes_judge(g->witness, vote);
    if (answer == WEFTI_VOTE_NEW) wefti_votes_give(g->witness, vote);
    e.given = answer <= WEFTI_VOTE_GIVEN;
    feed(g, i, &e);
}

static inline void do_action(group *g, int i, const wefti_member_action *a) {
    if (a->kind == WEFTI_DO_INSTALL) g->installs[i]++;
    if (a->kind == WEFTI_DO_OUT) g->out[i] = a->out;
    if (a->kind == WEFTI_DO_RECORD) g->record[i] = a->record;
    if (a->kind != WEFTI_DO_SEND) return;
    int to = (int)a->peer.incarnation - 1;
    g->sent[a->bytes[5]]++;
    if (to < 0 || to >= MOST || !g->m[to] || g->deaf[to] || g->cut[i][to] ||
        g->lost[a->bytes[5]])
        return;
    assert_true(g->n_queue < 512 && a->n_bytes <= sizeof g->queue[0].bytes);
    g->queue[g->n_queue].to = to;
    g->queue[g->n_queue].from = i;
    g->queue[g->n_queue].n = a->n_bytes;
    memcpy(g->queue[g->n_queue++].bytes, a->bytes, a->n_bytes);
}

static inline void feed(group *g, int i, const wefti_member_event *event) {
    bool freeze = false, asks = false;
    wefti_vote vote = {0};
    wefti_member_event inventory = {.kind = WEFTI_EVENT_INVENTORY};
    const wefti_member_actions *todo = wefti_member_step(g->m[i], event, g->now_us, 7);
    for (int k = 0; k < todo->n; k++) {
        do_action(g, i, &todo->list[k]);
        if (todo->list[k].kind == WEFTI_DO_ASK) {
            asks = true;
            vote = todo->list[k].vote;
        }
        if (todo->list[k].kind != WEFTI_DO_FREEZE) continue;
        freeze = true;
        inventory.ballot = todo->list[k].ballot;
    }
    if (asks) ask_votes(g, i, &vote);
    if (!freeze) return;
    g->frozen[i]++;
    feed(g, i, &inventory);
}

static inline void deliver_all(group *g) {
    for (int k = 0; k < g->n_queue; k++) {
        int to = g->queue[k].to, from = g->queue[k].from;
        wefti_member_event e = {.kind = WEFTI_EVENT_MESSAGE,
                                .peer = g->nodes[from].id,
                                .bytes = g->queue[k].bytes,
                                .n_bytes = g->queue[k].n};
        if (g->m[to] && !g->deaf[to]) feed(g, to, &e);
    }
    g->n_queue = 0;
}

/* Time passes in steps of 20 ms. */
static inline void pass(group *g, int64_t us) {
    wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
    for (int64_t end = g->now_us + us; g->now_us < end;) {
        g->now_us += 20000;
        for (int i = 0; i < MOST; i++)
            if (g->m[i] && !g->deaf[i]) feed(g, i, &tick);
        deliver_all(g);
    }
}

static inline void add(group *g, int i, int n_founders) {
    wefti_member_config config = {.limits = {MOST, 2, 1, 3},
                                  .policy = wefti_member_policy_default(),
                                  .run = 9,
                                  .config_hash = 1,
                                  .self = g->nodes[i].id,
                                  .n_founders = n_founders,
                                  .founders = g->nodes,
                                  .now_us = g->now_us};
    config.policy.split = g->policy.split;
    config.policy.rests_count = g->policy.rests_count;
    if (g->policy.patience_us) config.policy.patience_us = g->policy.patience_us;
    if (g->policy.pause_us) config.policy.pause_us = g->policy.pause_us;
    if (g->policy.probe_us) config.policy.probe_us = g->policy.probe_us;
    if (g->policy.retry_us) config.policy.retry_us = g->policy.retry_us;
    if (g->policy.silence_us) config.policy.silence_us = g->policy.silence_us;
    if (g->witness) config.policy.tie = WEFTI_TIE_WITNESS;
    config.policy.unit = g->unit;
    assert_ok(g->ctx, wefti_member_create(g->ctx, &config, &g->m[i]));
}

static inline void found(group *g, int n) {
    g->n = n;
    g->now_us = 1000000;
    for (int i = 0; i < MOST; i++) {
        g->nodes[i] = (wefti_view_node){.id = {(uint64_t)i + 1, (uint64_t)i + 1}};
        g->m[i] = NULL;
    }
    for (int i = 0; i < n; i++) add(g, i, n);
    wefti_member_event steps = {.kind = WEFTI_EVENT_STEPS, .steps = {4, 4, 4}};
    for (int i = 0; i < n; i++) feed(g, i, &steps);
    pass(g, 400000);
    memset(g->installs, 0, sizeof g->installs);
}

static inline void end(group *g, int i) {
    wefti_member_destroy(g->m[i]);
    g->m[i] = NULL;
}

static inline void closed(group *g, int i, int dead, wefti_evidence evidence) {
    wefti_member_event e = {
        .kind = WEFTI_EVENT_CLOSED, .peer = g->nodes[dead].id, .evidence = evidence};
    feed(g, i, &e);
}

static inline int64_t view_number(const group *g, int i) {
    return wefti_member_view(g->m[i])->number;
}

static inline int setup(void **state) {
    group *g = calloc(1, sizeof *g);
    *state = g;
    return !g || ctx_begin(&g->ctx);
}

static inline int teardown(void **state) {
    group *g = *state;
    for (int i = 0; i < MOST; i++) wefti_member_destroy(g->m[i]);
    int left = ctx_end(g->ctx);
    free(g);
    return left;
}

static inline void steps_of(group *g, int i, int64_t begun, int64_t sent) {
    wefti_member_event e = {.kind = WEFTI_EVENT_STEPS, .steps = {begun, sent, 4}};
    feed(g, i, &e);
}

static inline void ready(group *g, int joiner) {
    unsigned char bytes[512];
    wefti_message hello = {.kind = WEFTI_SAY_HELLO, .config_hash = 1};
    wefti_message say = {.kind = WEFTI_SAY_READY};
    wefti_message *both[] = {&hello, &say};
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < 2; k++) {
            wefti_member_event e = {
                .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[joiner].id, .bytes = bytes};
            e.n_bytes = wefti_member_encode(g->m[joiner], both[k], bytes, sizeof bytes);
            feed(g, i, &e);
        }
}

static inline void says(group *g, int from, int to, wefti_message *message) {
    unsigned char bytes[2048];
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[from].id, .bytes = bytes};
    e.n_bytes = wefti_member_encode(g->m[from], message, bytes, sizeof bytes);
    assert_true(e.n_bytes > 0);
    feed(g, to, &e);
}
