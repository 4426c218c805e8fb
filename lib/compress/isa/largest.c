/* SPDX-License-Identifier: MIT */
/* The k coefficients of largest magnitude. The bits of |x| order like the numbers, with a
 * NaN above all.
 *
 * Chunks side by side: each lane has a sorted list of its K best keys, K the smallest
 * power of two that is at least k. The next K keys are sorted by a network and merged
 * into the list (the larger of best_i and new_(K-1-i) are the K best of both, and
 * bitonic: Batcher 1968). Then each coefficient that reaches the k-th best gets a bit,
 * and each lane's coefficients with a bit are taken. There are more than k of them only
 * if several equal the k-th: then wefti_topk decides.
 *
 * One large chunk: the k-th largest of the maxima of some groups is a lower bound for the
 * k-th largest of all. Among the coefficients that reach the bound, a few more than k, a
 * key is searched for that exactly k reach. */
#include "compress/isa/steps.h"
#include "compress/selection.h"

FLAT vint key_of(const float *x) { return (vint)load(x) & INT32_MAX; }

FLAT void order(vint *a, vint *b) {
    vint top = larger_int(*a, *b);
    *b = smaller_int(*a, *b);
    *a = top;
}

/* clean: sorts a bitonic list into falling order. sort: sorts any list. For n that the
 * compiler knows, so that the lists stay in registers. */
FLAT void clean_2(vint *v) { order(&v[0], &v[1]); }

FLAT void clean_4(vint *v) {
    order(&v[0], &v[2]);
    order(&v[1], &v[3]);
    clean_2(v);
    clean_2(v + 2);
}

FLAT void clean_8(vint *v) {
    for (int i = 0; i < 4; i++) order(&v[i], &v[i + 4]);
    clean_4(v);
    clean_4(v + 4);
}

FLAT void sort_4(vint *v) {
    order(&v[0], &v[1]);
    order(&v[2], &v[3]);
    order(&v[0], &v[2]);
    order(&v[1], &v[3]);
    order(&v[1], &v[2]);
}

/* Merges two sorted halves: the odd and the even ones first (Batcher 1968). */
FLAT void sort_8(vint *v) {
    sort_4(v);
    sort_4(v + 4);
    for (int i = 0; i < 4; i++) order(&v[i], &v[i + 4]);
    order(&v[2], &v[4]);
    order(&v[3], &v[5]);
    for (int i = 1; i < 7; i += 2) order(&v[i], &v[i + 1]);
}

/* The same for any power of two, in memory. */
static void clean(int64_t n, vint *v) {
    for (int64_t half = n / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < n; i += 2 * half)
            for (int64_t j = i; j < i + half; j++) order(&v[j], &v[j + half]);
}

static void sort(int64_t n, vint *v) {
    for (int64_t i = 0; i < n; i += 8) sort_8(v + i);
    for (int64_t size = 16; size <= n; size *= 2) {
        for (int64_t i = 0; i < n; i += size) {
            for (int64_t j = 0; j < size / 2; j++) order(&v[i + j], &v[i + size - 1 - j]);
            clean(size / 2, v + i);
            clean(size / 2, v + i + size / 2);
        }
    }
}

FLAT void clean_few(int K, vint *v) {
    if (K == 2) clean_2(v);
    if (K == 4) clean_4(v);
    if (K == 8) clean_8(v);
}

FLAT void sort_few(int K, vint *v) {
    if (K == 2) clean_2(v);
    if (K == 4) sort_4(v);
    if (K == 8) sort_8(v);
}

/* K keys from term t on, -1 where the terms end. */
FLAT void keys_from(int64_t K, int64_t c, const float *x, int64_t t, vint *keys) {
    for (int64_t i = 0; i < K; i++)
        keys[i] = t + i < c ? key_of(x + (t + i) * LANES) : splat_int(-1);
}

/* The k-th largest of c terms, k <= K <= 8. */
FLAT vint kth_of_few(int K, int64_t c, const float *x, int64_t k) {
    vint best[8], next[8], merged[8];
    int64_t t = K;
    keys_from(K, c, x, 0, best);
    sort_few(K, best);
    for (; t + K <= c; t += K) {
        for (int i = 0; i < K; i++) next[i] = key_of(x + (t + i) * LANES);
        sort_few(K, next);
        for (int i = 0; i < K; i++) merged[i] = larger_int(best[i], next[K - 1 - i]);
        clean_few(K, merged);
        for (int i = 0; i < K; i++) best[i] = merged[i];
    }
    if (t < c) {
        keys_from(K, c, x, t, next);
        sort_few(K, next);
        for (int i = 0; i < K; i++) best[i] = larger_int(best[i], next[K - 1 - i]);
        clean_few(K, best);
    }
    return best[k - 1];
}

