/* SPDX-License-Identifier: MIT */
/* A search and its journal: stopped at any line and begun again it ends alike; the journal
 * of another search, and a broken line, are refused. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/tune.h>

#include "check.h"

static weft_ctx *ctx;
static weft_config *base;
static const char *const keys[] = {"optimizer.lr=1e-4..1e-2", "optimizer.beta1=0.8,0.9"};

static int begin_room(void **state) {
    return room_begin(&ctx) != 0 || weft_config_create(ctx, &base) != WEFT_OK ||
           weft_config_set(ctx, base, "schedule.warmup=5") != WEFT_OK ||
           weft_config_finish(ctx, base) != WEFT_OK;
}

static int end_room(void **state) {
    weft_config_destroy(ctx, base);
    return ctx_end(ctx);
}

static weft_tune_setup setup_of(const char *folder) {
    return (weft_tune_setup){.struct_size = sizeof(weft_tune_setup),
                             .keys = keys,
                             .n_keys = 2,
                             .n_trials = 9,
                             .n_seeds = 2,
                             .budget = 90,
                             .eta = 3,
                             .folder = folder};
}

static weft_tune *open_search(const char *folder) {
    weft_tune *tune;
    weft_tune_setup setup = setup_of(folder);
    assert_ok(ctx, weft_tune_create(ctx, &setup, base, &tune));
    return tune;
}

/* A bowl around lr = 2e-3; seeds differ a little. */
static double loss_of(const weft_tune *tune, const weft_tune_job *job) {
    double lr = strtod(weft_tune_value(tune, job->trial, 0), NULL);
    return 2 + fabs(log(lr / 2e-3)) + 0.01 * job->seed + 1.0 / (double)job->steps;
}

/* At most `most` jobs; returns how many there were. */
static int go_on(weft_tune *tune, int most) {
    weft_tune_job job = {.struct_size = sizeof job};
    bool any;
    int n = 0;
    for (; n < most; n++) {
        assert_ok(ctx, weft_tune_next(tune, &job, &any));
        if (!any) break;
        assert_ok(ctx, weft_tune_report(tune, &job, loss_of(tune, &job), 1.5));
    }
    return n;
}

static void read_into(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, size - 1, file);
    out[n] = '\0';
    fclose(file);
}

TEST_IN(begin_room, end_room, a_stopped_search_ends_like_a_whole_one) {
    char whole[8192], parts[8192], folder[32], path[64];
    weft_tune *tune = open_search("room/whole");
    int n = go_on(tune, 1000);
    weft_tune_look best = *weft_tune_place(tune, 0);
    weft_tune_destroy(tune);
    read_into("room/whole/journal.tsv", whole, sizeof whole);
    for (int cut = 0; cut <= n; cut++) {
        snprintf(folder, sizeof folder, "room/cut-%d", cut);
        tune = open_search(folder);
        assert_int_equal(go_on(tune, cut), cut);
        weft_tune_destroy(tune);
        tune = open_search(folder);
        assert_int_equal(go_on(tune, 1000), n - cut);
        weft_tune_look again = *weft_tune_place(tune, 0);
        assert_true(again.trial == best.trial && again.loss == best.loss &&
                    again.spread == best.spread && again.trained_s == best.trained_s);
        weft_tune_destroy(tune);
        snprintf(path, sizeof path, "%s/journal.tsv", folder);
        read_into(path, parts, sizeof parts);
        assert_string_equal(parts, whole);
    }
}

/* Wherever the program died while it wrote, what is whole counts. */
TEST_IN(begin_room, end_room, a_torn_journal_goes_on_from_its_whole_lines) {
    char whole[8192], parts[8192];
    weft_tune *tune = open_search("room/torn");
    go_on(tune, 1000);
    weft_tune_destroy(tune);
    read_into("room/torn/journal.tsv", whole, sizeof whole);
    for (long length = (long)strlen(whole); length >= 0; length -= 7) {
        assert_int_equal(truncate("room/torn/journal.tsv", length), 0);
        tune = open_search("room/torn");
        go_on(tune, 1000);
        weft_tune_destroy(tune);
        read_into("room/torn/journal.tsv", parts, sizeof parts);
        assert_string_equal(parts, whole);
    }
}

TEST_IN(begin_room, end_room, the_best_keys_are_a_layer) {
    char text[512];
    weft_config *config;
    weft_tune *tune = open_search("room/best");
    assert_fails(ctx, weft_tune_write(tune, "room/best.yaml"), WEFT_ERR_NUMERIC,
                 "no trial ended well");
    go_on(tune, 1000);
    weft_tune_look best = *weft_tune_place(tune, 0);
    assert_int_equal(best.steps, 90);
    assert_int_equal(best.n_seeds, 2);
    assert_ok(ctx, weft_tune_write(tune, "room/best.yaml"));
    read_into("room/best.yaml", text, sizeof text);
    assert_non_null(strstr(text, "optimizer:\n  lr: "));
    assert_null(strstr(strstr(text, "optimizer:") + 1, "optimizer:"));
    assert_ok(ctx, weft_config_create(ctx, &config));
    assert_ok(ctx, weft_config_load(ctx, config, "room/best.yaml"));
    assert_true(config->optimizer.lr ==
                strtod(weft_tune_value(tune, best.trial, 0), NULL));
    assert_true(config->optimizer.beta1 ==
                strtod(weft_tune_value(tune, best.trial, 1), NULL));
    for (int i = 0; i < weft_tune_trials(tune); i++) /* nobody is nearer to the least */
        assert_true(fabs(log(strtod(weft_tune_value(tune, i, 0), NULL) / 2e-3)) >=
                    fabs(log(config->optimizer.lr / 2e-3)));
    weft_config_destroy(ctx, config);
    weft_tune_destroy(tune);
}

