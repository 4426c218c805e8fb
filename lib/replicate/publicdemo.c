/* SPDX-License-Identifier: MIT */
/* DeMo as its published code computes it (github.com/bloc97/DeMo), for runs that must be
 * compared with it; docs/methods.md section 9 lists where demo differs from it.
 *
 *     m <- beta m + lr g         q <- the k largest of each chunk of DCT(m)
 *     m <- m - IDCT(q)
 *     Q <- per coefficient, sum over the ranks that sent it / their number, zeros included
 *     d <- IDCT(Q), or sign(IDCT(Q)) with sign(0) = 0
 *
 * A chunk is h x w: along each axis the largest divisor that is at most c, so that chunks
 * cover a tensor without remainder; a vector is one row. k is at most h w. Payload of a
 * bucket: a sparse section (wire/section.h) for each piece, in order. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "compress/dct.h"
#include "compress/selection.h"
#include "replicate/replicator.h"
#include "replicate/sparse.h"

enum { MAX_CHUNK = 1024 };

typedef struct public_demo {
    float *bases[MAX_CHUNK + 1]; /* of the lengths c that occur, owned: [c, c] by
                                    frequency, then the same by place */
    float *x, *y, *product;      /* [elements of a chunk, at most] */
    uint32_t *keys;              /* as long; for a selection, or for numbers of senders */
    int32_t *indices;            /* [values of a block, at most], like values */
    float *values;
    const unsigned char **views; /* [R] payloads that count, by rank */
    int32_t **lists;             /* [R] of decoded indices, in `room` */
    float **coefficients;        /* [R] of decoded values */
    void *room;
} public_demo;

/* How a piece is cut. */
typedef struct cut {
    int64_t rows, cols; /* of the piece; a vector is 1 x n */
    int64_t h, w;
    wefti_section section;
} cut;

static int64_t largest_divisor(int64_t n, int64_t most) {
    int64_t d = n < most ? n : most;
    while (n % d != 0) d--;
    return d;
}

static cut cut_of(const wefti_replicator_config *config, const wefti_piece *piece) {
    bool is_vector = piece->cols == 1;
    int64_t c = config->compression_chunk, k = config->compression_topk;
    cut x = {.rows = is_vector ? 1 : piece->rows,
             .cols = is_vector ? piece->rows : piece->cols};
    x.h = largest_divisor(x.rows, c);
    x.w = largest_divisor(x.cols, c);
    int64_t elements = x.h * x.w;
    x.section = wefti_section_sparse(x.rows * x.cols / elements,
                                     k < elements ? k : elements, elements,
                                     config->values, WEFTI_INDICES_FIXED, NULL);
    return x;
}

static int64_t public_round_bytes(const wefti_replicator_config *config,
                                  const wefti_bucket *bucket, int R, int round,
                                  int owner) {
    int64_t n_bytes = WEFTI_FRAME_BYTES;
    (void)R, (void)round, (void)owner;
    for (int i = 0; i < bucket->n_pieces; i++) {
        cut x = cut_of(config, &bucket->pieces[i]);
        n_bytes += wefti_section_bytes(&x.section, 0, x.section.n_blocks);
    }
    return n_bytes;
}

/* --- memory --- */

typedef struct sizes {
    int64_t elements, values; /* of a chunk, of a block: at most */
    bool lengths[MAX_CHUNK + 1];
} sizes;

static sizes sizes_of(const wefti_replicator_config *config, const wefti_bucket *buckets,
                      int n_buckets) {
    sizes n = {.elements = 1, .values = 1};
    for (int b = 0; b < n_buckets; b++) {
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            cut x = cut_of(config, &buckets[b].pieces[i]);
            n.lengths[x.h] = n.lengths[x.w] = true;
            if (x.section.elements > n.elements) n.elements = x.section.elements;
            if (x.section.block_values > n.values) n.values = x.section.block_values;
        }
    }
    return n;
}

static int64_t public_work_bytes(const wefti_replicator_config *config,
                                 const wefti_bucket *buckets, int n_buckets, int R) {
    sizes n = sizes_of(config, buckets, n_buckets);
    int64_t n_bytes = wefti_alloc_n_cost(1, sizeof(public_demo)) +
                      4 * wefti_alloc_n_cost(n.elements, 4) +
                      2 * wefti_alloc_n_cost(n.values, 4) +
                      3 * wefti_alloc_n_cost(R, sizeof(void *)) +
                      wefti_alloc_n_cost(2 * R * n.values, 4);
    for (int64_t c = 1; c <= MAX_CHUNK; c++)
        if (n.lengths[c]) n_bytes += wefti_alloc_n_cost(2 * c * c, sizeof(float));
    return n_bytes;
}

