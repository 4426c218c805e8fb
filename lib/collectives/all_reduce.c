/* SPDX-License-Identifier: MIT */
/* d = (1/R) sum of x_r, R the ranks or the sum of their weights, rank j adding range j:
 *
 *     first round   numbers of range j: f32 as they are in memory, or a head and the
 *                   blocks of a dense section (wire/section.h), kind PART
 *     second round  mean of the sender's range: the same with kind MEAN; with `sign` a head of
 *                   kind SIGNS and 2 bits per element
 *
 * With coded values, ranges begin and end on blocks, so each block is coded once and has
 * one owner. Sent + kept = all: sum_r x_r = sum_r (what r lost) + R d + (R e of the
 * owners), where e is what coding the mean lost. The traffic is that of a ring, with 2
 * latencies instead of 2. */
#include "collectives/all_reduce.h"

#include <string.h>

#include "base/memory.h"
#include "collectives/driver.h"
#include "wire/frame.h"
#include "compress/signs.h"

typedef struct vector {
    int64_t n;
    wefti_section section; /* coded values: all n of them */
    wefti_range own;       /* the range that this rank adds */
    float *sum;  /* [largest range] the range's mean, kept until peers have read it */
    float *kept; /* the caller's, borrowed from begin on; NULL: it gets what is lost */
    const unsigned char *coded; /* the caller's in begin_coded: its whole section */
} vector;

/* What coding.robust needs of the messages about one range. */
enum { ROBUST_BLOCKS = 16, ROBUST = ROBUST_BLOCKS * WEFTI_BLOCK_VALUES };

typedef struct robust_room {
    int *ranks; /* [comm->size] whose the parts are */
    float *factors, **rows;
    double *squares, *weights, *sizes; /* all of them [comm->size] */
    float *numbers;                    /* [comm->size * ROBUST]; rows point to it */
    double divisor;
} robust_room;

struct wefti_all_reduce {
    wefti_all_reduce_setup setup;
    wefti_driver *driver;        /* owned */
    vector *vectors;             /* [setup.n_vectors] */
    const unsigned char **parts; /* [comm->size] what is to be added, in rank order */
    float *spare; /* [n_spare] the sum of a lost rank's range; NULL: none was lost */
    int64_t n_spare;
    robust_room room; /* with coding.robust */
};

static bool is_coded(const wefti_coding *coding) {
    return coding->values != WEFTI_VALUES_F32;
}

bool wefti_coding_loses(const wefti_coding *coding) { return is_coded(coding); }

/* Whether nothing at all happens to the numbers of a lone rank. */
static bool is_idle(const wefti_coding *coding, int R) {
    return R == 1 && !is_coded(coding) && !coding->sign;
}

static wefti_range range_of(const wefti_coding *coding, int64_t n, int R, int rank) {
    int64_t unit = is_coded(coding) ? WEFTI_BLOCK_VALUES : 1;
    int64_t n_units = (n + unit - 1) / unit;
    int64_t begin = n_units * rank / R * unit, end = n_units * (rank + 1) / R * unit;
    if (end > n) end = n;
    return (wefti_range){begin, end - begin};
}

static int64_t block_at(int64_t element) {
    return (element + WEFTI_BLOCK_VALUES - 1) / WEFTI_BLOCK_VALUES;
}

/* The coded bytes of a range that begins on a block, and ends on a block or with the
 * section. */
static int64_t coded_bytes(const wefti_section *section, wefti_range range) {
    int64_t first = block_at(range.begin), end = block_at(range.begin + range.n);
    return WEFTI_FRAME_BYTES + wefti_section_bytes(section, first, end - first);
}

static int64_t part_bytes(const wefti_coding *coding, const wefti_section *section,
                          wefti_range range) {
    if (!is_coded(coding)) return range.n * (int64_t)sizeof(float);
    return coded_bytes(section, range);
}

static int64_t answer_bytes(const wefti_coding *coding, const wefti_section *section,
                            wefti_range range) {
    if (coding->sign) return WEFTI_FRAME_BYTES + wefti_signs_bytes(range.n);
    return part_bytes(coding, section, range);
}

