/* SPDX-License-Identifier: MIT */
/* The rules and limits of a run, from what its user sets: the program, its library and the
 * simulator (bench/membership) all take them from here. */
#include "member/member.h"

/* Unfinished steps of all ranks if the status of a step is read at once. With a lag the
 * last rank to begin is `lag` steps behind the first, and has the status of as many steps
 * to read. */
enum { WINDOW = 2, ROUNDS = 2, ONE_MORE = 1 };

wefti_member_policy wefti_member_policy_default(void) {
    return (wefti_member_policy){.alive_us = 200000,
                                 .silence_us = 1000000,
                                 .probe_us = 300000,
                                 .late_us = 100000,
                                 .link_us = 3000000,
                                 .answer_us = 500000,
                                 .takeover_us = 500000,
                                 .retry_us = 100000,
                                 .patience_us = 10000000,
                                 .gather_us = 300000,
                                 .join_us = 600000000,
                                 .pause_us = 600000000,
                                 .vote_us = 1000000};
}

static int64_t us_of(double s) { return (int64_t)(s * 1e6); }

wefti_member_policy wefti_member_policy_of(const wefti_member_rules *rules) {
    wefti_member_policy p = wefti_member_policy_default();
    p.unit = rules->shards;
    p.split = rules->split;
    if (rules->has_witness) p.tie = WEFTI_TIE_WITNESS;
    p.silence_us = us_of(rules->silence_s);
    p.pause_us = us_of(rules->pause_s);
    p.patience_us = rules->patience_s > 0 ? us_of(rules->patience_s) : 0;
    p.rests_count = rules->own_loop;
    return p;
}

wefti_member_limits wefti_member_limits_of(int max_nodes, int lag, int units) {
    return (wefti_member_limits){max_nodes, WINDOW + 2 * lag, ROUNDS,
                                 2 * units + ONE_MORE};
}
