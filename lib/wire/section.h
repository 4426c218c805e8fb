/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The coded numbers of one tensor block (docs/wire-format.md, "Sections").
 *
 * A section is a row of blocks. A block holds the kept coefficients of a few chunks, with
 * one scale for all its values, and begins and ends on a byte, so blocks are coded in any
 * order, by several threads, and a message may carry any run of them. All full blocks of
 * a section have the same length, so every length is known in advance.
 *
 *     sparse section   n_chunks chunks, k of `elements` coefficients each. A block has
 *                      block_chunks chunks, enough for WEFTI_BLOCK_VALUES values
 *     dense section    n values, WEFTI_BLOCK_VALUES per block, no indices
 *
 * No numerical failure is hidden: f32 and bf16 carry values that are not finite; the
 * other codecs make all values of a block NaN that has such a value, or one of 2^100 and
 * more. */
enum { WEFTI_BLOCK_VALUES = 64 };

#define WEFTI_CODEC(constant, name, summary) WEFTI_VALUES_##constant,
typedef enum wefti_value_codec {
#include "wire/valuecodecs.def"
    WEFTI_VALUE_CODECS
} wefti_value_codec;
#undef WEFTI_CODEC

#define WEFTI_CODEC(constant, name, summary) WEFTI_INDICES_##constant,
typedef enum wefti_index_codec {
#include "wire/indexcodecs.def"
    WEFTI_INDEX_CODECS
} wefti_index_codec;
#undef WEFTI_CODEC

/* How a value between two steps of an integer codec is rounded: to the nearest, or up
 * with the probability that makes the mean right, to 2^-16. The choice is a function of
 * (seed, step, place, number of the value in the section) alone; sections that differ in
 * seed, step or place are independent. */
typedef struct wefti_rounding {
    bool stochastic;
    uint64_t seed, step, place; /* place: which section; unique within a step and rank */
} wefti_rounding;

enum { WEFTI_GROUP_MAX = 16 };

typedef struct wefti_section {
    int64_t n_chunks, k, elements;
    int64_t n_values; /* n_chunks * k, or the n of a dense section */
    wefti_value_codec values;
    wefti_index_codec indices; /* never AUTO; unused in a dense section */
    bool dense;
    int64_t block_chunks; /* chunks per full block (dense: 1 chunk of 64 values) */
    int64_t block_values, block_bytes; /* of a full block */
    int64_t n_blocks;
    const struct wefti_binomials *binomials; /* ENUMERATIVE: borrowed, else NULL */
    /* internal */
    const struct wefti_value_ops *value_ops;
    const struct wefti_index_ops *index_ops;
    int group;                           /* chunks whose indices are coded together */
    int group_bits[WEFTI_GROUP_MAX + 1]; /* bits of r such chunks, r <= group */
    int64_t block_index_bits;            /* of a full block */
} wefti_section;

/* Binomial coefficients for the enumerative code of k out of `elements`; made once per
 * (elements, k) at creation, shared by sections and threads. A table of more than
 * WEFTI_BINOMIALS_MAX_BYTES is refused (WEFT_ERR_CONFIG). */
typedef struct wefti_binomials wefti_binomials;
weft_status wefti_binomials_create(weft_ctx *ctx, int64_t elements, int64_t k,
                                   wefti_binomials **out) WEFT_CHECKED;
void wefti_binomials_destroy(weft_ctx *ctx, wefti_binomials *binomials);
/* Bytes that a table takes, in one block; some number above WEFTI_BINOMIALS_MAX_BYTES if
 * it would take more. AUTO does not choose enumerative then. */
int64_t wefti_binomials_bytes(int64_t elements, int64_t k);
enum { WEFTI_BINOMIALS_MAX_BYTES = 1 << 25 };

/* Which index codec AUTO stands for: the shortest for (elements, k). */
wefti_index_codec wefti_index_codec_choose(wefti_index_codec wanted, int64_t elements,
                                           int64_t k);