int64_t wefti_all_reduce_round_bytes(const wefti_coding *coding, int64_t n, int R,
                                     int round, int owner) {
    wefti_section section = wefti_section_dense(n, coding->values);
    wefti_range range = range_of(coding, n, R, owner);
    return (round ? answer_bytes : part_bytes)(coding, &section, range);
}

/* --- coded numbers --- */

static wefti_range range_about(const wefti_all_reduce *a, const wefti_round *round,
                               int rank) {
    return range_of(&a->setup.coding, a->vectors[round->bucket].n, a->setup.comm->size,
                    rank);
}

static wefti_rounding rounding_of(const wefti_all_reduce *a, int vector_number,
                                  int64_t step, int round, int rank) {
    uint64_t R = (uint64_t)a->setup.comm->size;
    return (wefti_rounding){.stochastic = a->setup.coding.stochastic,
                            .seed = a->setup.coding.seed,
                            .step = (uint64_t)step,
                            .place = ((uint64_t)vector_number * 2 + (uint64_t)round) * R +
                                     (uint64_t)rank};
}

wefti_rounding wefti_all_reduce_rounding(const wefti_all_reduce *a, int vector_number,
                                         int64_t step) {
    return rounding_of(a, vector_number, step, 0, a->setup.comm->rank);
}

/* Blocks that are coded together, while they are in the first-level cache. */
enum { STRIP_BLOCKS = 64, STRIP = STRIP_BLOCKS * WEFTI_BLOCK_VALUES };

/* The i-th strip of a range. */
typedef struct strip {
    int64_t first, n; /* its blocks */
    int64_t at;       /* its first number in the range */
    int64_t byte;     /* its first byte in the range's payload */
} strip;

static int64_t strips_of(wefti_range range) { return (range.n + STRIP - 1) / STRIP; }

static strip strip_of(const wefti_section *section, wefti_range range, int64_t i) {
    int64_t first = block_at(range.begin), at = i * STRIP, left = range.n - at;
    return (strip){.first = first + i * STRIP_BLOCKS,
                   .n = block_at(left < STRIP ? left : STRIP),
                   .at = at,
                   .byte = wefti_section_bytes(section, first, i * STRIP_BLOCKS)};
}

/* Codes a range into the payload of its message. With v->kept: x + kept, kept <- what that
 * loses; without: x <- what others decode. */
static void code_range(const wefti_all_reduce *a, const vector *v, wefti_range range,
                       const wefti_rounding *rounding, float *x, unsigned char *payload) {
    float *kept = v->kept ? v->kept + range.begin : NULL;
    int t = a->setup.coding.threads;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int64_t i = 0; i < strips_of(range); i++) {
        strip s = strip_of(&v->section, range, i);
        wefti_blocks blocks = {.first = s.first,
                               .n = s.n,
                               .from = x + s.at,
                               .values = kept ? NULL : x + s.at,
                               .rest = kept ? kept + s.at : NULL,
                               .kind = kept ? WEFTI_REST_SENT : WEFTI_REST_NONE,
                               .share = 1,
                               .times = 1};
        wefti_section_encode_blocks(&v->section, &blocks, rounding, payload + s.byte);
    }
}

/* x <- the numbers of a payload, or x += them. x: that of the range. */
static weft_status decode_range(const wefti_all_reduce *a, const vector *v,
                                wefti_range range, const unsigned char *payload, bool add,
                                float *x) {
    int t = a->setup.coding.threads, worst = WEFT_OK;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) reduction(max : worst) if (t > 1)
    for (int64_t i = 0; i < strips_of(range); i++) {
        strip s = strip_of(&v->section, range, i);
        wefti_blocks blocks = {
            .first = s.first, .n = s.n, .values = x + s.at, .add = add};
        weft_status status = wefti_section_decode_blocks(a->setup.ctx, &v->section,
                                                         &blocks, payload + s.byte);
        if ((int)status > worst) worst = (int)status;
    }
    return (weft_status)worst;
}

/* The buffer for the sum of the range of party.me. Another rank's range uses `spare`,
 * because this rank's own sum may still be under way. */
static float *sum_of(const wefti_all_reduce *a, const wefti_round *round) {
    bool mine = round->party.me == a->setup.comm->rank;
    return mine ? a->vectors[round->bucket].sum : a->spare;
}

