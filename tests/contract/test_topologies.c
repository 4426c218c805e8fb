/* SPDX-License-Identifier: MIT */
/* The laws of docs/topologies.md for every topology in the registry. */
#include "topologies.h"

/* Rounding of n sums of n products. */
#define TOLERANCE 1e-13

/* Columns add up to one, and rows, but for the kinds that say that theirs do not. */
static void stochastic(topology_fixture *f) {
    matrix w;
    bool uneven = false;
    for (int64_t step = 0; step < steps_of(f); step++) {
        double columns[MOST] = {0};
        matrix_of_step(f, step, &w);
        for (int i = 0; i < w.n; i++) {
            double row = 0;
            for (int j = 0; j < w.n; j++) {
                assert_of(f, w.at[i][j] >= 0);
                row += w.at[i][j];
                columns[j] += w.at[i][j];
            }
            uneven = uneven || fabs(row - 1) >= TOLERANCE;
        }
        for (int j = 0; j < w.n; j++) assert_of(f, fabs(columns[j] - 1) < TOLERANCE);
    }
    assert_of(f, uneven == f->facts.push_sum);
}

TEST(every_matrix_is_doubly_stochastic_or_needs_push_sum) {
    for_every_topology(MOST, stochastic);
}

/* In whole multiples of 2^-24: no tolerance. */
static void stochastic_in_f32(topology_fixture *f) {
    for (int64_t step = 0; step < steps_of(f); step++) {
        double columns[MOST] = {0};
        for (int i = 0; i < f->facts.members; i++) {
            double row = 0;
            weft_topology_neighbours(f->t, i, step, f->near);
            for (int k = 0; k < f->near->n_sources; k++) {
                double units = (double)f->near->weights_f32[k] * 0x1p24;
                assert_of(f, units == floor(units) && units >= 0);
                double error = fabs(units - f->near->weights[k] * 0x1p24);
                assert_of(f, error <= (k == f->near->self ? MOST : 0.5));
                row += units;
                columns[f->near->sources[k]] += units;
            }
            assert_of(f, row == 0x1p24 || f->facts.push_sum);
        }
        for (int j = 0; j < f->facts.members; j++) assert_of(f, columns[j] == 0x1p24);
    }
}

TEST(weights_in_f32_add_up_to_exactly_one) {
    for_every_topology(MOST, stochastic_in_f32);
}

static bool ascends(const int *list, int n) {
    for (int k = 1; k < n; k++)
        if (list[k] <= list[k - 1]) return false;
    return true;
}

static void consistent(topology_fixture *f) {
    int n = (int)f->facts.members;
    bool directed = false;
    for (int64_t step = 0; step < steps_of(f); step++) {
        bool hears[MOST][MOST] = {{false}}, reaches[MOST][MOST] = {{false}};
        for (int i = 0; i < n; i++) {
            weft_topology_neighbours(f->t, i, step, f->near);
            const weft_neighbours *g = f->near;
            assert_of(f, g->n_sources <= f->facts.max_sources);
            assert_of(f, g->n_targets <= f->facts.max_targets);
            assert_of(f, ascends(g->sources, g->n_sources));
            assert_of(f, ascends(g->targets, g->n_targets));
            assert_of(f, g->sources[g->self] == i);
            for (int k = 0; k < g->n_sources; k++) hears[i][g->sources[k]] = true;
            for (int k = 0; k < g->n_targets; k++) reaches[i][g->targets[k]] = true;
            assert_of(f, !reaches[i][i]);
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                assert_of(f, i == j || hears[i][j] == reaches[j][i]);
                directed = directed || hears[i][j] != hears[j][i];
            }
    }
    assert_of(f, directed == f->facts.directed);
}

TEST(who_hears_is_who_is_told) { for_every_topology(MOST, consistent); }

static bool same_sources(const weft_neighbours *a, const weft_neighbours *b) {
    size_t n_bytes = (size_t)a->n_sources * sizeof(int);
    return a->n_sources == b->n_sources && !memcmp(a->sources, b->sources, n_bytes);
}

