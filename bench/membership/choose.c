/* SPDX-License-Identifier: MIT */
/* What a seed decides before the first event: hosts, method, network, and the policy. The
 * policy and the limits are those of a run (lib/member/policy.c); times are drawn around
 * their defaults, because machines differ and users set some of them. */
#include "world.h"

/* In one of five worlds a witness gives votes; in some of these it dies and stays so. */
static void choose_votes(world *w) {
    uint64_t r = mix(w->seed, 0x766f746573);
    w->votes_end_us = 0;
    w->votes.n = 0;
    if (!w->opt.votes && r % 5 > 0) return;
    bool dies = r / 8 % 4 == 0;
    w->votes_end_us = dies ? 1 + (int64_t)(r / 64 % (uint64_t)w->opt.fault_us)
                           : INT64_MAX;
}

/* Ranks that share one copy of the model come and go together: whole copies only. */
static void choose_hosts(world *w) {
    static const int units[] = {1, 1, 1, 1, 2, 3};
    w->unit = units[draw_below(w, (int64_t)(sizeof units / sizeof units[0]))];
    w->has_liar = draw(w) % 6 == 0;
    w->liar = -1;
    w->has_storm = draw(w) % 3 > 0; /* of ballots: faults.c */
    w->n_founders = w->opt.nodes   ? w->opt.nodes
                    : w->has_storm ? 4 + (int)draw_below(w, 5)
                                   : 2 + (int)draw_below(w, 5);
    if (w->n_founders < 2 * w->unit) w->unit = 1;
    w->n_founders -= w->n_founders % w->unit;
    w->n_hosts = w->n_founders + (int)draw_below(w, 3);
    if (w->n_hosts > HOSTS) w->n_hosts = HOSTS;
    w->n_hosts -= w->n_hosts % w->unit;
}

/* With a lag a step is over only when its status is read, so many steps later: 1 with an
 * exchange behind the next step, 8 with gossip. */
static void choose_method(world *w) {
    static const int lags[] = {0, 0, 1, 8};
    uint64_t r = draw(w);
    w->how = w->opt.method < METHODS ? (method)w->opt.method
             : r % 8 < 4             ? GATHER
             : r % 8 < 7             ? OWNER
                                     : GOSSIP;
    w->lag = lags[draw_below(w, w->how == OWNER ? 3 : 4)];
    w->n_parts = w->how == GATHER ? 2 : w->how == OWNER ? HOSTS : 1;
    w->limits = wefti_member_limits_of(HOSTS, w->how == GOSSIP ? 8 : w->lag, UNITS);
    if (w->how == GOSSIP) w->lag = 0; /* pairs meet in their step */
}

/* From a quarter of it to twice as long. */
static void vary(world *w, int64_t *us) {
    *us = (*us / 4 + draw_below(w, *us * 3 / 4 + 1)) << draw_below(w, 2);
}

static void choose_policy(world *w) {
    wefti_member_policy *p = &w->policy;
    wefti_member_rules rules = {.shards = w->unit,
                                .has_witness = w->votes_end_us > 0,
                                .own_loop = draw(w) % 8 == 0,
                                .silence_s = 1,
                                .patience_s = 4,
                                .pause_s = 600};
    *p = wefti_member_policy_of(&rules);
    int64_t *times[] = {&p->alive_us,    &p->silence_us, &p->probe_us, &p->late_us,
                        &p->link_us,     &p->answer_us,  &p->retry_us, &p->takeover_us,
                        &p->patience_us, &p->gather_us,  &p->vote_us};
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++) vary(w, times[k]);
}

/* Of eight worlds one tells its machines each step at once; in two it is as in lib/mesh, which
 * looks when the machine wakes; the others look as often as once in 1 to 100 ms, too. */
static void choose_feed(world *w) {
    uint64_t r = mix(w->seed, 0x66656564);
    w->feed_us = w->opt.feed_us >= 0 ? w->opt.feed_us
                 : r % 8 == 0        ? 0
                 : r % 8 < 3         ? -1
                                     : 1000 + (int64_t)(r / 8 % 99001);
}

void choose(world *w) {
    w->draws = w->seed * 0x9E3779B97F4A7C15u + 1;
    choose_hosts(w);
    choose_method(w);
    w->has_launchers = draw(w) % 4 > 0;
    w->is_fifo = draw(w) % 4 > 0;
    w->latency_us = draw(w) % 3 ? 200 + draw_below(w, 2000) : 5000 + draw_below(w, 45000);
    choose_feed(w);
    choose_votes(w);
    choose_policy(w);
}
