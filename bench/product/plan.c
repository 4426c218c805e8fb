/* SPDX-License-Identifier: MIT */
/* What a seed draws: how many processes, the method, links, timers; then faults, each at an instant
 * of its own, which lies between any two calls of a thread. A mild plan leaves what the documents
 * ask for: somebody who has the state, and a quorum of it; then the run has to go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

plan the_plan;
static int n_machines; /* the founders', and those of who came */

static const method methods[] = {
    {"ddp", {"method=ddp", "mesh.min_message=1"}, true},
    {"demo",
     {"method=flexdemo", "replicator.compression_chunk=4",
      "replicator.compression_topk=2"},
     true},
    {"dadam", {"method=dadam", "mixer.topology=ring"}, false},
    {"random", {"method=random"}, true},
    {"striding", {"method=striding"}, true},
    {"diloco", {"method=diloco", "mixer.outer_every=3"}, false},
    {"muloco", {"method=muloco", "mixer.outer_every=4"}, false},
    {"choco", {"method=dadam", "mixer.kind=choco", "mixer.topology=ring"}, false},
    {"topk", {"method=topk"}, true},
    {"powersgd", {"method=powersgd"}, true},
};
enum { METHODS = sizeof methods / sizeof *methods };
/* What a run with method=auto may begin with. */
static const method firsts[] = {
    {"auto", {"method=ddp", "mesh.min_message=1"}, false},
    {"auto diloco", {"method=diloco", "mixer.outer_every=3"}, false},
};

static double draw_log(double least, double most) {
    return least * exp(draw_share() * log(most / least));
}

void plan_draw(void) {
    plan *p = &the_plan;
    p->n = (int)draw_between(2, 5);
    if (p->machines) p->n = p->machines;
    p->method = &methods[draw() % METHODS];
    if (p->follows) p->method = &firsts[draw_one_in(4)];
    bool one = p->follows && !p->faults && w.seed * 0xca5a826395121157u >> 62 == 0;
    p->tensors = one ? 1 : MOST_TENSORS; /* fewer than the optimizer has states of it */
    p->tls = draw_one_in(4);
    p->mild = !draw_one_in(5) || p->faults;
    p->kept = (int)draw_between(1, p->n);
    p->bare = draw_one_in(2);
    p->silence_s = draw_log(1, 3);
    p->pause_s = p->mild ? draw_log(60, 300)
                         : draw_log(4, 40); /* longer than faults last */
    p->join_steps = (int)draw_between(-1, 0);
    p->compute_ns = (int64_t)(draw_log(8, 150) * (double)MS);
    if (p->train) {
        p->join_steps = (int)draw_between(-1, 6);
        p->shared = draw_one_in(2);
        p->lockless = draw_one_in(3);
        p->save_every = (int)draw_between(3, 25);
        p->keep = (int)draw_between(1, 3);
        p->ends = true;
    }
    p->bound_ns = (p->mild ? 120 : 200) * SECOND;
    w.preempt = (unsigned)draw_log(8, 300);
    n_machines = p->n;
    if (!p->faults) p->witness = p->witness || w.seed * 0x9e3779b97f4a7c15u >> 61 == 0;
    if (p->train && !p->faults && p->shards == 0 &&
        w.seed * 0xd6e8feb86659fd93u >> 62 == 0)
        p->shards = 2;
    if (p->shards == 0) p->shards = 1;
    wire_loses = draw_one_in(4);
    wire_secret = p->tls || p->train; /* weft train sends what it measured */
    double byte_ns = draw_log(1, 2000), latency_ms = draw_log(0.02, 20);
    for (int h = 1; h <= MAX_HOSTS; h++) {
        snprintf(hosts[h].name, sizeof hosts[h].name, "host%d", h);
        hosts[h].byte_ns = byte_ns;
        hosts[h].latency_ns = (int64_t)(latency_ms * (0.5 + draw_share()) * (double)MS /
                                        2);
    }
    trace("plan: %d machines of %d, %s, %s, %s%s; silence %.2f, pause %.1f, join_steps "
          "%d, step "
          "%.1f ms, "
          "latency %.2f ms, %.2f MB/s",
          p->n, p->shards, p->method->name, p->tls ? "TLS" : "plain",
          p->mild ? "mild" : "hard", p->witness ? ", a witness" : "", p->silence_s,
          p->pause_s, p->join_steps, (double)p->compute_ns / (double)MS, latency_ms,
          1e3 / byte_ns);
}

/* --- faults --- */

static bool lives_now(const life *l) {
    return l->process && !l->ended && !l->process->dead;
}

