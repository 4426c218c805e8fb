/* SPDX-License-Identifier: MIT */
/* What has to hold in every world:
 *
 *     a step belongs to one view, for all who do it: no two parts train on
 *     it is exchanged in one form, and its bits are the same where that makes replicas equal; else
 *     the mean at the end
 *     the number of steps, and what the program keeps beside, count each step once
 *     who ends says why, with a sentence that the documents know
 *     after the last fault all that live get into one world, train, and end together */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { MOST_STEPS = 1 << 16 };
static step_record steps[MOST_SHARDS][MOST_STEPS];
static uint64_t end_sum[MOST_SHARDS];
static bool has_sum[MOST_SHARDS];
static int n_ends;
int64_t goal_step, all_steps, n_changes;
static bool scheduled;

/* Of two processes that have done a step, with one view. */
static void same_view(const step_record *a, const step_record *b) {
    if (a->step && (a->view != b->view || a->size != b->size))
        fail_world("split: %s does step %lld in view %lld of %d, %s in view %lld of %d",
                   b->by, (long long)b->step, (long long)b->view, b->size, a->by,
                   (long long)a->view, a->size);
}

/* A step counts when all members have finished it: the process has come `window` steps further.
 * What one that is left behind did last is lost with it. */
static void commit(life *l, int64_t up_to) {
    while (l->n_pending > 0 && l->pending[0].step <= up_to) {
        step_record new = l->pending[0], *s = &steps[new.shard][new.step];
        memmove(l->pending, l->pending + 1, (size_t)--l->n_pending * sizeof new);
        for (int k = 0; k < the_plan.shards; k++) same_view(&steps[k][new.step], &new);
        if (s->step == 0) {
            *s = new;
            continue;
        }
        if (s->form != new.form)
            fail_world("split: %s does step %lld in form %lld, %s in %lld", new.by,
                       (long long)new.step, (long long)new.form, s->by,
                       (long long)s->form);
        if (new.equal && s->sum != new.sum)
            fail_world("%s and %s have other parameters after step %lld", new.by, s->by,
                       (long long)new.step);
    }
}

void check_step(life *l, const step_record *done, int64_t window) {
    int64_t t = done->step;
    trace("step %lld done, view %lld of %d, %016llx", (long long)t, (long long)done->view,
          done->size, (unsigned long long)done->sum);
    if (l->beside != t * (t + 1) / 2)
        fail_world("%s counts steps twice, or not: %lld after step %lld",
                   l->process->name, (long long)l->beside, (long long)t);
    if (t > all_steps) all_steps = t;
    if (t < 1 || t >= MOST_STEPS || l->n_pending == MOST_PENDING) {
        fail_world("step %lld of %s", (long long)t, l->process->name);
        return;
    }
    l->pending[l->n_pending++] = *done;
    commit(l, t - window);
}

bool end_is_known(void) { return n_ends > 0; }

int64_t committed_view(int64_t step) {
    return steps[0][step].step ? steps[0][step].view : 0;
}

int64_t newest_commit(void) {
    int64_t t = all_steps;
    while (t > 0 && steps[0][t].step == 0) t--;
    return t;
}

void check_end(life *l, uint64_t sum, bool mean) {
    trace("end, %016llx", (unsigned long long)sum);
    commit(l, l->steps);
    if (l->steps != goal_step)
        fail_world("%s ends with step %lld of %lld", l->process->name,
                   (long long)l->steps, (long long)goal_step);
    n_ends++;
    if (sum == 0) return; /* not to be compared, or of a learner to the end */
    if (has_sum[l->shard] && sum != end_sum[l->shard])
        fail_world("%s ends with other %s than the others", l->process->name,
                   mean ? "means" : "parameters");
    end_sum[l->shard] = sum;
    has_sum[l->shard] = true;
}

/* What an error may be about: docs/membership.md. */
static const char *const allowed[] = {
    "went on without it",
    "hears too few of the others",
    "can be joined",
    "can not be joined",
    "was not taken in",
    "it may join again",
    "the run has ended without it",
    "writes nothing there",                     /* descent.c */
    "while this process was silent; this one",  /* lease.c */
    "was removed: another run may write there", /* the others have ended it */
    "has lost a process that was giving it parameters and state",
    "which held a part of the same copy of the model, has ended",
    "the others go on without this copy",
};

