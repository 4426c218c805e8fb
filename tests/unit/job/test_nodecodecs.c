/* SPDX-License-Identifier: MIT */
/* replicator.node_values: which node sends in which codec. */
#include "check.h"
#include "job/job.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin((weft_ctx **)((void)state, &ctx)); }
static int teardown(void **state) { return ctx_end(((void)state, ctx)); }

/* A job of `nodes` nodes whose method is demo; [out] *job for done. */
static weft_status derive(const char *value, int64_t nodes, int *at, wefti_job *job) {
    static weft_config config;
    config = (weft_config){.node_values = value};
    config.mesh.nodes = nodes;
    config.mesh.ranks_per_node = 1;
    config.mesh.sites = 1;
    config.mesh.on_loss = "go_on";
    *job = (wefti_job){.config = &config, .R = (int)nodes, .copies = 1, .each.nodes = at};
    job->replicator_config.values = WEFTI_VALUES_INT8;
    return wefti_job_codecs(ctx, job);
}

static void done(wefti_job *job) { wefti_free(ctx, job->each.codecs); }

TEST(named_nodes_have_their_codec_and_all_others_the_usual_one) {
    wefti_job job;
    assert_ok(ctx, derive("3=int4,0=sign", 4, NULL, &job));
    const wefti_value_codec expected[] = {WEFTI_VALUES_SIGN, WEFTI_VALUES_INT8,
                                          WEFTI_VALUES_INT8, WEFTI_VALUES_INT4};
    assert_memory_equal(job.replicator_config.values_of, expected, sizeof expected);
    done(&job);
}

TEST(equal_codecs_are_no_mixture) {
    static const char *const texts[] = {"", "1=int8", "0=int8,1=int8"};
    wefti_job job;
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, derive(texts[i], 2, NULL, &job));
        assert_null(job.replicator_config.values_of);
        done(&job);
    }
    assert_ok(ctx, derive("0=int4", 1, NULL, &job)); /* sends nothing */
    assert_null(job.replicator_config.values_of);
    done(&job);
}

/* Nodes 0 and 2 are left, and one came beyond the three; then node 2 is lost as well. */
TEST(a_node_keeps_its_codec_when_others_are_lost_or_come) {
    wefti_job job;
    int at[] = {0, 2, 7}, left[] = {0, 7};
    assert_ok(ctx, derive("1=sign,2=int4", 3, at, &job));
    const wefti_value_codec expected[] = {WEFTI_VALUES_INT8, WEFTI_VALUES_INT4,
                                          WEFTI_VALUES_INT8};
    assert_memory_equal(job.replicator_config.values_of, expected, sizeof expected);
    done(&job);
    assert_ok(ctx, derive("1=sign,2=int4", 2, left, &job));
    assert_null(job.replicator_config.values_of);
    done(&job);
}

TEST(what_is_no_list_of_nodes_and_codecs_is_refused) {
    static const char *const texts[] = {"int4",   "3",         "3=int5",        "=int4",
                                        "3=",     "3=int4,",   "3=int4,3=int8", "-1=int4",
                                        "3:int4", "1024=int4", "3=int4;4=int4", ","};
    wefti_job job;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_fails(ctx, derive(texts[i], 8, NULL, &job), WEFT_ERR_CONFIG, texts[i]);
        assert_fails(ctx, derive(texts[i], 8, NULL, &job), WEFT_ERR_CONFIG,
                     "expected as in 3=int4,5=int8: numbers of nodes below 1024, each");
    }
    assert_fails(ctx, derive("4=int4", 4, NULL, &job), WEFT_ERR_CONFIG,
                 "replicator.node_values names node 4, expected nodes 0 to 3");
}

int main(void) { return check_run(setup, teardown); }