static int draw_machine(void) { return (int)draw_between(1, n_machines); }

static life *draw_life(void) {
    life *found = NULL;
    uint64_t n = 0;
    for (int i = 0; i < n_lives; i++)
        if (lives_now(lives[i]) && draw() % ++n == 0) found = lives[i];
    return found;
}

static bool is_whole(void) {
    for (int a = 1; a <= n_machines; a++)
        for (int b = 1; b <= n_machines; b++)
            if (links[a][b].cut_ns > w.now_ns || links[a][b].refuse_ns > w.now_ns)
                return false;
    return true;
}

/* Whether a mild run goes on without this process. The one that is kept takes part in the newest
 * view and is heard; and of the members whose end nobody reports, and of those that live, the
 * latter are more, or one of two (lib/member/quorum.c). */
static bool may_die(const life *l, int unseen) {
    int64_t newest = 0;
    const life *kept = NULL;
    int n_unseen = unseen, n_live = -the_plan.shards, size = 0, n_before = 0, n_in = 0;
    if (!the_plan.mild) return true;
    for (int i = 0; i < n_lives; i++) {
        if (lives[i]->view > newest) newest = lives[i]->view;
        if (lives[i]->host == the_plan.kept && lives_now(lives[i])) kept = lives[i];
    }
    for (int i = 0; i < n_lives; i++) {
        n_before += lives[i]->view == newest - 1 && lives[i]->unseen;
        if (lives[i]->view != newest) continue;
        n_in++;
        size = lives[i]->size > size ? lives[i]->size : size;
        n_unseen += lives[i]->unseen;
        n_live += lives_now(lives[i]);
    }
    int n_missing = size > n_in ? size - n_in
                                : 0; /* in it, and dead before they entered */
    n_unseen += n_missing < n_before ? n_missing : n_before;
    bool two = size == 2 * the_plan.shards && n_live == the_plan.shards;
    bool decides = n_live > n_unseen || two;
    return decides && l->host != the_plan.kept && kept && kept->training &&
           kept->view == newest && kept->process->asleep_ns <= w.now_ns && is_whole();
}

/* A copy of the model needs all its processes. */
static void start_somebody(int at) {
    if (draw_one_in(4) && the_plan.shards == 1) return;
    (void)life_begin(at, true,
                     draw_one_in(3) ? 0 : (int64_t)(draw_log(0.05, 8) * (double)SECOND));
}

/* The guard of who died is another process of the machine. */
static void kill_guard(const life *l) {
    for (int i = 0; i < w.n_processes; i++)
        if (w.processes[i]->guard && w.processes[i]->parent == l->process->id)
            process_kill(w.processes[i]);
}

static void do_kill(life *l, bool unseen) {
    trace("FAULT: kill %s%s", l->process->name, unseen ? " and its guard" : "");
    l->ended = true;
    l->unseen = unseen;
    process_kill(l->process);
    if (unseen) kill_guard(l);
}

static void fault_kill(void) {
    life *l = draw_life();
    bool unseen = draw_one_in(5);
    if (!l || !may_die(l, unseen)) return;
    do_kill(l, unseen);
    if (unseen)
        (void)life_begin(l->host, true, draw_between(0, 5000) * MS);
    else
        start_somebody(l->host);
}

bool life_may_die(const life *l) { return may_die(l, 0); }

void life_dies(life *l) {
    start_somebody(l->host);
    do_kill(l, false);
}

/* A process dies at one of its next calls to its disk. */
static void fault_doom(void) {
    life *l = draw_life();
    if (!l) return;
    l->process->doom = (int)draw_log(1, 120);
    trace("FAULT: %s has %d calls to its disk left", l->process->name, l->process->doom);
}

/* A fault that lasts s seconds: when it is over. */
static int64_t lasts(double s) {
    int64_t until_ns = w.now_ns + (int64_t)(s * (double)SECOND);
    if (until_ns > the_plan.heal_ns) the_plan.heal_ns = until_ns;
    return until_ns;
}

static void do_suspend(life *l, double seconds) {
    trace("FAULT: suspend %s for %.3f s", l->process->name, seconds);
    l->process->asleep_ns = lasts(seconds);
}

static void fault_suspend(void) {
    life *l = draw_life();
    if (l) do_suspend(l, draw_log(0.2, 20));
}

static void cut(int a, int b, int64_t until_ns) {
    if (a != b && links[a][b].cut_ns < until_ns) links[a][b].cut_ns = until_ns;
}

