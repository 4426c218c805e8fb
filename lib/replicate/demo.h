/* SPDX-License-Identifier: MIT */
#pragma once

#include "compress/chunks.h"
#include "compress/spectrum.h"
#include "replicate/replicator.h"

/* How demo cuts a bucket. The cut is computed from the bucket's pieces alone, so that
 * every rank knows the length of every message in advance (docs/wire-format.md section
 * 8):
 *
 *     part     a piece: coded as one section (wire/section.h), sparse or dense
 *     block    the smallest part of a section; numbered through the bucket
 *     range    neighbouring blocks that one rank combines: R ranges, or one
 *     batch    neighbouring blocks of one part that one thread works on at a time
 *
 * A payload is a sequence of blocks, an answer has an answer block for each of them. */

/* Kinds of chunks: those of matrices and those of vectors. With compression_dims = 1 all
 * are of the first kind. */
enum { WEFTI_DEMO_MATRICES, WEFTI_DEMO_VECTORS, WEFTI_DEMO_KINDS };

/* All that a cut depends on. */
typedef struct wefti_demo_rules {
    const wefti_replicator_config *config;    /* borrowed */
    wefti_value_codec values;                 /* in which the cut is sent */
    wefti_section sections[WEFTI_DEMO_KINDS]; /* of one chunk of each kind */
    int R;
} wefti_demo_rules;

/* What lies before a block in its bucket. */
typedef struct wefti_demo_place {
    int64_t block;  /* its number */
    int64_t weight; /* elements, with the padding of chunks: what combining them costs */
    int64_t payload_bytes, answer_bytes;
} wefti_demo_place;

typedef struct wefti_demo_part {
    int64_t offset;      /* of its first element in the bucket */
    wefti_chunks chunks; /* of a sparse part; elements = 1 in a dense one */
    wefti_section section;
    int64_t batch_blocks;   /* blocks of a batch; the part's last one may be shorter */
    wefti_demo_place first; /* where its first block lies */
    int64_t first_batch;    /* its number in the bucket */
} wefti_demo_part;

/* Tables may be NULL if only lengths are asked for; one per kind, NULL if not needed. */
wefti_demo_rules wefti_demo_rules_make(const wefti_replicator_config *config, int R,
                                       wefti_binomials *const *tables);

/* The kind of a piece's chunks; -1: it is dense. */
int wefti_demo_kind(const wefti_replicator_config *config, const wefti_piece *piece);

/* The part of a piece that follows `before` (NULL: the bucket's first). */
wefti_demo_part wefti_demo_part_make(const wefti_demo_rules *rules,
                                     const wefti_piece *piece,
                                     const wefti_demo_part *before);

/* Where block b of a part lies in the bucket; b = n_blocks: where the part ends. */
wefti_demo_place wefti_demo_place_of(const wefti_demo_rules *rules,
                                     const wefti_demo_part *part, int64_t b);

/* Chunks (sparse) or values (dense) of blocks [first, first + n) of a part. */
int64_t wefti_demo_items(const wefti_demo_part *part, int64_t first, int64_t n);

/* Where a bucket ends. */
wefti_demo_place wefti_demo_end(const wefti_demo_rules *rules,
                                const wefti_bucket *bucket);

/* Where range j of R begins (j = R: where the last one ends): at the block boundary
 * nearest to j/R of the weight. A range may be empty: then it has no messages. */
wefti_demo_place wefti_demo_edge(const wefti_demo_rules *rules,
                                 const wefti_bucket *bucket, int j);

/* Whether the bucket takes the owners' route: as the configuration says, or else if that
 * is faster on a wire of known rate and latency, or else if all ranks together send fewer
 * bytes; the same on every rank. */
bool wefti_demo_by_owner(const wefti_demo_rules *rules, const wefti_bucket *bucket);

/* Payload bytes of a round's message. By owners: of the range that goes to (round 0) or
 * comes from (round 1) this owner; else of the whole bucket. */
int64_t wefti_demo_bytes_about(const wefti_demo_rules *rules, const wefti_bucket *bucket,
                               int round, int owner);

/* What the files of the demo replicator share: demo.c is its phases, demo_room.c its
 * memory, demo_cut.c its lengths, demo_batch.c and demo_answer.c its arithmetic. */

/* A bucket that has been cut, for what is sent in one codec: cuts differ in bytes alone. */
typedef struct wefti_demo_bucket {
    int n_parts;
    wefti_demo_part *parts; /* [n_parts], in wefti_demo.parts */
    bool by_owner;
    int n_ranges;            /* R by owner, else 1 */
    wefti_demo_place *edges; /* [n_ranges + 1], in wefti_demo.edges */
} wefti_demo_bucket;

