/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* The list of replicators with sensible knobs that is measured (gauge.c), and the least
 * that each has to do. Signs are on, as in FlexDeMo; full ignores this. */

/* Variant i, for one thread; false past the last. Texts live as long as the program. */
bool wefti_variant_at(int i, wefti_replicator_config *out);

/* In a few words, "demo 4/64 int8 all_gather"; and the keys that a run would set, with a
 * space between them. Returns out. */
char *wefti_variant_name(const wefti_replicator_config *config, char *out, size_t size);
char *wefti_variant_keys(const wefti_replicator_config *config, char *out, size_t size);

/* Buckets of one of R nodes. */
typedef struct wefti_variant_load {
    const wefti_bucket *buckets; /* borrowed */
    int n_buckets, R;
} wefti_variant_load;

/* The work of a node's step, all buckets and their messages together. */
typedef struct wefti_variant_work {
    double elements;    /* parameters */
    double values;      /* numbers that a node has to send: coefficients, elements */
    double floor_bytes; /* gradient, state and direction, read and written once */
    double wire_bits;   /* sent by a node, the mean of all R */
    double bound_bits;  /* the same without heads, scales and whole bits */
} wefti_variant_work;

/* Floor, in bytes per parameter (docs/prediction.md says why): demo 16; random, striding,
 * slicing 12 and 4 per value; full 4 (3 - 1/R), 0 if R = 1; with coded values 16.
 *
 * Bound: a value takes the bits of its codec, a chunk's set of k of c places log2 C(c,
 * k), an answered sign 1 bit, or log2 3 where it may be 0. */
wefti_variant_work wefti_variant_work_of(const wefti_replicator_config *config,
                                         const wefti_variant_load *load);