void check_error(life *l, const char *why) {
    bool fine = false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        fine = fine || strstr(why, allowed[i]);
    fine = fine ||
           (!the_plan.mild && strstr(why, "all who had parameters and state are lost"));
    /* all whom the other one can call may be gone for good */
    fine = fine || (!the_plan.mild && strstr(why, "came into the run, expected"));
    fine = fine || (l->other && strstr(why, "all ranks must have the same"));
    fine = fine || (goal_step > 0 && strstr(why, "stopped while text was read"));
    bool is_over = goal_step > 0 &&
                   n_ends > 0; /* the others ended, and did not wait for it */
    fine = fine || (is_over && strstr(why, "has left, but rank"));
    if (!why[0]) fail_world("%s ends and does not say why", l->process->name);
    if (!fine && !w.over) fail_world("%s ends: %s", l->process->name, why);
}

/* --- progress --- */

static bool lives_now(const life *l) {
    return !l->ended && (!l->process || !l->process->dead);
}

static void describe(char *out, size_t size) {
    size_t n = 0;
    for (int i = 0; i < n_lives && n + 200 < size; i++) {
        const life *l = lives[i];
        if (!lives_now(l)) continue;
        n += (size_t)snprintf(
            out + n, size - n, "%s%s %s at step %lld, view %lld of %d, %.1f s ago",
            n ? "; " : "", l->process ? l->process->name : "?",
            l->training ? "trains" : "waits", (long long)l->steps, (long long)l->view,
            l->size, (double)(w.now_ns - l->stepped_ns) / 1e9);
    }
}

/* All that live take part in one world. */
static bool all_train(void) {
    int n = 0;
    int64_t view = -1;
    for (int i = 0; i < n_lives; i++) {
        const life *l = lives[i];
        if (!lives_now(l)) continue;
        n++;
        if (!l->training || l->steps < l->first_step + 2 ||
            w.now_ns - l->stepped_ns > SECOND + 3 * the_plan.compute_ns)
            return false;
        if (view >= 0 && l->view != view) return false;
        view = l->view;
    }
    for (int i = 0; i < n_lives; i++)
        if (lives_now(lives[i]) && lives[i]->size != n) return false;
    return n > 0;
}

static bool somebody_trains(void) {
    for (int i = 0; i < n_lives; i++)
        if (lives_now(lives[i]) && lives[i]->training &&
            w.now_ns - lives[i]->stepped_ns < 10 * SECOND)
            return true;
    return false;
}

/* Whom those that have done the last step went on without may wait for elastic.pause, if all of
 * them had ended for longer than their guards speak. */
static bool is_behind(const life *l) {
    int64_t newest = 0;
    for (int i = 0; i < n_lives; i++)
        if (lives[i]->newest > newest) newest = lives[i]->newest;
    return n_ends > 0 && l->view < newest;
}

static void look_at_end(void) {
    char text[2000] = "";
    bool all = true;
    for (int i = 0; i < n_lives; i++) {
        const life *l = lives[i];
        bool busy = l->steps == goal_step ||
                    (l->training && (!is_behind(l) || the_plan.ends));
        all = all && !(lives_now(l) && busy);
    }
    if (all) w.over = true;
    if (all && n_ends == 0 && the_plan.mild) fail_world("nobody has done the last step");
    if (all || w.now_ns < the_plan.heal_ns + the_plan.bound_ns + 60 * SECOND) return;
    describe(text, sizeof text);
    fail_world("does not end after step %lld: %s", (long long)goal_step, text);
}

static void watch(void *argument) {
    char text[2000] = "";
    at_time(w.now_ns + 250 * MS, watch, argument);
    kept_look();
    if (!scheduled && (all_train() || the_plan.early)) {
        scheduled = true;
        plan_schedule();
    }
    if (!scheduled && w.now_ns > 60 * SECOND) {
        describe(text, sizeof text);
        fail_world("the run does not begin: %s", text);
    }
    if (!scheduled || w.now_ns < the_plan.heal_ns) return;
    if (goal_step > 0) {
        look_at_end();
        return;
    }
    bool late = w.now_ns > the_plan.heal_ns + the_plan.bound_ns;
    if (all_train() || (late && !the_plan.mild && somebody_trains())) {
        goal_step = all_steps + 6;
        trace("all train: the last step is %lld", (long long)goal_step);
        the_plan.heal_ns = w.now_ns - the_plan.bound_ns;
    } else if (late && !the_plan.mild)
        w.over = true;
    else if (late) {
        describe(text, sizeof text);
        fail_world("no progress: %s", text);
    }
}

void check_schedule(void) { watch(NULL); }