/* Where a strip of the mean goes: x <- it, as the others decode it, and kept += lost; or, for
 * a caller that does not say where what is lost is kept, sum <- it and x <- lost. */
typedef struct mean_places {
    float *x, *sum, *kept;
    unsigned char *payload;
} mean_places;

/* --- means that a few wrong members cannot ruin (robust.h) --- */

static bool is_robust(const wefti_all_reduce *a) {
    return a->setup.coding.robust != WEFTI_ROBUST_OFF;
}

/* out <- numbers [at, at + n) of the i-th part of the range; `at` is on a block. */
static weft_status part_numbers(const wefti_all_reduce *a, const wefti_round *round,
                                int i, wefti_range some, float *out) {
    const wefti_section *section = &a->vectors[round->bucket].section;
    const float *raw = (const void *)a->parts[i];
    if (!is_coded(&a->setup.coding)) {
        memcpy(out, raw + some.begin, (size_t)some.n * sizeof *out);
        return WEFT_OK;
    }
    int64_t first = block_at(range_about(a, round, round->party.me).begin);
    int64_t before = some.begin / WEFTI_BLOCK_VALUES;
    wefti_blocks blocks = {.first = first + before, .n = block_at(some.n), .values = out};
    return wefti_section_decode_blocks(a->setup.ctx, section, &blocks,
                                       a->parts[i] +
                                           wefti_section_bytes(section, first, before));
}

static wefti_range some_of(int64_t at, int64_t end) {
    return (wefti_range){at, end - at < ROBUST ? end - at : ROBUST};
}

/* What each member's part is multiplied by, and by what their sum is divided. A part that is too
 * large again and again is seen in this rank's own ranges. */
static weft_status weigh_parts(wefti_all_reduce *a, const wefti_round *round) {
    robust_room *room = &a->room;
    wefti_comm *comm = a->setup.comm;
    int64_t n = range_about(a, round, round->party.me).n;
    bool watched = comm->watch && round->party.me == comm->rank;
    for (int i = 0; i < round->counted; i++) {
        int rank = room->ranks[i];
        room->weights[i] = comm->weights ? comm->weights[rank] : 1;
        room->squares[i] = 0;
        for (int64_t at = 0; at < n; at += ROBUST) {
            wefti_range some = some_of(at, n);
            WEFT_TRY(part_numbers(a, round, i, some, room->numbers));
            room->squares[i] += wefti_robust_squares(some.n, room->numbers);
        }
        double w = room->weights[i];
        if (watched && w > 0)
            wefti_robust_note(comm->watch, round->step, rank, room->squares[i] / (w * w));
    }
    const wefti_robust_members members = {round->counted, room->squares, room->weights,
                                          room->sizes, room->factors};
    room->divisor = wefti_robust_factors(a->setup.coding.robust, &members);
    return WEFT_OK;
}

/* sum <- that of numbers [at, at + n) of the parts; `at` is on a block. */
static weft_status add_robust(const wefti_all_reduce *a, const wefti_round *round,
                              wefti_range range, float *sum) {
    const robust_room *room = &a->room;
    int64_t end = range.begin + range.n;
    for (int64_t at = range.begin; at < end; at += ROBUST) {
        wefti_range some = some_of(at, end);
        int n_rows = 0;
        for (int i = 0; i < round->counted; i++) {
            float factor = room->factors[i], *row = room->rows[n_rows];
            if (factor == 0) continue;
            WEFT_TRY(part_numbers(a, round, i, some, row));
            for (int64_t j = 0; j < some.n; j++) row[j] *= factor;
            n_rows++;
        }
        wefti_robust_sum(a->setup.coding.robust, n_rows, room->rows, some.n,
                         sum + (at - range.begin));
    }
    return WEFT_OK;
}

/* One strip of the range of party.me: what `counted` ranks sent is added up in their order, and
 * coded. */