TEST_IN(begin_room, end_room, places_are_by_rung_then_loss) {
    weft_tune *tune = open_search("room/places");
    go_on(tune, 1000);
    for (int i = 1; i < weft_tune_trials(tune); i++) {
        weft_tune_look a = *weft_tune_place(tune, i - 1), b = *weft_tune_place(tune, i);
        assert_true(a.steps > b.steps || (a.steps == b.steps && a.loss <= b.loss));
    }
    assert_int_equal(weft_tune_place(tune, weft_tune_trials(tune))->trial, -1);
    weft_tune_destroy(tune);
}

TEST_IN(begin_room, end_room, another_search_is_refused) {
    weft_tune *tune = open_search("room/other");
    weft_tune_destroy(tune);
    weft_tune_setup setup = setup_of("room/other");
    setup.n_trials = 10;
    assert_fails(ctx, weft_tune_create(ctx, &setup, base, &tune), WEFT_ERR_CONFIG,
                 "journal of another search");
    assert_null(tune);
    setup.n_trials = 9;
    assert_ok(ctx, weft_config_set(ctx, base, "model.layers=3"));
    assert_fails(ctx, weft_tune_create(ctx, &setup, base, &tune), WEFT_ERR_CONFIG,
                 "journal of another search");
}

TEST_IN(begin_room, end_room, a_broken_line_is_refused) {
    static const char *const lines[] = {"x\n",
                                        "0\t0\t0\t10\t1\n",
                                        "0\t0\t0\t10\t1\t1\t1\n",
                                        "9\t0\t0\t10\t1\t1\n",
                                        "0\t2\t0\t90\t1\t1\n",
                                        "0\t0\t0\t10\t1x\t1\n",
                                        "0\t0\t0\t10\t1\t-1\n",
                                        "0\t0\t0\t10\t1\t1\n0\t0\t0\t10\t1\t1\n"};
    weft_tune_setup setup = setup_of("room/broken");
    weft_tune *tune = open_search("room/broken");
    weft_tune_destroy(tune);
    char head[1024];
    read_into("room/broken/journal.tsv", head, sizeof head);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        FILE *file = fopen("room/broken/journal.tsv", "wb");
        assert_non_null(file);
        fprintf(file, "%s%s", head, lines[i]);
        fclose(file);
        assert_fails(ctx, weft_tune_create(ctx, &setup, base, &tune), WEFT_ERR_FORMAT,
                     "journal.tsv:");
    }
}

TEST_IN(begin_room, end_room, sizes_and_keys_are_checked_first) {
    static const char *const unread[] = {"mixer.gamma=0.5,1"};
    weft_tune *tune;
    weft_tune_setup setup = setup_of("room/sizes"), bad = setup;
    bad.n_seeds = 0;
    assert_fails(ctx, weft_tune_create(ctx, &bad, base, &tune), WEFT_ERR_CONFIG, "seeds");
    bad = setup;
    bad.eta = 1;
    assert_fails(ctx, weft_tune_create(ctx, &bad, base, &tune), WEFT_ERR_CONFIG, "eta");
    bad = setup;
    bad.n_trials = 0;
    assert_fails(ctx, weft_tune_create(ctx, &bad, base, &tune), WEFT_ERR_CONFIG,
                 "a number of trials");
    bad = setup;
    bad.n_rungs = 5;
    bad.budget = 20;
    assert_fails(ctx, weft_tune_create(ctx, &bad, base, &tune), WEFT_ERR_CONFIG,
                 "do not divide");
    bad = setup;
    bad.keys = unread;
    bad.n_keys = 1;
    bad.n_trials = 0;
    assert_fails(ctx, weft_tune_create(ctx, &bad, base, &tune), WEFT_ERR_CONFIG,
                 "does not read it");
    assert_int_not_equal(access("room/sizes", F_OK), 0);
}

TEST_IN(begin_room, end_room, every_allocation_may_fail) {
    weft_tune_setup setup = setup_of("room/memory");
    weft_tune *tune = NULL;
    int failed = 0;
    for (int k = 0; !tune; k++) {
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = weft_tune_create(ctx, &setup, base, &tune);
        weft_ctx_fail_allocation(ctx, -1);
        assert_true((status == WEFT_OK) == (tune != NULL));
        failed += status == WEFT_ERR_MEMORY;
        weft_ctx_clear(ctx);
    }
    assert_true(failed > 10);
    weft_tune_destroy(tune);
}

/* In the warm-up the largest rate is ahead, so nobody is judged before as many steps again. */
TEST_IN(begin_room, end_room, nobody_is_judged_in_the_warm_up) {
    static const struct {
        int warmup, first, n_rungs; /* asked for; 0: none */
    } cases[] = {{0, 10, 0}, {5, 10, 0}, {6, 30, 0}, {16, 90, 0}, {16, 10, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[32], journal[48];
        snprintf(folder, sizeof folder, "warm-%zu", i);
        snprintf(journal, sizeof journal, "%s/journal.tsv", folder);
        (void)remove(journal); /* an earlier run's, with other keys */
        weft_tune_setup setup = setup_of(folder);
        weft_tune *tune;
        weft_tune_job job = {.struct_size = sizeof job};
        setup.n_rungs = cases[i].n_rungs;
        base->schedule.warmup = cases[i].warmup;
        assert_ok(ctx, weft_tune_create(ctx, &setup, base, &tune));
        bool any;
        assert_ok(ctx, weft_tune_next(tune, &job, &any));
        assert_true(any);
        assert_int_equal(job.steps, cases[i].first);
        weft_tune_destroy(tune);
    }
}
