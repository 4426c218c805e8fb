/* SPDX-License-Identifier: MIT */
/* Creates and frees a node's machine: everything that it will ever need is allocated at
 * once, for max_nodes. */
#include "member/memberstate.h"

#include <string.h>

#include "base/memory.h"

void wefti_member_set_patience(wefti_member *m, int64_t patience_us) {
    m->config.policy.patience_us = patience_us;
}

/* -- create -- */

bool wefti_member_fits(const wefti_member_limits *l) {
    return l->max_nodes <= WEFTI_MEMBER_MAX_NODES && l->parts <= WEFTI_MEMBER_MAX_PARTS &&
           (int64_t)wefti_view_max_departed(l) * l->window <= UINT16_MAX;
}

static weft_status check_config(weft_ctx *ctx, const wefti_member_config *c) {
    const wefti_member_limits *l = &c->limits;
    if (l->max_nodes < 1 || l->max_nodes > WEFTI_MEMBER_MAX_NODES || l->window < 1 ||
        l->window > WEFTI_MEMBER_MAX_WINDOW || l->rounds < 1 ||
        l->rounds > WEFTI_MEMBER_MAX_ROUNDS || l->parts < 1 ||
        l->parts > WEFTI_MEMBER_MAX_PARTS)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "membership: %d nodes, a window of %d, %d rounds, %d parts; at most "
            "%d, %d, %d, %d",
            l->max_nodes, l->window, l->rounds, l->parts, WEFTI_MEMBER_MAX_NODES,
            WEFTI_MEMBER_MAX_WINDOW, WEFTI_MEMBER_MAX_ROUNDS, WEFTI_MEMBER_MAX_PARTS);
    if (!wefti_member_fits(l))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "membership: %d nodes with a window of %d steps are too many", l->max_nodes,
            l->window);
    if (c->n_founders < 0 || c->n_founders > l->max_nodes)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "membership: %d founders of at most %d nodes", c->n_founders,
                             l->max_nodes);
    for (int i = 0; i < c->n_founders; i++)
        if (wefti_node_is(c->founders[i].id, c->self)) return WEFT_OK;
    if (c->n_founders == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "membership: this node is not among the %d founders",
                         c->n_founders);
}

static weft_status create_lead(wefti_member *m) {
    const wefti_member_limits *l = &m->config.limits;
    int max_departed = wefti_view_max_departed(l);
    wefti_ballot_tally *t = &m->lead.tally;
    WEFT_TRY(
        wefti_alloc_n(m->ctx, l->max_nodes, sizeof(bool), "a ballot", &m->lead.asked));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, l->max_nodes, sizeof(bool), "a ballot", &m->lead.answered));
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->lead.proposal));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, max_departed, sizeof *t->senders, "a tally", &t->senders));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, max_departed, sizeof *t->counted, "a tally", &t->counted));
    return wefti_alloc_n(m->ctx,
                         (int64_t)max_departed * 2 * l->window * l->rounds * l->parts,
                         sizeof *t->holders, "a tally", &t->holders);
}

static weft_status create_tables(wefti_member *m) {
    const wefti_member_limits *l = &m->config.limits;
    int64_t n = l->max_nodes;
    m->max_peers = 2 * l->max_nodes;
    m->out.max_actions = 24 * l->max_nodes + 64;
    m->out.most_bytes = wefti_message_max_bytes(l);
    m->out.max_bytes = 4 * m->out.most_bytes + 256 * (8 * (size_t)n + 16);
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->view));
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->voter.accepted));
    WEFT_TRY(create_lead(m));
    WEFT_TRY(wefti_message_room_init(m->ctx, l, &m->room));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->max_peers, sizeof *m->peers, "peers", &m->peers));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int), "peers", &m->peer_of_number));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof *m->standings, "peers", &m->standings));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(bool), "a ballot", &m->voter.stays));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(bool), "a ballot", &m->others));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, n, sizeof *m->decided.voters, "votes", &m->decided.voters));
    WEFT_TRY(wefti_alloc_n(m->ctx, n * n, sizeof(int32_t), "complaints",
                           &m->complaints.first));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, n * n, sizeof(int32_t), "complaints", &m->complaints.last));
    WEFT_TRY(wefti_alloc(m->ctx, m->out.most_bytes, "an inventory", &m->voter.answer));
    WEFT_TRY(wefti_alloc(m->ctx, m->out.max_bytes, "messages", &m->out.bytes));
    return wefti_alloc_n(m->ctx, m->out.max_actions, sizeof *m->out.actions.list,
                         "actions", &m->out.actions.list);
}

static void found(wefti_member *m) {
    wefti_view *v = &m->lead.proposal;
    v->number = 1;
    v->n_nodes = m->config.n_founders;
    memcpy(v->nodes, m->config.founders, (size_t)v->n_nodes * sizeof *v->nodes);
    v->first_step = v->nodes[0].first_step; /* above 0 in a run that is resumed */
    v->cut_low = v->first_step - 1;
    v->chain = wefti_view_hash(&m->config.limits, v);
    wefti_member_install(m, v);
}

weft_status wefti_member_create(weft_ctx *ctx, const wefti_member_config *config,
                                wefti_member **out) {
    *out = NULL;
    WEFT_TRY(check_config(ctx, config));
    wefti_member *m;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "membership", &m));
    m->ctx = ctx;
    m->config = *config;
    m->config.founders = NULL;
    WEFTI_TRY_OR(create_tables(m), wefti_member_destroy(m));
    m->now_us = config->now_us;
    m->steps = (wefti_member_steps){-1, -1, -1};
    m->number = -1;
    m->state = WEFTI_MEMBER_JOINING;
    m->joining.since_us = m->now_us;
    m->config.founders = config->founders;
    if (config->n_founders > 0) found(m);
    m->config.founders = NULL; /* borrowed only during this call */
    m->out.wake_us = m->now_us;
    *out = m;
    return WEFT_OK;
}

void wefti_member_destroy(wefti_member *m) {
    if (!m) return;
    weft_ctx *ctx = m->ctx;
    wefti_view_fini(ctx, &m->view);
    wefti_view_fini(ctx, &m->voter.accepted);
    wefti_view_fini(ctx, &m->lead.proposal);
    wefti_message_room_fini(ctx, &m->room);
    void *blocks[] = {m->peers,
                      m->peer_of_number,
                      m->standings,
                      m->voter.stays,
                      m->others,
                      m->decided.voters,
                      m->complaints.first,
                      m->complaints.last,
                      m->voter.answer,
                      m->out.bytes,
                      m->out.actions.list,
                      m->lead.asked,
                      m->lead.answered,
                      m->lead.tally.senders,
                      m->lead.tally.counted,
                      m->lead.tally.holders};
    for (size_t k = 0; k < sizeof blocks / sizeof blocks[0]; k++)
        wefti_free(ctx, blocks[k]);
    wefti_free(ctx, m);
}
