/* SPDX-License-Identifier: MIT */
#include "topologies.h"
#include "topology/topology.h"

static weft_topology_analysis analyse(const char *kind, int N, int L) {
    topology_fixture f;
    weft_topology_analysis x = {.struct_size = sizeof x};
    open_topology(&f, kind, N, L);
    assert_ok(f.ctx, weft_topology_analyse(f.ctx, f.t, &x));
    close_topology(&f);
    return x;
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * (1 + fabs(b)))

static const double B = 1e6; /* copy_bytes of the fixture */

/* METHODS: all-reduce 2 (R-1)/R B per member and step; with L copies in a node, of each what goes
 * to members that are elsewhere: 2 L (N-1)/N. */
TEST(complete_costs_what_an_all_reduce_does) {
    for (int N = 2; N <= 9; N++)
        for (int L = 1; L <= 4; L++) {
            weft_topology_analysis x = analyse("complete", N, L);
            assert_near(x.out_max, 2 * L * B * (N - 1) / N);
            assert_near(x.in_mean, 2 * L * B * (N - 1) / N);
        }
}

/* L B on every second step. */
TEST(aer_crosses_on_every_second_step) {
    for (int L = 1; L <= 4; L++) {
        weft_topology_analysis x = analyse("aer", 8, L);
        double crossing = L * B;
        assert_near(x.out_max, crossing);
        assert_near(x.out_mean, crossing / 2);
        assert_near(x.in_max, crossing);
        assert_near(x.in_mean, crossing / 2);
    }
}

/* L B per crossing step; log2 L of the log2 (N L) steps stay inside the nodes. */
TEST(exponential_sends_a_copy_per_member) {
    for (int L = 1; L <= 4; L *= 2) {
        weft_topology_analysis x = analyse("exponential", 4, L);
        double crossing_share = 2 / log2(4.0 * L);
        assert_near(x.out_max, L * B);
        assert_near(x.out_mean, L * B * crossing_share);
    }
    weft_topology_analysis odd = analyse("exponential", 5, 1);
    assert_near(odd.out_max, B);
    assert_near(odd.in_max, B);
}

TEST(an_idle_node_lowers_the_mean_only) {
    weft_topology_analysis x = analyse("ring", 5, 1);
    assert_near(x.out_max, B);
    assert_near(x.out_mean, B * 4 / 5);
}

TEST(one_node_costs_nothing_and_agrees) {
    const char *kind, *summary;
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++) {
        weft_topology_analysis x = analyse(kind, 1, 1);
        assert_true(x.out_max == 0 && x.in_mean == 0);
        assert_true(x.exact_steps == 0 && x.steps_1e6 == 0);
        x = analyse(kind, 1, 4);
        assert_true(x.out_max == 0 && x.steps_1e6 > 0);
    }
}

/* The pairs of even and of odd steps are two projections whose spaces meet, beside the
 * mean, at an angle of 2 pi / n. */
TEST(the_gap_of_a_ring_is_known) {
    for (int n = 6; n <= 32; n += 2) {
        double turn = 2 * acos(-1) / n;
        assert_near(analyse("ring", n, 1).gap_period, 1 - cos(turn));
    }
}

/* The eigenvalues of a circulant of 1, 1, ... are sums of roots of unity. */
TEST(the_gap_of_static_exponential_is_known) {
    for (int n = 4; n <= 33; n++) {
        double most = 0;
        int d = 0;
        while (1 << d < n) d++;
        for (int k = 1; k < n; k++) {
            double re = 1, im = 0, turn = 2 * acos(-1) * k / n;
            for (int i = 0; i < d; i++) {
                re += cos(turn * (1 << i));
                im += sin(turn * (1 << i));
            }
            most = fmax(most, hypot(re, im) / (d + 1));
        }
        assert_near(analyse("static_exponential", n, 1).gap_period, 1 - most);
    }
}

