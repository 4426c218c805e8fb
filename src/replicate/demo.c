/* SPDX-License-Identifier: MIT */
/* Decoupled momentum (DeMo, arXiv 2411.19870; FlexDeMo, arXiv 2502.06728),
 * docs/methods.md:
 *
 *     m <- beta m + lr g        q <- top-k per chunk of DCT(m)        m <- m - IDCT(q)
 *     Q <- per coefficient, mean over the ranks THAT SENT IT          d <- IDCT(Q),
 * sign(d)
 *
 * Message of a bucket: head (wire/frame.h), then a sparse section (wire/sparse.h) per
 * piece. Every rank sends its own to all others of the replication group and combines the
 * R messages in rank order, so that all ranks compute the same bits.
 */
#include <string.h>

#include "base/memory.h"
#include "compress/chunks.h"
#include "compress/dct.h"
#include "compress/topk.h"
#include "replicate/replicators.h"
#include "wire/frame.h"
#include "wire/sparse.h"

/* Chunks are worked on in batches that stay in cache; a multiple of 8 (wire/sparse.h). */
enum { BATCH_1D = 64, BATCH_2D = 8 };

typedef struct demo {
    float *basis;             /* [c, c] */
    unsigned char **messages; /* [n_buckets] mine, unchanged until peers have read it */
    int64_t *message_bytes;   /* [n_buckets] */
    int64_t *sent_step; /* [n_buckets] the step whose message is on its way, or -1 */
    const unsigned char **views; /* [R] the messages of one bucket */
    /* one batch each: [batch, chunk elements] */
    float *chunks, *spectrum, *scratch, *values;
    int32_t *indices, *senders;
    uint32_t *keys;
} demo;

static wefti_chunks cut(const wefti_replicator_config *config, const wefti_piece *piece) {
    return wefti_chunks_make(config->compression_dims, config->compression_chunk,
                             config->compression_topk, piece->rows, piece->cols);
}

static wefti_sparse section_of(const wefti_chunks *s) {
    return (wefti_sparse){.n_chunks = s->n, .k = s->k, .elements = s->elements};
}

static int64_t demo_state_floats(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket) {
    (void)config;
    return bucket->n_elements;
}

static int64_t message_bytes(const wefti_replicator_config *config,
                             const wefti_bucket *bucket) {
    int64_t n_bytes = WEFTI_FRAME_BYTES;
    for (int i = 0; i < bucket->n_pieces; i++) {
        wefti_chunks s = cut(config, &bucket->pieces[i]);
        wefti_sparse section = section_of(&s);
        n_bytes += wefti_sparse_bytes(&section);
    }
    return n_bytes;
}

static int64_t demo_wire_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *bucket, int R, int rank) {
    (void)rank;
    return (R - 1) * message_bytes(config, bucket);
}

static int64_t batch_floats(const wefti_replicator_config *config) {
    int64_t c = config->compression_chunk;
    return config->compression_dims == 2 ? BATCH_2D * c * c : BATCH_1D * c;
}

static int64_t demo_work_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R) {
    (void)R;
    int64_t n_bytes = 7 * 4 * batch_floats(config);
    for (int b = 0; b < n_buckets; b++) n_bytes += message_bytes(config, &buckets[b]);
    return n_bytes;
}

static weft_status check_knobs(weft_ctx *ctx, const wefti_replicator_config *config) {
    int64_t c = config->compression_chunk, k = config->compression_topk;
    int dims = config->compression_dims;
    if (dims != 1 && dims != 2)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_dims is %d, expected 1 or 2", dims);
    if (c < 2 || c > 1024)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_chunk is %lld, expected 2 to 1024",
                             (long long)c);
    if (k < 1 || k > (dims == 2 ? c * c : c))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_topk is %lld, expected 1 to %lld",
                             (long long)k, (long long)(dims == 2 ? c * c : c));
    return WEFT_OK;
}

static weft_status allocate_batch(wefti_replicator *r, demo *self) {
    int64_t n = batch_floats(&r->config), c = r->config.compression_chunk;
    WEFT_TRY(wefti_alloc_n(r->ctx, c * c, sizeof(float), "the DCT basis", &self->basis));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "demo chunks", &self->chunks));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "demo spectrum", &self->spectrum));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "demo scratch", &self->scratch));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "demo values", &self->values));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(int32_t), "demo indices", &self->indices));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(int32_t), "demo senders", &self->senders));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(uint32_t), "demo keys", &self->keys));
    wefti_dct_basis(c, self->basis);
    return WEFT_OK;
}

