/* SPDX-License-Identifier: MIT */
/* The two ways of `measured` to make rounds, each on its own. */
#include "topologies.h"
#include "topology/rounds.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

/* Costs of N nodes, all equal to `cost`. */
static double *costs(int N, double cost) {
    double *c = malloc(sizeof *c * (size_t)(N * N));
    assert_non_null(c);
    for (int i = 0; i < N * N; i++) c[i] = cost;
    return c;
}

static void set(double *c, int N, int u, int v, double cost) {
    c[u * N + v] = c[v * N + u] = cost;
}

static int partner_in(const wefti_rounds *r, int64_t round, int node) {
    return r->pairs[round * r->N + node].partner;
}

static bool spans(const wefti_rounds *r, int64_t round, int site) {
    for (int node = 0; node < site; node++)
        if (partner_in(r, round, node) >= site) return true;
    return false;
}

TEST(a_tenth_is_left_after_greedy_rounds) {
    for (int N = 2; N <= MOST; N++) {
        double *c = costs(N, 1);
        wefti_rounds r;
        matrix x;
        assert_ok(ctx, wefti_greedy_rounds(ctx, N, c, &r));
        identity(N, &x);
        for (int64_t round = 0; round < r.n; round++) {
            matrix w = {.n = N};
            for (int node = 0; node < N; node++) {
                int partner = partner_in(&r, round, node);
                w.at[node][partner < 0 ? node : partner] += 0.5;
                w.at[node][node] += 0.5;
            }
            double before = disagreement_of(&x);
            multiply(&w, &x);
            assert_true(before * before * (N - 1) > 0.01 * (N - 1) * 0.99);
        }
        assert_true(disagreement_of(&x) < 0.1001);
        assert_true(r.seconds == (double)r.n);
        wefti_rounds_fini(ctx, &r);
        free(c);
    }
}

/* A node too many in each site: it waits rather than talk to the other site. */
TEST(nodes_wait_until_a_dear_link_is_worth_it) {
    double *c = costs(6, 1);
    for (int u = 0; u < 3; u++)
        for (int v = 3; v < 6; v++) set(c, 6, u, v, 50);
    wefti_rounds r;
    assert_ok(ctx, wefti_greedy_rounds(ctx, 6, c, &r));
    assert_true(r.n > 3 && r.seconds < 60);
    for (int64_t round = 0; round < r.n; round++)
        assert_int_equal(spans(&r, round, 3), round == r.n - 1);
    wefti_rounds_fini(ctx, &r);
    free(c);
}

TEST(of_equal_gains_the_cheaper_link_is_taken) {
    double *c = costs(4, 2);
    set(c, 4, 2, 3, 1);
    set(c, 4, 0, 1, 1.9);
    wefti_rounds r;
    assert_ok(ctx, wefti_greedy_rounds(ctx, 4, c, &r));
    assert_int_equal(partner_in(&r, 0, 0), 1);
    assert_int_equal(partner_in(&r, 0, 2), 3);
    wefti_rounds_fini(ctx, &r);
    free(c);
}

TEST(links_of_equal_worth_per_second_leave_the_dearer_ones_out) {
    double *c = costs(4, 2);
    set(c, 4, 2, 3, 1);
    wefti_rounds r;
    assert_ok(ctx, wefti_greedy_rounds(ctx, 4, c, &r));
    assert_int_equal(partner_in(&r, 0, 2), 3);
    assert_int_equal(partner_in(&r, 0, 0), -1);
    wefti_rounds_fini(ctx, &r);
    free(c);
}

/* Within two large sites all agree when less than 1 % of the distance is left: the sites
 * must meet nevertheless. */
TEST(large_sites_are_connected_too) {
    int N = 128, spanning = 0;
    double *c = costs(N, 1);
    for (int u = 0; u < N / 2; u++)
        for (int v = N / 2; v < N; v++) set(c, N, u, v, 1e9);
    wefti_rounds r;
    assert_ok(ctx, wefti_greedy_rounds(ctx, N, c, &r));
    for (int64_t round = 0; round < r.n; round++) spanning += spans(&r, round, N / 2);
    assert_int_equal(spanning, 1);
    wefti_rounds_fini(ctx, &r);
    free(c);
}

TEST(places_are_found_that_avoid_missing_links) {
    /* the cube's twelve links, its corners renamed */
    static const int renamed[] = {3, 6, 0, 5, 7, 2, 4, 1};
    double *c = costs(8, (double)INFINITY);
    for (int corner = 0; corner < 8; corner++)
        for (int bit = 1; bit < 8; bit *= 2)
            set(c, 8, renamed[corner], renamed[corner ^ bit], 1);
    wefti_rounds r;
    assert_ok(ctx, wefti_relabelled_rounds(ctx, 8, c, &r));
    assert_true(r.seconds == 3);
    wefti_rounds_fini(ctx, &r);
    free(c);
}

TEST(a_chain_has_no_places_for_four) {
    double *c = costs(4, (double)INFINITY);
    for (int node = 0; node < 3; node++) set(c, 4, node, node + 1, 1);
    wefti_rounds r;
    assert_ok(ctx, wefti_relabelled_rounds(ctx, 4, c, &r));
    assert_true(isinf(r.seconds));
    wefti_rounds_fini(ctx, &r);
    free(c);
}

TEST(the_partner_of_a_partner_is_oneself) {
    for (int N = 1; N <= 300; N++) {
        wefti_fold f = wefti_fold_make(N);
        for (int round = 0; round < f.rounds; round++)
            for (int node = 0; node < N; node++) {
                wefti_fold_pair met = wefti_fold_meet(&f, node, round);
                if (met.partner < 0) continue;
                assert_true(met.partner < N && met.partner != node);
                wefti_fold_pair back = wefti_fold_meet(&f, met.partner, round);
                assert_true(back.partner == node && back.weight == met.weight);
            }
    }
}

int main(void) { return check_run(setup, teardown); }
