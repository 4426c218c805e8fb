/* SPDX-License-Identifier: MIT */
/* d = mean over the R nodes of g, by a direct all-reduce (collectives/all_reduce.h). With
 * f32 values it is exact to rounding. With coded values the rank keeps in e what coding
 * loses, and sends it with the next gradient (error feedback: Seide et al. 2014; in both
 * rounds as Tang et al. 2019, arXiv 1905.05957):
 *
 *     begin:   v <- g + e       send code(v)       e <- v - code(v)
 *     combine: a <- mean of code(v)     send code(a)   e <- e + R (a - code(a))
 *     end:     d <- code(a)
 *
 * combine happens on the one rank that adds up the range. So sum of e + R d = sum of all
 * g. */
#include "collectives/all_reduce.h"
#include "replicate/replicator.h"
#include "wire/values.h"

static wefti_coding coding_of(const wefti_replicator_config *config) {
    return (wefti_coding){.values = config->values,
                          .stochastic = config->stochastic,
                          .seed = config->seed,
                          .threads = config->threads,
                          .robust = config->robust};
}

static const char *const *full_states(const wefti_replicator_config *config) {
    static const char *const error[] = {"error", NULL};
    wefti_coding coding = coding_of(config);
    return wefti_coding_loses(&coding) ? error : wefti_replicator_no_states(config);
}

static int64_t full_round_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R, int round, int owner) {
    wefti_coding coding = coding_of(config);
    return wefti_all_reduce_round_bytes(&coding, bucket->n_elements, R, round, owner);
}

static int64_t full_work_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_coding coding = coding_of(config);
    int64_t n_bytes = wefti_all_reduce_room_bytes(&coding, R);
    for (int b = 0; b < n_buckets; b++)
        n_bytes += wefti_all_reduce_work_bytes(&coding, buckets[b].n_elements, R);
    return n_bytes;
}

static weft_status full_create(wefti_replicator *r) {
    if (r->config.every != 1)
        return weft_ctx_fail(
            r->ctx, WEFT_ERR_CONFIG,
            "replicator.every is %lld with full, expected 1: between exchanges "
            "the nodes' models would drift apart; demo can wait, full cannot",
            (long long)r->config.every);
    wefti_all_reduce_setup setup = {.ctx = r->ctx,
                                    .kernels = r->kernels,
                                    .comm = r->comm,
                                    .coding = coding_of(&r->config),
                                    .n_vectors = r->n_buckets};
    wefti_all_reduce *a;
    WEFT_TRY(wefti_all_reduce_create(&setup, &a));
    r->self = a;
    for (int b = 0; b < r->n_buckets; b++)
        WEFT_TRY(wefti_all_reduce_open(a, b, r->buckets[b].n_elements));
    return WEFT_OK;
}

static float *error_of(const wefti_replicator *r, int bucket) {
    return r->n_states ? wefti_replicator_state(r, 0, bucket) : NULL;
}

static weft_status full_begin(wefti_replicator *r, int bucket, int64_t step,
                              float *grad) {
    return wefti_all_reduce_begin(r->self, bucket, step, grad, error_of(r, bucket));
}

static weft_status full_combine(wefti_replicator *r, int bucket, int64_t step,
                                float *grad) {
    wefti_range none;
    return wefti_all_reduce_combine(r->self, bucket, step, grad, &none);
}

static weft_status full_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    return wefti_all_reduce_end(r->self, bucket, step, grad);
}

static void full_destroy(wefti_replicator *r) { wefti_all_reduce_destroy(r->self); }

/* --- predictions --- */

static wefti_content full_content(const wefti_replicator_config *config,
                                  const wefti_bucket *bucket) {
    double n = (double)bucket->n_elements;
    return (wefti_content){n, 0, n * wefti_value_ops_of(config->values)->bits};
}

static wefti_touched full_touched(const wefti_replicator_config *config, int R) {
    bool coded = config->values != WEFTI_VALUES_F32;
    return (wefti_touched){.begin = coded ? 20 : 0,
                           .combine = (coded ? 20.0 : 8.0) / R,
                           .combine_peer = (coded ? 4.0 : 12.0) / R,
                           .end = 8};
}

static double full_floor(const wefti_replicator_config *config, double n, double values,
                         int R) {
    (void)values;
    if (config->values != WEFTI_VALUES_F32) return 16 * n;
    return R > 1 ? 4 * (3 - 1.0 / R) * n : 0;
}

const wefti_replicator_ops wefti_replicator_full = {
    .name = "full",
    .keys = WEFTI_KEYS("values", "rounding"),
    .method = "hsdp",
    .content = full_content,
    .touched = full_touched,
    .floor_bytes = full_floor,
    .averages_all = true,
    .robust = true,
    .keeps_norm = true,
    .states = full_states,
    .rounds = wefti_replicator_two_rounds,
    .round_bytes = full_round_bytes,
    .one_by_one = true,
    .work_bytes = full_work_bytes,
    .create = full_create,
    .begin = full_begin,
    .combine = full_combine,
    .end = full_end,
    .destroy = full_destroy,
};

/* d = g: every node follows its own gradient. Replicas drift unless a mixer pulls them
 * together. Nothing is sent. A node with too few rows for an optimizer step in each step gathers:
 *
 *     e <- e + g, d = 0      in some steps
 *     d <- e + g, e <- 0     in the others */

static const char *const *none_states(const wefti_replicator_config *config) {
    static const char *const gathered[] = {"gradient", NULL};
    return config->gathers ? gathered : gathered + 1;
}

static weft_status none_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    (void)step;
    if (!r->config.gathers) return WEFT_OK;
    int64_t n = r->buckets[bucket].n_elements;
    float *e = wefti_replicator_state(r, 0, bucket), *from = r->gathers ? grad : e;
    r->kernels->accumulate(n, from, r->gathers ? e : grad);
    r->kernels->clear(n, from);
    return WEFT_OK;
}

static int no_rounds(const wefti_replicator_config *config, const wefti_bucket *bucket,
                     int R) {
    (void)config, (void)bucket, (void)R;
    return 0;
}

static int64_t no_bytes(const wefti_replicator_config *config, const wefti_bucket *bucket,
                        int R, int round, int owner) {
    (void)config, (void)bucket, (void)R, (void)round, (void)owner;
    return 0;
}

const wefti_replicator_ops wefti_replicator_none = {
    .name = "none",
    .keys = (const char *const[]){NULL},
    .method = "none",
    .keeps_norm = true,
    .states = none_states,
    .rounds = no_rounds,
    .round_bytes = no_bytes,
    .end = none_end,
};
