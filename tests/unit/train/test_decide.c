/* SPDX-License-Identifier: MIT */
/* What method=auto takes, from facts alone. */
#include "configs.h"
#include "room.h"

#include "base/memory.h"
#include "train/decide.h"

static weft_config *make_run(const char *more) {
    return config_with(ctx,
                       PLANNED_RUN "run.steps=400 batch.tokens_per_step=2048 "
                                   "schedule.warmup=10 mesh.nodes=2 method=auto",
                       more);
}

static const wefti_start anew = {0};

/* The status of a decision; [out] d, and *text owned by the caller. */
static weft_status decide(const char *link, const char *more, const wefti_start *start,
                          wefti_decision *d, char **text) {
    weft_cluster *cluster;
    weft_config *run = make_run(more);
    assert_ok(ctx, weft_cluster_create(ctx, &cluster));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "nodes", "2"));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "link", link));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "node-flops", "20G"));
    weft_status status = wefti_decide_on(ctx, run, cluster, start ? start : &anew, d,
                                         text);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
    return status;
}

/* The method that is taken, "hsdp" if the run's own keys are. */
static const char *method_of(const wefti_decision *d) {
    static char method[32];
    const char *at = strstr(d->settings, "method=");
    snprintf(method, sizeof method, "hsdp");
    if (at) sscanf(at, "method=%31s", method);
    return method;
}

static void each_key_is_said_once(const char *settings) {
    char key[64];
    for (int n; sscanf(settings, " %63[^=]=%*s%n", key, &n) == 1; settings += n) {
        const char *rest = strchr(settings + 1, ' ');
        if (rest && strstr(rest, key)) fail_msg("%s twice in: %s", key, settings);
    }
}

TEST_IN(begin, end, the_wire_and_what_is_kept_decide) {
    static const struct {
        const char *link, *more;
        bool hsdp, muon;
    } cases[] = {{"25Gbit,10us", "", true, false},
                 {"5Mbit,5ms", "", false, false},
                 {"25Gbit,10us", "decide.keep=any", true, true},
                 {"5Mbit,5ms", "decide.keep=any", false, true},
                 {"5Mbit,5ms", "decide.keep=exact decide.alone=together", true, false},
                 {"5Mbit,5ms", "optimizer.kind=muon", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_decision d;
        char *text;
        weft_status status = decide(cases[i].link, cases[i].more, NULL, &d, &text);
        if (status != WEFT_OK) fail_msg("case %zu: %s", i, weft_ctx_message(ctx));
        each_key_is_said_once(d.settings);
        bool muon = strstr(d.settings, "muon") != NULL ||
                    strstr(method_of(&d), "muloco") != NULL ||
                    strstr(cases[i].more, "kind=muon") != NULL;
        if ((strcmp(method_of(&d), "hsdp") == 0) != cases[i].hsdp ||
            muon != cases[i].muon)
            fail_msg("case %zu: %s", i, d.settings);
        assert_non_null(strstr(d.sentence, "; next "));
        wefti_free(ctx, text);
    }
}

TEST_IN(begin, end, the_same_facts_decide_the_same) {
    wefti_decision a, b;
    char *one, *two;
    assert_ok(ctx, decide("20Mbit,5ms", "", NULL, &a, &one));
    assert_ok(ctx, decide("20Mbit,5ms", "", NULL, &b, &two));
    assert_memory_equal(&a, &b, sizeof a);
    assert_string_equal(one, two);
    WEFTI_FREE(ctx, one, two);
}

/* On several nodes as soon as that is expected to be faster; not before, unless it is asked. */
TEST_IN(begin, end, one_process_alone_is_an_answer) {
    wefti_decision d;
    char *text;
    assert_int_equal(decide("5Mbit,5ms", "decide.keep=exact", NULL, &d, &text),
                     WEFT_ERR_CONFIG);
    assert_non_null(strstr(d.sentence, "one process alone is expected to be faster"));
    assert_non_null(strstr(text, "full sync"));
    assert_string_equal(d.settings, "");
    assert_null(strstr(d.sentence, "left out"));
    wefti_free(ctx, text);
}

TEST_IN(begin, end, what_a_limit_leaves_out_is_named_where_one_process_is_faster) {
    wefti_decision d;
    char *text;
    assert_int_equal(decide("5Mbit,5ms", "decide.loss=0", NULL, &d, &text),
                     WEFT_ERR_CONFIG);
    const char *left = strstr(d.sentence, " times as fast; choco aer sign (");
    assert_non_null(left);
    assert_non_null(strstr(left, ") is left out: it needs "));
    wefti_free(ctx, text);
}

TEST_IN(begin, end, a_checkpoint_goes_on_with_its_state) {
    wefti_decision d;
    char *text;
    wefti_saved_layout saved = {.replicator = "none",
                                .site_replicator = "none",
                                .optimizer = "adamw",
                                .mixer = "gossip"};
    const wefti_start start = {.saved = &saved};
    assert_ok(ctx, decide("25Gbit,10us", "", &start, &d, &text));
    assert_string_equal(method_of(&d), "dadam");
    wefti_free(ctx, text);
    snprintf(saved.mixer, sizeof saved.mixer, "pushsum");
    assert_int_equal(decide("25Gbit,10us", "", &start, &d, &text), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "mixer pushsum"));
    wefti_free(ctx, text);
}

