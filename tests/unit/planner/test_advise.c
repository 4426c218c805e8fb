/* SPDX-License-Identifier: MIT */
#include "configs.h"
#include "room.h"

#include <jansson.h>
#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"

/* ---- a small run on a small cluster ---- */

static weft_config *make_run(const char *more) {
    return config_with(ctx,
                       PLANNED_RUN "run.steps=400 batch.tokens_per_step=2048 "
                                   "schedule.warmup=10 mesh.min_message=0",
                       more);
}

static weft_cluster *make_cluster(const char *nodes, const char *ranks,
                                  const char *link) {
    weft_cluster *c;
    assert_ok(ctx, weft_cluster_create(ctx, &c));
    assert_ok(ctx, weft_cluster_set(ctx, c, "nodes", nodes));
    assert_ok(ctx, weft_cluster_set(ctx, c, "ranks-per-node", ranks));
    if (link) assert_ok(ctx, weft_cluster_set(ctx, c, "link", link));
    assert_ok(ctx, weft_cluster_set(ctx, c, "node-flops", "20G"));
    return c;
}

/* A sanitizer looks at the code and not at the numbers: there few steps are played for each
 * prediction, 0 means as many as a plan takes. */
enum { PLAYED = UNDER_SANITIZER ? 12 : 0 };

typedef struct scene {
    weft_config *run;
    weft_cluster *cluster;
    weft_advice *advice;
} scene;

static weft_status advise(scene *s, const weft_advise_options *options) {
    weft_advise_options all = {.struct_size = sizeof all};
    if (options) all = *options;
    all.steps = PLAYED;
    return weft_advise(ctx, s->run, s->cluster, &all, &s->advice);
}

static scene ask(const char *nodes, const char *ranks, const char *link,
                 const weft_advise_options *options) {
    scene s = {make_run(""), make_cluster(nodes, ranks, link), NULL};
    assert_ok(ctx, advise(&s, options));
    return s;
}

static void drop(scene *s) {
    weft_advice_destroy(ctx, s->advice);
    weft_cluster_destroy(ctx, s->cluster);
    weft_config_destroy(ctx, s->run);
}

/* Two nodes at 100 Mbit/s, advised once for all the tests that only look at the advice. It
 * stands in a context of its own, because that of a test has to be empty at its end. */
static weft_ctx *usual_ctx;
static scene usual_scene;

static scene usual(void) {
    weft_ctx *own = ctx;
    if (usual_ctx) return usual_scene;
    assert_int_equal(weft_ctx_create(&usual_ctx), WEFT_OK);
    ctx = usual_ctx;
    usual_scene = ask("2", "1", "100Mbit,1ms", NULL);
    ctx = own;
    return usual_scene;
}

static int drop_usual(void **state) {
    if (!usual_ctx) return 0;
    ctx = usual_ctx;
    drop(&usual_scene);
    return ctx_end(usual_ctx);
}

static const weft_candidate *named(const weft_advice *a, const char *name) {
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (strcmp(a->candidates[i].name, name) == 0) return &a->candidates[i];
    fail_msg("there is no candidate '%s'", name);
    return NULL;
}

/* ---- candidates ---- */

TEST_IN(begin, end, one_node_is_what_all_are_measured_by) {
    scene s = usual();
    const weft_advice *a = s.advice;
    const weft_candidate *one = &a->candidates[a->baseline];
    assert_int_equal(one->nodes, 1);
    assert_true(one->speedup == 1);
    assert_true(one->gigabytes == 0);
    assert_true(a->n_candidates > 15);
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        double ratio = one->prediction.mean_step_s / c->prediction.mean_step_s / c->steps;
        assert_true(fabs(c->speedup - ratio) < 1e-9 * ratio);
        assert_true(fabs(c->hours - 400 * c->steps * c->prediction.mean_step_s / 3600) <
                    1e-9 * c->hours);
    }
}

