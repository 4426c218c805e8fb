/* SPDX-License-Identifier: MIT */
#include "topologies.h"
#include "topology/topology.h"

static void assert_text(const char *kind, int N, int L, int64_t step,
                        const char *expected) {
    topology_fixture f;
    char *text;
    open_topology(&f, kind, N, L);
    assert_ok(f.ctx, weft_topology_notation(f.ctx, f.t, step, &text));
    assert_string_equal(text, expected);
    weft_free(f.ctx, text);
    close_topology(&f);
}

TEST(groups_are_in_brackets) {
    assert_text("complete", 5, 1, 0, "[01234]");
    assert_text("ring", 5, 1, 1, "[0][12][34]");
    assert_text("aer", 4, 2, 2, "[01][2367][45]");
    assert_text("static_exponential", 3, 1, 0, "[012]");
    assert_text("torus", 1, 1, 0, "[0]");
}

TEST(more_than_ten_members_are_set_apart) {
    assert_text("ring", 10, 1, 0, "[01][23][45][67][89]");
    assert_text("ring", 11, 1, 0, "[0 1][2 3][4 5][6 7][8 9][10]");
}

TEST(unequal_weights_stand_behind_an_at) {
    assert_text("aer", 3, 1, 2, "[02]@0.667[1]");
    assert_text("aer", 3, 2, 2, "[0145]@0.667[23]");
}

TEST(links_have_a_direction_if_they_go_one_way) {
    assert_text("torus", 4, 1, 0, "0-1 0-2 1-3 2-3");
    assert_text("exponential", 3, 1, 1, "0>2 1>0 2>1");
    assert_text("static_exponential", 4, 1, 0, "0>1 0>2 1>2 1>3 2>0 2>3 3>0 3>1");
}

/* A ring of three one way, and one who is alone. */
static void mixed_neighbours(const weft_topology *t, int member, int64_t step,
                             weft_neighbours *out) {
    (void)t;
    (void)step;
    wefti_hear(out, member, member == 3 ? 1 : 0.5);
    out->group = member == 3;
    if (member == 3) return;
    wefti_hear(out, (member + 2) % 3, 0.5);
    wefti_reach(out, (member + 1) % 3);
}

TEST(one_way_links_and_groups_can_be_mixed) {
    static const wefti_topology_ops ops = {.name = "mixed",
                                           .neighbours = mixed_neighbours};
    weft_topology t = {.ops = &ops, .facts = {.nodes = 4, .ranks = 1, .members = 4}};
    weft_ctx *ctx;
    char *text;
    t.facts.max_sources = 2;
    t.facts.max_targets = 1;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_topology_notation(ctx, &t, 0, &text));
    assert_string_equal(text, "0>1 1>2 2>0[3]");
    weft_free(ctx, text);
    weft_ctx_destroy(ctx);
}
