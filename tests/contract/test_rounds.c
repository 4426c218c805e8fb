/* SPDX-License-Identifier: MIT */
/* What kinds say of their messages fits together: what one sends another awaits, with the
 * same bytes, once and not before it is sent; and the bytes of a step are their sum. */
#include <string.h>

#include "mixer_bytes.h"
#include "replicate/variants.h"

enum { MOST = 9, STEPS = 24, ROUNDS = 2 };

static const wefti_piece pieces[] = {{40, 96, 0, true, 0}, {1500, 1, 3840, false, 1}};
static const wefti_bucket buckets[] = {{2, pieces, 5340}, {1, pieces, 3840}};
enum { BUCKETS = sizeof buckets / sizeof buckets[0] };

/* --- replicators --- */

static void check_replicator(const wefti_replicator_config *config, int R) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    for (int b = 0; b < BUCKETS; b++) {
        int n = ops->rounds(config, &buckets[b], R);
        assert_in_range(n, 0, ROUNDS);
        for (int from = 0; from < R; from++)
            for (int to = 0; to < R; to++) {
                int64_t sum = 0;
                for (int round = 0; round < n && from != to; round++) {
                    int owner = round ? from : to;
                    int64_t bytes = ops->round_bytes(config, &buckets[b], R, round,
                                                     owner);
                    assert_true(bytes >= 0);
                    sum += bytes;
                }
                assert_int_equal(
                    sum, wefti_replicator_wire_bytes(config, &buckets[b], R, from, to));
            }
    }
}

TEST(replicators_tell_their_rounds) {
    wefti_replicator_config config;
    for (int i = 0; wefti_variant_at(i, &config); i++)
        for (int R = 1; R <= MOST; R++) check_replicator(&config, R);
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        wefti_variant_at(0, &config);
        config.kind = wefti_replicator_registry[i]->name;
        check_replicator(&config, 3);
    }
}

/* --- mixers --- */

/* Bytes under way by (exchange, round, from, to); -1: none. */
typedef struct ledger {
    int64_t bytes[STEPS + 2][ROUNDS][MOST][MOST];
    int64_t sent[STEPS][MOST][MOST]; /* by step */
    int64_t exchange, step;
    int round, me;
    bool sends;
} ledger;

static void enter(void *user, int peer, int64_t n_bytes) {
    ledger *l = user;
    assert_in_range(peer, 0, MOST - 1);
    assert_int_not_equal(peer, l->me);
    assert_true(n_bytes > 0);
    if (l->sends) {
        int64_t *at = &l->bytes[l->exchange][l->round][l->me][peer];
        assert_int_equal(*at, -1); /* once */
        *at = n_bytes;
        if (l->step >= 0) l->sent[l->step][l->me][peer] += n_bytes;
    } else {
        int64_t *at = &l->bytes[l->exchange][l->round][peer][l->me];
        assert_int_equal(*at, n_bytes); /* sent, and not read yet */
        *at = -1;
    }
}

/* Acts of one phase of one step, of all ranks: those that send come last, as nobody may
 * await what is sent in the same phase but by a rank that has sent itself. */
static void do_acts(const wefti_mixer_config *config, wefti_mixer_question q, int phase,
                    ledger *l) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    wefti_mixer_act acts[MOST][WEFTI_MIXER_ACTS];
    int n[MOST];
    for (q.from = 0; q.from < q.R; q.from++)
        n[q.from] = ops->acts(config, &q, acts[q.from]);
    for (int i = 0; i < WEFTI_MIXER_ACTS; i++)
        for (q.from = 0; q.from < q.R; q.from++) {
            const wefti_mixer_act *act = &acts[q.from][i];
            if (i >= n[q.from] || (int)act->phase != phase) continue;
            if (q.step < 0 && !act->sends) continue;
            l->exchange = act->exchange;
            l->round = act->round;
            l->sends = act->sends;
            l->me = q.from;
            assert_in_range(l->exchange, 0, STEPS + 1);
            ops->messages(config, &q, act, enter, l);
        }
}

