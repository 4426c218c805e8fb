/* SPDX-License-Identifier: MIT */
#include "topologies.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static weft_topology *create(const char *kind, int N, const weft_link *links, int64_t n) {
    weft_topology_config config = {.struct_size = sizeof config,
                                   .kind = kind,
                                   .nodes = N,
                                   .ranks = 1,
                                   .links = links,
                                   .n_links = n};
    config.copy_bytes = 1000000;
    weft_topology *t;
    assert_ok(ctx, weft_topology_create(ctx, &config, &t));
    return t;
}

static void assert_steps(weft_topology *t, const char *const *steps) {
    int64_t n = 0;
    for (; steps[n]; n++) {
        char *text;
        assert_ok(ctx, weft_topology_notation(ctx, t, n, &text));
        assert_string_equal(text, steps[n]);
        weft_free(ctx, text);
    }
    assert_int_equal(weft_topology_describe(t)->period, n);
    weft_topology_destroy(ctx, t);
}

TEST(equal_links_give_the_exponential_pairs) {
    int64_t n;
    weft_link *links = links_between(8, 0, &n);
    assert_steps(create("measured", 8, links, n),
                 (const char *[]){"[01][23][45][67]", "[02][13][46][57]",
                                  "[04][15][26][37]", NULL});
    free(links);
}

/* Two sites of `size` nodes; between the sites a link costs `ratio` times as much. */
static weft_link *two_sites(int size, double ratio, int64_t *n) {
    weft_link *links = links_between(2 * size, 0, n);
    for (int64_t i = 0; i < *n; i++)
        if ((links[i].from < size) != (links[i].to < size)) {
            links[i].latency_s *= ratio;
            links[i].bandwidth_Bps /= ratio;
        }
    return links;
}

static bool spans_sites(weft_topology *t, int size, int64_t step, weft_neighbours *near) {
    for (int i = 0; i < size; i++) {
        weft_topology_neighbours(t, i, step, near);
        for (int k = 0; k < near->n_targets; k++)
            if (near->targets[k] >= size) return true;
    }
    return false;
}

TEST(the_dearer_the_link_between_sites_the_rarer_it_is_used) {
    static const double ratios[] = {1, 4, 16, 100, 1e4};
    double before = 1.1;
    for (size_t r = 0; r < sizeof ratios / sizeof ratios[0]; r++) {
        int64_t n, steps = 0;
        weft_link *links = two_sites(3, ratios[r], &n);
        weft_topology *t = create("measured", 6, links, n);
        weft_neighbours *near;
        assert_ok(ctx, weft_neighbours_create(ctx, t, &near));
        int64_t period = weft_topology_describe(t)->period;
        for (int64_t step = 0; step < period; step++)
            steps += spans_sites(t, 3, step, near);
        double share = (double)steps / (double)period;
        assert_true(share > 0 && share <= before);
        before = share;
        weft_neighbours_destroy(ctx, near);
        weft_topology_destroy(ctx, t);
        free(links);
    }
    assert_true(before <= 0.25); /* once, and three times inside the sites */
}

/* Seconds that the slowest links take until 1e-6 of the disagreement is left. */
static double seconds_to_agree(const char *kind, int N, const weft_link *links,
                               int64_t n) {
    weft_topology_analysis x = {.struct_size = sizeof x};
    weft_topology *t = create(kind, N, links, n);
    assert_ok(ctx, weft_topology_analyse(ctx, t, &x));
    weft_topology_destroy(ctx, t);
    return (double)x.steps_1e6 * x.link_mean_s;
}

TEST(it_agrees_sooner_than_schedules_that_know_no_costs) {
    static const char *const others[] = {"ring", "exponential", "static_exponential",
                                         "torus", "matching"};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        int64_t n;
        weft_link *links = links_between(11, seed, &n);
        double measured = seconds_to_agree("measured", 11, links, n);
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
            assert_true(measured < seconds_to_agree(others[k], 11, links, n));
        free(links);
    }
}

TEST(the_order_of_the_links_does_not_matter) {
    int64_t n;
    weft_link *links = links_between(9, 2, &n);
    weft_topology *a = create("measured", 9, links, n);
    for (int64_t i = 0; i < n / 2; i++) {
        weft_link kept = links[i];
        links[i] = links[n - 1 - i];
        links[n - 1 - i] = (weft_link){kept.to, kept.from, kept.latency_s,
                                       kept.bandwidth_Bps};
    }
    weft_topology *b = create("measured", 9, links, n);
    int64_t period = weft_topology_describe(a)->period;
    assert_int_equal(weft_topology_describe(b)->period, period);
    for (int64_t step = 0; step < period; step++) {
        char *x, *y;
        assert_ok(ctx, weft_topology_notation(ctx, a, step, &x));
        assert_ok(ctx, weft_topology_notation(ctx, b, step, &y));
        assert_string_equal(x, y);
        weft_free(ctx, x);
        weft_free(ctx, y);
    }
    weft_topology_destroy(ctx, a);
    weft_topology_destroy(ctx, b);
    free(links);
}

