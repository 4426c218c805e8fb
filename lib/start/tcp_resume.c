/* SPDX-License-Identifier: MIT */
/* A connection that has broken goes on by another socket: an address has changed, or the way by
 * which it went is gone. Nothing is lost and nothing comes twice: each side says how much it has
 * read, and the other one sends the rest again (net/resend.h, streams.h draws it).
 *
 *     look: has this end's address gone, is the peer silent -> call -> card -> answer -> go on
 *
 * A relayed connection (relay.h) is asked for at its relay anew, and the card goes to who comes.
 * A process that is called goes on at once; who calls when the answer is there, and passes over
 * what it has read by the old socket meanwhile. If both call, the lower-numbered one's call
 * counts. A connection that a peer has ended, or whose peer was given up, goes on no more. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/machine.h"
#include "net/resend.h"
#include "net/socket.h"
#include "net/window.h"
#include "start/relay.h"
#include "start/tcpstate.h"

static const double look_every_s = 0.1, again_s = 0.2, call_s = 1, answer_s = 5,
                    quiet_s = 0.25, silent_s = 0.7, round_trips = 4;

/* --- what goes on --- */

static void end_recall(connection *c) {
    if (!c->recall) return;
    wefti_tcp_end_recall(c);
    c->recall_s = wefti_now_s();
}

/* It goes on by this socket, whose other end has read n_read bytes; false: impossible. */
static bool go_on(tcp_transport *t, connection *c, wefti_connection stream,
                  int64_t n_read) {
    static const int yes = 1;
    wefti_resend *kept = c->stream.kept;
    double now_s = wefti_now_s();
    if (!wefti_resend_rewind(kept, n_read)) return false;
    stream.kept = kept;
    stream.token = c->stream.token;
    stream.n_read = c->stream.n_read;
    stream.ahead = c->stream.ahead;
    stream.readable = stream.writable = stream.unread = true;
    c->stream.kept = NULL;
    wefti_connection_close(&c->stream);
    c->stream = stream;
    c->resumed_s = c->heard_s = now_s;
    c->resumed_n = stream.n_read;
    c->full_s = 0;
    c->renew = c->called_after = false;
    if (c->pair) c->pair->lame_s = 0;
    c->lame_s = 0;
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &c->unsent, sizeof c->unsent);
    bool is_long = wefti_tcp_round_trip_s(stream.fd) >= WEFTI_LONG_WIRE_S;
    if (c->pair || c->n_more > 0 || is_long) wefti_socket_pace(stream.fd);
    if (!wefti_tcp_watch(t, WEFTI_WATCH_AGAIN, stream.fd, c))
        wefti_connection_close(&c->stream);
    return true;
}

/* --- who is called --- */

/* The connection that the card means; NULL: there is none that it may have. */
static connection *find(tcp_transport *t, const wefti_caller *caller,
                        const wefti_resume_card *card) {
    connection *pair = card->from < t->head.size ? &t->peers[card->from] : NULL;
    if (!pair || card->to != t->head.rank || card->number > pair->n_more ||
        pair->reported || pair->quits)
        return NULL;
    connection *c = wefti_tcp_socket(pair, card->number);
    const wefti_resend *kept = c->stream.kept;
    if (!kept || kept->lost || card->n_read < 0 || card->n_read > kept->end) return NULL;
    return wefti_tls_proves(caller->stream.tls, pair->secret, caller->card,
                            WEFTI_RESUME_SAID_BYTES, card->proof)
               ? c
               : NULL;
}

wefti_caller_fate wefti_tcp_admit_resume(tcp_transport *t, wefti_caller *caller,
                                         const wefti_resume_card *card) {
    unsigned char answer[WEFTI_RESUMED_BYTES];
    connection *c = find(t, caller, card), *pair = c && c->pair ? c->pair : c;
    if (!c)
        wefti_callers_complain(&t->callers, caller->address,
                               "asked to resume a connection that does not exist here");
    bool crossed = c && c->recall && c->recall->stage >= WEFTI_RECALL_SHOWS &&
                   card->from > t->head.rank;
    if (!c || crossed || wefti_socket_is_left(caller->stream.fd))
        return WEFTI_CALLER_GONE; /* it has given up since it called */
    int64_t begin = c->stream.kept->begin,
            from = begin > card->n_read ? begin : card->n_read;
    struct iovec part = {answer, sizeof answer};
    wefti_resumed_write(c->stream.n_read, from, answer);
    if (!wefti_tls_prove(caller->stream.tls, pair->secret, answer,
                         WEFTI_RESUMED_SAID_BYTES, answer + WEFTI_RESUMED_SAID_BYTES) ||
        wefti_connection_write(&caller->stream, &part, 1) != sizeof answer)
        return WEFTI_CALLER_GONE;
    end_recall(c);
    if (!go_on(t, c, caller->stream, from)) return WEFTI_CALLER_GONE;
    if (c == pair) {
        c->address = c->stream.peer;
        wefti_tcp_set_port(
            c, wefti_card_port(t->cards + (size_t)card->from * WEFTI_CARD_BYTES));
    }
    return WEFTI_CALLER_TAKEN;
}

