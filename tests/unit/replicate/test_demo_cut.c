/* SPDX-License-Identifier: MIT */
/* How demo cuts buckets, and what follows from it: the lengths of messages. */
#include "check.h"
#include "replicate/demo.h"

enum { MAX_PIECES = 32, MAX_BUCKETS = 16 };

typedef struct model {
    wefti_piece pieces[MAX_BUCKETS][MAX_PIECES];
    wefti_bucket buckets[MAX_BUCKETS];
    int n_buckets;
    int64_t n_elements;
} model;

static void add(model *m, int64_t rows, int64_t cols) {
    int b = m->n_buckets - 1;
    wefti_bucket *bucket = &m->buckets[b];
    m->pieces[b][bucket->n_pieces++] = (wefti_piece){
        .rows = rows, .cols = cols, .offset = bucket->n_elements};
    bucket->pieces = m->pieces[b];
    bucket->n_elements += rows * cols;
    m->n_elements += rows * cols;
}

static void add_linear(model *m, int64_t rows, int64_t cols) {
    add(m, rows, cols);
    add(m, rows, 1);
}

/* GPT-2 with 6 blocks of width 384, byte tokens: 10.8 million parameters; a bucket for
 * each block. */
static const model *gpt2(void) {
    static model m;
    if (m.n_buckets > 0) return &m;
    m.n_buckets = 1;
    add(&m, 384, 1);
    add(&m, 384, 1);
    for (int block = 0; block < 6; block++) {
        m.n_buckets++;
        add(&m, 384, 1);
        add(&m, 384, 1);
        add_linear(&m, 3 * 384, 384);
        add_linear(&m, 384, 384);
        add(&m, 384, 1);
        add(&m, 384, 1);
        add_linear(&m, 4 * 384, 384);
        add_linear(&m, 384, 4 * 384);
    }
    m.n_buckets++;
    add(&m, 256, 384);
    add(&m, 256, 384);
    return &m;
}

static wefti_replicator_config knobs(int dims, int64_t k, wefti_value_codec values) {
    return (wefti_replicator_config){.kind = "demo",
                                     .compression_topk = k,
                                     .compression_chunk = 64,
                                     .compression_dims = dims,
                                     .sign = true,
                                     .alpha = 1,
                                     .values = values,
                                     .dense_below = 1024,
                                     .every = 1,
                                     .threads = 1};
}

/* -- blocks and ranges -- */

typedef void (*visit)(const wefti_demo_rules *rules, const wefti_bucket *bucket);

/* Buckets of GPT-2 and odd ones, with and without sign, for several R. */
static void for_each_cut(visit claim) {
    static const wefti_piece odd[] = {{7, 1, 0, false, 0},
                                      {130, 67, 7, true, 1},
                                      {1, 1, 8717, false, 2},
                                      {900, 1, 8718, false, 3}};
    static const wefti_bucket odd_bucket = {4, odd, 9618};
    for (int form = 0; form < 16; form++) {
        wefti_replicator_config config = knobs(1 + form % 2, form / 2 % 2 ? 4 : 33,
                                               (wefti_value_codec)(form % 5));
        config.sign = form / 4 % 2;
        config.dense_below = form / 8 ? 800 : 0;
        for (int R = 1; R <= 64; R = 2 * R + 1) {
            wefti_demo_rules rules = wefti_demo_rules_make(&config, R, NULL);
            claim(&rules, &odd_bucket);
            claim(&rules, &gpt2()->buckets[1]);
        }
    }
}

static int64_t answer_bytes(const wefti_demo_rules *rules, const wefti_demo_part *part,
                            int64_t b) {
    int64_t items = wefti_demo_items(part, b, 1);
    if (!rules->config->sign) return 4 * items * part->chunks.elements;
    if (part->section.dense) return (items + 3) / 4;
    return (items + 3) / 4 + items * wefti_chunks_bits_bytes(&part->chunks);
}

