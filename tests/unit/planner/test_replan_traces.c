/* SPDX-License-Identifier: MIT */
/* Runs that plan again on wires that change, without a clock: a step takes what the runtime model
 * predicts on the wire of that moment, with noise; the replan knows the steps alone. Each trace is
 * drawn by its seed. With a number of seeds as argument this program prints a table instead
 * (bench/replan). */
#include "configs.h"

#include <math.h>
#include <stdlib.h>

#include "planner/replan.h"

enum { CONSTANT, DAY, DROP, FALL, SLOW, FAR, LOST, BURSTS, CAP, KINDS };
static const char *const names[KINDS] = {"constant wire",
                                         "day and night 20:200",
                                         "a tenth for ten minutes",
                                         "a hundredth from then on",
                                         "a machine half as fast",
                                         "latency 5 to 200 ms",
                                         "half the nodes lost and back",
                                         "loss in bursts",
                                         "a cap on bytes"};
enum { STEPS = 4000, TENSORS = 8, STATES = 2, STALL = 2 };

/* What is true, and what was measured before the first step. */
typedef struct trace {
    int kind;
    uint64_t seed;
    int64_t nodes[STATES];
    double cap; /* bytes of a process in each period, behind which state 1 begins */
    double Bps[STATES], latency_s[STATES], slower[STATES];
    double turn_s, back_s, period_s; /* state 1 from turn_s to back_s, in each period */
    double noise, bias[2],
        stalls; /* of waiting; bias: the model is off, full and outer */
    double computing_s;
    weft_sync_tensor tensors[TENSORS];
    double step_s[STATES][16]; /* of each form, without noise; 0: not known yet */
} trace;

typedef struct outcome {
    double took_s, stays_s, best_s; /* with changes; in the first form; in the best one */
    /* one process by itself, with the rows of all; INFINITY: it is expected to be faster before
     * the first step, where a run ends or says so */
    double alone_s;
    int changes;
    wefti_form first, last, best;
} outcome;

static weft_ctx *ctx;

static double uniform(uint64_t seed, uint64_t what) {
    return wefti_rng_uniform(seed, WEFTI_STREAM_TEST, 1, what);
}

static double normal(uint64_t seed, uint64_t step, uint64_t what) {
    return wefti_rng_normal(seed, WEFTI_STREAM_TEST, 2 + step, what);
}