/* The same for any k; `room` for 2K vectors. */
static vint kth_of_many(int64_t c, const float *x, int64_t k, float *room) {
    int64_t K = 16;
    while (K < k) K *= 2;
    vint *best = (vint *)(void *)room, *next = best + K;
    keys_from(K, c, x, 0, best);
    sort(K, best);
    for (int64_t t = K; t < c; t += K) {
        keys_from(K, c, x, t, next);
        sort(K, next);
        for (int64_t i = 0; i < K; i++) best[i] = larger_int(best[i], next[K - 1 - i]);
        clean(K, best);
    }
    return best[k - 1];
}

/* The k-th largest key of each lane. */
static vint kth_largest(int64_t c, const float *x, int64_t k, float *room) {
    if (k == c) return splat_int(0);
    if (k == 1) return kth_of_few(1, c, x, k);
    if (k == 2) return kth_of_few(2, c, x, k);
    if (k <= 4) return kth_of_few(4, c, x, k);
    if (k <= 8) return kth_of_few(8, c, x, k);
    return kth_of_many(c, x, k, room);
}

/* Bit i of a lane: term i of n <= 32 is at least the floor. */
FLAT vint reaching_terms(int n, const float *x, int64_t ld, vint floor) {
    vint bits = splat_int(0);
    UNROLL
    for (int i = 0; i < n; i++)
        bits |= (key_of(x + i * ld) >= floor) & splat_int((int32_t)(1u << i));
    return bits;
}

static vint reaching_32(const float *x, int64_t ld, vint floor) {
    return reaching_terms(32, x, ld, floor);
}

/* Terms in words of 64: bit t of lane l of word w is in words[w * LANES + l]. */
static void reaching(int64_t c, const float *x, int64_t ld, vint floor, uint64_t *words) {
    for (int64_t t = 0; t < c; t += 64) {
        uint32_t half[2][LANES];
        for (int h = 0; h < 2; h++) {
            int64_t from = t + 32 * h, n = c - from;
            vint bits = n >= 32 ? reaching_32(x + from * ld, ld, floor)
                                : reaching_terms((int)n, x + from * ld, ld, floor);
            memcpy(half[h], &bits, sizeof bits);
        }
        for (int l = 0; l < LANES; l++)
            words[t / 64 * LANES + l] = half[0][l] | (uint64_t)half[1][l] << 32;
    }
}

/* Bit l: lane l has a bit in one of n words. */
static unsigned lanes_with_bits(int64_t n, const uint64_t *words) {
    unsigned lanes = 0;
    for (int64_t w = 0; w < n; w++)
        for (int l = 0; l < LANES; l++)
            lanes |= (unsigned)(words[w * LANES + l] > 0) << l;
    return lanes;
}

static int64_t count_bits(int64_t n, const uint64_t *words) {
    int64_t count = 0;
    for (int64_t w = 0; w < n; w++) count += __builtin_popcountll(words[w * LANES]);
    return count;
}

/* Takes each term with a bit: its index, from `base` on, and value. Returns their
 * number. */
FLAT int64_t take_bits(int64_t n, const uint64_t *words, const float *x, int64_t ld,
                       int32_t base, int32_t *index, float *value) {
    int64_t taken = 0;
    for (int64_t w = 0; w < n; w++) {
        for (uint64_t word = words[w * LANES]; word > 0; word &= word - 1) {
            int32_t t = (int32_t)w * 64 + __builtin_ctzll(word);
            index[taken] = base + t;
            value[taken++] = x[t * ld];
        }
    }
    return taken;
}

static void settle_ties(const spectrum_run *run, const float *x, int32_t *index,
                        float *value) {
    int64_t c = run->s->c;
    for (int64_t t = 0; t < c; t++) run->scratch->value[t] = x[t * LANES];
    wefti_topk(c, run->scratch->value, run->s->k, index, value, run->scratch->keys);
}

void WEFT_ISA_NAME(wefti_lines_largest)(const spectrum_run *run, const float *x,
                                        int64_t count, int32_t *indices, float *values) {
    int64_t c = run->s->c, k = run->s->k, n = (c + 63) / 64;
    uint64_t *words = run->scratch->words;
    reaching(c, x, LANES, kth_largest(c, x, k, run->scratch->temp), words);
    for (int64_t l = 0; l < count; l++, indices += k, values += k) {
        if (count_bits(n, words + l) == k)
            take_bits(n, words + l, x + l, LANES, 0, indices, values);
        else
            settle_ties(run, x + l, indices, values);
    }
}

/* How many of n vectors' lanes have keys of at least `least`. */
static int64_t count_reaching(int64_t n, const float *x, int32_t least) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += count_lanes(key_of(x + i * LANES) >= splat_int(least));
    return count;
}

