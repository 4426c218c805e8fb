/* SPDX-License-Identifier: MIT */
/* Measures codecs on one thread of every rank, on as many ranks at once as there are
 * cores: the configured replicators and the standard variants (replicate/gauge.h), in a
 * small group and in one of the configured size. From R1 to R2 members the time grows by
 * combine_peer_s per member:
 *
 *     peer = (combine + end at R2 - the same at R1) / (R2 - R1), at least 0
 *
 * and the rest of combine and end at R2 does not depend on the size of the group. */
#include <stdio.h>
#include <string.h>

#include <weft/bench.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "probe/prober.h"
#include "replicate/gauge.h"
#include "replicate/variants.h"

enum { MAX_CODECS = 40, TRIAL = 1 << 15, MOST = 1 << 20, MOST_MEMBERS = 8 };

typedef struct wanted {
    wefti_replicator_config config;
    char name[64];
} wanted;

typedef struct codecs {
    wefti_prober *p;
    int n, members[2];
    int64_t parameters; /* of the next measurement; its results go here: */
    double *figures;
    double spent_s; /* by the last measurement */
    wanted of[MAX_CODECS];
} codecs;

/* --- which codecs --- */

static void want(codecs *c, const wefti_replicator_config *config) {
    wanted next = {.config = *config};
    if (wefti_is(config->kind, "none") || c->n == MAX_CODECS) return;
    next.config.threads = 1;
    next.config.every = 1;
    next.config.values_of = NULL;
    next.config.delay = 0; /* a delay means the same work in another step */
    wefti_variant_name(&next.config, next.name, sizeof next.name);
    for (int i = 0; i < c->n; i++)
        if (wefti_is(c->of[i].name, next.name)) return;
    c->of[c->n++] = next;
}

/* Lists the codecs. The configured ones come first: of two codecs with the same name the
 * first is kept. */
static void list_codecs(codecs *c) {
    const wefti_job *job = c->p->setup->job;
    wefti_replicator_config config;
    int members = job->site.replicas;
    want(c, &job->replicator_config);
    if (job->site.n > 1) want(c, &job->site_replicator_config);
    for (int i = 0; wefti_variant_at(i, &config); i++) want(c, &config);
    c->members[0] = 2;
    c->members[1] = members < 3 ? 4 : members > MOST_MEMBERS ? MOST_MEMBERS : members;
}

/* --- durations --- */

/* Figures of each half and codec: the phases in the small and in the large group. */
enum { HALVES = 2, PHASES = 3, FIGURES = 2 * PHASES };

static int64_t most_parameters(const codecs *c) {
    const wefti_job *job = c->p->setup->job;
    int64_t n = job->model->n_elements / job->S,
            free_bytes = wefti_machine_available_bytes();
    int64_t room = free_bytes < 0 ? MOST
                                  : free_bytes / 4 / c->p->setup->machine_ranks /
                                        (64 * c->members[1]);
    if (n > room) n = room;
    return n > MOST ? MOST : n < 4096 ? 4096 : n;
}

/* Measures figures [codecs][FIGURES] in one of the two groups. */
static weft_status measure_group(const codecs *c, int group) {
    wefti_gauge *gauge;
    wefti_gauge_config config = {.kernels = c->p->setup->job->kernels,
                                 .R = c->members[group],
                                 .threads = 1,
                                 .n = c->parameters,
                                 .n_rounds = 3,
                                 .n_warmup = 1};
    WEFT_TRY(wefti_gauge_create(c->p->ctx, &config, &gauge));
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->n && status == WEFT_OK; i++) {
        wefti_gauge_seconds s;
        status = wefti_gauge_measure(gauge, &c->of[i].config, &s);
        double *at = c->figures + i * FIGURES + group * PHASES;
        at[0] = s.begin_s, at[1] = s.combine_s, at[2] = s.end_s;
    }
    wefti_gauge_destroy(gauge);
    return status;
}

static weft_status measure_groups(void *user) {
    codecs *c = user;
    double start_s = wefti_now_s();
    WEFT_TRY(measure_group(c, 0));
    WEFT_TRY(measure_group(c, 1));
    c->spent_s = wefti_now_s() - start_s;
    return WEFT_OK;
}

