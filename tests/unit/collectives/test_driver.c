/* SPDX-License-Identifier: MIT */
/* The exchange driver over a communicator that writes down its calls: who is sent to in which
 * order, when a buffer is written again, what is added, released and counted. */
#include "collectives/driver.h"

#include "fakecomm.h"

enum { ME = 1, R = 3, STAGE = 4, BUCKETS = 2, STEPS = 100 };
enum { ALL = 1000 };
enum { PAYLOAD = 8, MESSAGE = WEFTI_FRAME_BYTES + PAYLOAD };

/* A method whose message about a member is one number. */
typedef struct method {
    fake_comm fake;
    wefti_driver *driver;
    wefti_exchange_times times;
    int64_t sum, raw[R];
    int silent;  /* a member about whom nobody says anything, ALL, or -1 */
    bool late;   /* messages have a deadline */
    int counted; /* in the last finish */
} method;

static weft_ctx *ctx;
static int stage = STAGE;
static bool own_answers, here_only;

/* What rank `from` says about `member`. */
static int64_t word(int64_t step, int from, int member) {
    return 10000 * step + 100 * from + member;
}

static int64_t bytes_of(const void *self, const wefti_round *round, int sender,
                        int member) {
    const method *m = self;
    (void)sender;
    if (member == m->silent || m->silent == ALL) return 0;
    return round->kinds[round->number] ? MESSAGE : PAYLOAD;
}

static weft_status encode(void *self, const wefti_round *round, int member,
                          unsigned char *out) {
    method *m = self;
    int64_t x = word(round->step, round->party.me, member);
    memcpy(out, &x, sizeof x);
    fake_note(&m->fake, "E%d", member);
    return WEFT_OK;
}

static const void *raw(void *self, const wefti_round *round, int member) {
    method *m = self;
    (void)round;
    return &m->raw[member];
}

static weft_status add(void *self, const wefti_round *round, int member,
                       const unsigned char *in) {
    method *m = self;
    int64_t x;
    memcpy(&x, in, sizeof x);
    if (round->number == 0 && round->counted == 0) m->sum = 0;
    m->sum += x;
    /* where nobody waits, a rank's own message may have been left out: methods use round->x */
    if (m->late && member == round->party.me)
        fake_note(&m->fake, "A%d", member);
    else
        fake_note(&m->fake, "A%d=%lld", member, (long long)x);
    return WEFT_OK;
}

static weft_status finish(void *self, const wefti_round *round, unsigned char *answer) {
    method *m = self;
    m->counted = round->counted;
    fake_note(&m->fake, "F%d", round->counted);
    if (answer) memcpy(answer, &m->sum, sizeof m->sum);
    return WEFT_OK;
}

static const wefti_driver_ops ops = {bytes_of, encode, raw, add, finish};

static void begin(method *m, int n_buffers, bool inside, double deadline_s) {
    static const int64_t room[WEFTI_DRIVER_ROUNDS] = {R * MESSAGE, MESSAGE};
    static const int64_t inside_room[WEFTI_DRIVER_ROUNDS] = {R * MESSAGE, 0};
    *m = (method){.silent = -1, .late = deadline_s > 0};
    fake_begin(&m->fake, ctx, ME, R);
    wefti_driver_setup setup = {.ctx = ctx,
                                .comm = &m->fake.comm,
                                .ops = &ops,
                                .self = m,
                                .times = &m->times,
                                .stage = stage,
                                .n_buckets = BUCKETS,
                                .n_buffers = n_buffers,
                                .answers_inside = inside,
                                .own_answers = own_answers,
                                .here_only = here_only,
                                .deadline_s = deadline_s,
                                .steps = STEPS};
    assert_ok(ctx, wefti_driver_create(&setup, &m->driver));
    for (int b = 0; b < BUCKETS; b++)
        assert_ok(ctx, wefti_driver_open(m->driver, b, inside ? inside_room : room));
}

