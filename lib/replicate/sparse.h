/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* A bucket of which k numbers of each chunk of c are sent, coded: for replicators that
 * choose the largest (topk.c). Each piece is cut into chunks from its first element on;
 * the last chunk is filled up with zeros. */
typedef struct wefti_sparse wefti_sparse;

/* Bytes of a bucket's message, with its head, and of working memory. */
int64_t wefti_sparse_bytes(const wefti_replicator_config *config,
                           const wefti_bucket *bucket);
int64_t wefti_sparse_work_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *buckets, int n_buckets, int R);

/* Makes r->self; checks the chunks and codecs of r->config. */
weft_status wefti_sparse_create(wefti_replicator *r) WEFT_CHECKED;
void wefti_sparse_destroy(wefti_replicator *r);

/* out <- the largest of the bucket's m, from which alpha times the decoded values is
 * taken; or what the caller offers. */
void wefti_sparse_encode(wefti_replicator *r, const wefti_round *round, float *m,
                         unsigned char *out);

wefti_offer_shape wefti_sparse_offers(const wefti_replicator_config *config,
                                      const wefti_piece *piece);

/* d += what a message holds. */
weft_status wefti_sparse_add(wefti_replicator *r, const wefti_round *round,
                             const unsigned char *in, float *d) WEFT_CHECKED;

/* Entries of the table (replicator.h). */
extern const char *const wefti_sparse_keys[], *const wefti_sparse_knobs[];
void wefti_sparse_label(const wefti_replicator_config *config, char *out, size_t size);
wefti_content wefti_sparse_content(const wefti_replicator_config *config,
                                   const wefti_bucket *bucket);
