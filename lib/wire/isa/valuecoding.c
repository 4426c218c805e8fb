/* SPDX-License-Identifier: MIT */
/* Value codecs (docs/wire-format.md, "Sections"): f32, bf16, and integers with a scale
 * per block:
 *
 *     scale = up(max |x| / limit)      up: to the next bf16, so that no value is cut off
 *     q = round(x / scale)             |q| <= limit = 127 or 7
 *     sign: scale = mean |x|, q = 1 or -1
 *
 * The receiver multiplies a bf16 (8 bits) by an integer of 7 bits, which is exact. The
 * sender takes the integer from a fixed-point number with 23 bits of fraction, so there
 * is no sum of products that a compiler could contract, and the bits are the same on all
 * processors and for all instruction sets for which this file is compiled. Its loops are
 * plain, so that the compiler can vectorize them. Nearly all blocks hold STRIP values:
 * for them the codecs of integers are compiled a second time with that length as a
 * constant (FOR_LENGTH), so that loops need no remainders and intermediate values stay in
 * registers.
 *
 * A value that is not finite, or of 2^100 and more, makes the scale NaN, and so all
 * values of its block at the receiver. A block whose scale would be below 2^-100 is sent
 * as zeros. */
#include "wire/values.h"

#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "kernels/isa.h"
#include "wire/bits.h"

enum {
    STRIP = 64,                     /* values at a time */
    FRACTION = 23,                  /* bits of the fixed-point numbers */
    NAN_SCALE = 0x7fc0,             /* as bf16 */
    LEAST_SCALE = (127 - 100) << 7, /* 2^-100 as bf16 */
    MOST_SCALE = (127 + 100) << 7,
    TOO_LARGE = (127 + 100) << 23, /* 2^100 as f32 */
    GROUP = 16                     /* blocks whose scales are found together */
};

#define CODEC_INLINE static inline __attribute__((always_inline))

/* f(n, ...), with n as a constant where it is STRIP. */
#define FOR_LENGTH(f, n, ...) ((n) == STRIP ? f(STRIP, __VA_ARGS__) : f((n), __VA_ARGS__))

static inline uint32_t magnitude_bits(float x) { return wefti_f32_bits(x) & 0x7fffffffu; }

/* Largest magnitude of n values as the bits of an f32; a NaN is larger than everything.
 */
CODEC_INLINE uint32_t largest(int64_t n, const float *x) {
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)magnitude_bits(x[i]);
        most = magnitude > most ? magnitude : most;
    }
    return (uint32_t)most;
}

CODEC_INLINE void fill(int64_t n, float value, float *values) {
    for (int64_t i = 0; i < n; i++) values[i] = value;
}

/* --- f32 and bf16 --- */

static void f32_encode(const wefti_value_place *place, const wefti_rounding *rounding,
                       float *values, unsigned char *block) {
    (void)rounding;
    wefti_put_floats(place->n, values, block + place->at);
}

static const char *f32_decode(const wefti_value_place *place, const unsigned char *block,
                              float *values) {
    wefti_get_floats(place->n, block + place->at, values);
    return NULL;
}

static void bf16_encode(const wefti_value_place *place, const wefti_rounding *rounding,
                        float *values, unsigned char *block) {
    (void)rounding;
    unsigned char *out = block + place->at;
    uint16_t coded[STRIP];
    for (int64_t i = 0; i < place->n; i += STRIP, values += STRIP) {
        int64_t n = place->n - i < STRIP ? place->n - i : STRIP;
        for (int64_t l = 0; l < n; l++) coded[l] = wefti_bf16(values[l]);
        for (int64_t l = 0; l < n; l++) values[l] = wefti_f32_of_bf16(coded[l]);
        for (int64_t l = 0; l < n; l++) wefti_put_u16(out + 2 * (i + l), coded[l]);
    }
}

