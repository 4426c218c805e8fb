/* SPDX-License-Identifier: MIT */
/* The memory of demo: it is predicted from the same sizes with which it is allocated.
 *
 *     of all       parts of all pieces | edges of the ranges, R + 1 for each bucket | tables;
 *                  where members differ in their codecs, parts and edges for each codec
 *     a thread     values and places of a batch, R times | a chunk | states and bits of signs
 *
 * A batch is what a thread works on at once: as many chunks as stay in cache
 * (demo_cut.c). With R ranks it holds R decoded messages beside each other. */
#include <string.h>

#include "base/memory.h"
#include "replicate/demo.h"

/* Sizes that all buckets share. */
typedef struct sizes {
    int64_t n_parts;
    int64_t values, chunks, bits; /* of a batch, at most */
    int64_t chunk;                /* elements, at most */
    int64_t thread;               /* floats of one thread's scratch */
} sizes;

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static void enlarge(const wefti_demo_rules *rules, const wefti_demo_part *part,
                    sizes *n) {
    const wefti_section *s = &part->section;
    int64_t chunks = part->batch_blocks * s->block_chunks;
    n->n_parts++;
    n->values = max64(n->values, part->batch_blocks * s->block_values);
    if (s->dense || rules->R == 1) return;
    n->chunks = max64(n->chunks, chunks);
    n->bits = max64(n->bits, chunks * wefti_chunks_bits_bytes(&part->chunks));
    n->chunk = max64(n->chunk, part->chunks.elements);
}

static sizes sizes_of(const wefti_demo_rules *rules, const wefti_bucket *buckets,
                      int n_buckets) {
    sizes n = {0};
    for (int b = 0; b < n_buckets; b++) {
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            wefti_demo_part part = wefti_demo_part_make(rules, &buckets[b].pieces[i],
                                                        NULL);
            enlarge(rules, &part, &n);
        }
    }
    if (rules->config->sign) n.chunk = 0;
    if (!rules->config->sign) n.chunks = n.bits = 0;
    int64_t line = 16; /* floats: threads share no cache line */
    n.thread = 2 * rules->R * n.values + n.chunk + (n.chunks + n.bits + 3) / 4;
    n.thread = (n.thread + line - 1) / line * line;
    return n;
}

static int threads_of(const wefti_replicator_config *config) {
    return config->threads > 1 ? config->threads : 1;
}

/* Which kinds of chunks occur whose indices need a table. */
static void tables_wanted(const wefti_demo_rules *rules, const wefti_bucket *buckets,
                          int n_buckets, bool wanted[WEFTI_DEMO_KINDS]) {
    memset(wanted, 0, WEFTI_DEMO_KINDS * sizeof *wanted);
    for (int b = 0; b < n_buckets; b++) {
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            int kind = wefti_demo_kind(rules->config, &buckets[b].pieces[i]);
            if (kind >= 0 && rules->sections[kind].indices == WEFTI_INDICES_ENUMERATIVE)
                wanted[kind] = true;
        }
    }
}

static int64_t table_bytes(const wefti_demo_rules *rules, const wefti_bucket *buckets,
                           int n_buckets) {
    bool wanted[WEFTI_DEMO_KINDS];
    int64_t n_bytes = 0;
    tables_wanted(rules, buckets, n_buckets, wanted);
    for (int kind = 0; kind < WEFTI_DEMO_KINDS; kind++) {
        int64_t n_table = wefti_section_table_bytes(&rules->sections[kind]);
        if (wanted[kind]) n_bytes += wefti_alloc_n_cost(n_table, 1);
    }
    return n_bytes;
}

int64_t wefti_demo_room_bytes(const wefti_replicator_config *config,
                              const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_demo_rules rules = wefti_demo_rules_make(config, R, NULL);
    sizes n = sizes_of(&rules, buckets, n_buckets);
    int threads = threads_of(config), rows = wefti_values_rows(config);
    int64_t n_bytes = wefti_alloc_n_cost(1, sizeof(wefti_demo)) +
                      wefti_alloc_n_cost(R, sizeof(wefti_demo_view)) +
                      wefti_alloc_n_cost(rows * n_buckets, sizeof(wefti_demo_bucket)) +
                      wefti_alloc_n_cost(rows * n.n_parts, sizeof(wefti_demo_part)) +
                      wefti_alloc_n_cost((int64_t)rows * n_buckets * (R + 1),
                                         sizeof(wefti_demo_place)) +
                      wefti_alloc_n_cost(threads, sizeof(wefti_demo_scratch)) +
                      wefti_alloc_n_cost(2 * threads * R, sizeof(void *)) +
                      wefti_alloc_n_cost(threads * n.thread, sizeof(float));
    n_bytes += wefti_spectrum_cost(config->compression_dims, config->compression_chunk,
                                   threads);
    n_bytes += table_bytes(&rules, buckets, n_buckets);
    return n_bytes;
}

