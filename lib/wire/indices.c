/* SPDX-License-Identifier: MIT */
/* Index codecs: numbers of fixed width, a bit per coefficient, and the number of the set
 * (wire/enumerative.c). */
#include "wire/indices.h"

#include "wire/enumerative.h"

static void fixed_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                         wefti_bit_writer *out) {
    wefti_bits_write_low(out, n * s->k, wefti_bits_for(s->elements), indices);
}

/* The first of n chunks whose indices are not ascending below `elements`. Inlined for
 * constant k. */
static inline int64_t first_bad(int64_t n, int64_t k, int64_t elements,
                                const int32_t *indices) {
    for (int64_t i = 0; i < n; i++, indices += k) {
        bool good = indices[k - 1] < elements;
        for (int64_t j = 1; j < k; j++) good &= indices[j] > indices[j - 1];
        if (!good) return i;
    }
    return n;
}

static int64_t fixed_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                            int32_t *indices) {
    wefti_bits_read_low(in, n * s->k, wefti_bits_for(s->elements), indices);
    if (s->k == 4) return first_bad(n, 4, s->elements, indices);
    return first_bad(n, s->k, s->elements, indices);
}

static void bitmap_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                          wefti_bit_writer *out) {
    for (int64_t i = 0; i < n; i++, indices += s->k) {
        int64_t next = 0;
        for (int64_t at = 0; at < s->elements; at += 64) {
            uint64_t word = 0;
            for (; next < s->k && indices[next] < at + 64; next++)
                word |= 1ull << (indices[next] - at);
            int64_t left = s->elements - at;
            wefti_bits_write(out, word, left < 64 ? (int)left : 64);
        }
    }
}

/* Appends the places of the ones, at most k in all. */
static int64_t list_ones(uint64_t word, int64_t base, int64_t n, int64_t k,
                         int32_t *indices) {
    for (; word; word &= word - 1, n++)
        if (n < k) indices[n] = (int32_t)(base + __builtin_ctzll(word));
    return n;
}

static int64_t bitmap_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                             int32_t *indices) {
    for (int64_t i = 0; i < n; i++, indices += s->k) {
        int64_t ones = 0;
        for (int64_t at = 0; at < s->elements; at += 64) {
            int64_t left = s->elements - at;
            uint64_t word = wefti_bits_read(in, left < 64 ? (int)left : 64);
            ones = list_ones(word, at, ones, s->k, indices);
        }
        if (ones != s->k) return i;
    }
    return n;
}

static void enumerative_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                               wefti_bit_writer *out) {
    wefti_enumerative_encode(s->binomials, n, indices, out);
}

static int64_t enumerative_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                                  int32_t *indices) {
    return wefti_enumerative_decode(s->binomials, n, in, indices);
}

const wefti_index_ops *wefti_index_ops_of(wefti_index_codec codec) {
    static const wefti_index_ops ops[WEFTI_INDEX_CODECS] = {
        [WEFTI_INDICES_AUTO] = {.name = "auto"},
        [WEFTI_INDICES_FIXED] = {"fixed", fixed_encode, fixed_decode},
        [WEFTI_INDICES_BITMAP] = {"bitmap", bitmap_encode, bitmap_decode},
        [WEFTI_INDICES_ENUMERATIVE] = {"enumerative", enumerative_encode,
                                       enumerative_decode},
    };
    return &ops[codec];
}