TEST_IN(begin, end, the_goal_scales_hours_and_bytes) {
    weft_advise_options ten = {.struct_size = sizeof ten, .tokens = 10 * 400 * 2048.0};
    scene s = usual(), t = ask("2", "1", "100Mbit,1ms", &ten);
    const weft_candidate *a = named(s.advice, "full sync");
    const weft_candidate *b = named(t.advice, "full sync");
    assert_true(s.advice->tokens == 400 * 2048.0);
    assert_true(a->gigabytes > 0);
    assert_true(fabs(b->hours / a->hours - 10) < 1e-9);
    assert_true(fabs(b->gigabytes / a->gigabytes - 10) < 1e-9);
    drop(&t);
}

TEST_IN(begin, end, ranks_are_in_order_and_unusable_ones_last) {
    scene s = ask("4", "2", "100Mbit,1ms", NULL);
    const weft_candidate *c = s.advice->candidates;
    for (int64_t i = 1; i < s.advice->n_candidates; i++) {
        assert_true(c[i - 1].usable || !c[i].usable);
        assert_true(c[i - 1].learning.measured || !c[i].learning.measured ||
                    !c[i].usable);
        if (c[i].usable && c[i].learning.measured == c[i - 1].learning.measured)
            assert_true(c[i].cost_s > 0.99 * c[i - 1].cost_s);
    }
    drop(&s);
}

/* What is advised can be trained: each candidate's configuration is complete, has its
 * mesh, the run's batch, and the same text after a file. */
TEST_IN(begin, end, every_candidate_is_a_run) {
    scene s = ask("4", "2", "100Mbit,1ms", NULL);
    for (int64_t i = 0; i < s.advice->n_candidates; i++) {
        const weft_candidate *c = &s.advice->candidates[i];
        weft_config *config, *again;
        const char *text, *text_again;
        assert_ok(ctx, weft_advice_config(ctx, s.run, s.advice, i, &config));
        assert_int_equal(config->mesh.nodes, c->nodes);
        assert_int_equal(config->mesh.ranks_per_node, 2);
        assert_int_equal(config->mesh.keep_whole, !c->own && c->shards == 1);
        assert_int_equal(config->batch.tokens_per_step, 2048);
        assert_string_equal(config->data.path.items[0], "none.txt");
        assert_ok(ctx, weft_config_write(ctx, config, "room/run.yaml"));
        assert_ok(ctx, weft_config_create(ctx, &again));
        assert_ok(ctx, weft_config_load(ctx, again, "room/run.yaml"));
        assert_ok(ctx, weft_config_finish(ctx, again));
        assert_ok(ctx, weft_config_text(ctx, config, WEFT_CONFIG_BARE, &text));
        assert_ok(ctx, weft_config_text(ctx, again, WEFT_CONFIG_BARE, &text_again));
        assert_string_equal(text, text_again);
        weft_config_destroy(ctx, again);
        weft_config_destroy(ctx, config);
    }
    drop(&s);
}

/* Keys of the method are for the run as it is: what is known of a method is known of its
 * own keys. The optimizer's are for all of its method. */
