/* SPDX-License-Identifier: MIT */
/* What a writer says whose lease is gone. */
#include <unistd.h>

#include "check.h"

#include "record/views.h"
#include "train/regroup.h"

static weft_ctx *ctx;
static weft_config *config;
static wefti_prepared p;

static int begin(void **state) {
    const wefti_lease_claim claim = {.folder = "room", .run = 0xab};
    room_begin(&ctx);
    assert_ok(ctx, weft_config_create(ctx, &config));
    assert_ok(ctx, weft_config_set(ctx, config, "run.folder=room"));
    assert_ok(ctx, weft_config_set(ctx, config, "run.steps=30"));
    p = (wefti_prepared){
        .ctx = ctx, .config = config, .files.run = 0xab, .world.view = 1};
    assert_ok(ctx, wefti_lease_take(ctx, &claim, &p.files.lease));
    return 0;
}

static int end(void **state) {
    wefti_lease_give_back(p.files.lease);
    weft_config_destroy(ctx, config);
    return ctx_end(ctx);
}

/* As others leave the folder who went on from view `view` to `step`, and saved that. */
static void others_go_on(int view, int step) {
    char text[200];
    wefti_view_member one = {.place = 1, .name = 7};
    const wefti_view_line line = {.run = 0xab,
                                  .view = view,
                                  .step = 20,
                                  .rows_per_rank = 2,
                                  .micro = 1,
                                  .shards = 1,
                                  .threads = 1,
                                  .n_members = 1,
                                  .members = &one};
    wefti_buffer out = {0};
    wefti_views_put(ctx, &out, &line);
    assert_ok(ctx, wefti_file_write(ctx, "room/views.jsonl", out.bytes, out.n));
    wefti_buffer_fini(ctx, &out);
    int n = snprintf(text, sizeof text, "{\"step\":%d,\"loss\":1}\n", step);
    assert_ok(ctx, wefti_file_write(ctx, "room/metrics.jsonl", text, n));
    snprintf(text, sizeof text, "room/checkpoints/step-%08d", step);
    assert_ok(ctx, wefti_file_mkdirs(ctx, text));
    strcat(text, "/index.json");
    assert_ok(ctx, wefti_file_write(ctx, text, "{}", 2));
}

static const char ended[] = WEFTI_ENDED_WITHOUT_IT "; its results are in room";

TEST_IN(begin, end, a_writer_that_slept_past_the_end_says_so) {
    others_go_on(2, 30);
    assert_ok(ctx, wefti_regroup_check_lease(ctx, &p, true));
    assert_int_equal(unlink("room/lease"), 0);
    assert_fails(ctx, wefti_regroup_check_lease(ctx, &p, true), WEFT_ERR_FILE, ended);
}

TEST_IN(begin, end, others_that_were_told_to_stop_have_ended_too) {
    others_go_on(2, 25);
    assert_int_equal(unlink("room/lease"), 0);
    assert_fails(ctx, wefti_regroup_check_lease(ctx, &p, true), WEFT_ERR_FILE, ended);
    p.world.view = 2; /* they were members of this one's view, or are none */
    assert_fails(ctx, wefti_regroup_check_lease(ctx, &p, true), WEFT_ERR_FILE,
                 "was removed");
}
