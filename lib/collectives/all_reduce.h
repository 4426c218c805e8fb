/* SPDX-License-Identifier: MIT */
#pragma once

#include "collectives/robust.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "wire/section.h"

/* The mean of a vector over the ranks of a group, direct, in two rounds of messages
 * (docs/wire-format.md section 5):
 *
 *     begin:   range j of my vector goes to rank j
 *     combine: the sum of my range over ranks 0, 1, ... times 1/R goes to all
 *     end:     the ranges are put together
 *
 * All ranks get the same bits, because each element is added by one rank in rank order. The
 * numbers of either round may be coded. A rank's own range is coded in the same way as what
 * it sends, also with R = 1: so R equal ranks give the same result as one rank.
 *
 * One object serves several vectors, each with its own length and messages; their exchanges
 * may overlap. */

typedef struct wefti_coding {
    wefti_value_codec values;
    bool sign; /* the result is the sign of the mean: -1, 0, 1; NaN if not finite */
    bool stochastic;
    uint64_t seed;       /* of stochastic rounding */
    int threads;         /* threads that code and decode */
    wefti_robust robust; /* how the ranks' numbers become their mean */
} wefti_coding;

typedef struct wefti_range {
    int64_t begin, n;
} wefti_range;

typedef struct wefti_all_reduce wefti_all_reduce;

typedef struct wefti_all_reduce_setup {
    weft_ctx *ctx; /* borrowed, like kernels and comm */
    const wefti_kernels *kernels;
    wefti_comm *comm;
    wefti_coding coding;
    int stage; /* of the first round's tags; the second has the next one */
    int n_vectors;
} wefti_all_reduce_setup;

/* Whether coding loses something that a caller has to keep for later. */
bool wefti_coding_loses(const wefti_coding *coding);

/* Payload bytes of a message about the range of rank `owner` in a vector of n: in round 0
 * every rank sends one to the owner, in round 1 the owner sends one to every other rank. */
int64_t wefti_all_reduce_round_bytes(const wefti_coding *coding, int64_t n, int R,
                                     int round, int owner);

/* An upper bound of the working memory that wefti_all_reduce_open takes, in bytes. */
int64_t wefti_all_reduce_work_bytes(const wefti_coding *coding, int64_t n, int R);

/* What create takes for coding.robust, however many vectors there are. */
int64_t wefti_all_reduce_room_bytes(const wefti_coding *coding, int R);

/* An unknown value codec is WEFT_ERR_CONFIG. Not collective. */
weft_status wefti_all_reduce_create(const wefti_all_reduce_setup *setup,
                                    wefti_all_reduce **out) WEFT_CHECKED;
void wefti_all_reduce_destroy(wefti_all_reduce *a); /* NULL is accepted */

/* Allocates buffers for a vector of n elements; once for each vector, before its first use. */
weft_status wefti_all_reduce_open(wefti_all_reduce *a, int vector,
                                  int64_t n) WEFT_CHECKED;

/* Sends x [n]; collective, like the next two. kept [n] or NULL: what earlier rounds lost; it
 * is sent too, and replaced by what this round loses; borrowed until `combine` has ended. x is
 * borrowed until end. Without `kept` it is afterwards what the other ranks decode. */
weft_status wefti_all_reduce_begin(wefti_all_reduce *a, int vector, int64_t step,
                                   float *x, float *kept) WEFT_CHECKED;

/* The same with numbers that the caller has coded: the n f32, or the bytes of a dense section
 * of all of them, borrowed until this returns. [out] x: as above. */
weft_status wefti_all_reduce_begin_coded(wefti_all_reduce *a, int vector, int64_t step,
                                         const unsigned char *coded,
                                         float *x) WEFT_CHECKED;

/* How a rank rounds what it sends in `begin`, if that is stochastic. */
wefti_rounding wefti_all_reduce_rounding(const wefti_all_reduce *a, int vector,
                                         int64_t step);

/* Answers. What coding the mean loses is added to `kept`, R times. [out] lost: where begin got
 * no `kept`, the range in which x now contains it; n = 0 if there is none. */
weft_status wefti_all_reduce_combine(wefti_all_reduce *a, int vector, int64_t step,
                                     float *x, wefti_range *lost) WEFT_CHECKED;

/* x becomes the mean, or its sign. */
weft_status wefti_all_reduce_end(wefti_all_reduce *a, int vector, int64_t step,
                                 float *x) WEFT_CHECKED;