TEST_IN(begin, end, own_keys_stay_with_the_run_as_it_is) {
    const char *keys = "method=flexdemo replicator.compression_topk=7 optimizer.lr=5e-3";
    scene s = {make_run(keys), make_cluster("2", "1", "10Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    int n_own = 0;
    for (int64_t i = 0; i < s.advice->n_candidates; i++) {
        const weft_candidate *c = &s.advice->candidates[i];
        weft_config *config;
        assert_ok(ctx, weft_advice_config(ctx, s.run, s.advice, i, &config));
        bool demo = strcmp(config->method, "flexdemo") == 0;
        bool changed = strstr(c->settings, "compression_topk") != NULL;
        assert_int_equal(config->replicator.compression_topk, c->own    ? 7
                                                              : changed ? 2
                                                                        : 4);
        assert_true((config->optimizer.lr == 5e-3) == demo);
        n_own += c->own;
        weft_config_destroy(ctx, config);
    }
    assert_int_equal(n_own, 1);
    assert_false(named(s.advice, "flexdemo (own keys)")->learning.measured);
    assert_true(named(s.advice, "flexdemo")->learning.measured);
    drop(&s);
}

/* A run that is one of the methods as it comes is listed once. */
TEST_IN(begin, end, a_plain_run_is_listed_once) {
    const char *keys = "method=flexdemo";
    scene s = {make_run(keys), make_cluster("2", "1", "10Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    int n = 0;
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        n += strcmp(s.advice->candidates[i].name, "flexdemo") == 0;
    assert_int_equal(n, 1);
    assert_true(named(s.advice, "flexdemo")->own);
    assert_true(named(s.advice, "flexdemo")->learning.measured);
    drop(&s);
}

TEST_IN(begin, end, what_cannot_be_is_left_out_with_its_reason) {
    const char *keys = "batch.tokens_per_step=64 run.steps=80";
    scene s = {make_run(keys), make_cluster("4", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    bool batch = false, rarely = false;
    for (int64_t i = 0; i < s.advice->n_left_out; i++) {
        const weft_left_out *l = &s.advice->left_out[i];
        if (strcmp(l->why, "batch.tokens_per_step is 64, expected a multiple of 128 (4 "
                           "ranks times data.length 32) such as 128") == 0)
            batch = l->n >= 3;
        if (strstr(l->why, "every 100 steps, too rarely for 80 steps")) rarely = true;
    }
    assert_true(batch);
    assert_true(rarely);
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        assert_true(s.advice->candidates[i].nodes <= 2);
    assert_int_equal(named(s.advice, "choco aer int8")->nodes, 2); /* and all variants */
    drop(&s);
}

TEST_IN(begin, end, a_batch_that_nobody_can_share_stays_on_one_node) {
    const char *keys = "batch.tokens_per_step=96";
    scene s = {make_run(keys), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        assert_int_equal(s.advice->candidates[i].nodes, 1);
    assert_non_null(strstr(s.advice->answer,
                           "Nothing could be tried on several nodes: "
                           "batch.tokens_per_step is 96, expected a multiple of 64"));
    drop(&s);
}

TEST_IN(begin, end, same_only_tries_nothing_that_learns_otherwise) {
    weft_advise_options options = {.struct_size = sizeof options, .same_only = true};
    scene s = ask("4", "1", "100Mbit,1ms", &options);
    assert_true(s.advice->n_candidates >= 3);
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        assert_string_equal(s.advice->candidates[i].learning.changes, "");
    drop(&s);
}

TEST_IN(begin, end, too_little_memory_is_said_and_never_chosen) {
    scene s = {make_run(""), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "node-memory", "100kB"));
    assert_ok(ctx, advise(&s, NULL));
    assert_true(s.advice->n_candidates > 10);
    for (int64_t i = 0; i < s.advice->n_candidates; i++) {
        assert_false(s.advice->candidates[i].usable);
        assert_non_null(strstr(s.advice->candidates[i].problem, "100 kB are there"));
    }
    assert_int_equal(s.advice->choice, -1);
    assert_int_equal(s.advice->fastest, -1);
    assert_true(s.advice->baseline >= 0);
    assert_non_null(strstr(s.advice->answer, "No rank has room for its part: "));
    drop(&s);
}

/* ---- the choice ---- */

static weft_candidate learner(const char *changes, double error, int64_t nodes) {
    return (weft_candidate){.usable = true,
                            .nodes = nodes,
                            .steps = 1,
                            .steps_error = error,
                            .cost_s = 1,
                            .prediction = {.mean_step_s = 1},
                            .learning = {changes, true, 0, 1, 1, 0, ""}};
}

/* What costs the least, unless something simpler costs at most 5 % more. */
TEST(the_choice_weighs_time_to_a_loss) {
    weft_candidate c[] = {learner("", 0, 1), learner("", 0, 4), learner("signs", 0.2, 4),
                          learner("muon", 0.1, 2), learner("?", 0, 4)};
    c[4].learning.measured = false;
    const struct {
        double cost_s[5];
        int64_t choice;
    } cases[] = {{{1, 9, 9, 9, 9}, 0},       /* nothing is worth it */
                 {{1, .5, .45, .47, .1}, 3}, /* level: fewer nodes; unknown: never */
                 {{1, .97, 9, 9, 9}, 0},     /* 3 % are not worth a second machine */
                 {{1, .5, .48, .9, 9}, 1},   /* level: it learns as one machine */
                 {{1, .5, .42, .9, 9}, 2},   /* whatever is not known of it */
                 {{1, .9, .5, .55, 9}, 2},
                 {{1, .9, .8, .765, 9},
                  3}}; /* one is level with another, but not with the least */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (wefti_advise_choose(c, cases[i].cost_s, 5) != cases[i].choice)
            fail_msg("case %zu", i);
    assert_int_equal(wefti_advise_choose(c + 4, cases[0].cost_s, 1), -1);
    assert_int_equal(wefti_advise_least(c, cases[1].cost_s, 5), 2);
}

/* Two that wait for the same wire as long are apart by what is not known of the wire only as far
 * as they do not wait alike. */
TEST(what_two_share_tells_them_not_apart) {
    wefti_adviser typed = {.options = {.wire = WEFT_KNOWN_TYPED}};
    weft_candidate x = learner("", 0, 2), y = learner("", 0, 4);
    x.prediction.wait_s = y.prediction.wait_s = 0.6;
    snprintf(x.name, sizeof x.name, "a");
    snprintf(y.name, sizeof y.name, "b");
    double alike = wefti_advise_apart(&typed, &x, 1, &y, 1);
    y.prediction.wait_s = 0;
    double other = wefti_advise_apart(&typed, &x, 1, &y, 1);
    assert_true(alike > 0 && alike < 0.05 && other > 0.2);
    /* and what waits for a wire has less of it where its cost is less */
    assert_true(wefti_advise_apart(&typed, &x, 0.5, &y, 1) < other);
}

/* The run's own optimizer is what all are measured by, and one that somebody chose stays. */
TEST_IN(begin, end, the_optimizer_that_was_chosen_stays) {
    const char *muon = "optimizer.kind=muon optimizer.lr=1e-2";
    const char *adamw = "optimizer.kind=adamw";
    scene free = usual();
    assert_true(named(free.advice, "one node, muon")->steps < 0.55);
    scene s = {make_run(muon), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    assert_true(named(s.advice, "full sync")->steps == 1);
    assert_true(named(s.advice, "muon int8")->steps < 1.1);
    assert_true(named(s.advice, "muloco")->steps > 1);
    assert_true(named(s.advice, "flexdemo")->steps > 2);
    bool told = false;
    for (int64_t i = 0; i < s.advice->n_left_out; i++)
        told |= strcmp(s.advice->left_out[i].why,
                       "its optimizer is adamw, and the run says optimizer.kind=muon") ==
                0;
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        told &= strcmp(s.advice->candidates[i].name, "choco aer int8") != 0 &&
                strstr(s.advice->candidates[i].name, ", muon") == NULL;
    assert_true(told);
    drop(&s);
    s = (scene){make_run(adamw), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    for (int64_t i = 0; i < s.advice->n_candidates; i++)
        assert_true(strcmp(s.advice->candidates[i].name, "muloco") != 0);
    assert_true(named(s.advice, "choco aer int8")->usable);
    drop(&s);
    /* a method's own optimizer, as a whole run file has it, is no such choice */
    const char *whole = "method=flexdemo optimizer.kind=sgd";
    s = (scene){make_run(whole), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    assert_true(named(s.advice, "one node")->usable && named(s.advice, "muloco")->usable);
    drop(&s);
    const char *local = "method=muloco optimizer.kind=muon";
    s = (scene){make_run(local), make_cluster("2", "1", "100Mbit,1ms"), NULL};
    assert_ok(ctx, advise(&s, NULL));
    assert_true(named(s.advice, "one node")->steps == 1);
    drop(&s);
}

TEST_IN(begin, end, sites_have_as_many_nodes_each) {
    weft_config *run = make_run("");
    weft_cluster *cluster = make_cluster("2", "1", "100Mbit,1ms");
    weft_advice *advice;
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "sites", "3"));
    assert_int_not_equal(weft_advise(ctx, run, cluster, NULL, &advice), WEFT_OK);
    assert_non_null(strstr(weft_ctx_message(ctx),
                           "nodes is 2 and sites is 3, expected as many nodes in each"));
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
}

/* More than a run can have: played in arrays. */
TEST_IN(begin, end, thousands_of_nodes_are_predicted) {
    const char *batch = "batch.tokens_per_step=64000";
    weft_config *run = make_run(batch);
    weft_cluster *cluster = make_cluster("2000", "1", "1Gbit,0.1ms");
    wefti_adviser a = {.ctx = ctx, .run = run, .cluster = *cluster};
    weft_candidate c = {.nodes = 2000, .ranks_per_node = 1, .sites = 1};
    weft_prediction p = {.struct_size = sizeof p};
    snprintf(c.settings, sizeof c.settings,
             "mesh.nodes=2000 mesh.ranks_per_node=1 mesh.sites=1 method=hsdp");
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &c, 0, &p));
    assert_true(p.mean_step_s > 0 && p.memory_bytes > 0 && p.wire_bytes > 0);
    assert_true(fabs(p.tokens_per_s * p.mean_step_s / 64000 - 1) < 1e-6);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
}

TEST_IN(begin, end, a_slow_wire_makes_full_sync_slower_than_one_node) {
    weft_advise_options same = {.struct_size = sizeof same, .same_only = true};
    scene slow = ask("2", "1", "1Mbit,5ms", NULL),
          fast = ask("2", "1", "100Gbit,1us", &same);
    assert_true(named(slow.advice, "full sync")->speedup < 0.2);
    const weft_candidate *full = named(fast.advice, "full sync");
    assert_true(full->speedup > 1.8 && full->speedup < 2.01);
    assert_true(&fast.advice->candidates[fast.advice->choice] == full);
    assert_true(fast.advice->full == fast.advice->choice);
    drop(&slow);
    drop(&fast);
}

/* ---- curves ---- */

/* Without jitter a faster wire makes nothing slower (but for rounding). */
TEST_IN(begin, end, curves_rise_with_the_rate) {
    scene s = usual();
    const weft_advice *a = s.advice;
    assert_true(a->n_curves >= 8);
    for (int64_t k = 0; k < a->n_curves; k++)
        for (int64_t i = 1; i < a->n_bandwidths; i++) {
            const double *row = a->speedups + k * a->n_bandwidths;
            assert_true(row[i] > row[i - 1] * (1 - 1e-6));
        }
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        if (c->curve < 0) continue;
        double most = a->speedups[(c->curve + 1) * a->n_bandwidths - 1];
        assert_true(most * c->steps < 2.01); /* two nodes, as many tokens */
    }
}

TEST_IN(begin, end, break_even_parts_slower_from_faster) {
    scene s = usual();
    const weft_advice *a = s.advice;
    int n_between = 0;
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        assert_true((c->curve < 0) == isnan(c->break_even_Bps));
        if (c->curve < 0) continue;
        const double *row = a->speedups + c->curve * a->n_bandwidths;
        n_between += c->break_even_Bps > 0 && isfinite(c->break_even_Bps);
        for (int64_t k = 0; k < a->n_bandwidths; k++) {
            if (a->bandwidths[k] > 1.02 * c->break_even_Bps) assert_true(row[k] > 1);
            if (a->bandwidths[k] < 0.98 * c->break_even_Bps) assert_true(row[k] <= 1);
        }
    }
    assert_true(n_between >= 5);
}

TEST_IN(begin, end, ranges_cover_all_rates_and_agree_with_the_choice) {
    scene s = usual();
    const weft_advice *a = s.advice;
    assert_true(a->n_ranges >= 2);
    assert_true(a->ranges[0].from_Bps == 0);
    assert_true(isinf(a->ranges[a->n_ranges - 1].to_Bps));
    int n_now = 0;
    for (int64_t i = 0; i < a->n_ranges; i++) {
        const weft_range *r = &a->ranges[i];
        assert_true(r->from_Bps < r->to_Bps);
        if (i > 0) assert_true(r->from_Bps == a->ranges[i - 1].to_Bps);
        if (a->wire.bandwidth_Bps < r->from_Bps || a->wire.bandwidth_Bps >= r->to_Bps)
            continue;
        assert_int_equal(r->candidate, a->choice);
        n_now++;
    }
    assert_int_equal(n_now, 1);
}

/* ---- measured units ---- */

/* Units were measured with the micro-batch of two nodes; one node has twice the rows. All
 * candidates are predicted from them, so that two nodes on a fast wire are twice as fast,
 * whatever the FLOP per second say. */
TEST_IN(begin, end, measured_units_hold_for_every_micro_batch) {
    static const char *const names[] = {"embedding", "block", "head"};
    scene s = {make_run(""), make_cluster("2", "1", "100Gbit,1us"), NULL};
    weft_config *half;
    weft_cluster *c = s.cluster;
    c->threads = 1;
    assert_ok(ctx, weft_config_copy(ctx, s.run, &half));
    assert_ok(ctx, weft_config_set(ctx, half, "mesh.nodes=2"));
    assert_ok(ctx, weft_config_finish(ctx, half));
    assert_ok(ctx, weft_cluster_resize(ctx, c, WEFT_CLUSTER_UNITS, 3));
    for (int i = 0; i < 3; i++) {
        snprintf(c->units[i].name, sizeof c->units[i].name, "%s", names[i]);
        c->units[i].forward_s = 1;
        c->units[i].backward_s = 2;
    }
    assert_ok(ctx, weft_cluster_model_key(ctx, half, 1, c->model));
    assert_ok(ctx, advise(&s, NULL));
    const weft_candidate *one = &s.advice->candidates[s.advice->baseline];
    const weft_candidate *full = named(s.advice, "full sync");
    assert_true(fabs(full->prediction.step_s.median - 12) < 0.2); /* 4 units */
    assert_true(fabs(one->prediction.step_s.median - 24) < 0.4);
    assert_true(full->speedup > 1.9 && full->speedup < 2.1);
    weft_config_destroy(ctx, half);
    drop(&s);
}

/* ---- sites ---- */

TEST_IN(begin, end, sites_are_joined_by_something) {
    scene s = {make_run(""), make_cluster("4", "1", "10Gbit,10us"), NULL};
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "sites", "2"));
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "site-link", "1Mbit,20ms"));
    assert_ok(ctx, advise(&s, NULL));
    assert_true(s.advice->wire.bandwidth_Bps == 125e3);
    double over_sites = 0, inside = 0;
    for (int64_t i = 0; i < s.advice->n_candidates; i++) {
        const weft_candidate *c = &s.advice->candidates[i];
        bool flat = wefti_recipe_find(c->name) && strncmp(c->name, "sites", 5) != 0;
        assert_true(c->sites == (c->nodes > 2 ? 2 : 1) || (flat && c->nodes == 4));
        assert_true(c->nodes == 1 || c->nodes == 2 || c->nodes == 4);
        if (c->learning.changes[0]) continue;
        if (c->nodes == 4) over_sites = fmax(over_sites, c->speedup);
        if (c->nodes == 2) inside = fmax(inside, c->speedup);
    }
    assert_true(over_sites > 0 && over_sites < 0.1); /* the slow wire counts */
    assert_true(inside > 1.8);                       /* and not inside a site */
    assert_true(named(s.advice, "sites flexdemo int8")->speedup > 2 * over_sites);
    drop(&s);
}

