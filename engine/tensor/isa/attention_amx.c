/* SPDX-License-Identifier: MIT */
/* Attention whose products use numbers rounded to bf16, by AMX (tiles.h), for D a multiple of
 * 32; attention_bf16.c does other D. Masks, biases and exponentials are the same.
 *
 *     scores [key][query], dp    left: rows of k, v     right: q, do as [pair of d][query]
 *     o [d][query], dq           left: v, k by columns  right: p, ds as [pair of keys][query]
 *     dv [key][d], dk            left: rows of p, ds    right: do, q as [pair of queries][d]
 *
 * Four tiles of results at a time, 2 x 2. The forward pass takes PAIR queries and all their
 * keys. The backward pass takes QUERIES queries and, one after the other, KEYS of their keys:
 * the scores of such a block stay in the first-level cache, and so does dq; dk and dv of the
 * head are summed as tiles in the scratch. Meanwhile the memory of the next head is asked
 * for, whose rows are too far apart for the hardware prefetcher. */
#include "tensor/isa/attention_bf16.h"
#include "kernels/isa/tiles.h"

#ifdef WEFT_TILES

enum { QUERIES = 64, KEYS = 2 * TILE_LINES, STRIPS = QUERIES / LANES };

/* A thread's scratch; each tile of f32 is [16][16]. D16 = D / 16, D32 = D / 32. */
typedef struct tiles {
    int64_t row;               /* words from one row of k, v to the next */
    uint32_t *k_rows, *v_rows; /* [keys][row] */
    uint32_t *columns; /* of v forward, of k backward: [keys / 32][D16] left tiles */
    uint32_t *q, *d_o; /* [STRIPS][D32] right tiles, lines are queries */
    uint32_t *q_columns, *d_o_columns; /* [QUERIES / 32][D16] right tiles, lines are d */
    float *scores, *dp; /* forward [2][keys][16 queries], backward [STRIPS][KEYS][16] */
    uint32_t *p, *ds;   /* [QUERIES / 32][KEYS][16 pairs of queries] */
    uint32_t *by_keys;  /* p forward: [2][keys / 2][16], ds: [STRIPS][KEYS / 2][16] */
    float *dq;          /* [QUERIES / 32][D16][2], tiles [d][query]; o in the forward */
    float *dk, *dv;     /* [keys / 16][D16], tiles [key][d] */
    vfloat lse[STRIPS], delta[STRIPS];
} tiles;

static int64_t whole_blocks(int64_t keys) { return (keys + KEYS - 1) / KEYS * KEYS; }

static uint32_t *take_words(float *scratch, int64_t *at, int64_t n) {
    return (uint32_t *)(void *)take(scratch, at, n);
}

static tiles divide(const wefti_attention_shape *s, float *scratch, int64_t *n_floats) {
    int64_t keys = whole_blocks(wefti_attention_rows(s)), at = 0, row = s->D / 2;
    tiles w = {.row = row};
    w.k_rows = take_words(scratch, &at, keys * row);
    w.v_rows = take_words(scratch, &at, keys * row);
    w.columns = take_words(scratch, &at, keys * row);
    w.q = take_words(scratch, &at, QUERIES * row);
    w.d_o = take_words(scratch, &at, QUERIES * row);
    w.q_columns = take_words(scratch, &at, QUERIES * row);
    w.d_o_columns = take_words(scratch, &at, QUERIES * row);
    w.scores = take(scratch, &at,
                    keys * PAIR > KEYS * QUERIES ? keys * PAIR : KEYS * QUERIES);
    w.dp = take(scratch, &at, KEYS * QUERIES);
    w.p = take_words(scratch, &at, KEYS * QUERIES / 2);
    w.ds = take_words(scratch, &at, KEYS * QUERIES / 2);
    w.by_keys = take_words(scratch, &at, keys * LANES + KEYS * QUERIES / 2);
    w.dq = take(scratch, &at, QUERIES * s->D);
    w.dk = take(scratch, &at, keys * s->D);
    w.dv = take(scratch, &at, keys * s->D);
    *n_floats = at;
    return w;
}