TEST(the_dearer_direction_of_a_link_counts) {
    /* 0-1 and 1-2 are cheap there and dear back, so 0-2 is used first */
    static const weft_link links[] = {{0, 1, 1e-3, 1e9}, {1, 0, 9, 1e9}, {1, 2, 9, 1e9},
                                      {2, 1, 1e-3, 1e9}, {0, 2, 1, 1e9}, {2, 0, 1, 1e9}};
    weft_topology *t = create("measured", 3, links, 6);
    char *text;
    assert_ok(ctx, weft_topology_notation(ctx, t, 0, &text));
    assert_string_equal(text, "[02][1]");
    weft_free(ctx, text);
    weft_topology_destroy(ctx, t);
}

TEST(any_number_of_nodes_reaches_the_exact_mean_over_fair_links) {
    for (int N = 1; N <= 17; N++) {
        int64_t n;
        weft_link *links = links_between(N, 1, &n);
        weft_topology *t = create("measured", N, links, n);
        weft_topology_analysis x = {.struct_size = sizeof x};
        assert_ok(ctx, weft_topology_analyse(ctx, t, &x));
        assert_true(weft_topology_describe(t)->exact);
        assert_int_equal(x.exact_steps, N == 1 ? 0 : x.steps);
        weft_topology_destroy(ctx, t);
        free(links);
    }
}

/* Rates over four orders of magnitude: the exact mean would need slow links. */
TEST(dear_links_are_left_out_where_cheap_ones_lead_everywhere) {
    int greedy = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        int64_t n;
        double dearest_s = 0;
        weft_topology_analysis x = {.struct_size = sizeof x};
        weft_link *links = links_between(10, seed, &n);
        for (int64_t i = 0; i < n; i++) {
            double u = wefti_rng_uniform(seed, WEFTI_STREAM_TEST, 1, (uint64_t)i);
            links[i].bandwidth_Bps = 1e8 * pow(10, -4 * u);
            dearest_s = fmax(dearest_s,
                             links[i].latency_s + 1e6 / links[i].bandwidth_Bps);
        }
        weft_topology *t = create("measured", 10, links, n);
        assert_ok(ctx, weft_topology_analyse(ctx, t, &x));
        assert_true(x.link_max_s < 0.5 * dearest_s);
        assert_true(x.link_mean_s < 0.1 * dearest_s);
        greedy += !weft_topology_describe(t)->exact;
        weft_topology_destroy(ctx, t);
        free(links);
    }
    assert_true(greedy > 0);
}

TEST(a_chain_uses_its_only_links) {
    static const weft_link links[] = {{0, 1, 1, 1e9}, {1, 2, 1e-3, 1e9}, {3, 2, 1, 1e9}};
    weft_topology *t = create("measured", 4, links, 3);
    weft_topology_analysis x = {.struct_size = sizeof x};
    assert_ok(ctx, weft_topology_analyse(ctx, t, &x));
    assert_int_equal(x.unlisted, 0);
    assert_true(x.steps_1e6 > 0);
    weft_topology_destroy(ctx, t);
}

static void refuse(int N, const weft_link *links, int64_t n, const char *sentence) {
    weft_topology_config config = {
        .struct_size = sizeof config, .kind = "measured", .nodes = N, .ranks = 1};
    config.links = links;
    config.n_links = n;
    weft_topology *t;
    assert_int_equal(weft_topology_create(ctx, &config, &t), WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(ctx), sentence);
    weft_ctx_clear(ctx);
}

TEST(links_that_do_not_suffice_are_refused) {
    static const weft_link links[] = {{0, 1, 1, 1e9}, {2, 3, 1, 1e9}};
    refuse(4, NULL, 0,
           "a measured topology needs the links between its 4 nodes, found none");
    refuse(4, links, 2,
           "the links do not connect node 2 with node 0, expected a way between all 4 "
           "nodes");
    refuse(257, links, 2,
           "found 257 nodes, expected at most 256 for a measured topology");
}

/* Costs over 16 orders of magnitude, free links, and the largest number of nodes. */
TEST(extreme_links_end_in_a_schedule) {
    int64_t n;
    weft_link *links = links_between(12, 1, &n);
    for (int64_t i = 0; i < n; i++)
        links[i].bandwidth_Bps = i % 5 == 0 ? 1e-10 : i % 7 == 0 ? 1e300 : 1e6;
    for (int64_t i = 0; i < n; i++) links[i].latency_s = 0;
    weft_topology *t = create("measured", 12, links, n);
    assert_true(weft_topology_describe(t)->period < 4 * 12 + 64);
    weft_topology_destroy(ctx, t);
    free(links);
    links = links_between(UNDER_SANITIZER ? 64 : 256, 0, &n);
    t = create("measured", UNDER_SANITIZER ? 64 : 256, links, n);
    assert_int_equal(weft_topology_describe(t)->period, UNDER_SANITIZER ? 6 : 8);
    weft_topology_destroy(ctx, t);
    free(links);
}

int main(void) { return check_run(setup, teardown); }
