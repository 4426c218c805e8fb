/* SPDX-License-Identifier: MIT */
/* What a step of a caller's own loop takes, against closed forms of calm machines. */
#include <math.h>

#include "check.h"
#include "unit/simulate/forecasts.h"

enum { ELEMENTS = 1000 * 1000 + 500 };

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[] = {{TENSOR, "table", 500, 1000, true},
                                           {TENSOR, "matrix", 1000, 500, true},
                                           {TENSOR, "vector", 1, 500, false}};

static weft_prediction predict_loop(int nodes, const char *keys, const char *link) {
    const char *typed[] = {"link", link, NULL};
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, nodes, 1, keys);
    weft_cluster *cluster = make_cluster(ctx, typed);
    weft_loop_facts loop = {.struct_size = sizeof loop, tensors, 3, 0.3};
    weft_prediction p = {.struct_size = sizeof p};
    assert_ok(ctx, weft_predict_loop(ctx, config, cluster, &loop, &p));
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
    return p;
}

/* Alone it takes what it takes. */
TEST(test_alone) {
    weft_prediction p = predict_loop(1, "method=hsdp", "1Gbit,0.2ms");
    assert_true(fabs(p.mean_step_s - 0.3) < 1e-9);
    assert_int_equal(p.parameters, ELEMENTS);
    assert_int_equal(p.wire_bytes_step, 0);
}

/* On a fast wire nearly nothing is added; on a slow one bytes over rate are waited for,
 * less what hides behind backward. */
TEST(test_wire) {
    weft_prediction fast = predict_loop(2, "method=hsdp optimizer.clip=0", "100Gbit,1us");
    assert_true(fast.mean_step_s > 0.3 && fast.mean_step_s < 0.302);
    double bytes = (double)fast.wire_bytes_step; /* half of 8 P, heads and status */
    assert_true(bytes > 4.0 * ELEMENTS && bytes < 4.0 * ELEMENTS + 4096);
    weft_prediction slow = predict_loop(2, "method=hsdp optimizer.clip=0", "10Mbit,1ms");
    double wire_s = bytes * 8 / 10e6;
    assert_true(slow.mean_step_s > wire_s && slow.mean_step_s < wire_s + 0.3);
    assert_int_equal(slow.bound, WEFT_BOUND_WIRE);
    weft_prediction thrifty = predict_loop(2, "method=flexdemo", "10Mbit,1ms");
    assert_true(thrifty.mean_step_s < slow.mean_step_s / 4);
}

/* Nobody knows what a step takes over a wire that nobody knows. */
TEST(test_unknown_wire) {
    const char *none[] = {NULL};
    weft_ctx *ctx = make_ctx();
    weft_cluster *cluster = make_cluster(ctx, none);
    weft_loop_facts loop = {.struct_size = sizeof loop, tensors, 3, 0.3};
    weft_prediction p = {.struct_size = sizeof p};
    for (int nodes = 1; nodes <= 2; nodes++) {
        weft_config *config = make_config(ctx, nodes, 1, "method=hsdp");
        weft_status status = weft_predict_loop(ctx, config, cluster, &loop, &p);
        assert_int_equal(status, nodes == 1 ? WEFT_OK : WEFT_ERR_ARGUMENT);
        if (nodes == 2)
            assert_string_equal(weft_ctx_message(ctx),
                                "the wire between the 2 nodes is not known, expected "
                                "link, as in --link 1Gbit,50us");
        weft_config_destroy(ctx, config);
    }
    weft_cluster_destroy(ctx, cluster);
    weft_ctx_destroy(ctx);
}

TEST(test_refused) {
    const char *typed[] = {"link", "1Gbit,0.2ms", NULL};
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 1, 1, "method=hsdp");
    weft_cluster *cluster = make_cluster(ctx, typed);
    weft_prediction p = {.struct_size = sizeof p};
    double bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        weft_loop_facts loop = {.struct_size = sizeof loop, tensors, 3, bad[i]};
        assert_int_equal(weft_predict_loop(ctx, config, cluster, &loop, &p),
                         WEFT_ERR_ARGUMENT);
        weft_ctx_clear(ctx);
    }
    weft_loop_facts none = {.struct_size = sizeof none, tensors, 0, 1};
    assert_int_equal(weft_predict_loop(ctx, config, cluster, &none, &p),
                     WEFT_ERR_ARGUMENT);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    assert_int_equal(ctx_end(ctx), 0);
}