static int64_t room(const wefti_attention_shape *s, bool rounds) {
    (void)rounds; /* always */
    int64_t n_floats;
    divide(s, NULL, &n_floats);
    return n_floats;
}

static tiles tiles_in(const head *h, float *scratch) {
    int64_t n_floats;
    return divide(h->s, scratch, &n_floats);
}

/* Asks for rows of D numbers each, to read or to write them. */
static inline void ask_rows(const wefti_attention_shape *s, const float *x, int64_t ld,
                            span rows) {
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t d = 0; d < s->D; d += s->half ? 32 : 16)
            __builtin_prefetch(place(s, x, i * ld + d), 0, 2);
}

/* Part i of n of what the next head reads in these rows, and of what this one will write. Asking
 * for all at once would wait. */
static inline void ask_part(const head *h, span rows, int64_t i, int64_t n) {
    const wefti_attention_shape *s = h->s;
    const head *next = h->next;
    if (!next) return;
    int64_t each = (rows.end - rows.begin + n - 1) / n, first = rows.begin + i * each;
    span part = {first, at_most(first + each, rows.end)};
    span keys = {first, at_most(part.end, at_most(h->n_keys, next->n_keys))};
    ask_rows(s, next->q, s->ld_q, part);
    ask_rows(s, next->k, s->ld_kv, keys);
    ask_rows(s, next->v, s->ld_kv, keys);
    if (!next->d_o) return;
    ask_rows(s, next->o, s->ld_o, part);
    ask_rows(s, next->d_o, s->ld_o, part);
    ask_rows(s, h->dq, s->ld_q, part);
    ask_rows(s, h->dk, s->ld_kv, keys);
    ask_rows(s, h->dv, s->ld_kv, keys);
}

/* The lines from `first` on of queries as right tiles, n strips of them. */
TILED static void pack_queries(const head *h, const float *x, int64_t ld, int64_t lines,
                               uint32_t *to) {
    int64_t strips = whole_strips(lines) / LANES, D = h->s->D;
    strips += strips % 2; /* whole pairs */
    for (int64_t i = 0; i < strips; i++) {
        int64_t left = lines - i * LANES;
        const float *at = place(h->s, x, left > 0 ? i * LANES * ld : 0);
        for (int64_t d = 0; d < D; d += TILE_TERMS, to += TILE_WORDS)
            pack_tile(true, false, (factor){place(h->s, at, d), ld, h->s->half}, left,
                      D - d, to);
    }
}

/* Columns of x[terms, D], 32 terms after the other, as left or right tiles. */
TILED static void pack_columns_of(const head *h, bool left, factor x, int64_t terms,
                                  uint32_t *to) {
    for (int64_t t = 0; t < terms; t += TILE_TERMS)
        for (int64_t d = 0; d < h->s->D; d += TILE_LINES, to += TILE_WORDS) {
            factor f = from(x, false, d, t);
            if (left)
                pack_tile(false, true, f, TILE_LINES, terms - t, to);
            else
                pack_tile(false, false, f, TILE_LINES, terms - t, to);
        }
}

/* Rows of k or v, those behind the last key 0. */
TILED static void pack_keys(const head *h, const float *x, uint32_t *to) {
    const wefti_attention_shape *s = h->s;
    int64_t all = whole_blocks(h->n_keys), row = s->D / 2;
    size_t n_bytes = (size_t)row * sizeof *to;
    if (!s->half) {
        pack_pair_rows(x, s->ld_kv, h->n_keys, s->D, all, row, to);
        return;
    }
    for (int64_t key = 0; key < h->n_keys; key++)
        memcpy(to + key * row, place(s, x, key * s->ld_kv), n_bytes);
    memset(to + h->n_keys * row, 0, (size_t)(all - h->n_keys) * n_bytes);
}

/* Stores 16 numbers from number i on. */
TILED_INLINE void store_at(const wefti_attention_shape *s, float *x, int64_t i,
                           vfloat v) {
    if (s->half)
        store_row((uint32_t *)(void *)place_to(s, x, i), v);
    else
        store(x + i, v);
}

