/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 by AMX (tiles.h).
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C + bias
 *
 *     for terms by equal blocks of at most TERMS    each number of C is summed in this
 *       for columns by as many as fit               order, so its bits depend only on K
 *         pack B, each thread a part                shared by all threads
 *         for rows by PANEL                         by the thread that is free
 *           pack A on its stack
 *           for 32 rows: all tiles of 32 x 32
 *
 * Where a block of more than TERMS terms has all of them (K up to LONG), or C is bfloat16 or gets
 * something added (K up to WEFTI_MIXED_TERMS), C is passed once:
 *
 *           for rows by 32
 *             for terms by INNER: pack A on its stack, sums += all tiles of 32 x 32
 *             C = alpha sums + beta C + bias, whose memory was asked for meanwhile
 *
 * Where the columns take several blocks, and A of few rows fits into the second-level cache beside
 * B, it is packed by the first block and kept for the others.
 *
 * Gradients of matrices, which have few rows and columns and many blocks of terms, are divided: a
 * thread has its rows or columns of C for all terms, so these stay in its own second-level cache.
 *
 * So B is packed once, lies in the second-level cache of each core and passes 32 rows of A in
 * the first-level cache; C and A are read and written along their rows. */
#include "kernels/isa/parts.h"
#include "kernels/isa/product.h"
#include "kernels/isa/tiles.h"

#ifdef WEFT_TILES
/* One instruction where store_half has ten; denormal numbers become 0. */
TILED_INLINE void store_rounded(uint16_t *y, vfloat v) {
    __m256bh bits = _mm512_cvtneps_pbh((__m512)v);
    memcpy(y, &bits, sizeof bits);
}

#define RESULTS_INLINE TILED_INLINE
#define RESULTS_HALF store_rounded
#include "kernels/isa/results.h"

/* 32 rows of TERMS numbers are 32 KB; KEPT numbers of B fill half of a cache of 2 MB. */
enum { TERMS = 512, KEPT = 512 * 1024, PANEL = 128, SIDE = 2 * TILE_LINES };

/* 32 rows of INNER numbers are 16 KB: they stay in the first-level cache beside columns of B.
 * WIDE columns of LONG terms fill the kept memory. */
enum { LONG = 768, INNER = 256, WIDE = KEPT / LONG / SIDE * SIDE };

