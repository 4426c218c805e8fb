/* SPDX-License-Identifier: MIT */
/* d = (1/R) sum of x_r, R ranks, rank j adding range j:
 *
 *     first round   numbers of range j: f32 as they lie in memory, or a head and the
 *                   blocks of a dense section (wire/section.h), kind PART
 *     second round  mean of the sender's range: the same with kind MEAN; with `sign` a
 * head of kind SIGNS and 2 bits per element
 *
 * With coded values ranges begin and end on blocks, so each block is coded once and has
 * one owner. Sent + kept = all: sum_r x_r = sum_r (what r lost) + R d + (R e of the
 * owners), e = what coding the mean lost. The traffic is that of a ring, in 2 latencies
 * instead of 2. */
#include "replicate/allreduce.h"

#include <string.h>

#include "base/memory.h"
#include "replicate/signs.h"
#include "wire/frame.h"

typedef struct vector {
    int64_t n;
    wefti_section section; /* coded values: all n of them */
    wefti_range own;       /* the range that this rank adds */
    float *sum;            /* [own.n] its mean, unchanged until peers have read it */
    unsigned char *parts;  /* coded values: my first-round messages in rank order */
    unsigned char *answer; /* coded values or signs: my second-round message */
    int64_t answered_step; /* the step whose answer is on its way, or -1 */
} vector;

struct wefti_allreduce {
    wefti_allreduce_setup setup;
    vector *vectors; /* [setup.n_vectors] */
};

/* One message between two ranks, both ways of the same length and meaning. */
typedef struct letter {
    int vector;
    int64_t step;
    int sender;
    wefti_range range;
} letter;

static bool is_coded(const wefti_coding *coding) {
    return coding->values != WEFTI_VALUES_F32;
}

bool wefti_coding_loses(const wefti_coding *coding) { return is_coded(coding); }

/* Does nothing at all happen to the numbers of a lone rank? */
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

/* Blocks of a range that begins on one and ends on one or with the section. */
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

int64_t wefti_allreduce_round_bytes(const wefti_coding *coding, int64_t n, int R,
                                    int round, int owner) {
    wefti_section section = wefti_section_dense(n, coding->values);
    wefti_range range = range_of(coding, n, R, owner);
    return (round ? answer_bytes : part_bytes)(coding, &section, range);
}

/* All R messages of the first round. */
static int64_t all_parts_bytes(const wefti_section *section, int R) {
    return R * (int64_t)WEFTI_FRAME_BYTES +
           wefti_section_bytes(section, 0, section->n_blocks);
}

static int64_t cost(int64_t n_bytes) {
    return (int64_t)wefti_alloc_cost((size_t)n_bytes);
}

int64_t wefti_allreduce_work_bytes(const wefti_coding *coding, int64_t n, int R) {
    if (is_idle(coding, R)) return 0;
    wefti_section section = wefti_section_dense(n, coding->values);
    wefti_range largest = range_of(coding, n, R, R - 1); /* ranges differ by one unit */
    if (range_of(coding, n, R, 0).n > largest.n) largest = range_of(coding, n, R, 0);
    int64_t n_bytes = cost(largest.n * (int64_t)sizeof(float));
    if (is_coded(coding)) n_bytes += cost(all_parts_bytes(&section, R));
    if (is_coded(coding) || coding->sign)
        n_bytes += cost(answer_bytes(coding, &section, largest));
    return n_bytes;
}

weft_status wefti_allreduce_create(const wefti_allreduce_setup *setup,
                                   wefti_allreduce **out) {
    *out = NULL;
    int codec = (int)setup->coding.values;
    if (codec < 0 || codec >= WEFTI_VALUE_CODECS)
        return weft_ctx_fail(setup->ctx, WEFT_ERR_CONFIG,
                             "value codec number %d, expected 0 to %d", codec,
                             WEFTI_VALUE_CODECS - 1);
    wefti_allreduce *a;
    WEFT_TRY(wefti_alloc(setup->ctx, sizeof *a, "an all-reduce", &a));
    a->setup = *setup;
    weft_status status = wefti_alloc_n(setup->ctx, setup->n_vectors, sizeof(vector),
                                       "an all-reduce", &a->vectors);
    if (status != WEFT_OK) {
        wefti_free(setup->ctx, a);
        return status;
    }
    *out = a;
    return WEFT_OK;
}

void wefti_allreduce_destroy(wefti_allreduce *a) {
    if (!a) return;
    for (int i = 0; i < a->setup.n_vectors; i++) {
        wefti_free(a->setup.ctx, a->vectors[i].sum);
        wefti_free(a->setup.ctx, a->vectors[i].parts);
        wefti_free(a->setup.ctx, a->vectors[i].answer);
    }
    wefti_free(a->setup.ctx, a->vectors);
    wefti_free(a->setup.ctx, a);
}

