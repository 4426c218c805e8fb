/* SPDX-License-Identifier: MIT */
#pragma once

#include "compress/chunks.h"
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