static weft_status demo_create(wefti_replicator *r) {
    WEFT_TRY(check_knobs(r->ctx, &r->config));
    demo *self;
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "the demo replicator", &self));
    r->self = self;
    WEFT_TRY(allocate_batch(r, self));
    int n = r->n_buckets, R = r->comm->size;
    WEFT_TRY(wefti_alloc_n(r->ctx, R, sizeof(void *), "messages", &self->views));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(void *), "messages", &self->messages));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(int64_t), "messages", &self->message_bytes));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(int64_t), "steps", &self->sent_step));
    for (int b = 0; b < n; b++) {
        self->sent_step[b] = -1;
        self->message_bytes[b] = message_bytes(&r->config, &r->buckets[b]);
        WEFT_TRY(wefti_alloc_n(r->ctx, self->message_bytes[b], 1, "a demo message",
                               &self->messages[b]));
    }
    return WEFT_OK;
}

static void transform(wefti_replicator *r, const wefti_chunks *s, int64_t n, bool inverse,
                      const float *x, float *out) {
    demo *self = r->self;
    if (s->lines > 1)
        wefti_dct_blocks(r->kernels, s->c, self->basis, n, inverse, x, out,
                         self->scratch);
    else
        wefti_dct_vectors(r->kernels, s->c, self->basis, n, inverse, x, out);
}

/* m <- m - IDCT(q): the selected coefficients alone, inverted, subtracted. */
static void subtract_sent(wefti_replicator *r, const wefti_chunks *s, int64_t first,
                          int64_t n, float *m) {
    demo *self = r->self;
    memset(self->spectrum, 0, (size_t)(n * s->elements) * sizeof(float));
    for (int64_t i = 0; i < n * s->k; i++)
        self->spectrum[i / s->k * s->elements + self->indices[i]] = self->values[i];
    transform(r, s, n, true, self->spectrum, self->chunks);
    wefti_chunks_subtract(s, first, n, self->chunks, m);
}

/* Writes one piece's section and keeps in m what was not sent. */
static void encode_piece(wefti_replicator *r, const wefti_chunks *s, float *m,
                         unsigned char *section) {
    demo *self = r->self;
    wefti_sparse sparse = section_of(s);
    int64_t batch = s->lines > 1 ? BATCH_2D : BATCH_1D;
    for (int64_t first = 0; first < s->n; first += batch) {
        int64_t n = s->n - first < batch ? s->n - first : batch;
        wefti_chunks_load(s, first, n, m, self->chunks);
        transform(r, s, n, false, self->chunks, self->spectrum);
        for (int64_t i = 0; i < n; i++)
            wefti_topk(s->elements, self->spectrum + i * s->elements, s->k,
                       self->indices + i * s->k, self->values + i * s->k, self->keys);
        wefti_sparse_encode(&sparse, first, n, self->indices, self->values, section);
        subtract_sent(r, s, first, n, m);
    }
}

static void accumulate_momentum(wefti_replicator *r, int bucket, float lr,
                                const float *grad) {
    int64_t n = r->buckets[bucket].n_elements;
    float beta = (float)r->config.compression_decay, *m = r->state[bucket];
    for (int64_t i = 0; i < n; i++) m[i] = beta * m[i] + lr * grad[i];
}

static weft_status demo_begin(wefti_replicator *r, int bucket, int64_t step, float lr,
                              float *grad) {
    demo *self = r->self;
    const wefti_bucket *b = &r->buckets[bucket];
    accumulate_momentum(r, bucket, lr, grad);
    if (!wefti_replicator_is_due(&r->config, step)) return WEFT_OK;
    int64_t sent = self->sent_step[bucket];
    if (sent >= 0)
        WEFT_TRY(wefti_comm_await(r->comm, wefti_replicator_tag(sent, bucket, 0)));
    unsigned char *message = self->messages[bucket],
                  *section = message + WEFTI_FRAME_BYTES;
    for (int i = 0; i < b->n_pieces; i++) {
        wefti_chunks s = cut(&r->config, &b->pieces[i]);
        wefti_sparse sparse = section_of(&s);
        encode_piece(r, &s, r->state[bucket] + b->pieces[i].offset, section);
        section += wefti_sparse_bytes(&sparse);
    }
    wefti_frame frame = {.kind = WEFTI_FRAME_DEMO,
                         .step = step,
                         .bucket = bucket,
                         .sender = r->comm->rank,
                         .payload_bytes = self->message_bytes[bucket] -
                                          WEFTI_FRAME_BYTES};
    wefti_frame_encode(&frame, message);
    self->sent_step[bucket] = step;
    return wefti_comm_send_all(r->comm, wefti_replicator_tag(step, bucket, 0), message,
                               self->message_bytes[bucket]);
}

