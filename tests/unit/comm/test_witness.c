/* SPDX-License-Identifier: MIT */
/* A witness at a port: what it answers, to whom, and what it makes of its file. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "net/socket.h"
#include "start/witness.h"
#include "members.h"

static const weft_mesh_security key_a = {.struct_size = sizeof key_a, .key = "wa.key"},
                                key_b = {.key = "wb.key"},
                                other_run = {.key = "wa.key", .run = "two"};

typedef struct station {
    weft_ctx *ctx;
    weft_witness *witness;
    int port, n_lines;
    atomic_bool ends;
    pthread_t thread;
} station;

static void count_words(void *user, weft_log_level level, const char *line) {
    (void)level;
    ((station *)user)->n_lines += strncmp(line, "somebody at ", 12) == 0;
}

static void *answer_all(void *user) {
    station *s = user;
    while (!atomic_load(&s->ends))
        assert_ok(s->ctx, weft_witness_serve(s->ctx, s->witness, 0.02));
    return NULL;
}

static weft_status open_witness(station *s, const char *votes) {
    weft_witness_setup setup = {
        .struct_size = sizeof setup, .port = s->port, .votes = votes, .security = &key_a};
    return weft_witness_open(s->ctx, &setup, &s->witness);
}

static void begin(station *s, const char *votes) {
    *s = (station){.port = free_port()};
    assert_int_equal(ctx_begin(&s->ctx), 0);
    weft_ctx_set_sink(s->ctx, count_words, s);
    assert_ok(s->ctx, open_witness(s, votes));
    assert_int_equal(pthread_create(&s->thread, NULL, answer_all, s), 0);
}

static void end(station *s) {
    atomic_store(&s->ends, true);
    pthread_join(s->thread, NULL);
    weft_witness_close(s->witness);
    assert_int_equal(ctx_end(s->ctx), 0);
}

static void begin_anew(const char *votes) {
    write_key("wa.key", 'a', 0600);
    write_key("wb.key", 'b', 0600);
    unlink(votes);
}

/* n bytes over a connection with a key; 0: there is no answer. */
static int show(int port, const weft_mesh_security *security, unsigned char *bytes,
                size_t n) {
    unsigned char answer = 0;
    double until_s = wefti_now_s() + 10;
    wefti_tls_context *tls = context_of(security);
    wefti_connection s = wefti_connection_of(dial(port));
    (void)fcntl(s.fd, F_SETFL, O_NONBLOCK);
    bool heard = wefti_socket_shake(tls, &s, until_s) == WEFTI_SHAKE_DONE &&
                 wefti_connection_all(&s, bytes, n, true, until_s) &&
                 wefti_connection_all(&s, &answer, 1, false, until_s);
    wefti_connection_close(&s);
    wefti_tls_context_destroy(tls);
    return heard ? answer : 0;
}

static int ask_as(int port, const weft_mesh_security *security, int64_t view,
                  uint64_t claim) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    wefti_witness_card card = {
        .vote = {.run = 7, .chain = 70 + (uint64_t)view, .view = view, .claim = claim},
        .rank = 3,
        .host = "a"};
    wefti_witness_card_write(&card, bytes);
    return show(port, security, bytes, sizeof bytes);
}

static int ask(int port, int64_t view, uint64_t claim) {
    return ask_as(port, &key_a, view, claim);
}

TEST(the_first_half_gets_the_vote_and_keeps_it_over_a_restart) {
    station s;
    begin_anew("first.votes");
    begin(&s, "first.votes");
    assert_int_equal(ask(s.port, 0, 0), WEFTI_WITNESS_IS_HERE);
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_GIVES);
    assert_int_equal(ask(s.port, 1, 12), WEFTI_WITNESS_REFUSES);
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_GIVES);
    assert_int_equal(ask(s.port, 0, 11),
                     WEFTI_WITNESS_REFUSES); /* no view has this number */
    end(&s);
    begin(&s, "first.votes");
    assert_int_equal(weft_witness_runs(s.witness), 1);
    assert_int_equal(ask(s.port, 1, 12), WEFTI_WITNESS_REFUSES);
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_GIVES);
    assert_int_equal(ask(s.port, 2, 12), WEFTI_WITNESS_GIVES);
    end(&s);
    begin(&s, "first.votes");
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_REFUSES); /* the run has gone on */
    end(&s);
}