/* Numbers of A that are kept for all columns of B: a quarter of the cache. */
enum { KEPT_LEFT = 256 * 1024 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The first n of 16 sums of a row. */
TILED_INLINE void store_line(const product *p, const float *sums, int64_t n,
                             const float *bias, float *c) {
    vfloat v = load(sums) * p->alpha;
    if (!bias || n <= 0) {
        store_sum(v, n, p->beta, c);
    } else if (n >= LANES) {
        if (p->beta != 0) v += load(c) * p->beta;
        store(c, v + load(bias));
    } else {
        if (p->beta != 0) v += load_part(c, n) * p->beta;
        store_part(c, v + load_part(bias, n), n);
    }
}

/* Whether C consists of whole lines of the cache, which are stored past it: a core writes 25 GB/s
 * so, and 10 through the cache, which reads each line first. */
static bool passes_cache(const product *p) {
    bool whole = p->N % LANES == 0 && p->ldc % LANES == 0 && (uintptr_t)p->C % 64 == 0;
    return p->past && whole && p->beta == 0 && !p->bias;
}

/* c[rows,columns] = alpha sums[32][32], of whole lines */
TILED_INLINE void stream_sums(const product *p, const float *sums, int64_t m, int64_t n) {
    float *c = (float *)p->C + m * p->ldc + n;
    for (int64_t i = 0; i < SIDE && i < p->M - m; i++, c += p->ldc, sums += SIDE) {
        _mm512_stream_ps(c, (__m512)(load(sums) * p->alpha));
        if (p->N - n > LANES)
            _mm512_stream_ps(c + LANES, (__m512)(load(sums + LANES) * p->alpha));
    }
}

/* c[rows,columns] = alpha sums[32][32] + beta c + bias, at row m and column n of p */
TILED_INLINE void store_sums(const product *p, const float *sums, int64_t m, int64_t n) {
    float *c = (float *)p->C + m * p->ldc + n;
    const float *bias = p->bias ? p->bias + n : NULL, *high = bias ? bias + LANES : NULL;
    for (int64_t i = 0; i < SIDE && i < p->M - m; i++, c += p->ldc, sums += SIDE) {
        store_line(p, sums, p->N - n, bias, c);
        store_line(p, sums + LANES, p->N - n - LANES, high, c + LANES);
    }
}

/* All tiles of p, whose factors are packed. */
TILED static void multiply_packed(const product *p, const uint32_t *a,
                                  const uint32_t *b) {
    int64_t n_tiles = whole_tiles(p->K, TILE_TERMS), line = n_tiles * TILE_WORDS;
    bool past = passes_cache(p);
    tiles_begin();
    for (int64_t m = 0; m < p->M; m += SIDE, a += 2 * line) {
        const uint32_t *a2 = m + TILE_LINES < p->M ? a + line : a, *right = b;
        for (int64_t n = 0; n < p->N; n += SIDE, right += 2 * line) {
            _Alignas(64) float sums[SIDE * SIDE];
            const uint32_t *right2 = n + TILE_LINES < p->N ? right + line : right;
            multiply_tiles(a, a2, right, right2, n_tiles, sums);
            if (past)
                stream_sums(p, sums, m, n);
            else
                store_sums(p, sums, m, n);
        }
    }
    tiles_end();
    if (past) _mm_sfence();
}

/* Packs A. */
TILED static void pack_left(const product *p, uint32_t *tiles) {
    span terms = {0, p->K};
    factor whole = {p->A, p->lda, false}, half = {p->A, p->lda, true};
    if (p->half_a && p->ta)
        pack_tiles(false, true, half, p->M, terms, p->K, tiles);
    else if (p->half_a)
        pack_tiles(true, true, half, p->M, terms, p->K, tiles);
    else if (p->ta)
        pack_tiles(false, true, whole, p->M, terms, p->K, tiles);
    else
        pack_tiles(true, true, whole, p->M, terms, p->K, tiles);
}

/* Packs B, each thread some of its rows in memory. */
TILED_INLINE void pack_right(const product *p, bool half, int64_t row, uint32_t *tiles) {
    factor b = {p->B, p->ldb, half};
    if (p->tb) {
        int64_t line = whole_tiles(p->K, TILE_TERMS) * TILE_WORDS;
        pack_tiles(true, false, from(b, true, row, 0), least(TILE_LINES, p->N - row),
                   (span){0, p->K}, p->K, tiles + row / TILE_LINES * line);
    } else {
        span terms = {row, least(row + TILE_TERMS, p->K)};
        pack_tiles(false, false, b, p->N, terms, p->K, tiles);
    }
}

TILED static void pack_rows_of_right(const product *p, int64_t row, uint32_t *tiles) {
    if (p->half_b)
        pack_right(p, true, row, tiles);
    else
        pack_right(p, false, row, tiles);
}

/* Room for the whole of A, or NULL; the first block of columns packs it. */
typedef struct kept {
    uint32_t *a;
    bool packed;
} kept;

/* C[PANEL or fewer rows, N]; B is packed. */
static void multiply_panel(const product *p, int64_t row, const uint32_t *b, kept k) {
    _Alignas(64) uint32_t room[PANEL * TERMS / 2];
    uint32_t *a = k.a ? k.a + packed_words(row, p->K) : room;
    product panel = part_of(p, (span){row, least(row + PANEL, p->M)}, (span){0, p->N});
    if (!k.packed) pack_left(&panel, a);
    multiply_packed(&panel, a, b);
}

/* Lines of C that will be stored soon. */
typedef struct coming {
    const char *row;
    int64_t ld, lines, line, rows;
} coming;

static inline void ask(coming *c, int64_t n) {
    for (; n > 0 && c->rows > 0; n--) {
        __builtin_prefetch(c->row + c->line * 64, 1, 2);
        if (++c->line < c->lines) continue;
        c->line = 0, c->rows--, c->row += c->ld;
    }
}

/* One of the inner blocks of terms of SIDE rows: their tiles, and from one line to the next. */
typedef struct inner {
    const uint32_t *a, *a2, *b;
    int64_t n_tiles, line;
    bool first;
} inner;

/* sums[SIDE][ld] += the rows times n_lines lines of B, asking for `each` lines of C, and of
 * what lies beside it, at a tile. */
TILED_INLINE void add_tiles(const inner *w, int64_t n_lines, float *sums, int64_t ld,
                            coming *c, coming *beside, int64_t each) {
    int64_t row = ld * (int64_t)sizeof *sums, terms = w->n_tiles * TILE_WORDS;
    const uint32_t *b = w->b;
    for (int64_t l = 0; l < n_lines; l += 2, b += 2 * w->line, sums += SIDE) {
        const uint32_t *b2 = l + 1 < n_lines ? b + w->line : b;
        float *low = sums + ld * TILE_LINES;
        ask(c, each);
        ask(beside, each);
        tiles_see_memory();
        if (w->first) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        } else {
            _tile_loadd(0, sums, row);
            _tile_loadd(1, sums + LANES, row);
            _tile_loadd(2, low, row);
            _tile_loadd(3, low + LANES, row);
        }
        for (int64_t t = 0; t < terms; t += TILE_WORDS) {
            _tile_loadd(4, w->a + t, TILE_STRIDE);
            _tile_loadd(6, b + t, TILE_STRIDE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b2 + t, TILE_STRIDE);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, w->a2 + t, TILE_STRIDE);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, sums, row);
        _tile_stored(1, sums + LANES, row);
        _tile_stored(2, low, row);
        _tile_stored(3, low + LANES, row);
        tiles_see_memory();
    }
}

