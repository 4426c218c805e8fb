/* SPDX-License-Identifier: MIT */
#include <ctype.h>

#include "topologies.h"

/* The groups of one step as numbers: group_of[member] = its lowest member. */
static void parse_groups(const char *text, int *group_of) {
    int lowest = -1;
    for (; *text; text++) {
        if (*text == '[') lowest = -1;
        if (!isdigit((unsigned char)*text)) continue;
        if (lowest < 0) lowest = *text - '0';
        group_of[*text - '0'] = lowest;
    }
}

static void assert_step(topology_fixture *f, int64_t step, const char *groups) {
    int expected[MOST];
    parse_groups(groups, expected);
    for (int i = 0; i < f->facts.members; i++) {
        weft_topology_neighbours(f->t, i, step, f->near);
        assert_true(f->near->mean);
        assert_int_equal(f->near->sources[0], expected[i]);
        int size = 0;
        for (int j = 0; j < f->facts.members; j++) size += expected[j] == expected[i];
        assert_int_equal(f->near->n_sources, size);
    }
}

/* The example of arXiv 2410.11998: the first pair of a round takes its inner mean first,
 * the second pair its outer one. */
TEST(four_nodes_of_two_follow_the_published_schedule) {
    static const char *const steps[] = {"[01][23][4567]", "[0123][45][67]",
                                        "[01][45][2367]", "[0145][23][67]"};
    topology_fixture f;
    open_topology(&f, "aer", 4, 2);
    assert_int_equal(f.facts.period, 4);
    for (int64_t step = 0; step < 12; step++) assert_step(&f, step, steps[step % 4]);
    close_topology(&f);
}

/* Pairs (j, j XOR 2^i), written here as the paper does: over free j in order, j with
 * j + 2^i; the counter runs on through all rounds. */
TEST(powers_of_two_follow_the_counter) {
    for (int N = 2, rounds = 1; N <= 32; N *= 2, rounds++) {
        topology_fixture f;
        open_topology(&f, "aer", N, 1);
        assert_int_equal(f.facts.period, 2 * rounds);
        int c = 0;
        for (int i = 0; i < rounds; i++) {
            bool taken[MOST] = {false};
            for (int j = 0; j < N; j++) {
                if (taken[j]) continue;
                int other = (j + (1 << i)) % N;
                taken[j] = taken[other] = true;
                int outer = 2 * i + (c % 2 == 0), inner = 2 * i + (c % 2 == 1);
                weft_topology_neighbours(f.t, j, outer, f.near);
                assert_int_equal(f.near->n_sources, 2);
                assert_int_equal(f.near->sources[1], other);
                weft_topology_neighbours(f.t, j, inner, f.near);
                assert_int_equal(f.near->n_sources, 1);
                c++;
            }
        }
        close_topology(&f);
    }
}

static int pairs_that_cross(topology_fixture *f, int64_t step) {
    int members = 0;
    for (int i = 0; i < f->facts.members; i++) {
        weft_topology_neighbours(f->t, i, step, f->near);
        members += f->near->n_sources > f->facts.ranks;
    }
    return members / (2 * (int)f->facts.ranks);
}

TEST(half_of_the_pairs_cross_in_each_step) {
    for (int N = 4; N <= 32; N *= 2) {
        topology_fixture f;
        open_topology(&f, "aer", N, 1);
        for (int64_t step = 0; step < f.facts.period; step++)
            assert_int_equal(pairs_that_cross(&f, step), N / 4);
        close_topology(&f);
    }
    for (int N = 3; N <= MOST; N++) { /* otherwise as evenly as whole pairs allow */
        topology_fixture f;
        open_topology(&f, "aer", N, 1);
        for (int64_t step = 0; step < f.facts.period; step += 2)
            assert_true(
                abs(pairs_that_cross(&f, step) - pairs_that_cross(&f, step + 1)) <= 1);
        close_topology(&f);
    }
}

/* k + 2 floor(log2 m) + 1 rounds for 2^k m nodes, m odd. */
TEST(periods_are_as_documented) {
    static const int periods[][2] = {{1, 1},   {2, 2},   {3, 6},   {4, 4},   {5, 10},
                                     {6, 8},   {7, 10},  {8, 6},   {9, 14},  {10, 12},
                                     {12, 10}, {15, 14}, {24, 12}, {32, 10}, {33, 22}};
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        topology_fixture f;
        open_topology(&f, "aer", periods[i][0], 1);
        assert_int_equal(f.facts.period, periods[i][1]);
        close_topology(&f);
    }
}

TEST(three_nodes_meet_in_pairs_of_unequal_weight) {
    topology_fixture f;
    matrix round[3], product;
    open_topology(&f, "aer", 3, 1);
    for (int r = 0; r < 3; r++) {
        matrix w;
        matrix_of_step(&f, 2 * r, &round[r]);
        matrix_of_step(&f, 2 * r + 1, &w);
        multiply(&w, &round[r]);
    }
    assert_true(round[0].at[0][1] == 0.5 && round[0].at[2][2] == 1);
    assert_true(fabs(round[1].at[2][0] - 2.0 / 3) < 1e-15 && round[1].at[1][1] == 1);
    product_of_steps(&f, 6, &product);
    assert_true(distance_from_mean(&product) < 1e-15);
    close_topology(&f);
}

TEST(large_odd_numbers_are_exact_too) {
    static const int sizes[] = {63, 65, 77, 127, 200, 509};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        topology_fixture f;
        weft_topology_analysis x = {.struct_size = sizeof x};
        open_topology(&f, "aer", sizes[s], 1);
        assert_ok(f.ctx, weft_topology_analyse(f.ctx, f.t, &x));
        assert_int_equal(x.exact_steps, f.facts.period);
        assert_true(x.stochastic_error < 1e-14);
        close_topology(&f);
        if (UNDER_SANITIZER && s == 3) return;
    }
}