/* Kinds that came later have seeds of their own, so that the others stay what they were. */
static trace draw(int kind, uint64_t number) {
    static const double rates[] = {5, 50, 500};
    uint64_t seed = kind < LOST ? number * LOST + (uint64_t)kind
                                : (number << 32) + (uint64_t)kind;
    double rate = rates[(int)(3 * uniform(seed, 0))] * 125e3;
    double elements = 2e6 * pow(10, uniform(seed, 1)); /* 8 to 80 MB */
    trace t = {.kind = kind,
               .seed = seed,
               .noise = 0.02 + 0.13 * uniform(seed, 3),
               .stalls = 0.01 * uniform(seed, 4),
               .computing_s = 0.3 * pow(10, uniform(seed, 5)),
               .turn_s = INFINITY,
               .back_s = INFINITY,
               .period_s = INFINITY,
               .slower = {1, 1}};
    t.nodes[0] = t.nodes[1] = 2 << (int)(3 * uniform(seed, 2));
    for (int i = 0; i < 2; i++) t.bias[i] = exp(0.1 * normal(seed, 0, 6 + (uint64_t)i));
    t.latency_s[0] = t.latency_s[1] = kind == FAR ? 0.005
                                                  : 1e-3 * pow(20, uniform(seed, 8));
    if (kind == DAY) { /* a step for each minute or so, two days and more */
        rate = 200 * 125e3;
        t.computing_s *= 50;
        elements *= 10;
        t.period_s = 86400;
        t.turn_s = t.period_s * uniform(seed, 9) / 2;
        t.back_s = t.turn_s + t.period_s / 2;
    } else if (kind == DROP) {
        t.turn_s = 1200 * (1 + uniform(seed, 9)) * t.computing_s;
        t.back_s = t.turn_s + 600;
    } else if (kind == LOST) {
        t.turn_s = STEPS * (0.1 + 0.3 * uniform(seed, 9)) * t.computing_s;
        t.back_s = t.turn_s + STEPS * (0.1 + 0.3 * uniform(seed, 10)) * t.computing_s;
        t.nodes[1] /= 2;
    } else if (kind ==
               BURSTS) { /* an eighth of the time: a third is carried, with stalls */
        t.period_s = STEPS * (0.02 + 0.1 * uniform(seed, 9)) * t.computing_s;
        t.turn_s = 0.875 * t.period_s;
    } else if (kind == CAP) { /* a tenth, for what is left of the period */
        t.period_s = STEPS * (0.2 + 0.3 * uniform(seed, 9)) * t.computing_s;
        t.cap = rate * t.period_s * (0.05 + 0.3 * uniform(seed, 10));
    } else if (kind != CONSTANT) {
        t.turn_s = STEPS * (0.1 + 0.5 * uniform(seed, 9)) * t.computing_s;
    }
    if (kind == FALL) rate *= 10;
    t.Bps[0] = t.Bps[1] = rate;
    if (kind == BURSTS) t.Bps[1] = rate / 3;
    if (kind == DAY || kind == DROP || kind == CAP) t.Bps[1] = rate / 10;
    if (kind == FALL) t.Bps[1] = rate / 100;
    if (kind == FAR) t.latency_s[1] = 0.2;
    if (kind == SLOW) t.slower[1] = 2;
    for (int i = 0; i < TENSORS; i++)
        t.tensors[i] = (weft_sync_tensor){.struct_size = sizeof t.tensors[i],
                                          .name = "t",
                                          .rows = 1000,
                                          .cols = (int64_t)(elements / TENSORS / 1000),
                                          .decays = true};
    return t;
}

/* How far a run is. */
typedef struct moment {
    double now_s, sent; /* sent: by a process in this period */
} moment;

static int state_at(const trace *t, const moment *m) {
    double in_s = isfinite(t->period_s) ? fmod(m->now_s, t->period_s) : m->now_s;
    if (t->kind == CAP) return m->sent > t->cap;
    return in_s >= t->turn_s && in_s < t->back_s;
}

/* Of a step of this form, by a process. */
static double bytes_of(const trace *t, const wefti_form *form) {
    double each = form->values == WEFTI_VALUES_INT4   ? 0.5
                  : form->values == WEFTI_VALUES_INT8 ? 1
                                                      : 4;
    double n = TENSORS * 1000.0 * (double)t->tensors[0].cols;
    return 2 * n * each / (double)(form->outer ? form->every : 1);
}

static void pass(const trace *t, moment *m, const wefti_form *form, double s) {
    double before = floor(m->now_s / t->period_s);
    m->now_s += s;
    m->sent = floor(m->now_s / t->period_s) > before ? 0 : m->sent + bytes_of(t, form);
}

static weft_cluster *cluster_of(const trace *t, int state, double known) {
    weft_cluster *c;
    char text[2][32];
    snprintf(text[0], 32, "%d", (int)t->nodes[state]);
    snprintf(text[1], 32, "%.0fbit,%.9gs", 8 * t->Bps[state] * known,
             t->latency_s[state]);
    assert_ok(ctx, weft_cluster_create(ctx, &c));
    assert_ok(ctx, weft_cluster_set(ctx, c, "nodes", text[0]));
    assert_ok(ctx, weft_cluster_set(ctx, c, "link", text[1]));
    return c;
}

static weft_config *config_of(const trace *t, int state) {
    char text[32];
    snprintf(text, sizeof text, "mesh.nodes=%d", (int)t->nodes[state]);
    return config_with(ctx, "method=hsdp run.steps=4000", text);
}

