/* SPDX-License-Identifier: MIT */
/* Topologies of any kind and size for tests, and their matrices in plain loops. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "check.h"

#include <weft/topology.h>

enum { MOST = 33 };

typedef struct matrix {
    int n;
    double at[MOST][MOST];
} matrix;

typedef struct topology_fixture {
    weft_ctx *ctx;
    weft_topology *t;
    weft_neighbours *near;
    weft_topology_facts facts;
} topology_fixture;

/* A link between every two of N nodes, its cost drawn from `seed`; 0: all are equal. */
static inline weft_link *links_between(int N, uint64_t seed, int64_t *n) {
    weft_link *links = malloc(sizeof *links * (size_t)(N * N + 1));
    assert_non_null(links);
    *n = 0;
    for (int u = 0; u < N; u++)
        for (int v = u + 1; v < N; v++) {
            uint64_t draw = wefti_rng_u64(seed, WEFTI_STREAM_TEST, (uint64_t)u,
                                          (uint64_t)v);
            double ms = seed ? 1 + (double)(draw % 40) : 1;
            links[(*n)++] = (weft_link){u, v, ms * 1e-3, 1e8};
        }
    return links;
}

static inline weft_status try_topology(weft_ctx *ctx, const char *kind, int N, int L,
                                       weft_topology **out) {
    weft_topology_config config = {.struct_size = sizeof config,
                                   .kind = kind,
                                   .nodes = N,
                                   .ranks = L,
                                   .seed = 5,
                                   .copy_bytes = 1000000};
    weft_link *links = links_between(N, 3, &config.n_links);
    config.links = links;
    weft_status status = weft_topology_create(ctx, &config, out);
    free(links);
    return status;
}

static inline void open_topology(topology_fixture *f, const char *kind, int N, int L) {
    assert_int_equal(weft_ctx_create(&f->ctx), WEFT_OK);
    assert_ok(f->ctx, try_topology(f->ctx, kind, N, L, &f->t));
    assert_ok(f->ctx, weft_neighbours_create(f->ctx, f->t, &f->near));
    f->facts = *weft_topology_describe(f->t);
}

static inline void close_topology(topology_fixture *f) {
    weft_neighbours_destroy(f->ctx, f->near);
    weft_topology_destroy(f->ctx, f->t);
    assert_int_equal(weft_ctx_bytes_held(f->ctx), 0);
    weft_ctx_destroy(f->ctx);
}

/* Steps that a law is checked on: one period, or some if there is none. */
static inline int64_t steps_of(const topology_fixture *f) {
    return f->facts.period > 0 ? f->facts.period : 40;
}

static inline void matrix_of_step(topology_fixture *f, int64_t step, matrix *out) {
    *out = (matrix){.n = (int)f->facts.members};
    for (int i = 0; i < out->n; i++) {
        weft_topology_neighbours(f->t, i, step, f->near);
        for (int k = 0; k < f->near->n_sources; k++)
            out->at[i][f->near->sources[k]] += f->near->weights[k];
    }
}

static inline void identity(int n, matrix *out) {
    *out = (matrix){.n = n};
    for (int i = 0; i < n; i++) out->at[i][i] = 1;
}

/* x <- w x */
static inline void multiply(const matrix *w, matrix *x) {
    matrix y = {.n = w->n};
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < w->n; k++)
            for (int j = 0; w->at[i][k] != 0 && j < w->n; j++)
                y.at[i][j] += w->at[i][k] * x->at[k][j];
    *x = y;
}

static inline void product_of_steps(topology_fixture *f, int64_t steps, matrix *out) {
    matrix w;
    identity((int)f->facts.members, out);
    for (int64_t step = 0; step < steps; step++) {
        matrix_of_step(f, step, &w);
        multiply(&w, out);
    }
}

/* Largest distance of an entry from 1/n. */
static inline double distance_from_mean(const matrix *m) {
    double most = 0;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->n; j++) most = fmax(most, fabs(m->at[i][j] - 1.0 / m->n));
    return most;
}

/* Of a product of matrices. Its rows add up to one, or to the push-sum weights by which
 * they are divided. */
static inline double disagreement_of(const matrix *m) {
    double sum = 0;
    for (int i = 0; i < m->n; i++) {
        double weight = 0;
        for (int j = 0; j < m->n; j++) weight += m->at[i][j];
        for (int j = 0; j < m->n; j++) sum += pow(m->at[i][j] / weight - 1.0 / m->n, 2);
    }
    return m->n > 1 ? sqrt(sum / (m->n - 1)) : 0;
}

/* Runs `law` on every kind of the registry: n = 1..most members of one per node, and
 * 1..8 nodes of two and of four. */
static inline void for_every_topology(int most, void (*law)(topology_fixture *f)) {
    const char *kind, *summary;
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++)
        for (int L = 1; L <= 4; L *= 2)
            for (int N = 1; N <= (L == 1 ? most : 8); N++) {
                topology_fixture f;
                open_topology(&f, kind, N, L);
                law(&f);
                close_topology(&f);
            }
}

/* Fails with what the topology was. */
#define assert_of(f, truth)                                                              \
    do {                                                                                 \
        if (!(truth))                                                                    \
            fail_msg("%s, %d nodes x %d: not %s", (f)->facts.kind,                       \
                     (int)(f)->facts.nodes, (int)(f)->facts.ranks, #truth);              \
    } while (0)
