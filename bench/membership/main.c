/* SPDX-License-Identifier: MIT */
/* The membership protocol under seeded faults.
 *
 *     membership [--seeds N] [--seed S] [--nodes 2..6] [--method gather|owner|gossip]
 *                [--seconds 6] [--feed MS] [--only I3:] [--votes] [--trace] [--quiet]
 *
 * Runs seeds S, S + 1, ...; each is a run of several nodes with faults for --seconds of
 * simulated time, then without. Prints the first seed that fails, and the fewest of its
 * faults that still make it fail. --votes: each has a witness. --feed: how often the machines are
 * told of finished steps; 0: at once.
 *
 * Exit status: 0 all passed, 1 one failed, 2 usage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "world.h"

typedef struct arguments {
    long long n_seeds;
    unsigned long long seed;
    bool quiet, counts;
    options opt;
} arguments;

/* Only what a run has touched. */
static void reset(world *w) {
    int64_t last = w->best_finished + RING < STEPS ? w->best_finished + RING : STEPS - 1;
    memset(w->steps, 0, (size_t)(last + 1) * sizeof *w->steps);
    for (int64_t v = 0; v <= w->last_view && v < VIEWS; v++) w->views[v].is_known = false;
    world kept = *w;
    memset(w, 0, sizeof *w);
    w->opt = kept.opt;
    w->ctx = kept.ctx;
    w->nodes = kept.nodes;
    w->queue = kept.queue;
    w->max_queue = kept.max_queue;
    w->steps = kept.steps;
    w->views = kept.views;
    w->votes = kept.votes;
    memcpy(w->counts, kept.counts, sizeof w->counts);
}

static void run_seed(world *w, uint64_t seed, const bool *is_off) {
    reset(w);
    w->seed = seed;
    for (int k = 0; k < FAULTS; k++) w->faults[k].is_off = is_off && is_off[k];
    run_world(w);
}

/* Leaves out halves, quarters, ... single faults as long as the run still fails. */
static void shrink(world *w, uint64_t seed, bool *is_off) {
    int n = w->n_faults;
    for (int size = (n + 1) / 2; size >= 1; size = size > 1 ? (size + 1) / 2 : 0)
        for (int first = 0; first < n; first += size) {
            bool tried[FAULTS];
            memcpy(tried, is_off, sizeof tried);
            for (int k = first; k < n && k < first + size; k++) tried[k] = true;
            if (memcmp(tried, is_off, sizeof tried) == 0) continue;
            run_seed(w, seed, tried);
            if (w->failure[0]) memcpy(is_off, tried, sizeof tried);
        }
}

static void report(world *w, uint64_t seed) {
    bool is_off[FAULTS] = {false};
    printf("seed %llu: %s\n", (unsigned long long)seed, w->failure);
    shrink(w, seed, is_off);
    run_seed(w, seed, is_off);
    printf("  %d hosts, %d founders, method %d, latency %.1f ms%s%s%s; with these faults "
           "alone: %s\n",
           w->n_hosts, w->n_founders, w->how, (double)w->latency_us * 1e-3,
           w->has_launchers ? ", launchers" : "", w->votes_end_us ? ", a witness" : "",
           w->is_fifo ? "" : ", no order", w->failure);
    for (int k = 0; k < w->n_faults; k++)
        if (!w->faults[k].is_off) print_fault(&w->faults[k]);
}

static int usage(const char *wrong) {
    fprintf(stderr,
            "membership: cannot use '%s'; see the head of bench/membership/main.c\n",
            wrong);
    return 2;
}

