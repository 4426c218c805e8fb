/* SPDX-License-Identifier: MIT */
/* Cuts a bucket: see demo.h. The full blocks of a part all have the same length of
 * payload and the same length of answer, so that a place is a product. The answer of a
 * block of n chunks is, with sign, a state of 2 bits per chunk and a bit per element:
 *
 *     ceil(n / 4) + n ceil(elements / 8) bytes       (dense: ceil(values / 4))
 *
 * and without sign an f32 per element.
 *
 * The route with fewer bytes: with payload P, answer A and n blocks, all ranks together
 * send
 *
 *     gather: R (R - 1) (head + P)        owner: (R - 1) (P + A + 2 head min(R, n))
 *
 * A rank sends 1/R of that. On a wire of latency l and w bytes per second for each rank,
 * this takes l + bytes/w by gather, and 2 l + bytes/w by owner. */
#include "replicate/demo.h"

#include "compress/spectrum.h"
#include "wire/frame.h"

/* Dense values of a batch; most coefficients of all ranks in a batch, so that they stay
 * in cache. */
enum { DENSE_BATCH = 4096, MOST_VALUES = 1 << 15 };

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

int wefti_demo_kind(const wefti_replicator_config *config, const wefti_piece *piece) {
    if (piece->rows * piece->cols < config->dense_below) return -1;
    return config->compression_dims == 2 && piece->cols == 1 ? WEFTI_DEMO_VECTORS
                                                             : WEFTI_DEMO_MATRICES;
}

static wefti_chunks chunks_of(const wefti_replicator_config *config, int64_t rows,
                              int64_t cols) {
    return wefti_chunks_make(config->compression_dims, config->compression_chunk,
                             config->compression_topk, rows, cols);
}

wefti_demo_rules wefti_demo_rules_make(const wefti_replicator_config *config, int R,
                                       wefti_binomials *const *tables) {
    wefti_demo_rules rules = {
        .config = config, .values = wefti_values_sent(config), .R = R};
    for (int kind = 0; kind < WEFTI_DEMO_KINDS; kind++) {
        wefti_chunks s = chunks_of(config, 1, kind == WEFTI_DEMO_MATRICES ? 2 : 1);
        bool same = kind > 0 && config->compression_dims == 1;
        rules.sections[kind] = same ? rules.sections[0]
                                    : wefti_section_sparse(1, s.k, s.elements,
                                                           rules.values, config->indices,
                                                           tables ? tables[kind] : NULL);
    }
    return rules;
}

static int64_t batch_blocks(const wefti_demo_rules *rules, const wefti_demo_part *part) {
    const wefti_section *s = &part->section;
    int64_t values = s->dense ? DENSE_BATCH : wefti_spectrum_batch(&part->chunks) * s->k;
    int64_t n = min64(values, MOST_VALUES / rules->R) / s->block_values;
    return max64(1, min64(n, s->n_blocks));
}

wefti_demo_part wefti_demo_part_make(const wefti_demo_rules *rules,
                                     const wefti_piece *piece,
                                     const wefti_demo_part *before) {
    wefti_demo_part part = {.offset = piece->offset, .chunks.elements = 1};
    int kind = wefti_demo_kind(rules->config, piece);
    if (kind < 0) {
        part.section = wefti_section_dense(piece->rows * piece->cols, rules->values);
    } else {
        part.chunks = chunks_of(rules->config, piece->rows, piece->cols);
        part.section = wefti_section_of_chunks(&rules->sections[kind], part.chunks.n);
    }
    part.batch_blocks = batch_blocks(rules, &part);
    if (before) {
        int64_t n_blocks = before->section.n_blocks, per = before->batch_blocks;
        part.first = wefti_demo_place_of(rules, before, n_blocks);
        part.first_batch = before->first_batch + (n_blocks + per - 1) / per;
    }
    return part;
}

/* Chunks or values of the blocks before b. */
static int64_t items_before(const wefti_demo_part *part, int64_t b) {
    const wefti_section *s = &part->section;
    return s->dense ? min64(b * s->block_values, s->n_values)
                    : min64(b * s->block_chunks, s->n_chunks);
}

int64_t wefti_demo_items(const wefti_demo_part *part, int64_t first, int64_t n) {
    return items_before(part, first + n) - items_before(part, first);
}

static int64_t answer_bytes(bool sign, const wefti_demo_part *part, int64_t items) {
    if (!sign) return items * part->chunks.elements * (int64_t)sizeof(float);
    int64_t states = (items + 3) / 4;
    return part->section.dense ? states
                               : states + items * wefti_chunks_bits_bytes(&part->chunks);
}

