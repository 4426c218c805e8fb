/* SPDX-License-Identifier: MIT */
/* The law of a lost rank, for every replicator (docs/membership.md): whenever in a step one of them
 * is lost, and whatever of its messages has come to whom, those who are left have the same
 * direction, to the bit.
 *
 *     begin      (1)  nothing of the lost one's first round has come
 *                (2)  it has come to one
 *     combine    (3)  to all, and nobody has its answer
 *                (4)  one has its answer
 *     end
 *
 * All ranks are played in one thread over a mailbox, which does what mesh/elastic.h promises:
 * a message that all get alike counts if anybody has it, one for a single rank if that one has it,
 * and of what was sent to the lost one copies are there. */
#include <stdlib.h>

#include "replicas.h"

enum { R = 3, MAILS = 256, CALM = 2 };

typedef struct mail {
    int from, to;
    int64_t tag, n_bytes;
    unsigned char *bytes; /* owned */
} mail;

/* What all ranks have sent, and which rank is lost. */
typedef struct mailbox {
    mail mails[MAILS];
    int n;
    int gone;  /* or -1 */
    int hears; /* the only one who gets what the lost one sends from now on; -1: nobody */
    bool is_dying; /* it sends still, to `hears` alone */
    int remade;    /* answers that were made in its place */
} mailbox;

typedef struct rank_comm {
    wefti_comm comm; /* first */
    mailbox *box;
} rank_comm;

static mailbox box;
static rank_comm comms[R];
static wefti_replicator *ranks[R];
static float x[R][N];
static weft_ctx *ctx;

static mail *find(int from, int to, int64_t tag) {
    for (int i = box.n - 1; i >= 0; i--) {
        mail *m = &box.mails[i];
        if (m->from == from && m->to == to && m->tag == tag) return m;
    }
    return NULL;
}

static void lay(int from, int to, int64_t tag, const void *data, int64_t n_bytes) {
    assert_true(box.n < MAILS);
    mail *m = &box.mails[box.n++];
    *m = (mail){from, to, tag, n_bytes, malloc((size_t)n_bytes + 1)};
    assert_non_null(m->bytes);
    memcpy(m->bytes, data, (size_t)n_bytes);
}

static weft_status hub_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    if (comm->rank != box.gone || (box.is_dying && peer == box.hears))
        lay(comm->rank, peer, tag, data, n_bytes);
    return WEFT_OK;
}

static weft_status hub_receive_piece(wefti_comm *comm, int peer, int64_t tag,
                                     int64_t n_bytes, wefti_piece_kind kind,
                                     wefti_received *out) {
    mail *m = find(peer, comm->rank, tag);
    for (int r = 0; r < R && !m && kind != WEFTI_PIECE_OWN; r++)
        if (r != box.gone) m = find(peer, r, tag);
    assert_true(m || peer == box.gone);
    if (m) assert_int_equal(m->n_bytes, n_bytes);
    *out = (wefti_received){m ? m->bytes : NULL, 1};
    return WEFT_OK;
}

static weft_status hub_receive(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                               const void **view) {
    wefti_received got;
    weft_status status = hub_receive_piece(comm, peer, tag, n_bytes, WEFTI_PIECE_SAME,
                                           &got);
    *view = got.view;
    return status;
}

static weft_status hub_receive_part(wefti_comm *comm, const wefti_lost *lost, int peer,
                                    int64_t n_bytes, const void **view) {
    mail *m = find(peer, lost->peer, lost->part_tag);
    assert_int_equal(lost->peer, box.gone);
    assert_true(comm->rank != peer && (m || peer == box.gone));
    if (m) assert_int_equal(m->n_bytes, n_bytes);
    *view = m ? m->bytes : NULL;
    return WEFT_OK;
}

static weft_status hub_replace(wefti_comm *comm, const wefti_lost *lost, const void *data,
                               int64_t n_bytes) {
    for (int r = 0; r < R; r++) {
        mail *m = find(lost->peer, r, lost->tag);
        if (m && r != comm->rank) assert_memory_equal(m->bytes, data, (size_t)n_bytes);
    }
    lay(lost->peer, comm->rank, lost->tag, data, n_bytes);
    box.remade++;
    return WEFT_OK;
}

static void hub_release(wefti_comm *comm, int peer, int64_t tag) {
    assert_true(comm->rank != peer && tag >= 0);
}

static void hub_release_part(wefti_comm *comm, const wefti_lost *lost, int peer) {
    assert_true(comm->rank != peer && lost->peer != peer);
}

static weft_status hub_await(wefti_comm *comm, int64_t tag) {
    assert_true(comm->size == R && tag >= 0);
    return WEFT_OK;
}

static weft_status hub_reserve(wefti_comm *comm, int n_messages) {
    assert_true(comm->size == R && n_messages > 0);
    return WEFT_OK;
}

static weft_status hub_agree(wefti_comm *comm, int64_t tag) {
    return hub_await(comm, tag);
}

static const wefti_comm_ops hub = {.name = "mailbox",
                                   .send = hub_send,
                                   .receive = hub_receive,
                                   .release = hub_release,
                                   .await = hub_await,
                                   .reserve = hub_reserve,
                                   .send_part = hub_send,
                                   .receive_piece = hub_receive_piece,
                                   .receive_part = hub_receive_part,
                                   .release_part = hub_release_part,
                                   .replace = hub_replace,
                                   .agree = hub_agree};

