/* SPDX-License-Identifier: MIT */
/* Measures computing, on all ranks at once: waking up, matrix products, copying, and
 * steps of the configured model, in which each unit is timed in place.
 *
 *     wake      how late a thread wakes up from a sleep
 *     rate      FLOP per second of matrix products
 *     memory    bytes per second of a copy that fits into no cache
 *     steps     forward and backward of each unit; computing of a step, for the jitter
 *
 * All ranks measure at the same time, because in a run they compute at the same time: they share
 * caches, memory and clock rate, and a single rank alone would be faster than in a run. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/rate.h"
#include "probe/prober.h"
#include "probe/trial.h"

enum { COPY_FLOATS = 1 << 22, COPY_BLOCK = 16384, MOST_ROUNDS = 1000 };

/* --- rates --- */

static void copy(int threads, int64_t n, const float *from, float *to) {
    (void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i += COPY_BLOCK)
        memcpy(to + i, from + i, COPY_BLOCK * sizeof(float));
}

static double copy_rate(int threads, const float *from, float *to) {
    double start_s = wefti_now_s();
    copy(threads, COPY_FLOATS, from, to);
    return 2.0 * COPY_FLOATS * sizeof(float) / (wefti_now_s() - start_s);
}

/* rates [3][rounds]: products, copying, products of numbers rounded to bf16. */
static weft_status measure_rates(wefti_prober *p, int64_t rounds, double *rates) {
    const wefti_job *job = p->setup->job;
    float *block;
    WEFT_TRY(wefti_alloc_n(p->ctx, 2 * COPY_FLOATS, sizeof(float), "a copy", &block));
    copy(job->run.threads, COPY_FLOATS, block + COPY_FLOATS, block);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < rounds && status == WEFT_OK; i++) {
        status = wefti_prober_meet(p);
        if (status == WEFT_OK)
            status = wefti_measure_gemm(p->ctx, job->kernels, job->run.threads,
                                        &rates[i]);
        if (status == WEFT_OK)
            status = wefti_measure_gemm(p->ctx, job->kernels->bf16, job->run.threads,
                                        &rates[2 * rounds + i]);
        if (status == WEFT_OK) status = wefti_prober_meet(p);
        rates[rounds + i] = copy_rate(job->run.threads, block, block + COPY_FLOATS);
    }
    wefti_free(p->ctx, block);
    return status;
}

static weft_status gather_rate(wefti_prober *p, const char *name, const char *unit,
                               const double *rates, int64_t n, double *median) {
    wefti_samples s = {0};
    weft_status status = wefti_prober_gather(p, rates, n, &s);
    if (status == WEFT_OK) status = wefti_prober_note_samples(p, name, unit, &s);
    if (status == WEFT_OK) *median = wefti_samples_quantile(&s, WEFTI_ALL, 0.5);
    wefti_samples_fini(p->ctx, &s);
    return status;
}

/* --- waking --- */

/* All ranks sleep at the same time, so that they wake up at about the same time. */
static weft_status measure_waking(wefti_prober *p, double *median) {
    enum { TIMES = 40 };
    double late[TIMES];
    const double nap_s = 2e-3;
    for (int i = 0; i < TIMES; i++) {
        if (i % 8 == 0) WEFT_TRY(wefti_prober_meet(p));
        double until_s = wefti_now_s() + nap_s;
        wefti_sleep_until_s(until_s);
        late[i] = wefti_now_s() - until_s;
    }
    return gather_rate(p, "late after sleeping", "s", late, TIMES, median);
}

weft_status wefti_probe_rates(wefti_prober *p, double seconds) {
    int64_t rounds;
    double *rates, flops = 0, bf16_flops = 0, Bps = 0, wake_s;
    WEFT_TRY(measure_waking(p, &wake_s));
    WEFT_TRY(wefti_prober_rounds(p, 0.15, seconds, 2, 20, &rounds));
    WEFT_TRY(wefti_alloc_n(p->ctx, 3 * rounds, sizeof *rates, "rates", &rates));
    weft_status status = measure_rates(p, rounds, rates);
    if (status == WEFT_OK)
        status = gather_rate(p, "matrix products", "FLOP/s", rates, rounds, &flops);
    if (status == WEFT_OK)
        status = gather_rate(p, "copying", "B/s", rates + rounds, rounds, &Bps);
    if (status == WEFT_OK)
        status = gather_rate(p, "matrix products, bf16", "FLOP/s", rates + 2 * rounds,
                             rounds, &bf16_flops);
    wefti_free(p->ctx, rates);
    if (status != WEFT_OK || !p->result) return status;
    p->result->cluster->rank_flops = flops;
    p->result->cluster->rank_flops_bf16 = bf16_flops;
    p->result->cluster->memory_Bps = Bps;
    p->result->cluster->wake_s = wake_s;
    return WEFT_OK;
}