static const char *bf16_decode(const wefti_value_place *place, const unsigned char *block,
                               float *values) {
    const unsigned char *in = block + place->at;
    for (int64_t i = 0; i < place->n; i++)
        values[i] = wefti_f32_of_bf16(wefti_get_u16(in + 2 * i));
    return NULL;
}

/* --- integers --- */

/* What a kind of integer is made of. */
typedef struct integer_kind {
    int limit, bits;
    void (*pack)(int64_t n, const int8_t *q, unsigned char *out);
    const int8_t *(*unpack)(int64_t n, const unsigned char *in, int8_t *space);
    const char *too_low; /* what -limit - 1 is called */
} integer_kind;

/* The scale of a block whose largest magnitude is `most`: a bf16, 0 or NaN_SCALE. */
static uint32_t integer_scale(uint32_t most, int limit) {
    if (most >= TOO_LARGE) return NAN_SCALE;
    uint32_t scale = (wefti_f32_bits(wefti_f32_of_bits(most) / (float)limit) + 0xffff) >>
                     16;
    return scale < LEAST_SCALE ? 0 : scale;
}

/* What is wrong with a scale, or NULL; `all_zero`: all bits of the values are zero. */
static const char *judge_scale(uint32_t scale, bool all_zero) {
    if (scale == 0 || scale == NAN_SCALE)
        return all_zero ? NULL : "bits that are not zero beside a scale of 0 or NaN";
    if (scale < LEAST_SCALE || scale > MOST_SCALE)
        return "a scale that is neither 0 nor between 2^-100 and 2^100";
    return NULL;
}

/* 16 random bits per value: value v of a section has bits 16 (v mod 8) to 16 (v mod 8) +
 * 15 of the 128 that belong to v / 8. */
static void draw(const wefti_rounding *rounding, int64_t first, int64_t n,
                 uint16_t *random) {
    uint64_t pairs[STRIP / 8 + 1][2];
    unsigned char bytes[sizeof pairs];
    int64_t from = first / 8, to = (first + n + 7) / 8;
    wefti_rng_run run = {.seed = rounding->seed ^ rounding->place * 0xD1342543DE82EF95u,
                         .stream = WEFTI_STREAM_ROUND,
                         .step = rounding->step,
                         .first = (uint64_t)from,
                         .n = to - from};
    wefti_rng_pairs(&run, pairs);
    for (int64_t i = 0; i < 2 * (to - from); i++)
        wefti_put_u64(bytes + 8 * i, pairs[i / 2][i % 2]);
    for (int64_t i = 0; i < n; i++)
        random[i] = (uint16_t)wefti_get_u16(bytes + 2 * (first - 8 * from + i));
}

/* What is added to a fixed-point number before its fraction is cut off: a half, or a
 * random number below 1. */
CODEC_INLINE void roundings(const wefti_rounding *rounding, int64_t first, int64_t n,
                            int32_t *add) {
    uint16_t random[STRIP];
    if (!rounding || !rounding->stochastic) {
        for (int64_t i = 0; i < n; i++) add[i] = 1 << (FRACTION - 1);
        return;
    }
    draw(rounding, first, n, random);
    for (int64_t i = 0; i < n; i++)
        add[i] = random[i] << (FRACTION - 16) | 1 << (FRACTION - 17);
}

/* q[i] = round(values[i] / scale); values[i] <- scale q[i] */
CODEC_INLINE void quantize(int64_t n, int limit, float scale, const int32_t *add,
                           float *values, int8_t *q) {
    float steps = (float)(1 << FRACTION) / scale;
    for (int64_t i = 0; i < n; i++) {
        int32_t sign = (int32_t)wefti_f32_bits(values[i]) >> 31;
        float magnitude = wefti_f32_of_bits(magnitude_bits(values[i]));
        int32_t rounded = ((int32_t)(magnitude * steps) + add[i]) >> FRACTION;
        rounded = rounded < limit ? rounded : limit;
        rounded = (rounded ^ sign) - sign;
        q[i] = (int8_t)rounded;
        values[i] = (float)rounded * scale;
    }
}