weft_status wefti_allreduce_open(wefti_allreduce *a, int vector_number, int64_t n) {
    const wefti_coding *coding = &a->setup.coding;
    weft_ctx *ctx = a->setup.ctx;
    int R = a->setup.comm->size;
    vector *v = &a->vectors[vector_number];
    *v = (vector){.n = n,
                  .section = wefti_section_dense(n, coding->values),
                  .own = range_of(coding, n, R, a->setup.comm->rank),
                  .answered_step = -1};
    if (is_idle(coding, R)) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, v->own.n, sizeof(float), "all-reduce sums", &v->sum));
    if (is_coded(coding))
        WEFT_TRY(wefti_alloc_n(ctx, all_parts_bytes(&v->section, R), 1,
                               "all-reduce messages", &v->parts));
    if (!is_coded(coding) && !coding->sign) return WEFT_OK;
    return wefti_alloc_n(ctx, answer_bytes(coding, &v->section, v->own), 1,
                         "an all-reduce answer", &v->answer);
}

/* --- coded numbers --- */

static wefti_rounding rounding_of(const wefti_allreduce *a, int vector_number,
                                  int64_t step, int round) {
    uint64_t R = (uint64_t)a->setup.comm->size, rank = (uint64_t)a->setup.comm->rank;
    return (wefti_rounding){.stochastic = a->setup.coding.stochastic,
                            .seed = a->setup.coding.seed,
                            .step = (uint64_t)step,
                            .place = ((uint64_t)vector_number * 2 + (uint64_t)round) * R +
                                     rank};
}

/* x <- what is decoded of x + kept; kept <- the rest. */
static void code_block(const wefti_section *section, int64_t b, float *restrict x,
                       float *restrict kept, const wefti_rounding *rounding,
                       unsigned char *out) {
    int64_t n = wefti_section_block_values(section, b);
    for (int64_t i = 0; kept && i < n; i++) kept[i] = x[i] += kept[i];
    wefti_section_encode(section, b, NULL, x, rounding, out);
    for (int64_t i = 0; kept && i < n; i++) kept[i] -= x[i];
}

/* Codes a range into the payload of its message. x, kept: the range's. */
static void code_range(const wefti_allreduce *a, const vector *v, wefti_range range,
                       const wefti_rounding *rounding, float *x, float *kept,
                       unsigned char *payload) {
    const wefti_section *section = &v->section;
    int64_t first = block_at(range.begin), end = block_at(range.begin + range.n);
    int t = a->setup.coding.threads;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int64_t b = first; b < end; b++) {
        int64_t at = (b - first) * WEFTI_BLOCK_VALUES;
        code_block(section, b, x + at, kept ? kept + at : NULL, rounding,
                   payload + wefti_section_bytes(section, first, b - first));
    }
}

/* x <- the numbers of a payload, or x += them. x: the range's. */
static weft_status decode_range(const wefti_allreduce *a, const vector *v,
                                wefti_range range, const unsigned char *payload, bool add,
                                float *x) {
    const wefti_section *section = &v->section;
    int64_t first = block_at(range.begin), end = block_at(range.begin + range.n);
    int t = a->setup.coding.threads, worst = WEFT_OK;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) reduction(max : worst) if (t > 1)
    for (int64_t b = first; b < end; b++) {
        float values[WEFTI_BLOCK_VALUES], *to = x + (b - first) * WEFTI_BLOCK_VALUES;
        int64_t n = wefti_section_block_values(section, b);
        const unsigned char *in = payload +
                                  wefti_section_bytes(section, first, b - first);
        weft_status status = wefti_section_decode(a->setup.ctx, section, b, in, NULL,
                                                  add ? values : to);
        if ((int)status > worst) worst = (int)status;
        for (int64_t i = 0; add && status == WEFT_OK && i < n; i++) to[i] += values[i];
    }
    return (weft_status)worst;
}

/* --- messages --- */

static wefti_frame frame_of(const letter *l, wefti_frame_kind kind, int64_t n_bytes) {
    return (wefti_frame){.kind = kind,
                         .step = l->step,
                         .bucket = l->vector,
                         .sender = l->sender,
                         .payload_bytes = n_bytes - WEFTI_FRAME_BYTES};
}

static int64_t tag_of(const wefti_allreduce *a, const letter *l, int round) {
    return wefti_comm_tag(l->step, l->vector, a->setup.stage + round);
}

