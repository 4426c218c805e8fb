/* SPDX-License-Identifier: MIT */
/* A training loop of your own under MPI: logistic regression on made data. weft exchanges
 * the gradients, optimizes and mixes; the method and its keys are the arguments:
 *     mpirun -np 4 embed method=flexdemo
 *     mpirun -np 4 embed method=dadam mixer.topology=ring */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/mpi.h>
#include <weft/sync.h>

enum { FEATURES = 256, EXAMPLES = 64, STEPS = 200, TEST = 4096 };

/* Numbers between -1 and 1 that every rank can make for itself. */
static double made(uint64_t a, uint64_t b) {
    uint64_t x = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 29)) >> 11) / (double)(1ull << 52) - 1;
}

/* Example number e: its features, and 1 if it is on the far side of a fixed plane. */
static double example(uint64_t e, float x[FEATURES]) {
    double side = 0;
    for (uint64_t i = 0; i < FEATURES; i++) {
        x[i] = (float)made(e + 1000, i);
        side += (double)x[i] * made(7, i);
    }
    return side > 0 ? 1 : 0;
}

static double probability(const float *w, const float *x) {
    double z = 0;
    for (int i = 0; i < FEATURES; i++) z += (double)(w[i] * x[i]);
    return 1 / (1 + exp(-z));
}

/* Adds the mean gradient over EXAMPLES examples from the first on; returns the mean loss. */
static double add_gradient(const float *w, uint64_t first, float *dw) {
    float x[FEATURES];
    double loss = 0;
    for (uint64_t e = first; e < first + EXAMPLES; e++) {
        double y = example(e, x), p = probability(w, x);
        loss -= log(fabs(1 - y - p) + 1e-12) / EXAMPLES;
        for (int i = 0; i < FEATURES; i++) dw[i] += (float)((p - y) / EXAMPLES) * x[i];
    }
    return loss;
}

static weft_status train(weft_sync *s, const weft_mesh_facts *me) {
    const float *w = weft_sync_parameters(s, 0); /* all zeros */
    float *dw = weft_sync_gradients(s, 0), x[FEATURES];
    WEFT_TRY(weft_sync_begin(s));
    for (uint64_t t = 0; t < STEPS; t++) {
        weft_sync_report report = {.struct_size = sizeof report};
        uint64_t first = TEST + (t * (uint64_t)me->size + (uint64_t)me->rank) * EXAMPLES;
        WEFT_TRY(weft_sync_step(s, add_gradient(w, first, dw), &report));
        if (me->rank == 0 && report.step % 50 == 0)
            printf("step %d: loss %.4f\n", (int)report.step, report.loss);
    }
    WEFT_TRY(weft_sync_average(s));
    int right = 0;
    for (uint64_t e = 0; e < TEST; e++)
        right += (example(e, x) > 0) == (probability(w, x) > 0.5);
    if (me->rank == 0) printf("right: %.1f %%\n", 100.0 * right / TEST);
    return WEFT_OK;
}

static weft_status run(weft_ctx *ctx, weft_mesh *mesh, weft_config *config, char **keys) {
    static const char *const own[] = {"mesh.shards=1", "run.steps=200",
                                      "optimizer.lr=0.02", "schedule.warmup=10",
                                      "optimizer.weight_decay=0"};
    static const weft_sync_tensor tensor = {
        .struct_size = sizeof tensor, "weight", 16, FEATURES / 16, true};
    weft_sync *s;
    for (int i = 0; i < 5; i++) WEFT_TRY(weft_config_set(ctx, config, own[i]));
    for (; *keys; keys++) WEFT_TRY(weft_config_set(ctx, config, *keys));
    WEFT_TRY(weft_mesh_fit(ctx, mesh, config));
    WEFT_TRY(weft_config_finish(ctx, config));
    WEFT_TRY(weft_sync_create(ctx, mesh, config, &tensor, 1, &s));
    weft_status status = train(s, weft_mesh_look(mesh));
    weft_sync_destroy(s);
    return status;
}

int main(int argc, char **argv) {
    int threads;
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh = NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    if (weft_ctx_create(&ctx) != WEFT_OK) MPI_Abort(MPI_COMM_WORLD, 1);
    weft_status status = weft_config_create(ctx, &config);
    if (status == WEFT_OK) status = weft_mesh_from_mpi(ctx, MPI_COMM_WORLD, &mesh);
    if (status == WEFT_OK) status = run(ctx, mesh, config, argv + 1);
    if (status != WEFT_OK && mesh) status = weft_mesh_fail(ctx, mesh, status);
    if (status != WEFT_OK && (!mesh || weft_mesh_speaks(mesh)))
        fprintf(stderr, "embed: %s\n", weft_ctx_message(ctx));
    weft_config_destroy(ctx, config);
    if (!weft_mesh_close(mesh)) MPI_Abort(MPI_COMM_WORLD, 1);
    weft_ctx_destroy(ctx);
    return status == WEFT_OK && MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
