/* SPDX-License-Identifier: MIT */
/* Measures mixers on one thread of a rank, on as many ranks at once as there are cores. R
 * members of a private mesh take turns, phase by phase, so that the messages of a phase
 * were sent in the phase before and no member waits.
 *
 *     gossip, choco   an exchange in every step:   begin = after, peer = answer and before
 *     outer           start, answer and end of an exchange are in three successive steps:
 *                     begin = after, combine = after, end = finish
 *
 * The figures of groups of 2 and 4 members give combine_s, the cost of receiving once,
 * and combine_peer_s, that for each other member. */
#include "probe/prober.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/local.h"
#include "mix/mixer.h"
#include "wire/values.h"
#include "topology/topology.h"

enum { SMALL = 2, LARGE = 4, TRIAL = 1 << 15, MOST = 1 << 19, HALVES = 2 };
enum { BEGIN, COMBINE, END, PHASES };
enum { PERIOD = 3, DELAY = 2 }; /* outer: start, answer and end are in different steps */

typedef struct variant {
    const wefti_mixer_ops *kind;
    wefti_value_codec values;
} variant;

/* The i-th variant: first those in the tables of the kinds, then the configured one if it
 * is not among them. Returns false after the last. */
static bool variant_at(const wefti_job *job, int i, variant *out) {
    variant own = {wefti_mixer_find(job->mixer_config.kind), job->mixer_config.values};
    bool is_new = own.kind->measured && own.kind->coded;
    for (int k = 0; wefti_mixer_registry[k]; k++) {
        const wefti_value_codec *codec = wefti_mixer_registry[k]->measured;
        for (; codec && *codec != WEFTI_VALUE_CODECS; codec++) {
            *out = (variant){wefti_mixer_registry[k], *codec};
            if (i-- == 0) return true;
            if (out->kind == own.kind && out->values == own.values) is_new = false;
        }
    }
    *out = own;
    return is_new && i == 0;
}

static int count_variants(const wefti_job *job) {
    variant v;
    int n = 0;
    while (variant_at(job, n, &v)) n++;
    return n;
}

static char *name_of(const variant *v, char *out, size_t size) {
    const char *values = v->kind->coded ? wefti_value_ops_of(v->values)->name : "";
    snprintf(out, size, "%s%s%s", v->kind->name, v->kind->coded ? " " : "", values);
    return out;
}

/* --- the members --- */

typedef struct member {
    wefti_comm *comm; /* owned, like all members */
    wefti_mixer *mixer;
    float *params; /* [n] */
} member;

typedef struct gauge {
    weft_ctx *ctx;
    const wefti_kernels *kernels;
    int R;
    wefti_bucket bucket;
    wefti_piece piece;
    wefti_mixer_config config;
    weft_topology *topology; /* owned, like what follows */
    wefti_world *world;
    member members[LARGE];
} gauge;

static weft_status open_gauge(gauge *g, const wefti_job *job, const variant *v) {
    weft_topology_config wanted = {.struct_size = sizeof wanted,
                                   .kind = wefti_topology_complete.name,
                                   .nodes = g->R,
                                   .ranks = 1};
    wefti_world_shape shape = {
        .replicas = g->R, .shards = 1, .replicas_per_node = 1, .sites = 1};
    g->config = job->mixer_config;
    g->config.kind = v->kind->name;
    g->config.values = v->values;
    g->config.steps = INT32_MAX;
    g->config.partners = g->R - 1;
    g->config.average_every = 0;
    g->config.consensus_bound = g->config.deadline_s = 0;
    g->config.combine_last = false;
    g->config.outer_every = PERIOD;
    g->config.delay = wefti_named(v->kind->keys, "delay") ? DELAY : 0;
    g->config.fragments = 1;
    if (!(g->config.gamma > 0)) g->config.gamma = 0.5;
    WEFT_TRY(weft_topology_create(g->ctx, &wanted, &g->topology));
    g->config.topology = g->config.everybody = g->topology;
    return wefti_local_create(g->ctx, &shape, &g->world);
}

static weft_status open_members(gauge *g) {
    int64_t n = g->bucket.n_elements;
    for (int r = 0; r < g->R; r++) {
        member *m = &g->members[r];
        WEFT_TRY(wefti_world_join(g->ctx, g->world, r, WEFTI_GROUP_REPLICA, 0, &m->comm));
        WEFT_TRY(wefti_mixer_create(g->ctx, &g->config, g->kernels, m->comm, &g->bucket,
                                    1, &m->mixer));
        WEFT_TRY(wefti_alloc_n(g->ctx, n, sizeof(float), "parameters", &m->params));
        for (int64_t i = 0; i < n; i++) m->params[i] = (float)((i * 7 + r) % 251) / 251;
    }
    for (int r = 0; r < g->R; r++)
        WEFT_TRY(wefti_mixer_prime(g->members[r].mixer, 0, 0, g->members[r].params));
    return WEFT_OK;
}