/* --- who calls --- */

static bool has_relay(const wefti_connection *s) {
    return s->relay.ss_family != AF_UNSPEC;
}

static bool begin_call(tcp_transport *t, connection *c, const connection *pair) {
    bool by_relay = has_relay(&c->stream);
    int fd = wefti_socket_begin(by_relay ? &c->stream.relay : &pair->address);
    wefti_recall *r = fd >= 0 ? calloc(1, sizeof *r) : NULL;
    c->recall_s = wefti_now_s();
    c->called_after = c->stream.fd < 0;
    if (fd < 0) return false;
    wefti_connection s = wefti_connection_of(fd);
    if (r) s.tls = t->tls ? wefti_tls_create(t->tls, false) : NULL;
    bool fine = r && (s.tls || !t->tls) &&
                wefti_readiness_watch(&t->readiness, WEFTI_WATCH_NEW, fd,
                                      POLLIN | POLLOUT, &t->recalled);
    if (!fine) wefti_connection_close(&s);
    if (!fine) free(r);
    if (!fine) return false;
    s.peer = pair->address;
    s.relay = c->stream.relay;
    *r = (wefti_recall){.s = s, .since_s = c->recall_s};
    c->recall = r;
    return true;
}

static bool write_card(const tcp_transport *t, const connection *c, int peer) {
    const connection *pair = &t->peers[peer];
    wefti_recall *r = c->recall;
    wefti_resume_card card = {c == pair ? 0 : (int)(c - pair->more) + 1,
                              t->head.rank,
                              peer,
                              c->stream.n_read,
                              {0}};
    r->shown_n = card.n_read;
    wefti_resume_card_write(&card, r->card);
    return wefti_tls_prove(r->s.tls, pair->secret, r->card, WEFTI_RESUME_SAID_BYTES,
                           r->card + WEFTI_RESUME_SAID_BYTES);
}

static bool write_wish(const tcp_transport *t, wefti_recall *r, int peer) {
    wefti_relay_card card = {.kind = WEFTI_RELAY_ASKS,
                             .from = t->head.rank,
                             .to = peer,
                             .port = wefti_socket_port(t->listener)};
    if (!wefti_machine_random(&card.token, sizeof card.token)) return false;
    card.token |= 2;
    wefti_relay_card_write(&card, r->card);
    return true;
}

/* The answer is there: goes on. False: it does not fit. */
static bool take_answer(tcp_transport *t, connection *c, int peer) {
    connection *pair = &t->peers[peer];
    wefti_recall *r = c->recall;
    int64_t n_read, from;
    if (!wefti_resumed_read(r->answer, &n_read, &from) || from < r->shown_n ||
        from > c->stream.n_read ||
        !wefti_tls_proves(r->s.tls, pair->secret, r->answer, WEFTI_RESUMED_SAID_BYTES,
                          r->answer + WEFTI_RESUMED_SAID_BYTES))
        return false;
    wefti_connection s = r->s;
    s.n_skip = c->stream.n_read - from;
    if (!go_on(t, c, s, n_read)) return false;
    r->s = wefti_connection_of(-1);
    for (int i = 1; c == pair && i <= pair->n_more; i++)
        wefti_tcp_socket(pair, i)->renew = true;
    return true;
}