static wefti_situation situation_of(const trace *t, const weft_config *config,
                                    weft_cluster *cluster, weft_loop_facts *loop) {
    *loop = (weft_loop_facts){.struct_size = sizeof *loop,
                              .tensors = t->tensors,
                              .n_tensors = TENSORS,
                              .step_s = t->computing_s};
    return (wefti_situation){.config = config,
                             .cluster = cluster,
                             .loop = loop,
                             .steps_left = STEPS,
                             .parameters = TENSORS * 1000 * t->tensors[0].cols};
}

static int number_of(const wefti_form *form) {
    int n;
    const wefti_form *forms = wefti_forms(&n);
    for (int i = 0; i < n; i++)
        if (wefti_form_same(&forms[i], form)) return i;
    fail_msg("no such form");
    return -1;
}

/* The mean step of a form; computing is slower[state] * computing_s of it. */
static double mean_step(trace *t, weft_config *const configs[STATES], int state,
                        const wefti_form *form) {
    const weft_config *config = configs[state];
    double *known = &t->step_s[state][number_of(form)];
    weft_loop_facts loop;
    if (t->nodes[state] == 1) return t->computing_s * t->slower[state];
    if (*known > 0) return *known;
    weft_cluster *c = cluster_of(t, state, 1);
    wefti_situation s = situation_of(t, config, c, &loop);
    loop.step_s *= t->slower[state];
    assert_ok(ctx, wefti_form_predict(ctx, &s, form, known));
    weft_cluster_destroy(ctx, c);
    return *known;
}

/* Of step n: of the slowest rank; beyond that, which with outer steps all comes in one. */
static void times_of(trace *t, weft_config *const configs[STATES], const wefti_form *form,
                     int64_t n, int state, double *computing_s, double *wait_s) {
    double mean_s = t->computing_s * t->slower[state];
    double most = mean_step(t, configs, state, form) - mean_s;
    bool waits = !form->outer || (n + 1) % form->every == 0;
    *computing_s = mean_s * exp(0.02 * normal(t->seed, (uint64_t)n, 1));
    *wait_s = fmax(0, most) * t->bias[form->outer] *
              exp(t->noise * normal(t->seed, (uint64_t)n, 2));
    *wait_s *= waits ? (double)(form->outer ? form->every : 1) : 0;
    if (wefti_rng_uniform(t->seed, WEFTI_STREAM_TEST, 2 + (uint64_t)n, 9) < t->stalls)
        *wait_s += 3 * mean_s;
    bool burst = t->kind == BURSTS && state == 1 && waits;
    if (burst && wefti_rng_uniform(t->seed, WEFTI_STREAM_TEST, 2 + (uint64_t)n, 10) < 0.3)
        *wait_s -=
            log(1 - wefti_rng_uniform(t->seed, WEFTI_STREAM_TEST, 2 + (uint64_t)n, 11)) /
            2;
}

/* The rest of a run of STEPS steps in full f32, in one form. */
static double fixed_s(trace *t, weft_config *const configs[STATES],
                      const wefti_form *form, const double steps) {
    moment m = {0};
    double computing_s, wait_s;
    for (int64_t n = 0; (double)n < steps; n++) {
        times_of(t, configs, form, n, state_at(t, &m), &computing_s, &wait_s);
        pass(t, &m, form, computing_s + wait_s);
    }
    return m.now_s;
}

/* What is chosen before the first step; *least: seconds of a step, by what it needs to learn. */
static wefti_form first_of(trace *t, const weft_config *config, double known,
                           double *least) {
    int n;
    const wefti_form *forms = wefti_forms(&n), *best = NULL;
    double step_s;
    weft_loop_facts loop;
    *least = INFINITY;
    weft_cluster *c = cluster_of(t, 0, known);
    wefti_situation s = situation_of(t, config, c, &loop);
    for (int i = 0; i < n; i++) {
        assert_ok(ctx, wefti_form_predict(ctx, &s, &forms[i], &step_s));
        step_s *= wefti_form_steps(&s, &forms[i]);
        if (step_s >= *least) continue;
        *least = step_s;
        best = &forms[i];
    }
    weft_cluster_destroy(ctx, c);
    return *best;
}

