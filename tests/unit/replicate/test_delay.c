/* SPDX-License-Identifier: MIT */
/* With a delay a step applies what the step before it agreed on. */
#include "check.h"
#include "replicate/replicator.h"

TEST(before_the_first_step_nothing_was_agreed_on) {
    wefti_replicator r = {.config = {.kind = "demo", .every = 1, .delay = 1},
                          .ops = wefti_replicator_find("demo")};
    wefti_cover cover = wefti_replicator_cover(&r, 0, 0, 0);
    assert_false(cover.all);
    assert_int_equal(cover.n_runs, 0);
    assert_int_equal(cover.count, 0);
    cover = wefti_replicator_cover(&r, 0, 0, 1);
    assert_true(cover.all);
    assert_int_equal(cover.count, 1);
}

TEST(every_kth_step_is_due_from_the_first_on) {
    wefti_replicator_config config = {.every = 3};
    for (int64_t step = 0; step < 9; step++)
        assert_int_equal(wefti_replicator_is_due(&config, step), step % 3 == 0);
}

/* With a delay a bucket is written while others may still read its last message. */
TEST(a_delayed_bucket_has_two_buffers) {
    wefti_bucket bucket = {.n_elements = 1 << 16};
    wefti_piece piece = {.rows = 1 << 8, .cols = 1 << 8};
    wefti_replicator_config config = {.kind = "demo",
                                      .every = 1,
                                      .compression_chunk = 64,
                                      .compression_topk = 4,
                                      .compression_dims = 1,
                                      .route = WEFTI_ROUTE_GATHER};
    bucket.pieces = &piece;
    bucket.n_pieces = 1;
    int64_t once = wefti_replicator_work_bytes(&config, &bucket, 1, 2);
    config.delay = 1;
    int64_t twice = wefti_replicator_work_bytes(&config, &bucket, 1, 2);
    assert_true(twice - once >= bucket.n_elements / 64 * 4 * 4);
}

/* No two sections of a run round with the same random bits. */
TEST(each_section_rounds_by_itself) {
    uint64_t seen[3 * 3 * 3];
    int n = 0;
    for (int rank = 0; rank < 3; rank++)
        for (int bucket = 0; bucket < 3; bucket++)
            for (int number = 0; number < 3; number++) {
                wefti_comm comm = {.rank = rank};
                wefti_replicator r = {.comm = &comm};
                wefti_round round = {.bucket = bucket};
                uint64_t place = wefti_replicator_rounding(&r, &round, number).place;
                for (int i = 0; i < n; i++) assert_true(seen[i] != place);
                seen[n++] = place;
            }
}