/* Codes the range of one rank into its place among the parts, and sends it. */
static weft_status send_coded(wefti_allreduce *a, const letter *l, int peer, float *x,
                              float *kept) {
    vector *v = &a->vectors[l->vector];
    int64_t n_bytes = coded_bytes(&v->section, l->range);
    unsigned char *message = v->parts + peer * (int64_t)WEFTI_FRAME_BYTES +
                             wefti_section_bytes(&v->section, 0,
                                                 block_at(l->range.begin));
    wefti_rounding rounding = rounding_of(a, l->vector, l->step, 0);
    code_range(a, v, l->range, &rounding, x + l->range.begin,
               kept ? kept + l->range.begin : NULL, message + WEFTI_FRAME_BYTES);
    if (peer == l->sender) return WEFT_OK;
    wefti_frame frame = frame_of(l, WEFTI_FRAME_PART, n_bytes);
    wefti_frame_encode(&frame, message);
    return wefti_comm_send(a->setup.comm, peer, tag_of(a, l, 0), message, n_bytes);
}

weft_status wefti_allreduce_begin(wefti_allreduce *a, int vector_number, int64_t step,
                                  float *x, float *kept) {
    const wefti_coding *coding = &a->setup.coding;
    const vector *v = &a->vectors[vector_number];
    int R = a->setup.comm->size, me = a->setup.comm->rank;
    for (int k = 1; k <= R; k++) { /* myself last: the others wait */
        int peer = (me + k) % R;
        letter l = {vector_number, step, me, range_of(coding, v->n, R, peer)};
        if (is_coded(coding))
            WEFT_TRY(send_coded(a, &l, peer, x, kept));
        else if (peer != me)
            WEFT_TRY(wefti_comm_send(a->setup.comm, peer, tag_of(a, &l, 0),
                                     x + l.range.begin,
                                     l.range.n * (int64_t)sizeof(float)));
    }
    return WEFT_OK;
}

/* sum += what a peer sent of my range. */
static weft_status add_part(wefti_allreduce *a, const letter *l) {
    const wefti_coding *coding = &a->setup.coding;
    vector *v = &a->vectors[l->vector];
    int64_t n_bytes = part_bytes(coding, &v->section, l->range);
    const void *view;
    WEFT_TRY(
        wefti_comm_receive(a->setup.comm, l->sender, tag_of(a, l, 0), n_bytes, &view));
    if (is_coded(coding)) {
        wefti_frame frame = frame_of(l, WEFTI_FRAME_PART, n_bytes);
        WEFT_TRY(wefti_frame_check(a->setup.ctx, &frame, view, n_bytes));
        WEFT_TRY(decode_range(a, v, l->range,
                              (const unsigned char *)view + WEFTI_FRAME_BYTES, true,
                              v->sum));
    } else {
        a->setup.kernels->accumulate(l->range.n, view, v->sum);
    }
    wefti_comm_release(a->setup.comm, l->sender, tag_of(a, l, 0));
    return WEFT_OK;
}

/* sum <- my range summed over ranks, in rank order. */
static weft_status sum_own_range(wefti_allreduce *a, int vector_number, int64_t step,
                                 const float *x) {
    vector *v = &a->vectors[vector_number];
    int R = a->setup.comm->size, me = a->setup.comm->rank;
    letter last = {vector_number, v->answered_step, me, v->own};
    if (v->answered_step >= 0)
        WEFT_TRY(wefti_comm_await(a->setup.comm, tag_of(a, &last, 1)));
    memset(v->sum, 0, (size_t)v->own.n * sizeof(float));
    for (int peer = 0; peer < R; peer++) {
        letter l = {vector_number, step, peer, v->own};
        if (peer == me)
            a->setup.kernels->accumulate(v->own.n, x + v->own.begin, v->sum);
        else
            WEFT_TRY(add_part(a, &l));
    }
    return WEFT_OK;
}

/* One block of my range: mean <- what the others decode of mean / R; lost <- R times what
 * they do not. */
static void code_mean_block(const wefti_section *section, int64_t b, float R,
                            float *restrict mean, float *restrict lost,
                            const wefti_rounding *rounding, unsigned char *out) {
    int64_t n = wefti_section_block_values(section, b);
    float share = 1.0f / R;
    for (int64_t i = 0; i < n; i++) lost[i] = mean[i] *= share;
    wefti_section_encode(section, b, NULL, mean, rounding, out);
    for (int64_t i = 0; i < n; i++) lost[i] = R * (lost[i] - mean[i]);
}