static void fault_cut(void) {
    int64_t until_ns = lasts(draw_log(0.3, 20));
    int a = draw_machine(), b = draw_machine();
    int kind = (int)draw_between(0, 3);
    unsigned half = (unsigned)draw();
    trace("FAULT: cut, kind %d, of %d, %d for %.3f s", kind, a, b,
          (double)(until_ns - w.now_ns) / 1e9);
    int last = the_plan.witness ? MAX_HOSTS : n_machines;
    for (int x = 1; x <= last; x++)
        for (int y = 1; y <= last; y++) {
            bool one = kind == 0 && x == a && y == b;
            bool two = kind == 1 && ((x == a && y == b) || (x == b && y == a));
            bool all = kind == 2 && (x == a || y == a);
            bool halves = kind == 3 && (half >> x & 1) != (half >> y & 1);
            if (one || two || all || halves) cut(x, y, until_ns);
        }
}

static void do_reset(int a, int b) {
    trace("FAULT: reset between %d and %d", a, b);
    reset_between(a, b);
}

static void fault_reset(void) {
    int a = draw_machine(), b = draw_machine();
    if (a != b) do_reset(a, b);
}

static void do_refuse(int a, int b, double seconds) {
    int64_t until_ns = lasts(seconds);
    trace("FAULT: firewall between %d and %d for %.3f s", a, b, seconds);
    links[a][b].refuse_ns = links[b][a].refuse_ns = until_ns;
    reset_between(a, b);
}

static void fault_refuse(void) {
    int a = draw_machine(), b = draw_machine();
    if (a != b) do_refuse(a, b, draw_log(0.3, 15));
}

static void do_delay(int a, int b, double delay_s, double seconds) {
    trace("FAULT: %d to %d takes %.3f s more for %.3f s", a, b, delay_s, seconds);
    links[a][b].slow_ns = lasts(seconds);
    links[a][b].delay_ns = (int64_t)(delay_s * (double)SECOND);
}

static void fault_delay(void) {
    int a = draw_machine(), b = draw_machine();
    double seconds = draw_log(0.2, 5);
    do_delay(a, b, draw_log(0.02, 2), seconds);
}

static void fault_disk(void) {
    int at = draw_machine();
    bool full = draw_one_in(2);
    int64_t until_ns = lasts(draw_log(0.1, full ? 10 : 4));
    trace("FAULT: the disk of host %d is %s for %.3f s", at, full ? "full" : "slow",
          (double)(until_ns - w.now_ns) / 1e9);
    if (full)
        disk_fills(at, until_ns);
    else
        disk_slows(at, until_ns);
}

static void power_on(void *argument) {
    host *h = argument;
    int at = (int)(h - hosts);
    host_on(at);
    trace("host %d is up again", at);
    machine_begin(at, true, draw_between(0, 2000) * MS);
}

static void do_power(int at, double seconds) {
    trace("FAULT: host %d has no power", at);
    for (int i = 0; i < n_lives; i++)
        if (lives[i]->host == at && lives_now(lives[i]))
            lives[i]->ended = lives[i]->unseen = true;
    host_off(at);
    if (seconds > 0) at_time(lasts(seconds), power_on, &hosts[at]);
}

static void fault_power(void) {
    life *l = draw_life();
    if (l && may_die(l, the_plan.shards)) do_power(l->host, draw_log(0.5, 15));
}

/* On a machine of its own. */
static void fault_come(void) {
    if (n_machines < MAX_HOSTS - the_plan.witness) machine_begin(++n_machines, true, 0);
}

/* All interfaces, by up to a hundred times. */
static void fault_wire(void) {
    double byte_ns = draw_log(10, 20000), latency_ns = draw_log(0.02, 200) * (double)MS;
    trace("FAULT: the wire has %.3f MB/s and %.2f ms", 1e3 / byte_ns, latency_ns / 1e6);
    for (int h = 1; h <= MAX_HOSTS; h++) {
        hosts[h].byte_ns = byte_ns;
        hosts[h].latency_ns = (int64_t)latency_ns / 2;
    }
}

static void do_fault(void *argument) {
    (void)argument;
    if (the_plan.follows && draw_one_in(3)) {
        fault_wire();
        return;
    }
    if (the_plan.train && draw_one_in(3)) {
        draw_one_in(2) ? fault_doom() : fault_disk();
        return;
    }
    switch (draw_between(0, 10)) {
    case 0:
    case 1:
    case 2: fault_kill(); break;
    case 3:
    case 4: fault_suspend(); break;
    case 5:
    case 6: fault_cut(); break;
    case 7: draw_one_in(2) ? fault_reset() : fault_refuse(); break;
    case 8: fault_delay(); break;
    case 9: fault_power(); break;
    default: fault_come(); break;
    }
}