/* Inlined for a constant kind, as the next three. */
CODEC_INLINE void encode_strip(int64_t n, const integer_kind *kind, float scale,
                               const wefti_rounding *rounding, int64_t first,
                               float *values, unsigned char *out) {
    int8_t q[STRIP];
    int32_t add[STRIP];
    roundings(rounding, first, n, add);
    quantize(n, kind->limit, scale, add, values, q);
    kind->pack(n, q, out);
}

CODEC_INLINE void integer_encode(int64_t length, const integer_kind *kind,
                                 const wefti_value_place *place,
                                 const wefti_rounding *rounding, float *values,
                                 unsigned char *block) {
    uint32_t scale = integer_scale(largest(length, values), kind->limit);
    wefti_put_u16(block, scale);
    if (scale == 0 || scale == NAN_SCALE) {
        memset(block + place->at, 0, (size_t)wefti_bit_bytes(length * kind->bits));
        fill(length, wefti_f32_of_bf16(scale), values);
        return;
    }
    for (int64_t i = 0; i < length; i += STRIP) {
        int64_t n = length - i < STRIP ? length - i : STRIP;
        encode_strip(n, kind, wefti_f32_of_bf16(scale), rounding, place->first + i,
                     values + i, block + place->at + i * kind->bits / 8);
    }
}

/* What was found among a block's integers. */
typedef struct seen {
    int any, too_low;
} seen;

CODEC_INLINE seen decode_strip(int64_t n, const integer_kind *kind, float scale,
                               const unsigned char *in, float *values) {
    int8_t space[STRIP];
    seen s = {0, 0};
    const int8_t *q = kind->unpack(n, in, space);
    for (int64_t l = 0; l < n; l++) {
        s.any |= q[l];
        s.too_low |= q[l] < -kind->limit;
        values[l] = (float)q[l] * scale;
    }
    return s;
}

CODEC_INLINE const char *integer_decode(int64_t length, const integer_kind *kind,
                                        const wefti_value_place *place,
                                        const unsigned char *block, float *values) {
    uint32_t code = wefti_get_u16(block);
    float scale = wefti_f32_of_bf16(code);
    seen all = {0, 0};
    for (int64_t i = 0; i < length; i += STRIP) {
        int64_t n = length - i < STRIP ? length - i : STRIP;
        seen s = decode_strip(n, kind, scale, block + place->at + i * kind->bits / 8,
                              values + i);
        all.any |= s.any;
        all.too_low |= s.too_low;
    }
    /* the same NaN everywhere, whatever a processor makes of 0 times NaN */
    if (code == NAN_SCALE) fill(length, scale, values);
    return all.too_low ? kind->too_low : judge_scale(code, all.any == 0);
}

CODEC_INLINE void pack_int8(int64_t n, const int8_t *q, unsigned char *out) {
    memcpy(out, q, (size_t)n);
}

CODEC_INLINE const int8_t *unpack_int8(int64_t n, const unsigned char *in,
                                       int8_t *space) {
    (void)n, (void)space;
    return (const int8_t *)in;
}

/* Two to a byte, the first in the lower half. */
CODEC_INLINE void pack_int4(int64_t n, const int8_t *q, unsigned char *out) {
    for (int64_t i = 0; i < n / 2; i++)
        out[i] = (unsigned char)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
    if (n % 2) out[n / 2] = (unsigned char)(q[n - 1] & 15);
}

CODEC_INLINE const int8_t *unpack_int4(int64_t n, const unsigned char *in,
                                       int8_t *space) {
    for (int64_t i = 0; i < n / 2; i++) {
        space[2 * i] = (int8_t)(((in[i] & 15) ^ 8) - 8);
        space[2 * i + 1] = (int8_t)((in[i] >> 4 ^ 8) - 8);
    }
    if (n % 2) space[n - 1] = (int8_t)(((in[n / 2] & 15) ^ 8) - 8);
    return space;
}

