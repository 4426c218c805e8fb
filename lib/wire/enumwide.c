/* SPDX-License-Identifier: MIT */
/* Numbers of sets out of a wide table, of any length. A table entry has 20 significant
 * bits, so adding or subtracting one is one operation on 64 bits, and comparing the
 * number with one needs only the number's leading 20 bits.
 *
 * A number lies in bytes, lowest first, from byte PAD on. The bytes around it are zero
 * and may be read; the lower ones are used by entries of fewer than 20 bits. */
#include "wire/enumerative.h"

enum { PAD = WEFTI_WIDE_PAD };

/* The byte in which the lowest of an entry's 20 bits lies, and the 20 bits, shifted to
 * that byte's boundary. */
static inline int64_t byte_of(wefti_rounded entry) {
    return (wefti_rounded_length(entry) + 8 * PAD - WEFTI_ROUNDED_BITS) / 8;
}

static inline uint64_t bits_of(wefti_rounded entry) {
    int bit = (wefti_rounded_length(entry) + 8 * PAD - WEFTI_ROUNDED_BITS) % 8;
    return (uint64_t)wefti_rounded_lead(entry) << bit;
}

/* The sum is always below B(m + 1, j), for the member m just added, and so at most 12
 * bits longer than that entry: no carry leaves the eight bytes. */
void wefti_wide_encode(const wefti_binomials *t, const int32_t *set,
                       unsigned char *number) {
    memset(number, 0, (size_t)((t->shape.number_bits + 7) / 8 + 2 * PAD));
    for (int64_t j = 1; j <= t->shape.picked; j++) {
        wefti_rounded entry = t->rows[j].rounded[set[j - 1]];
        unsigned char *at = number + byte_of(entry);
        if (entry > 0) wefti_put_u64(at, wefti_get_u64(at) + bits_of(entry));
    }
}

/* A number while it is read. What remains after the members taken so far is below 2^(at +
 * 64): its bits from `at` on are in the window, and the bits below are still
 * unchanged. */
typedef struct lane {
    const unsigned char *number;
    int32_t *set;
    uint64_t window;
    int64_t at;
    int64_t limit; /* the next member is below this */
} lane;

/* Moves the window down by up to 57 bits. */
static inline void lower(lane *l, int bits) {
    l->at -= bits;
    uint64_t place = (uint64_t)(l->at + 8 * PAD);
    uint64_t below = wefti_get_u64(l->number + place / 8) >> (place % 8);
    l->window = l->window << bits | (below & ((1ull << bits) - 1));
}

/* What remains, rounded down. Lowers the window until the highest bit of what remains is
 * its highest bit; after that an entry that is not above what remains lies within the
 * window. */
static inline wefti_rounded leading(lane *l) {
    int zeros = __builtin_clzll(l->window | 1);
    /* seldom: about ten zeros are usual */
    while (zeros > 64 - WEFTI_ROUNDED_BITS && l->at > -64) {
        lower(l, l->at >= -32 ? 32 : (int)l->at + 64);
        zeros = __builtin_clzll(l->window | 1);
    }
    if (l->window == 0) return 0;
    wefti_rounded x = wefti_rounded_make((int)l->at + 64 - zeros,
                                         l->window << zeros >> 44);
    lower(l, zeros);
    return x;
}

/* The largest n with B(n, j) <= x. The curve is half a step too high, so that n or n + 1
 * is nearly always found at once. */
static inline int64_t find(const wefti_binomial_row *row, wefti_rounded x) {
    const uint32_t *point = row->curve + (x >> row->curve_shift);
    uint64_t rise = point[1] - point[0], part = x & ((1u << row->curve_shift) - 1);
    int64_t n = (point[0] + (int64_t)(rise * part >> row->curve_shift)) >>
                WEFTI_CURVE_FRACTION;
    n -= row->rounded[n] > x;
    while (row->rounded[n] > x) n--;
    while (row->rounded[n + 1] <= x) n++;
    return n;
}

/* Takes one member; false if the number belongs to no set. */
static inline bool take_member(const wefti_binomial_row *row, int64_t j, lane *l) {
    wefti_rounded x = leading(l);
    if (x >= row->rounded[l->limit]) return false;
    l->limit = find(row, x);
    l->set[j - 1] = (int32_t)l->limit;
    wefti_rounded entry = row->rounded[l->limit];
    int64_t place = wefti_rounded_length(entry) - WEFTI_ROUNDED_BITS - l->at;
    if (entry > 0) l->window -= (uint64_t)wefti_rounded_lead(entry) << place;
    return true;
}

static inline lane begin(const wefti_binomials *t, const unsigned char *number,
                         int32_t *set) {
    int64_t at = (t->shape.number_bits + 7) / 8 * 8 - 64;
    uint64_t window = wefti_get_u64(number + PAD + at / 8);
    return (lane){number, set, window, at, t->shape.places};
}

/* Inlined for constant n. */
static inline int decode(const wefti_binomials *t, int n,
                         const unsigned char *const *numbers, int32_t *const *sets) {
    lane lanes[WEFTI_WIDE_LANES];
    for (int i = 0; i < n; i++) lanes[i] = begin(t, numbers[i], sets[i]);
    for (int64_t j = t->shape.picked; j > 1; j--)
        for (int i = 0; i < n; i++)
            if (!take_member(&t->rows[j], j, &lanes[i])) return i;
    for (int i = 0; i < n; i++) {
        wefti_rounded x = leading(&lanes[i]); /* B(n, 1) = n: the lowest member itself */
        if (x >= t->rows[1].rounded[lanes[i].limit]) return i;
        sets[i][0] = (int32_t)wefti_rounded_value(x);
    }
    return n;
}

int wefti_wide_decode(const wefti_binomials *t, int n,
                      const unsigned char *const *numbers, int32_t *const *sets) {
    return n == WEFTI_WIDE_LANES ? decode(t, WEFTI_WIDE_LANES, numbers, sets)
                                 : decode(t, 1, numbers, sets);
}
