/* SPDX-License-Identifier: MIT */
/* One bucket's exchange as the runtime model has it: predicted all-reduce|all-gather|pair
 * NODES WIDTH RATE,LATENCY; prints a message's bytes and the exchange's seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/predict.h>

/* Bytes of status messages are counted with the rest. */
enum { STATUS_BYTES = 40 };

static weft_status configure(weft_ctx *ctx, const char *what, const char *nodes,
                             const char *width, weft_config **out) {
    const char *method = strcmp(what, "all-reduce") == 0   ? "method=hsdp"
                         : strcmp(what, "all-gather") == 0 ? "method=flexdemo"
                                                           : "method=dadam";
    const char *const keys[] = {method,
                                "replicator.exchange=all_gather",
                                "mixer.order=atc",
                                "mesh.min_message=1GB",
                                "optimizer.clip=0",
                                "model.layers=4",
                                "model.heads=4",
                                "data.length=64"};
    const struct {
        const char *name, *value;
        long factor;
    } numbers[] = {{"mesh.nodes", nodes, 1},
                   {"batch.tokens_per_step", nodes, 64},
                   {"model.width", width, 1}};
    WEFT_TRY(weft_config_create(ctx, out));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        WEFT_TRY(weft_config_set(ctx, *out, keys[i]));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s=%ld", numbers[i].name,
                 numbers[i].factor * atol(numbers[i].value));
        WEFT_TRY(weft_config_set(ctx, *out, text));
    }
    return weft_config_finish(ctx, *out);
}

static weft_status predict(weft_ctx *ctx, char **argv) {
    weft_config *config;
    weft_cluster *cluster;
    weft_prediction p = {.struct_size = sizeof p};
    double n = atof(argv[2]);
    WEFT_TRY(configure(ctx, argv[1], argv[2], argv[3], &config));
    WEFT_TRY(weft_cluster_create(ctx, &cluster));
    WEFT_TRY(weft_cluster_set(ctx, cluster, "link", argv[4]));
    WEFT_TRY(weft_cluster_set(ctx, cluster, "rank-flops", "1P"));
    WEFT_TRY(weft_predict(ctx, config, cluster, NULL, &p));
    double status = STATUS_BYTES * (n - 1), bytes = (double)p.wire_bytes_step - status;
    if (strcmp(argv[1], "all-reduce") == 0)
        printf("%.0f %.9f\n", bytes / (2 * (n - 1)), p.wait_s);
    else if (strcmp(argv[1], "all-gather") == 0)
        printf("%.0f %.9f\n", bytes / (n - 1), p.wait_s);
    else /* every second step crosses */
        printf("%.0f %.9f\n", 2 * bytes, 2 * p.wait_s);
    weft_prediction_clear(ctx, &p);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    return WEFT_OK;
}

int main(int argc, char **argv) {
    weft_ctx *ctx;
    if (argc != 5 || weft_ctx_create(&ctx) != WEFT_OK) return 2;
    weft_status status = predict(ctx, argv);
    if (status != WEFT_OK) fprintf(stderr, "predicted: %s\n", weft_ctx_message(ctx));
    weft_ctx_destroy(ctx);
    return status == WEFT_OK ? 0 : 1;
}