/* --- steps --- */

/* Rows of a step's samples: the whole step, the rest outside of the units, and for each
 * kind of unit the mean forward and backward time of one micro-batch. */
enum { STEP, REST, UNITS, KINDS = 3, ROWS = UNITS + 2 * KINDS };

static const char *const kind_names[KINDS] = {
    [WEFTI_EMBED] = "embedding", [WEFTI_BLOCK] = "block", [WEFTI_HEAD] = "head"};

static int64_t units_of(const weft_model *model, int kind) {
    int64_t n = 0;
    for (int u = 0; u < model->n_units; u++) n += (int)model->units[u].kind == kind;
    return n;
}

/* Reads the figures of a step from the rank's clock. */
static void read_clock(const wefti_rank *r, double step_s, double *row, int64_t stride) {
    const weft_model *model = r->job->model;
    double inside_s = r->passes.clock->shard_s, of[2 * KINDS] = {0};
    for (int u = 0; u < model->n_units; u++) {
        int kind = (int)model->units[u].kind;
        of[2 * kind] += r->passes.clock->forward_s[u];
        of[2 * kind + 1] += r->passes.clock->backward_s[u];
        inside_s += r->passes.clock->forward_s[u] + r->passes.clock->backward_s[u];
    }
    row[STEP * stride] = step_s - r->passes.clock->shard_s;
    row[REST * stride] = step_s > inside_s ? step_s - inside_s : 0;
    for (int i = 0; i < 2 * KINDS; i++)
        row[(UNITS + i) * stride] = of[i] / (double)(units_of(model, i / 2) *
                                                     r->job->batch.n_micro);
}

static weft_status take_step(wefti_rank *r, int64_t step, double *seconds) {
    wefti_tally tally;
    wefti_step_status agreed;
    int n = r->job->model->n_units;
    memset(r->passes.clock->forward_s, 0, (size_t)n * sizeof(double));
    memset(r->passes.clock->backward_s, 0, (size_t)n * sizeof(double));
    r->passes.clock->shard_s = 0;
    double start_s = wefti_now_s();
    WEFT_TRY(wefti_rank_step(r, step));
    *seconds = wefti_now_s() - start_s;
    WEFT_TRY(wefti_rank_settle(r, &tally));
    return wefti_rank_read_status(r, step, &agreed);
}

/* Runs a few warm-up steps, the last of which determines how many steps fit into the
 * time, then the measured steps. rows [ROWS][*n] is allocated here. */
static weft_status take_steps(wefti_prober *p, double seconds, double **rows,
                              int64_t *n) {
    enum { WARMUP = 2 };
    wefti_rank *r = p->rank;
    double step_s = 0, begin_s = 0;
    for (int64_t step = 0; step < WARMUP; step++) {
        begin_s = wefti_now_s();
        WEFT_TRY(take_step(r, step, &step_s));
    }
    WEFT_TRY(wefti_prober_rounds(p, wefti_now_s() - begin_s, seconds, 4, MOST_ROUNDS, n));
    WEFT_TRY(wefti_alloc_n(p->ctx, ROWS * *n, sizeof **rows, "samples", rows));
    for (int64_t i = 0; i < *n; i++) {
        WEFT_TRY(take_step(r, WARMUP + i, &step_s));
        read_clock(r, step_s, *rows + i, *n);
    }
    return WEFT_OK;
}