static const integer_kind int8_kind = {127, 8, pack_int8, unpack_int8,
                                       "a value of -128 steps, expected -127 to 127"};
static const integer_kind int4_kind = {7, 4, pack_int4, unpack_int4,
                                       "a value of -8 steps, expected -7 to 7"};

static void int8_encode(const wefti_value_place *place, const wefti_rounding *rounding,
                        float *values, unsigned char *block) {
    FOR_LENGTH(integer_encode, place->n, &int8_kind, place, rounding, values, block);
}

static const char *int8_decode(const wefti_value_place *place, const unsigned char *block,
                               float *values) {
    return FOR_LENGTH(integer_decode, place->n, &int8_kind, place, block, values);
}

static void int4_encode(const wefti_value_place *place, const wefti_rounding *rounding,
                        float *values, unsigned char *block) {
    FOR_LENGTH(integer_encode, place->n, &int4_kind, place, rounding, values, block);
}

static const char *int4_decode(const wefti_value_place *place, const unsigned char *block,
                               float *values) {
    return FOR_LENGTH(integer_decode, place->n, &int4_kind, place, block, values);
}

/* --- sign --- */

enum { LANES = 16, WORD = 32 };

/* Mean magnitude; one order of additions for every instruction set. */
static float mean_magnitude(int64_t n, const float *x) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += wefti_f32_of_bits(magnitude_bits(x[i + l]));
    for (int l = 0; i < n; i++, l++) lanes[l] += wefti_f32_of_bits(magnitude_bits(x[i]));
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0] / (float)n;
}

static uint32_t sign_scale(int64_t n, const float *values) {
    if (largest(n, values) >= TOO_LARGE) return NAN_SCALE;
    uint32_t scale = wefti_bf16(mean_magnitude(n, values));
    return scale < LEAST_SCALE ? 0 : scale;
}

/* The signs of WORD values. */
static uint32_t word_of_signs(const float *values) {
    uint32_t word = 0;
    for (int l = 0; l < WORD; l++) word |= wefti_f32_bits(values[l]) >> 31 << l;
    return word;
}

static void put_signs(uint32_t word, uint32_t scale, int64_t n, float *values) {
    for (int64_t l = 0; l < n; l++)
        values[l] = wefti_f32_of_bits(scale << 16 | (word >> l & 1) << 31);
}

static void sign_encode(const wefti_value_place *place, const wefti_rounding *rounding,
                        float *values, unsigned char *block) {
    (void)rounding;
    uint32_t scale = sign_scale(place->n, values);
    bool plain = scale == 0 || scale == NAN_SCALE;
    wefti_bit_writer out = {.out = block + place->at};
    wefti_put_u16(block, scale);
    for (int64_t i = 0; i < place->n; i += WORD) {
        int64_t n = place->n - i < WORD ? place->n - i : WORD;
        float part[WORD] = {0};
        if (!plain) memcpy(part, values + i, (size_t)n * sizeof *part);
        uint32_t word = word_of_signs(part);
        wefti_bits_write(&out, word, (int)n);
        put_signs(word, scale, n, values + i);
    }
    wefti_bits_finish(&out);
}

static const char *sign_decode(const wefti_value_place *place, const unsigned char *block,
                               float *values) {
    uint32_t scale = wefti_get_u16(block), any = 0;
    wefti_bit_reader in = {block + place->at, wefti_bit_bytes(place->n), 0};
    for (int64_t i = 0; i < place->n; i += WORD) {
        int64_t n = place->n - i < WORD ? place->n - i : WORD;
        uint32_t word = (uint32_t)wefti_bits_read(&in, (int)n);
        any |= word;
        if (n == WORD)
            put_signs(word, scale, WORD, values + i);
        else
            put_signs(word, scale, n, values + i);
    }
    return judge_scale(scale, any == 0);
}