/* out[2][size][16] = rows of KEYS keys times a pair of strips of queries */
TILED static void score_tiles(const tiles *w, const uint32_t *rows,
                              const uint32_t *queries, float *out, int64_t size) {
    int64_t n = 2 * w->row / TILE_TERMS, row = w->row * (int64_t)sizeof *rows;
    const uint32_t *low = rows + TILE_LINES * w->row, *second = queries + n * TILE_WORDS;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t t = 0; t < n; t++) {
        _tile_loadd(4, rows + t * LANES, row);
        _tile_loadd(6, queries + t * TILE_WORDS, TILE_STRIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, second + t * TILE_WORDS, TILE_STRIDE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, low + t * LANES, row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, TILE_STRIDE);
    _tile_stored(1, out + size * LANES, TILE_STRIDE);
    _tile_stored(2, out + TILE_WORDS, TILE_STRIDE);
    _tile_stored(3, out + size * LANES + TILE_WORDS, TILE_STRIDE);
}

/* 16 columns of d of queries become rows of o, scaled. */
TILED_INLINE void store_columns(const wefti_attention_shape *s, const float *sums,
                                vfloat scale, int64_t rows, float *o) {
    vfloat v[LANES];
    for (int i = 0; i < LANES; i++) v[i] = load(sums + i * LANES) * scale;
    transpose(v);
    if (rows >= LANES)
        for (int i = 0; i < LANES; i++) store_at(s, o, i * s->ld_o, v[i]);
    else
        for (int i = 0; i < rows; i++) store_at(s, o, i * s->ld_o, v[i]);
}

/* o of a pair of strips: out[D16][2] tiles = columns of v times p, [2][size / 2][16] pairs. */
TILED static void output_tiles(const tiles *w, int64_t n_blocks, int64_t size,
                               float *out) {
    int64_t each = w->row / 8,
            step = each * TILE_WORDS; /* tiles, words of a block of keys */
    const uint32_t *p = w->by_keys, *p2 = p + size / 2 * LANES;
    for (int64_t d = 0; d < each; d += 2, out += 4 * TILE_WORDS) {
        const uint32_t *a = w->columns + d * TILE_WORDS;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t t = 0; t < n_blocks; t++, a += step) {
            _tile_loadd(4, a, TILE_STRIDE);
            _tile_loadd(6, p + t * TILE_WORDS, TILE_STRIDE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, p2 + t * TILE_WORDS, TILE_STRIDE);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + TILE_WORDS, TILE_STRIDE);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        for (int i = 0; i < 4; i++) switch (i) {
            case 0: _tile_stored(0, out, TILE_STRIDE); break;
            case 1: _tile_stored(1, out + TILE_WORDS, TILE_STRIDE); break;
            case 2: _tile_stored(2, out + 2 * TILE_WORDS, TILE_STRIDE); break;
            default: _tile_stored(3, out + 3 * TILE_WORDS, TILE_STRIDE); break;
            }
    }
}

/* exp(score - top) of a strip in pairs of keys, 0 from `keys` to `end`; their sums. */
TILED static vfloat exponentials(const float *strip, span keys, vfloat scale, vfloat top,
                                 uint32_t *to) {
    vfloat sum = {0}, next = {0};
    int64_t key = 0;
    for (; key + 2 <= keys.begin; key += 2, to += LANES) {
        vfloat low = exp_of(load(strip + key * LANES) * scale - top);
        vfloat high = exp_of(load(strip + (key + 1) * LANES) * scale - top);
        sum += low;
        next += high;
        store_pairs(to, low, high);
    }
    if (key < keys.begin) {
        vfloat low = exp_of(load(strip + key * LANES) * scale - top);
        sum += low;
        store_pairs(to, low, splat(0));
        key += 2;
        to += LANES;
    }
    for (; key < keys.end; key += 2, to += LANES)
        _mm512_storeu_si512(to, _mm512_setzero_si512());
    return sum + next;
}

/* The forward pass of the queries `first` + lane, a strip of `size` keys, from its scores:
 * p in pairs of keys, one over their sums. */