static void add_blocks(const wefti_demo_rules *rules, const wefti_bucket *bucket) {
    wefti_demo_place sum = {0};
    wefti_demo_part part;
    int64_t covered = 0, batches = 0;
    for (int i = 0; i < bucket->n_pieces; i++) {
        part = wefti_demo_part_make(rules, &bucket->pieces[i], i ? &part : NULL);
        assert_int_equal(part.first_batch, batches);
        for (int64_t b = 0; b <= part.section.n_blocks; b++) {
            wefti_demo_place place = wefti_demo_place_of(rules, &part, b);
            assert_memory_equal(&place, &sum, sizeof sum);
            if (b == part.section.n_blocks) break;
            if (b % part.batch_blocks == 0) batches++;
            sum.block++;
            sum.weight += wefti_demo_items(&part, b, 1) * part.chunks.elements;
            sum.payload_bytes += wefti_section_bytes(&part.section, b, 1);
            sum.answer_bytes += answer_bytes(rules, &part, b);
        }
        int64_t items = wefti_demo_items(&part, 0, part.section.n_blocks);
        assert_int_equal(items,
                         part.section.dense ? part.section.n_values : part.chunks.n);
        covered += bucket->pieces[i].rows * bucket->pieces[i].cols;
    }
    wefti_demo_place end = wefti_demo_end(rules, bucket);
    assert_memory_equal(&end, &sum, sizeof sum);
    assert_true(sum.weight >= covered);
}

TEST(a_place_is_the_sum_of_the_blocks_before_it) { for_each_cut(add_blocks); }

/* Elements of the largest block. */
static int64_t largest_block(const wefti_demo_rules *rules, const wefti_bucket *bucket) {
    int64_t largest = 0;
    for (int i = 0; i < bucket->n_pieces; i++) {
        wefti_demo_part part = wefti_demo_part_make(rules, &bucket->pieces[i], NULL);
        int64_t n = wefti_demo_items(&part, 0, 1) * part.chunks.elements;
        if (n > largest) largest = n;
    }
    return largest;
}

static void compare_ranges(const wefti_demo_rules *rules, const wefti_bucket *bucket) {
    wefti_demo_place before = {0}, end = wefti_demo_end(rules, bucket);
    int64_t largest = largest_block(rules, bucket);
    for (int j = 0; j <= rules->R; j++) {
        wefti_demo_place edge = wefti_demo_edge(rules, bucket, j);
        assert_true(edge.block >= before.block);
        assert_true(edge.payload_bytes >= before.payload_bytes);
        int64_t wanted = end.weight * j / rules->R;
        assert_in_range(edge.weight + largest / 2 + 1, wanted, wanted + largest + 2);
        before = edge;
    }
    assert_memory_equal(&before, &end, sizeof end);
}

TEST(ranges_follow_each_other_and_are_equal_to_half_a_block) {
    for_each_cut(compare_ranges);
}

TEST(pieces_of_fewer_elements_than_dense_below_are_sent_whole) {
    static const wefti_piece few = {1023, 1, 0, false, 0}, many = {1, 1024, 0, true, 0};
    static const wefti_piece vector = {1024, 1, 0, false, 0};
    wefti_replicator_config config = knobs(2, 4, WEFTI_VALUES_F32);
    assert_int_equal(wefti_demo_kind(&config, &few), -1);
    assert_int_equal(wefti_demo_kind(&config, &many), WEFTI_DEMO_MATRICES);
    assert_int_equal(wefti_demo_kind(&config, &vector), WEFTI_DEMO_VECTORS);
    config.compression_dims = 1;
    assert_int_equal(wefti_demo_kind(&config, &vector), WEFTI_DEMO_MATRICES);
}

/* -- traffic -- */

static int64_t bytes_from(const wefti_replicator_config *config, int R, int from) {
    const model *m = gpt2();
    int64_t n_bytes = 0;
    for (int to = 0; to < R; to++)
        for (int b = 0; b < m->n_buckets && to != from; b++)
            n_bytes += wefti_replicator_wire_bytes(config, &m->buckets[b], R, from, to);
    return n_bytes;
}

/* Of every rank, or of 16 of them. */
static double mean_bytes(const wefti_replicator_config *config, int R) {
    int apart = R > 16 ? R / 16 : 1, n = 0;
    double sum = 0;
    for (int from = 0; from < R; from += apart, n++)
        sum += (double)bytes_from(config, R, from);
    return sum / n;
}

/* A rank's own share follows from where blocks end, so the busiest one sends some more.
 */
TEST(the_owners_traffic_is_constant_in_the_number_of_ranks) {
    for (int form = 0; form < 2; form++) {
        wefti_replicator_config config = knobs(
            1, 4, form ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32);
        config.sign = form;
        config.route = WEFTI_ROUTE_OWNER;
        double few = mean_bytes(&config, 4) * 4 / 3;
        for (int R = 16; R <= 64; R *= 4) {
            double share = (double)(R - 1) / R;
            assert_true(mean_bytes(&config, R) / share < 1.02 * few);
            assert_true(mean_bytes(&config, R) / share > 0.98 * few);
            for (int from = 0; from < R; from += R / 8)
                assert_true((double)bytes_from(&config, R, from) / share < 1.05 * few);
        }
    }
}

