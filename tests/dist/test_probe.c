/* SPDX-License-Identifier: MIT */
/* The probe on small meshes. Times of this machine are not judged; the emulated wire is
 * known, never early, and with a link far slower than the machine hardly late. */
#include <string.h>

#include <weft/predict.h>
#include <weft/probe.h>

#include "check.h"

static weft_ctx *ctx;

static weft_config *config_of(const char *const *keys) {
    static const char *const tiny[] = {
        "model.layers=2",           "model.width=32", "model.heads=2",
        "data.length=16",           "mesh.threads=1", "batch.micro=1",
        "batch.tokens_per_step=192"};
    weft_config *config;
    assert_ok(ctx, weft_config_create(ctx, &config));
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0]; i++)
        assert_ok(ctx, weft_config_set(ctx, config, tiny[i]));
    for (int i = 0; keys[i]; i++) assert_ok(ctx, weft_config_set(ctx, config, keys[i]));
    assert_ok(ctx, weft_config_finish(ctx, config));
    return config;
}

static void probe(const char *const *keys, weft_probe_result *result) {
    weft_probe_options options = {.struct_size = sizeof options, .seconds = 1};
    weft_config *config = config_of(keys);
    assert_ok(ctx, weft_probe(ctx, NULL, config, &options, result));
    char key[256];
    assert_ok(ctx, weft_cluster_model_key(ctx, config, 1, key));
    assert_string_equal(result->cluster->model, key);
    weft_config_destroy(ctx, config);
}

static const weft_probe_figure *figure(const weft_probe_result *r, const char *name) {
    for (int64_t i = 0; i < r->n_figures; i++)
        if (strcmp(r->figures[i].name, name) == 0) return &r->figures[i];
    fail_msg("no figure '%s'", name);
    return NULL;
}

static const weft_codec_seconds *codec(const weft_cluster *c, const char *name) {
    for (int64_t i = 0; i < c->n_codecs; i++)
        if (strcmp(c->codecs[i].name, name) == 0) return &c->codecs[i];
    fail_msg("no codec '%s'", name);
    return NULL;
}

static bool is_near(double x, double wanted, double factor) {
    return x > wanted / factor && x < wanted * factor;
}

/* The emulated wire is never faster than it is said to be; how late it is depends on who
 * else uses the machine, so that side only tells the links apart (they differ by five).
 */
static bool is_rate(double x, double wanted) {
    return x > wanted / 3 && x < wanted * 1.2;
}

static bool is_latency(double x, double wanted) {
    return x > wanted * 0.97 && x < wanted * 3 + 0.004;
}

static void check_computing(const weft_probe_result *r) {
    static const char *const names[] = {"embedding", "block", "head"};
    const weft_cluster *c = r->cluster;
    assert_true(c->rank_flops > 0 && c->memory_Bps > 0 && c->wake_s > 0);
    assert_int_equal(c->n_units, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(c->units[i].name, names[i]);
        assert_true(c->units[i].backward_s > 0);
        assert_true(i == 2 ? c->units[i].forward_s == 0 : c->units[i].forward_s > 0);
    }
    assert_true(c->n_steps >= 4);
    for (int64_t i = 0; i < c->n_steps; i++) assert_true(c->step_s[i] > 0);
    assert_true(c->jitter.spread >= 0 && c->jitter.stall_share >= 0);
    /* the parts add up to the step: 6 micro-batches of 2 nodes */
    double sum = c->rest_s;
    double n = 192.0 / 16 / (double)(c->nodes * c->ranks_per_node);
    for (int i = 0; i < 3; i++)
        sum += n * (i == 1 ? 2 : 1) * (c->units[i].forward_s + c->units[i].backward_s);
    assert_true(is_near(sum, figure(r, "computing a step")->value, 3));
}

static void check_codecs(const weft_cluster *c) {
    static const char *const names[] = {"full f32", "demo 4/64 int8 all_gather", "gossip",
                                        "outer int4", "choco int8"};
    for (int i = 0; i < 5; i++) {
        const weft_codec_seconds *one = codec(c, names[i]);
        /* a part may be lost in the noise, all of them together not */
        assert_true(one->begin_s >= 0 && one->combine_s >= 0 && one->combine_peer_s >= 0);
        assert_true(one->begin_s + one->combine_s + one->combine_peer_s + one->end_s > 0);
    }
    assert_int_equal(c->n_optimizers, 5);
    for (int i = 0; i < 5; i++) assert_true(c->optimizers[i].step_s > 0);
}

/* 100 Mbit, 5 ms: a message of 256 kB takes 26 ms. */
TEST(the_emulated_wire_is_what_was_asked_for) {
    const char *const keys[] = {"mesh.nodes=3", "mesh.link=100Mbit,5ms", NULL};
    weft_probe_result r = {.struct_size = sizeof r};
    probe(keys, &r);
    const weft_cluster *c = r.cluster;
    assert_int_equal(c->nodes, 3);
    assert_true(is_latency(c->wire.latency_s, 0.005));
    assert_true(is_rate(c->wire.bandwidth_Bps, 12.5e6));
    assert_true(c->wire.residual >= 0 && c->wire.message_s > 0);
    assert_int_equal(c->flows, 1);
    assert_true(is_rate(figure(&r, "wire, 2 flows")->value, 12.5e6));
    assert_true(c->local.latency_s == 0 && c->site.latency_s == 0);
    assert_true(c->n_collectives >= 3);
    assert_string_equal(c->collectives[0].name, "all-reduce");
    assert_int_equal(c->collectives[0].nodes, 3);
    assert_true(c->collectives[0].median_s > 0.0099); /* two latencies */
    assert_true(c->collectives[0].low_s <= c->collectives[0].median_s &&
                c->collectives[0].high_s >= c->collectives[0].median_s);
    const weft_collective_seconds *step = &c->collectives[c->n_collectives - 1];
    assert_string_equal(step->name, "all-reduces of a step");
    assert_true(step->bytes > 1024 && step->median_s > 0.0099);
    assert_true(c->wire.incast >= 1); /* three nodes: it was measured */
    check_computing(&r);
    check_codecs(c);
    weft_probe_clear(ctx, &r);
    assert_null(r.cluster);
}