static weft_status code_mean_strip(const wefti_all_reduce *a, const wefti_round *round,
                                   const strip *s, const mean_places *to) {
    const wefti_section *section = &a->vectors[round->bucket].section;
    wefti_rounding rounding = rounding_of(a, round->bucket, round->step, 1,
                                          round->party.me);
    float sum[STRIP] = {0}, R = (float)round->weight;
    wefti_blocks parts = {.first = s->first, .n = s->n, .values = sum, .add = true};
    if (is_robust(a)) {
        int64_t left = range_about(a, round, round->party.me).n - s->at;
        R = (float)a->room.divisor;
        WEFT_TRY(
            add_robust(a, round, (wefti_range){s->at, left < STRIP ? left : STRIP}, sum));
    } else {
        for (int i = 0; i < round->counted; i++)
            WEFT_TRY(wefti_section_decode_blocks(a->setup.ctx, section, &parts,
                                                 a->parts[i] + s->byte));
    }
    wefti_blocks blocks = {.first = s->first,
                           .n = s->n,
                           .from = sum,
                           .values = (to->kept ? to->x : to->sum) + s->at,
                           .rest = (to->kept ? to->kept : to->x) + s->at,
                           .kind = to->kept ? WEFTI_REST_MORE : WEFTI_REST_NEW,
                           .share = 1 / R,
                           .times = R};
    wefti_section_encode_blocks(section, &blocks, &rounding, to->payload + s->byte);
    return WEFT_OK;
}

static weft_status make_spare(wefti_all_reduce *a, int64_t n) {
    if (a->n_spare >= n) return WEFT_OK;
    wefti_free(a->setup.ctx, a->spare);
    a->spare = NULL;
    a->n_spare = 0;
    WEFT_TRY(wefti_alloc_n(a->setup.ctx, n, sizeof(float), "all-reduce sums", &a->spare));
    a->n_spare = n;
    return WEFT_OK;
}

/* Codes the mean over the `counted` ranks of the range of party.me into the answer. What is
 * lost about a lost rank's range is kept nowhere. */
static weft_status code_mean(wefti_all_reduce *a, const wefti_round *round,
                             unsigned char *payload) {
    const vector *v = &a->vectors[round->bucket];
    wefti_range own = range_about(a, round, round->party.me);
    bool mine = round->party.me == a->setup.comm->rank;
    if (!mine) WEFT_TRY(make_spare(a, own.n));
    mean_places to = {.x = round->x + own.begin,
                      .sum = sum_of(a, round),
                      .kept = v->kept && mine ? v->kept + own.begin : NULL,
                      .payload = payload};
    int t = is_robust(a) ? 1 : a->setup.coding.threads, worst = WEFT_OK;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) reduction(max : worst) if (t > 1)
    for (int64_t i = 0; i < strips_of(own); i++) {
        strip s = strip_of(&v->section, own, i);
        weft_status status = code_mean_strip(a, round, &s, &to);
        if ((int)status > worst) worst = (int)status;
    }
    return (weft_status)worst;
}

/* --- functions for the driver --- */

static int64_t bytes(const void *self, const wefti_round *round, int sender, int rank) {
    const wefti_all_reduce *a = self;
    (void)sender;
    const wefti_section *section = &a->vectors[round->bucket].section;
    wefti_range range = range_about(a, round, rank);
    return (round->number ? answer_bytes : part_bytes)(&a->setup.coding, section, range);
}

static weft_status encode(void *self, const wefti_round *round, int rank,
                          unsigned char *out) {
    const wefti_all_reduce *a = self;
    const vector *v = &a->vectors[round->bucket];
    wefti_range range = range_about(a, round, rank);
    if (v->coded) {
        memcpy(out, v->coded + wefti_section_bytes(&v->section, 0, block_at(range.begin)),
               (size_t)(coded_bytes(&v->section, range) - WEFTI_FRAME_BYTES));
        bool mine = rank == round->party.me;
        return mine ? decode_range(a, v, range, out, false, round->x + range.begin)
                    : WEFT_OK;
    }
    wefti_rounding rounding = wefti_all_reduce_rounding(a, round->bucket, round->step);
    code_range(a, v, range, &rounding, round->x + range.begin, out);
    return WEFT_OK;
}

static const void *raw(void *self, const wefti_round *round, int rank) {
    const wefti_all_reduce *a = self;
    if (round->number == 1)
        return rank == a->setup.comm->rank ? a->vectors[round->bucket].sum : a->spare;
    return round->x + range_about(a, round, rank).begin;
}