/* --- several full blocks --- */

/* v <- the numbers of the block at `at`. */
CODEC_INLINE void take_in(const wefti_blocks *blocks, int64_t at, float *restrict v) {
    const float *x = blocks->from + at;
    if (blocks->kind == WEFTI_REST_SENT)
        for (int i = 0; i < STRIP; i++)
            v[i] = x[i] * blocks->share + blocks->rest[at + i];
    else
        for (int i = 0; i < STRIP; i++) v[i] = x[i] * blocks->share;
}

/* Where v has become d. */
CODEC_INLINE void give_out(const wefti_blocks *blocks, int64_t at,
                           const float *restrict v, const float *restrict d) {
    float times = blocks->times, *rest = blocks->rest, *values = blocks->values;
    if (blocks->kind == WEFTI_REST_MORE)
        for (int i = 0; i < STRIP; i++) rest[at + i] += (v[i] - d[i]) * times;
    else if (rest)
        for (int i = 0; i < STRIP; i++) rest[at + i] = (v[i] - d[i]) * times;
    if (values) memcpy(values + at, d, STRIP * sizeof *d);
}

typedef void (*encoder)(const wefti_value_place *, const wefti_rounding *, float *,
                        unsigned char *);
typedef const char *(*decoder)(const wefti_value_place *, const unsigned char *, float *);

/* Block by block. Inlined for a constant codec, as the next ones; bytes: of a block, whose
 * values begin at byte `at`. */
CODEC_INLINE void encode_each(encoder encode, int64_t bytes, int at,
                              const wefti_blocks *blocks, int64_t n_full,
                              const wefti_rounding *rounding, unsigned char *out) {
    for (int64_t b = 0; b < n_full; b++) {
        wefti_value_place place = {(blocks->first + b) * STRIP, STRIP, at};
        float v[STRIP], d[STRIP];
        take_in(blocks, b * STRIP, v);
        memcpy(d, v, sizeof d);
        encode(&place, rounding, d, out + b * bytes);
        give_out(blocks, b * STRIP, v, d);
    }
}

CODEC_INLINE const char *decode_block(decoder decode, int at, const unsigned char *in,
                                      bool add, float *values) {
    wefti_value_place place = {0, STRIP, at};
    float d[STRIP];
    const char *fault = decode(&place, in, d);
    if (fault) return fault;
    for (int i = 0; i < STRIP; i++) values[i] = add ? values[i] + d[i] : d[i];
    return NULL;
}

CODEC_INLINE const char *decode_each(decoder decode, int64_t bytes, int at,
                                     const wefti_blocks *blocks, int64_t n_full,
                                     const unsigned char *in) {
    const char *fault = NULL;
    for (int64_t b = 0; b < n_full && !fault; b++)
        fault = decode_block(decode, at, in + b * bytes, blocks->add,
                             blocks->values + b * STRIP);
    return fault;
}

/* Asks for what is needed of a block, from a group before on: spread over the coding of that
 * group, so that memory works while the processor does. x may be NULL. */
CODEC_INLINE void ask_for(const float *x, int64_t b, int64_t n_full) {
    enum { LINE = 16 };
    if (!x || b >= n_full) return;
    for (int i = 0; i < STRIP; i += LINE) __builtin_prefetch(x + b * STRIP + i, 1);
}

/* The scales of GROUP blocks by their largest magnitudes, as integer_scale does, in lanes:
 * a division each for all of them instead of one after the other. */
CODEC_INLINE void integer_scales(const uint32_t *most, int limit, uint32_t *scale,
                                 float *steps) {
    for (int b = 0; b < GROUP; b++) {
        float share = wefti_f32_of_bits(most[b]) / (float)limit;
        uint32_t up = (wefti_f32_bits(share) + 0xffff) >> 16;
        up = up < LEAST_SCALE ? 0 : up;
        scale[b] = most[b] >= TOO_LARGE ? NAN_SCALE : up;
        steps[b] = (float)(1 << FRACTION) / wefti_f32_of_bf16(scale[b]);
    }
}