TEST(each_class_of_links_is_measured_by_itself) {
    const char *const keys[] = {"mesh.nodes=4",
                                "mesh.ranks_per_node=2",
                                "batch.tokens_per_step=256",
                                "mesh.sites=2",
                                "mixer.kind=outer",
                                "mesh.link=200Mbit,4ms",
                                "mesh.site_link=40Mbit,12ms",
                                NULL};
    weft_probe_result r = {.struct_size = sizeof r};
    probe(keys, &r);
    const weft_cluster *c = r.cluster;
    assert_true(c->local.latency_s > 0 && c->local.latency_s < c->wire.latency_s);
    assert_true(is_latency(c->wire.latency_s, 0.004));
    assert_true(is_latency(c->site.latency_s, 0.012));
    assert_true(is_rate(c->wire.bandwidth_Bps, 25e6));
    assert_true(is_rate(c->site.bandwidth_Bps, 5e6));
    assert_int_equal(c->sites, 2);
    assert_int_equal(c->ranks_per_node, 2);
    weft_probe_clear(ctx, &r);
}

/* 4 MB take a 20th of the latency: a plan on this cluster has to know a rate. */
TEST(a_wire_whose_bytes_take_no_time_is_a_fast_one) {
    const char *const keys[] = {"mesh.nodes=2", "mesh.link=800Gbit,12ms", NULL};
    weft_probe_result r = {.struct_size = sizeof r};
    probe(keys, &r);
    assert_true(r.cluster->wire.bandwidth_Bps > 0);
    assert_true(r.cluster->local.bandwidth_Bps == 0);
    weft_probe_clear(ctx, &r);
}

TEST(one_rank_has_no_links) {
    const char *const keys[] = {"mesh.nodes=1", NULL};
    weft_probe_result r = {.struct_size = sizeof r};
    probe(keys, &r);
    assert_true(r.cluster->wire.latency_s == 0 && r.cluster->n_collectives == 0);
    check_codecs(r.cluster);
    weft_probe_clear(ctx, &r);
}

TEST(what_is_written_reads_back) {
    const char *const keys[] = {"mesh.nodes=2",           "mesh.link=1Gbit,1ms",
                                "method=flexdemo",        "replicator.compression_topk=5",
                                "replicator.values=int4", NULL};
    weft_probe_result r = {.struct_size = sizeof r};
    weft_cluster *back;
    probe(keys, &r);
    assert_true(codec(r.cluster, "demo 5/64 int4 auto")->begin_s >= 0);
    assert_ok(ctx, weft_cluster_write(ctx, r.cluster, "cluster.yaml"));
    assert_ok(ctx, weft_cluster_load(ctx, "cluster.yaml", &back));
    assert_true(back->wire.bandwidth_Bps == r.cluster->wire.bandwidth_Bps);
    assert_int_equal(back->n_codecs, r.cluster->n_codecs);
    assert_int_equal(back->n_steps, r.cluster->n_steps);
    assert_string_equal(back->host, r.cluster->host);
    weft_cluster_destroy(ctx, back);
    weft_probe_clear(ctx, &r);
}

TEST(a_lack_of_memory_is_a_sentence) {
    const char *const keys[] = {"mesh.nodes=2", NULL};
    weft_probe_options options = {.struct_size = sizeof options, .seconds = 1};
    for (int64_t k = 0; k < 12; k++) {
        weft_probe_result r = {.struct_size = sizeof r};
        weft_config *config = config_of(keys);
        weft_ctx_fail_allocation(ctx, k);
        assert_int_equal(weft_probe(ctx, NULL, config, &options, &r), WEFT_ERR_MEMORY);
        weft_ctx_fail_allocation(ctx, -1);
        assert_null(r.cluster);
        assert_null(r.figures);
        assert_true(weft_ctx_message(ctx)[0] != '\0');
        weft_ctx_clear(ctx);
        weft_config_destroy(ctx, config);
    }
}

TEST(a_bad_time_is_refused) {
    const char *const keys[] = {NULL};
    weft_probe_options options = {.struct_size = sizeof options, .seconds = 1e9};
    weft_probe_result r = {.struct_size = sizeof r};
    weft_config *config = config_of(keys);
    assert_int_equal(weft_probe(ctx, NULL, config, &options, &r), WEFT_ERR_ARGUMENT);
    assert_string_equal(weft_ctx_message(ctx),
                        "1e+09 seconds to measure in, expected 1 to 7200");
    weft_ctx_clear(ctx);
    weft_config_destroy(ctx, config);
}

int main(void) {
    if (weft_ctx_create(&ctx) != WEFT_OK) return 1;
    int failed = check_run(NULL, NULL);
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_ctx_destroy(ctx);
    return failed || held != 0;
}
