/* SPDX-License-Identifier: MIT */
/* Rounded binomial coefficients: see binomials.h.
 *
 * Numbers of several chunks are joined into one, because a single one wastes part of its
 * last bit: for 4 of 64 it takes 20 bits instead of 19.28, but two joined take 39. */
#include "wire/binomials.h"

#include "base/memory.h"

__extension__ typedef unsigned __int128 uint128;

enum { NARROW_PLACES = 256, MAX_ELEMENTS = 1 << 20 };

/* Bits of the numbers below total^g; -1 if total^g is above 2^128. */
static int joined_bits(uint64_t total, int g) {
    uint128 largest = 0; /* total^r - 1 */
    for (int r = 0; r < g; r++) {
        uint128 room = ~(uint128)0 - (total - 1);
        if (largest > room / total) return -1;
        largest = largest * total + (total - 1);
    }
    uint64_t high = (uint64_t)(largest >> 64);
    return high ? 64 + wefti_bit_length(high) : wefti_bit_length((uint64_t)largest);
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* How many low bits of an index are written as they are: as many as leave 16 places per
 * index. */
static int choose_low_bits(int64_t elements, int64_t k) {
    int bits = 0;
    while (elements >> (bits + 1) >= max64(16 * k, 128)) bits++;
    return bits;
}

/* The smallest group whose bits per chunk are within one per cent of the best group's. */
static void choose_group(wefti_binomial_shape *s) {
    int low = s->low_bits * (int)s->k, best = 1;
    int *bits = s->group_bits;
    s->group = 1;
    bits[1] = s->number_bits + low;
    if (!s->one_word) return;
    for (int r = 1; r <= WEFTI_GROUP_MAX; r++) {
        int joined = joined_bits(wefti_rounded_value(s->total), r);
        if (joined < 0) break;
        bits[r] = joined + r * low;
        if (bits[r] * best < bits[best] * r) best = r;
    }
    while (100 * bits[s->group] * best > 101 * bits[best] * s->group) s->group++;
}

static int near_bits(int64_t places, int64_t j) {
    return wefti_bits_for((places + j - 1) / j);
}

static int64_t near_entries(int64_t places, int64_t j) {
    return j > 1 ? 64ll << near_bits(places, j) : 0;
}

static int64_t pair_entries(const wefti_binomial_shape *s) {
    return s->four ? s->places * (s->places - 1) / 2 : 0;
}

static int64_t step_entries(const wefti_binomial_shape *s) {
    return s->four ? (int64_t)(wefti_rounded_value(s->total) >> WEFTI_STEP_BITS) + 1 : 0;
}

/* Between two points a line is off by about n / (8 j 4^bits), which must be below 1/2. */
static int curve_bits(int64_t places, int64_t j) {
    return (wefti_bits_for((places + 4 * j - 1) / (4 * j)) + 1) / 2;
}

static int64_t curve_entries(int64_t places, int64_t j, wefti_rounded largest) {
    return (int64_t)(wefti_rounded_length(largest) + 2) << curve_bits(places, j);
}

/* column[j] = B(places, j), as below. */
static int64_t table_bytes(const wefti_binomial_shape *s, const wefti_rounded *column) {
    int64_t entry = s->narrow ? 8 : 4;
    int64_t n_bytes = (int64_t)sizeof(wefti_binomials) +
                      (s->picked + 1) *
                          ((int64_t)sizeof(wefti_binomial_row) + entry * (s->places + 1));
    for (int64_t j = 1; j <= s->picked; j++)
        n_bytes += s->narrow ? near_entries(s->places, j)
                             : 4 * curve_entries(s->places, j, column[j]);
    return n_bytes + (int64_t)sizeof(wefti_pair) * pair_entries(s) +
           (int64_t)sizeof(wefti_pair_step) * step_entries(s);
}

/* column[j] = B(places, j) */
static void fill_column(int64_t places, int64_t picked, wefti_rounded *column) {
    column[0] = wefti_rounded_down(1);
    for (int64_t j = 1; j <= picked; j++) column[j] = 0;
    for (int64_t n = 1; n <= places; n++)
        for (int64_t j = n < picked ? n : picked; j >= 1; j--)
            column[j] = wefti_rounded_add(column[j], column[j - 1]);
}

static bool make_shape(int64_t elements, int64_t k, wefti_binomial_shape *out) {
    wefti_rounded column[WEFTI_PICKED_MAX + 1];
    wefti_binomial_shape s = {.elements = elements, .k = k, .group = 1};
    s.low_bits = choose_low_bits(elements, k);
    s.picked = s.low_bits > 0 || k < elements - k ? k : elements - k;
    s.places = elements;
    if (s.low_bits > 0)
        s.places = ((elements + (1ll << s.low_bits) - 1) >> s.low_bits) + k - 1;
    *out = s;
    if (elements > MAX_ELEMENTS || s.picked > WEFTI_PICKED_MAX ||
        s.picked > WEFTI_BINOMIALS_MAX_BYTES / 4 / (s.places + 1))
        return false;
    fill_column(s.places, s.picked, column);
    s.total = column[s.picked];
    s.number_bits = wefti_rounded_bits(s.total);
    s.one_word = wefti_rounded_length(s.total) <= 64;
    s.narrow = s.places <= NARROW_PLACES && wefti_rounded_length(s.total) <= 63;
    choose_group(&s);
    s.four = k == 4 && s.picked == 4 && s.low_bits == 0 &&
             s.total < wefti_rounded_down(1 << WEFTI_ROUNDED_BITS) &&
             s.group_bits[s.group] <= 64;
    s.n_bytes = table_bytes(&s, column);
    *out = s;
    return s.n_bytes <= WEFTI_BINOMIALS_MAX_BYTES &&
           s.number_bits <= 64 * WEFTI_NUMBER_WORDS;
}

/* The last few shapes that a thread asked for. A caller that only counts bytes (a
 * prediction, for every bucket, owner and round) asks for the same two or three again and
 * again, and each takes places * picked steps. A shape is a function of (elements, k)
 * alone, so no result depends on what a thread has asked for before. */
typedef struct memo {
    int next; /* the entry that is replaced next */
    struct {
        bool fits;
        wefti_binomial_shape shape; /* elements 0: none */
    } kept[8];
} memo;

static _Thread_local memo recent;

bool wefti_binomial_shape_make(int64_t elements, int64_t k, wefti_binomial_shape *out) {
    const int n = (int)(sizeof recent.kept / sizeof recent.kept[0]);
    int i = 0;
    while (i < n && !(elements > 0 && recent.kept[i].shape.elements == elements &&
                      recent.kept[i].shape.k == k))
        i++;
    if (i == n) {
        i = recent.next;
        recent.next = (i + 1) % n;
        recent.kept[i].fits = make_shape(elements, k, &recent.kept[i].shape);
    }
    *out = recent.kept[i].shape;
    return recent.kept[i].fits;
}

int64_t wefti_binomials_bytes(int64_t elements, int64_t k) {
    wefti_binomial_shape shape;
    bool fits = wefti_binomial_shape_make(elements, k, &shape);
    return fits ? shape.n_bytes : (int64_t)WEFTI_BINOMIALS_MAX_BYTES + 1;
}

/* values[n] = B(n, j) from below[n] = B(n, j - 1). */
static void fill_values(int64_t places, const uint64_t *below, uint64_t *values) {
    values[0] = 0;
    for (int64_t n = 1; n <= places; n++)
        values[n] = wefti_rounded_value(wefti_rounded_add(
            wefti_rounded_down(values[n - 1]), wefti_rounded_down(below[n - 1])));
}

static void fill_near(int64_t places, int64_t j, const uint64_t *values, uint8_t *near) {
    int64_t at = 0, n_entries = near_entries(places, j);
    for (int64_t n = j - 1; n < places; n++) {
        /* up to the entry in which n + 1 begins, that one included */
        int64_t next = (int64_t)wefti_near_entry(values[n + 1], near_bits(places, j));
        if (n == places - 1 || next >= n_entries) next = n_entries - 1;
        for (; at <= next; at++) near[at] = (uint8_t)n;
    }
}

static void fill_pairs(int64_t places, wefti_pair *pairs) {
    for (int32_t high = 1; high < places; high++)
        for (int32_t low = 0; low < high; low++) *pairs++ = (wefti_pair){low, high};
}

/* The pair of upper members (2 <= low < high) after this one. */
static wefti_pair next_pair(wefti_pair p) {
    return p.low + 1 < p.high ? (wefti_pair){p.low + 1, p.high}
                              : (wefti_pair){2, p.high + 1};
}

/* The least number of a set with these upper members, and the number of that pair, as in
 * a step. */
static uint32_t pair_key(const wefti_binomials *t, wefti_pair p) {
    uint64_t x = t->rows[3].values[p.low] + t->rows[4].values[p.high];
    uint64_t number = t->rows[1].values[p.low] + t->rows[2].values[p.high];
    return (uint32_t)(x << 12 | number);
}

/* After the last pair follows one with member `places`, whose x is the total. */
static void fill_steps(const wefti_binomials *t, wefti_pair_step *steps) {
    wefti_pair here = {2, 3};
    for (int64_t at = 0; at < step_entries(&t->shape); at++) {
        uint32_t first = (uint32_t)at << (WEFTI_STEP_BITS + 12) | 4095;
        while (here.high < t->shape.places && pair_key(t, next_pair(here)) <= first)
            here = next_pair(here);
        wefti_pair next = next_pair(here);
        steps[at] = (wefti_pair_step){pair_key(t, here), pair_key(t, next)};
        uint32_t last = first + (((1u << WEFTI_STEP_BITS) - 1) << 12);
        if (next.high < t->shape.places && pair_key(t, next_pair(next)) <= last)
            steps[at] = (wefti_pair_step){WEFTI_CROWDED, WEFTI_CROWDED};
    }
}

static void *take(unsigned char **space, int64_t n_bytes) {
    unsigned char *taken = *space;
    *space += n_bytes;
    return taken;
}

static void fill_narrow(wefti_binomials *t, unsigned char *space) {
    int64_t places = t->shape.places, picked = t->shape.picked;
    uint64_t *values = take(&space, 8 * (picked + 1) * (places + 1));
    wefti_pair *pairs = take(&space, (int64_t)sizeof *pairs * pair_entries(&t->shape));
    wefti_pair_step *steps = take(&space,
                                  (int64_t)sizeof *steps * step_entries(&t->shape));
    for (int64_t n = 0; n <= places; n++) values[n] = 1;
    for (int64_t j = 1; j <= picked; j++) {
        uint64_t *row = values + j * (places + 1);
        uint8_t *near = take(&space, near_entries(places, j));
        fill_values(places, row - (places + 1), row);
        fill_near(places, j, row, near);
        t->rows[j] = (wefti_binomial_row){
            .values = row, .near = near, .near_bits = near_bits(places, j)};
    }
    if (!t->shape.four) return;
    fill_pairs(places, pairs);
    t->pairs = pairs;
    fill_steps(t, steps);
    t->steps = steps;
}

static void fill_rounded(int64_t places, const wefti_rounded *below, wefti_rounded *row) {
    row[0] = 0;
    for (int64_t n = 1; n <= places; n++)
        row[n] = wefti_rounded_add(row[n - 1], below[n - 1]);
}

/* n, plus the part of the way from B(n, j) to B(n + 1, j) at which x is, plus a half. */
static uint32_t curve_point(const wefti_rounded *row, int64_t n, wefti_rounded x) {
    uint64_t part = 0, whole = 1u << WEFTI_CURVE_FRACTION;
    if (x > row[n]) part = (x - row[n]) * whole / (row[n + 1] - row[n]);
    part = part < whole ? part : whole - 1;
    return (uint32_t)((uint64_t)n * whole + part + whole / 2);
}

static void fill_curve(int64_t places, int64_t n_entries, int bits,
                       const wefti_rounded *row, uint32_t *curve) {
    int64_t n = 0;
    for (int64_t at = 0; at < n_entries; at++) {
        wefti_rounded x = (uint32_t)at << (WEFTI_ROUNDED_BITS - 1 - bits);
        while (n < places - 1 && row[n + 1] <= x) n++;
        curve[at] = curve_point(row, n, x);
    }
}

static void fill_wide(wefti_binomials *t, unsigned char *space) {
    int64_t places = t->shape.places, picked = t->shape.picked;
    wefti_rounded *rounded = take(&space, 4 * (picked + 1) * (places + 1));
    for (int64_t n = 0; n <= places; n++) rounded[n] = wefti_rounded_down(1);
    for (int64_t j = 1; j <= picked; j++) {
        wefti_rounded *row = rounded + j * (places + 1);
        int bits = curve_bits(places, j);
        fill_rounded(places, row - (places + 1), row);
        int64_t n_entries = curve_entries(places, j, row[places]);
        uint32_t *curve = take(&space, 4 * n_entries);
        fill_curve(places, n_entries, bits, row, curve);
        t->rows[j] = (wefti_binomial_row){
            .rounded = row, .curve = curve, .curve_shift = WEFTI_ROUNDED_BITS - 1 - bits};
    }
}

weft_status wefti_binomials_create(weft_ctx *ctx, int64_t elements, int64_t k,
                                   wefti_binomials **out) {
    wefti_binomial_shape shape;
    *out = NULL;
    if (!wefti_binomial_shape_make(elements, k, &shape))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "replicator.index_codec enumerative would need a table of more than %d MiB "
            "for %lld of %lld coefficients (compression_topk, compression_chunk); take "
            "auto, fixed or bitmap",
            WEFTI_BINOMIALS_MAX_BYTES >> 20, (long long)k, (long long)elements);
    WEFT_TRY(wefti_alloc(ctx, (size_t)shape.n_bytes, "a table of binomials", out));
    wefti_binomials *t = *out;
    t->shape = shape;
    if (shape.one_word) {
        t->radix = wefti_rounded_value(shape.total);
        t->reciprocal = ~0ull / t->radix;
    }
    unsigned char *space = (unsigned char *)(t + 1);
    t->rows = take(&space, (shape.picked + 1) * (int64_t)sizeof *t->rows);
    if (shape.narrow)
        fill_narrow(t, space);
    else
        fill_wide(t, space);
    return WEFT_OK;
}

void wefti_binomials_destroy(weft_ctx *ctx, wefti_binomials *binomials) {
    wefti_free(ctx, binomials);
}
