/* SPDX-License-Identifier: MIT */
/* Eight people with machines: what somebody who knows would tell them (docs/planning.md
 * has seven more). The meaning of an answer, not its digits. */
#include "room.h"

#include <weft/plan.h>

typedef struct person {
    weft_config *run;
    weft_cluster *cluster;
    weft_advise_options options;
    weft_advice *advice;
} person;

/* A llama of that size, as --parameters and --layers describe it. */
static person with_model(double parameters, int64_t layers, const char *const *keys) {
    person p = {
        .options = {.struct_size = sizeof p.options, .steps = 4, .find_fit = true}};
    weft_shape *shape;
    assert_ok(ctx, weft_config_create(ctx, &p.run));
    assert_ok(ctx, weft_config_set(ctx, p.run, "mesh.threads=1"));
    for (; *keys; keys++) assert_ok(ctx, weft_config_set(ctx, p.run, *keys));
    assert_ok(ctx, weft_config_finish(ctx, p.run));
    assert_ok(ctx, weft_shape_of_size(ctx, parameters, layers, &shape));
    assert_ok(ctx, weft_shape_apply(ctx, shape, p.run));
    weft_free(ctx, shape);
    assert_ok(ctx, weft_cluster_create(ctx, &p.cluster));
    return p;
}

static void set(person *p, const char *name, const char *value) {
    assert_ok(ctx, weft_cluster_set(ctx, p->cluster, name, value));
}

static void take(person *p, const char *accelerator) {
    const weft_accelerator *a = weft_accelerator_find(accelerator);
    assert_non_null(a);
    assert_ok(ctx, weft_cluster_accelerate(ctx, p->cluster, accelerator));
    p->options.peak_flops = a->peak_flops;
    p->options.computing = WEFT_KNOWN_SHEET;
}

static void ask(person *p) {
    assert_ok(ctx, weft_advise(ctx, p->run, p->cluster, &p->options, &p->advice));
}

static void drop(person *p) {
    weft_advice_destroy(ctx, p->advice);
    weft_cluster_destroy(ctx, p->cluster);
    weft_config_destroy(ctx, p->run);
}

static const weft_candidate *choice(const person *p) {
    assert_true(p->advice->choice >= 0);
    return &p->advice->candidates[p->advice->choice];
}

/* The answer's candidate on several nodes, which has to be there. */
static const weft_candidate *several(const person *p) {
    assert_true(p->advice->headline >= 0);
    return &p->advice->candidates[p->advice->headline];
}

static double alone(const person *p) {
    return p->advice->outlooks[p->advice->headline].alone;
}