/* What the reasons leave out ("  left out: NAME: it needs ...") is neither next best in the
 * sentence nor what would be taken on another wire. */
static void none_is_next(const char *text, const char *sentence) {
    static const char before[] = "  left out: ";
    static const char *const after[] = {"(", "above", "below"};
    for (const char *at = text; (at = strstr(at, before)); at++) {
        char name[64];
        at += sizeof before - 1;
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, " %.*s %s", (int)strcspn(at, ":"), at, after[i]);
            if (strstr(sentence, name)) fail_msg("%s of: %s", name, sentence);
        }
    }
}

/* What would send more in a day, or in a shorter run, is not taken. */
TEST_IN(begin, end, a_limit_of_bytes_leaves_out_what_sends_more) {
    static const struct {
        const char *more;
        bool hsdp;
    } cases[] = {{"decide.bytes_per_day=1GB", true},
                 {"decide.bytes_per_day=10MB", false},
                 {"decide.bytes_per_day=1GB run.steps=40000000", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_decision d;
        char *text;
        assert_ok(ctx, decide("25Gbit,10us", cases[i].more, NULL, &d, &text));
        if ((strcmp(method_of(&d), "hsdp") == 0) != cases[i].hsdp)
            fail_msg("%s: %s", cases[i].more, d.settings);
        assert_int_equal(strstr(text, "it would send") != NULL, !cases[i].hsdp);
        assert_int_equal(strstr(text, " in this run\n") != NULL, i == 1);
        assert_int_equal(strstr(text, " in a day\n") != NULL, i == 2);
        none_is_next(text, d.sentence);
        wefti_free(ctx, text);
    }
    wefti_decision d;
    char *text;
    assert_int_equal(decide("25Gbit,10us", "decide.bytes_per_day=1", NULL, &d, &text),
                     WEFT_ERR_CONFIG);
    assert_non_null(strstr(d.sentence, "decide.bytes_per_day is 1 B, and of all on 2"));
    wefti_free(ctx, text);
}

/* With busy hours only what can change in them, however much slower. A run that begins in them
 * keeps their rate, or says that nothing does. */
TEST_IN(begin, end, busy_hours_leave_out_what_can_not_change) {
    static const char least[] =
        " may be sent in these busy hours, and this sends least, ";
    static const struct {
        const char *link, *busy;
        double now_Bps;
        const char *method, *said;
    } cases[] = {{"1Mbit,5ms", "", 0, "", NULL},
                 {"1Mbit,5ms", "decide.busy=18:00-23:00,1Mbit", 0, "diloco", NULL},
                 {"25Gbit,10us", "decide.busy=18:00-23:00,1Gbit", 0, "hsdp", NULL},
                 {"25Gbit,10us", "decide.busy=18:00-23:00,1Gbit", 1.25e8, "hsdp",
                  "; 1 Gbit/s may be sent in these busy hours; "},
                 {"25Gbit,10us", "decide.busy=18:00-23:00,10Mbit", 1.25e6, "diloco",
                  "; 10 Mbit/s may be sent in these busy hours; "},
                 {"25Gbit,10us", "decide.busy=18:00-23:00,1kbit", 125, "diloco", least}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_decision d;
        const wefti_start start = {.most_Bps = cases[i].now_Bps};
        char *text, more[128];
        snprintf(more, sizeof more, "%s decide.alone=together", cases[i].busy);
        assert_ok(ctx, decide(cases[i].link, more, &start, &d, &text));
        bool changes = strcmp(method_of(&d), "hsdp") == 0 ||
                       strcmp(method_of(&d), "diloco") == 0;
        if (cases[i].method[0] ? strcmp(method_of(&d), cases[i].method) != 0 : changes)
            fail_msg("case %zu: %s", i, d.settings);
        if (cases[i].said ? !strstr(d.sentence, cases[i].said)
                          : strstr(d.sentence, "busy") != NULL)
            fail_msg("case %zu: %s", i, d.sentence);
        if (changes) assert_null(strstr(d.sentence, "next choco"));
        wefti_free(ctx, text);
    }
}

/* Of what is level with the fastest, what may change during the run. */
TEST_IN(begin, end, a_choice_that_can_change_is_preferred) {
    static const char *const links[] = {"1Mbit,5ms", "2Mbit,5ms", "20Mbit,5ms",
                                        "50Mbit,5ms", "100Mbit,5ms"};
    static const char why[] = " is not surely faster, and could not change";
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        wefti_decision d;
        char *text;
        bool level = i >= 2; /* below that a change can not be worth what is lost */
        assert_ok(ctx, decide(links[i], "", NULL, &d, &text));
        bool can = strcmp(method_of(&d), "hsdp") == 0 ||
                   strcmp(method_of(&d), "diloco") == 0;
        if (can != level || (strstr(d.sentence, why) != NULL) != level)
            fail_msg("%s: %s", links[i], d.sentence);
        wefti_free(ctx, text);
        assert_ok(ctx, decide(links[i], "decide.keep=any", NULL, &d, &text));
        assert_null(strstr(d.sentence, why)); /* it stays as it is then */
        wefti_free(ctx, text);
    }
}