static weft_status create_tables(wefti_replicator *r) {
    wefti_demo *self = r->self;
    bool wanted[WEFTI_DEMO_KINDS];
    tables_wanted(&self->rules, r->buckets, r->n_buckets, wanted);
    for (int kind = 0; kind < WEFTI_DEMO_KINDS; kind++) {
        const wefti_section *s = &self->rules.sections[kind];
        if (wanted[kind])
            WEFT_TRY(
                wefti_binomials_create(r->ctx, s->elements, s->k, &self->tables[kind]));
    }
    self->rules = wefti_demo_rules_make(&r->config, r->comm->size, self->tables);
    return WEFT_OK;
}

static weft_status create_scratch(wefti_replicator *r, const sizes *n) {
    wefti_demo *self = r->self;
    int R = r->comm->size, T = self->threads;
    WEFT_TRY(wefti_alloc_n(r->ctx, T, sizeof *self->scratch, "demo", &self->scratch));
    WEFT_TRY(wefti_alloc_n(r->ctx, 2 * T * R, sizeof(void *), "demo", &self->lists));
    WEFT_TRY(wefti_alloc_n(r->ctx, T * n->thread, sizeof(float), "a batch of chunks",
                           &self->room));
    int32_t **indices = self->lists;
    float **values = (float **)self->lists + T * R;
    for (int t = 0; t < T; t++, indices += R, values += R) {
        float *next = (float *)self->room + t * n->thread;
        for (int rank = 0; rank < R; rank++, next += 2 * n->values) {
            values[rank] = next;
            indices[rank] = (int32_t *)(void *)(next + n->values);
        }
        unsigned char *states = (unsigned char *)(next + n->chunk);
        self->scratch[t] = (wefti_demo_scratch){.thread = t,
                                                .indices = indices,
                                                .values = values,
                                                .chunk = next,
                                                .states = states,
                                                .bits = states + n->chunks};
    }
    return WEFT_OK;
}

static wefti_demo_bucket cut_bucket(const wefti_demo_rules *rules, const wefti_bucket *b,
                                    wefti_demo_part *parts, wefti_demo_place *edges) {
    bool by_owner = wefti_demo_by_owner(rules, b);
    int n_ranges = by_owner ? rules->R : 1;
    for (int i = 0; i < b->n_pieces; i++)
        parts[i] = wefti_demo_part_make(rules, &b->pieces[i], i ? &parts[i - 1] : NULL);
    for (int j = 1; j < n_ranges; j++) edges[j] = wefti_demo_edge(rules, b, j);
    edges[n_ranges] = wefti_demo_end(rules, b);
    return (wefti_demo_bucket){.n_parts = b->n_pieces,
                               .parts = parts,
                               .by_owner = by_owner,
                               .n_ranges = n_ranges,
                               .edges = edges};
}

static weft_status create_buckets(wefti_replicator *r, const sizes *n) {
    wefti_demo *self = r->self;
    int R = r->comm->size, rows = wefti_values_rows(&r->config);
    WEFT_TRY(wefti_alloc_n(r->ctx, rows * r->n_buckets, sizeof *self->buckets,
                           "demo buckets", &self->buckets));
    WEFT_TRY(wefti_alloc_n(r->ctx, rows * n->n_parts, sizeof *self->parts, "demo parts",
                           &self->parts));
    WEFT_TRY(wefti_alloc_n(r->ctx, (int64_t)rows * r->n_buckets * (R + 1),
                           sizeof *self->edges, "demo ranges", &self->edges));
    wefti_demo_part *parts = self->parts;
    wefti_demo_place *edges = self->edges;
    for (int row = 0; row < rows; row++) {
        wefti_replicator_config config = r->config;
        config.sent = (wefti_value_codec)row;
        wefti_demo_rules rules = wefti_demo_rules_make(&config, R, self->tables);
        for (int b = 0; b < r->n_buckets; b++, edges += R + 1) {
            self->buckets[row * r->n_buckets + b] = cut_bucket(&rules, &r->buckets[b],
                                                               parts, edges);
            parts += r->buckets[b].n_pieces;
        }
    }
    return WEFT_OK;
}

weft_status wefti_demo_room_create(wefti_replicator *r) {
    wefti_demo *self;
    int R = r->comm->size;
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "the demo replicator", &self));
    r->self = self;
    self->rules = wefti_demo_rules_make(&r->config, R, NULL);
    self->threads = threads_of(&r->config);
    WEFT_TRY(create_tables(r));
    sizes n = sizes_of(&self->rules, r->buckets, r->n_buckets);
    WEFT_TRY(
        wefti_alloc_n(r->ctx, R, sizeof *self->views, "demo messages", &self->views));
    WEFT_TRY(create_scratch(r, &n));
    WEFT_TRY(create_buckets(r, &n));
    return wefti_spectrum_create(r->ctx, r->kernels, r->config.compression_dims,
                                 r->config.compression_chunk, self->threads,
                                 &self->spectrum);
}

void wefti_demo_room_destroy(wefti_replicator *r) {
    wefti_demo *self = r->self;
    if (!self) return;
    for (int kind = 0; kind < WEFTI_DEMO_KINDS; kind++)
        wefti_binomials_destroy(r->ctx, self->tables[kind]);
    wefti_spectrum_destroy(r->ctx, self->spectrum);
    WEFTI_FREE(r->ctx, self->buckets, self->parts, self->edges, self->views,
               self->scratch, self->lists, self->room, self);
}
