/* SPDX-License-Identifier: MIT */
/* What an all-reduce, or a stream, says of the wire. */
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "simulate/links.h"

static weft_cluster *make(const char *ranks, const char *sites) {
    weft_cluster *c;
    assert_ok(ctx, weft_cluster_create(ctx, &c));
    assert_ok(ctx, weft_cluster_set(ctx, c, "nodes", "4"));
    assert_ok(ctx, weft_cluster_set(ctx, c, "ranks-per-node", ranks));
    assert_ok(ctx, weft_cluster_set(ctx, c, "sites", sites));
    assert_ok(ctx, weft_cluster_set(ctx, c, "link", "10Gbit,1ms"));
    assert_ok(ctx, weft_cluster_set(ctx, c, "up", "1Gbit"));
    assert_ok(ctx, weft_cluster_set(ctx, c, "site-link", "1Gbit,10ms"));
    return c;
}

TEST_IN(begin, end, an_exchange_gives_the_rate_of_the_wire) {
    static const struct {
        const char *text, *ranks;
        double rate_Bps, low, high;
    } cases[] = {
        {"2 nodes: 0.6 GB/s", "1", 0.6e9, 1 / 1.05, 1.05}, /* 2 (W-1)/W = 1 */
        {"4 nodes: 0.6 GB/s", "1", 0.9e9, 1 / 1.05, 1.05},
        {"4 nodes: algbw 0.6 GB/s", "1", 0.9e9, 1 / 1.05, 1.05},
        {"4 nodes: busbw 0.6 GB/s", "1", 0.6e9, 1 / 1.05, 1.05},
        {"2 nodes: 0.6 GB/s", "4", 1.05e9, 1 / 1.05, 1.05}, /* the cluster's ranks */
        {"2 nodes x 1: 4.8 Gbit/s", "4", 0.6e9, 1 / 1.05, 1.05},
        {"2 nodes, 25 MB: 80 ms", "1", 25e6 / 0.078, 1 / 1.05, 1.05}, /* but 2 hops */
        {"2 nodes, 25 MB: 0.3125 GB/s", "1", 25e6 / 0.078, 1 / 1.05, 1.05},
        {"iperf3: 10 Gbit/s", "1", 0.8125e9, 0.5 / 0.65, 1 / 0.65},
        {"iperf3 x 2: 10 Gbit/s", "1", 0.8125e9, 0.25 / 0.65, 1 / 0.65},
        {"iperf3 x 16: 10Gbps", "1", 0.8125e9, 0.2 / 0.65, 1 / 0.65}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double low, high;
        weft_cluster *c = make(cases[i].ranks, "1");
        assert_ok(ctx, weft_cluster_exchange(ctx, cases[i].text, c, &low, &high));
        if (fabs(c->wire.bandwidth_Bps / cases[i].rate_Bps - 1) > 1e-9)
            fail_msg("%s: %.9g B/s", cases[i].text, c->wire.bandwidth_Bps);
        assert_true(fabs(low - cases[i].low) < 1e-9 && fabs(high - cases[i].high) < 1e-9);
        assert_true(c->wire.up_Bps == 0 && c->wire.latency_s == 1e-3);
        assert_true(c->site.bandwidth_Bps == 125e6);
        weft_cluster_destroy(ctx, c);
    }
}

TEST_IN(begin, end, with_sites_it_is_the_wire_between_them) {
    double low, high;
    weft_cluster *c = make("1", "2");
    assert_ok(ctx, weft_cluster_exchange(ctx, "4 nodes: busbw 0.1 GB/s", c, &low, &high));
    assert_true(c->site.bandwidth_Bps == 0.1e9 && c->wire.bandwidth_Bps == 1.25e9);
    weft_cluster_destroy(ctx, c);
}