typedef struct playing {
    trace *t;
    weft_config *configs[STATES];
    wefti_replan *replan;
    wefti_situation s; /* for the steps that forms need */
    wefti_form now;
    int64_t asks, heard, n;
    moment m;
    int state; /* of the step that has ended */
    double done, computing_s, wait_s;
} playing;

static bool verbose;

static void change(playing *p, outcome *out) {
    double state_bytes = 8 * (double)p->s.parameters;
    wefti_form next;
    assert_true(wefti_form_decode(p->heard, &next));
    assert_null(wefti_form_refusal(&p->now, &next, p->n));
    int state = p->state;
    p->m.now_s += STALL * (mean_step(p->t, p->configs, state, &p->now) +
                           mean_step(p->t, p->configs, state, &next));
    if (p->now.outer && !next.outer) p->m.now_s += 2 * state_bytes / p->t->Bps[state];
    p->now = next;
    p->asks = 0;
    for (int i = 0; i < STATES; i++)
        assert_ok(ctx, wefti_form_set(ctx, p->configs[i], &next));
    wefti_replan_changed(p->replan, &next);
    out->changes++;
    if (verbose)
        printf("    %5lld %8.0f s, state %d: %s\n", (long long)p->n, p->m.now_s, state,
               wefti_replan_wish_of(p->replan)->why);
}

static void step(playing *p) {
    int before = p->state;
    p->state = state_at(p->t, &p->m);
    times_of(p->t, p->configs, &p->now, p->n, p->state, &p->computing_s, &p->wait_s);
    pass(p->t, &p->m, &p->now, p->computing_s + p->wait_s);
    if (p->t->nodes[p->state] != p->t->nodes[before])
        p->asks = p->heard = 0; /* of another world */
    p->done += 1 / wefti_form_steps(&p->s, &p->now);
    p->n++;
}

/* The step that has ended. */
static void look(playing *p, weft_loop_facts *loop) {
    int world = p->t->kind == LOST ? p->state : 0;
    if (p->t->nodes[p->state] == 1) return;
    const wefti_replan_step ended = {.config = p->configs[world],
                                     .world = &p->configs[world],
                                     .loop = loop,
                                     .now = p->now,
                                     .measure_s = 10, /* decide.time */
                                     .step = p->n,
                                     .steps_left = STEPS - (int64_t)p->done,
                                     .parameters = p->s.parameters,
                                     .state_bytes = 8 * (double)p->s.parameters,
                                     .computing_s = p->computing_s,
                                     .wait_s = p->wait_s};
    assert_ok(ctx, wefti_replan_add(ctx, p->replan, &ended));
    p->asks = wefti_replan_asks(p->replan, &p->now, p->n + 1);
}

static outcome play(int kind, uint64_t number) {
    trace t = draw(kind, number);
    weft_loop_facts loop, own;
    int n_forms;
    const wefti_form *forms = wefti_forms(&n_forms);
    double known = exp(0.05 * normal(t.seed, 0, 5));
    playing p = {.t = &t, .configs = {config_of(&t, 0), config_of(&t, 1)}};
    double expected_s;
    p.now = first_of(&t, p.configs[0], known, &expected_s);
    outcome out = {.best_s = INFINITY, .first = p.now};
    p.s = situation_of(&t, p.configs[0], NULL, &loop);
    for (int i = 0; i < n_forms; i++) {
        double s = fixed_s(&t, p.configs, &forms[i],
                           STEPS * wefti_form_steps(&p.s, &forms[i]));
        if (s < out.best_s) out.best_s = s, out.best = forms[i];
        if (wefti_form_same(&forms[i], &p.now)) out.stays_s = s;
    }
    for (int i = 0; i < STATES; i++)
        assert_ok(ctx, wefti_form_set(ctx, p.configs[i], &p.now));
    (void)situation_of(&t, p.configs[0], NULL, &own);
    assert_ok(ctx, wefti_replan_create(ctx, cluster_of(&t, 0, known), 10, &p.replan));
    while (p.done < STEPS) { /* what is asked for goes with a step's status */
        step(&p);
        if (p.heard > 0)
            change(&p, &out);
        else
            look(&p, &own);
        p.heard = p.asks;
    }
    out.took_s = p.m.now_s;
    out.alone_s = (double)t.nodes[0] * t.computing_s; /* of a step, on a fast machine */
    out.alone_s = out.alone_s > expected_s ? STEPS * out.alone_s : INFINITY;
    out.last = p.now;
    wefti_replan_destroy(ctx, p.replan);
    for (int i = 0; i < STATES; i++) weft_config_destroy(ctx, p.configs[i]);
    return out;
}