/* Whether the mean is coded while parts are added, when all of them are here. */
static bool adds_at_once(const wefti_coding *coding) {
    return is_coded(coding) && !coding->sign;
}

static bool waits_for_all(const wefti_coding *coding) {
    return adds_at_once(coding) || coding->robust != WEFTI_ROBUST_OFF;
}

/* sum += what a rank sent about the range of party.me, which is this rank unless it answers
 * for a lost one; this rank's own part is added in the same way. */
static weft_status add_part(wefti_all_reduce *a, const wefti_round *round, int rank,
                            const unsigned char *in) {
    const vector *v = &a->vectors[round->bucket];
    wefti_range own = range_about(a, round, round->party.me);
    bool mine = rank == a->setup.comm->rank;
    if (waits_for_all(&a->setup.coding)) {
        a->parts[round->counted] = in;
        if (is_robust(a)) a->room.ranks[round->counted] = rank;
        return WEFT_OK;
    }
    if (round->party.me != a->setup.comm->rank) WEFT_TRY(make_spare(a, own.n));
    float *sum = sum_of(a, round);
    if (round->counted == 0) memset(sum, 0, (size_t)own.n * sizeof(float));
    if (is_coded(&a->setup.coding)) return decode_range(a, v, own, in, true, sum);
    const void *numbers = mine ? round->x + own.begin : (const void *)in;
    a->setup.kernels->accumulate(own.n, numbers, sum);
    return WEFT_OK;
}

/* The range's part of x <- a rank's answer. */
static weft_status add(void *self, const wefti_round *round, int rank,
                       const unsigned char *in) {
    wefti_all_reduce *a = self;
    const vector *v = &a->vectors[round->bucket];
    const wefti_coding *coding = &a->setup.coding;
    if (round->number == 0) return add_part(a, round, rank, in);
    wefti_range range = range_about(a, round, rank);
    float *x = round->x + range.begin;
    bool mine = rank == round->party.me;
    if (mine && coding->sign)
        wefti_signs_of(range.n, v->sum, x);
    else if (coding->sign)
        return wefti_signs_decode(a->setup.ctx, range.n, in, x);
    else if (!mine && is_coded(coding))
        return decode_range(a, v, range, in, false, x);
    else if (mine && is_coded(coding) && v->kept)
        return WEFT_OK; /* since it was coded */
    else
        memcpy(x, mine ? v->sum : (const void *)in, (size_t)range.n * sizeof(float));
    return WEFT_OK;
}

static weft_status finish(void *self, const wefti_round *round, unsigned char *answer) {
    wefti_all_reduce *a = self;
    const wefti_coding *coding = &a->setup.coding;
    int64_t n = range_about(a, round, round->party.me).n;
    double divisor = round->weight;
    if (round->number == 1) return WEFT_OK;
    if (is_robust(a)) {
        WEFT_TRY(weigh_parts(a, round));
        divisor = a->room.divisor;
    }
    if (adds_at_once(coding)) return code_mean(a, round, answer);
    if (is_robust(a)) {
        if (round->party.me != a->setup.comm->rank) WEFT_TRY(make_spare(a, n));
        WEFT_TRY(add_robust(a, round, (wefti_range){0, n}, sum_of(a, round)));
    }
    float *sum = sum_of(a, round);
    a->setup.kernels->scale(n, 1.0f / (float)divisor, sum);
    if (coding->sign) wefti_signs_encode(n, sum, answer);
    return WEFT_OK;
}

static const wefti_driver_ops driver_ops = {
    .bytes = bytes, .encode = encode, .raw = raw, .add = add, .finish = finish};

/* --- memory --- */

/* Numbers without coding and without a head are sent from their own memory. */
static bool has_head(const wefti_coding *coding, int round) {
    return is_coded(coding) || (round == 1 && coding->sign);
}

/* Bytes of a rank's messages in both rounds. */
static void message_room(const wefti_coding *coding, int64_t n, int R, int64_t own_answer,
                         int64_t room[WEFTI_DRIVER_ROUNDS]) {
    wefti_section section = wefti_section_dense(n, coding->values);
    room[0] = room[1] = 0;
    if (has_head(coding, 0))
        room[0] = R * (int64_t)WEFTI_FRAME_BYTES +
                  wefti_section_bytes(&section, 0, section.n_blocks);
    if (has_head(coding, 1)) room[1] = own_answer;
}

