/* SPDX-License-Identifier: MIT */
/* A step as it is written down: its ops in order, who clips when, which phase is next. */
#include "check.h"
#include "step/schedule.h"

typedef struct bench {
    weft_ctx *ctx;
    weft_config *config;
    wefti_job *job;
    wefti_arrangement *arrangement;
    wefti_schedule *schedule;
} bench;

/* Embedding, one block and head; `keys` are separated by spaces. */
static void set_up(bench *b, const char *keys) {
    char text[512];
    snprintf(text, sizeof text,
             "model.layers=1 model.width=16 model.heads=2 data.length=16 mesh.threads=1 "
             "batch.tokens_per_step=64 batch.micro=1 mesh.min_message=1B %s",
             keys);
    assert_int_equal(weft_ctx_create(&b->ctx), WEFT_OK);
    assert_ok(b->ctx, weft_config_create(b->ctx, &b->config));
    for (char *rest = text, *key; (key = strtok_r(rest, " ", &rest)) != NULL;)
        assert_ok(b->ctx, weft_config_set(b->ctx, b->config, key));
    assert_ok(b->ctx, weft_config_finish(b->ctx, b->config));
    assert_ok(b->ctx, wefti_job_create(b->ctx, b->config, NULL, 64, &b->job));
    assert_ok(b->ctx, wefti_arrangement_create(b->ctx, b->job, 0, &b->arrangement));
    assert_ok(b->ctx,
              wefti_schedule_create(b->ctx, b->job, b->arrangement, -1, &b->schedule));
}

static void tear_down(bench *b) {
    wefti_schedule_destroy(b->ctx, b->schedule);
    wefti_arrangement_destroy(b->ctx, b->arrangement);
    wefti_job_destroy(b->ctx, b->job);
    weft_config_destroy(b->ctx, b->config);
    assert_int_equal(weft_ctx_bytes_held(b->ctx), 0);
    weft_ctx_destroy(b->ctx);
}

/* "gather 0, forward 0, ...": of the whole step. */
static const char *told(const wefti_schedule *s) {
    static char text[4096];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < s->n_ops; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %d", i ? ", " : "",
                              wefti_op_name(s->ops[i].kind), s->ops[i].index);
    return text;
}

TEST(a_step_is_listed_in_order) {
    bench b;
    set_up(&b, "method=hsdp mesh.nodes=1 mesh.ranks_per_node=2 optimizer.clip=0");
    assert_string_equal(
        told(b.schedule),
        "load 0, gather 0, forward 0, gather 1, forward 1, "
        "gather 2, backward 2, reduce 2, gather 1, backward 1, reduce 1, "
        "backward 0, reduce 0, "
        "load 1, forward 0, forward 1, "
        "gather 2, backward 2, reduce 2, submit 0, gather 1, backward 1, reduce 1, "
        "submit 1, backward 0, reduce 0, submit 2, "
        "status 0, wait 0, settle 0, read status 0");
    tear_down(&b);
    set_up(&b, "method=dadam mesh.nodes=2 optimizer.clip=1 mesh.overlap=false");
    assert_string_equal(
        told(b.schedule),
        "submit answer 0, submit answer 1, submit answer 2, "
        "load 0, forward 0, forward 1, backward 2, backward 1, backward 0, "
        "load 1, forward 0, forward 1, backward 2, submit 0, wait 0, "
        "backward 1, submit 1, wait 0, backward 0, submit 2, wait 0, "
        "status 0, wait 0, norm 0, apply 0, apply 1, apply 2, "
        "finish 0, finish 1, finish 2, wait 0, settle 0, read status 0");
    tear_down(&b);
    set_up(&b, "method=flexdemo mesh.nodes=4 optimizer.clip=1");
    assert_string_equal(
        told(b.schedule),
        "load 0, forward 0, forward 1, backward 2, backward 1, backward 0, "
        "status 0, norm 0, submit 0, submit 1, submit 2, "
        "wait 0, settle 0, read status 0");
    tear_down(&b);
}

