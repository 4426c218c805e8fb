/* SPDX-License-Identifier: MIT */
/* The number of a set (combinatorial number system; Cover, Enumerative source encoding,
 * 1973): for members m_1 < m_2 < ... < m_k
 *
 *     N = B(m_1, 1) + B(m_2, 2) + ... + B(m_k, k)
 *
 * below B(places, k). To read it, m_k is the largest n with B(n, k) <= N, and so on with
 * what remains. Because B is rounded up (wire/binomials.h), not every number belongs to a
 * set: one that does not leaves more than the lower members can make up, and is refused.
 *
 * Members are the indices; or, if these are more than half of the elements, the elements
 * that are no index; or, where low bits are written as they are, index / 2^low_bits + its
 * place among the k.
 *
 * The numbers of a group of chunks are digits, the first the lowest, of one number to the
 * base B(places, k). After it come the low bits of all indices of the group. */
#include "wire/enumerative.h"

__extension__ typedef unsigned __int128 uint128;

enum { LANES = 4 };

/* The elements that are not in the set, ascending. */
static void complement(const wefti_binomial_shape *shape, int64_t n_set,
                       const int32_t *set, int32_t *others) {
    int64_t next = 0;
    for (int32_t i = 0; i < shape->elements; i++)
        if (next < n_set && set[next] == i)
            next++;
        else
            *others++ = i;
}

/* The members for the indices of a chunk: these themselves, or written to space[picked].
 */
static const int32_t *members(const wefti_binomial_shape *shape, const int32_t *indices,
                              int32_t *space) {
    if (shape->low_bits > 0)
        for (int32_t j = 0; j < shape->k; j++)
            space[j] = (indices[j] >> shape->low_bits) + j;
    else if (shape->picked < shape->k)
        complement(shape, shape->k, indices, space);
    else
        return indices;
    return space;
}

static uint64_t narrow_number(const wefti_binomials *t, const int32_t *set) {
    uint64_t number = 0;
    for (int64_t j = 1; j <= t->shape.picked; j++)
        number += t->rows[j].values[set[j - 1]];
    return number;
}

static bool narrow_set(const wefti_binomials *t, uint64_t number, int32_t *set) {
    int64_t limit = t->shape.places;
    for (int64_t j = t->shape.picked; j > 1; j--) {
        const wefti_binomial_row *row = &t->rows[j];
        if (number >= row->values[limit]) return false;
        limit = row->near[wefti_near_entry(number, row->near_bits)];
        limit += row->values[limit + 1] <= number;
        number -= row->values[limit];
        set[j - 1] = (int32_t)limit;
    }
    set[0] = (int32_t)number;
    return number < (uint64_t)limit;
}

/* The same for LANES numbers, of which one computes while others wait for memory; false if one of
 * them belongs to no set. */
static bool narrow_sets(const wefti_binomials *t, const uint64_t *numbers,
                        int32_t *sets) {
    int64_t k = t->shape.picked, limit[LANES];
    uint64_t number[LANES];
    bool good = true;
    for (int i = 0; i < LANES; i++) limit[i] = t->shape.places, number[i] = numbers[i];
    for (int64_t j = k; j > 1; j--) {
        const wefti_binomial_row *row = &t->rows[j];
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) good &= number[i] < row->values[limit[i]];
        if (!good) return false;
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) {
            limit[i] = row->near[wefti_near_entry(number[i], row->near_bits)];
            limit[i] += row->values[limit[i] + 1] <= number[i];
            number[i] -= row->values[limit[i]];
            sets[i * k + j - 1] = (int32_t)limit[i];
        }
    }
    for (int i = 0; i < LANES; i++) {
        sets[i * k] = (int32_t)number[i];
        good &= number[i] < (uint64_t)limit[i];
    }
    return good;
}

/* --- one word --- */

static uint64_t number_of(const wefti_binomials *t, const int32_t *set) {
    unsigned char number[WEFTI_WIDE_BYTES];
    if (t->shape.narrow) return narrow_number(t, set);
    wefti_wide_encode(t, set, number);
    return wefti_get_u64(number + WEFTI_WIDE_PAD);
}

