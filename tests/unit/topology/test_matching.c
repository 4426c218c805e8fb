/* SPDX-License-Identifier: MIT */
#include "topologies.h"

static int partner_of(topology_fixture *f, int member, int64_t step) {
    weft_topology_neighbours(f->t, member, step, f->near);
    return f->near->n_targets ? f->near->targets[0] : -1;
}

/* Counts within five standard deviations of a fair draw. */
static void assert_fair(const int *counts, int n, int draws) {
    double expected = (double)draws / n, spread = sqrt(expected * (1 - 1.0 / n));
    for (int i = 0; i < n; i++) assert_true(fabs(counts[i] - expected) < 5 * spread);
}

TEST(all_matchings_of_four_are_equally_likely) {
    topology_fixture f;
    int counts[3] = {0};
    open_topology(&f, "matching", 4, 1);
    for (int64_t step = 0; step < 6000; step++) counts[partner_of(&f, 0, step) - 1]++;
    assert_fair(counts, 3, 6000);
    close_topology(&f);
}

TEST(everybody_is_left_over_equally_often) {
    topology_fixture f;
    int counts[7] = {0}, left_over = 0;
    open_topology(&f, "matching", 7, 1);
    for (int64_t step = 0; step < 3000; step++)
        for (int i = 0; i < 7; i++)
            if (partner_of(&f, i, step) < 0) {
                counts[i]++;
                left_over++;
            }
    assert_int_equal(left_over, 3000);
    assert_fair(counts, 7, 3000);
    close_topology(&f);
}

TEST(another_seed_is_another_schedule) {
    topology_fixture f;
    weft_topology *other;
    weft_topology_config config = {.struct_size = sizeof config,
                                   .kind = "matching",
                                   .nodes = 20,
                                   .ranks = 1,
                                   .seed = 6};
    open_topology(&f, "matching", 20, 1);
    assert_ok(f.ctx, weft_topology_create(f.ctx, &config, &other));
    int same = 0;
    for (int64_t step = 0; step < 100; step++) {
        int partner = partner_of(&f, 0, step);
        weft_topology_neighbours(other, 0, step, f.near);
        same += f.near->targets[0] == partner;
    }
    assert_true(same < 25); /* about 100/19 */
    weft_topology_destroy(f.ctx, other);
    close_topology(&f);
}

/* The mean of W is I/2 + (1 1^T - I)/(2 (n-1)) for even n: all its other eigenvalues are
 * (n-2)/(2 (n-1)). */
TEST(the_gap_is_that_of_a_fair_draw) {
    topology_fixture f;
    weft_topology_analysis x = {.struct_size = sizeof x};
    open_topology(&f, "matching", 8, 1);
    assert_ok(f.ctx, weft_topology_analyse(f.ctx, f.t, &x));
    assert_true(fabs(x.gap_mean - (1 - 6.0 / 14)) < 0.05);
    close_topology(&f);
}