/* ---- out ---- */

TEST_IN(begin, end, the_json_says_it_all) {
    scene s = usual();
    char *text;
    assert_ok(ctx, weft_advice_json(ctx, s.advice, &text));
    json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    json_t *list = json_object_get(all, "candidates");
    assert_int_equal(json_array_size(list), s.advice->n_candidates);
    assert_int_equal(json_integer_value(json_object_get(all, "choice")),
                     s.advice->choice);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *c = json_array_get(list, i);
        double step = json_real_value(json_object_get(
            json_object_get(json_object_get(c, "prediction"), "step_s"), "median"));
        assert_true(fabs(step / s.advice->candidates[i].prediction.step_s.median - 1) <
                    1e-6);
    }
    json_t *curves = json_object_get(all, "curves");
    assert_int_equal(json_array_size(json_object_get(curves, "methods")),
                     s.advice->n_curves);
    json_decref(all);
    weft_free(ctx, text);
}

TEST_IN(begin, end, the_drawing_has_a_curve_for_each_method) {
    scene s = usual(), one = ask("1", "1", NULL, NULL);
    char *text;
    int64_t n;
    assert_ok(ctx, weft_advice_draw(ctx, s.advice, "room/plan.svg"));
    assert_ok(ctx, wefti_file_read(ctx, "room/plan.svg", 1 << 20, &text, &n));
    int64_t n_lines = 0;
    for (const char *at = text; (at = strstr(at, "<polyline")); at++) n_lines++;
    assert_int_equal(n_lines, 2 * s.advice->n_curves); /* and one in the legend */
    assert_null(strstr(text, "nan"));
    assert_true(n > 7 && strcmp(text + n - 7, "</svg>\n") == 0);
    wefti_free(ctx, text);
    assert_int_equal(weft_advice_draw(ctx, one.advice, "room/one.svg"),
                     WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_ctx_message(ctx), "nothing to draw in room/one.svg"));
    assert_int_equal(one.advice->candidates[one.advice->choice].nodes, 1);
    drop(&one);
}