/* Chooses as many parameters as the time allows; a trial measures the time of one parameter. */
static weft_status choose_parameters(codecs *c, double seconds) {
    double most = (double)most_parameters(c), least = most < TRIAL ? most : TRIAL;
    c->parameters = (int64_t)least;
    WEFT_TRY(wefti_prober_in_turn(c->p, measure_groups, c));
    double each_s = HALVES * wefti_prober_turns(c->p) * c->spent_s / least;
    double fits = each_s > 0 ? seconds / each_s : most;
    double n = fits > most ? most : fits < least ? least : fits;
    n = -n; /* the minimum over all ranks */
    WEFT_TRY(wefti_prober_agree(c->p, &n));
    c->parameters = (int64_t)-n;
    return WEFT_OK;
}

/* --- results --- */

static double not_below_zero(double x) { return x > 0 ? x : 0; }

static weft_codec_seconds codec_of(const codecs *c, const double *figures) {
    const double *small = figures, *large = figures + PHASES;
    double more = c->members[1] - c->members[0], others = c->members[1] - 1;
    double combine = (large[1] - small[1]) / more, end = (large[2] - small[2]) / more;
    weft_codec_seconds s = {.begin_s = large[0],
                            .combine_peer_s = not_below_zero(combine + end)};
    double kept = s.combine_peer_s > 0 ? others : 0; /* the part of it that grew with the
                                                        peers */
    s.combine_s = not_below_zero(large[1] - kept * combine);
    s.end_s = not_below_zero(large[2] - kept * end);
    return s;
}

static double sum_of(const weft_codec_seconds *s, int others) {
    return s->begin_s + s->combine_s + others * s->combine_peer_s + s->end_s;
}

/* Computes medians over the ranks from all [ranks][HALVES][codecs][FIGURES]. */
static void take_medians(const codecs *c, int i, const wefti_samples *all, double *spare,
                         double medians[3][FIGURES]) {
    for (int f = 0; f < FIGURES; f++) {
        for (int half = 0; half < HALVES; half++) {
            for (int r = 0; r < all->ranks; r++)
                spare[r] = all->of[r * all->n + (half * c->n + i) * FIGURES + f];
            medians[1 + half][f] = wefti_quantile(spare, all->ranks, 0.5);
        }
        medians[0][f] = (medians[1][f] + medians[2][f]) / 2;
    }
}

static weft_status note_codecs(const codecs *c, const wefti_samples *all) {
    double medians[3][FIGURES];
    int others = c->members[1] - 1;
    for (int i = 0; i < c->n; i++) {
        weft_codec_seconds s[3];
        take_medians(c, i, all, all->spare, medians);
        for (int part = 0; part < 3; part++) s[part] = codec_of(c, medians[part]);
        snprintf(s[0].name, sizeof s[0].name, "%s", c->of[i].name);
        weft_probe_figure figure = {.unit = "s/parameter",
                                    .value = sum_of(&s[0], others),
                                    .first = sum_of(&s[1], others),
                                    .second = sum_of(&s[2], others)};
        snprintf(figure.name, sizeof figure.name, "%s, %d nodes", c->of[i].name,
                 c->members[1]);
        WEFT_TRY(wefti_prober_append(c->p, WEFT_CLUSTER_CODECS, &s[0]));
        WEFT_TRY(wefti_prober_note(c->p, &figure));
    }
    return WEFT_OK;
}

static weft_status measure(codecs *c, double seconds, double *figures) {
    c->figures = figures;
    WEFT_TRY(choose_parameters(c, seconds));
    for (int half = 0; half < HALVES; half++) {
        c->figures = figures + half * c->n * FIGURES;
        WEFT_TRY(wefti_prober_in_turn(c->p, measure_groups, c));
    }
    wefti_samples all = {0};
    weft_status status = wefti_prober_gather(c->p, figures,
                                             (int64_t)HALVES * c->n * FIGURES, &all);
    if (status == WEFT_OK) status = note_codecs(c, &all);
    wefti_samples_fini(c->p->ctx, &all);
    return status;
}