/* q <- round(v / scale), d <- scale q; add: NULL for to the nearest */
CODEC_INLINE void quantize_block(int limit, float scale, float steps, const int32_t *add,
                                 const float *restrict v, float *restrict d,
                                 int8_t *restrict q) {
    for (int i = 0; i < STRIP; i++) {
        int32_t sign = (int32_t)wefti_f32_bits(v[i]) >> 31;
        float magnitude = wefti_f32_of_bits(magnitude_bits(v[i]));
        int32_t half = add ? add[i] : 1 << (FRACTION - 1);
        int32_t rounded = ((int32_t)(magnitude * steps) + half) >> FRACTION;
        rounded = rounded < limit ? rounded : limit;
        rounded = (rounded ^ sign) - sign;
        q[i] = (int8_t)rounded;
        d[i] = (float)rounded * scale;
    }
}

CODEC_INLINE void encode_scaled(const integer_kind *kind, float scale, float steps,
                                const wefti_rounding *rounding, int64_t first,
                                const float *v, float *d, unsigned char *out) {
    int8_t q[STRIP];
    int32_t add[STRIP];
    if (rounding && rounding->stochastic) {
        roundings(rounding, first, STRIP, add);
        quantize_block(kind->limit, scale, steps, add, v, d, q);
    } else {
        quantize_block(kind->limit, scale, steps, NULL, v, d, q);
    }
    kind->pack(STRIP, q, out);
}

/* At most GROUP blocks, from block `from` on. */
CODEC_INLINE void encode_group(const integer_kind *kind, int64_t from, int64_t n_full,
                               const wefti_blocks *blocks, const wefti_rounding *rounding,
                               unsigned char *out) {
    int n = n_full - from < GROUP ? (int)(n_full - from) : GROUP;
    float v[GROUP][STRIP], d[STRIP], steps[GROUP];
    uint32_t most[GROUP] = {0}, scale[GROUP];
    for (int b = 0; b < n; b++) {
        take_in(blocks, (from + b) * STRIP, v[b]);
        most[b] = largest(STRIP, v[b]);
    }
    integer_scales(most, kind->limit, scale, steps);
    for (int b = 0; b < n; b++, out += 2 + STRIP * kind->bits / 8) {
        float s = wefti_f32_of_bf16(scale[b]);
        ask_for(blocks->from, from + b + GROUP, n_full);
        ask_for(blocks->rest, from + b + GROUP, n_full);
        ask_for(blocks->values, from + b + GROUP, n_full);
        wefti_put_u16(out, scale[b]);
        if (scale[b] == 0 || scale[b] == NAN_SCALE) {
            memset(out + 2, 0, (size_t)STRIP * (size_t)kind->bits / 8);
            fill(STRIP, s, d);
        } else {
            encode_scaled(kind, s, steps[b], rounding, (blocks->first + from + b) * STRIP,
                          v[b], d, out + 2);
        }
        give_out(blocks, (from + b) * STRIP, v[b], d);
    }
}

CODEC_INLINE void integer_encode_blocks(const integer_kind *kind,
                                        const wefti_blocks *blocks, int64_t n_full,
                                        const wefti_rounding *rounding,
                                        unsigned char *out) {
    int64_t bytes = 2 + STRIP * kind->bits / 8;
    for (int64_t b = 0; b < n_full; b += GROUP)
        encode_group(kind, b, n_full, blocks, rounding, out + b * bytes);
}