TEST(who_has_another_key_or_run_is_not_heard) {
    station s;
    begin_anew("key.votes");
    begin(&s, "key.votes");
    assert_int_equal(ask_as(s.port, &key_b, 1, 11), 0);
    assert_int_equal(ask_as(s.port, &other_run, 1, 11), 0);
    assert_int_equal(ask(s.port, 1, 12), WEFTI_WITNESS_GIVES);
    end(&s);
    assert_int_equal(s.n_lines, 1); /* of one address, in a minute */
}

/* Each byte of a card, wrong: it is refused, or it is another claim; the witness lives. */
TEST(cards_that_are_none_get_no_answer) {
    unsigned char good[WEFTI_CARD_BYTES], bytes[WEFTI_CARD_BYTES];
    wefti_witness_card card = {.vote = {7, 71, 1, 11}, .rank = 3, .host = "a"}, read;
    wefti_witness_card_write(&card, good);
    assert_true(wefti_witness_card_read(good, &read));
    assert_memory_equal(&read.vote, &card.vote, sizeof read.vote);
    assert_int_equal(read.rank, 3);
    for (size_t i = 0; i < 8; i++) {
        memcpy(bytes, good, sizeof bytes);
        bytes[i] ^= 0x80;
        assert_false(wefti_witness_card_read(bytes, &read));
    }
    memset(bytes, 0xff, sizeof bytes);
    assert_false(wefti_witness_card_read(bytes, &read));
    memcpy(bytes, good, 44); /* a host's name without end, of control characters */
    memset(bytes + 44, 7, sizeof bytes - 44);
    assert_true(wefti_witness_card_read(bytes, &read));
    assert_int_equal(strlen(read.host), sizeof read.host - 1);
    assert_int_equal(read.host[0], '?');
    station s;
    begin_anew("bytes.votes");
    begin(&s, "bytes.votes");
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(show(s.port, &key_a, bytes, sizeof bytes), 0);
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_GIVES);
    end(&s);
}

static void write_text(const char *path, const char *text, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    close(fd);
}

/* Opens the witness with this file; its sentence, "" if there is none. */
static const char *sentence_of(const char *text, size_t n) {
    static char sentence[1024];
    station s = {.port = free_port()};
    write_text("mend.votes", text, n);
    assert_int_equal(ctx_begin(&s.ctx), 0);
    weft_status status = open_witness(&s, "mend.votes");
    snprintf(sentence, sizeof sentence, "%s", weft_ctx_message(s.ctx));
    assert_int_equal(status == WEFT_OK, sentence[0] == 0);
    weft_witness_close(s.witness);
    assert_int_equal(ctx_end(s.ctx), 0);
    return sentence;
}

#define VOTE "0000000000000007 1 0000000000000047 000000000000000b\n"
#define HEAD "weft-witness 1\n"

TEST(a_file_that_was_changed_is_refused_and_a_torn_line_is_cut_off) {
    static const char *const good[] = {"", "weft-wit", HEAD, HEAD VOTE,
                                       HEAD VOTE "00000000000"};
    static const char *const bad[] = {
        "another file\n",
        "weft-witness 2\n",
        HEAD "\n",
        HEAD "7 1 47 b\n",
        HEAD VOTE VOTE, /* twice */
        HEAD "0000000000000007 0 0000000000000047 000000000000000b\n",
        HEAD "0000000000000007 1 0000000000000047 0000000000000000\n",
        HEAD "0000000000000007 1 0000000000000047 000000000000000b more\n",
        HEAD
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000\n"};
    begin_anew("mend.votes");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_string_equal(sentence_of(good[i], strlen(good[i])), "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!strstr(sentence_of(bad[i], strlen(bad[i])), "mend.votes"))
            fail_msg("file %d is taken", (int)i);
    char all[] = HEAD VOTE; /* any byte of a vote but its end, without which it is torn */
    for (size_t i = sizeof HEAD - 1; i + 2 < sizeof all; i++) {
        all[i] ^= 0x40;
        if (!sentence_of(all, sizeof all - 1)[0])
            fail_msg("byte %d may be changed", (int)i);
        all[i] ^= 0x40;
    }
}

TEST(a_vote_that_can_not_be_stored_is_not_given) {
    station s;
    begin_anew("full.votes");
    begin(&s, "full.votes");
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_cur = 20, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int answer = ask(s.port, 1, 11);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(answer, WEFTI_WITNESS_CAN_NOT);
    assert_int_equal(ask(s.port, 1, 12), WEFTI_WITNESS_GIVES); /* nobody has it */
    end(&s);
    begin(&s, "full.votes"); /* what was written in part is gone */
    assert_int_equal(ask(s.port, 1, 11), WEFTI_WITNESS_REFUSES);
    end(&s);
}