/* Codes the mean of my range into the answer. x: the range's. */
static void code_mean(wefti_allreduce *a, const letter *l, float *x) {
    vector *v = &a->vectors[l->vector];
    int64_t first = block_at(v->own.begin), end = block_at(v->own.begin + v->own.n);
    float R = (float)a->setup.comm->size;
    wefti_rounding rounding = rounding_of(a, l->vector, l->step, 1);
    unsigned char *payload = v->answer + WEFTI_FRAME_BYTES;
    int t = a->setup.coding.threads;
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int64_t b = first; b < end; b++) {
        int64_t at = (b - first) * WEFTI_BLOCK_VALUES;
        code_mean_block(&v->section, b, R, v->sum + at, x + at, &rounding,
                        payload + wefti_section_bytes(&v->section, first, b - first));
    }
}

weft_status wefti_allreduce_combine(wefti_allreduce *a, int vector_number, int64_t step,
                                    float *x, wefti_range *lost) {
    const wefti_coding *coding = &a->setup.coding;
    vector *v = &a->vectors[vector_number];
    letter l = {vector_number, step, a->setup.comm->rank, v->own};
    *lost = (wefti_range){v->own.begin, 0};
    if (is_idle(coding, a->setup.comm->size)) return WEFT_OK;
    WEFT_TRY(sum_own_range(a, vector_number, step, x));
    wefti_frame_kind kind = coding->sign ? WEFTI_FRAME_SIGNS : WEFTI_FRAME_MEAN;
    int64_t n_bytes = answer_bytes(coding, &v->section, v->own);
    if (coding->sign || !is_coded(coding))
        a->setup.kernels->scale(v->own.n, 1.0f / (float)a->setup.comm->size, v->sum);
    if (coding->sign) {
        wefti_signs_encode(v->own.n, v->sum, v->answer + WEFTI_FRAME_BYTES);
    } else if (is_coded(coding)) {
        code_mean(a, &l, x + v->own.begin);
        lost->n = v->own.n;
    }
    v->answered_step = step;
    if (!v->answer)
        return wefti_comm_send_all(a->setup.comm, tag_of(a, &l, 1), v->sum, n_bytes);
    wefti_frame frame = frame_of(&l, kind, n_bytes);
    wefti_frame_encode(&frame, v->answer);
    return wefti_comm_send_all(a->setup.comm, tag_of(a, &l, 1), v->answer, n_bytes);
}

/* x, the range's <- a peer's answer. */
static weft_status read_answer(wefti_allreduce *a, const letter *l, const void *message,
                               float *x) {
    const wefti_coding *coding = &a->setup.coding;
    const vector *v = &a->vectors[l->vector];
    int64_t n_bytes = answer_bytes(coding, &v->section, l->range);
    if (!v->answer) {
        memcpy(x, message, (size_t)n_bytes);
        return WEFT_OK;
    }
    wefti_frame_kind kind = coding->sign ? WEFTI_FRAME_SIGNS : WEFTI_FRAME_MEAN;
    wefti_frame frame = frame_of(l, kind, n_bytes);
    const unsigned char *payload = (const unsigned char *)message + WEFTI_FRAME_BYTES;
    WEFT_TRY(wefti_frame_check(a->setup.ctx, &frame, message, n_bytes));
    if (coding->sign) return wefti_signs_decode(a->setup.ctx, l->range.n, payload, x);
    return decode_range(a, v, l->range, payload, false, x);
}

static weft_status receive_answer(wefti_allreduce *a, const letter *l, float *x) {
    const vector *v = &a->vectors[l->vector];
    int64_t n_bytes = answer_bytes(&a->setup.coding, &v->section, l->range);
    const void *view;
    WEFT_TRY(
        wefti_comm_receive(a->setup.comm, l->sender, tag_of(a, l, 1), n_bytes, &view));
    WEFT_TRY(read_answer(a, l, view, x));
    wefti_comm_release(a->setup.comm, l->sender, tag_of(a, l, 1));
    return WEFT_OK;
}

weft_status wefti_allreduce_end(wefti_allreduce *a, int vector_number, int64_t step,
                                float *x) {
    const wefti_coding *coding = &a->setup.coding;
    const vector *v = &a->vectors[vector_number];
    int R = a->setup.comm->size, me = a->setup.comm->rank;
    if (is_idle(coding, R)) return WEFT_OK;
    letter mine = {vector_number, step, me, v->own};
    WEFT_TRY(wefti_comm_await(a->setup.comm, tag_of(a, &mine, 0)));
    for (int peer = 0; peer < R; peer++) {
        letter l = {vector_number, step, peer, range_of(coding, v->n, R, peer)};
        if (peer != me)
            WEFT_TRY(receive_answer(a, &l, x + l.range.begin));
        else if (coding->sign)
            wefti_signs_of(v->own.n, v->sum, x + v->own.begin);
        else
            memcpy(x + v->own.begin, v->sum, (size_t)v->own.n * sizeof(float));
    }
    return WEFT_OK;
}
