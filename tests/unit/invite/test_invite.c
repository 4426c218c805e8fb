/* SPDX-License-Identifier: MIT */
/* An invitation on this machine: who has the code gets the run's files, and nobody else anything;
 * not who is silent, guesses, listens, repeats, or sits in the middle. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/invite.h>
#include <weft/version.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "check.h"
#include "invite/bundle.h"
#include "invite/sealed.h"
#include "net/socket.h"

enum { LIMIT = 10 << 20, TEXT_BYTES = 200000 };
static const char key[] =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

typedef struct house {
    weft_ctx *ctx, *joiner;
    weft_invite *invitation;
    weft_config *config;
    char lines[4096];
} house;

static void note_line(void *user, weft_log_level level, const char *line) {
    house *h = user;
    size_t n = strlen(h->lines);
    (void)level;
    snprintf(h->lines + n, sizeof h->lines - n, "%s\n", line);
}

static void write_file(const char *path, const void *data, size_t n, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    close(fd);
}

static void begin_with(house *h, const char *data, int64_t most_bytes) {
    static char text[TEXT_BYTES];
    memset(h, 0, sizeof *h);
    assert_int_equal(room_begin(&h->ctx), 0);
    assert_int_equal(ctx_begin(&h->joiner), 0);
    weft_ctx_set_sink(h->ctx, note_line, h);
    for (int i = 0; i < TEXT_BYTES; i++) text[i] = (char)('a' + (i % 23) * (i % 29) % 25);
    write_file("room/key", key, strlen(key), 0600);
    write_file("room/a b.txt", text, sizeof text, 0644);
    write_file("room/empty.txt", "", 0, 0644);
    assert_ok(h->ctx, wefti_file_mkdirs(h->ctx, "room/start"));
    write_file("room/start/config.json", "{}", 2, 0644);
    write_file("room/start/words", "x", 1, 0644);
    assert_ok(h->ctx, weft_config_create(h->ctx, &h->config));
    assert_ok(h->ctx, weft_config_set(h->ctx, h->config, data));
    assert_ok(h->ctx, weft_config_set(h->ctx, h->config, "model.init=room/start"));
    assert_ok(h->ctx, weft_config_set(h->ctx, h->config, "model.init_std=0.5"));
    assert_ok(h->ctx, weft_config_set(h->ctx, h->config, "mesh.key=room/key"));
    weft_invite_setup setup = {.struct_size = sizeof setup,
                               .run_port = 4711,
                               .key = "room/key",
                               .config = h->config,
                               .most_bytes = most_bytes};
    assert_ok(h->ctx, weft_invite_open(h->ctx, &setup, &h->invitation));
}
static const char two_files[] = "data.path=[\"room/a b.txt\", room/empty.txt]";
static void begin(house *h) { begin_with(h, two_files, LIMIT); }

static void end(house *h) {
    weft_invite_close(h->invitation);
    weft_config_destroy(h->ctx, h->config);
    assert_int_equal(ctx_end(h->joiner), 0);
    assert_int_equal(ctx_end(h->ctx), 0);
}

static weft_status enter_at(house *h, int port, const char *code, int64_t most_bytes) {
    char host[32], where[64] = "";
    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    weft_invite_request request = {.struct_size = sizeof request,
                                   .code = code,
                                   .host = host,
                                   .folder = "room/in",
                                   .most_bytes = most_bytes};
    weft_ctx_clear(h->joiner);
    assert_ok(h->ctx, wefti_file_remove_tree(h->ctx, "room/in"));
    weft_status status = weft_invite_accept(h->joiner, &request, where, sizeof where);
    if (status == WEFT_OK) assert_string_equal(where, "127.0.0.1:4711");
    return status;
}
static weft_status enter(house *h, const char *code) {
    return enter_at(h, weft_invite_port(h->invitation), code, LIMIT);
}

/* The same channel, another secret. */
static const char *wrong(const house *h) {
    static char code[WEFT_INVITE_CODE_BYTES];
    snprintf(code, sizeof code, "%s", weft_invite_code(h->invitation));
    code[4] = code[4] == '7' ? '8' : '7';
    return code;
}