static void check_sums(const wefti_mixer_config *config, wefti_mixer_question q,
                       const ledger *l) {
    for (q.step = 0; q.step < STEPS; q.step++)
        for (q.from = 0; q.from < q.R; q.from++)
            for (int to = 0; to < q.R; to++)
                assert_int_equal(mixer_bytes(config, &q, to),
                                 l->sent[q.step][q.from][to]);
}

static void check_mixer(const wefti_mixer_config *config, int R, weft_neighbours *room) {
    static ledger l;
    for (int b = 0; b < BUCKETS; b++) {
        wefti_mixer_question q = {.bucket = &buckets[b],
                                  .number = b,
                                  .n_buckets = BUCKETS,
                                  .R = R,
                                  .room = room};
        memset(l.bytes, 0xff, sizeof l.bytes);
        memset(l.sent, 0, sizeof l.sent);
        for (q.step = -1; q.step < STEPS; q.step++)
            for (int phase = 0; phase <= WEFTI_MIXER_FINISH; phase++) {
                l.step = q.step;
                do_acts(config, q, phase, &l);
            }
        for (size_t i = 0; i < sizeof l.bytes / sizeof(int64_t); i++)
            assert_int_equal((&l.bytes[0][0][0][0])[i], -1); /* all was read */
        check_sums(config, q, &l);
    }
}

static void check_gossip(const char *kind, const char *topology, int nodes, int ranks,
                         bool last) {
    weft_ctx *ctx;
    weft_topology *t, *everybody;
    weft_neighbours *room;
    weft_topology_config wanted = {.struct_size = sizeof wanted,
                                   .kind = topology,
                                   .nodes = nodes,
                                   .ranks = ranks,
                                   .seed = 5};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_topology_create(ctx, &wanted, &t), WEFT_OK);
    wanted.kind = "complete";
    assert_int_equal(weft_topology_create(ctx, &wanted, &everybody), WEFT_OK);
    assert_int_equal(weft_neighbours_create(ctx, everybody, &room), WEFT_OK);
    wefti_mixer_config config = {.kind = kind,
                                 .steps = STEPS,
                                 .topology = t,
                                 .everybody = everybody,
                                 .combine_last = last,
                                 .gamma = 1,
                                 .seed = 5};
    check_mixer(&config, nodes * ranks, room);
    if (strcmp(kind, "gossip") == 0) {
        config.average_every = 5;
        check_mixer(&config, nodes * ranks, room);
    }
    weft_neighbours_destroy(ctx, room);
    weft_topology_destroy(ctx, everybody);
    weft_topology_destroy(ctx, t);
    weft_ctx_destroy(ctx);
}

TEST(gossip_tells_its_messages) {
    static const char *const topologies[] = {
        "complete",           "ring",  "exponential", "aer",
        "static_exponential", "torus", "matching",    "push"};
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++)
        for (int last = 0; last < 2; last++) {
            check_gossip("gossip", topologies[i], 4, 1, last);
            check_gossip("gossip", topologies[i], 8, 1, last);
            check_gossip("gossip", topologies[i], 4, 2, last);
        }
    check_gossip("choco", "ring", 6, 1, false);
    check_gossip("choco", "aer", 8, 1, true);
}

TEST(outer_tells_its_messages) {
    for (int R = 1; R <= MOST; R += 2)
        for (int64_t delay = 0; delay < 4; delay++)
            for (int64_t fragments = 1; fragments <= 2; fragments++) {
                wefti_mixer_config config = {.kind = "outer",
                                             .steps = STEPS,
                                             .outer_every = 5,
                                             .fragments = fragments,
                                             .delay = delay,
                                             .values = WEFTI_VALUES_INT8};
                check_mixer(&config, R, NULL);
            }
}
