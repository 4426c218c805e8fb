/* SPDX-License-Identifier: MIT */
#include "topologies.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static void refuse(weft_topology_config config, const char *sentence) {
    weft_topology *t;
    assert_int_equal(weft_topology_create(ctx, &config, &t), WEFT_ERR_ARGUMENT);
    assert_null(t);
    assert_string_equal(weft_ctx_message(ctx), sentence);
    weft_ctx_clear(ctx);
}

static weft_topology_config config_of(const char *kind, int64_t nodes, int64_t ranks) {
    return (weft_topology_config){.struct_size = sizeof(weft_topology_config),
                                  .kind = kind,
                                  .nodes = nodes,
                                  .ranks = ranks};
}

TEST(nonsense_is_refused_in_a_sentence) {
    refuse(config_of("rnig", 4, 1), "unknown topology 'rnig' (did you mean 'ring'?)");
    refuse(config_of("zzzzzz", 4, 1),
           "unknown topology 'zzzzzz', see weft list topologies");
    refuse(config_of("ring", 0, 1),
           "found 0 nodes with 1 ranks each, expected at least 1 of both");
    refuse(config_of("ring", 4, -1),
           "found 4 nodes with -1 ranks each, expected at least 1 of both");
    refuse(config_of("ring", 65536, 2),
           "found 65536 nodes with 2 ranks each, expected at most 65536 members in all");
    refuse(
        config_of("ring", INT64_MAX, INT64_MAX),
        "found 9223372036854775807 nodes with 9223372036854775807 ranks each, expected "
        "at most 65536 members in all");
    weft_topology_config config = config_of("ring", 4, 1);
    config.copy_bytes = -1;
    refuse(config, "a copy has -1 bytes, expected 0 or more");
}

static void refuse_link(weft_link link, const char *sentence) {
    weft_topology_config config = config_of("ring", 3, 1);
    config.links = &link;
    config.n_links = 1;
    refuse(config, sentence);
}

TEST(broken_links_are_refused_for_every_kind) {
    refuse_link((weft_link){0, 3, 0, 1},
                "a link goes from node 0 to node 3, expected nodes from 0 to 2");
    refuse_link((weft_link){3, 0, 0, 1},
                "a link goes from node 3 to node 0, expected nodes from 0 to 2");
    refuse_link((weft_link){-1, 2, 0, 1},
                "a link goes from node -1 to node 2, expected nodes from 0 to 2");
    refuse_link((weft_link){1, 1, 0, 1}, "a link goes from node 1 to itself");
    refuse_link((weft_link){0, 1, -1, 1},
                "the link from node 0 to node 1 has a latency of -1 s and 1 bytes per "
                "second, expected 0 or more and more than 0");
    refuse_link((weft_link){0, 1, 0, 0},
                "the link from node 0 to node 1 has a latency of 0 s and 0 bytes per "
                "second, expected 0 or more and more than 0");
    refuse_link((weft_link){0, 1, (double)NAN, 1},
                "the link from node 0 to node 1 has a latency of nan s and 1 bytes per "
                "second, expected 0 or more and more than 0");
}

TEST(the_largest_topology_answers) {
    const char *kind, *summary;
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++) {
        if (strcmp(kind, "measured") == 0) continue; /* has a limit of its own */
        weft_topology_config config = config_of(kind, WEFT_TOPOLOGY_MEMBERS - 1, 1);
        weft_topology *t;
        weft_neighbours *near;
        assert_ok(ctx, weft_topology_create(ctx, &config, &t));
        assert_ok(ctx, weft_neighbours_create(ctx, t, &near));
        for (int64_t step = 0; step < 5; step++) {
            int64_t member = WEFT_TOPOLOGY_MEMBERS - 2;
            weft_topology_neighbours(t, member, INT64_MAX - step, near);
            assert_int_equal(near->sources[near->self], member);
            assert_true(near->sources[0] >= 0 && near->n_sources >= 1);
        }
        weft_neighbours_destroy(ctx, near);
        weft_topology_destroy(ctx, t);
    }
}

TEST(complete_is_the_global_mean) {
    for (int n = 1; n <= MOST; n++) {
        topology_fixture f;
        matrix w;
        open_topology(&f, "complete", n, 1);
        matrix_of_step(&f, 12345, &w);
        assert_true(distance_from_mean(&w) == 0);
        assert_true(f.near->mean && f.near->n_sources == n);
        close_topology(&f);
    }
}

TEST(a_ring_uses_each_of_its_links_equally) {
    for (int n = 3; n <= MOST; n++) {
        topology_fixture f;
        open_topology(&f, "ring", n, 1);
        int rights[MOST] = {0};
        for (int64_t step = 0; step < 2 * n; step++)
            for (int i = 0; i < n; i++) {
                weft_topology_neighbours(f.t, i, step, f.near);
                for (int k = 0; k < f.near->n_targets; k++)
                    rights[i] += f.near->targets[k] == (i + 1) % n;
            }
        for (int i = 0; i < n; i++) assert_int_equal(rights[i], n % 2 ? n - 1 : n);
        close_topology(&f);
    }
}

TEST(a_torus_has_no_double_neighbours) {
    static const struct {
        int n, sources;
    } sizes[] = {{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 3}, {6, 4}, {8, 4}, {9, 5}, {31, 3}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        topology_fixture f;
        open_topology(&f, "torus", sizes[s].n, 1);
        for (int i = 0; i < sizes[s].n; i++) {
            weft_topology_neighbours(f.t, i, 0, f.near);
            assert_int_equal(f.near->n_sources, sizes[s].sources);
        }
        close_topology(&f);
    }
}

TEST(exponential_hears_the_members_at_distance_2_to_the_step) {
    topology_fixture f;
    open_topology(&f, "exponential", 11, 1);
    assert_int_equal(f.facts.period, 4);
    for (int64_t step = 0; step < 8; step++) {
        int offset = 1 << (step % 4);
        weft_topology_neighbours(f.t, 3, step, f.near);
        assert_int_equal(f.near->sources[1 - f.near->self], (3 + 11 - offset) % 11);
        assert_int_equal(f.near->targets[0], (3 + offset) % 11);
    }
    close_topology(&f);
}

int main(void) { return check_run(setup, teardown); }
