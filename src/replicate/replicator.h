/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_REPLICATOR_H
#define WEFTI_REPLICATOR_H

#include <weft/ctx.h>

#include "comm/comm.h"
#include "tensor/kernels.h"

/* Gradient side of the step: turns this node's gradient into the update direction that
 * all nodes agree on (docs/methods.md: gradient --[replicator]--> agreed update direction).
 *
 * It works on buckets: one or more neighbouring units whose shards lie one after another
 * in one flat buffer and travel in one message. A bucket is a list of pieces, the row
 * blocks of tensors that this rank holds. begin() sends, end() receives and combines;
 * several buckets may be between their begin and end, which run on the exchange thread in
 * bucket order. */

typedef struct wefti_piece {
    int64_t rows, cols; /* a matrix block; cols = 1: a vector */
    int64_t offset;     /* of its first element in the bucket */
    bool decays;        /* weight decay applies; used by optimizers */
} wefti_piece;

typedef struct wefti_bucket {
    int n_pieces;
    const wefti_piece *pieces; /* borrowed */
    int64_t n_elements;
} wefti_bucket;

/* The knobs, named as in the papers. Every replicator reads its own. */
typedef struct wefti_replicator_config {
    const char *kind;
    int64_t compression_topk;
    int64_t compression_chunk;
    double compression_decay;
    int compression_dims; /* 1 or 2 */
    bool sign;
    int64_t every; /* replicate on steps divisible by this; full: 1 */
} wefti_replicator_config;

typedef struct wefti_replicator wefti_replicator;

typedef struct wefti_replicator_ops {
    const char *name;
    const char *summary;
    /* The direction is a mean of gradients, so its norm is what clipping bounds;
     * otherwise clipping bounds the local gradient that goes in. */
    bool keeps_norm;
    /* Floats of state per bucket that a checkpoint must keep (momentum), 0 if none. */
    int64_t (*state_floats)(const wefti_replicator_config *config,
                            const wefti_bucket *bucket);
    /* Payload bytes that `rank` of R sends for one bucket in a step that replicates. */
    int64_t (*wire_bytes)(const wefti_replicator_config *config,
                          const wefti_bucket *bucket, int R, int rank);
    /* Bytes of working memory of a rank: messages and scratch, without state_floats. */
    int64_t (*work_bytes)(const wefti_replicator_config *config,
                          const wefti_bucket *buckets, int n_buckets, int R);
    weft_status (*create)(wefti_replicator *r); /* fills r->self */
    weft_status (*begin)(wefti_replicator *r, int bucket, int64_t step, float lr,
                         float *grad);
    weft_status (*end)(wefti_replicator *r, int bucket, int64_t step, float *grad);
    void (*destroy)(wefti_replicator *r);
} wefti_replicator_ops;

struct wefti_replicator {
    const wefti_replicator_ops *ops;
    weft_ctx *ctx; /* borrowed, like kernels, comm, buckets */
    const wefti_kernels *kernels;
    wefti_comm *comm; /* the replication group */
    wefti_replicator_config config;
    int n_buckets;
    const wefti_bucket *buckets;
    float **state; /* [n_buckets] owned; state[b] has state_floats(b) */
    void *self;    /* the implementation's */
};

/* Creates a replicator; an unknown kind or a bad knob is WEFT_ERR_CONFIG. Not collective.
 */
weft_status wefti_replicator_create(weft_ctx *ctx, const wefti_replicator_config *config,
                                    const wefti_kernels *kernels, wefti_comm *comm,
                                    const wefti_bucket *buckets, int n_buckets,
                                    wefti_replicator **out) WEFT_CHECKED;
void wefti_replicator_destroy(wefti_replicator *r);

/* Starts agreeing on bucket's direction from this rank's gradient [n_elements]. `grad` is
 * borrowed until end() and may be changed. Collective over the replication group. */
weft_status wefti_replicator_begin(wefti_replicator *r, int bucket, int64_t step,
                                   float lr, float *grad) WEFT_CHECKED;

/* Finishes it: grad holds the agreed direction, the same bits on every rank of the group.
 */
weft_status wefti_replicator_end(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad) WEFT_CHECKED;

/* Whether `step` exchanges anything. */
bool wefti_replicator_is_due(const wefti_replicator_config *config, int64_t step);

const wefti_replicator_ops *wefti_replicator_find(const char *kind);
extern const wefti_replicator_ops
    *const wefti_replicator_registry[]; /* NULL-terminated */

/* A tag that no other message of the same communicator uses at the time. stage: 0..7. */
int64_t wefti_replicator_tag(int64_t step, int bucket, int stage);

#endif