TILED static vfloat forward_strip(const head *h, int64_t first, int64_t size,
                                  float *strip, uint32_t *p, float *lse) {
    const wefti_attention_shape *s = h->s;
    int64_t rows = at_most(s->T - first, LANES), keys = seen_keys(h, first + rows);
    vfloat scale = splat(s->scale);
    if (rows <= 0) {
        memset(p, 0, (size_t)(size / 2 * LANES) * sizeof *p);
        return scale;
    }
    if (is_narrow(s)) {
        for (int64_t i = 0; i < keys; i++)
            store(strip + i * LANES,
                  narrow(h, first, i, load(strip + i * LANES) * scale));
        scale = splat(1);
    }
    vfloat top = largest(h, first, keys, strip) * scale;
    vfloat sum = exponentials(strip, (span){keys, size}, scale, top, p);
    store_part(lse + first, top + log_lanes(sum), rows);
    return 1.0f / sum;
}

TILED static void forward_head(const head *h, float *scratch, float *o, float *lse) {
    const wefti_attention_shape *s = h->s;
    int64_t D = s->D;
    tiles w = tiles_in(h, scratch);
    pack_keys(h, h->k, w.k_rows);
    pack_columns_of(h, true, (factor){h->v, s->ld_kv, s->half}, h->n_keys, w.columns);
    tiles_begin();
    for (int64_t pair = 0; pair < s->T; pair += PAIR) {
        int64_t queries = at_most(s->T - pair, PAIR);
        int64_t size = whole_blocks(seen_keys(h, pair + queries));
        vfloat inverse[2];
        pack_queries(h, place(s, h->q, pair * s->ld_q), s->ld_q, queries, w.q);
        tiles_see_memory();
        for (int64_t key = 0; key < size; key += KEYS) {
            ask_part(h, (span){pair, pair + queries}, key / KEYS, size / KEYS);
            score_tiles(&w, w.k_rows + key * w.row, w.q, w.scores + key * LANES, size);
        }
        tiles_see_memory();
        for (int i = 0; i < 2; i++)
            inverse[i] = forward_strip(h, pair + i * LANES, size,
                                       w.scores + i * size * LANES,
                                       w.by_keys + i * size / 2 * LANES, lse);
        tiles_see_memory();
        output_tiles(&w, size / KEYS, size, w.dq);
        tiles_see_memory();
        for (int64_t d = 0; d < D; d += LANES)
            for (int i = 0; i < 2; i++)
                store_columns(s, w.dq + (d / LANES * 2 + i) * TILE_WORDS, inverse[i],
                              queries - i * LANES,
                              place_to(s, o, (pair + i * LANES) * s->ld_o + d));
    }
    tiles_end();
}

TILED static void take_keys(const head *h, float *scratch) {
    const wefti_attention_shape *s = h->s;
    tiles w = tiles_in(h, scratch);
    pack_keys(h, h->k, w.k_rows);
    pack_keys(h, h->v, w.v_rows);
    pack_columns_of(h, true, (factor){h->k, s->ld_kv, s->half}, h->n_keys, w.columns);
}

/* A block of the backward pass: queries from `first` and keys from `key` on. */
typedef struct block {
    int64_t first, key;
    int64_t from, to; /* pairs of strips with keys that they see */
    bool fresh;       /* the first block of the keys */
} block;

/* The queries from `first` on, in lanes, that see a key of theirs. */
TILED_INLINE __mmask16 seeing(int64_t first, int64_t key) {
    int64_t later = key - first;
    return (__mmask16)(later <= 0 ? 0xffff : later >= LANES ? 0 : 0xffff << later);
}