static wefti_round round_of(wefti_shape shape, int64_t step) {
    return (wefti_round){.shape = shape,
                         .step = step,
                         .bucket = 1,
                         .kinds = {WEFTI_FRAME_DEMO, WEFTI_FRAME_DEMO_ANSWER},
                         .party = {.n = R, .me = ME}};
}

/* A message of another rank: its head, and one number. */
static void seal(unsigned char *message, int from, wefti_frame_kind kind, int64_t step,
                 int64_t x) {
    memcpy(message + WEFTI_FRAME_BYTES, &x, sizeof x);
    wefti_frame frame = {.kind = kind,
                         .step = step,
                         .bucket = 1,
                         .sender = from,
                         .payload_bytes = PAYLOAD};
    wefti_frame_encode(&frame, message);
}

static void deliver(method *m, int from, int number, int64_t step, int64_t x) {
    unsigned char message[MESSAGE];
    seal(message, from, number ? WEFTI_FRAME_DEMO_ANSWER : WEFTI_FRAME_DEMO, step, x);
    fake_deliver(&m->fake, from, wefti_comm_tag(step, 1, stage + number), message,
                 MESSAGE);
}

static int64_t sent_number(const method *m, int i) {
    int64_t x;
    memcpy(&x, m->fake.sent[i].bytes + WEFTI_FRAME_BYTES, sizeof x);
    return x;
}

/* --- shapes --- */

TEST(all_send_one_message_to_the_next_rank_first_and_add_in_rank_order) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_ALL, 5);
    begin(&m, 2, false, 0);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    assert_log(&m.fake, "E1 S2 S0");
    assert_ptr_equal(m.fake.sent[0].data, m.fake.sent[1].data);
    assert_int_equal(m.fake.sent[0].tag, wefti_comm_tag(5, 1, STAGE));
    wefti_frame sent = {WEFTI_FRAME_DEMO, 5, 1, ME, PAYLOAD};
    assert_ok(ctx, wefti_frame_check(ctx, &sent, m.fake.sent[0].bytes, MESSAGE));
    deliver(&m, 0, 0, 5, 7);
    deliver(&m, 2, 0, 5, 9);
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    /* this rank's own message counts like the others, in its place */
    assert_log(&m.fake, "R0 A0=7 L0 A1=50101 R2 A2=9 L2 F3");
    wefti_driver_destroy(m.driver);
}

TEST(what_is_held_together_is_released_after_finish) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_ALL, 5);
    round.together = true;
    begin(&m, 1, false, 0);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    deliver(&m, 0, 0, 5, 7);
    deliver(&m, 2, 0, 5, 9);
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    assert_log(&m.fake, "E1 S2 S0 R0 A0=7 A1=50101 R2 A2=9 F3 L0 L2");
    wefti_driver_destroy(m.driver);
}

/* Rank 2 is a learner up to step 5. A replicator hears it from that step on; a mixer a step later,
 * because what it sends depends on the step before. */
TEST(a_guest_is_silent_until_its_own_first_step) {
    static const struct {
        int stage;
        int64_t step;
        const char *log;
    } cases[] = {{STAGE, 4, "E1 S2 S0 R0 A0=7 L0 A1=40101 F2"},
                 {STAGE, 5, "E1 S2 S0 R0 A0=7 L0 A1=50101 R2 A2=9 L2 F3"},
                 {WEFTI_MIXER_STAGE, 5, "E1 S2 S0 R0 A0=7 L0 A1=50101 F2"},
                 {WEFTI_MIXER_STAGE, 6, "E1 S2 S0 R0 A0=7 L0 A1=60101 R2 A2=9 L2 F3"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        method m;
        wefti_round round = round_of(WEFTI_SHAPE_ALL, cases[i].step);
        stage = cases[i].stage;
        begin(&m, 2, false, 0);
        m.fake.comm.n_learners = 1;
        m.fake.comm.learner_until = 5;
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        deliver(&m, 0, 0, cases[i].step, 7);
        deliver(&m, 2, 0, cases[i].step, 9);
        assert_ok(ctx, wefti_driver_receive(m.driver, &round));
        assert_log(&m.fake, cases[i].log);
        wefti_driver_destroy(m.driver);
    }
    stage = STAGE;
}

TEST(each_member_gets_what_is_said_about_it_alone) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_EACH, 5);
    begin(&m, 2, false, 0);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    assert_log(&m.fake, "E2 S2 E0 S0 E1"); /* itself last: the others wait */
    assert_int_equal(sent_number(&m, 0), word(5, ME, 2));
    assert_int_equal(sent_number(&m, 1), word(5, ME, 0));
    int64_t mine;
    memcpy(&mine, wefti_driver_sent(m.driver, &round, ME), sizeof mine);
    assert_int_equal(mine, word(5, ME, ME));
    wefti_driver_destroy(m.driver);
}

