/* SPDX-License-Identifier: MIT */
/* R nodes; V values that a node sends, of v bits each; I bits for the sets of places that
 * they belong to; A bits for the answers to everything. On average over all nodes, a node
 * sends at least
 *
 *     gather                    (R - 1) (V v + I)
 *     owner, all-reduce         (R - 1)/R (V v + I + A) */
#include "replicate/variants.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "wire/values.h"

typedef struct knobs {
    const char *kind;
    wefti_value_codec values;
    wefti_route route;
    int dims;
    int64_t k;
} knobs;

#define FULL(codec)                                                                      \
    { "full", WEFTI_VALUES_##codec, WEFTI_ROUTE_AUTO, 1, 4 }
#define DEMO(dims, k, codec, route)                                                      \
    { "demo", WEFTI_VALUES_##codec, WEFTI_ROUTE_##route, dims, k }
#define TOPK(k, codec)                                                                   \
    { "topk", WEFTI_VALUES_##codec, WEFTI_ROUTE_AUTO, 1, k }
#define ROWS(kind, codec)                                                                \
    { kind, WEFTI_VALUES_##codec, WEFTI_ROUTE_AUTO, 1, 4 }

/* Every replicator that sends anything and is no baseline, and every value codec. */
static const knobs variants[] = {
    FULL(F32),
    FULL(BF16),
    FULL(INT8),
    FULL(INT4),
    DEMO(1, 4, F32, GATHER),
    DEMO(1, 4, BF16, GATHER),
    DEMO(1, 4, INT8, GATHER),
    DEMO(1, 4, INT4, GATHER),
    DEMO(1, 4, SIGN, GATHER),
    DEMO(1, 4, F32, OWNER),
    DEMO(1, 4, INT8, OWNER),
    DEMO(1, 2, F32, GATHER),
    DEMO(1, 2, INT8, GATHER),
    DEMO(1, 8, F32, GATHER),
    DEMO(1, 8, INT8, GATHER),
    DEMO(2, 32, F32, GATHER),
    DEMO(2, 32, INT8, GATHER),
    DEMO(2, 32, INT8, OWNER),
    TOPK(4, F32),
    TOPK(4, INT8),
    ROWS("random", F32),
    ROWS("random", INT8),
    ROWS("striding", F32),
    ROWS("striding", INT8),
    ROWS("slicing", F32),
    ROWS("slicing", INT8),
};

/* Keys that are not in the table have the configuration's defaults. */
bool wefti_variant_at(int i, wefti_replicator_config *out) {
    if (i < 0 || i >= (int)(sizeof variants / sizeof variants[0])) return false;
    const knobs *v = &variants[i];
    *out = (wefti_replicator_config){.kind = v->kind,
                                     .compression_topk = v->k,
                                     .compression_chunk = 64,
                                     .compression_rate = 0.0625,
                                     .compression_decay = 0.999,
                                     .compression_dims = v->dims,
                                     .sign = true,
                                     .alpha = 1,
                                     .route = v->route,
                                     .values = v->values,
                                     .dense_below = 1024,
                                     .every = 1,
                                     .seed = 1,
                                     .threads = 1};
    return true;
}

static const char *values_of(const wefti_replicator_config *config) {
    return wefti_value_ops_of(config->values)->name;
}

static const char *route_of(const wefti_replicator_config *config) {
    static const char *const names[] = {[WEFTI_ROUTE_AUTO] = "auto",
                                        [WEFTI_ROUTE_GATHER] = "all_gather",
                                        [WEFTI_ROUTE_OWNER] = "sharded"};
    return names[config->route];
}

char *wefti_variant_name(const wefti_replicator_config *config, char *out, size_t size) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    char label[64] = "";
    if (ops->label) ops->label(config, label, sizeof label);
    bool routed = wefti_named(ops->keys, "exchange");
    snprintf(out, size, "%s %s%s%s%s", config->kind, label, values_of(config),
             routed ? " " : "", routed ? route_of(config) : "");
    return out;
}

/* Writes the value of a key in which variants differ. */
static void print_knob(const wefti_replicator_config *config, const char *key, char *out,
                       size_t size) {
    if (strcmp(key, "compression_topk") == 0)
        snprintf(out, size, "%lld", (long long)config->compression_topk);
    else if (strcmp(key, "compression_chunk") == 0)
        snprintf(out, size, "%lld", (long long)config->compression_chunk);
    else if (strcmp(key, "compression_dims") == 0)
        snprintf(out, size, "%d", config->compression_dims);
    else if (strcmp(key, "exchange") == 0)
        snprintf(out, size, "%s", route_of(config));
    else {
        snprintf(out, size, "%.17g", config->compression_rate);
        wefti_with_point(out);
    }
}

char *wefti_variant_keys(const wefti_replicator_config *config, char *out, size_t size) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    int n = snprintf(out, size, "method=%s replicator.kind=%s replicator.values=%s",
                     ops->method, config->kind, values_of(config));
    for (const char *const *key = ops->knobs; key && *key && n < (int)size; key++) {
        char value[64];
        print_knob(config, *key, value, sizeof value);
        n += snprintf(out + n, size - (size_t)n, " replicator.%s=%s", *key, value);
    }
    return out;
}

static double bound_bits(const wefti_replicator_config *config,
                         const wefti_bucket *bucket, int R, const wefti_content *t) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    double first = t->values * wefti_value_ops_of(config->values)->bits + t->index_bits;
    if (R > 1 && ops->rounds(config, bucket, R) == 1) return (R - 1) * first;
    return (double)(R - 1) / R * (first + t->answer_bits);
}

static double wire_bits(const wefti_replicator_config *config, const wefti_bucket *bucket,
                        int R) {
    int64_t n_bytes = 0;
    for (int from = 0; from < R; from++)
        for (int to = 0; to < R; to++)
            n_bytes += wefti_replicator_wire_bytes(config, bucket, R, from, to);
    return 8 * (double)n_bytes / R;
}

wefti_variant_work wefti_variant_work_of(const wefti_replicator_config *config,
                                         const wefti_variant_load *load) {
    wefti_variant_work work = {0};
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    for (int b = 0; b < load->n_buckets; b++) {
        const wefti_bucket *bucket = &load->buckets[b];
        wefti_content t = ops->content ? ops->content(config, bucket)
                                       : (wefti_content){0};
        work.elements += (double)bucket->n_elements;
        work.values += t.values;
        work.wire_bits += wire_bits(config, bucket, load->R);
        work.bound_bits += bound_bits(config, bucket, load->R, &t);
    }
    if (ops->floor_bytes)
        work.floor_bytes = ops->floor_bytes(config, work.elements, work.values, load->R);
    return work;
}
