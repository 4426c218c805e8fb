/* SPDX-License-Identifier: MIT */
/* The law of the schedule, for every preset x {1, 2 sites} x {clipped, not} x {overlap on,
 * off}: what a run did in a step (timeline.json), what the schedule says and what the event
 * player played are the same ops in the same order. On the exchange thread buckets
 * interleave as they come; each phase keeps the order of the buckets, each bucket that of
 * the phases, and with sites the oldest bucket goes first.
 *
 * Under a sanitizer each preset is tried in two of the eight ways, one the opposite of the other:
 * both values of each switch with every preset, and all eight ways over four presets. */
#include <jansson.h>

#include <weft/predict.h>

#include "dist/training.h"
#include "step/schedule.h"

enum { MOST = 512, MAX_KEYS = 24 };

typedef struct deed {
    char what[24];
    int index;
} deed;

typedef struct deeds {
    deed items[MOST];
    int n;
} deeds;

static void add(deeds *d, const char *what, int index) {
    assert_true(d->n < MOST);
    snprintf(d->items[d->n].what, sizeof d->items[0].what, "%s", what);
    d->items[d->n++].index = index;
}

static bool same(const deed *a, const deed *b) {
    return strcmp(a->what, b->what) == 0 && a->index == b->index;
}

/* Lanes: 0 compute, 1 exchange. */
static void read_ran(const char *path, deeds lanes[2]) {
    json_t *file = json_load_file(path, 0, NULL), *item;
    size_t i;
    assert_non_null(file);
    json_array_foreach(json_object_get(file, "timeline"), i, item) {
        const char *lane = json_string_value(json_object_get(item, "lane"));
        add(&lanes[strcmp(lane, "exchange") == 0],
            json_string_value(json_object_get(item, "what")),
            (int)json_integer_value(json_object_get(item, "index")));
    }
    json_decref(file);
}

static void read_played(weft_ctx *ctx, const weft_config *config, deeds lanes[2]) {
    static const char *const facts[] = {"link", "100Mbit,1ms",      "rank-flops",
                                        "1G",   "memory-bandwidth", "1GB/s"};
    weft_cluster *cluster;
    weft_prediction p = {.struct_size = sizeof p};
    weft_predict_options options = {
        .struct_size = sizeof options, .timeline = true, .steps = 2};
    assert_ok(ctx, weft_cluster_create(ctx, &cluster));
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i += 2)
        assert_ok(ctx, weft_cluster_set(ctx, cluster, facts[i], facts[i + 1]));
    assert_ok(ctx, weft_predict(ctx, config, cluster, &options, &p));
    for (int64_t i = 0; i < p.n_spans; i++)
        if (p.spans[i].lane < 2)
            add(&lanes[p.spans[i].lane], p.spans[i].what, p.spans[i].index);
    weft_prediction_clear(ctx, &p);
    weft_cluster_destroy(ctx, cluster);
}

static void check_compute(const char *who, const char *keys, const deeds *did,
                          const wefti_schedule *s) {
    for (int i = 0; i < did->n && i < s->n_ops; i++) {
        deed said = {"", s->ops[i].index};
        snprintf(said.what, sizeof said.what, "%s", wefti_op_name(s->ops[i].kind));
        if (!same(&did->items[i], &said))
            fail_msg("%s: op %d is %s %d, %s %s %d", keys, i, said.what, said.index, who,
                     did->items[i].what, did->items[i].index);
    }
    if (did->n != s->n_ops) fail_msg("%s: %d ops, %s %d", keys, s->n_ops, who, did->n);
}

/* Where it was done; -1: it was not. */
static int place_of(const deeds *did, const char *what, int index) {
    deed wanted = {"", index};
    snprintf(wanted.what, sizeof wanted.what, "%s", what);
    for (int i = 0; i < did->n; i++)
        if (same(&did->items[i], &wanted)) return i;
    return -1;
}

/* Of one item: each phase after the one before, and after the same of the item before. */
static void check_item(const char *who, const char *keys, const deeds *did,
                       const wefti_schedule *s, int item) {
    int before = -1, b = wefti_schedule_bucket(s, item);
    for (int p = 0; p < s->n_phases; p++) {
        const char *name = wefti_schedule_phase_name(s, p, item);
        if (!name) continue;
        int at = place_of(did, name, b);
        if (at <= before)
            fail_msg("%s: %s %s %d at place %d, not after %d", keys, who, name, b, at,
                     before);
        if (b > 0 && place_of(did, name, b - 1) > at)
            fail_msg("%s: %s %s %d before that of bucket %d", keys, who, name, b, b - 1);
        bool oldest = s->order == WEFTI_ORDER_BY_JOB && p > 0 && b > 0;
        const char *last = wefti_schedule_phase_name(s, s->n_phases - 1, item);
        if (oldest && last && place_of(did, last, b - 1) > at)
            fail_msg("%s: %s %s %d while bucket %d was older", keys, who, name, b, b - 1);
        before = at;
    }
}

static void check_exchange(const char *who, const char *keys, const deeds *did,
                           const wefti_schedule *s) {
    int wanted = s->n_buckets * s->n_phases;
    for (int i = 0; i < s->n_ops; i++)
        if (s->ops[i].kind == WEFTI_OP_ANSWER) {
            check_item(who, keys, did, s, s->n_buckets + s->ops[i].index);
            wanted++;
        }
    for (int b = 0; b < s->n_buckets; b++) check_item(who, keys, did, s, b);
    if (did->n != wanted)
        fail_msg("%s: %d phases of %d, %s %d", keys, wanted, s->n_buckets, who, did->n);
}