static void says(const person *p, const char *words) {
    if (!strstr(p->advice->answer, words))
        fail_msg("'%s' is not in: %s", words, p->advice->answer);
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* 16 GB of weights, gradients and moments in f32 and as much of DiLoCo's leave no room in 24. */
TEST_IN(begin, end, two_4090_train_a_billion_in_bf16) {
    person p = with_model(
        1e9, 16,
        KEYS("data.length=512", "run.steps=5000", "batch.tokens_per_step=65536"));
    set(&p, "nodes", "2");
    set(&p, "link", "1Gbit,0.2ms");
    take(&p, "RTX 4090");
    ask(&p);
    assert_int_equal(p.advice->precision, WEFT_PRECISION_BF16);
    assert_true(p.advice->found_fit);
    assert_true(p.advice->candidates[p.advice->baseline].usable);
    says(&p, "bf16");
    drop(&p);
}

/* DiLoCo's states have no room on the cards, and choco was measured with small models only. */
TEST_IN(begin, end, two_4090_in_bf16_hear_what_else_would_pay) {
    person p = with_model(
        1.1e9, 16,
        KEYS("data.length=2048", "run.steps=10000", "batch.tokens_per_step=262144"));
    set(&p, "nodes", "2");
    set(&p, "link", "1Gbit,0.2ms");
    take(&p, "RTX4090");
    p.options.precision = WEFT_PRECISION_BF16;
    ask(&p);
    assert_int_not_equal(p.advice->worth, WEFT_WORTH_YES);
    says(&p, "nobody has measured how it learns with a hundredth of these parameters");
    says(&p, "has no room; state_device=\"cpu\"");
    drop(&p);
}

TEST_IN(begin, end, eight_a100_in_each_of_four_are_worth_it) {
    person p = with_model(
        3.5e8, 6,
        KEYS("data.length=512", "run.steps=5000", "batch.tokens_per_step=524288"));
    set(&p, "nodes", "4");
    set(&p, "ranks-per-node", "8");
    set(&p, "link", "25Gbit,50us");
    set(&p, "node-link", "300GBps,5us");
    take(&p, "A100-80GB");
    ask(&p);
    assert_int_equal(choice(&p)->nodes, 4);
    assert_int_equal(p.advice->worth, WEFT_WORTH_YES);
    assert_true(alone(&p) > 2.2 && alone(&p) < 4.2);
    drop(&p);
}

/* 65,536 tokens do not divide by ten: a batch that does is named. */
TEST_IN(begin, end, ten_macs_hear_of_a_batch_for_all_ten) {
    person p = with_model(
        2e7, 4, KEYS("data.length=512", "run.steps=2000", "batch.tokens_per_step=65536"));
    set(&p, "nodes", "10");
    set(&p, "link", "1Gbit,0.3ms");
    take(&p, "M4");
    ask(&p);
    says(&p, "All 10 nodes can share batch.tokens_per_step=66560, not 65536");
    assert_int_equal(several(&p)->nodes, 8);
    drop(&p);
}

/* 50 Mbit/s up carries no gradients: they come together now and then, or send little. */
TEST_IN(begin, end, eight_volunteers_come_together_rarely) {
    person p = with_model(
        1.2e8, 6,
        KEYS("data.length=512", "run.steps=5000", "batch.tokens_per_step=262144"));
    set(&p, "nodes", "8");
    set(&p, "link", "300Mbit,20ms");
    set(&p, "up", "50Mbit");
    take(&p, "RTX3060");
    ask(&p);
    assert_true(several(&p)->learning.changes[0] != '\0');
    assert_true(several(&p)->prediction.wire_bytes < 0.1 * 4 * 1.2e8);
    assert_true(p.advice->full < 0 ||
                p.advice->candidates[p.advice->full].speedup < several(&p)->speedup);
    drop(&p);
}

TEST_IN(begin, end, two_cities_are_more_than_one) {
    person p = with_model(
        1.2e8, 6,
        KEYS("data.length=512", "run.steps=5000", "batch.tokens_per_step=262144"));
    set(&p, "nodes", "4");
    set(&p, "sites", "2");
    set(&p, "link", "10Gbit,0.1ms");
    set(&p, "site-link", "1Gbit,20ms");
    take(&p, "RTX4090");
    ask(&p);
    assert_int_equal(several(&p)->nodes, 4);
    assert_true(several(&p)->learning.changes[0] != '\0');
    assert_true(alone(&p) > 2);
    drop(&p);
}

/* A machine that leaves every hour costs time, and the answer says how much. */
TEST_IN(begin, end, spot_machines_hear_what_failures_take) {
    person p = with_model(
               3e8, 6,
               KEYS("data.length=512", "run.steps=5000", "batch.tokens_per_step=524288")),
           q = p;
    set(&p, "nodes", "16");
    set(&p, "link", "10Gbit,0.1ms");
    take(&p, "A10G");
    q.options = p.options;
    p.options.failure_s = 3600;
    p.options.restart_s = 180;
    p.options.price_h = 0.5;
    ask(&p);
    says(&p, " an hour for each node)");
    weft_advice_destroy(ctx, p.advice);
    p.options.money = "$";
    ask(&p);
    says(&p, "Failures take ");
    says(&p, "a price of $");
    ask(&q);
    assert_true(several(&p)->hours > 1.05 * several(&q)->hours);
    weft_advice_destroy(ctx, q.advice);
    drop(&p);
}

/* 42 M of 8 G parameters learn: their gradients cross a slow wire, and 4 bits fit a card. */
TEST_IN(begin, end, adapters_cross_any_wire) {
    person p = with_model(
        8e9, 8, KEYS("data.length=512", "run.steps=1000", "batch.tokens_per_step=32768"));
    set(&p, "nodes", "2");
    set(&p, "link", "1Gbit,0.2ms");
    take(&p, "RTX4090");
    p.options.trainable = 0.0052;
    p.options.weight_bytes = 0.53;
    ask(&p);
    assert_true(p.advice->candidates[p.advice->baseline].usable);
    assert_true(p.advice->full >= 0);
    assert_true(p.advice->candidates[p.advice->full].speedup > 1.7);
    assert_true(p.advice->candidates[p.advice->full].prediction.wire_bytes < 2e8);
    assert_int_equal(p.advice->worth, WEFT_WORTH_YES);
    assert_int_equal(choice(&p)->nodes, 2);
    says(&p, "ranks that reach 27 to 42 % of their data sheet's rate");
    for (int64_t i = 0; i < p.advice->n_candidates; i++) { /* Muon turns adapters alone */
        const weft_candidate *c = &p.advice->candidates[i],
                             *one = &p.advice->candidates[p.advice->baseline];
        if (c->nodes == 1)
            assert_true(c->prediction.mean_step_s < 1.02 * one->prediction.mean_step_s);
    }
    weft_advice_destroy(ctx, p.advice);
    set(&p, "link", "20Mbit,0.2ms"); /* another method than full synchronization */
    ask(&p);
    assert_true(several(&p)->learning.changes[0]);
    says(&p, "steps to a loss as where all weights learn");
    drop(&p);
}

TEST_IN(begin, end, seventy_billion_are_sharded_over_all) {
    person p = with_model(
        7e10, 8,
        KEYS("data.length=256", "run.steps=1000", "batch.tokens_per_step=131072"));
    set(&p, "nodes", "8");
    set(&p, "ranks-per-node", "8");
    set(&p, "link", "400Gbit,5us");
    set(&p, "node-link", "350GBps,5us");
    take(&p, "H100");
    p.options.steps = 1;
    ask(&p);
    assert_string_equal(choice(&p)->framework, "fsdp");
    assert_int_equal(choice(&p)->nodes, 8);
    assert_true(p.advice->found_fit);
    says(&p, "tensor parallelism) may be faster: weft does not do it, Megatron-LM");
    drop(&p);
}

TEST_IN(begin, end, what_has_no_room_hears_of_ranks_and_of_others) {
    person p = with_model(
        7e10, 8,
        KEYS("data.length=256", "run.steps=1000", "batch.tokens_per_step=131072"));
    set(&p, "nodes", "2");
    set(&p, "link", "10Gbit,50us");
    take(&p, "RTX4090");
    ask(&p);
    assert_int_equal(p.advice->choice, -1);
    assert_true(p.advice->ranks_needed > 16);
    says(&p, "tensor parallelism) takes fewer: weft does not do it, Megatron-LM");
    drop(&p);
}

/* Weights, gradients and moments of 8 bits are 78 GB; a layer and its activations are small. */
TEST_IN(begin, end, thirteen_billion_fit_ten_small_cards) {
    person p = with_model(
        1.3e10, 40,
        KEYS("data.length=2048", "run.steps=5000", "batch.tokens_per_step=131072"));
    set(&p, "nodes", "2");
    set(&p, "link", "1Gbit,0.2ms");
    take(&p, "RTX3060");
    ask(&p);
    assert_int_equal(p.advice->choice, -1);
    assert_true(p.advice->ranks_needed > 6.5 && p.advice->ranks_needed < 14);
    drop(&p);
}
