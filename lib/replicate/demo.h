/* SPDX-License-Identifier: MIT */
#pragma once

#include "compress/spectrum.h"
#include "replicate/demo_cut.h"

/* What the files of the demo replicator share: demo.c is its phases, demo_room.c its
 * memory, demo_cut.c its lengths, demo_batch.c and demo_answer.c its arithmetic. */

/* A bucket that has been cut. */
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

typedef struct wefti_demo {
    wefti_demo_rules rules;
    int threads;
    wefti_binomials *tables[WEFTI_DEMO_KINDS]; /* owned, like all that follows */
    wefti_spectrum *spectrum;
    wefti_demo_bucket *buckets;
    wefti_demo_part *parts;
    wefti_demo_place *edges;
    const unsigned char **views; /* [R] the payloads of one range that count, by rank */
    wefti_demo_scratch *scratch; /* [threads] */
    void *lists, *room;          /* what scratch points to */
} wefti_demo;

/* Bytes of working memory, and that memory (r->self, made by create). */
int64_t wefti_demo_room_bytes(const wefti_replicator_config *config,
                              const wefti_bucket *buckets, int n_buckets, int R);
weft_status wefti_demo_room_create(wefti_replicator *r) WEFT_CHECKED;
void wefti_demo_room_destroy(wefti_replicator *r);

/* A pass over the blocks of one range of a bucket. */
typedef struct wefti_demo_pass {
    wefti_replicator *r;
    const wefti_demo_bucket *bucket;
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

/* d <- the direction, from the views of the range. */
weft_status wefti_demo_combine(const wefti_demo_pass *pass,
                               const wefti_demo_scratch *scratch,
                               wefti_demo_batch batch) WEFT_CHECKED;

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