TEST(slow_schedules_are_estimated) {
    int n = UNDER_SANITIZER ? 128 : 256;
    weft_topology_analysis x = analyse("torus", n, 1);
    assert_true(!x.estimated); /* 16 x 16 or 8 x 16 is fast enough to be followed */
    double slowest = (double)x.steps_1e6 * log(1 - x.gap_period); /* what is left of it */
    assert_true(slowest > log(1e-6) - 0.1 && slowest < log(1e-6) + log(n) / 2);
    if (UNDER_SANITIZER) return;  /* following it takes seconds there */
    x = analyse("torus", 251, 1); /* a prime: a ring */
    assert_true(x.estimated && x.exact_steps < 0);
    assert_near((double)x.steps_1e6, ceil(log(1e-6) / log(1 - x.gap_period)));
}

TEST(too_many_members_are_refused) {
    topology_fixture f;
    weft_topology_analysis x = {.struct_size = sizeof x};
    open_topology(&f, "ring", 171, 3);
    assert_int_equal(weft_topology_analyse(f.ctx, f.t, &x), WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(f.ctx),
                        "found 513 members, expected at most 512 to analyse");
    close_topology(&f);
}

TEST(links_that_are_used_and_not_listed_are_counted) {
    static const weft_link links[] = {{0, 1, 2, 1e6}, {1, 2, 0.5, 1e6}};
    weft_topology_config config = {
        .struct_size = sizeof config, .kind = "complete", .nodes = 4, .ranks = 2};
    config.links = links;
    config.n_links = 2;
    config.copy_bytes = 1000000;
    weft_ctx *ctx;
    weft_topology *t;
    weft_topology_analysis x = {.struct_size = sizeof x};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_topology_create(ctx, &config, &t));
    assert_ok(ctx, weft_topology_analyse(ctx, t, &x));
    assert_int_equal(x.unlisted, 4); /* 0-2, 0-3, 1-3, 2-3 */
    assert_near(x.link_max_s, 3.0);
    weft_topology_destroy(ctx, t);
    weft_ctx_destroy(ctx);
}

/* W = (0.9 0; 0.1 1): its rows are wrong, its columns right; and the other way round. */
static void wrong_rows(const weft_topology *t, int member, int64_t step,
                       weft_neighbours *out) {
    (void)t;
    (void)step;
    wefti_hear(out, member, member == 0 ? 0.9 : 1);
    if (member == 1) wefti_hear(out, 0, 0.1);
}

static void wrong_columns(const weft_topology *t, int member, int64_t step,
                          weft_neighbours *out) {
    (void)t;
    (void)step;
    wefti_hear(out, member, member == 0 ? 0.9 : 1);
    if (member == 0) wefti_hear(out, 1, 0.1);
}

TEST(a_matrix_that_is_not_stochastic_is_found_out) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int k = 0; k < 2; k++) {
        wefti_topology_ops ops = {.name = "wrong"};
        ops.neighbours = k == 0 ? wrong_rows : wrong_columns;
        weft_topology t = {.ops = &ops, .facts = {.nodes = 2, .ranks = 1, .members = 2}};
        weft_topology_analysis x = {.struct_size = sizeof x};
        t.facts.period = 1;
        t.facts.max_sources = 2;
        assert_ok(ctx, weft_topology_analyse(ctx, &t, &x));
        assert_near(x.stochastic_error, 0.1);
    }
    weft_ctx_destroy(ctx);
}

TEST(singular_values_of_known_matrices) {
    static const double one[] = {1}, swap[] = {0, 1, 1, 0}, half[] = {.5, .5, .5, .5},
                        third[] = {.75, .25, 0, .25, .75, 0, 0, 0, 1};
    double work[18];
    assert_true(wefti_second_singular_value(1, one, work) == 0);
    assert_near(wefti_second_singular_value(2, swap, work), 1.0);
    assert_near(wefti_second_singular_value(2, half, work), 0.0);
    assert_near(wefti_second_singular_value(3, third, work), 1.0);
}
