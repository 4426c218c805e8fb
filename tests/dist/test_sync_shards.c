/* SPDX-License-Identifier: MIT */
/* A program's own loop (weft/sync.h) with rows of sharded copies, and with other models. */
#include <weft/sync.h>

#include "check.h"
#include "hub.h"

#define TENSOR sizeof(weft_sync_tensor)

typedef struct place {
    hub *hub;
    int number;
    bool other_name, other_rows, other_batch, uneven;
    weft_status status;
    char text[1024];
    float got[12];
    pthread_t thread;
} place;

/* 5 x 2, cut 3 + 2, and 1 row, cut 1 + 0; copies are ranks 0, 1 and 2, 3. */
static weft_status shard_steps(place *p, weft_ctx *ctx, weft_mesh *mesh,
                               weft_config *config, weft_sync **s) {
    int rank = weft_mesh_look(mesh)->rank, shard = rank % 2;
    weft_sync_tensor rows[] = {
        {TENSOR, "a", shard ? 2 : 3, 2, true},
        {TENSOR, p->other_name ? "c" : "b", shard && !p->other_rows ? 0 : 1, 2, true}};
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = mesh,
                             .config = config,
                             .tensors = rows,
                             .n_tensors = 2,
                             .endless = true,
                             .sharded = true,
                             .uneven = p->uneven};
    double weight;
    WEFT_TRY(weft_sync_create_from(ctx, &setup, s));
    for (int k = 0; k < 2 * (shard ? 2 : 3); k++)
        weft_sync_parameters(*s, 0)[k] = (float)(10 * rank + k);
    WEFT_TRY(weft_sync_begin(*s));
    for (int t = 0; t < 3; t++) {
        weft_sync_report report = {.struct_size = sizeof report};
        for (int k = 0; k < 2 * (shard ? 2 : 3); k++)
            weft_sync_gradients(*s, 0)[k] = (float)(rank / 2);
        if (!shard) weft_sync_gradients(*s, 1)[0] = (float)rank;
        if (p->uneven)
            WEFT_TRY(weft_sync_weigh(*s, 0, rank < 2 ? 3 : 1 + p->other_batch, &weight));
        WEFT_TRY(weft_sync_step(*s, 0, &report));
    }
    memcpy(p->got, weft_sync_parameters(*s, 0), (size_t)(shard ? 4 : 6) * sizeof(float));
    if (!shard) p->got[6] = weft_sync_parameters(*s, 1)[0];
    return WEFT_OK;
}

static void *shard_member(void *argument) {
    static const char *const keys[] = {
        "method=hsdp",           "mesh.nodes=2",
        "mesh.ranks_per_node=2", "mesh.shards=2",
        "optimizer.kind=sgd",    "optimizer.clip=0",
        "optimizer.lr=0.5",      "schedule.kind=constant",
        "schedule.warmup=0",     "optimizer.weight_decay=0"};
    place *p = argument;
    weft_ctx *ctx;
    weft_mesh *mesh = NULL;
    weft_config *config = NULL;
    weft_sync *s = NULL;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    p->status = weft_mesh_create(ctx, hub_member(p->hub, p->number), &mesh);
    if (p->status == WEFT_OK) p->status = weft_config_create(ctx, &config);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && p->status == WEFT_OK; i++)
        p->status = weft_config_set(ctx, config, keys[i]);
    if (p->status == WEFT_OK) p->status = weft_config_finish(ctx, config);
    if (p->status == WEFT_OK) p->status = shard_steps(p, ctx, mesh, config, &s);
    if (p->status != WEFT_OK && mesh) weft_mesh_fail(ctx, mesh, p->status);
    snprintf(p->text, sizeof p->text, "%s", weft_ctx_message(ctx));
    weft_sync_destroy(s);
    weft_config_destroy(ctx, config);
    (void)weft_mesh_close(mesh);
    assert_int_equal(ctx_end(ctx), 0);
    return NULL;
}

static void run_shards(place *places, const place *odd_one) {
    bool uneven = odd_one && odd_one->uneven;
    hub h;
    hub_begin(&h, 4, NULL);
    for (int r = 0; r < 4; r++) {
        places[r] = odd_one && r == 3 ? *odd_one : (place){0};
        places[r].uneven = uneven;
        places[r].hub = &h;
        places[r].number = r;
        assert_int_equal(
            pthread_create(&places[r].thread, NULL, shard_member, &places[r]), 0);
    }
    for (int r = 0; r < 4; r++) pthread_join(places[r].thread, NULL);
    hub_end(&h);
}

TEST(test_shards) {
    place p[4];
    run_shards(p, NULL);
    for (int r = 0; r < 4; r++) {
        if (p[r].status != WEFT_OK) fail_msg("rank %d: %s", r, p[r].text);
        for (int k = 0; k < (r % 2 ? 4 : 6); k++) /* three steps of 0.5 x 0.5 */
            assert_true(p[r].got[k] == (float)(10 * (r % 2) + k) - 0.75f);
        if (r % 2 == 0) assert_true(p[r].got[6] == -1.5f);
    }
    static const place odd[] = {{.other_name = true}, {.other_rows = true}};
    static const char *const told[] = {
        "'tensor b: 2' is on rank 0, and 'tensor c: 2' is in its place",
        "rank 3 has other rows of the tensors than rank 1"};
    for (int i = 0; i < 2; i++) {
        run_shards(p, &odd[i]);
        for (int r = 0; r < 4; r++) {
            assert_int_not_equal(p[r].status, WEFT_OK);
            if (!strstr(p[r].text, told[i])) fail_msg("rank %d: %s", r, p[r].text);
        }
    }
}

/* Copies of 3 rows and of 1: three steps of 0.5 x 0.25, and of 0.5 x (0 x 3 + 2 x 1) / 4. */
TEST(test_rows_of_copies) {
    static const place same = {.uneven = true};
    static const place odd = {.uneven = true, .other_batch = true};
    place p[4];
    run_shards(p, &same);
    for (int r = 0; r < 4; r++) {
        if (p[r].status != WEFT_OK) fail_msg("rank %d: %s", r, p[r].text);
        assert_true(p[r].got[0] == (float)(10 * (r % 2)) - 0.375f);
        if (r % 2 == 0) assert_true(p[r].got[6] == -0.75f);
    }
    run_shards(p, &odd);
    for (int r = 0; r < 4; r++)
        if (!strstr(p[r].text, "rank 3 has other rows than the ranks that share"))
            fail_msg("rank %d: %s", r, p[r].text);
}