static void closed_groups(topology_fixture *f) {
    weft_neighbours *other;
    assert_ok(f->ctx, weft_neighbours_create(f->ctx, f->t, &other));
    for (int64_t step = 0; step < steps_of(f); step++)
        for (int i = 0; i < f->facts.members; i++) {
            bool closed = true, equal = true;
            weft_topology_neighbours(f->t, i, step, f->near);
            for (int k = 0; k < f->near->n_sources; k++) {
                weft_topology_neighbours(f->t, f->near->sources[k], step, other);
                closed = closed && same_sources(f->near, other);
                equal = equal && f->near->weights[k] == f->near->weights[0];
                assert_of(f, !f->near->group || other->group);
                assert_of(f, f->near->mean == other->mean || !f->near->group);
            }
            /* a closed group whose members have other weights than one another takes no
             * mean */
            assert_of(f, f->facts.push_sum ? !f->near->group : closed == f->near->group);
            assert_of(f, f->near->mean == (f->near->group && equal));
        }
    weft_neighbours_destroy(f->ctx, other);
}

TEST(groups_are_closed) { for_every_topology(MOST, closed_groups); }

static void repeats(topology_fixture *f) {
    matrix first, again;
    int64_t period = f->facts.period;
    assert_of(f, period >= 0);
    for (int64_t step = 0; period > 0 && step < period; step++) {
        matrix_of_step(f, step, &first);
        matrix_of_step(f, step + 1000003 * period, &again);
        assert_of(f, memcmp(&first, &again, sizeof first) == 0);
    }
    matrix_of_step(f, 7, &first);
    matrix_of_step(f, 3, &again);
    matrix_of_step(f, 7, &again);
    assert_of(f, memcmp(&first, &again, sizeof first) == 0);
}

TEST(a_step_is_a_function_of_its_number) { for_every_topology(MOST, repeats); }

/* x <- W x with the weights that are used in f32, in double. */
static void mix(topology_fixture *f, int64_t step, double *x) {
    double y[MOST];
    int n = (int)f->facts.members;
    for (int i = 0; i < n; i++) {
        weft_topology_neighbours(f->t, i, step, f->near);
        y[i] = 0;
        for (int k = 0; k < f->near->n_sources; k++)
            y[i] += (double)f->near->weights_f32[k] * x[f->near->sources[k]];
    }
    memcpy(x, y, (size_t)n * sizeof *x);
}

static void keeps_mean(topology_fixture *f) {
    int n = (int)f->facts.members;
    double x[MOST], before = 0, after = 0;
    for (int i = 0; i < n; i++) {
        x[i] = wefti_rng_normal(4, WEFTI_STREAM_TEST, 0, (uint64_t)i);
        before += x[i] / n;
    }
    for (int64_t step = 0; step < 100; step++) mix(f, step, x);
    for (int i = 0; i < n; i++) after += x[i] / n;
    assert_of(f, fabs(after - before) < TOLERANCE);
}

TEST(the_mean_is_kept) { for_every_topology(MOST, keeps_mean); }

static bool promises_exactness(const weft_topology_facts *f) {
    bool power = (f->members & (f->members - 1)) == 0;
    if (strcmp(f->kind, "complete") == 0 || strcmp(f->kind, "aer") == 0) return true;
    if (strcmp(f->kind, "exponential") == 0) return power;
    return false;
}

static void exact(topology_fixture *f) {
    matrix product;
    product_of_steps(f, steps_of(f), &product);
    bool reached = distance_from_mean(&product) < TOLERANCE;
    assert_of(f, f->facts.exact || !promises_exactness(&f->facts));
    assert_of(f, reached || !f->facts.exact);
    if (f->facts.period > 0 && strcmp(f->facts.kind, "measured") != 0)
        assert_of(f, reached == f->facts.exact);
}

TEST(who_promises_the_exact_mean_in_a_period_has_it) { for_every_topology(MOST, exact); }

static void all_agree(topology_fixture *f) {
    weft_topology_analysis x = {.struct_size = sizeof x};
    matrix w, product;
    double left = 1, before = 1;
    assert_ok(f->ctx, weft_topology_analyse(f->ctx, f->t, &x));
    assert_of(f, x.stochastic_error < TOLERANCE);
    assert_of(f, x.steps_1e6 >= 0 && !x.estimated);
    identity((int)f->facts.members, &product);
    for (int64_t step = 0; step < x.steps_1e6; step++) {
        matrix_of_step(f, step, &w);
        multiply(&w, &product);
        before = left;
        left = disagreement_of(&product);
    }
    assert_of(f, f->facts.members == 1 || (left <= 1e-6 && before > 1e-6));
    if (x.exact_steps > 0) assert_of(f, x.exact_steps == x.steps_1e6 && left < 1e-12);
    if (f->facts.exact) assert_of(f, x.exact_steps >= 0);
}

TEST(all_members_agree_when_the_report_says) { for_every_topology(20, all_agree); }