/* spectrum <- per coefficient, the mean over the ranks that sent it, in rank order. */
static weft_status combine_batch(wefti_replicator *r, const wefti_chunks *s,
                                 int64_t first, int64_t n, int64_t section) {
    demo *self = r->self;
    wefti_sparse sparse = section_of(s);
    memset(self->spectrum, 0, (size_t)(n * s->elements) * sizeof(float));
    memset(self->senders, 0, (size_t)(n * s->elements) * sizeof(int32_t));
    for (int rank = 0; rank < r->comm->size; rank++) {
        WEFT_TRY(wefti_sparse_decode(r->ctx, &sparse, first, n,
                                     self->views[rank] + section, self->indices,
                                     self->values));
        for (int64_t i = 0; i < n * s->k; i++) {
            int64_t at = i / s->k * s->elements + self->indices[i];
            self->spectrum[at] += self->values[i];
            self->senders[at]++;
        }
    }
    for (int64_t i = 0; i < n * s->elements; i++)
        if (self->senders[i] > 1) self->spectrum[i] /= (float)self->senders[i];
    return WEFT_OK;
}

static weft_status decode_piece(wefti_replicator *r, const wefti_chunks *s,
                                int64_t section, float *d) {
    demo *self = r->self;
    int64_t batch = s->lines > 1 ? BATCH_2D : BATCH_1D;
    for (int64_t first = 0; first < s->n; first += batch) {
        int64_t n = s->n - first < batch ? s->n - first : batch;
        WEFT_TRY(combine_batch(r, s, first, n, section));
        transform(r, s, n, true, self->spectrum, self->chunks);
        if (r->config.sign)
            wefti_chunks_store_sign(s, first, n, self->chunks, d);
        else
            wefti_chunks_store(s, first, n, self->chunks, d);
    }
    return WEFT_OK;
}

static weft_status decode_all(wefti_replicator *r, int bucket, float *d) {
    const wefti_bucket *b = &r->buckets[bucket];
    int64_t section = WEFTI_FRAME_BYTES;
    for (int i = 0; i < b->n_pieces; i++) {
        wefti_chunks s = cut(&r->config, &b->pieces[i]);
        wefti_sparse sparse = section_of(&s);
        WEFT_TRY(decode_piece(r, &s, section, d + b->pieces[i].offset));
        section += wefti_sparse_bytes(&sparse);
    }
    return WEFT_OK;
}

/* Fills views[] with every rank's checked message. */
static weft_status collect(wefti_replicator *r, int bucket, int64_t step) {
    demo *self = r->self;
    int64_t n_bytes = self->message_bytes[bucket];
    for (int rank = 0; rank < r->comm->size; rank++) {
        const void *view = self->messages[bucket];
        if (rank != r->comm->rank)
            WEFT_TRY(wefti_comm_receive(
                r->comm, rank, wefti_replicator_tag(step, bucket, 0), n_bytes, &view));
        self->views[rank] = view;
        wefti_frame frame = {.kind = WEFTI_FRAME_DEMO,
                             .step = step,
                             .bucket = bucket,
                             .sender = rank,
                             .payload_bytes = n_bytes - WEFTI_FRAME_BYTES};
        if (rank != r->comm->rank)
            WEFT_TRY(wefti_frame_check(r->ctx, &frame, view, n_bytes));
    }
    return WEFT_OK;
}

/* A step that exchanges nothing moves nothing: the momentum keeps the gradient. */
static weft_status demo_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    size_t n_bytes = (size_t)r->buckets[bucket].n_elements * sizeof(float);
    if (!wefti_replicator_is_due(&r->config, step)) {
        memset(grad, 0, n_bytes);
        return WEFT_OK;
    }
    WEFT_TRY(collect(r, bucket, step));
    WEFT_TRY(decode_all(r, bucket, grad));
    for (int rank = 0; rank < r->comm->size; rank++)
        if (rank != r->comm->rank)
            wefti_comm_release(r->comm, rank, wefti_replicator_tag(step, bucket, 0));
    return WEFT_OK;
}

static void demo_destroy(wefti_replicator *r) {
    demo *self = r->self;
    if (!self) return;
    for (int b = 0; self->messages && b < r->n_buckets; b++)
        wefti_free(r->ctx, self->messages[b]);
    void *blocks[] = {self->basis,  self->messages, self->message_bytes, self->sent_step,
                      self->views,  self->chunks,   self->spectrum,      self->scratch,
                      self->values, self->indices,  self->senders,       self->keys};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(r->ctx, blocks[i]);
    wefti_free(r->ctx, self);
}

const wefti_replicator_ops wefti_replicator_demo = {
    .name = "demo",
    .summary = "the k fastest-moving DCT coefficients of each chunk of a local momentum",
    .state_floats = demo_state_floats,
    .wire_bytes = demo_wire_bytes,
    .work_bytes = demo_work_bytes,
    .create = demo_create,
    .begin = demo_begin,
    .end = demo_end,
    .destroy = demo_destroy,
};