/* Lengths follow from these alone; `binomials` may be NULL if nothing is coded. AUTO, and
 * ENUMERATIVE without a table, compute what is in it: 2 us for 4 of 64, 0.1 ms for 32 of
 * 4096, 10 ms for 256 of 4096. */
wefti_section wefti_section_sparse(int64_t n_chunks, int64_t k, int64_t elements,
                                   wefti_value_codec values, wefti_index_codec indices,
                                   const wefti_binomials *binomials);
wefti_section wefti_section_dense(int64_t n_values, wefti_value_codec values);

/* The same section with another number of chunks: its blocks do not depend on that
 * number. */
wefti_section wefti_section_of_chunks(const wefti_section *section, int64_t n_chunks);

/* Bytes of the table of binomials that its indices need (wefti_binomials_bytes); 0: none. */
int64_t wefti_section_table_bytes(const wefti_section *section);

/* Bytes of blocks [first, first + n). Offsets of a block: wefti_section_bytes(s, 0, b).
 */
int64_t wefti_section_bytes(const wefti_section *s, int64_t first, int64_t n);
/* Values (and chunks) of block b; the last one may be shorter. */
int64_t wefti_section_block_values(const wefti_section *s, int64_t b);
int64_t wefti_section_block_chunks(const wefti_section *s, int64_t b);

/* Codes one block to wefti_section_bytes(s, b, 1) bytes, the same ones on every
 * processor. indices[block values]: ascending inside a chunk, NULL if dense. [in,out]
 * values[block values]: afterwards what the receiver will decode, bit for bit. rounding
 * NULL: to the nearest. */
void wefti_section_encode(const wefti_section *s, int64_t b, const int32_t *indices,
                          float *values, const wefti_rounding *rounding,
                          unsigned char *out);

/* Decodes one block from `in`, which has wefti_section_bytes(s, b, 1) bytes. Only
 * ascending indices below `elements`, and bytes that encode could have written, are
 * accepted: everything else is WEFT_ERR_WIRE. */
weft_status wefti_section_decode(weft_ctx *ctx, const wefti_section *s, int64_t b,
                                 const unsigned char *in, int32_t *indices,
                                 float *values) WEFT_CHECKED;

/* What becomes of what coding loses. */
typedef enum wefti_rest {
    WEFTI_REST_NONE, /* nothing */
    WEFTI_REST_SENT, /* it replaces `rest`, which is added to the values before */
    WEFTI_REST_NEW,  /* rest <- `times` what is lost */
    WEFTI_REST_MORE  /* rest += that */
} wefti_rest;

/* Several blocks of a dense section. */
typedef struct wefti_blocks {
    int64_t first, n;
    const float *from; /* their values, without `share`; nothing when decoding */
    float *values;     /* NULL, or what the receiver decodes; may be `from` */
    float *rest;
    wefti_rest kind; /* of rest */
    float share;     /* what `from` is multiplied by, each number rounded */
    float times;
    bool add; /* when decoding, to `values` */
} wefti_blocks;

/* The same bytes and values as block by block. If decoding fails, values are undefined. */
void wefti_section_encode_blocks(const wefti_section *s, const wefti_blocks *blocks,
                                 const wefti_rounding *rounding, unsigned char *out);
weft_status wefti_section_decode_blocks(weft_ctx *ctx, const wefti_section *s,
                                        const wefti_blocks *blocks,
                                        const unsigned char *in) WEFT_CHECKED;

/* For sparse sections whose values are sent in a form of their own, the indices of block
 * b alone: their bytes, coding, and reading them back. */
int64_t wefti_section_index_bytes(const wefti_section *s, int64_t b);
void wefti_section_encode_indices(const wefti_section *s, int64_t b,
                                  const int32_t *indices, unsigned char *out);
weft_status wefti_section_decode_indices(weft_ctx *ctx, const wefti_section *s, int64_t b,
                                         const unsigned char *in,
                                         int32_t *indices) WEFT_CHECKED;

/* Names as in configurations: f32 bf16 int8 int4 sign; auto fixed bitmap enumerative.
 * -1: unknown. */
int wefti_value_codec_find(const char *name);
int wefti_index_codec_find(const char *name);