static weft_status note_jitter(wefti_prober *p, wefti_samples *s) {
    wefti_variation v[3];
    for (int part = 0; part < 3; part++)
        v[part] = wefti_variation_of(s, (wefti_sample_half)part);
    const weft_probe_figure figures[] = {
        {"computing a step", "s", v[0].median_s, v[1].median_s, v[2].median_s},
        {"its spread", "", v[0].spread, v[1].spread, v[2].spread},
        {"drift of ranks", "", v[0].drift, v[1].drift, v[2].drift},
        {"share of stalls", "", v[0].stall_share, v[1].stall_share, v[2].stall_share},
        {"length of stalls", "s", v[0].stall_s, v[1].stall_s, v[2].stall_s}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        WEFT_TRY(wefti_prober_note(p, &figures[i]));
    if (!p->result) return WEFT_OK;
    p->result->cluster->jitter = (weft_jitter){.spread = v[0].spread,
                                               .drift = v[0].drift,
                                               .stall_share = v[0].stall_share,
                                               .stall_s = v[0].stall_s};
    return WEFT_OK;
}

/* Keeps the samples for the jitter: those of the first rank. */
static weft_status keep_steps(wefti_prober *p, const wefti_samples *s) {
    if (!p->result) return WEFT_OK;
    weft_cluster *c = p->result->cluster;
    WEFT_TRY(weft_cluster_resize(p->setup->owner, c, WEFT_CLUSTER_STEPS, s->n));
    memcpy(c->step_s, s->of, (size_t)s->n * sizeof *s->of);
    return WEFT_OK;
}

/* Where ranks share cores, most short intervals are undisturbed, and so is their median.
 * So all parts are scaled until they add up to the median step. */
static double stretch_of(const wefti_prober *p, const double medians[ROWS]) {
    double sum = medians[REST];
    for (int i = 0; i < 2 * KINDS; i++)
        sum += medians[UNITS + i] * (double)(units_of(p->rank->job->model, i / 2) *
                                             p->rank->job->batch.n_micro);
    return sum > 0 && medians[STEP] > sum ? medians[STEP] / sum : 1;
}

static weft_status note_units(wefti_prober *p, const double medians[ROWS]) {
    double stretch = stretch_of(p, medians);
    for (int kind = 0; kind < KINDS; kind++) {
        weft_unit_seconds unit = {.forward_s = stretch * medians[UNITS + 2 * kind],
                                  .backward_s = stretch * medians[UNITS + 2 * kind + 1]};
        snprintf(unit.name, sizeof unit.name, "%s", kind_names[kind]);
        WEFT_TRY(wefti_prober_append(p, WEFT_CLUSTER_UNITS, &unit));
    }
    if (p->result) p->result->cluster->rest_s = stretch * medians[REST];
    return WEFT_OK;
}

static weft_status note_row(wefti_prober *p, int row, wefti_samples *s) {
    if (row == STEP) {
        WEFT_TRY(keep_steps(p, s));
        return note_jitter(p, s);
    }
    if (row == REST) return wefti_prober_note_samples(p, "rest of a step", "s", s);
    char name[64];
    snprintf(name, sizeof name, "%s %s", kind_names[(row - UNITS) / 2],
             (row - UNITS) % 2 ? "backward" : "forward");
    return wefti_prober_note_samples(p, name, "s", s);
}

static weft_status note_steps(wefti_prober *p, const double *rows, int64_t n) {
    double medians[ROWS];
    for (int row = 0; row < ROWS; row++) {
        wefti_samples s = {0};
        weft_status status = wefti_prober_gather(p, rows + row * n, n, &s);
        if (status == WEFT_OK) medians[row] = wefti_samples_quantile(&s, WEFTI_ALL, 0.5);
        if (status == WEFT_OK) status = note_row(p, row, &s);
        wefti_samples_fini(p->ctx, &s);
        WEFT_TRY(status);
    }
    return note_units(p, medians);
}

weft_status wefti_probe_steps(wefti_prober *p, double seconds) {
    int n_units = p->rank->job->model->n_units;
    double *times, *rows = NULL;
    int64_t n = 0;
    if (!wefti_probe_trials_here.init) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(p->ctx, 2 * n_units, sizeof *times, "unit times", &times));
    wefti_unit_clock clock = {times, times + n_units, 0};
    p->rank->passes.clock = &clock;
    weft_status status = take_steps(p, seconds, &rows, &n);
    p->rank->passes.clock = NULL;
    if (status == WEFT_OK) status = note_steps(p, rows, n);
    WEFTI_FREE(p->ctx, rows, times);
    return status;
}