static const wefti_phase *phase_of(const wefti_schedule *s, wefti_phase_kind kind) {
    for (int p = 0; p < s->n_phases; p++)
        if (s->phases[p].kind == kind) return &s->phases[p];
    return NULL;
}

/* The table at the top of schedule.c. */
TEST(who_clips_when) {
    static const struct {
        const char *keys;
        wefti_clip clip;
        bool at_once, begin_measures, begin_scales, has_apply, apply_measures;
    } rows[] = {
        {"method=hsdp optimizer.clip=0", WEFTI_CLIP_NONE, true, true, false, true, true},
        {"method=flexdemo optimizer.clip=0", WEFTI_CLIP_NONE, true, true, false, true,
         false},
        {"method=hsdp optimizer.clip=1", WEFTI_CLIP_AGREED, true, true, false, false,
         false},
        {"method=flexdemo optimizer.clip=1", WEFTI_CLIP_LOCAL, false, false, true, true,
         false},
        {"method=hsdp optimizer.clip=1 mesh.sites=2 site_replicator.kind=demo",
         WEFTI_CLIP_LOCAL, false, false, true, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        char keys[256];
        snprintf(keys, sizeof keys, "%s mesh.nodes=4", rows[i].keys);
        set_up(&b, keys);
        const wefti_schedule *s = b.schedule;
        const wefti_phase *begin = phase_of(s, WEFTI_PHASE_BEGIN);
        const wefti_phase *apply = phase_of(s, WEFTI_PHASE_APPLY);
        assert_int_equal(s->clip, rows[i].clip);
        assert_int_equal(s->at_once, rows[i].at_once);
        assert_int_equal(begin->measures, rows[i].begin_measures);
        assert_int_equal(begin->scales, rows[i].begin_scales);
        assert_int_equal(apply != NULL, rows[i].has_apply);
        if (apply) assert_int_equal(apply->measures, rows[i].apply_measures);
        tear_down(&b);
    }
}

/* Before a micro-batch's first backward a third of it is done. */
TEST(a_third_of_a_micro_batch_is_its_forward_pass) {
    bench b;
    set_up(&b, "method=fsdp mesh.nodes=1 batch.micro=2");
    const weft_model *model = b.job->model;
    int64_t micro = -1;
    double done = 0, all = (double)model->n_elements, n = (double)b.job->batch.n_micro;
    assert_int_equal(b.job->batch.n_micro, 2);
    for (int i = 0; i < b.schedule->n_ops; i++) {
        const wefti_op *op = &b.schedule->ops[i];
        if (op->kind == WEFTI_OP_LOAD) done = ((double)++micro + 1.0 / 3) / n;
        if (op->kind != WEFTI_OP_BACKWARD) continue;
        done += 2.0 / 3 * (double)model->units[op->index].n_elements / all / n;
        assert_true(op->share > done - 1e-12 && op->share < done + 1e-12);
    }
    assert_true(done > 1 - 1e-12);
    tear_down(&b);
}

/* Two buckets have begun, the first may combine or has combined. */
TEST(with_sites_the_oldest_bucket_goes_first) {
    bench b;
    const int64_t both_begun[] = {2, 0, 0, 0, 0, 0, 0},
                  first_combined[] = {2, 1, 0, 0, 0, 0, 0},
                  first_ended[] = {2, 1, 1, 1, 1, 1, 1};
    set_up(&b, "method=hsdp optimizer.clip=0 mesh.nodes=4");
    const wefti_schedule *s = b.schedule;
    assert_int_equal(s->n_phases, 4);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 3, both_begun), 0);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 2, both_begun), 1);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 2, first_combined), 1);
    tear_down(&b);
    set_up(&b, "method=hsdp optimizer.clip=0 mesh.nodes=4 mesh.sites=2 "
               "site_replicator.kind=full");
    s = b.schedule;
    assert_int_equal(s->n_phases, 6);
    assert_int_equal(s->phases[3].group, WEFTI_GROUP_SITES);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 3, both_begun), 0);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 2, both_begun), 1);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 2, first_combined), 2);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 2, first_ended), 1);
    assert_int_equal(wefti_order_next(s->order, s->n_phases, 1, first_ended + 1), -1);
    tear_down(&b);
}