static bool set_of(const wefti_binomials *t, uint64_t number, int32_t *set) {
    if (t->shape.picked == 0) return number == 0;
    if (t->shape.narrow) return narrow_set(t, number, set);
    unsigned char bytes[8 + 2 * WEFTI_WIDE_PAD] = {0};
    wefti_put_u64(bytes + WEFTI_WIDE_PAD, number);
    return wefti_wide_decode(t, 1, (const unsigned char *[1]){bytes}, &set) == 1;
}

static void encode_joined(const wefti_binomials *t, int64_t r, const int32_t *indices,
                          wefti_bit_writer *out) {
    int32_t space[WEFTI_PICKED_MAX];
    uint128 joined = 0;
    for (int64_t i = r - 1; i >= 0; i--)
        joined = joined * t->radix +
                 number_of(t, members(&t->shape, indices + i * t->shape.k, space));
    int width = wefti_joined_bits(&t->shape, r);
    wefti_bits_write(out, (uint64_t)joined, width < 64 ? width : 64);
    if (width > 64) wefti_bits_write(out, (uint64_t)(joined >> 64), width - 64);
}

/* Reads the set of a number into indices, low bits aside. */
static bool read_set(const wefti_binomials *t, uint64_t number, int32_t *indices) {
    int32_t space[WEFTI_PICKED_MAX];
    if (t->shape.picked == t->shape.k) return set_of(t, number, indices);
    if (!set_of(t, number, space)) return false;
    complement(&t->shape, t->shape.picked, space, indices);
    return true;
}

/* The numbers of r chunks; the last one is above all numbers if what was joined is. */
static void read_joined(const wefti_binomials *t, int64_t r, wefti_bit_reader *in,
                        uint64_t *numbers) {
    int width = wefti_joined_bits(&t->shape, r);
    uint128 joined = wefti_bits_read(in, width < 64 ? width : 64);
    if (width > 64) joined |= (uint128)wefti_bits_read(in, width - 64) << 64;
    for (int64_t i = 0; i < r - 1; i++) {
        uint128 quotient = joined / t->radix;
        numbers[i] = (uint64_t)(joined - quotient * t->radix);
        joined = quotient;
    }
    numbers[r - 1] = joined < t->radix ? (uint64_t)joined : UINT64_MAX;
}

static int64_t decode_joined(const wefti_binomials *t, int64_t r, wefti_bit_reader *in,
                             int32_t *indices) {
    uint64_t numbers[WEFTI_GROUP_MAX];
    read_joined(t, r, in, numbers);
    for (int64_t i = 0; i < r; i++)
        if (!read_set(t, numbers[i], indices + i * t->shape.k)) return i;
    return r;
}

/* Chunks whose members are their indices. */
static int64_t decode_narrow(const wefti_binomials *t, int64_t n, wefti_bit_reader *in,
                             int32_t *indices) {
    enum { ROOM = 4 * LANES + WEFTI_GROUP_MAX };
    uint64_t numbers[ROOM];
    int64_t k = t->shape.k, group = t->shape.group, have, i;
    for (int64_t at = 0; at < n; at += have) {
        for (have = 0; at + have < n && have + group <= ROOM; have += i) {
            i = n - at - have < group ? n - at - have : group;
            read_joined(t, i, in, numbers + have);
        }
        i = 0;
        while (i + LANES <= have && narrow_sets(t, numbers + i, indices + (at + i) * k))
            i += LANES;
        for (; i < have; i++)
            if (!narrow_set(t, numbers[i], indices + (at + i) * k)) return at + i;
    }
    return n;
}

/* --- long numbers, which are not joined --- */

static void encode_long(const wefti_binomials *t, const int32_t *indices,
                        wefti_bit_writer *out) {
    unsigned char number[WEFTI_WIDE_BYTES];
    int32_t space[WEFTI_PICKED_MAX];
    int width = t->shape.number_bits, at = 0;
    wefti_wide_encode(t, members(&t->shape, indices, space), number);
    for (; at + 64 < width; at += 64)
        wefti_bits_write(out, wefti_get_u64(number + WEFTI_WIDE_PAD + at / 8), 64);
    wefti_bits_write(out, wefti_get_u64(number + WEFTI_WIDE_PAD + at / 8), width - at);
}

static void read_long(int width, wefti_bit_reader *in, unsigned char *number) {
    wefti_put_u64(number, 0);
    number += WEFTI_WIDE_PAD;
    for (int at = 0; at < width; at += 64, number += 8)
        wefti_put_u64(number, wefti_bits_read(in, width - at < 64 ? width - at : 64));
    wefti_put_u64(number, 0);
}

