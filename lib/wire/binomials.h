/* SPDX-License-Identifier: MIT */
#pragma once

#include "wire/rounded.h"
#include "wire/section.h"

/* The tables of the enumerative code (docs/wire-format.md, "Sections"):
 *
 *     B(n, 0) = 1, B(0, j) = 0 for j > 0, B(n, j) = up(B(n - 1, j) + B(n - 1, j - 1))
 *
 * where up() rounds up to 20 significant bits. B is at least the binomial coefficient,
 * and larger by a share of about 2^-20 n. So it numbers sets just as well, and a table of
 * it has 32 bits per entry however long the numbers are. */

enum {
    WEFTI_PICKED_MAX = 2048, /* members of a set; a larger table is over the limit */
    WEFTI_NUMBER_WORDS = 80, /* words of 64 bits of a number */
    WEFTI_CURVE_FRACTION = 8 /* bits of fraction of a row's curve */
};

/* What is numbered, for k of `elements`. Long chunks of which little is kept would need
 * large tables; for them the low bits of an index are written as they are, and the upper
 * parts are numbered. These ascend, but not strictly; part j plus j ascends strictly, so
 * that the sums are a set of k of parts + k - 1. That costs less than one per cent. */
typedef struct wefti_binomial_shape {
    int64_t elements, k;
    int low_bits;   /* of an index that are not numbered */
    int64_t places; /* that members of a set are drawn from */
    int64_t picked; /* members: k, or elements - k if that is less and low_bits = 0 */
    wefti_rounded total; /* B(places, picked) */
    int number_bits;     /* of a number below the total */
    bool one_word;       /* total < 2^64: numbers are words, and several are joined */
    int group;           /* chunks per joined number */
    int group_bits[WEFTI_GROUP_MAX + 1]; /* of r chunks, r <= group, low bits included */
    bool narrow, four;                   /* which table: see below */
    int64_t n_bytes;                     /* of the whole table */
} wefti_binomial_shape;

/* Bits of r joined numbers. */
static inline int wefti_joined_bits(const wefti_binomial_shape *shape, int64_t r) {
    return shape->group_bits[r] - (int)(r * shape->k) * shape->low_bits;
}

/* False if a table would take more than WEFTI_BINOMIALS_MAX_BYTES, or if there are more
 * than 2^20 elements. Takes places * picked steps. */
bool wefti_binomial_shape_make(int64_t elements, int64_t k, wefti_binomial_shape *out);

/* Row j of the table holds B(0..places, j), and a way to the largest n with B(n, j) <= x.
 *
 * narrow (places <= 256, total < 2^63): the values as they are. near[] has an entry for
 * the leading bits of x + 1 as a double, 2^near_bits per power of two; the entry is n or
 * n - 1. wide: the values rounded. curve[x >> curve_shift] has n + 1/2 with
 * WEFTI_CURVE_FRACTION bits of fraction; between two points a straight line is accurate
 * enough. */
typedef struct wefti_binomial_row {
    const uint64_t *values;
    const uint8_t *near;
    int near_bits, curve_shift;
    const wefti_rounded *rounded;
    const uint32_t *curve;
} wefti_binomial_row;

/* For k = 4 without low bits, with total < 2^20, so that B is exact, and joined numbers
 * of up to 64 bits: two look-ups find all members. pairs[p] is pair number p, B(low, 1) +
 * B(high, 2) = p. A set's number x is below 2^20 and a pair's below 2^12, so the least x
 * with a pair of upper members and that pair's number go into one word, x << 12 | p. This
 * word is at most y << 12 | 4095 if and only if x <= y. steps[y >> WEFTI_STEP_BITS] has
 * the word of the step's least y and the word after it; if more words begin in the step,
 * both are WEFTI_CROWDED. */
typedef struct wefti_pair {
    int32_t low, high;
} wefti_pair;

typedef struct wefti_pair_step {
    uint32_t here, next;
} wefti_pair_step;

enum { WEFTI_STEP_BITS = 6 };
#define WEFTI_CROWDED 0xffffffffu

/* The entry of near[] for x. */
static inline uint64_t wefti_near_entry(uint64_t x, int near_bits) {
    double y = (double)(int64_t)(x + 1);
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    return (bits >> (52 - near_bits)) - (1023ull << near_bits);
}

struct wefti_binomials {
    wefti_binomial_shape shape;
    uint64_t radix, reciprocal; /* the total and floor((2^64 - 1) / total), if < 2^64 */
    wefti_binomial_row *rows;   /* [picked + 1], row 0 unused */
    const wefti_pair *pairs;    /* four */
    const wefti_pair_step *steps;
};