TEST(an_owner_adds_what_all_say_about_it_and_answers_all) {
    for (int inside = 0; inside < 2; inside++) {
        method m;
        wefti_round round = round_of(WEFTI_SHAPE_OWNER, 5);
        (void)state;
        begin(&m, 2, inside > 0, 0);
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        assert_log(&m.fake, "E2 S2 E0 S0 E1");
        deliver(&m, 0, 0, 5, 1000);
        deliver(&m, 2, 0, 5, 3000);
        assert_ok(ctx, wefti_driver_answer(m.driver, &round));
        assert_log(&m.fake, "R0 A0=1000 L0 A1=50101 R2 A2=3000 L2 F3 S2 S0");
        assert_int_equal(sent_number(&m, 2), 54101);
        assert_int_equal(m.fake.sent[2].tag, wefti_comm_tag(5, 1, STAGE + 1));
        assert_ptr_equal(m.fake.sent[2].data, m.fake.sent[3].data);
        /* what was said about others is still on its way: the answer lies elsewhere */
        assert_ptr_not_equal(m.fake.sent[2].data, m.fake.sent[0].data);
        assert_ptr_not_equal(m.fake.sent[2].data, m.fake.sent[1].data);
        deliver(&m, 0, 1, 5, 11);
        deliver(&m, 2, 1, 5, 33);
        assert_ok(ctx, wefti_driver_receive(m.driver, &round));
        assert_log(&m.fake, "R0 A0=11 L0 A1=54101 R2 A2=33 L2 F3");
        wefti_driver_destroy(m.driver);
    }
}

/* What is asked for when a message may be lost: P a part that others may combine, K a message
 * that all have got alike, that only its sender could make, or that is meant for this rank. None
 * has come. */
static weft_status note_part(wefti_comm *comm, int peer, int64_t tag, const void *data,
                             int64_t n_bytes) {
    assert_true(tag >= 0 && data && n_bytes > 0);
    fake_note((fake_comm *)comm, "P%d", peer);
    return WEFT_OK;
}

static weft_status note_piece(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                              wefti_piece_kind kind, wefti_received *out) {
    static const char *const kinds[] = {"same", "alone", "own"};
    assert_true(tag >= 0 && n_bytes > 0);
    fake_note((fake_comm *)comm, "K%d:%s", peer, kinds[kind]);
    *out = (wefti_received){NULL, 1};
    return WEFT_OK;
}