/* p and ds of a pair of strips, for all lanes or those that see the key, without more. */
TILED_INLINE void plain_slopes(const head *h, const tiles *w, const block *b, int64_t i,
                               bool masked) {
    const float *score = w->scores + i * 2 * KEYS * LANES, *next = score + KEYS * LANES;
    const float *dp = w->dp + i * 2 * KEYS * LANES, *next_dp = dp + KEYS * LANES;
    uint32_t *p = w->p + i * KEYS * LANES, *ds = w->ds + i * KEYS * LANES;
    uint32_t *pairs = w->by_keys + i * KEYS * LANES;
    const vfloat scale = splat(h->s->scale);
    const vfloat lse = w->lse[2 * i], next_lse = w->lse[2 * i + 1];
    const vfloat delta = w->delta[2 * i], next_delta = w->delta[2 * i + 1];
    int64_t first = b->first + i * PAIR;
    for (int key = 0; key < KEYS; key += 2, pairs += LANES) {
        __m512i both[2];
        for (int k = 0; k < 2; k++) {
            int at = (key + k) * LANES;
            vfloat e = exp_of(load(score + at) * scale - lse);
            vfloat e2 = exp_of(load(next + at) * scale - next_lse);
            if (masked) {
                int64_t here = b->key + key + k;
                e = (vfloat)_mm512_maskz_mov_ps(seeing(first, here), (__m512)e);
                e2 = (vfloat)_mm512_maskz_mov_ps(seeing(first + LANES, here), (__m512)e2);
            }
            vfloat d = e * ((load(dp + at) - delta) * scale);
            vfloat d2 = e2 * ((load(next_dp + at) - next_delta) * scale);
            _mm512_storeu_si512(p + at, round_pairs((__m512)e, (__m512)e2));
            both[k] = round_pairs((__m512)d, (__m512)d2);
            _mm512_storeu_si512(ds + at, both[k]);
        }
        _mm512_storeu_si512(pairs, _mm512_unpacklo_epi16(both[0], both[1]));
        _mm512_storeu_si512(pairs + KEYS / 2 * LANES,
                            _mm512_unpackhi_epi16(both[0], both[1]));
    }
}

/* The same with everything that a score may get. */
TILED static void any_slopes(const head *h, const tiles *w, const block *b, int64_t i) {
    uint32_t *p_rows = w->p + i * KEYS * LANES, *ds_rows = w->ds + i * KEYS * LANES;
    uint32_t *pairs = w->by_keys + i * KEYS * LANES;
    __m512i last = _mm512_setzero_si512();
    for (int64_t key = 0; key < KEYS; key++) {
        vfloat p[2] = {{0}}, ds[2] = {{0}};
        for (int64_t j = 0; j < 2; j++) {
            slopes at = {.first = b->first + (2 * i + j) * LANES};
            int64_t where = ((2 * i + j) * KEYS + key) * LANES, k = b->key + key;
            at.rows = at_most(h->s->T - at.first, LANES);
            at.past = seen_keys(h, at.first + 1);
            at.lse = w->lse[2 * i + j];
            at.delta = w->delta[2 * i + j];
            if (at.rows <= 0 || k >= seen_keys(h, at.first + LANES) || k >= h->n_keys)
                continue;
            vfloat score = load(w->scores + where) * h->s->scale;
            if (is_narrow(h->s)) score = narrow(h, at.first, k, score);
            ds[j] = slope_of(h, &at, k, score, load(w->dp + where), &p[j]);
        }
        __m512i both = round_pairs((__m512)ds[0], (__m512)ds[1]);
        _mm512_storeu_si512(p_rows + key * LANES,
                            round_pairs((__m512)p[0], (__m512)p[1]));
        _mm512_storeu_si512(ds_rows + key * LANES, both);
        if (key % 2 == 0) {
            last = both;
            continue;
        }
        uint32_t *to = pairs + key / 2 * LANES;
        _mm512_storeu_si512(to, _mm512_unpacklo_epi16(last, both));
        _mm512_storeu_si512(to + KEYS / 2 * LANES, _mm512_unpackhi_epi16(last, both));
    }
}

