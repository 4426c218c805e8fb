/* SPDX-License-Identifier: MIT */
/* Matrices that are updated as wholes, in a job's ranks. */
#include "jobs.h"

static wefti_kernels counting; /* the job's table, but for gemm */
static const wefti_kernels *under;
static int n_products;

static void count(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                  const float *A, int64_t lda, const float *B, int64_t ldb, float beta,
                  float *C, int64_t ldc) {
    n_products++;
    under->gemm(ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

/* The exchange and the update of one step, without a pass. */
static weft_status update(rank_env *env) {
    wefti_comms comms;
    wefti_rank *r;
    WEFT_TRY(take_comms(env, &comms));
    WEFT_TRY(wefti_world_join(env->ctx, env->world, env->rank, WEFTI_GROUP_SHARD, 1,
                              &comms.rows));
    WEFT_TRY(wefti_rank_create(env->ctx, env->user, env->rank, &comms, &r));
    weft_status status = exchange_once(r);
    wefti_rank_destroy(r);
    return status;
}

/* 15 products for each of the six matrices of two layers. */
TEST(products_are_in_the_precision_of_the_model) {
    weft_ctx *ctx;
    weft_config *config;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_job *job = small_job(ctx,
                               KEYS("method=hsdp", "optimizer.kind=muon",
                                    "optimizer.clip=0", "model.precision=bf16"),
                               &config);
    assert_ptr_equal(job->pass_kernels, job->kernels->bf16);
    under = job->pass_kernels;
    counting = *under;
    counting.gemm = count;
    job->pass_kernels = &counting;
    void *users[1] = {job};
    weft_status status;
    run_ranks(1, 1, (wefti_wire_model){0, 0}, update, users, &status);
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(n_products, 2 * 6 * 15);
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}