/* An upper bound of the elements in the longest range of any rank. */
static int64_t most_of(const wefti_coding *coding, int64_t n, int R) {
    int64_t unit = is_coded(coding) ? WEFTI_BLOCK_VALUES : 1;
    int64_t most = ((n + unit - 1) / unit + R - 1) / R * unit;
    return most < n ? most : n;
}

int64_t wefti_all_reduce_work_bytes(const wefti_coding *coding, int64_t n, int R) {
    if (is_idle(coding, R)) return 0;
    wefti_section section = wefti_section_dense(n, coding->values);
    wefti_range largest = {0, most_of(coding, n, R)};
    int64_t room[WEFTI_DRIVER_ROUNDS];
    message_room(coding, n, R, answer_bytes(coding, &section, largest), room);
    return wefti_alloc_n_cost(largest.n, sizeof(float)) +
           wefti_driver_bucket_bytes(room, 1);
}

int64_t wefti_all_reduce_room_bytes(const wefti_coding *coding, int R) {
    if (coding->robust == WEFTI_ROBUST_OFF) return 0;
    return wefti_alloc_n_cost(R, sizeof(int)) + wefti_alloc_n_cost(R, sizeof(float)) +
           wefti_alloc_n_cost(R, sizeof(float *)) +
           wefti_alloc_n_cost(3 * (int64_t)R, sizeof(double)) +
           wefti_alloc_n_cost(R * (int64_t)ROBUST, sizeof(float));
}

static weft_status make_room(wefti_all_reduce *a) {
    weft_ctx *ctx = a->setup.ctx;
    robust_room *room = &a->room;
    int R = a->setup.comm->size;
    const char *what = "an all-reduce";
    WEFT_TRY(wefti_alloc_n(ctx, R, sizeof *room->ranks, what, &room->ranks));
    WEFT_TRY(wefti_alloc_n(ctx, R, sizeof *room->factors, what, &room->factors));
    WEFT_TRY(wefti_alloc_n(ctx, R, sizeof *room->rows, what, &room->rows));
    WEFT_TRY(
        wefti_alloc_n(ctx, 3 * (int64_t)R, sizeof *room->squares, what, &room->squares));
    WEFT_TRY(wefti_alloc_n(ctx, R * (int64_t)ROBUST, sizeof *room->numbers, what,
                           &room->numbers));
    room->weights = room->squares + R;
    room->sizes = room->weights + R;
    for (int i = 0; i < R; i++) room->rows[i] = room->numbers + (int64_t)i * ROBUST;
    return WEFT_OK;
}

static weft_status fill(wefti_all_reduce *a) {
    const wefti_all_reduce_setup *s = &a->setup;
    wefti_driver_setup driver = {.ctx = s->ctx,
                                 .comm = s->comm,
                                 .ops = &driver_ops,
                                 .self = a,
                                 .stage = s->stage,
                                 .n_buckets = s->n_vectors,
                                 .n_buffers = 1};
    WEFT_TRY(wefti_alloc_n(s->ctx, s->n_vectors, sizeof(vector), "an all-reduce",
                           &a->vectors));
    WEFT_TRY(wefti_alloc_n(s->ctx, s->comm->size, sizeof *a->parts, "an all-reduce",
                           &a->parts));
    if (is_robust(a)) WEFT_TRY(make_room(a));
    return wefti_driver_create(&driver, &a->driver);
}

weft_status wefti_all_reduce_create(const wefti_all_reduce_setup *setup,
                                    wefti_all_reduce **out) {
    *out = NULL;
    int codec = (int)setup->coding.values;
    if (codec < 0 || codec >= WEFTI_VALUE_CODECS)
        return weft_ctx_fail(setup->ctx, WEFT_ERR_CONFIG,
                             "value codec number %d, expected 0 to %d", codec,
                             WEFTI_VALUE_CODECS - 1);
    wefti_all_reduce *a;
    WEFT_TRY(wefti_alloc(setup->ctx, sizeof *a, "an all-reduce", &a));
    a->setup = *setup;
    WEFTI_TRY_OR(fill(a), wefti_all_reduce_destroy(a));
    *out = a;
    return WEFT_OK;
}