/* Of the traces of one kind. */
typedef struct score {
    int n, near, changed, changes;
    double worst, gain; /* of all: took over best; the log of staying over took */
    double alone;       /* the most of took over alone */
} score;

/* nodes: of that many; 0: all. */
static score score_of(int kind, int seeds, uint64_t first, int64_t nodes) {
    char text[3][WEFTI_FORM_TEXT];
    score all = {0};
    for (int i = 0; i < seeds; i++) {
        if (nodes && draw(kind, first + (uint64_t)i).nodes[0] != nodes) continue;
        outcome o = play(kind, first + (uint64_t)i);
        double off = o.took_s / o.best_s;
        all.n++;
        all.near += off <= 1.1;
        all.changed += o.changes > 0;
        all.changes += o.changes;
        all.worst = fmax(all.worst, off);
        all.alone = fmax(all.alone, o.took_s / o.alone_s);
        all.gain += log(o.stays_s / o.took_s);
        if (!verbose) continue;
        printf("%s, %d: %s -> %s, best %s: %d changes, %.3f\n", names[kind], i,
               wefti_form_name(&o.first, text[0]), wefti_form_name(&o.last, text[1]),
               wefti_form_name(&o.best, text[2]), o.changes, off);
    }
    all.gain /= fmax(all.n, 1);
    return all;
}

static int table(int seeds) {
    if (ctx_begin(&ctx) != 0) return 1;
    puts(
        "| wire | nodes | traces | time <= 1.10 of the best form | worst | traces with "
        "changes, changes of all | gain over the first form | most, of one process alone "
        "|\n|---|---|---|---|---|---|---|---|");
    for (int i = 0; i < 3 * KINDS; i++) {
        score s = score_of(i / 3, seeds, 0, 2 << i % 3);
        printf("| %s | %d | %d | %d | %.2f | %d, %d | %.2f | %.2f |\n", names[i / 3],
               2 << i % 3, s.n, s.near, s.worst, s.changed, s.changes, exp(s.gain),
               s.alone);
    }
    return ctx_end(ctx);
}

/* --- the law, with seeds of its own --- */

enum { SEEDS = UNDER_SANITIZER ? 3 : 20, FROM = 1000 };
static score scores[KINDS];

static int begin(void **state) {
    if (ctx_begin(&ctx) != 0) return 1;
    for (int kind = 0; kind < KINDS; kind++)
        scores[kind] = score_of(kind, SEEDS, FROM, 0);
    return 0;
}

static int end(void **state) { return ctx_end(ctx); }

TEST(a_constant_wire_is_left_alone) { assert_int_equal(scores[CONSTANT].changes, 0); }

TEST(nine_of_ten_end_within_a_tenth_of_the_best_form) {
    score all = {0};
    for (int kind = 0; kind < KINDS; kind++) {
        all.near += scores[kind].near;
        all.n += scores[kind].n;
        if (scores[kind].worst > 1.3)
            fail_msg("%s: one takes %.2f of the best", names[kind], scores[kind].worst);
    }
    if (10 * all.near < 9 * all.n) fail_msg("%d of %d", all.near, all.n);
}

TEST(changes_pay_where_the_wire_changes) {
    assert_true(exp(scores[DAY].gain) > 1.02);
    assert_true(exp(scores[FALL].gain) > 2);
    assert_true(scores[SLOW].worst < 1.15);
}

int main(int argc, char **argv) {
    verbose = argc > 2;
    if (argc > 1) return table(atoi(argv[1]));
    return check_run(begin, end);
}