static void close_gauge(gauge *g) {
    for (int r = 0; r < g->R; r++) {
        wefti_mixer_destroy(g->members[r].mixer);
        wefti_comm_destroy(g->members[r].comm);
        wefti_free(g->ctx, g->members[r].params);
    }
    wefti_world_destroy(g->ctx, g->world);
    weft_topology_destroy(g->ctx, g->topology);
}

/* --- a step --- */

typedef weft_status (*phase)(wefti_mixer *m, int64_t step, float *params);

static weft_status answer(wefti_mixer *m, int64_t step, float *params) {
    (void)params;
    return wefti_mixer_answer(m, 0, step);
}

static weft_status before(wefti_mixer *m, int64_t step, float *params) {
    return wefti_mixer_before(m, 0, step, params);
}

static weft_status after(wefti_mixer *m, int64_t step, float *params) {
    return wefti_mixer_after(m, 0, step, params);
}

static weft_status finish(wefti_mixer *m, int64_t step, float *params) {
    return wefti_mixer_finish(m, 0, step, params);
}

/* Runs a phase on all members and adds the mean time. */
static weft_status pass(gauge *g, phase act, int64_t step, double *seconds) {
    double start_s = wefti_now_s();
    for (int r = 0; r < g->R; r++)
        WEFT_TRY(act(g->members[r].mixer, step, g->members[r].params));
    *seconds += (wefti_now_s() - start_s) / g->R;
    return WEFT_OK;
}

/* Runs a step and adds the time of each phase to its figure. With outer the answer is an
 * `after`, too. */
static weft_status take_step(gauge *g, int64_t step, double seconds[PHASES]) {
    int64_t period = wefti_mixer_period(&g->config);
    bool answers = period > 1 && step % period == 0;
    WEFT_TRY(pass(g, answer, step, &seconds[COMBINE]));
    WEFT_TRY(pass(g, before, step, &seconds[COMBINE]));
    WEFT_TRY(pass(g, after, step, &seconds[answers ? COMBINE : BEGIN]));
    return pass(g, finish, step, &seconds[END]);
}

/* Measures seconds per parameter and exchange: the medians of a few periods, after two
 * for warm-up in which every buffer is used once. */
static weft_status take_steps(gauge *g, double seconds[PHASES]) {
    enum { PERIODS = 5, WARMUP = 2 };
    double of[PHASES][PERIODS], period[PHASES] = {0};
    int64_t per = wefti_mixer_period(&g->config);
    for (int64_t step = 0; step < (WARMUP + PERIODS) * per; step++) {
        WEFT_TRY(take_step(g, step, period));
        if ((step + 1) % per != 0) continue;
        int64_t at = step / per - WARMUP;
        for (int i = 0; i < PHASES && at >= 0; i++) of[i][at] = period[i];
        memset(period, 0, sizeof period);
    }
    for (int i = 0; i < PHASES; i++)
        seconds[i] = wefti_quantile(of[i], PERIODS, 0.5) / (double)g->bucket.n_elements;
    return WEFT_OK;
}

static weft_status measure(const wefti_prober *p, const variant *v, int R, int64_t n,
                           double seconds[PHASES]) {
    gauge g = {.ctx = p->ctx,
               .kernels = p->setup->job->kernels,
               .R = R,
               .piece = {n, 1, 0, false, 0}};
    g.bucket = (wefti_bucket){1, &g.piece, n};
    weft_status status = open_gauge(&g, p->setup->job, v);
    if (status == WEFT_OK) status = open_members(&g);
    memset(seconds, 0, PHASES * sizeof *seconds);
    if (status == WEFT_OK) status = take_steps(&g, seconds);
    close_gauge(&g);
    return status;
}

/* --- all of them --- */

typedef struct mixers {
    wefti_prober *p;
    int n_variants;
    int64_t n;
    double *figures; /* [variants][2][PHASES] */
    double spent_s;
} mixers;