TEST(gathers_traffic_is_linear_in_the_number_of_ranks) {
    wefti_replicator_config config = knobs(1, 4, WEFTI_VALUES_INT8);
    config.route = WEFTI_ROUTE_GATHER;
    int64_t message = bytes_from(&config, 2, 0);
    for (int R = 3; R <= 64; R += 7)
        assert_int_equal(bytes_from(&config, R, R / 2), (R - 1) * message);
}

TEST(auto_takes_the_route_that_sends_less) {
    int chosen[2] = {0};
    for (int form = 0; form < 8; form++) {
        wefti_replicator_config config = knobs(1 + form % 2, form % 2 ? 32 : 4,
                                               form / 2 % 2 ? WEFTI_VALUES_INT8
                                                            : WEFTI_VALUES_F32);
        config.sign = form / 4;
        config.indices = WEFTI_INDICES_FIXED;
        for (int R = 2; R <= 16; R = R < 4 ? R + 1 : 2 * R) {
            double bytes[3];
            for (int route = 0; route < 3; route++) {
                config.route = (wefti_route)route;
                bytes[route] = mean_bytes(&config, R);
            }
            double gather = bytes[WEFTI_ROUTE_GATHER], owner = bytes[WEFTI_ROUTE_OWNER];
            assert_true(bytes[WEFTI_ROUTE_AUTO] <= gather);
            assert_true(bytes[WEFTI_ROUTE_AUTO] <= owner);
            chosen[owner < gather]++;
        }
    }
    assert_true(chosen[0] > 0 && chosen[1] > 0);
}

/* The time that the messages of a bucket take a rank on a wire, for all ranks' mean. */
static double seconds(wefti_replicator_config config, wefti_route route, int R,
                      const wefti_bucket *bucket) {
    config.route = route;
    double bytes = 0;
    for (int from = 0; from < R; from++)
        for (int to = 0; to < R; to++)
            bytes += (double)wefti_replicator_wire_bytes(&config, bucket, R, from, to) /
                     R;
    wefti_demo_rules rules = wefti_demo_rules_make(&config, R, NULL);
    int rounds = wefti_demo_by_owner(&rules, bucket) ? 2 : 1;
    return rounds * config.latency_s + bytes / config.bandwidth_Bps;
}

TEST(auto_takes_the_faster_route_of_a_known_wire) {
    static const double wires[][2] = {
        {1e6, 0.01}, {12.5e6, 0.01}, {12.5e6, 1e-4}, {125e6, 1e-3}, {1.25e9, 0.02}};
    const wefti_bucket *block = &gpt2()->buckets[1];
    int chosen[2] = {0};
    for (int form = 0; form < 20; form++) {
        wefti_replicator_config config = knobs(
            1, 4, form % 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32);
        config.bandwidth_Bps = wires[form / 4][0];
        config.latency_s = wires[form / 4][1];
        int R = form / 2 % 2 ? 4 : 2;
        double gather = seconds(config, WEFTI_ROUTE_GATHER, R, block);
        double owner = seconds(config, WEFTI_ROUTE_OWNER, R, block);
        double taken = seconds(config, WEFTI_ROUTE_AUTO, R, block);
        assert_true(taken <= (gather < owner ? gather : owner) * (1 + 1e-9));
        chosen[owner < gather]++;
    }
    assert_true(chosen[0] > 3 && chosen[1] > 3);
}

/* Payload bytes of all ranks by one route. */
static int64_t all_bytes(wefti_replicator_config config, wefti_route route, int R,
                         const wefti_bucket *bucket) {
    int64_t n_bytes = 0;
    config.route = route;
    for (int from = 0; from < R; from++)
        for (int to = 0; to < R; to++)
            n_bytes += wefti_replicator_wire_bytes(&config, bucket, R, from, to);
    return n_bytes;
}

/* Where heads matter: small vectors, sent whole. The owners' route has a second round, so it
 * has to be shorter, not as short. Of two blocks each has an owner; of more, some may share
 * one, and then the heads that auto counts are a few too many. */