static void check_against(const char *who, const char *keys, const deeds lanes[2],
                          const wefti_schedule *s) {
    check_compute(who, keys, &lanes[0], s);
    check_exchange(who, keys, &lanes[1], s);
}

/* The configuration of the run, as it was written down. */
static void check_config(const char *folder, const char *keys) {
    static deeds ran[2], played[2];
    weft_ctx *ctx;
    weft_config *config;
    wefti_job *job;
    wefti_arrangement *a;
    wefti_schedule *s;
    char path[128];
    ran[0].n = ran[1].n = played[0].n = played[1].n = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    assert_ok(ctx, weft_config_load(ctx, config, path));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_ok(ctx, wefti_job_create(ctx, config, NULL, 256, &job));
    assert_ok(ctx, wefti_arrangement_create(ctx, job, 0, &a));
    assert_ok(ctx, wefti_schedule_create(ctx, job, a, -1, &s));
    assert_true(s->n_buckets > 1);
    snprintf(path, sizeof path, "%s/timeline.json", folder);
    read_ran(path, ran);
    read_played(ctx, config, played);
    check_against("the run did", keys, ran, s);
    check_against("the player played", keys, played, s);
    wefti_schedule_destroy(ctx, s);
    wefti_arrangement_destroy(ctx, a);
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

static outcome run;

/* One node has no sites, and a late direction none either; where nothing but a mixer acts,
 * it acts between the sites. */
static bool check_one(const char *method, bool sites, bool clip, bool overlap) {
    const char *keys[MAX_KEYS], *text, *key;
    char name[64], all[512] = "";
    int n = 0;
    bool alone = strcmp(method, "fsdp") == 0, ddp = strcmp(method, "ddp") == 0;
    bool mixes = false, late = false;
    for (int j = 0; (key = weft_config_method_key(method, j, &text)); j++) {
        mixes |= strcmp(key, "mixer.kind") == 0;
        late |= strcmp(key, "replicator.delay") == 0;
    }
    if ((alone || late) && sites) return false;
    snprintf(name, sizeof name, "method=%s", method);
    keys[n++] = name;
    keys[n++] = alone ? "mesh.nodes=1" : sites ? "mesh.nodes=4" : "mesh.nodes=2";
    keys[n++] = sites || ddp ? "mesh.ranks_per_node=1" : "mesh.ranks_per_node=2";
    keys[n++] = sites ? "mesh.sites=2" : "mesh.sites=1";
    keys[n++] = clip ? "optimizer.clip=1" : "optimizer.clip=0";
    keys[n++] = overlap ? "mesh.overlap=true" : "mesh.overlap=false";
    if (sites) keys[n++] = mixes ? "replicator.kind=full" : "site_replicator.kind=full";
    const char *const more[] = {"run.steps=3", "batch.micro=2", "run.eval_tokens=32",
                                "mesh.min_message=1B"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) keys[n++] = more[i];
    keys[n] = NULL;
    for (int i = 0; i < 8 && keys[i]; i++) {
        strncat(all, keys[i], sizeof all - strlen(all) - 2);
        strcat(all, " ");
    }
    train(&run, "law", false, keys);
    if (run.status != WEFT_OK) fail_msg("%s: %s", all, run.message);
    check_config("law", all);
    return true;
}

/* Whether the preset of that index is tried in that way (bits: sites, clip, overlap). */
static bool is_tried(int64_t preset, int how) {
    int way = (int)(preset % 4);
    return !UNDER_SANITIZER || how == way || how == 7 - way;
}

static int check_method(const char *method, int64_t preset) {
    if (strcmp(method, "auto") == 0) return 0; /* one of the others, once it is decided */
    int n = 0;
    for (int how = 0; how < 8; how++)
        if (is_tried(preset, how)) n += check_one(method, how & 1, how & 2, how & 4);
    return n;
}

TEST(what_ran_is_what_the_schedule_says_and_what_was_played) {
    int n = 0;
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        for (const weft_choice *c = key->choices; c && c->name; c++)
            if (strcmp(key->name, "method") == 0)
                n += check_method(c->name, c - key->choices);
    assert_true(n > (UNDER_SANITIZER ? 2 : 8) * 12);
}

/* Plain steps against the gradient, which is longer than the bound, so that a step is as
 * long as the bound (the rate is 1): of the agreed gradient, and of a replica's own
 * where all of its momentum is sent in the first step. */
TEST(clipping_is_to_the_bound) {
    static const char *const replicators[][4] = {
        {"replicator.kind=full", "mesh.nodes=2", "run.seed=1", "run.seed=1"},
        {"replicator.kind=demo", "replicator.sign=false",
         "replicator.compression_topk=64", "replicator.compression_chunk=64"}};
    for (int i = 0; i < 2; i++) {
        const char *const *r = replicators[i];
        train(&run, "clip", false,
              KEYS(r[0], r[1], r[2], r[3], "optimizer.kind=sgd", "optimizer.lr=1",
                   "optimizer.weight_decay=0", "optimizer.clip=0.01",
                   "schedule.kind=constant", "schedule.warmup=0", "run.steps=2"));
        assert_trained(&run);
        assert_true(run.grad_norm[0] > 0.02);
        double off = run.update_norm[0] / 0.01 - 1;
        if (fabs(off) > 1e-4) fail_msg("%s: a step of %.9g", r[0], run.update_norm[0]);
    }
}
