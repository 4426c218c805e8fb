/* SPDX-License-Identifier: MIT */
/* The user's rules for membership, translated for the machine, and patience: how long the
 * others wait for a process that lives but does not send.
 *
 *     patience = elastic.patience, or max(30 s, 5 s_max)    s_max: the longest of the last steps
 *
 * A step takes as long as that of the slowest rank, since all wait for it. So a machine
 * that is always slow is never given up, but one that has stopped is. Patience begins after
 * the first steps; before that, ranks wait for a slow start without limit. Giving up a live
 * process means that a person has to restart it, waiting too long costs only half a minute:
 * hence the 30 s. */
#include "mesh/elastic.h"

#include <math.h>

#include "base/clock.h"
#include "base/lock.h"

static const double least_patience_s = 30, patience_steps = 5, step_decay = 0.95,
                    ask_every_s = 5;
enum { STEPS_TO_TELL = 3 };

wefti_member_policy wefti_elastic_member_policy(const wefti_elastic_setup *setup) {
    const wefti_elastic_policy *p = &setup->policy;
    wefti_member_rules rules = {.shards = setup->shards,
                                .split = p->split,
                                .has_witness = p->witness && p->witness[0],
                                .own_loop = p->own_loop,
                                .silence_s = p->silence_s,
                                .patience_s = p->patience_s,
                                .pause_s = p->pause_s};
    return wefti_member_policy_of(&rules);
}

double wefti_elastic_patience(const wefti_elastic *e) {
    double said_s = e->setup.policy.patience_s;
    if (said_s != 0) return fmax(said_s, 0);
    return e->own.step_s > 0 ? fmax(least_patience_s, patience_steps * e->own.step_s) : 0;
}

void wefti_elastic_learn_step(wefti_elastic *e, double step_s) {
    WEFTI_ASSERT(step_s >= 0);
    if (++e->own.n_steps < STEPS_TO_TELL) return;
    e->own.step_s = fmax(step_decay * e->own.step_s, step_s);
}

/* The disk may be slow: neither messages nor signs of life wait for it. */
static bool ask_folder(const weft_mesh *mesh, int64_t view) {
    WEFTI_ASSERT_FREE(&mesh->lock);
    WEFTI_ASSERT(!pthread_equal(pthread_self(), mesh->thread.id));
    const wefti_elastic_setup *s = &mesh->elastic->setup;
    if (!s->has_ended) return wefti_ended_after(s->folder, s->run, view);
    return s->has_ended(s->user, s->run, view);
}

bool wefti_elastic_may_wait(weft_mesh *mesh, double *until_s) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    if (!e || e->end.ask_s <= 0 || atomic_load(&mesh->world.poisoned)) return true;
    *until_s = fmin(*until_s, e->end.ask_s);
    if (wefti_now_s() < e->end.ask_s) return true;
    e->end.ask_s = (double)INFINITY; /* nobody else does meanwhile */
    int64_t view = e->view.number;
    bool over = e->end.over_s > 0;
    pthread_mutex_unlock(&mesh->lock);
    bool ended = ask_folder(mesh, view);
    pthread_mutex_lock(&mesh->lock);
    e->end.has_ended = e->end.has_ended || ended;
    e->end.asked_since = e->end.asked_since || over;
    if (isinf(e->end.ask_s)) e->end.ask_s = wefti_now_s() + ask_every_s;
    return false;
}