void wefti_all_reduce_destroy(wefti_all_reduce *a) {
    if (!a) return;
    for (int i = 0; a->vectors && i < a->setup.n_vectors; i++)
        wefti_free(a->setup.ctx, a->vectors[i].sum);
    wefti_driver_destroy(a->driver);
    WEFTI_FREE(a->setup.ctx, a->room.ranks, a->room.factors, a->room.rows,
               a->room.squares, a->room.numbers);
    WEFTI_FREE(a->setup.ctx, a->spare, a->parts, a->vectors, a);
}

weft_status wefti_all_reduce_open(wefti_all_reduce *a, int vector_number, int64_t n) {
    const wefti_coding *coding = &a->setup.coding;
    int R = a->setup.comm->size;
    int64_t room[WEFTI_DRIVER_ROUNDS];
    vector *v = &a->vectors[vector_number];
    *v = (vector){.n = n,
                  .section = wefti_section_dense(n, coding->values),
                  .own = range_of(coding, n, R, a->setup.comm->rank)};
    if (is_idle(coding, R)) return WEFT_OK;
    message_room(coding, n, R, answer_bytes(coding, &v->section, v->own), room);
    WEFT_TRY(wefti_alloc_n(a->setup.ctx, most_of(coding, n, R), sizeof(float),
                           "all-reduce sums", &v->sum));
    return wefti_driver_open(a->driver, vector_number, room);
}

/* --- the rounds --- */

static wefti_round round_of(const wefti_all_reduce *a, int vector_number, int64_t step,
                            float *x) {
    const wefti_coding *coding = &a->setup.coding;
    wefti_frame_kind mean = is_coded(coding) ? WEFTI_FRAME_MEAN : WEFTI_FRAME_NONE;
    return (wefti_round){.shape = WEFTI_SHAPE_OWNER,
                         .step = step,
                         .bucket = vector_number,
                         .together = waits_for_all(coding),
                         .kinds = {is_coded(coding) ? WEFTI_FRAME_PART : WEFTI_FRAME_NONE,
                                   coding->sign ? WEFTI_FRAME_SIGNS : mean},
                         .party = wefti_party_all(a->setup.comm),
                         .x = x};
}

weft_status wefti_all_reduce_begin(wefti_all_reduce *a, int vector_number, int64_t step,
                                   float *x, float *kept) {
    wefti_round round = round_of(a, vector_number, step, x);
    a->vectors[vector_number].kept = kept;
    return wefti_driver_send(a->driver, &round);
}

weft_status wefti_all_reduce_begin_coded(wefti_all_reduce *a, int vector_number,
                                         int64_t step, const unsigned char *coded,
                                         float *x) {
    wefti_round round = round_of(a, vector_number, step, x);
    vector *v = &a->vectors[vector_number];
    if (!is_coded(&a->setup.coding)) memcpy(x, coded, (size_t)v->n * sizeof *x);
    v->kept = NULL;
    v->coded = is_coded(&a->setup.coding) ? coded : NULL;
    weft_status status = wefti_driver_send(a->driver, &round);
    v->coded = NULL;
    return status;
}

weft_status wefti_all_reduce_combine(wefti_all_reduce *a, int vector_number, int64_t step,
                                     float *x, wefti_range *lost) {
    const wefti_coding *coding = &a->setup.coding;
    const vector *v = &a->vectors[vector_number];
    wefti_round round = round_of(a, vector_number, step, x);
    *lost = (wefti_range){v->own.begin, adds_at_once(coding) && !v->kept ? v->own.n : 0};
    if (is_idle(coding, a->setup.comm->size)) return WEFT_OK;
    return wefti_driver_answer(a->driver, &round);
}

weft_status wefti_all_reduce_end(wefti_all_reduce *a, int vector_number, int64_t step,
                                 float *x) {
    wefti_round round = round_of(a, vector_number, step, x);
    if (is_idle(&a->setup.coding, a->setup.comm->size)) return WEFT_OK;
    if (!is_coded(&a->setup.coding)) /* it was sent from x */
        WEFT_TRY(wefti_driver_await(a->driver, vector_number, 0));
    return wefti_driver_receive(a->driver, &round);
}