/* Emulated computing hides what the real one would not. */
TEST_IN(begin, end, emulated_computing_decides) {
    for (int emulated = 0; emulated < 2; emulated++) {
        wefti_decision d;
        char *text;
        double times, again;
        weft_cluster *cluster;
        weft_config *run = make_run(emulated ? "mesh.compute_time=30" : "");
        assert_ok(ctx, weft_cluster_create(ctx, &cluster));
        assert_ok(ctx, weft_cluster_set(ctx, cluster, "nodes", "2"));
        assert_ok(ctx, weft_cluster_set(ctx, cluster, "link", "2Mbit,5ms"));
        assert_ok(ctx, weft_cluster_set(ctx, cluster, "node-flops", "20G"));
        assert_ok(ctx, wefti_decide_pace(ctx, run, cluster, &times));
        assert_ok(ctx, wefti_decide_on(ctx, run, cluster, &anew, &d, &text));
        assert_int_equal(times > 100, emulated);
        assert_int_equal(strcmp(method_of(&d), "hsdp") == 0, emulated);
        assert_ok(ctx, wefti_decide_pace(ctx, run, cluster, &again));
        assert_true(again < 1.01); /* it computes so slowly now */
        wefti_free(ctx, text);
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, run);
    }
}

/* On a wire a third slower or faster than is said another answer follows, and no sooner. */
TEST_IN(begin, end, what_would_change_the_answer_does) {
    static const struct {
        const char *link, *more, *words, *below,
            *above; /* methods; "": one process alone */
    } cases[] = {
        {"1Gbit,5ms", "", "; it would be diloco H=50 below about ", "diloco", "hsdp"},
        {"50Mbit,5ms", "", "; it would be full sync above about ", "diloco", "hsdp"},
        {"1Gbit,1ms", "run.steps=1000", "; it would be diloco H=50 below about ",
         "diloco", "hsdp"},
        {"1Gbit,5ms", "decide.loss=0.02", "; it would be one process alone below ", "",
         "hsdp"},
        {"1Gbit,5ms", "decide.keep=any run.steps=3000",
         "; it would be choco int8 muon below about ", "dadam", "muloco"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_decision d;
        char *text, link[32];
        double Mbit = 0;
        assert_ok(ctx, decide(cases[i].link, cases[i].more, NULL, &d, &text));
        const char *at = strstr(d.sentence, cases[i].words);
        if (at) sscanf(at + strlen(cases[i].words), "%lf Mbit/s", &Mbit);
        if (!(Mbit > 0)) fail_msg("case %zu: %s", i, d.sentence);
        none_is_next(text, d.sentence);
        wefti_free(ctx, text);
        for (int above = 0; above < 2; above++) {
            const char *then = above ? cases[i].above : cases[i].below;
            snprintf(link, sizeof link, "%.4gMbit,%s", above ? 1.3 * Mbit : Mbit / 1.3,
                     strchr(cases[i].link, ',') + 1);
            weft_status status = decide(link, cases[i].more, NULL, &d, &text);
            assert_int_equal(status == WEFT_OK, then[0] != '\0');
            if (then[0]) assert_string_equal(method_of(&d), then);
            weft_ctx_clear(ctx);
            wefti_free(ctx, text);
        }
    }
}

/* choco is faster on slower wires, and could not replace full averaging during a run. */
TEST_IN(begin, end, what_could_not_change_is_no_turn) {
    wefti_decision d;
    char *text;
    assert_ok(ctx, decide("1Gbit,5ms", "", NULL, &d, &text));
    assert_string_equal(method_of(&d), "hsdp");
    assert_non_null(strstr(d.sentence, "; choco "));
    const char *turn = strstr(d.sentence, "; it would be");
    assert_non_null(turn);
    assert_null(strstr(turn, "choco"));
    wefti_free(ctx, text);
}