static weft_status make_bases(wefti_replicator *r, const sizes *n) {
    public_demo *self = r->self;
    for (int64_t c = 1; c <= MAX_CHUNK; c++) {
        if (!n->lengths[c]) continue;
        WEFT_TRY(
            wefti_alloc_n(r->ctx, 2 * c * c, sizeof(float), "the DCT", &self->bases[c]));
        float *basis = self->bases[c], *turned = basis + c * c;
        wefti_dct_basis(c, basis);
        for (int64_t i = 0; i < c * c; i++) turned[i] = basis[i % c * c + i / c];
    }
    return WEFT_OK;
}

static weft_status make_lists(wefti_replicator *r, const sizes *n) {
    public_demo *self = r->self;
    int R = r->comm->size;
    WEFT_TRY(wefti_alloc_n(r->ctx, R, sizeof(void *), "messages", &self->views));
    WEFT_TRY(wefti_alloc_n(r->ctx, R, sizeof(void *), "messages", &self->lists));
    WEFT_TRY(wefti_alloc_n(r->ctx, R, sizeof(void *), "messages", &self->coefficients));
    WEFT_TRY(wefti_alloc_n(r->ctx, 2 * R * n->values, sizeof(float), "coefficients",
                           &self->room));
    for (int rank = 0; rank < R; rank++) {
        self->coefficients[rank] = (float *)self->room + 2 * rank * n->values;
        self->lists[rank] = (int32_t *)self->room + (2 * rank + 1) * n->values;
    }
    return WEFT_OK;
}

static weft_status public_create(wefti_replicator *r) {
    public_demo *self;
    int64_t c = r->config.compression_chunk;
    WEFT_TRY(wefti_replicator_check_coding(r, c * c));
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "the public_demo replicator", &self));
    r->self = self;
    sizes n = sizes_of(&r->config, r->buckets, r->n_buckets);
    WEFT_TRY(make_bases(r, &n));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.elements, sizeof(float), "a chunk", &self->x));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.elements, sizeof(float), "a chunk", &self->y));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.elements, sizeof(float), "a chunk", &self->product));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.elements, sizeof(uint32_t), "a chunk", &self->keys));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.values, sizeof(int32_t), "a block", &self->indices));
    WEFT_TRY(wefti_alloc_n(r->ctx, n.values, sizeof(float), "a block", &self->values));
    return make_lists(r, &n);
}

static void public_destroy(wefti_replicator *r) {
    public_demo *self = r->self;
    if (!self) return;
    for (int c = 1; c <= MAX_CHUNK; c++) wefti_free(r->ctx, self->bases[c]);
    WEFTI_FREE(r->ctx, self->x, self->y, self->product, self->keys, self->indices,
               self->values, self->views, self->lists, self->coefficients, self->room,
               self);
}

/* --- a chunk --- */

/* out [h, w] <- a [h, n] times b [n, w]. */
static void multiply(int64_t h, int64_t n, int64_t w, const float *a, const float *b,
                     float *out) {
    memset(out, 0, (size_t)(h * w) * sizeof *out);
    for (int64_t row = 0; row < h; row++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < w; j++)
                out[row * w + j] += a[row * n + i] * b[i * w + j];
}

/* y <- the DCT of x along both axes, or its inverse. */
static void transform(const public_demo *self, const cut *x, bool inverse) {
    const float *down = self->bases[x->h], *across = self->bases[x->w];
    if (inverse)
        down += x->h * x->h;
    else
        across += x->w * x->w;
    multiply(x->h, x->w, x->w, self->x, across, self->product);
    multiply(x->h, x->h, x->w, down, self->product, self->y);
}

/* The first element of a chunk in its piece. */
static int64_t begin_of(const cut *x, int64_t chunk) {
    int64_t across = x->cols / x->w;
    return chunk / across * x->h * x->cols + chunk % across * x->w;
}

static void load(const public_demo *self, const cut *x, const float *from) {
    for (int64_t i = 0; i < x->h; i++)
        memcpy(self->x + i * x->w, from + i * x->cols, (size_t)x->w * sizeof *from);
}

/* --- messages --- */

static void send_chunk(const public_demo *self, const cut *x, int64_t chunk, float *m,
                       int64_t at) {
    load(self, x, m + begin_of(x, chunk));
    transform(self, x, false);
    wefti_topk(x->section.elements, self->y, x->section.k, self->indices + at,
               self->values + at, self->keys);
}

static void subtract_chunk(const public_demo *self, const cut *x, int64_t chunk, float *m,
                           int64_t at) {
    memset(self->x, 0, (size_t)x->section.elements * sizeof *self->x);
    for (int64_t i = at; i < at + x->section.k; i++)
        self->x[self->indices[i]] = self->values[i];
    transform(self, x, true);
    m += begin_of(x, chunk);
    for (int64_t i = 0; i < x->h; i++)
        for (int64_t j = 0; j < x->w; j++) m[i * x->cols + j] -= self->y[i * x->w + j];
}