/* A usual scale: all but the check for -limit - 1, which `least` is for. */
CODEC_INLINE void decode_scaled(const integer_kind *kind, float scale,
                                const unsigned char *in, bool add, float *values,
                                int8_t *least) {
    int8_t space[STRIP];
    const int8_t *q = kind->unpack(STRIP, in, space);
    for (int i = 0; i < STRIP; i++) least[i] = q[i] < least[i] ? q[i] : least[i];
    if (add)
        for (int i = 0; i < STRIP; i++) values[i] += (float)q[i] * scale;
    else
        for (int i = 0; i < STRIP; i++) values[i] = (float)q[i] * scale;
}

CODEC_INLINE const char *integer_decode_blocks(const integer_kind *kind, decoder decode,
                                               const wefti_blocks *blocks, int64_t n_full,
                                               const unsigned char *in) {
    int8_t least[STRIP] = {0}, lowest = 0;
    float *values = blocks->values;
    for (int64_t b = 0; b < n_full; b++, values += STRIP) {
        uint32_t code = wefti_get_u16(in);
        const char *fault = NULL;
        ask_for(blocks->values, b + GROUP, n_full);
        if (code >= LEAST_SCALE && code <= MOST_SCALE)
            decode_scaled(kind, wefti_f32_of_bf16(code), in + 2, blocks->add, values,
                          least);
        else
            fault = decode_block(decode, 2, in, blocks->add, values);
        if (fault) return fault;
        in += 2 + STRIP * kind->bits / 8;
    }
    for (int i = 0; i < STRIP; i++) lowest = least[i] < lowest ? least[i] : lowest;
    return lowest < -kind->limit ? kind->too_low : NULL;
}

#define PLAIN_BLOCKS(codec, bytes, at)                                                   \
    static void codec##_encode_blocks(const wefti_blocks *blocks, int64_t n_full,        \
                                      const wefti_rounding *rounding,                    \
                                      unsigned char *out) {                              \
        encode_each(codec##_encode, bytes, at, blocks, n_full, rounding, out);           \
    }                                                                                    \
    static const char *codec##_decode_blocks(const wefti_blocks *blocks, int64_t n_full, \
                                             const unsigned char *in) {                  \
        return decode_each(codec##_decode, bytes, at, blocks, n_full, in);               \
    }
PLAIN_BLOCKS(f32, STRIP * 4, 0)
PLAIN_BLOCKS(bf16, STRIP * 2, 0)
PLAIN_BLOCKS(sign, 2 + STRIP / 8, 2)
#undef PLAIN_BLOCKS

#define INTEGER_BLOCKS(codec)                                                            \
    static void codec##_encode_blocks(const wefti_blocks *blocks, int64_t n_full,        \
                                      const wefti_rounding *rounding,                    \
                                      unsigned char *out) {                              \
        integer_encode_blocks(&codec##_kind, blocks, n_full, rounding, out);             \
    }                                                                                    \
    static const char *codec##_decode_blocks(const wefti_blocks *blocks, int64_t n_full, \
                                             const unsigned char *in) {                  \
        return integer_decode_blocks(&codec##_kind, codec##_decode, blocks, n_full, in); \
    }
INTEGER_BLOCKS(int8)
INTEGER_BLOCKS(int4)
#undef INTEGER_BLOCKS

#define CODEC(codec)                                                                     \
    codec##_encode, codec##_decode, codec##_encode_blocks, codec##_decode_blocks
const wefti_value_ops WEFT_ISA_NAME(wefti_value_ops)[WEFTI_VALUE_CODECS] = {
    [WEFTI_VALUES_F32] = {"f32", 32, false, CODEC(f32)},
    [WEFTI_VALUES_BF16] = {"bf16", 16, false, CODEC(bf16)},
    [WEFTI_VALUES_INT8] = {"int8", 8, true, CODEC(int8)},
    [WEFTI_VALUES_INT4] = {"int4", 4, true, CODEC(int4)},
    [WEFTI_VALUES_SIGN] = {"sign", 1, true, CODEC(sign)},
};