static void draw_schedule(void) {
    int n = (int)draw_between(1, 7);
    int64_t when_ns = w.now_ns, last_ns = 0;
    for (int i = 0; i < n; i++) {
        when_ns += (int64_t)((draw_one_in(2) ? draw_log(0.0001, 0.5) : draw_log(0.2, 8)) *
                             (double)SECOND);
        at_time(when_ns, do_fault, NULL);
        if (when_ns > last_ns) last_ns = when_ns;
    }
    the_plan.heal_ns = last_ns + SECOND;
}

/* --- faults that are given --- */

typedef struct told {
    char what[8];
    double seconds[4]; /* arguments */
} told;

static life *life_at(int at) {
    for (int i = n_lives - 1; i >= 0; i--)
        if (lives[i]->host == at && lives_now(lives[i])) return lives[i];
    fail_world("nobody lives on machine %d", at);
    return NULL;
}

static void do_told(void *argument) {
    const told *t = argument;
    int a = (int)t->seconds[0], b = (int)t->seconds[1];
    const char *what = t->what;
    bool two = !strcmp(what, "reset") || !strcmp(what, "refuse") ||
               !strcmp(what, "cut") || !strcmp(what, "delay");
    if (a < 1 || a > MAX_HOSTS || (two && (b < 1 || b > MAX_HOSTS))) {
        fail_world("%s of machine %d", what, a);
        return;
    }
    bool dies = !strcmp(what, "kill") || !strcmp(what, "unseen");
    bool one = dies || !strcmp(what, "suspend") || !strcmp(what, "doom");
    life *l = one ? life_at(a) : NULL;
    if (a > n_machines) n_machines = a;
    if (!strcmp(what, "end")) {
        goal_step = all_steps + 6;
        the_plan.ends = true;
        return;
    }
    if (l && dies)
        do_kill(l, what[0] == 'u');
    else if (l && what[0] == 'd')
        l->process->doom = (int)t->seconds[1];
    else if (l)
        do_suspend(l, t->seconds[1]);
    else if (!strcmp(what, "full"))
        disk_fills(a, lasts(t->seconds[1]));
    else if (!strcmp(what, "slow"))
        disk_slows(a, lasts(t->seconds[1]));
    else if (!strcmp(what, "start") || !strcmp(what, "other")) {
        life *new = life_begin(a, true, 0);
        if (new) new->other = what[0] == 'o';
    } else if (!strcmp(what, "power"))
        do_power(a, t->seconds[1]);
    else if (!strcmp(what, "reset"))
        do_reset(a, b);
    else if (!strcmp(what, "refuse"))
        do_refuse(a, b, t->seconds[2]);
    else if (!strcmp(what, "delay"))
        do_delay(a, b, t->seconds[2], t->seconds[3]);
    else if (!strcmp(what, "cut")) {
        trace("FAULT: cut between %d and %d for %.3f s", a, b, t->seconds[2]);
        cut(a, b, lasts(t->seconds[2]));
        cut(b, a, lasts(t->seconds[2]));
    } else
        fail_world("'%s' is no fault", what);
}

/* "0.5 kill 2; 1 power 3 1.5": seconds after the moment when all train, fault, machines, seconds;
 * without them a machine stays off. "5 end 1": the run ends, and whoever it left behind has to.
 * "full", "slow": its disk. "doom 1 5": it dies at the fifth call to its disk from there on.
 * "other": starts somebody with another model. "1 delay 2 3 0.5 4": what 2 sends to 3 takes 0.5 s
 * more, for 4 s. */
static void follow(const char *text) {
    the_plan.heal_ns = w.now_ns + SECOND;
    the_plan.bound_ns = 60 * SECOND;
    for (const char *part = text; part; part = strchr(part, ';')) {
        told *t = calloc(1, sizeof *t);
        double at_s = 0;
        part += *part == ';';
        int n = sscanf(part, " %lf %7s %lf %lf %lf %lf", &at_s, t->what, &t->seconds[0],
                       &t->seconds[1], &t->seconds[2], &t->seconds[3]);
        int64_t when_ns = w.now_ns + (int64_t)(at_s * (double)SECOND);
        if (n < 3) {
            fail_world("'%s': expected SECONDS FAULT MACHINE ...", part);
            return;
        }
        at_time(when_ns, do_told, t);
        if (when_ns + SECOND > the_plan.heal_ns) the_plan.heal_ns = when_ns + SECOND;
    }
}

void plan_schedule(void) {
    if (the_plan.faults)
        follow(the_plan.faults);
    else
        draw_schedule();
}
