/* SPDX-License-Identifier: MIT */
/* Numbers of sets of four, where B is the binomial coefficient itself and every number
 * below the total belongs to a set. This is the code of the usual 4 of 64, which runs in
 * every step: one look-up finds the two upper members, one the two lower ones
 * (wire/binomials.h), and no branch depends on the data except for crowded steps, which
 * are rare. */
#include <string.h>

#include "wire/enumerative.h"

__extension__ typedef unsigned __int128 uint128;

static inline uint64_t number_of(const wefti_binomials *t, const int32_t *set) {
    return t->rows[1].values[set[0]] + t->rows[2].values[set[1]] +
           t->rows[3].values[set[2]] + t->rows[4].values[set[3]];
}

static inline void encode_group(const wefti_binomials *t, int64_t r,
                                const int32_t *indices, wefti_bit_writer *out) {
    uint64_t joined = 0;
    for (int64_t i = r - 1; i >= 0; i--)
        joined = joined * t->radix + number_of(t, indices + 4 * i);
    wefti_bits_write(out, joined, t->shape.group_bits[r]);
}

/* What decoding looks at, copied: the compiler cannot know that the indices it writes are
 * not the table. */
typedef struct four_table {
    const wefti_binomials *table;
    const wefti_pair *pairs;
    const wefti_pair_step *steps;
    uint64_t radix, reciprocal;
} four_table;

/* The word of the upper members of number x, as in a step. */
static __attribute__((noinline)) uint32_t crowded_step(const wefti_binomials *t,
                                                       uint32_t x) {
    uint32_t high = 3, low = 2;
    while (t->rows[4].values[high + 1] <= x) high++;
    uint32_t least = (uint32_t)t->rows[4].values[high];
    while (t->rows[3].values[low + 1] <= x - least) low++;
    least += (uint32_t)t->rows[3].values[low];
    return least << 12 | (high * (high - 1) / 2 + low);
}

/* x is below the total. */
static inline void decode_set(const four_table *t, uint32_t x, int32_t *set) {
    uint32_t key = x << 12 | 4095;
    wefti_pair_step step = t->steps[x >> WEFTI_STEP_BITS];
    uint32_t upper = key >= step.next ? step.next : step.here;
    if (upper == WEFTI_CROWDED) upper = crowded_step(t->table, x);
    memcpy(set + 2, &t->pairs[upper & 4095], sizeof(wefti_pair));
    memcpy(set, &t->pairs[(key - upper) >> 12], sizeof(wefti_pair));
}

/* Dividing by the radix is multiplying by its reciprocal; the quotient is rarely 1 too
 * low. */
static inline bool decode_group(const four_table *t, int64_t r, uint64_t joined,
                                int32_t *indices) {
    for (int64_t i = 0; i < r - 1; i++) {
        uint64_t quotient = (uint64_t)((uint128)joined * t->reciprocal >> 64);
        uint64_t digit = joined - quotient * t->radix;
        if (digit >= t->radix) digit -= t->radix, quotient++;
        decode_set(t, (uint32_t)digit, indices + 4 * i);
        joined = quotient;
    }
    if (joined >= t->radix) return false;
    decode_set(t, (uint32_t)joined, indices + 4 * (r - 1));
    return true;
}

/* Groups that can be read by loading eight bytes at once. */
static int64_t fast_groups(int64_t groups, int width, const wefti_bit_reader *in) {
    int64_t bits = 8 * (in->n_bytes - 8) - in->at;
    if (width > 57 || width == 0 || bits < 0) return 0;
    return bits / width < groups ? bits / width : groups;
}

/* Inlined for the constant group of 4 of 64. */
static inline void encode(const wefti_binomials *t, int64_t group, int64_t n,
                          const int32_t *indices, wefti_bit_writer *out) {
    int64_t at = 0;
    for (; at + group <= n; at += group) encode_group(t, group, indices + 4 * at, out);
    if (at < n) encode_group(t, n - at, indices + 4 * at, out);
}

static inline int64_t decode(const wefti_binomials *table, int64_t group, int64_t n,
                             wefti_bit_reader *in, int32_t *indices) {
    four_table t = {table, table->pairs, table->steps, table->radix, table->reciprocal};
    int width = table->shape.group_bits[group];
    int64_t fast = fast_groups(n / group, width, in);
    uint64_t bit = (uint64_t)in->at;
    for (int64_t i = 0; i < fast; i++, bit += (uint64_t)width) {
        uint64_t joined = wefti_get_u64(in->in + bit / 8) >> (bit % 8);
        joined &= (1ull << width) - 1;
        if (!decode_group(&t, group, joined, indices + 4 * i * group))
            return i * group + group - 1;
    }
    in->at = (int64_t)bit;
    for (int64_t at = fast * group; at < n; at += group) {
        int64_t r = n - at < group ? n - at : group;
        uint64_t joined = wefti_bits_read(in, table->shape.group_bits[r]);
        if (!decode_group(&t, r, joined, indices + 4 * at)) return at + r - 1;
    }
    return n;
}

void wefti_four_encode(const wefti_binomials *t, int64_t n, const int32_t *indices,
                       wefti_bit_writer *out) {
    if (t->shape.group == 2)
        encode(t, 2, n, indices, out);
    else
        encode(t, t->shape.group, n, indices, out);
}

int64_t wefti_four_decode(const wefti_binomials *t, int64_t n, wefti_bit_reader *in,
                          int32_t *indices) {
    if (t->shape.group == 2) return decode(t, 2, n, in, indices);
    return decode(t, t->shape.group, n, in, indices);
}