TEST(auto_counts_the_heads_of_short_messages) {
    int shorter = 0, equal = 0, longer = 0;
    for (int form = 0; form < 2 * WEFTI_VALUE_CODECS; form++) {
        wefti_replicator_config config = knobs(1, 4, (wefti_value_codec)(form / 2));
        config.sign = form % 2;
        for (int64_t n = 1; n <= 2 * WEFTI_BLOCK_VALUES; n++) {
            wefti_piece piece = {.rows = n, .cols = 1};
            wefti_bucket bucket = {1, &piece, n};
            for (int R = 2; R <= 5; R++) {
                wefti_demo_rules rules = wefti_demo_rules_make(&config, R, NULL);
                int64_t gather = all_bytes(config, WEFTI_ROUTE_GATHER, R, &bucket);
                int64_t owner = all_bytes(config, WEFTI_ROUTE_OWNER, R, &bucket);
                assert_int_equal(wefti_demo_by_owner(&rules, &bucket), owner < gather);
                shorter += owner < gather;
                equal += owner == gather;
                longer += owner > gather;
            }
        }
    }
    assert_true(shorter > 0 && equal > 0 && longer > 0);
}

TEST(int8_coefficients_take_at_most_13_and_a_half_bits) {
    wefti_replicator_config config = knobs(1, 4, WEFTI_VALUES_INT8);
    const model *m = gpt2();
    wefti_demo_rules rules = wefti_demo_rules_make(&config, 2, NULL);
    int64_t sent = 0, n_bytes = 0, sparse = 0;
    assert_in_range(m->n_elements, 10700000, 10900000);
    config.route = WEFTI_ROUTE_GATHER;
    n_bytes = bytes_from(&config, 2, 0);
    for (int b = 0; b < m->n_buckets; b++) {
        for (int i = 0; i < m->buckets[b].n_pieces; i++) {
            const wefti_piece *piece = &m->buckets[b].pieces[i];
            wefti_demo_part part = wefti_demo_part_make(&rules, piece, NULL);
            sent += part.section.n_values;
            if (!part.section.dense) sparse += part.section.n_values;
        }
    }
    assert_true(8 * (double)n_bytes / (double)sent <= 13.1);
    assert_true(8 * (double)n_bytes / (double)sparse <= 13.5); /* as if these were all */
}

/* -- memory -- */

/* What the library counts as held is what was asked for; each block takes a header and
 * is rounded, by less than 128 bytes if it is not large. */
static void check_room(weft_ctx *ctx, wefti_replicator_config *config, int R) {
    static const wefti_piece pieces[] = {{150, 67, 0, true, 0},
                                         {2000, 1, 10050, false, 1}};
    static const wefti_bucket buckets[] = {{2, pieces, 12050}, {1, pieces, 10050}};
    wefti_comm comm = {.size = R, .rank = R - 1};
    wefti_replicator *r;
    int64_t before = weft_ctx_allocations(ctx);
    assert_ok(ctx, wefti_replicator_create(ctx, config, wefti_kernels_find(NULL), &comm,
                                           buckets, 2, &r));
    int64_t blocks = weft_ctx_allocations(ctx) - before - 4;
    int64_t held = weft_ctx_bytes_held(ctx) - (int64_t)sizeof *r -
                   2 * (int64_t)(sizeof(int64_t) + sizeof(int)) - 4 * 22100;
    int64_t counted = wefti_replicator_work_bytes(config, buckets, 2, R);
    assert_in_range(counted, held + 64 * blocks, held + 128 * blocks);
    wefti_replicator_destroy(r);
}

TEST(working_memory_is_counted_exactly) {
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    static const wefti_value_codec codecs[] = {WEFTI_VALUES_INT4, WEFTI_VALUES_F32,
                                               WEFTI_VALUES_SIGN, WEFTI_VALUES_INT8};
    for (int form = 0; form < 32; form++) {
        wefti_replicator_config config = knobs(
            1 + form % 2, 4, form / 2 % 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32);
        if (form >= 16) config.values_of = codecs;
        config.sign = form / 4 % 2;
        config.route = form / 8 % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_AUTO;
        config.threads = 1 + form % 3;
        for (int R = 1; R <= 4; R++) check_room(ctx, &config, R);
    }
    assert_int_equal(ctx_end(ctx), 0);
}

/* The coefficients of all ranks that are worked on at a time fit in a cache. */
TEST(working_memory_hardly_grows_with_the_number_of_ranks) {
    wefti_replicator_config config = knobs(1, 4, WEFTI_VALUES_INT8);
    const model *m = gpt2();
    config.route = WEFTI_ROUTE_GATHER;
    int64_t alone = wefti_replicator_work_bytes(&config, m->buckets, m->n_buckets, 1);
    int64_t many = wefti_replicator_work_bytes(&config, m->buckets, m->n_buckets, 512);
    assert_true(many - alone < 1 << 20);
}