wefti_demo_place wefti_demo_place_of(const wefti_demo_rules *rules,
                                     const wefti_demo_part *part, int64_t b) {
    wefti_demo_place place = part->first;
    bool sign = rules->config->sign;
    int64_t items = items_before(part, b), full = items_before(part, 1);
    if (items == 0) return place;
    place.block += b;
    place.weight += items * part->chunks.elements;
    place.payload_bytes += wefti_section_bytes(&part->section, 0, b);
    place.answer_bytes += items / full * answer_bytes(sign, part, full) +
                          answer_bytes(sign, part, items % full);
    return place;
}

wefti_demo_place wefti_demo_end(const wefti_demo_rules *rules,
                                const wefti_bucket *bucket) {
    wefti_demo_part part;
    for (int i = 0; i < bucket->n_pieces; i++)
        part = wefti_demo_part_make(rules, &bucket->pieces[i], i ? &part : NULL);
    if (bucket->n_pieces == 0) return (wefti_demo_place){0};
    return wefti_demo_place_of(rules, &part, part.section.n_blocks);
}

/* Where range j begins in a bucket whose end is known. */
static wefti_demo_place edge_before(const wefti_demo_rules *rules,
                                    const wefti_bucket *bucket,
                                    const wefti_demo_place *end, int j) {
    wefti_demo_place next = *end;
    if (j == 0) return (wefti_demo_place){0};
    int64_t wanted = end->weight * j / rules->R;
    wefti_demo_part part;
    for (int i = 0; i < bucket->n_pieces; i++) {
        part = wefti_demo_part_make(rules, &bucket->pieces[i], i ? &part : NULL);
        next = wefti_demo_place_of(rules, &part, part.section.n_blocks);
        if (wanted < next.weight) break;
    }
    if (wanted >= next.weight) return *end;
    int64_t block = items_before(&part, 1) * part.chunks.elements;
    int64_t b = (wanted - part.first.weight + block / 2) / block;
    return wefti_demo_place_of(rules, &part, b);
}

wefti_demo_place wefti_demo_edge(const wefti_demo_rules *rules,
                                 const wefti_bucket *bucket, int j) {
    wefti_demo_place end = wefti_demo_end(rules, bucket);
    return edge_before(rules, bucket, &end, j);
}

/* Whether a bucket takes the owners' route, where each member's codec is `values`; end: where
 * it ends then. */
static bool goes_by_owner(const wefti_demo_rules *rules, const wefti_bucket *bucket,
                          const wefti_demo_place *end) {
    wefti_route route = rules->config->route;
    if (rules->R == 1 || route == WEFTI_ROUTE_GATHER) return false;
    if (route == WEFTI_ROUTE_OWNER) return true;
    if (rules->config->values_of) {
        wefti_replicator_config alike = *rules->config;
        alike.values_of = NULL;
        wefti_demo_rules same = wefti_demo_rules_make(&alike, rules->R, NULL);
        return wefti_demo_by_owner(&same, bucket);
    }
    int64_t R = rules->R, heads = 2 * min64(R, end->block);
    int64_t by_owner = end->payload_bytes + end->answer_bytes + heads * WEFTI_FRAME_BYTES;
    int64_t by_gather = R * (end->payload_bytes + WEFTI_FRAME_BYTES);
    double later_s = rules->config->bandwidth_Bps > 0 ? rules->config->latency_s : 0;
    if (later_s <= 0) return by_owner < by_gather;
    double saved = (double)(R - 1) / (double)R * (double)(by_gather - by_owner);
    return saved / rules->config->bandwidth_Bps > later_s;
}

bool wefti_demo_by_owner(const wefti_demo_rules *rules, const wefti_bucket *bucket) {
    wefti_demo_place end = wefti_demo_end(rules, bucket);
    return goes_by_owner(rules, bucket, &end);
}

int64_t wefti_demo_bytes_about(const wefti_demo_rules *rules, const wefti_bucket *bucket,
                               int round, int owner) {
    wefti_demo_place all = wefti_demo_end(rules, bucket);
    if (!goes_by_owner(rules, bucket, &all)) return all.payload_bytes;
    wefti_demo_place begin = edge_before(rules, bucket, &all, owner),
                     end = edge_before(rules, bucket, &all, owner + 1);
    return round ? end.answer_bytes - begin.answer_bytes
                 : end.payload_bytes - begin.payload_bytes;
}