static weft_status measure_replicators(wefti_prober *p, double seconds) {
    codecs *c;
    double *figures;
    WEFT_TRY(wefti_alloc(p->ctx, sizeof *c, "codecs", &c));
    c->p = p;
    list_codecs(c);
    weft_status status = wefti_alloc_n(p->ctx, (int64_t)HALVES * c->n * FIGURES,
                                       sizeof *figures, "codecs", &figures);
    if (status == WEFT_OK) status = measure(c, seconds, figures);
    WEFTI_FREE(p->ctx, figures, c);
    return status;
}

weft_status wefti_probe_codecs(wefti_prober *p, double seconds) {
    int before = wefti_kernels_threads();
    wefti_kernels_set_threads(1);
    weft_status status = measure_replicators(p, 0.75 * seconds);
    if (status == WEFT_OK) status = wefti_probe_mixers(p, 0.25 * seconds);
    wefti_kernels_set_threads(before);
    return status;
}

/* --- optimizers --- */

typedef struct optimizers {
    wefti_prober *p;
    int64_t n, steps;
    double spent_s, seconds[WEFT_BENCH_OPTIMIZERS]; /* the last: per parameter */
    weft_optimizer_speeds speeds;
} optimizers;

static weft_status measure_optimizers(void *user) {
    optimizers *o = user;
    const wefti_job *job = o->p->setup->job;
    weft_bench_optimizers_options options = {
        .struct_size = sizeof options,
        .kernels = job->kernels->name,
        .threads = 1,
        .n = o->n,
        .accumulate = job->optimizer.config.accumulate,
        .steps = o->steps,
        .warmup = 1};
    double start_s = wefti_now_s();
    WEFT_TRY(weft_bench_optimizers(o->p->ctx, &options, &o->speeds));
    o->spent_s = wefti_now_s() - start_s;
    for (int i = 0; i < o->speeds.n_optimizers; i++)
        o->seconds[i] = o->speeds.of[i].bytes / o->speeds.of[i].bandwidth_Bps;
    return WEFT_OK;
}

static weft_status note_optimizer(wefti_prober *p, const char *name,
                                  const double halves[2]) {
    char text[64];
    weft_optimizer_seconds optimizer = {.step_s = 0};
    wefti_samples s = {0};
    snprintf(text, sizeof text, "optimizer %s", name);
    snprintf(optimizer.name, sizeof optimizer.name, "%s", name);
    weft_status status = wefti_prober_gather(p, halves, 2, &s);
    if (status == WEFT_OK) status = wefti_prober_note_samples(p, text, "s/parameter", &s);
    if (status == WEFT_OK) optimizer.step_s = wefti_samples_quantile(&s, WEFTI_ALL, 0.5);
    wefti_samples_fini(p->ctx, &s);
    WEFT_TRY(status);
    return wefti_prober_append(p, WEFT_CLUSTER_OPTIMIZERS, &optimizer);
}

weft_status wefti_probe_optimizers(wefti_prober *p, double seconds) {
    enum { LEAST = 1 << 14, LARGEST = 1 << 21 };
    double halves[2][WEFT_BENCH_OPTIMIZERS];
    int64_t n = p->setup->job->model->n_elements / p->setup->job->S, rounds;
    optimizers o = {.p = p, .steps = 1, .speeds.struct_size = sizeof o.speeds};
    o.n = n < LEAST ? LEAST : n > LARGEST ? LARGEST : n;
    WEFT_TRY(wefti_prober_in_turn(p, measure_optimizers, &o));
    WEFT_TRY(wefti_prober_rounds(p, o.spent_s / 2 * wefti_prober_turns(p), seconds, 6,
                                 200, &rounds));
    o.steps = rounds / 2;
    for (int half = 0; half < 2; half++) {
        WEFT_TRY(wefti_prober_in_turn(p, measure_optimizers, &o));
        memcpy(halves[half], o.seconds, sizeof o.seconds);
    }
    for (int i = 0; i < o.speeds.n_optimizers; i++) {
        double of[2] = {halves[0][i], halves[1][i]};
        WEFT_TRY(note_optimizer(p, o.speeds.of[i].name, of));
    }
    return WEFT_OK;
}
