/* SPDX-License-Identifier: MIT */
#include "topologies.h"

/* Draws of one of n - 1 others, all equally likely: within 5 sigma of the mean. */
TEST(everybody_sends_to_one_other_all_equally_likely) {
    enum { n = 5, DRAWS = 4000 };
    topology_fixture f;
    int counts[n][n] = {{0}};
    open_topology(&f, "push", n, 1);
    assert_true(f.facts.push_sum && f.facts.directed && f.facts.period == 0);
    for (int64_t step = 0; step < DRAWS; step++)
        for (int j = 0; j < n; j++) {
            weft_topology_neighbours(f.t, j, step, f.near);
            assert_int_equal(f.near->n_targets, 1);
            counts[j][f.near->targets[0]]++;
        }
    double mean = (double)DRAWS / (n - 1), sigma = sqrt(mean * (n - 2) / (n - 1));
    for (int j = 0; j < n; j++) {
        assert_int_equal(counts[j][j], 0);
        for (int i = 0; i < n; i++)
            if (i != j) assert_true(fabs(counts[j][i] - mean) < 5 * sigma);
    }
    close_topology(&f);
}

TEST(members_hear_none_one_or_several) {
    topology_fixture f;
    int heard[4] = {0};
    open_topology(&f, "push", 6, 1);
    for (int64_t step = 0; step < 100; step++)
        for (int i = 0; i < 6; i++) {
            weft_topology_neighbours(f.t, i, step, f.near);
            heard[f.near->n_sources > 3 ? 3 : f.near->n_sources - 1]++;
            for (int k = 0; k < f.near->n_sources; k++)
                assert_true(f.near->weights[k] == 0.5 && f.near->weights_f32[k] == 0.5f);
            assert_false(f.near->mean);
        }
    for (int k = 0; k < 4; k++) assert_true(heard[k] > 20);
    close_topology(&f);
}

TEST(two_members_take_their_mean) {
    topology_fixture f;
    open_topology(&f, "push", 2, 1);
    assert_false(f.facts.push_sum);
    assert_int_equal(f.facts.period, 1);
    weft_topology_neighbours(f.t, 1, 77, f.near);
    assert_true(f.near->mean && f.near->n_sources == 2 && f.near->targets[0] == 0);
    close_topology(&f);
}

TEST(another_seed_is_another_schedule) {
    weft_topology_config config = {
        .struct_size = sizeof config, .kind = "push", .nodes = 8, .ranks = 1};
    weft_ctx *ctx;
    weft_topology *t[2];
    weft_neighbours *near[2];
    int differ = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int s = 0; s < 2; s++) {
        config.seed = 5 + (uint64_t)s;
        assert_ok(ctx, weft_topology_create(ctx, &config, &t[s]));
        assert_ok(ctx, weft_neighbours_create(ctx, t[s], &near[s]));
    }
    for (int64_t step = 0; step < 100; step++) {
        for (int s = 0; s < 2; s++) weft_topology_neighbours(t[s], 3, step, near[s]);
        differ += near[0]->targets[0] != near[1]->targets[0];
    }
    assert_true(differ > 60); /* 6 in 7 */
    for (int s = 0; s < 2; s++) {
        weft_neighbours_destroy(ctx, near[s]);
        weft_topology_destroy(ctx, t[s]);
    }
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(its_links_are_written_one_way) {
    topology_fixture f;
    char *text;
    open_topology(&f, "push", 3, 1);
    for (int64_t step = 0; step < 20; step++) {
        int arrows = 0, both = 0;
        assert_ok(f.ctx, weft_topology_notation(f.ctx, f.t, step, &text));
        for (const char *c = text; *c; c++) {
            arrows += *c == '>';
            both += *c == '-';
            assert_true(*c != '[');
        }
        assert_int_equal(arrows + 2 * both, 3);
        weft_free(f.ctx, text);
    }
    close_topology(&f);
}