static bool is_connected(const wefti_recall *r, bool *failed) {
    int error = 0;
    socklen_t size = sizeof error;
    struct pollfd one = {.fd = r->s.fd, .events = POLLOUT};
    if (poll(&one, 1, 0) <= 0) return false;
    *failed = getsockopt(r->s.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
    return !*failed;
}

/* Shakes hands with the relay, or with the peer; false: it has failed. */
static bool shake(tcp_transport *t, connection *c, int peer) {
    wefti_recall *r = c->recall;
    bool refused, asks = has_relay(&r->s) && !r->relayed;
    wefti_shake shaken = r->s.tls ? wefti_tls_shake(r->s.tls, &r->s, &refused)
                                  : WEFTI_SHAKE_DONE;
    if (shaken != WEFTI_SHAKE_DONE) return shaken != WEFTI_SHAKE_FAILED;
    r->stage = asks ? WEFTI_RECALL_ASKS : WEFTI_RECALL_SHOWS;
    r->n_card = 0;
    return asks ? write_wish(t, r, peer) : write_card(t, c, peer);
}

/* Whether all of the card has left. */
static bool show(wefti_recall *r) {
    struct iovec part = {r->card + r->n_card, (size_t)(WEFTI_CARD_BYTES - r->n_card)};
    if (part.iov_len > 0) r->n_card += (int)wefti_connection_write(&r->s, &part, 1);
    return r->n_card == WEFTI_CARD_BYTES;
}

/* Asks the relay for the peer; false: it has failed. */
static bool ask(tcp_transport *t, connection *c, int peer) {
    wefti_recall *r = c->recall;
    unsigned char code = 0;
    struct iovec part = {&code, 1};
    if (!show(r) || wefti_connection_read(&r->s, &part, 1) == 0) return true;
    if (code != WEFTI_RELAY_JOINED) return false;
    wefti_connection_bare(&r->s);
    if (t->tls && !(r->s.tls = wefti_tls_create(t->tls, false))) return false;
    r->relayed = true;
    r->stage = WEFTI_RECALL_SHAKES;
    return shake(t, c, peer);
}

/* Goes on with a call as far as its socket is ready; false: it has failed, or is over. */
static bool advance(tcp_transport *t, connection *c, int peer) {
    wefti_recall *r = c->recall;
    bool failed = false;
    wefti_connection_ready(&r->s, POLLIN | POLLOUT);
    if (r->stage == WEFTI_RECALL_CALLS && is_connected(r, &failed))
        r->stage = WEFTI_RECALL_SHAKES;
    if (r->stage == WEFTI_RECALL_SHAKES) failed = !shake(t, c, peer);
    if (r->stage == WEFTI_RECALL_ASKS) failed = failed || !ask(t, c, peer);
    if (r->stage == WEFTI_RECALL_SHOWS && show(r)) r->stage = WEFTI_RECALL_WAITS;
    if (r->stage == WEFTI_RECALL_WAITS) {
        struct iovec part = {r->answer + r->n_answer,
                             (size_t)(WEFTI_RESUMED_BYTES - r->n_answer)};
        r->n_answer += (int)wefti_connection_read(&r->s, &part, 1);
        if (r->n_answer == WEFTI_RESUMED_BYTES) {
            (void)take_answer(t, c, peer);
            return false;
        }
    }
    double most_s = r->stage == WEFTI_RECALL_CALLS ? call_s : answer_s;
    return !failed && r->s.fd >= 0 && wefti_now_s() - r->since_s < most_s;
}

/* --- who looks --- */

/* Whether a socket has to be replaced: its address here has gone, the peer is silent (signs of
 * life come five times a second), or the others of the pair were. */
static bool is_due(const tcp_transport *t, const connection *c, double now_s) {
    const connection *pair = c->pair ? c->pair : c;
    bool signs = c == pair && (t->head.founders > 0 || t->head.entry);
    if (!c->stream.kept || c->stream.kept->lost || pair->reported || pair->quits ||
        c->recall || now_s - c->recall_s < again_s)
        return false;
    if (c->stream.fd < 0) return wefti_tcp_may_resume(c);
    double quiet = now_s - c->heard_s;
    if (c->renew || quiet < quiet_s || c->pair) return c->renew;
    return wefti_socket_has_moved(c->stream.fd) ||
           (signs && quiet > silent_s &&
            quiet > silent_s + round_trips * wefti_tcp_round_trip_s(c->stream.fd));
}

static void look_at(tcp_transport *t, int peer, double now_s, bool slept) {
    connection *pair = &t->peers[peer];
    for (int i = 0; i <= pair->n_more; i++) {
        connection *c = wefti_tcp_socket(pair, i);
        if (slept || c->heard_n != c->stream.n_read) c->heard_s = now_s;
        c->heard_n = c->stream.n_read;
        if (is_due(t, c, now_s)) (void)begin_call(t, c, pair);
    }
}

void wefti_tcp_resume(tcp_transport *t) {
    if (!t->resumes) return;
    double now_s = wefti_now_s();
    bool due = t->cut || now_s - t->looked_s >= look_every_s;
    bool slept = now_s - t->looked_s > silent_s / 2;
    if (!due && !t->recalled) return;
    t->recalled = t->cut = false;
    if (due) t->looked_s = now_s;
    for (int p = 0; p < t->head.size; p++) {
        for (int i = 0; i <= t->peers[p].n_more; i++) {
            connection *c = wefti_tcp_socket(&t->peers[p], i);
            bool over = t->peers[p].reported || t->peers[p].quits;
            if (c->recall && (over || !advance(t, c, p))) end_recall(c);
        }
        if (due) look_at(t, p, now_s, slept);
    }
}