static void empty(void) {
    for (int i = 0; i < box.n; i++) free(box.mails[i].bytes);
    box = (mailbox){.gone = -1, .hears = -1};
}

typedef weft_status (*phase)(wefti_replicator *r, int bucket, int64_t step, float *grad);

static weft_status begin_phase(wefti_replicator *r, int bucket, int64_t step,
                               float *grad) {
    return wefti_replicator_begin(r, bucket, step, 0.5f, grad);
}

/* One phase of all ranks that take part. */
static void play(phase run, int64_t step, bool with_gone) {
    for (int r = 0; r < R; r++)
        for (int b = 0; b < N_BUCKETS && (with_gone || r != box.gone); b++)
            assert_ok(ctx, run(ranks[r], b, step, x[r] + bucket_at[b]));
}

typedef enum moment {
    FIRST_TO_NONE,
    FIRST_TO_ONE,
    ANSWER_TO_NONE,
    ANSWER_TO_ONE,
    MOMENTS
} moment;

/* A step in which `gone` is lost, who speaks to `hears` alone at the end. */
static void lose(int64_t step, int gone, int hears, moment when) {
    box.gone = gone;
    box.hears = hears;
    if (when >= ANSWER_TO_NONE) box.gone = -1;
    box.is_dying = when == FIRST_TO_ONE;
    play(begin_phase, step, true);
    box.gone = gone;
    box.is_dying = when == ANSWER_TO_ONE;
    play(wefti_replicator_combine, step, when == ANSWER_TO_ONE);
    box.is_dying = false;
    play(wefti_replicator_end, step, false);
}

static void create(const wefti_replicator_config *config) {
    for (int r = 0; r < R; r++) {
        comms[r] = (rank_comm){{.ops = &hub, .ctx = ctx, .rank = r, .size = R}, &box};
        assert_ok(ctx, wefti_replicator_create(ctx, config, wefti_kernels_find(NULL),
                                               &comms[r].comm, test_buckets, N_BUCKETS,
                                               &ranks[r]));
    }
}

static void give_gradients(int64_t step) {
    for (int r = 0; r < R; r++)
        fill_normal(17 * (uint64_t)step + 1000 * (uint64_t)r, N, x[r]);
}

/* The state before is that of some calm steps. Returns how many answers were made anew. */
static int claim(const wefti_replicator_config *config, int gone, int hears,
                 moment when) {
    empty();
    create(config);
    for (int64_t step = 0; step < CALM; step++) {
        give_gradients(step);
        play(begin_phase, step, true);
        play(wefti_replicator_combine, step, true);
        play(wefti_replicator_end, step, true);
        empty();
    }
    give_gradients(CALM);
    lose(CALM, gone, hears, when);
    int other = 3 - gone - hears, remade = box.remade;
    if (memcmp(x[hears], x[other], sizeof x[0]) != 0)
        fail_msg(
            "%s, values %d, route %d, %d dims, sign %d: %d and %d differ when %d is lost "
            "(%d)",
            config->kind, (int)config->values, (int)config->route,
            config->compression_dims, config->sign, hears, other, gone, (int)when);
    for (int r = 0; r < R; r++) wefti_replicator_destroy(ranks[r]);
    return remade;
}

static int claim_each(const wefti_replicator_config *config) {
    int remade = 0;
    for (int gone = 0; gone < R; gone++)
        for (int when = 0; when < MOMENTS; when++) {
            int hears = (gone + 1 + (gone + when) % 2) % R;
            remade += claim(config, gone, hears, (moment)when);
        }
    return remade;
}

/* Each rank in a codec of its own: the answer of an owner that is lost has parts of several. */
TEST(so_they_have_with_codecs_of_their_own) {
    static const wefti_value_codec codecs[R] = {WEFTI_VALUES_INT4, WEFTI_VALUES_F32,
                                                WEFTI_VALUES_INT8};
    assert_int_equal(ctx_begin(&ctx), 0);
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config c = knobs("demo", 1 + form / 2, 4 + 4 * (form / 2),
                                          form % 2);
        c.values_of = codecs;
        c.route = form == 3 ? WEFTI_ROUTE_GATHER : WEFTI_ROUTE_OWNER;
        assert_true(claim_each(&c) > 0 || form == 3);
    }
    empty();
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(those_who_are_left_have_the_same_direction) {
    assert_int_equal(ctx_begin(&ctx), 0);
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const wefti_replicator_ops *ops = wefti_replicator_registry[i];
        if (strcmp(ops->name, "none") == 0) continue;
        int remade = 0, rounds = 0;
        for (int values = 0; values < WEFTI_VALUE_CODECS;
             values += 2 + 2 * UNDER_SANITIZER)
            for (int form = 0; form < 4; form++) {
                wefti_replicator_config c = knobs(ops->name, 1 + form / 2,
                                                  4 + 4 * (form / 2), form % 2);
                c.values = (wefti_value_codec)values;
                c.route = form == 3 ? WEFTI_ROUTE_GATHER : WEFTI_ROUTE_OWNER;
                remade += claim_each(&c);
                rounds |= ops->rounds(&c, &test_buckets[0], R);
            }
        if (rounds & 2 && !ops->own_answers) assert_true(remade > 0);
    }
    empty();
    assert_int_equal(ctx_end(ctx), 0);
}
