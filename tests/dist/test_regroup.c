/* SPDX-License-Identifier: MIT */
/* The job of a world in which nodes are lost or new (train/regroup.c): sites, shares, batch. */
#include "jobs.h"
#include "train/regroup.h"

/* The run as it began, with these keys over small_run, and the job of a world of `b`. */
static void regroup(const char *const *keys, const wefti_regroup_batch *b,
                    void (*look)(const wefti_job *job)) {
    weft_ctx *ctx;
    weft_config *config;
    wefti_prepared p = {0};
    assert_int_equal(ctx_begin(&ctx), 0);
    p.ctx = ctx;
    p.job = small_job(ctx, keys, &config);
    p.config = config;
    assert_ok(ctx, wefti_regroup_job(ctx, &p, b));
    look(p.job);
    wefti_job_destroy(ctx, p.job);
    weft_config_destroy(ctx, p.own_config);
    weft_config_destroy(ctx, config);
    assert_int_equal(ctx_end(ctx), 0);
}

static void is_smaller(const wefti_job *job) {
    assert_int_equal(job->W, 3);
    assert_int_equal(job->batch.per_rank, 4);
    assert_int_equal(job->B, 2);
    assert_int_equal(job->batch.per_step, 12);
    assert_int_equal(job->from.step, 7);
    assert_int_equal(job->from.row, 112);
    assert_int_equal(job->site.n, 1);
    assert_null(job->batch.rows);
}

TEST(each_rank_keeps_its_rows_and_goes_on_behind_the_last_one) {
    const int places[] = {0, 2, 3};
    const wefti_regroup_batch b = {3, 4, 2, 7, 112, places, NULL, NULL, NULL, NULL};
    regroup(KEYS("mesh.nodes=4"), &b, is_smaller);
}

static void has_passes_2_1_4(const wefti_job *job) {
    const int64_t expected[] = {2, 1, 4};
    for (int i = 0; i < 3; i++) assert_int_equal(wefti_job_micro(job, i), expected[i]);
    assert_int_equal(wefti_job_passes(job, 1), 4);
}

static void has_passes_of_all(const wefti_job *job) { assert_null(job->batch.micros); }

/* 3 of 4 is no equal part; 0 and more than all have is what all have. */
TEST(each_replica_keeps_its_passes) {
    const int places[] = {0, 2, 3};
    const int64_t own[] = {3, 1, 0}, more[] = {0, 9, 4};
    wefti_regroup_batch b = {3, 4, 4, 7, 0, places, NULL, NULL, NULL, own};
    regroup(KEYS("mesh.nodes=4"), &b, has_passes_2_1_4);
    b.micros = more;
    regroup(KEYS("mesh.nodes=4"), &b, has_passes_of_all);
}

static void has_sites_of_one_and_two(const wefti_job *job) {
    assert_int_equal(job->site.n, 2);
    assert_int_equal(job->site.first[0], 0);
    assert_int_equal(job->site.first[1], 1);
    assert_int_equal(job->site.first[2], 3);
}

static void has_one_site_left(const wefti_job *job) {
    assert_int_equal(job->site.n, 1);
    assert_int_equal(job->site.first[1], 2);
}

/* Places 0 and 1 are the first site. */
TEST(a_site_is_smaller_or_gone) {
    const int some[] = {1, 2, 3}, second[] = {2, 3};
    const wefti_regroup_batch three = {3, 4, 4, 7, 0, some, NULL, NULL, NULL, NULL},
                              two = {2, 4, 4, 7, 0, second, NULL, NULL, NULL, NULL};
    const char *const *keys = KEYS("mesh.nodes=4", "mesh.sites=2", "mixer.kind=outer",
                                   "mixer.outer_every=4");
    regroup(keys, &three, has_sites_of_one_and_two);
    regroup(keys, &two, has_one_site_left);
}

static void has_rows_8_2_2(const wefti_job *job) {
    assert_int_equal(job->batch.rows[0], 8);
    assert_int_equal(job->batch.rows[1], 2);
    assert_int_equal(job->batch.rows[2], 2);
    assert_int_equal(job->batch.per_step, 12);
}

/* 12 take the first as long as 3 the others: who is done first, or comes first, has the rest. */
static void has_rows_12_2_2(const wefti_job *job) {
    assert_int_equal(job->batch.rows[0], 12);
    assert_int_equal(job->batch.rows[1], 2);
    assert_int_equal(job->batch.rows[2], 2);
    assert_int_equal(job->batch.per_step, 16);
}

/* 16 rows as 8, 6, 2. Place 7 is new, and gets the least; or all rows in proportion to that. */
static void has_rows_9_1_4(const wefti_job *job) {
    static const int64_t rows[] = {9, 1, 4}, before[] = {2, 3, 9};
    assert_memory_equal(job->batch.rows, rows, sizeof rows);
    assert_memory_equal(job->batch.earlier, before, sizeof before);
    assert_true(job->batch.per_rank == 9 && job->batch.per_step == 14 &&
                job->run.measures);
}

static void gathers_as_before(const wefti_job *job) {
    has_rows_9_1_4(job);
    assert_true(job->run.inner_rows == 6 && job->replicator_config.gathers);
}

TEST(who_is_left_keeps_what_was_measured) {
    const int places[] = {0, 2, 7};
    const int64_t rows[] = {9, 1, 4}, before[] = {2, 3, 9};
    const wefti_regroup_batch b = {3, 8, 2, 7, 0, places, rows, before, NULL, NULL};
    regroup(KEYS("mesh.nodes=3", "batch.shares=speed"), &b, has_rows_9_1_4);
    regroup(KEYS("mesh.nodes=3", "method=diloco", "batch.shares=steps"), &b,
            gathers_as_before);
}

TEST(who_is_left_has_its_share) {
    const int places[] = {0, 2, 7};
    const wefti_regroup_batch b = {3, 8, 2, 7, 0, places, NULL, NULL, NULL, NULL};
    const char *shrinks[] = {"mesh.nodes=3", "batch.shares=4,3,1", NULL, NULL};
    regroup(shrinks, &b, has_rows_8_2_2);
    shrinks[2] = "elastic.batch=keep";
    regroup(shrinks, &b, has_rows_12_2_2);
}