/* sums[2][D16] tiles += rows of KEYS keys times columns, of the pairs of b */
TILED static void add_to_keys(const tiles *w, const block *b, const uint32_t *rows,
                              const uint32_t *columns, float *sums) {
    int64_t each = w->row / 8;
    for (int64_t d = 0; d < each; d += 2, sums += 2 * TILE_WORDS) {
        float *low = sums + each * TILE_WORDS;
        if (b->fresh) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        } else {
            _tile_loadd(0, sums, TILE_STRIDE);
            _tile_loadd(1, sums + TILE_WORDS, TILE_STRIDE);
            _tile_loadd(2, low, TILE_STRIDE);
            _tile_loadd(3, low + TILE_WORDS, TILE_STRIDE);
        }
        for (int64_t i = b->from; i < b->to; i++) {
            const uint32_t *a = rows + i * KEYS * LANES;
            const uint32_t *right = columns + (i * each + d) * TILE_WORDS;
            _tile_loadd(4, a, TILE_STRIDE);
            _tile_loadd(6, right, TILE_STRIDE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, right + TILE_WORDS, TILE_STRIDE);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + TILE_WORDS, TILE_STRIDE);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, sums, TILE_STRIDE);
        _tile_stored(1, sums + TILE_WORDS, TILE_STRIDE);
        _tile_stored(2, low, TILE_STRIDE);
        _tile_stored(3, low + TILE_WORDS, TILE_STRIDE);
    }
}

/* dq[D16][2] tiles of pair i += columns of KEYS keys times ds */
TILED static void add_to_queries(const tiles *w, const block *b, int64_t i) {
    int64_t each = w->row / 8;
    const uint32_t *a = w->columns + b->key / KEYS * each * TILE_WORDS;
    const uint32_t *pairs = w->by_keys + i * KEYS * LANES;
    float *sums = w->dq + i * each * 2 * TILE_WORDS;
    _tile_loadd(6, pairs, TILE_STRIDE);
    _tile_loadd(7, pairs + TILE_WORDS, TILE_STRIDE);
    for (int64_t d = 0; d < each; d += 2, a += 2 * TILE_WORDS, sums += 4 * TILE_WORDS) {
        if (b->key == 0) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        } else {
            _tile_loadd(0, sums, TILE_STRIDE);
            _tile_loadd(1, sums + TILE_WORDS, TILE_STRIDE);
            _tile_loadd(2, sums + 2 * TILE_WORDS, TILE_STRIDE);
            _tile_loadd(3, sums + 3 * TILE_WORDS, TILE_STRIDE);
        }
        _tile_loadd(4, a, TILE_STRIDE);
        _tile_loadd(5, a + TILE_WORDS, TILE_STRIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_stored(0, sums, TILE_STRIDE);
        _tile_stored(1, sums + TILE_WORDS, TILE_STRIDE);
        _tile_stored(2, sums + 2 * TILE_WORDS, TILE_STRIDE);
        _tile_stored(3, sums + 3 * TILE_WORDS, TILE_STRIDE);
    }
}

TILED static void backward_block(const head *h, const tiles *w, const block *b) {
    int64_t n = h->s->D / TILE_TERMS * 2 * TILE_WORDS, end = b->key + KEYS;
    bool plain = !is_narrow(h->s) && !h->dbias && (!h->s->all || end <= h->n_keys);
    tiles_see_memory();
    for (int64_t i = b->from; i < b->to; i++) {
        int64_t at = i * 2 * KEYS * LANES;
        score_tiles(w, w->k_rows + b->key * w->row, w->q + i * n, w->scores + at, KEYS);
        score_tiles(w, w->v_rows + b->key * w->row, w->d_o + i * n, w->dp + at, KEYS);
    }
    tiles_see_memory();
    for (int64_t i = b->from; i < b->to; i++) {
        int64_t first = b->first + i * PAIR;
        if (!plain)
            any_slopes(h, w, b, i);
        else if (end <= seen_keys(h, first + 1))
            plain_slopes(h, w, b, i, false);
        else
            plain_slopes(h, w, b, i, true);
    }
    int64_t at = b->key * 2 * w->row;
    tiles_see_memory();
    for (int64_t i = b->from; i < b->to; i++) add_to_queries(w, b, i);
    add_to_keys(w, b, w->p, w->d_o_columns, w->dv + at);
    add_to_keys(w, b, w->ds, w->q_columns, w->dk + at);
    tiles_see_memory();
}

/* dq of a pair. Its tiles have the queries 0 to 3, 8 to 11, ... of the pair's 32 and then the
 * others, as plain_slopes pairs them. */