TEST_IN(begin, end, what_is_no_exchange_is_refused) {
    static const char *const texts[] = {"",
                                        ":",
                                        "2 nodes",
                                        "2 nodes:",
                                        ": 1 GB/s",
                                        "1 node: 1 GB/s",
                                        "0 nodes: 1 GB/s",
                                        "2 nodes: 1 GB",
                                        "2 nodes: -1 GB/s",
                                        "2 nodes: 0 GB/s",
                                        "2 nodes: 1e300 GB/s",
                                        "2 nodes: nan GB/s",
                                        "2 nodes: 80 ms",
                                        "2 nodes, 25 MB: 1 us",
                                        "2 nodes, 2 nodes: 1 GB/s",
                                        "2 nodes x 0: 1 GB/s",
                                        "2 nodes x: 1 GB/s",
                                        "2 nodes, 25 MB, 25 MB: 1 GB/s",
                                        "iperf3, 2 nodes: 1 GB/s",
                                        "iperf3: busbw 1 GB/s",
                                        "iperf3, 1 MB: 1 GB/s",
                                        "iperf3 x 0: 1 GB/s",
                                        "iperf3, iperf3: 1 GB/s",
                                        "iperf4: 1 GB/s",
                                        "65537 nodes: 1 GB/s",
                                        "2.5 nodes: 1 GB/s",
                                        "2 nodes, mpi: 1 GB/s",
                                        "2 nodes: 1.4 GB/s", /* of 10 Gbit/s */
                                        "iperf3: 20 Gbit/s"};
    weft_cluster *c = make("1", "1");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double low, high;
        if (weft_cluster_exchange(ctx, texts[i], c, &low, &high) != WEFT_ERR_ARGUMENT)
            fail_msg("'%s' is taken", texts[i]);
        assert_non_null(strstr(weft_ctx_message(ctx), ", expected such as \"2 nodes: "));
        assert_true(c->wire.bandwidth_Bps == 1.25e9 && c->wire.up_Bps == 125e6);
    }
    weft_cluster_destroy(ctx, c);
}

/* Told in either order: the wire by what several carry, and what one of them carries. */
TEST_IN(begin, end, one_stream_and_several_are_both_facts) {
    static const char *const told[] = {"iperf3: 1 Gbit/s", "iperf3 x 8: 8 Gbit/s"};
    for (int first = 0; first < 2; first++) {
        double low, high;
        weft_cluster *c = make("1", "1");
        assert_ok(
            ctx, weft_cluster_streams(ctx, told[first], told[1 - first], c, &low, &high));
        assert_true(fabs(c->wire.bandwidth_Bps - 0.65e9) < 1);
        assert_true(fabs(c->stream_Bps - 0.08125e9) < 1);
        assert_true(fabs(low - 0.5 / 0.65) < 1e-9);
        assert_true(fabs(high - 1 / 0.65) < 1e-9);
        weft_cluster_destroy(ctx, c);
    }
}

/* So many sockets carry so many times the one, and no more than the wire; one is what other
 * frameworks have. */
TEST_IN(begin, end, sockets_decide_what_is_had_of_the_wire) {
    static const struct {
        int64_t streams;
        double Bps;
    } cases[] = {{1, 1e8}, {3, 2e8}, {16, 4e8}};
    weft_link_facts wire = {.bandwidth_Bps = 4e8, .latency_s = 1e-4, .residual = 0.05};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_link_use use = {
            .joined = 2, .flows = 1, .streams = cases[i].streams, .stream_Bps = 1e8};
        assert_float_equal(wefti_link_of(&wire, use).bandwidth_Bps, cases[i].Bps, 1);
        use.stream_Bps = 0;
        assert_float_equal(wefti_link_of(&wire, use).bandwidth_Bps, 4e8, 1);
    }
}

TEST_IN(begin, end, two_that_do_not_belong_together_are_refused) {
    static const char *const pairs[][2] = {
        {"iperf3: 1 Gbit/s", "iperf3: 2 Gbit/s"},
        {"iperf3 x 2: 1 Gbit/s", "iperf3 x 4: 2 Gbit/s"},
        {"iperf3: 2 Gbit/s", "iperf3 x 4: 1 Gbit/s"},
        {"iperf3: 1 Gbit/s", "2 nodes: 0.1 GB/s"}};
    weft_cluster *c = make("1", "1");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        double low, high;
        weft_status status = weft_cluster_streams(ctx, pairs[i][0], pairs[i][1], c, &low,
                                                  &high);
        if (status != WEFT_ERR_ARGUMENT)
            fail_msg("'%s' and '%s' are taken", pairs[i][0], pairs[i][1]);
        assert_true(c->wire.bandwidth_Bps == 1.25e9 && c->stream_Bps == 0);
    }
    weft_cluster_destroy(ctx, c);
}