/* ---- errors ---- */

TEST_IN(begin, end, missing_facts_are_named) {
    weft_config *run = make_run("");
    weft_cluster *c = make_cluster("2", "1", NULL);
    weft_advice *advice;
    assert_int_equal(weft_advise(ctx, run, c, NULL, &advice), WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(ctx),
                        "the wire between the 2 nodes is not known, expected link, as in "
                        "--link 1Gbit,50us");
    assert_null(advice);
    weft_ctx_clear(ctx);
    assert_ok(ctx, weft_cluster_set(ctx, c, "link", "1Gbit"));
    c->rank_flops = 0;
    assert_int_equal(weft_advise(ctx, run, c, NULL, &advice), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_ctx_message(ctx), "what a rank computes is not known"));
    weft_cluster_destroy(ctx, c);
    weft_config_destroy(ctx, run);
}

TEST_IN(begin, end, there_is_no_candidate_past_the_last) {
    scene s = ask("1", "1", NULL, NULL);
    weft_config *config;
    assert_int_equal(s.advice->n_candidates, 2); /* the run's own optimizer, and muon */
    assert_int_equal(weft_advice_config(ctx, s.run, s.advice, 2, &config),
                     WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(ctx),
                        "there is no candidate 2, expected 0 to 1");
    assert_null(config);
    drop(&s);
}

TEST_IN(begin, end, every_failing_allocation_is_a_clean_error) {
    weft_config *run = make_run("");
    weft_cluster *c = make_cluster("2", "1", "100Mbit,1ms");
    weft_advise_options options = {
        .struct_size = sizeof options, .same_only = true, .steps = 8};
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_status status = WEFT_ERR_MEMORY;
    int k = 0;
    for (; k < 200 && status != WEFT_OK; k++) {
        weft_advice *advice;
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = weft_advise(ctx, run, c, &options, &advice);
        weft_ctx_fail_allocation(ctx, -1);
        assert_true(status == WEFT_OK || status == WEFT_ERR_MEMORY);
        weft_advice_destroy(ctx, advice);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
    }
    assert_int_equal(status, WEFT_OK);
    assert_true(k > 5);
    weft_cluster_destroy(ctx, c);
    weft_config_destroy(ctx, run);
}

int main(void) { return check_run(NULL, drop_usual); }