static bool parse(int argc, char **argv, arguments *a, const char **wrong) {
    static const char *const methods[] = {"gather", "owner", "gossip"};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        *wrong = argv[i];
        bool quiet = strcmp(argv[i], "--quiet") == 0;
        bool trace = strcmp(argv[i], "--trace") == 0;
        bool votes = strcmp(argv[i], "--votes") == 0;
        a->quiet = a->quiet || quiet;
        a->opt.verbose = a->opt.verbose || trace;
        bool counts = strcmp(argv[i], "--counts") == 0;
        a->opt.votes = a->opt.votes || votes;
        a->counts = a->counts || counts;
        if (quiet || trace || votes || counts) continue;
        i++;
        if (strcmp(argv[i - 1], "--seeds") == 0)
            a->n_seeds = strtoll(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--seed") == 0)
            a->seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--only") == 0)
            a->opt.only = value;
        else if (strcmp(argv[i - 1], "--nodes") == 0)
            a->opt.nodes = atoi(value);
        else if (strcmp(argv[i - 1], "--feed") == 0)
            a->opt.feed_us = (int64_t)(atof(value) * 1e3);
        else if (strcmp(argv[i - 1], "--seconds") == 0)
            a->opt.fault_us = (int64_t)(atof(value) * 1e6);
        else if (strcmp(argv[i - 1], "--method") == 0) {
            for (int m = 0; m < METHODS; m++)
                if (strcmp(value, methods[m]) == 0) a->opt.method = m;
            if (a->opt.method == METHODS) return false;
        } else
            return false;
    }
    *wrong = "a number out of range";
    return a->n_seeds > 0 && a->opt.feed_us >= -1 && a->opt.fault_us > 0 &&
           a->opt.fault_us <= 60000000 &&
           (a->opt.nodes == 0 || (a->opt.nodes >= 2 && a->opt.nodes <= HOSTS));
}

static bool allocate(world *w) {
    w->nodes = calloc(SLOTS, sizeof *w->nodes);
    w->steps = calloc(STEPS, sizeof *w->steps);
    w->views = calloc(VIEWS, sizeof *w->views);
    w->max_queue = 4096;
    w->queue = calloc((size_t)w->max_queue, sizeof *w->queue);
    return w->nodes && w->steps && w->views && w->queue &&
           weft_ctx_create(&w->ctx) == WEFT_OK &&
           wefti_votes_init(w->ctx, &w->votes) == WEFT_OK;
}

static void give_back(world *w) {
    free(w->nodes);
    free(w->steps);
    free(w->views);
    free(w->queue);
    wefti_votes_fini(w->ctx, &w->votes);
    weft_ctx_destroy(w->ctx);
    free(w);
}

/* Whether one of the counted events never happened. */
static bool print_counts(const world *w, bool quiet) {
    bool misses = false;
    for (int k = 0; k < COUNTERS; k++) {
        if (!quiet || w->counts[k] == 0)
            printf("%9lld  %s\n", (long long)w->counts[k], counter_names[k]);
        misses = misses || w->counts[k] == 0;
    }
    return misses;
}

int main(int argc, char **argv) {
    arguments a = {.n_seeds = 100,
                   .seed = 1,
                   .opt = {.method = METHODS, .fault_us = 6000000, .feed_us = -1}};
    const char *wrong = "";
    if (!parse(argc, argv, &a, &wrong)) return usage(wrong);
    world *w = calloc(1, sizeof *w);
    if (!w || !allocate(w)) return 2;
    w->opt = a.opt;
    w->best_finished = STEPS;
    long long n_events = 0, n_views = 0, n_steps = 0, n_kills = 0, n_stuck = 0, k = 0;
    clock_t begin = clock();
    for (; k < a.n_seeds; k++) {
        run_seed(w, a.seed + (uint64_t)k, NULL);
        n_events += (long long)w->n_events;
        n_views += w->last_view;
        n_steps += w->best_finished + 1;
        n_kills += w->n_kills;
        n_stuck += !w->failure[0] && !w->has_progressed;
        if (w->failure[0]) break;
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    bool failed = w->failure[0];
    if (failed) report(w, a.seed + (uint64_t)k);
    if (!a.quiet || failed)
        printf("%lld seeds: %lld events, %lld views, %lld steps, %lld nodes killed, %lld "
               "runs "
               "rightly paused; %.1f s of CPU\n",
               k + failed, n_events, n_views, n_steps, n_kills, n_stuck, seconds);
    bool misses = !failed && a.counts && print_counts(w, a.quiet);
    give_back(w);
    return failed || misses;
}