static weft_status public_encode(wefti_replicator *r, const wefti_round *round,
                                 int member, unsigned char *out) {
    const public_demo *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    (void)member;
    wefti_replicator_accumulate(r, round->bucket, round->from);
    for (int p = 0; p < bucket->n_pieces; p++) {
        float *m = wefti_replicator_state(r, 0, round->bucket) + bucket->pieces[p].offset;
        cut x = cut_of(&r->config, &bucket->pieces[p]);
        const wefti_section *s = &x.section;
        wefti_rounding rounding = wefti_replicator_rounding(r, round, p);
        for (int64_t b = 0; b < s->n_blocks; b++) {
            int64_t first = b * s->block_chunks, n = wefti_section_block_chunks(s, b);
            for (int64_t i = 0; i < n; i++) send_chunk(self, &x, first + i, m, i * s->k);
            wefti_section_encode(s, b, self->indices, self->values, &rounding, out);
            for (int64_t i = 0; i < n; i++)
                subtract_chunk(self, &x, first + i, m, i * s->k);
            out += wefti_section_bytes(s, b, 1);
        }
    }
    return WEFT_OK;
}

static weft_status public_add(wefti_replicator *r, const wefti_round *round, int member,
                              const unsigned char *in) {
    const public_demo *self = r->self;
    (void)member;
    self->views[round->counted] = in;
    return WEFT_OK;
}

/* d of a chunk, from coefficients [at, at + k) of all lists. */
static void combine_chunk(const wefti_replicator *r, const cut *x, int n_lists,
                          int64_t at, float *d) {
    const public_demo *self = r->self;
    size_t n = (size_t)x->section.elements;
    uint32_t *senders = self->keys;
    memset(self->x, 0, n * sizeof *self->x);
    memset(senders, 0, n * sizeof *senders);
    for (int rank = 0; rank < n_lists; rank++) {
        for (int64_t i = at; i < at + x->section.k; i++) {
            self->x[self->lists[rank][i]] += self->coefficients[rank][i];
            senders[self->lists[rank][i]]++;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (senders[i] > 1) self->x[i] /= (float)senders[i];
    transform(self, x, true);
    for (int64_t i = 0; i < x->h; i++) {
        for (int64_t j = 0; j < x->w; j++) {
            float y = self->y[i * x->w + j], sign = (float)((y > 0) - (y < 0));
            d[i * x->cols + j] = r->config.sign && !isnan(y) ? sign : y;
        }
    }
}

static weft_status public_finish(wefti_replicator *r, const wefti_round *round,
                                 unsigned char *answer) {
    const public_demo *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    int64_t at = 0;
    (void)answer;
    for (int p = 0; p < bucket->n_pieces; p++) {
        float *d = round->x + bucket->pieces[p].offset;
        cut x = cut_of(&r->config, &bucket->pieces[p]);
        const wefti_section *s = &x.section;
        for (int64_t b = 0; b < s->n_blocks; b++) {
            for (int rank = 0; rank < round->counted; rank++)
                WEFT_TRY(wefti_section_decode(r->ctx, s, b, self->views[rank] + at,
                                              self->lists[rank],
                                              self->coefficients[rank]));
            for (int64_t i = 0; i < wefti_section_block_chunks(s, b); i++) {
                int64_t chunk = b * s->block_chunks + i;
                combine_chunk(r, &x, round->counted, i * s->k, d + begin_of(&x, chunk));
            }
            at += wefti_section_bytes(s, b, 1);
        }
    }
    return WEFT_OK;
}

/* --- predictions --- */

static wefti_content public_content(const wefti_replicator_config *config,
                                    const wefti_bucket *bucket) {
    wefti_content t = {0, 0, 0};
    for (int i = 0; i < bucket->n_pieces; i++) {
        wefti_section s = cut_of(config, &bucket->pieces[i]).section;
        t.values += (double)s.n_values;
        t.index_bits += (double)s.n_chunks * wefti_log2_choose(s.elements, s.k);
    }
    return t;
}

/* Products by plain loops: they take as long as touching this many bytes. */
static wefti_touched public_touched(const wefti_replicator_config *config, int R) {
    double c = (double)config->compression_chunk;
    (void)R;
    return (wefti_touched){.begin = 6 * c, .combine_peer = 4, .end = 3 * c};
}

static const char *const public_keys[] = {"compression_topk",
                                          "compression_chunk",
                                          "compression_decay",
                                          "sign",
                                          "values",
                                          "rounding",
                                          "every",
                                          NULL};

const wefti_replicator_ops wefti_replicator_public_demo = {
    .name = "public_demo",
    .keys = public_keys,
    .method = "public-demo",
    .is_baseline = true,
    .knobs = wefti_sparse_knobs,
    .label = wefti_sparse_label,
    .content = public_content,
    .touched = public_touched,
    .floor_bytes = wefti_replicator_momentum_floor,
    .states = wefti_replicator_momentum_state,
    .rounds = wefti_replicator_one_round,
    .round_bytes = public_round_bytes,
    .work_bytes = public_work_bytes,
    .create = public_create,
    .kinds = {WEFTI_FRAME_PUBLIC_DEMO},
    .encode = public_encode,
    .add = public_add,
    .finish = public_finish,
    .destroy = public_destroy,
};
