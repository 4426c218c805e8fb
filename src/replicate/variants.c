/* SPDX-License-Identifier: MIT */
/* R nodes; V values that a node tells, of v bits each; I bits of the sets of places that
 * they belong to; A bits of the answers to everything. A node sends, in the mean of all,
 * at least
 *
 *     gather                    (R - 1) (V v + I)
 *     owner, all-reduce         (R - 1)/R (V v + I + A) */
#include "replicate/variants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replicate/demo_cut.h"
#include "replicate/select.h"
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
#define ROWS(kind, codec)                                                                \
    { kind, WEFTI_VALUES_##codec, WEFTI_ROUTE_AUTO, 1, 4 }

/* Every replicator that sends anything, and every value codec. */
static const knobs variants[] = {
    FULL(F32),
    FULL(BF16),
    FULL(INT8),
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
    ROWS("random", F32),
    ROWS("random", INT8),
    ROWS("striding", F32),
    ROWS("striding", INT8),
    ROWS("slicing", F32),
    ROWS("slicing", INT8),
};

/* What is not in the table has the configuration's defaults. */
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

static bool is(const wefti_replicator_config *config, const char *kind) {
    return strcmp(config->kind, kind) == 0;
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
    long long k = config->compression_topk, c = config->compression_chunk;
    char knob[64] = "";
    if (is(config, "demo") && config->compression_dims == 1)
        snprintf(knob, sizeof knob, "%lld/%lld ", k, c);
    else if (is(config, "demo"))
        snprintf(knob, sizeof knob, "%lld/%lldx%lld ", k, c, c);
    else if (!is(config, "full"))
        snprintf(knob, sizeof knob, "1/%.4g ", 1 / config->compression_rate);
    bool routed = is(config, "demo");
    snprintf(out, size, "%s %s%s%s%s", config->kind, knob, values_of(config),
             routed ? " " : "", routed ? route_of(config) : "");
    return out;
}

char *wefti_variant_keys(const wefti_replicator_config *config, char *out, size_t size) {
    const char *method = is(config, "full")   ? "hsdp"
                         : is(config, "demo") ? "flexdemo"
                                              : config->kind;
    char knob[256] = "";
    if (is(config, "demo"))
        snprintf(knob, sizeof knob,
                 " replicator.compression_topk=%lld replicator.compression_chunk=%lld "
                 "replicator.compression_dims=%d replicator.exchange=%s",
                 (long long)config->compression_topk,
                 (long long)config->compression_chunk, config->compression_dims,
                 route_of(config));
    else if (!is(config, "full"))
        snprintf(knob, sizeof knob, " replicator.compression_rate=%.17g",
                 config->compression_rate);
    snprintf(out, size, "method=%s replicator.kind=%s replicator.values=%s%s", method,
             config->kind, values_of(config), knob);
    return out;
}

static double log2_choose(int64_t n, int64_t k) {
    double bits = 0;
    for (int64_t i = 1; i <= k; i++) bits += log2((double)(n - k + i) / (double)i);
    return bits;
}

/* What a node tells, and what is answered, of one bucket. */
typedef struct told {
    double values, index_bits, answer_bits;
} told;

static told told_by_demo(const wefti_replicator_config *config,
                         const wefti_bucket *bucket) {
    told t = {0, 0, 0};
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        double n = (double)(piece->rows * piece->cols);
        bool dense = wefti_demo_kind(config, piece) < 0;
        t.answer_bits += n * (!config->sign ? 32 : dense ? log2(3) : 1);
        wefti_chunks s = wefti_chunks_make(
            config->compression_dims, config->compression_chunk, config->compression_topk,
            piece->rows, piece->cols);
        t.values += dense ? n : (double)(s.n * s.k);
        t.index_bits += dense ? 0 : (double)s.n * log2_choose(s.elements, s.k);
    }
    return t;
}

static const wefti_chooser *chooser_of(const wefti_replicator_config *config) {
    if (is(config, "random")) return &wefti_chooser_random;
    return is(config, "striding") ? &wefti_chooser_striding : &wefti_chooser_slicing;
}

static told told_by_rows(const wefti_replicator_config *config,
                         const wefti_bucket *bucket) {
    told t = {0, 0, 0};
    const wefti_chooser *chooser = chooser_of(config);
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        int64_t rows = chooser->most(config->compression_rate, piece->rows);
        t.values += (double)(rows * piece->cols);
    }
    int bits = wefti_value_ops_of(config->values)->bits;
    t.answer_bits = t.values * (config->sign ? log2(3) : bits);
    return t;
}

static told told_by(const wefti_replicator_config *config, const wefti_bucket *bucket) {
    if (is(config, "none")) return (told){0, 0, 0};
    if (is(config, "demo")) return told_by_demo(config, bucket);
    if (!is(config, "full")) return told_by_rows(config, bucket);
    double n = (double)bucket->n_elements;
    int bits = wefti_value_ops_of(config->values)->bits;
    return (told){n, 0, n * bits};
}

static double bound_bits(const wefti_replicator_config *config,
                         const wefti_bucket *bucket, int R, const told *t) {
    double first = t->values * wefti_value_ops_of(config->values)->bits + t->index_bits;
    wefti_demo_rules rules = {.R = R};
    if (is(config, "demo")) rules = wefti_demo_rules_make(config, R, NULL);
    if (is(config, "demo") && !wefti_demo_by_owner(&rules, bucket))
        return (R - 1) * first;
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

static double floor_bytes(const wefti_replicator_config *config,
                          const wefti_variant_work *work, int R) {
    double n = work->elements;
    if (is(config, "none")) return 0;
    if (is(config, "demo")) return 16 * n;
    if (!is(config, "full")) return 12 * n + 4 * work->values;
    if (config->values != WEFTI_VALUES_F32) return 16 * n;
    return R > 1 ? 4 * (3 - 1.0 / R) * n : 0;
}

wefti_variant_work wefti_variant_work_of(const wefti_replicator_config *config,
                                         const wefti_variant_load *load) {
    wefti_variant_work work = {0};
    for (int b = 0; b < load->n_buckets; b++) {
        const wefti_bucket *bucket = &load->buckets[b];
        told t = told_by(config, bucket);
        work.elements += (double)bucket->n_elements;
        work.values += t.values;
        work.wire_bits += wire_bits(config, bucket, load->R);
        work.bound_bits += bound_bits(config, bucket, load->R, &t);
    }
    work.floor_bytes = floor_bytes(config, &work, load->R);
    return work;
}
