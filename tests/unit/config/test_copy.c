/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

static const char *const layered =
    "method: flexdemo\n"
    "data: {path: [a.txt, \"b, c.txt\"], weights: [1, 0.3]}\n"
    "mesh: {nodes: 2, link: \"100Mbit,10ms\"}\n"
    "optimizer: {lr: 2e-3}\n";

static void load_layered(fixture *f) {
    assert_ok(f->ctx, load_text(f, layered));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=700"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "model.tied=true"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
}

/* The text with origins says every value and which layer it is from. */
TEST_IN(setup, teardown, a_copy_has_the_same_values_from_the_same_layers) {
    fixture *f = *state;
    weft_config *copy;
    const char *before, *after;
    load_layered(f);
    assert_ok(f->ctx, weft_config_copy(f->ctx, f->c, &copy));
    assert_ok(f->ctx, weft_config_text(f->ctx, f->c, WEFT_CONFIG_ORIGINS, &before));
    assert_ok(f->ctx, weft_config_text(f->ctx, copy, WEFT_CONFIG_ORIGINS, &after));
    assert_string_equal(before, after);
    assert_true(copy->mesh.bandwidth_Bps == 12.5e6);
    assert_int_equal(copy->data.path.n, 2);
    assert_string_equal(copy->data.path.items[1], "b, c.txt");
    weft_config_destroy(f->ctx, copy);
}

TEST_IN(setup, teardown, a_copy_owns_what_it_holds) {
    fixture *f = *state;
    weft_config *copy;
    load_layered(f);
    assert_ok(f->ctx, weft_config_copy(f->ctx, f->c, &copy));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "data.path=other.txt"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "mesh.link=none"));
    assert_string_equal(copy->data.path.items[0], "a.txt");
    assert_string_equal(copy->mesh.link, "100Mbit,10ms");
    weft_config_destroy(f->ctx, copy);
}

/* Another method's preset goes under what was typed, in the copy as in the original. */
TEST_IN(setup, teardown, a_copy_takes_another_method) {
    fixture *f = *state;
    weft_config *copy;
    load_layered(f);
    assert_ok(f->ctx, weft_config_copy(f->ctx, f->c, &copy));
    assert_ok(f->ctx, weft_config_set(f->ctx, copy, "method=dadam"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, copy));
    assert_string_equal(copy->mixer.kind, "gossip");
    assert_string_equal(copy->replicator.kind, "none");
    assert_true(copy->optimizer.lr == 2e-3);
    assert_string_equal(f->c->mixer.kind, "none");
    weft_config_destroy(f->ctx, copy);
}

TEST_IN(setup, teardown, every_failing_allocation_is_a_clean_error) {
    fixture *f = *state;
    weft_status status = WEFT_ERR_MEMORY;
    int k = 0;
    load_layered(f);
    int64_t held = weft_ctx_bytes_held(f->ctx);
    for (; k < 500 && status != WEFT_OK; k++) {
        weft_config *copy = NULL;
        weft_ctx_clear(f->ctx);
        weft_ctx_fail_allocation(f->ctx, k);
        status = weft_config_copy(f->ctx, f->c, &copy);
        weft_ctx_fail_allocation(f->ctx, -1);
        assert_true(status == WEFT_OK || status == WEFT_ERR_MEMORY);
        assert_true((status == WEFT_OK) == (copy != NULL));
        weft_config_destroy(f->ctx, copy);
        assert_int_equal(weft_ctx_bytes_held(f->ctx), held);
    }
    assert_int_equal(status, WEFT_OK);
    assert_true(k > 10);
}