/* Rank 2 is a learner up to step `until`. */
TEST(whether_others_may_stand_for_a_lost_member_is_said_with_each_message) {
    static const struct {
        wefti_shape shape;
        bool own_answers, here_only;
        int64_t until;
        const char *sends, *answers, *receives; /* NULL: not played */
    } cases[] = {
        {WEFTI_SHAPE_ALL, false, false, 0, "E1 S2 S0", NULL,
         "K0:same A1=50101 K2:same F1"},
        {WEFTI_SHAPE_ALL, false, true, 0, "E1 S2 S0", NULL, "K0:own A1=50101 K2:own F1"},
        {WEFTI_SHAPE_OWNER, false, false, 0, "E2 P2 E0 P0 E1",
         "K0:own A1=50101 K2:own F1 S2 S0", NULL},
        {WEFTI_SHAPE_OWNER, false, true, 0, "E2 S2 E0 S0 E1",
         "K0:own A1=50101 K2:own F1 S2 S0", "K0:own A1=50101 K2:own F1"},
        {WEFTI_SHAPE_OWNER, true, false, 0, "E2 S2 E0 S0 E1",
         "K0:same A1=50101 K2:same F1 S2 S0", "K0:alone A1=50101 K2:alone F1"},
        {WEFTI_SHAPE_OWNER, false, true, 6, "E2 S2 E0 S0 E1", "K0:own A1=50101 F1 S2 S0",
         "K0:own A1=50101 K2:own F1"},
        {WEFTI_SHAPE_OWNER, true, false, 6, "E2 S2 E0 S0 E1", "K0:same A1=50101 F1 S2 S0",
         "K0:alone A1=50101 F1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        method m;
        wefti_round round = round_of(cases[i].shape, 5);
        own_answers = cases[i].own_answers;
        here_only = cases[i].here_only;
        begin(&m, 2, false, 0);
        wefti_comm_ops asks = fake_ops;
        asks.send_part = note_part;
        asks.receive_piece = note_piece;
        m.fake.comm.ops = &asks;
        m.fake.comm.n_learners = cases[i].until > 0;
        m.fake.comm.learner_until = cases[i].until;
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        assert_log(&m.fake, cases[i].sends);
        if (cases[i].answers) assert_ok(ctx, wefti_driver_answer(m.driver, &round));
        if (cases[i].answers) assert_log(&m.fake, cases[i].answers);
        if (cases[i].receives) assert_ok(ctx, wefti_driver_receive(m.driver, &round));
        if (cases[i].receives) assert_log(&m.fake, cases[i].receives);
        wefti_driver_destroy(m.driver);
    }
    own_answers = here_only = false;
}

TEST(nothing_is_sent_or_counted_where_nothing_is_said) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_EACH, 5);
    begin(&m, 1, false, 0);
    m.silent = 2;
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    deliver(&m, 0, 0, 5, 7);
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    assert_log(&m.fake, "E0 S0 E1 R0 A0=7 L0 A1=50101 F2");
    wefti_driver_destroy(m.driver);
}

TEST(a_round_in_which_nobody_counts_is_not_finished) {
    method m;
    begin(&m, 1, false, 0);
    m.silent = ALL;
    m.counted = -1;
    wefti_round round = round_of(WEFTI_SHAPE_EACH, 5);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    assert_int_equal(m.counted, -1);
    wefti_driver_destroy(m.driver);
}

/* Messages without a head lie in the method's own memory. */
TEST(raw_numbers_are_sent_from_where_they_lie) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_EACH, 5);
    round.kinds[0] = round.kinds[1] = WEFTI_FRAME_NONE;
    begin(&m, 1, false, 0);
    for (int i = 0; i < R; i++) m.raw[i] = 40 + i;
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    assert_ptr_equal(m.fake.sent[0].data, &m.raw[2]);
    assert_ptr_equal(m.fake.sent[1].data, &m.raw[0]);
    int64_t theirs[] = {7, 9}, tag = wefti_comm_tag(5, 1, STAGE);
    fake_deliver(&m.fake, 0, tag, &theirs[0], PAYLOAD);
    fake_deliver(&m.fake, 2, tag, &theirs[1], PAYLOAD);
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    assert_log(&m.fake, "S2 S0 R0 A0=7 L0 A1=41 R2 A2=9 L2 F3");
    wefti_driver_destroy(m.driver);
}

