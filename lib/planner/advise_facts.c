/* SPDX-License-Identifier: MIT */
/* Adapts units that were measured with one micro-batch to candidates with another.
 * Otherwise one candidate would be predicted from measured units and another from FLOP
 * per second, and the difference would come from the facts, not from the candidates. */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"

/* The place of the number of rows in a key (weft_cluster_model_key); NULL: there is none. */
static const char *rows_in(const char *key) {
    static const char word[] = " rows ";
    const char *at = strstr(key, word);
    return at ? at + strlen(word) : NULL;
}

/* Reads the rows of two keys that are otherwise equal; false if they are not. */
static bool compare_keys(const char *a, const char *b, double *rows_a, double *rows_b) {
    const char *x = rows_in(a), *y = rows_in(b);
    char *end_x, *end_y;
    if (!x || !y || x - a != y - b || strncmp(a, b, (size_t)(x - a)) != 0) return false;
    *rows_a = wefti_strtod(x, &end_x);
    *rows_b = wefti_strtod(y, &end_y);
    return strcmp(end_x, end_y) == 0 && *rows_a > 0 && *rows_b > 0;
}

weft_status wefti_advise_facts(weft_ctx *ctx, const weft_config *config,
                               const weft_cluster *cluster, weft_cluster *out) {
    char key[sizeof cluster->model];
    double measured, wanted;
    *out = *cluster;
    if (cluster->n_units == 0) return WEFT_OK;
    WEFT_TRY(weft_cluster_model_key(ctx, config, cluster->threads, key));
    if (strcmp(key, cluster->model) == 0 ||
        !compare_keys(cluster->model, key, &measured, &wanted))
        return WEFT_OK;
    WEFT_TRY(
        wefti_alloc_n(ctx, cluster->n_units, sizeof *out->units, "units", &out->units));
    for (int64_t i = 0; i < cluster->n_units; i++) {
        out->units[i] = cluster->units[i];
        out->units[i].forward_s *= wanted / measured;
        out->units[i].backward_s *= wanted / measured;
    }
    memcpy(out->model, key, sizeof key);
    return WEFT_OK;
}

void wefti_advise_drop_facts(weft_ctx *ctx, const weft_cluster *cluster,
                             weft_cluster *facts) {
    if (facts->units != cluster->units) wefti_free(ctx, facts->units);
    if (facts->pairs != cluster->pairs) wefti_free(ctx, facts->pairs);
    if (facts->machines != cluster->machines) wefti_free(ctx, facts->machines);
}