TILED static void store_query_gradients(const head *h, const tiles *w, int64_t i,
                                        int64_t first) {
    int64_t D = h->s->D, ld = h->s->ld_q, rows = h->s->T - first;
    const float *sums = w->dq + i * 2 * D * LANES;
    for (int64_t d = 0; d < D; d += LANES)
        for (int half = 0; half < 2; half++, sums += TILE_WORDS) {
            vfloat v[LANES];
            for (int j = 0; j < LANES; j++) v[j] = load(sums + j * LANES);
            transpose(v);
            for (int j = 0; j < LANES; j++) {
                int64_t row = j / 4 * 8 + j % 4 + half * 4;
                if (row < rows) store_at(h->s, h->dq, (first + row) * ld + d, v[j]);
            }
        }
}

/* What the slopes of the queries need; queries that are not there have p = 0. */
TILED static void take_queries(const head *h, tiles *w, int64_t first, int64_t queries) {
    const wefti_attention_shape *s = h->s;
    const float *q = place(s, h->q, first * s->ld_q);
    const float *d_o = place(s, h->d_o, first * s->ld_o);
    const vint lane = {LANES_COUNT};
    pack_queries(h, q, s->ld_q, queries, w->q);
    pack_queries(h, d_o, s->ld_o, queries, w->d_o);
    pack_columns_of(h, false, (factor){q, s->ld_q, s->half}, queries, w->q_columns);
    pack_columns_of(h, false, (factor){d_o, s->ld_o, s->half}, queries, w->d_o_columns);
    for (int64_t i = 0; i < STRIPS; i++) {
        int64_t rows = at_most(queries - i * LANES, LANES);
        w->lse[i] = splat(INFINITY);
        w->delta[i] = splat(0);
        if (rows <= 0) continue;
        vfloat lse = load_part(h->lse + first + i * LANES, rows);
        w->lse[i] = pick(lane < (int32_t)rows, lse, splat(INFINITY));
        w->delta[i] = query_deltas(h, first + i * LANES, rows);
    }
}

TILED static void backward_queries(const head *h, float *scratch, int64_t first,
                                   bool fresh) {
    const wefti_attention_shape *s = h->s;
    tiles w = tiles_in(h, scratch);
    int64_t queries = at_most(s->T - first, QUERIES),
            keys = seen_keys(h, first + queries);
    block b = {.first = first, .to = (queries + PAIR - 1) / PAIR, .fresh = fresh};
    take_queries(h, &w, first, queries);
    tiles_begin();
    for (; b.key < keys; b.key += KEYS) {
        ask_part(h, (span){first, first + queries}, b.key / KEYS,
                 (keys + KEYS - 1) / KEYS);
        b.from = s->all || b.key <= first ? 0 : (b.key - first) / PAIR;
        backward_block(h, &w, &b);
    }
    tiles_end();
    for (int64_t i = 0; i < b.to; i++) store_query_gradients(h, &w, i, first + i * PAIR);
}

/* The sums of dk and dv become rows. */
TILED static void give_keys(const head *h, float *scratch) {
    const wefti_attention_shape *s = h->s;
    tiles w = tiles_in(h, scratch);
    for (int64_t key = 0; key < h->n_keys; key++) {
        int64_t at = key / LANES * LANES * s->D + key % LANES * LANES;
        for (int64_t d = 0; d < s->D; d += LANES, at += TILE_WORDS) {
            store_at(s, h->dk, key * s->ld_kv + d, load(w.dk + at));
            store_at(s, h->dv, key * s->ld_kv + d, load(w.dv + at));
        }
    }
}

static const attention_way as_tiles = {.rounds = true,
                                       .queries = QUERIES,
                                       .room = room,
                                       .forward = forward_head,
                                       .take_keys = take_keys,
                                       .backward = backward_queries,
                                       .give_keys = give_keys};

static const attention_way *way_of(const wefti_attention_shape *s) {
    return s->D % TILE_TERMS == 0 ? &as_tiles : &WEFT_ISA_NAME(wefti_attention_pairs);
}

bool WEFT_ISA_NAME(wefti_attention_halves_amx)(const wefti_attention_shape *s) {
    return way_of(s) == &as_tiles && !s->all;
}

ATTENTION_KERNELS(_amx, way_of(s))
#endif