/* The sets of r <= WEFTI_WIDE_LANES chunks, the low bits aside. */
static int64_t decode_long(const wefti_binomials *t, int64_t r, wefti_bit_reader in,
                           int32_t *indices) {
    unsigned char space[WEFTI_WIDE_LANES][WEFTI_WIDE_BYTES];
    const unsigned char *numbers[WEFTI_WIDE_LANES];
    int32_t others[WEFTI_WIDE_LANES][WEFTI_PICKED_MAX], *sets[WEFTI_WIDE_LANES];
    bool direct = t->shape.picked == t->shape.k;
    for (int64_t i = 0, at = in.at; i < r; i++, at += t->shape.group_bits[1]) {
        in.at = at;
        read_long(t->shape.number_bits, &in, space[i]);
        numbers[i] = space[i];
        sets[i] = direct ? indices + i * t->shape.k : others[i];
    }
    int64_t good = wefti_wide_decode(t, (int)r, numbers, sets);
    for (int64_t i = 0; i < good && !direct; i++)
        complement(&t->shape, t->shape.picked, others[i], indices + i * t->shape.k);
    return good;
}

/* --- groups --- */

/* Adds the low bits to the members of r chunks. Returns the first chunk whose indices
 * then are not ascending below `elements`. */
static int64_t read_low(const wefti_binomial_shape *shape, int64_t r,
                        wefti_bit_reader *in, int32_t *indices) {
    int32_t low[WEFTI_PICKED_MAX];
    for (int64_t i = 0; i < r; i++, indices += shape->k) {
        int32_t before = -1;
        bool good = true;
        wefti_bits_read_low(in, shape->k, shape->low_bits, low);
        for (int32_t j = 0; j < shape->k; j++) {
            indices[j] = (indices[j] - j) << shape->low_bits | low[j];
            good &= indices[j] > before;
            before = indices[j];
        }
        if (!good || before >= shape->elements) return i;
    }
    return r;
}

static int64_t decode_group(const wefti_binomials *t, int64_t r, wefti_bit_reader *in,
                            int32_t *indices) {
    int64_t good = decode_joined(t, r, in, indices);
    if (good < r || t->shape.low_bits == 0) return good;
    return read_low(&t->shape, r, in, indices);
}

/* Several chunks, each with its low bits after its number. */
static int64_t decode_chunks(const wefti_binomials *t, int64_t r, wefti_bit_reader *in,
                             int32_t *indices) {
    int64_t good = decode_long(t, r, *in, indices);
    if (good < r) return good;
    for (int64_t i = 0; i < r; i++) {
        in->at += t->shape.number_bits;
        if (t->shape.low_bits > 0 &&
            read_low(&t->shape, 1, in, indices + i * t->shape.k) < 1)
            return i;
    }
    return r;
}

void wefti_enumerative_encode(const wefti_binomials *t, int64_t n, const int32_t *indices,
                              wefti_bit_writer *out) {
    const wefti_binomial_shape *shape = &t->shape;
    if (shape->four) {
        wefti_four_encode(t, n, indices, out);
        return;
    }
    for (int64_t at = 0; at < n; at += shape->group) {
        int64_t r = n - at < shape->group ? n - at : shape->group;
        if (shape->one_word)
            encode_joined(t, r, indices + at * shape->k, out);
        else
            encode_long(t, indices + at * shape->k, out);
        if (shape->low_bits > 0)
            wefti_bits_write_low(out, r * shape->k, shape->low_bits,
                                 indices + at * shape->k);
    }
}

int64_t wefti_enumerative_decode(const wefti_binomials *t, int64_t n,
                                 wefti_bit_reader *in, int32_t *indices) {
    if (t->shape.four) return wefti_four_decode(t, n, in, indices);
    if (t->shape.narrow && t->shape.low_bits == 0 && t->shape.picked == t->shape.k)
        return decode_narrow(t, n, in, indices);
    int64_t step = t->shape.one_word ? t->shape.group : WEFTI_WIDE_LANES;
    for (int64_t at = 0; at < n; at += step) {
        int64_t r = n - at < step ? n - at : step, k = t->shape.k;
        int64_t done = t->shape.one_word ? decode_group(t, r, in, indices + at * k)
                                         : decode_chunks(t, r, in, indices + at * k);
        if (done < r) return at + done;
    }
    return n;
}