/* Members 0 and 1 of a party are ranks 1 and 2; what goes to all goes to other targets. */
TEST(members_of_a_party_have_ranks_of_their_own) {
    static const int members[] = {1, 2}, targets[] = {0, 2};
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_ALL, 5);
    round.party = (wefti_party){
        .n = 2, .me = 0, .members = members, .n_targets = 2, .targets = targets};
    begin(&m, 1, false, 0);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    assert_log(&m.fake, "E0 S2 S0");
    deliver(&m, 2, 0, 5, 9);
    assert_ok(ctx, wefti_driver_receive(m.driver, &round));
    assert_log(&m.fake, "A0=50000 R2 A1=9 L2 F2");
    wefti_driver_destroy(m.driver);
}

/* --- buffers --- */

TEST(a_buffer_is_written_again_when_all_have_read_it) {
    method m;
    begin(&m, 2, false, 0);
    for (int64_t step = 0; step < 4; step++) {
        wefti_round round = round_of(WEFTI_SHAPE_ALL, step);
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        /* two are under way; the third waits for the first, before it is encoded */
        assert_log(&m.fake, step < 2 ? "E1 S2 S0" : "W E1 S2 S0");
        if (step >= 2)
            assert_int_equal(m.fake.awaited, wefti_comm_tag(step - 2, 1, STAGE));
    }
    assert_ptr_equal(m.fake.sent[0].data, m.fake.sent[4].data);
    assert_ptr_not_equal(m.fake.sent[0].data, m.fake.sent[2].data);
    /* another bucket has buffers of its own */
    wefti_round other = round_of(WEFTI_SHAPE_ALL, 4);
    other.bucket = 0;
    assert_ok(ctx, wefti_driver_send(m.driver, &other));
    assert_log(&m.fake, "E1 S2 S0");
    assert_ok(ctx, wefti_driver_await(m.driver, 1, 0));
    assert_log(&m.fake, "W W");
    assert_ok(ctx, wefti_driver_await(m.driver, 1, 0)); /* they are this rank's own now */
    assert_log(&m.fake, "");
    wefti_driver_destroy(m.driver);
}

/* An answer inside the first round's buffer has readers too. */
TEST(an_answer_inside_is_waited_for_as_well) {
    method m;
    wefti_round round = round_of(WEFTI_SHAPE_OWNER, 0), again = round;
    again.step = 1;
    begin(&m, 1, true, 0);
    assert_ok(ctx, wefti_driver_send(m.driver, &round));
    deliver(&m, 0, 0, 0, 1);
    deliver(&m, 2, 0, 0, 2);
    assert_ok(ctx, wefti_driver_answer(m.driver, &round));
    m.fake.log[0] = '\0';
    assert_ok(ctx, wefti_driver_send(m.driver, &again));
    assert_log(&m.fake, "W W E2 S2 E0 S0 E1");
    assert_int_equal(m.fake.awaited, wefti_comm_tag(0, 1, STAGE + 1));
    wefti_driver_destroy(m.driver);
}

/* --- deadlines --- */

/* With a deadline the tag is the number of the message, not the step. */
static void deliver_late(method *m, int from, int64_t number, int64_t step, int64_t x) {
    unsigned char message[MESSAGE];
    seal(message, from, WEFTI_FRAME_DEMO, step, x);
    fake_deliver(&m->fake, from, wefti_comm_tag(number, 1, STAGE + WEFTI_DRIVER_ROUNDS),
                 message, MESSAGE);
}

TEST(a_late_message_does_not_count_and_is_dropped_when_it_comes) {
    method m;
    wefti_round first = round_of(WEFTI_SHAPE_ALL, 3),
                second = round_of(WEFTI_SHAPE_ALL, 4);
    begin(&m, 2, false, 1e-9);
    assert_ok(ctx, wefti_driver_send(m.driver, &first));
    deliver_late(&m, 0, 0, 3, 7);
    assert_ok(ctx, wefti_driver_receive(m.driver, &first));
    assert_log(&m.fake, "E1 S2 S0 R0 A0=7 L0 A1 -2 F2");
    assert_int_equal(m.counted, 2);
    assert_int_equal(m.times.late, 1);
    /* now it comes, and the next one behind it: only that one is added */
    deliver_late(&m, 2, 0, 3, 8);
    deliver_late(&m, 2, 1, 4, 9);
    deliver_late(&m, 0, 1, 4, 10);
    assert_ok(ctx, wefti_driver_send(m.driver, &second));
    assert_ok(ctx, wefti_driver_receive(m.driver, &second));
    assert_log(&m.fake, "E1 S2 S0 R2 L2 R2 R0 A0=10 L0 A1 A2=9 L2 F3");
    assert_int_equal(m.times.late, 1);
    wefti_driver_destroy(m.driver);
}