/* One rotation of Jacobi's method on a symmetric matrix: zeroes a[p][q]. */
static void rotate(matrix *a, int p, int q) {
    if (fabs(a->at[p][q]) < 1e-300) return;
    double theta = (a->at[q][q] - a->at[p][p]) / (2 * a->at[p][q]);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < a->n; k++) {
        double x = a->at[k][p], y = a->at[k][q];
        a->at[k][p] = c * x - s * y;
        a->at[k][q] = s * x + c * y;
    }
    for (int k = 0; k < a->n; k++) {
        double x = a->at[p][k], y = a->at[q][k];
        a->at[p][k] = c * x - s * y;
        a->at[q][k] = s * x + c * y;
    }
}

/* The second largest singular value, from all eigenvalues of m^T m. */
static double second_by_jacobi(const matrix *m) {
    matrix a = {.n = m->n};
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->n; j++)
            for (int k = 0; k < m->n; k++) a.at[i][j] += m->at[k][i] * m->at[k][j];
    for (int sweep = 0; sweep < 12; sweep++)
        for (int p = 0; p < a.n; p++)
            for (int q = p + 1; q < a.n; q++) rotate(&a, p, q);
    double first = 0, second = 0;
    for (int i = 0; i < a.n; i++) {
        double value = a.at[i][i];
        second = fmax(second, fmin(value, first));
        first = fmax(first, value);
    }
    assert_true(fabs(first - 1) < 1e-9);
    return sqrt(second);
}

static void gaps(topology_fixture *f) {
    weft_topology_analysis x = {.struct_size = sizeof x};
    matrix w, mean = {.n = (int)f->facts.members}, product;
    assert_ok(f->ctx, weft_topology_analyse(f->ctx, f->t, &x));
    for (int64_t step = 0; step < x.steps; step++) {
        matrix_of_step(f, step, &w);
        for (int i = 0; i < w.n; i++)
            for (int j = 0; j < w.n; j++) mean.at[i][j] += w.at[i][j] / (double)x.steps;
    }
    if (f->facts.push_sum) {
        assert_of(f, isnan(x.gap_mean) && isnan(x.gap_period));
        return;
    }
    /* sqrt of an eigenvalue that is 0 up to 1e-16 */
    assert_of(f, fabs(1 - second_by_jacobi(&mean) - x.gap_mean) < 1e-7);
    if (f->facts.period == 0) {
        assert_of(f, isnan(x.gap_period));
        return;
    }
    product_of_steps(f, x.steps, &product);
    assert_of(f, fabs(1 - second_by_jacobi(&product) - x.gap_period) < 1e-7);
    assert_of(f, fabs(disagreement_of(&product) - x.left) < TOLERANCE);
}

TEST(the_gap_is_that_of_the_matrices) { for_every_topology(14, gaps); }

static void quiet(topology_fixture *f) {
    int64_t allocations = weft_ctx_allocations(f->ctx);
    for (int64_t step = 0; step < 50; step++)
        weft_topology_neighbours(f->t, step % f->facts.members, step, f->near);
    assert_of(f, weft_ctx_allocations(f->ctx) == allocations);
}

TEST(a_query_allocates_nothing) { for_every_topology(9, quiet); }

static weft_status use_everything(weft_ctx *ctx, const char *kind) {
    weft_topology *t;
    weft_topology_analysis x = {.struct_size = sizeof x};
    char *text = NULL;
    WEFT_TRY(try_topology(ctx, kind, 5, 2, &t));
    weft_status status = weft_topology_analyse(ctx, t, &x);
    if (status == WEFT_OK) status = weft_topology_notation(ctx, t, 0, &text);
    if (status == WEFT_OK) status = weft_topology_draw(ctx, t, "drawing.svg");
    weft_free(ctx, text);
    weft_topology_destroy(ctx, t);
    return status;
}

TEST(every_failing_allocation_is_a_clean_error) {
    const char *kind, *summary;
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++) {
        int64_t k = 0;
        for (;; k++) {
            weft_ctx_fail_allocation(ctx, k);
            weft_status status = use_everything(ctx, kind);
            weft_ctx_fail_allocation(ctx, -1);
            assert_int_equal(weft_ctx_bytes_held(ctx), 0);
            if (status == WEFT_OK) break;
            assert_int_equal(status, WEFT_ERR_MEMORY);
            weft_ctx_clear(ctx);
        }
        assert_true(k > 10);
    }
    weft_ctx_destroy(ctx);
}
