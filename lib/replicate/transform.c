/* SPDX-License-Identifier: MIT */
/* Demo's work on one node's gradient (transform.h), over all buckets, without coding or
 * sending: what `weft bench replicators` shows as the transform's own cost. Chunks are
 * worked on in batches that stay in cache. */
#include "replicate/transform.h"

#include <stdio.h>

#include "base/memory.h"
#include "compress/spectrum.h"
#include "kernels/isa/team.h"

/* Chunks that stay in cache together. */
typedef struct batch {
    wefti_chunks chunks; /* of the tensor */
    int64_t offset;      /* of the tensor, in all buckets */
    int64_t first, n;    /* chunks */
    int64_t list;        /* where its coefficients lie */
} batch;

struct wefti_transform {
    weft_ctx *ctx; /* borrowed */
    wefti_transform_config config;
    wefti_spectrum *spectrum; /* owned, like what follows */
    batch *batches;
    int64_t *first_of; /* [n_buckets + 1] batch */
    int32_t *indices;
    float *values, *m;
    int64_t n_batches, n_values, n_elements;
};

bool wefti_transform_at(int i, wefti_transform_config *out) {
    static const wefti_transform_config list[] = {{.dims = 1, .c = 64, .k = 4},
                                                  {.dims = 2, .c = 64, .k = 32}};
    int n = sizeof list / sizeof list[0];
    if (i < n) *out = list[i];
    return i < n;
}

char *wefti_transform_name(const wefti_transform_config *config, char *out, size_t size) {
    long long k = config->k, c = config->c;
    if (config->dims == 2)
        snprintf(out, size, "transform %lld/%lldx%lld", k, c, c);
    else
        snprintf(out, size, "transform %lld/%lld", k, c);
    return out;
}

/* Counts the batches of all buckets and, when there is room for them, lists them. */
static void cut(wefti_transform *t, const wefti_bucket *buckets, int n_buckets) {
    const wefti_transform_config *config = &t->config;
    t->n_batches = t->n_values = t->n_elements = 0;
    for (int b = 0; b < n_buckets; b++) {
        if (t->first_of) t->first_of[b] = t->n_batches;
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            const wefti_piece *piece = &buckets[b].pieces[i];
            wefti_chunks s = wefti_chunks_make(config->dims, config->c, config->k,
                                               piece->rows, piece->cols);
            int64_t most = wefti_spectrum_batch(&s);
            for (int64_t at = 0; at < s.n; at += most, t->n_batches++) {
                int64_t n = s.n - at < most ? s.n - at : most;
                if (t->batches)
                    t->batches[t->n_batches] = (batch){s, piece->offset, at, n,
                                                       t->n_values};
                t->n_values += n * s.k;
            }
        }
        t->n_elements += buckets[b].n_elements;
    }
    if (t->first_of) t->first_of[n_buckets] = t->n_batches;
}

static weft_status make(wefti_transform *t, const wefti_bucket *buckets, int n_buckets) {
    const wefti_transform_config *c = &t->config;
    weft_ctx *ctx = t->ctx;
    cut(t, buckets, n_buckets);
    WEFT_TRY(
        wefti_spectrum_create(ctx, c->kernels, c->dims, c->c, c->threads, &t->spectrum));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_batches, sizeof(batch), "batches", &t->batches));
    WEFT_TRY(wefti_alloc_n(ctx, n_buckets + 1, sizeof(int64_t), "buckets", &t->first_of));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_values, sizeof(int32_t), "places", &t->indices));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_values, sizeof(float), "coefficients", &t->values));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_elements, sizeof(float), "the momentum", &t->m));
    cut(t, buckets, n_buckets);
    return WEFT_OK;
}

weft_status wefti_transform_create(weft_ctx *ctx, const wefti_transform_config *config,
                                   const wefti_bucket *buckets, int n_buckets,
                                   wefti_transform **out) {
    *out = NULL;
    wefti_transform *t;
    WEFT_TRY(wefti_alloc(ctx, sizeof *t, "a transform", &t));
    *t = (wefti_transform){.ctx = ctx, .config = *config};
    weft_status status = make(t, buckets, n_buckets);
    if (status == WEFT_OK)
        *out = t;
    else
        wefti_transform_destroy(t);
    return status;
}

void wefti_transform_destroy(wefti_transform *t) {
    if (!t) return;
    wefti_spectrum_destroy(t->ctx, t->spectrum);
    WEFTI_FREE(t->ctx, t->batches, t->first_of, t->indices, t->values, t->m, t);
}

int64_t wefti_transform_values(const wefti_transform *t) { return t->n_values; }

void wefti_transform_begin(wefti_transform *t, int bucket, const float *x) {
    const wefti_momentum momentum = {.decay = 0.999f, .gain = 1};
#pragma omp parallel for num_threads(t->config.threads)                                  \
    schedule(dynamic) if (t->config.threads > 1)
    for (int64_t i = t->first_of[bucket]; i < t->first_of[bucket + 1]; i++) {
        const batch *b = &t->batches[i];
        int thread = team_rank();
        float *m = t->m + b->offset;
        int32_t *indices = t->indices + b->list;
        float *values = t->values + b->list;
        wefti_spectrum_select(t->spectrum, thread, &b->chunks, b->first, b->n, &momentum,
                              x + b->offset, m, indices, values);
        wefti_spectrum_subtract(t->spectrum, thread, &b->chunks, b->first, b->n, 1,
                                indices, values, m);
    }
}

void wefti_transform_end(wefti_transform *t, int bucket, float *x) {
#pragma omp parallel for num_threads(t->config.threads)                                  \
    schedule(dynamic) if (t->config.threads > 1)
    for (int64_t i = t->first_of[bucket]; i < t->first_of[bucket + 1]; i++) {
        const batch *b = &t->batches[i];
        const int32_t *indices = t->indices + b->list;
        const float *values = t->values + b->list;
        wefti_spectrum_combine(t->spectrum, team_rank(), &b->chunks, b->first, b->n, 1,
                               &indices, &values, WEFTI_DIRECTION_SIGN, x + b->offset);
    }
}