/* C[SIDE or fewer rows, N] of all terms; B is packed. */
TILED static void multiply_strip(const product *p, int64_t row, const uint32_t *b,
                                 kept k) {
    enum { LD = WIDE + LANES }; /* not a multiple of 4 KB */
    _Alignas(64) uint32_t room[SIDE * INNER / 2];
    uint32_t *a = k.a ? k.a + packed_words(row, p->K) : room;
    _Alignas(64) float sums[SIDE * LD];
    product s = part_of(p, (span){row, least(row + SIDE, p->M)}, (span){0, p->N});
    int64_t n_tiles = whole_tiles(p->K, TILE_TERMS), line = n_tiles * TILE_WORDS;
    int64_t n_lines = whole_tiles(p->N, TILE_LINES), step = INNER / TILE_TERMS;
    int64_t bytes = s.half_c ? 2 : 4;
    coming c = {(const char *)s.C, s.ldc * bytes, whole_tiles(s.N * bytes, 64), 0, s.M};
    coming beside = c;
    beside.row = s.plus ? (const void *)s.plus : s.times ? s.times : s.slopes;
    if (!beside.row) beside.rows = 0;
    int64_t times = whole_tiles(n_tiles, step) * whole_tiles(n_lines, 2);
    int64_t each = whole_tiles(c.lines * c.rows, times);
    tiles_begin();
    for (int64_t t = 0; t < n_tiles; t += step) {
        span terms = {t * TILE_TERMS, least((t + step) * TILE_TERMS, s.K)};
        product part = terms_of(&s, terms);
        int64_t n = least(step, n_tiles - t);
        if (!k.packed) pack_left(&part, a);
        inner w = {
            a,     s.M > TILE_LINES ? a + n * TILE_WORDS : a, b + t * TILE_WORDS, n, line,
            t == 0};
        add_tiles(&w, n_lines, sums, LD, &c, &beside, each);
        if (k.a) a += packed_words(s.M, part.K);
    }
    tiles_end();
    for (int64_t i = 0; i < s.M; i++) store_results(&s, i, sums + i * LD);
}

/* Whether the results need all terms. */
static bool passed_once(const product *p) { return p->half_c || p->plus; }

/* A product of as many terms and columns as fit. */
static void multiply_block(const product *p, kept k, int t) {
    _Alignas(64) uint32_t b[KEPT / 2];
    (void)t; /* without OpenMP */
    int64_t rows = p->tb ? p->N : p->K, step = p->tb ? TILE_LINES : TILE_TERMS;
    bool is_long = p->K > TERMS || passed_once(p);
    int64_t side = is_long ? SIDE : PANEL;
#pragma omp parallel num_threads(t) if (t > 1)
    {
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row += step) pack_rows_of_right(p, row, b);
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < p->M; m += side)
            (is_long ? multiply_strip : multiply_panel)(p, m, b, k);
    }
}

/* n in equal parts of at most `most`, all but the last a multiple of `unit`. */
static int64_t equal_parts(int64_t n, int64_t most, int64_t unit) {
    int64_t blocks = whole_tiles(n, most);
    return blocks > 1 ? whole_tiles(whole_tiles(n, unit), blocks) * unit : most;
}

/* Columns of B that are kept with all of K terms. */
static int64_t long_columns(int64_t K) {
    int64_t fit = KEPT / (whole_tiles(K, TILE_TERMS) * TILE_TERMS) / SIDE * SIDE;
    return fit < WIDE ? fit : WIDE;
}

static void multiply_shared(const product *whole, int t) {
    int64_t N = whole->N, K = whole->K, k = 0;
    bool is_long = (K > TERMS && K <= LONG) || passed_once(whole);
    int64_t terms = is_long ? K : equal_parts(K, TERMS, TILE_TERMS);
    int64_t columns = is_long ? equal_parts(N, long_columns(K), SIDE)
                              : equal_parts(N, KEPT / terms / TILE_LINES * TILE_LINES,
                                            TILE_LINES);
    bool keeps = N > columns && 2 * packed_words(whole->M, terms) <= KEPT_LEFT;
    do { /* once without terms too: C = beta C */
        _Alignas(64) uint32_t a[KEPT_LEFT / 2];
        product p = terms_of(whole, (span){k, least(k + terms, K)});
        for (int64_t n = 0; n < N; n += columns) {
            kept left = {keeps ? a : NULL, keeps && n > 0};
            product block = part_of(&p, (span){0, p.M}, (span){n, least(n + columns, N)});
            multiply_block(&block, left, t);
        }
    } while ((k += terms) < K);
}

static void multiply_alone(const product *p) { multiply_shared(p, 1); }

static void multiply(const product *p) {
    if (p->ta && !p->tb && !passed_once(p))
        multiply_divided(p, multiply_alone);
    else
        multiply_shared(p, threads_for(p));
}

GEMM(wefti_gemm_amx, multiply(&p))

void WEFT_ISA_NAME(wefti_gemm_mixed_amx)(const wefti_mixed *m) {
    enum { LEAST = 1 << 18 }; /* less may stay in the cache */
    product p = product_of(m);
    /* a gradient of a matrix, whose terms are one block; it is read when all others are there */
    p.past = m->ta && m->K <= TERMS && !m->half_c && m->M * m->N >= LEAST;
    multiply(&p);
}
#endif