static void same_file(house *h, const char *path, const char *other) {
    char *a, *b;
    int64_t n, m;
    assert_ok(h->ctx, wefti_file_read(h->ctx, path, LIMIT, &a, &n));
    assert_ok(h->ctx, wefti_file_read(h->ctx, other, LIMIT, &b, &m));
    assert_int_equal(n, m);
    assert_memory_equal(a, b, (size_t)n);
    WEFTI_FREE(h->ctx, a, b);
}

TEST(who_has_the_code_gets_files_key_and_configuration) {
    house h;
    struct stat info;
    weft_config *c;
    char typed[40], *text;
    int64_t n;
    begin(&h);
    snprintf(typed, sizeof typed, " %s",
             weft_invite_code(h.invitation)); /* as people type it */
    for (char *at = typed; *at; at++) *at = (char)(*at >= 'A' ? *at | 32 : *at);
    assert_ok(h.joiner, enter(&h, typed));
    same_file(&h, "room/a b.txt", "room/in/data.path-0/a_b.txt");
    same_file(&h, "room/empty.txt", "room/in/data.path-1/empty.txt");
    same_file(&h, "room/start/words", "room/in/model.init-0/words");
    assert_ok(h.ctx, wefti_file_read(h.ctx, "room/in/run.key", 100, &text, &n));
    assert_memory_equal(text, key, strlen(key));
    wefti_free(h.ctx, text);
    assert_int_equal(stat("room/in/run.key", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_ok(h.ctx, weft_config_create(h.ctx, &c));
    assert_ok(h.ctx, weft_config_load(h.ctx, c, "room/in/run.yaml"));
    assert_int_equal(c->data.path.n, 0);
    assert_string_equal(c->model.init, "");
    assert_true(c->model.init_std == 0.5);
    assert_ok(h.ctx, weft_config_load(h.ctx, c, "room/in/here.yaml"));
    assert_int_equal(c->data.path.n, 2);
    assert_string_equal(c->data.path.items[0], "room/in/data.path-0/a_b.txt");
    assert_string_equal(c->model.init, "room/in/model.init-0");
    assert_string_equal(c->mesh.key, "room/in/run.key");
    assert_string_equal(c->run.folder, "room/in/run");
    weft_config_destroy(h.ctx, c);
    assert_ok(h.joiner,
              enter(&h, weft_invite_code(h.invitation))); /* and who comes next */
    end(&h);
}

/* What signs an address is given to nobody; half a list is another text. */
TEST(newcomers_fetch_open_addresses_themselves) {
    static const struct {
        const char *data, *shown;
    } not_given[] = {
        {"data.path=[https://h/a.txt, room/empty.txt]", "https://h/a.txt,"},
        {"data.path=[https://h/a.txt, \"https://h/b?sig=x\"]", "https://h/a.txt,"},
        {"data.path=https://h/b?sig=x", "https://h/b?...,"},
        {"data.path=https://h/b?...", "https://h/b?...,"}};
    house h;
    weft_config *c;
    begin_with(&h, "data.path=[https://h/a.txt, s3://b/a.bin]", LIMIT);
    assert_ok(h.joiner, enter(&h, weft_invite_code(h.invitation)));
    assert_ok(h.ctx, weft_config_create(h.ctx, &c));
    assert_ok(h.ctx, weft_config_load(h.ctx, c, "room/in/run.yaml"));
    assert_ok(h.ctx, weft_config_load(h.ctx, c, "room/in/here.yaml"));
    assert_int_equal(c->data.path.n, 2);
    assert_string_equal(c->data.path.items[1], "s3://b/a.bin");
    weft_config_destroy(h.ctx, c);
    end(&h);
    for (size_t i = 0; i < sizeof not_given / sizeof not_given[0]; i++) {
        begin_with(&h, not_given[i].data, LIMIT);
        assert_int_equal(enter(&h, weft_invite_code(h.invitation)), WEFT_ERR_FILE);
        const char *said = weft_ctx_message(h.joiner);
        if (!strstr(said, not_given[i].shown) ||
            !strstr(said, "by data.path=FILE, or the whole address"))
            fail_msg("%s", said);
        end(&h);
    }
}

TEST(a_limit_on_either_side_keeps_the_files) {
    house h;
    begin(&h);
    assert_fails(
        h.joiner,
        enter_at(&h, weft_invite_port(h.invitation), weft_invite_code(h.invitation), 99),
        WEFT_ERR_FILE, "the run's files have 200003 bytes, more than the 99");
    assert_int_equal(access("room/in", F_OK), -1);
    assert_true(strlen(weft_invite_host(h.invitation)) > 0);
    end(&h);
    begin_with(&h, two_files, 98);
    assert_fails(h.joiner, enter(&h, weft_invite_code(h.invitation)), WEFT_ERR_FILE,
                 "more than the 98");
    end(&h);
}

TEST(three_wrong_codes_close_the_invitation) {
    house h;
    begin(&h);
    assert_fails(h.joiner, enter(&h, "nonsense"), WEFT_ERR_ARGUMENT, "is no code");
    assert_fails(h.joiner, enter(&h, wrong(&h)), WEFT_ERR_PEER,
                 "not the run's code; the invitation closes after 2 more wrong ones");
    assert_fails(h.joiner, enter(&h, wrong(&h)), WEFT_ERR_PEER, "after 1 more wrong one");
    assert_ok(h.joiner, enter(&h, weft_invite_code(h.invitation)));
    assert_fails(h.joiner, enter(&h, wrong(&h)), WEFT_ERR_PEER, "invitation is closed");
    assert_fails(
        h.joiner, enter(&h, weft_invite_code(h.invitation)), WEFT_ERR_PEER,
        "the run's invitation is closed, because it was given three wrong codes");
    assert_non_null(
        strstr(h.lines, "gave a wrong code; the invitation closes after 2 more"));
    assert_non_null(strstr(h.lines, "three wrong codes, the last one by somebody at"));
    end(&h);
}

static int call(const house *h) {
    int fd = wefti_socket_connect(NULL, "127.0.0.1", weft_invite_port(h->invitation),
                                  wefti_now_s() + 5);
    assert_true(fd >= 0);
    return fd;
}

/* Says hello with a code, and hears the invitation's share. */
static int greet(const house *h, const char *text, wefti_exchange *e) {
    unsigned char card[WEFTI_CARD_BYTES], answer[WEFTI_RULING_BYTES + WEFTI_CPACE_POINT];
    wefti_code code;
    assert_true(wefti_code_read(text, &code));
    wefti_hello hello = {.version = WEFTI_MEETING_VERSION, .channel = code.channel};
    assert_true(wefti_exchange_begin(e, &code, NULL));
    memcpy(hello.session, e->session, sizeof hello.session);
    memcpy(hello.share, e->newcomer.share, sizeof hello.share);
    wefti_hello_write(&hello, card);
    int fd = call(h);
    assert_int_equal(send(fd, card, sizeof card, MSG_NOSIGNAL), sizeof card);
    (void)fcntl(fd, F_SETFL, 0);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    memcpy(e->host.share, answer + WEFTI_RULING_BYTES, sizeof e->host.share);
    assert_true(wefti_exchange_meet(e));
    return fd;
}

/* Sends a proof whose wish nobody can read; the verdict, or -1: hung up. */
static int prove(int fd, const wefti_exchange *e) {
    unsigned char proof[WEFTI_PROOF_BYTES] = {0}, answer[WEFTI_RULING_BYTES];
    wefti_judgement j;
    memcpy(proof, e->tag, sizeof e->tag);
    bool heard = send(fd, proof, sizeof proof, MSG_NOSIGNAL) == sizeof proof &&
                 recv(fd, answer, sizeof answer, MSG_WAITALL) == sizeof answer;
    close(fd);
    return heard && wefti_judgement_read(answer, &j) ? (int)j.verdict : -1;
}

/* Silent ones before the hello, and after it: of those none costs a try. */
TEST(strangers_who_are_silent_keep_nobody_out) {
    enum { SILENT = 80, GREET = 40 };
    house h;
    wefti_exchange e;
    int fds[SILENT + GREET], n = 0;
    begin(&h);
    for (; n < SILENT; n++) fds[n] = call(&h);
    for (; n < SILENT + GREET; n++) fds[n] = greet(&h, wrong(&h), &e);
    double begin_s = wefti_now_s();
    assert_ok(h.joiner, enter(&h, weft_invite_code(h.invitation)));
    assert_true(wefti_now_s() - begin_s < 2); /* a stranger's deadline is five seconds */
    while (n > 0) close(fds[--n]);
    assert_null(strstr(h.lines, "wrong code"));
    end(&h);
}

/* More strangers say hello than there are places, between the hello and the proof of one whose
 * code can be told from theirs only by its proof: it is not the first to go. */
TEST(who_takes_its_time_among_many_hellos_is_heard_now_and_then) {
    enum { GREET = 40, TRIES = 30 };
    house h;
    wefti_exchange mine, e;
    int verdict = -1;
    begin(&h);
    for (int i = 0; i < TRIES && verdict < 0; i++) {
        int fds[GREET], fd = greet(&h, wrong(&h), &mine);
        for (int k = 0; k < GREET; k++) fds[k] = greet(&h, wrong(&h), &e);
        verdict = prove(fd, &mine);
        for (int k = 0; k < GREET; k++) close(fds[k]);
    }
    assert_int_equal(verdict, WEFTI_RULING_WRONG);
    end(&h);
}

/* As many as there are places make their guesses at once: three are judged. */
TEST(guesses_made_at_once_are_three) {
    enum { GUESSES = 30 };
    house h;
    wefti_exchange e[GUESSES + 1];
    int fds[GUESSES + 1];
    begin(&h);
    for (int i = 0; i < GUESSES; i++) fds[i] = greet(&h, wrong(&h), &e[i]);
    fds[GUESSES] = greet(&h, weft_invite_code(h.invitation), &e[GUESSES]);
    for (int i = 0; i <= GUESSES; i++)
        assert_int_equal(prove(fds[i], &e[i]),
                         i < 2 ? WEFTI_RULING_WRONG : WEFTI_RULING_CLOSED);
    end(&h);
}

/* --- somebody between --- */

typedef struct between {
    int listener, port, invite_port;
    size_t change_at; /* of what the invitation says; 0: nothing */
    int cuts;         /* so many connections end before the proof is there */
    unsigned char said[1024], heard[1 << 20];
    size_t n_said, n_heard;
    pthread_t thread;
} between;

static size_t carry(int from, int to, unsigned char *kept, size_t *n, size_t room) {
    unsigned char bytes[4096];
    ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return 0;
    for (ssize_t i = 0; i < got && *n < room; i++) kept[(*n)++] = bytes[i];
    (void)to;
    return (size_t)got;
}

static void *relay(void *user) {
    between *b = user;
    struct pollfd ready = {.fd = b->listener, .events = POLLIN};
    b->n_said = b->n_heard = 0;
    (void)poll(&ready, 1, 10000);
    int in = accept(b->listener, NULL, NULL);
    int out = wefti_socket_connect(NULL, "127.0.0.1", b->invite_port, wefti_now_s() + 5);
    for (bool goes_on = true; goes_on;) {
        struct pollfd both[2] = {{.fd = in, .events = POLLIN},
                                 {.fd = out, .events = POLLIN}};
        size_t said = b->n_said, heard = b->n_heard, n = 0;
        if (poll(both, 2, 10000) <= 0) break;
        if (both[0].revents && b->n_heard > 0 && b->cuts > 0) break;
        if (both[0].revents) {
            n = carry(in, out, b->said, &b->n_said, sizeof b->said);
            goes_on = n && send(out, b->said + said, b->n_said - said, MSG_NOSIGNAL) > 0;
        } else {
            n = carry(out, in, b->heard, &b->n_heard, sizeof b->heard);
            if (b->change_at >= heard && b->change_at < b->n_heard && b->change_at)
                b->heard[b->change_at] ^= 2;
            (void)fcntl(in, F_SETFL, 0);
            goes_on = n &&
                      send(in, b->heard + heard, b->n_heard - heard, MSG_NOSIGNAL) > 0;
        }
    }
    close(in);
    close(out);
    return b->cuts-- > 0 ? relay(b) : NULL;
}

static weft_status enter_between(house *h, between *b, size_t change_at) {
    int cuts = b->cuts;
    memset(b, 0, sizeof *b);
    b->cuts = cuts;
    b->invite_port = weft_invite_port(h->invitation);
    b->change_at = change_at;
    b->listener = wefti_socket_listen(true, 0);
    b->port = wefti_socket_port(b->listener);
    assert_int_equal(pthread_create(&b->thread, NULL, relay, b), 0);
    weft_status status = enter_at(h, b->port, weft_invite_code(h->invitation), LIMIT);
    pthread_join(b->thread, NULL);
    close(b->listener);
    return status;
}

TEST(a_recording_says_nothing_and_opens_nothing) {
    static between b;
    house h;
    unsigned char answer[4096];
    size_t n = 0;
    begin(&h);
    assert_ok(h.joiner, enter_between(&h, &b, 0));
    assert_true(b.n_heard > TEXT_BYTES);
    assert_null(memmem(b.heard, b.n_heard, key, 16));
    assert_null(memmem(b.heard, b.n_heard, "data.path", 9));
    assert_null(memmem(b.said, b.n_said, weft_invite_code(h.invitation) + 3, 4));
    int fd = call(&h);
    (void)fcntl(fd, F_SETFL, 0);
    assert_int_equal(send(fd, b.said, b.n_said, MSG_NOSIGNAL), b.n_said);
    for (ssize_t got; (got = recv(fd, answer + n, sizeof answer - n, 0)) > 0;)
        n += (size_t)got;
    close(fd);
    wefti_judgement j;
    assert_int_equal(n, WEFTI_RULING_BYTES + WEFTI_CPACE_POINT + WEFTI_GREETING_BYTES);
    const unsigned char *greeting = answer + WEFTI_RULING_BYTES + WEFTI_CPACE_POINT;
    assert_true(wefti_judgement_read(greeting, &j));
    assert_int_equal(j.verdict, WEFTI_RULING_WRONG);
    for (size_t i = WEFTI_RULING_BYTES; i < WEFTI_GREETING_BYTES; i++)
        assert_int_equal(greeting[i], 0);
    end(&h);
}

/* It hangs up before the proof is there, as an invitation that makes room for others. */
TEST(who_had_to_make_room_comes_again) {
    static between b;
    house h;
    begin(&h);
    b.cuts = 3;
    assert_ok(h.joiner, enter_between(&h, &b, 0));
    assert_null(strstr(h.lines, "wrong code"));
    end(&h);
}

/* Bytes of the invitation that are changed on their way: the share, its proof, the files. */
TEST(what_is_changed_on_its_way_is_refused) {
    static const struct {
        size_t at;
        const char *sentence;
    } cases[] = {
        {3, "does not answer as `weft up` does"},
        {WEFTI_RULING_BYTES + WEFTI_CPACE_POINT + WEFTI_RULING_BYTES + 3,
         "does not have the code"},
        {WEFTI_RULING_BYTES + WEFTI_CPACE_POINT + WEFTI_GREETING_BYTES + 9,
         "was changed on its way"},
        {WEFTI_RULING_BYTES + WEFTI_CPACE_POINT + WEFTI_GREETING_BYTES + 150000,
         "was changed on its way"},
    };
    static between b;
    house h;
    begin(&h);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(h.joiner, enter_between(&h, &b, cases[i].at), WEFT_ERR_PEER,
                     cases[i].sentence);
        assert_int_equal(access("room/in", F_OK), -1);
    }
    end(&h);
}

/* Who sits in the middle and plays the invitation with a code of its own. */
static void *impostor(void *user) {
    between *b = user;
    unsigned char card[WEFTI_CARD_BYTES], proof[WEFTI_PROOF_BYTES];
    unsigned char answer[WEFTI_RULING_BYTES + WEFTI_CPACE_POINT],
        greeting[WEFTI_GREETING_BYTES] = {0};
    struct pollfd ready = {.fd = b->listener, .events = POLLIN};
    wefti_hello hello;
    wefti_exchange e;
    wefti_code guess;
    (void)poll(&ready, 1, 10000);
    wefti_connection s = wefti_connection_of(accept(b->listener, NULL, NULL));
    double until_s = wefti_now_s() + 10;
    bool fine = wefti_code_read("11-2222-3333", &guess) &&
                wefti_connection_all(&s, card, sizeof card, false, until_s) &&
                wefti_hello_read(card, &hello) &&
                wefti_exchange_begin(&e, &guess, hello.session);
    wefti_judgement go = {WEFTI_MEETING_VERSION, WEFTI_RULING_GO, 3};
    memcpy(e.newcomer.share, hello.share, sizeof hello.share);
    wefti_judgement_write(&go, answer);
    wefti_judgement_write(&go, greeting);
    memcpy(answer + WEFTI_RULING_BYTES, e.host.share, WEFTI_CPACE_POINT);
    fine = fine && wefti_exchange_meet(&e) &&
           wefti_connection_all(&s, answer, sizeof answer, true, until_s) &&
           wefti_connection_all(&s, proof, sizeof proof, false, until_s);
    b->n_said = fine && !wefti_exchange_proves(&e, proof); /* its guess was wrong */
    memcpy(greeting + WEFTI_RULING_BYTES, e.tag, sizeof e.tag);
    (void)wefti_connection_all(&s, greeting, sizeof greeting, true, until_s);
    wefti_connection_close(&s);
    return NULL;
}

TEST(who_plays_the_host_with_another_code_is_found_out) {
    static between b;
    house h;
    begin(&h);
    b.listener = wefti_socket_listen(true, 0);
    b.port = wefti_socket_port(b.listener);
    assert_int_equal(pthread_create(&b.thread, NULL, impostor, &b), 0);
    assert_fails(h.joiner, enter_at(&h, b.port, weft_invite_code(h.invitation), LIMIT),
                 WEFT_ERR_PEER, "does not have the code: it is not the run");
    pthread_join(b.thread, NULL);
    close(b.listener);
    assert_int_equal(b.n_said, 1);
    end(&h);
}

TEST(another_version_or_channel_is_named) {
    static const struct {
        int version, channel;
        wefti_ruling expected;
    } cases[] = {{WEFTI_MEETING_VERSION + 1, 0, WEFTI_RULING_VERSION},
                 {WEFTI_MEETING_VERSION, 1, WEFTI_RULING_CHANNEL}};
    house h;
    wefti_code code;
    begin(&h);
    assert_true(wefti_code_read(weft_invite_code(h.invitation), &code));
    for (int i = 0; i < 2; i++) {
        unsigned char card[WEFTI_CARD_BYTES], answer[WEFTI_RULING_BYTES];
        wefti_judgement j;
        wefti_hello hello = {.version = cases[i].version,
                             .channel = (code.channel + cases[i].channel) %
                                        WEFTI_CHANNELS};
        wefti_hello_write(&hello, card);
        wefti_connection s = wefti_connection_of(call(&h));
        double until_s = wefti_now_s() + 10;
        assert_true(wefti_connection_all(&s, card, sizeof card, true, until_s));
        assert_true(wefti_connection_all(&s, answer, sizeof answer, false, until_s));
        assert_true(wefti_judgement_read(answer, &j));
        assert_int_equal(j.verdict, cases[i].expected);
        wefti_connection_close(&s);
    }
    end(&h);
}

/* A hostile giver: files outside of the folder, too long, unasked. */
TEST(lists_that_leave_the_folder_are_refused) {
    static const char *const files[] = {
        "[[0,0,false,\"../x\",1]]", "[[0,0,false,\".x\",1]]",
        "[[0,0,false,\"\",1]]",     "[[0,0,false,\"x\",-1]]",
        "[[0,0,false,\"x\",101]]",  "[[0,0,false,\"x\",60],[0,1,false,\"y\",60]]",
        "[[0,1,false,\"x\",1]]",    "[[0,0,false,\"x\",1],[0,0,false,\"y\",1]]",
        "[[5,0,false,\"x\",1]]",    "[[-1,0,false,\"x\",1]]",
        "[[2,1,false,\"x\",1]]",    "[[3,0,true,\"x\",1],[2,0,false,\"y\",1]]",
        "[[4,0,false,\"x\",1]]",    "[3]",
        "[[0,0,false,\"x\",1,1]]",  "[[0,9223372036854775807,false,\"x\",1]]",
    };
    weft_ctx *ctx;
    wefti_bundle p;
    wefti_wish wish = {.keys = 15, .most_bytes = 100};
    assert_int_equal(ctx_begin(&ctx), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "{\"version\":\"%s\",\"port\":1,\"key\":\"%s\",\"config\":\"\","
                 "\"missing\":\"\",\"files\":%s}",
                 WEFT_VERSION, key, files[i]);
        weft_status status = wefti_bundle_read(ctx, text, (int64_t)strlen(text), &wish,
                                               &p);
        if (status != WEFT_ERR_PEER) print_error("%s\n", files[i]);
        assert_int_equal(status, WEFT_ERR_PEER);
        wefti_bundle_fini(ctx, &p);
        weft_ctx_clear(ctx);
    }
    assert_int_equal(ctx_end(ctx), 0);
}
