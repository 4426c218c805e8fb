/* SPDX-License-Identifier: MIT */
#include "topologies.h"

#include "base/file.h"
#include "base/memory.h"

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

static char *draw(topology_fixture *f, const char *kind, int N, int L) {
    char *text;
    int64_t n_bytes;
    open_topology(f, kind, N, L);
    assert_ok(f->ctx, weft_topology_draw(f->ctx, f->t, "t.svg"));
    assert_ok(f->ctx, wefti_file_read(f->ctx, "t.svg", 1 << 24, &text, &n_bytes));
    assert_int_equal(strlen(text), n_bytes);
    assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
    assert_string_equal(text + n_bytes - 7, "</svg>\n");
    return text;
}

static void done(topology_fixture *f, char *text) {
    wefti_free(f->ctx, text);
    close_topology(f);
}

TEST(a_period_is_drawn_with_every_member) {
    topology_fixture f;
    char *text = draw(&f, "aer", 4, 2);
    assert_int_equal(count(text, ">step "), 4);
    assert_int_equal(count(text, "<circle"), 4 * 8);
    assert_int_equal(count(text, "<polygon"), 4 * 3);
    assert_int_equal(count(text, "class=\"wire\""), 4);
    assert_non_null(strstr(text, ">aer, 4 nodes x 2 ranks, period 4<"));
    done(&f, text);
}

TEST(at_most_twelve_steps_are_drawn) {
    topology_fixture f;
    char *text = draw(&f, "matching", 9, 1);
    assert_int_equal(count(text, ">step "), 12);
    assert_int_equal(count(text, "<polygon"), 12 * 4);
    assert_non_null(strstr(text, ">matching, 9 nodes, never repeats<"));
    done(&f, text);
}

TEST(one_way_links_are_arrows) {
    topology_fixture f;
    char *text = draw(&f, "exponential", 5, 1);
    assert_int_equal(count(text, "marker-end"), 3 * 5);
    done(&f, text);
    text = draw(&f, "torus", 9, 1);
    assert_int_equal(count(text, "marker-end"), 0);
    assert_int_equal(count(text, "<line"), 18);
    done(&f, text);
}

TEST(it_needs_nothing_from_outside) {
    topology_fixture f;
    char *text = draw(&f, "static_exponential", 70, 1);
    assert_int_equal(count(text, "http"), 1); /* the name of the namespace */
    assert_int_equal(count(text, "href"), 0);
    assert_int_equal(count(text, "<script"), 0);
    done(&f, text);
}

TEST(what_cannot_be_drawn_leaves_no_file) {
    topology_fixture f;
    open_topology(&f, "ring", 513, 1);
    assert_int_equal(weft_topology_draw(f.ctx, f.t, "big.svg"), WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(f.ctx),
                        "found 513 members, expected at most 512 to draw");
    assert_null(fopen("big.svg", "r"));
    close_topology(&f);
    open_topology(&f, "ring", 4, 1);
    assert_int_equal(weft_topology_draw(f.ctx, f.t, "nowhere/t.svg"), WEFT_ERR_FILE);
    close_topology(&f);
}