/* Searches [low, high) for a key that k or more of n vectors' lanes reach: `low` is one,
 * `high` is not. Halves the range `steps` times, or until exactly k reach the key. */
static int64_t bisect(int64_t n, const float *x, int64_t k, int64_t low, int64_t high,
                      int steps) {
    for (; steps > 0 && high - low > 1; steps--) {
        int64_t middle = (low + high) / 2;
        int64_t count = count_reaching(n, x, (int32_t)middle);
        if (count == k) return middle;
        low = count > k ? middle : low;
        high = count > k ? high : middle;
    }
    return low;
}

/* The maxima of n vectors dealt out to `lists` lists. */
FLAT void deal_maxima(int64_t lists, int64_t n, const float *x, vint *maxima) {
    int64_t v = lists;
    for (int64_t i = 0; i < lists; i++) maxima[i] = key_of(x + i * LANES);
    for (; v + lists <= n; v += lists)
        for (int64_t i = 0; i < lists; i++)
            maxima[i] = larger_int(maxima[i], key_of(x + (v + i) * LANES));
    for (; v < n; v++) maxima[0] = larger_int(maxima[0], key_of(x + v * LANES));
}

enum { LISTS = 8 };
static void deal_to_registers(int64_t n, const float *x, vint *maxima) {
    vint list[LISTS];
    deal_maxima(LISTS, n, x, list);
    memcpy(maxima, list, sizeof list);
}

typedef struct bounds {
    int64_t low, high; /* keys; k or more reach low, none reaches high */
} bounds;

/* Bounds for the k-th largest of n vectors: the k-th largest of the maxima of some groups
 * is a lower bound. If k is so large that groups would be too small, the bound is
 * searched for among all keys. */
static bounds bound_kth(int64_t n, const float *x, int64_t k, float *room) {
    int64_t lists = LISTS;
    while (lists * LANES < 2 * k) lists *= 2;
    bool is_dealt = lists * 8 <= n;
    vint *maxima = (vint *)(void *)room;
    if (!is_dealt) lists = LISTS < n ? LISTS : n;
    if (lists == LISTS)
        deal_to_registers(n, x, maxima);
    else
        deal_maxima(lists, n, x, maxima);
    vint low = maxima[0], high = maxima[0];
    for (int64_t i = 1; i < lists; i++) {
        low = smaller_int(low, maxima[i]);
        high = larger_int(high, maxima[i]);
    }
    bounds b = {0, (int64_t)lane_max_int(high) + 1};
    if (is_dealt)
        b.low = bisect(lists, room, k, -(int64_t)lane_max_int(-low), b.high, 9);
    else
        b.low = bisect(n, x, k, 0, b.high, 31);
    return b;
}

/* Takes k of `found` candidates, which are in order of index. */
static void choose(const spectrum_run *run, int64_t found, bounds b, int32_t *indices,
                   float *values) {
    const int32_t *index = run->scratch->index;
    float *value = run->scratch->value;
    int64_t k = run->s->k, n = (found + LANES - 1) / LANES, taken = 0;
    memset(value + found, 0, (size_t)(n * LANES - found) * sizeof *value);
    int32_t least = (int32_t)bisect(n, value, k, b.low, b.high, 31);
    if (count_reaching(n, value, least) != k) {
        wefti_topk(found, value, k, indices, values, run->scratch->keys);
        for (int64_t i = 0; i < k; i++) indices[i] = index[indices[i]];
        return;
    }
    for (int64_t i = 0; taken < k; i++) {
        int32_t key;
        memcpy(&key, &value[i], sizeof key);
        indices[taken] = index[i];
        values[taken] = value[i];
        taken += (key & INT32_MAX) >= least;
    }
}

void WEFT_ISA_NAME(wefti_block_largest)(const spectrum_run *run, const float *x,
                                        int32_t *indices, float *values) {
    const wefti_spectrum *p = run->spectrum;
    const spectrum_scratch *scratch = run->scratch;
    int64_t c = p->c, n = (c + 63) / 64, found = 0;
    bounds b = bound_kth(c * p->ld / LANES, x, run->s->k, scratch->temp);
    for (int64_t f = 0; f < c; f += LANES) {
        reaching(c, x + f, p->ld, splat_int((int32_t)b.low), scratch->words);
        unsigned lines = lanes_with_bits(n, scratch->words);
        if (c - f < LANES) lines &= (1u << (c - f)) - 1;
        for (; lines > 0; lines &= lines - 1) {
            int64_t l = __builtin_ctz(lines);
            found += take_bits(n, scratch->words + l, x + f + l, p->ld,
                               (int32_t)((f + l) * c), scratch->index + found,
                               scratch->value + found);
        }
    }
    choose(run, found, b, indices, values);
}