/* What one thread works with. */
typedef struct wefti_demo_scratch {
    int thread;
    int32_t **indices;            /* [R][batch values] a batch's coefficients, by rank */
    float **values;               /* [R][batch values] */
    float *chunk;                 /* the elements of one chunk */
    unsigned char *states, *bits; /* of a batch's chunks */
} wefti_demo_scratch;

/* A payload of one range that counts, and whose it is. */
typedef struct wefti_demo_view {
    const unsigned char *payload;
    int member;
} wefti_demo_view;

typedef struct wefti_demo {
    wefti_demo_rules rules;
    int threads;
    wefti_binomials *tables[WEFTI_DEMO_KINDS]; /* owned, like all that follows */
    wefti_spectrum *spectrum;
    wefti_demo_bucket *buckets; /* [wefti_values_rows][n_buckets] */
    wefti_demo_part *parts;
    wefti_demo_place *edges;
    wefti_demo_view *views;      /* [R] by rank */
    wefti_demo_scratch *scratch; /* [threads] */
    void *lists, *room;          /* what scratch points to */
} wefti_demo;

/* Bytes of working memory, and that memory (r->self, made by create). */
int64_t wefti_demo_room_bytes(const wefti_replicator_config *config,
                              const wefti_bucket *buckets, int n_buckets, int R);
weft_status wefti_demo_room_create(wefti_replicator *r) WEFT_CHECKED;
void wefti_demo_room_destroy(wefti_replicator *r);

/* Bucket b as a member sends it. */
static inline const wefti_demo_bucket *wefti_demo_bucket_of(const wefti_replicator *r,
                                                            int member, int64_t b) {
    const wefti_demo *self = r->self;
    return &self->buckets[wefti_values_row(&r->config, member) * r->n_buckets + b];
}

/* A pass over the blocks of one range of a bucket. */
typedef struct wefti_demo_pass {
    wefti_replicator *r;
    int number;                      /* of the bucket */
    const wefti_demo_bucket *bucket; /* as this rank sends it */
    int range;
    int counted;                   /* receiving: number of views */
    double weight;                 /* and by what their sum is divided */
    wefti_momentum momentum;       /* sending */
    wefti_rounding rounding;       /* sending; place is the batch's */
    const float *g;                /* sending */
    float *m;                      /* sending */
    unsigned char *payload;        /* sending: of the range, written */
    float *d;                      /* receiving */
    unsigned char *answer;         /* payload of the range's answer: written */
    const unsigned char *answered; /* the same: read */
} wefti_demo_pass;

typedef struct wefti_demo_batch {
    const wefti_demo_part *part;
    int64_t first_block, n_blocks;
    int64_t first, n; /* chunks of the part; of a dense one, values */
} wefti_demo_batch;

typedef weft_status (*wefti_demo_work)(const wefti_demo_pass *pass,
                                       const wefti_demo_scratch *scratch,
                                       wefti_demo_batch batch);

/* Does the work on every batch, with the replicator's threads, in any order. */
weft_status wefti_demo_run(const wefti_demo_pass *pass,
                           wefti_demo_work work) WEFT_CHECKED;

/* m <- decay m + gain g; writes what is sent of it into the message and takes it out. */
weft_status wefti_demo_send(const wefti_demo_pass *pass,
                            const wefti_demo_scratch *scratch,
                            wefti_demo_batch batch) WEFT_CHECKED;

/* d <- the direction, from the views of the range; or what is in the views to a caller
 * that has room for it, who hears so from the other one. */
weft_status wefti_demo_combine(const wefti_demo_pass *pass,
                               const wefti_demo_scratch *scratch,
                               wefti_demo_batch batch) WEFT_CHECKED;
void wefti_demo_heard(const wefti_demo_pass *pass);

/* The same in two steps: the answer from the views, and d from an answer. The first one
 * uses d, too. */
weft_status wefti_demo_answer(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch,
                              wefti_demo_batch batch) WEFT_CHECKED;
weft_status wefti_demo_follow(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch,
                              wefti_demo_batch batch) WEFT_CHECKED;

/* Decodes a batch of all ranks into scratch, from the views of the range. */
weft_status wefti_demo_decode(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch,
                              wefti_demo_batch batch) WEFT_CHECKED;

/* scratch->values[0] <- the mean over the views of n numbers of a dense batch. */
void wefti_demo_mean(const wefti_demo_pass *pass, int64_t n,
                     const wefti_demo_scratch *scratch);