static weft_status measure_all(void *user) {
    mixers *m = user;
    double start_s = wefti_now_s();
    for (int i = 0; i < m->n_variants; i++) {
        variant v;
        if (!variant_at(m->p->setup->job, i, &v)) break;
        double *at = m->figures + 2 * PHASES * i;
        WEFT_TRY(measure(m->p, &v, SMALL, m->n, at));
        WEFT_TRY(measure(m->p, &v, LARGE, m->n, at + PHASES));
    }
    m->spent_s = wefti_now_s() - start_s;
    return WEFT_OK;
}

static weft_codec_seconds codec_of(const double *small, const double *large) {
    double peer = (large[COMBINE] - small[COMBINE]) / (LARGE - SMALL);
    weft_codec_seconds s = {.begin_s = small[BEGIN], .end_s = small[END]};
    s.combine_peer_s = peer < 0 ? 0 : peer > small[COMBINE] ? small[COMBINE] : peer;
    s.combine_s = small[COMBINE] - s.combine_peer_s;
    return s;
}

static weft_status note(wefti_prober *p, const variant *v, const double *figures,
                        int64_t stride) {
    weft_codec_seconds s[HALVES];
    weft_probe_figure figure = {.unit = "s/parameter"};
    for (int half = 0; half < HALVES; half++)
        s[half] = codec_of(figures + half * stride, figures + half * stride + PHASES);
    weft_codec_seconds both = {
        .begin_s = (s[0].begin_s + s[1].begin_s) / 2,
        .combine_s = (s[0].combine_s + s[1].combine_s) / 2,
        .combine_peer_s = (s[0].combine_peer_s + s[1].combine_peer_s) / 2,
        .end_s = (s[0].end_s + s[1].end_s) / 2};
    name_of(v, both.name, sizeof both.name);
    snprintf(figure.name, sizeof figure.name, "%.52s, %d nodes", both.name, (int)SMALL);
    figure.first = s[0].begin_s + s[0].combine_s + s[0].combine_peer_s + s[0].end_s;
    figure.second = s[1].begin_s + s[1].combine_s + s[1].combine_peer_s + s[1].end_s;
    figure.value = (figure.first + figure.second) / 2;
    WEFT_TRY(wefti_prober_append(p, WEFT_CLUSTER_CODECS, &both));
    return wefti_prober_note(p, &figure);
}

/* Records medians over the ranks. */
static weft_status note_all(wefti_prober *p, int n_variants, const double *mine) {
    int64_t stride = 2 * PHASES * n_variants, n = HALVES * stride;
    wefti_samples all = {0};
    double *medians;
    WEFT_TRY(wefti_alloc_n(p->ctx, n, sizeof *medians, "mixers", &medians));
    weft_status status = wefti_prober_gather(p, mine, n, &all);
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        for (int r = 0; r < all.ranks; r++) all.spare[r] = all.of[r * n + i];
        medians[i] = wefti_quantile(all.spare, all.ranks, 0.5);
    }
    for (int i = 0; i < n_variants && status == WEFT_OK; i++) {
        variant v;
        if (variant_at(p->setup->job, i, &v))
            status = note(p, &v, medians + 2 * PHASES * i, stride);
    }
    wefti_samples_fini(p->ctx, &all);
    wefti_free(p->ctx, medians);
    return status;
}

/* Chooses as many parameters as the time allows. */
static weft_status choose_parameters(mixers *m, double seconds) {
    m->n = TRIAL;
    WEFT_TRY(wefti_prober_in_turn(m->p, measure_all, m));
    double each_s = HALVES * wefti_prober_turns(m->p) * m->spent_s / TRIAL;
    WEFT_TRY(wefti_prober_agree(m->p, &each_s));
    double n = each_s > 0 ? seconds / each_s : MOST;
    m->n = n > MOST ? MOST : n < TRIAL ? TRIAL : (int64_t)n;
    return WEFT_OK;
}

weft_status wefti_probe_mixers(wefti_prober *p, double seconds) {
    mixers m = {.p = p, .n_variants = count_variants(p->setup->job)};
    int64_t per_half = 2 * PHASES * m.n_variants;
    double *figures;
    WEFT_TRY(
        wefti_alloc_n(p->ctx, HALVES * per_half, sizeof *figures, "mixers", &figures));
    m.figures = figures;
    weft_status status = choose_parameters(&m, seconds);
    for (int half = 0; half < HALVES && status == WEFT_OK; half++) {
        m.figures = figures + half * per_half;
        status = wefti_prober_in_turn(p, measure_all, &m);
    }
    if (status == WEFT_OK) status = note_all(p, m.n_variants, figures);
    wefti_free(p->ctx, figures);
    return status;
}