/* The sender of late messages does not wait either: it takes a buffer that nobody reads, and
 * leaves a message out when there is none. */
TEST(buffers_that_are_still_read_are_left_alone) {
    method m;
    begin(&m, 2, false, 1e-9);
    m.fake.holds_all = true;
    for (int64_t step = 0; step < 2; step++) {
        wefti_round round = round_of(WEFTI_SHAPE_ALL, step);
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        assert_log(&m.fake, "E1 S2 S0");
    }
    assert_ptr_not_equal(m.fake.sent[0].data, m.fake.sent[2].data);
    wefti_round third = round_of(WEFTI_SHAPE_ALL, 2);
    assert_ok(ctx, wefti_driver_send(m.driver, &third));
    assert_log(&m.fake,
               ""); /* not even encoded: nothing is lost from the method's state */
    m.fake.holds_all = false;
    third.step = 3;
    assert_ok(ctx, wefti_driver_send(m.driver, &third));
    assert_log(&m.fake, "E1 S2 S0");
    /* the number of a message, not its step, is in the tag: none was left out */
    assert_int_equal(m.fake.sent[4].tag,
                     wefti_comm_tag(2, 1, STAGE + WEFTI_DRIVER_ROUNDS));
    wefti_driver_destroy(m.driver);
}

/* --- what peers may send --- */

TEST(a_message_of_another_step_kind_or_sender_is_refused) {
    for (int fault = 0; fault < 4; fault++) {
        method m;
        unsigned char message[MESSAGE];
        wefti_round round = round_of(WEFTI_SHAPE_ALL, 5);
        begin(&m, 1, false, 0);
        assert_ok(ctx, wefti_driver_send(m.driver, &round));
        seal(message, fault == 0 ? 2 : 0,
             fault == 1 ? WEFTI_FRAME_TOPK : WEFTI_FRAME_DEMO, fault == 2 ? 6 : 5, 7);
        if (fault == 3) message[MESSAGE - 1] ^= 1;
        fake_deliver(&m.fake, 0, wefti_comm_tag(5, 1, STAGE), message, MESSAGE);
        assert_int_equal(wefti_driver_receive(m.driver, &round), WEFT_ERR_WIRE);
        assert_log(&m.fake, "E1 S2 S0 R0"); /* nothing of it was added */
        weft_ctx_clear(ctx);
        wefti_driver_destroy(m.driver);
    }
}

TEST(times_of_exchanges_that_overlap_are_counted_once) {
    wefti_exchange_times t = {.exchange_s = 0};
    wefti_comm comm = {.arrival_s = 10};
    wefti_exchange_note(&t, &comm, 4, 9); /* 4 to 10, waited for from 9 on */
    assert_true(t.exchange_s == 6 && t.waited_s == 1 && t.covered_s == 10);
    comm.arrival_s = 12;
    wefti_exchange_note(&t, &comm, 6, 12); /* 6 to 12: only 10 to 12 is new */
    assert_true(t.exchange_s == 8 && t.waited_s == 1 && t.covered_s == 12);
    comm.arrival_s = 11;
    wefti_exchange_note(&t, &comm, 5, 11.5); /* inside what is counted */
    assert_true(t.exchange_s == 8 && t.waited_s == 1 && t.covered_s == 12);
}

static int ctx_start(void **state) { return weft_ctx_create(&ctx) == WEFT_OK ? 0 : -1; }

static int ctx_stop(void **state) { return ctx_end(ctx); }

int main(void) { return check_run(ctx_start, ctx_stop); }
