/* SPDX-License-Identifier: MIT */
/* Coming to a door: looking for it on this network, the exchange, and what it gives.
 *
 *     calls go to the broadcast address of each interface, and of this machine; the address that
 *     an answer comes from is the one by which this machine reaches the run
 *
 * Whoever answers may be a stranger: it learns nothing but whether one guess was right. */
#define _GNU_SOURCE
#include <weft/door.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/stop.h"
#include "door/bundle.h"
#include "door/sealed.h"
#include "net/dial.h"
#include "start/tcp.h"

enum { DOORS = 16, LOOK_MS = 100 };
static const double call_every_s = 0.5, gather_s = 0.15, told_after_s = 3, answer_s = 10,
                    silence_s = 30;

/* The doors to try. */
typedef struct doors {
    wefti_tcp_door list[DOORS];
    uint64_t numbers[DOORS];
    int n, other_version;
} doors;

static weft_status refuse_version(weft_ctx *ctx, int theirs) {
    return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                         "the run's door is of another version of weft (its protocol is "
                         "%d, here %d), expected the same version on both machines",
                         theirs, WEFTI_MEETING_VERSION);
}

/* --- looking for the run --- */

static void call_at(int fd, uint32_t address, const unsigned char *bytes) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
    } to = {.v4 = {.sin_family = AF_INET,
                   .sin_port = htons(WEFT_DOOR_PORT),
                   .sin_addr.s_addr = address}};
    (void)sendto(fd, bytes, WEFTI_CALL_BYTES, MSG_NOSIGNAL, &to.any, sizeof to.v4);
}

static void call_all(int fd, const wefti_call *call) {
    unsigned char bytes[WEFTI_CALL_BYTES];
    struct ifaddrs *all;
    wefti_call_write(call, bytes);
    call_at(fd, htonl(0x7fffffff), bytes);
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct sockaddr_in own, mask;
        bool usable = a->ifa_flags & IFF_UP && a->ifa_flags & IFF_BROADCAST;
        if (!usable || !a->ifa_addr || a->ifa_addr->sa_family != AF_INET ||
            !a->ifa_netmask)
            continue;
        memcpy(&own, a->ifa_addr, sizeof own);
        memcpy(&mask, a->ifa_netmask, sizeof mask);
        call_at(fd, own.sin_addr.s_addr | ~mask.sin_addr.s_addr, bytes);
    }
    freeifaddrs(all);
}

/* Notes a door that has answered, once. */
static void note(doors *all, const wefti_call *call, const struct sockaddr_in *from) {
    for (int i = 0; i < all->n; i++)
        if (all->numbers[i] == call->door) return;
    if (call->version != WEFTI_MEETING_VERSION) all->other_version = call->version;
    if (call->version != WEFTI_MEETING_VERSION || all->n == DOORS) return;
    wefti_tcp_door *door = &all->list[all->n];
    inet_ntop(AF_INET, &from->sin_addr, door->host, sizeof door->host);
    door->port = call->port;
    all->numbers[all->n++] = call->door;
}

static void hear_answers(int fd, const wefti_call *asked, doors *all) {
    for (;;) {
        unsigned char bytes[WEFTI_CALL_BYTES + 1];
        union {
            struct sockaddr any;
            struct sockaddr_in v4;
        } from;
        socklen_t size = sizeof from;
        wefti_call call;
        ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, &from.any, &size);
        if (n < 0) return;
        if (wefti_call_read(bytes, (size_t)n, &call) && call.answers &&
            call.nonce == asked->nonce && call.channel == asked->channel)
            note(all, &call, &from.v4);
    }
}

static weft_status look_for(weft_ctx *ctx, int fd, const wefti_call *call,
                            double patience_s, doors *out) {
    double begin_s = wefti_now_s(), called_s = -INFINITY, told_s = begin_s,
           until_s = begin_s + patience_s;
    for (double now_s = begin_s; now_s < until_s; now_s = wefti_now_s()) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (wefti_stop_asked(ctx))
            return weft_ctx_fail(ctx, WEFT_ERR_PEER, "told to stop");
        if (now_s - called_s >= call_every_s) call_all(fd, call), called_s = now_s;
        if (now_s - told_s >= told_after_s) {
            weft_ctx_log(ctx, WEFT_LOG_INFO,
                         "waiting: no run of this code has answered on this network yet");
            told_s = now_s;
        }
        int before = out->n;
        if (poll(&one, 1, LOOK_MS) > 0) hear_answers(fd, call, out);
        if (before == 0 && out->n > 0) until_s = fmin(until_s, wefti_now_s() + gather_s);
    }
    if (out->n > 0) return WEFT_OK;
    if (out->other_version) return refuse_version(ctx, out->other_version);
    return weft_ctx_fail(
        ctx, WEFT_ERR_PEER,
        "no run of this code has answered on this network within %.0f s; "
        "if it is on another one, weft join HOST:PORT CODE with what "
        "weft up printed",
        patience_s);
}

static weft_status find(weft_ctx *ctx, const weft_door_visit *visit,
                        const wefti_code *code, doors *out) {
    int yes = 1;
    *out = (doors){.n = 0};
    if (visit->host) {
        wefti_tcp_door *list;
        int n;
        WEFT_TRY(wefti_tcp_doors(ctx, visit->host, WEFT_DOOR_PORT, DOORS, &list, &n));
        out->n = n < DOORS ? n : DOORS;
        memcpy(out->list, list, (size_t)out->n * sizeof *list);
        wefti_free(ctx, list);
        return WEFT_OK;
    }
    wefti_call call = {.version = WEFTI_MEETING_VERSION, .channel = code->channel};
    randombytes_buf(&call.nonce, sizeof call.nonce);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "no socket to look for the run: %s",
                             strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    double patience_s = visit->patience > 0 ? visit->patience : 10;
    weft_status status = look_for(ctx, fd, &call, patience_s, out);
    close(fd);
    return status;
}

/* --- the exchange --- */

/* One connection to a door. */
typedef struct meeting {
    weft_ctx *ctx;
    const weft_door_visit *visit;
    const wefti_tcp_door *door;
    wefti_code code;
    wefti_wish wish;
    wefti_connection stream;
    wefti_exchange exchange;
    wefti_sealed sealed;
    wefti_bundle bundle;
    bool refused; /* the door has judged: asking it again may cost a try */
    unsigned char piece[WEFTI_SEALED_MOST], text[WEFTI_PIECE_BYTES];
} meeting;

static weft_status hung_up(meeting *m) {
    return weft_ctx_fail(
        m->ctx, WEFT_ERR_PEER, "%s:%d does not speak as a run's door: %s", m->door->host,
        m->door->port, m->stream.error ? strerror(m->stream.error) : "it has hung up");
}

static weft_status pass(meeting *m, void *bytes, size_t n, bool out) {
    double seconds = m->bundle.config ? silence_s : answer_s;
    bool fine = wefti_connection_all(&m->stream, bytes, n, out, wefti_now_s() + seconds);
    return fine ? WEFT_OK : hung_up(m);
}

static weft_status heed(meeting *m, const unsigned char *bytes) {
    wefti_judgement j;
    if (!wefti_judgement_read(bytes, &j)) return hung_up(m);
    m->refused = j.verdict != WEFTI_RULING_GO;
    switch (j.verdict) {
    case WEFTI_RULING_GO: return WEFT_OK;
    case WEFTI_RULING_WRONG:
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "this is not the run's code; the door closes after %d more "
                             "wrong one%s",
                             j.tries, j.tries == 1 ? "" : "s");
    case WEFTI_RULING_CLOSED:
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "the run's door is closed, because it was given three wrong "
                             "codes; start the run again with weft up --resume for a new "
                             "code, or copy its key for weft train --join");
    case WEFTI_RULING_BUSY:
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "as many machines come into the run at the moment as its "
                             "door serves; try again");
    case WEFTI_RULING_VERSION: return refuse_version(m->ctx, j.version);
    case WEFTI_RULING_CHANNEL:
    case WEFTI_RULINGS: break;
    }
    return weft_ctx_fail(
        m->ctx, WEFT_ERR_PEER,
        "the run at %s:%d has another code: its first two digits are not "
        "these",
        m->door->host, m->door->port);
}

static weft_status say_hello(meeting *m) {
    unsigned char card[WEFTI_CARD_BYTES], answer[WEFTI_RULING_BYTES + WEFTI_CPACE_POINT];
    wefti_hello hello = {.version = WEFTI_MEETING_VERSION, .channel = m->code.channel};
    if (!wefti_exchange_begin(&m->exchange, &m->code, NULL))
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER, "libsodium does not start");
    memcpy(hello.session, m->exchange.session, sizeof hello.session);
    memcpy(hello.share, m->exchange.newcomer.share, sizeof hello.share);
    wefti_hello_write(&hello, card);
    WEFT_TRY(pass(m, card, sizeof card, true));
    WEFT_TRY(pass(m, answer, sizeof answer, false));
    WEFT_TRY(heed(m, answer));
    memcpy(m->exchange.door.share, answer + WEFTI_RULING_BYTES, WEFTI_CPACE_POINT);
    return wefti_exchange_meet(&m->exchange) ? WEFT_OK : hung_up(m);
}

static weft_status prove(meeting *m) {
    unsigned char proof[WEFTI_PROOF_BYTES], greeting[WEFTI_GREETING_BYTES],
        wish[WEFTI_WISH_BYTES];
    const unsigned char *tag = greeting + WEFTI_RULING_BYTES;
    wefti_sealed sends;
    wefti_wish_write(&m->wish, wish);
    memcpy(proof, m->exchange.tag, WEFTI_CPACE_TAG);
    crypto_secretstream_xchacha20poly1305_init_push(&sends, proof + WEFTI_CPACE_TAG,
                                                    m->exchange.sends);
    wefti_seal(&sends, wish, sizeof wish, true,
               proof + WEFTI_CPACE_TAG + WEFTI_SEALED_HEAD);
    WEFT_TRY(pass(m, proof, sizeof proof, true));
    WEFT_TRY(pass(m, greeting, sizeof greeting, false));
    WEFT_TRY(heed(m, greeting));
    if (!wefti_exchange_proves(&m->exchange, tag) ||
        crypto_secretstream_xchacha20poly1305_init_pull(&m->sealed, tag + WEFTI_CPACE_TAG,
                                                        m->exchange.receives) != 0)
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "who answers at %s:%d does not have the code: it is not the "
                             "run's door",
                             m->door->host, m->door->port);
    return WEFT_OK;
}

/* The next piece: its text comes to m->text, *n bytes. */
static weft_status take_piece(meeting *m, size_t *n, bool *last) {
    WEFT_TRY(pass(m, m->piece, 4, false));
    int length = wefti_piece_length(m->piece);
    if (length < 0) return hung_up(m);
    *n = (size_t)length;
    WEFT_TRY(pass(m, m->piece + 4, *n + WEFTI_SEAL_BYTES, false));
    if (wefti_unseal(&m->sealed, m->piece + 4, *n + WEFTI_SEAL_BYTES, m->text, last))
        return WEFT_OK;
    return weft_ctx_fail(m->ctx, WEFT_ERR_PEER, "what %s:%d sends was changed on its way",
                         m->door->host, m->door->port);
}

static weft_status take_list(meeting *m) {
    char *list;
    size_t n;
    bool last;
    WEFT_TRY(take_piece(m, &n, &last));
    uint64_t size = n == 8 ? wefti_get_u64(m->text) : 0;
    if (size == 0 || size > WEFTI_BUNDLE_TEXT_BYTES || last) return hung_up(m);
    WEFT_TRY(wefti_alloc(m->ctx, size, "the run's list of files", &list));
    weft_status status = WEFT_OK;
    for (uint64_t at = 0; at < size && status == WEFT_OK; at += n) {
        status = take_piece(m, &n, &last);
        if (status == WEFT_OK && (n == 0 || n > size - at || last)) status = hung_up(m);
        if (status == WEFT_OK) memcpy(list + at, m->text, n);
    }
    if (status == WEFT_OK)
        status = wefti_bundle_read(m->ctx, list, (int64_t)size, &m->wish, &m->bundle);
    explicit_bzero(list, size);
    wefti_free(m->ctx, list);
    return status;
}

static weft_status take_file(meeting *m, int64_t i) {
    char path[PATH_MAX];
    size_t n;
    bool last;
    WEFT_TRY(wefti_bundle_path(m->ctx, &m->bundle, i, m->visit->folder, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return weft_ctx_fail(m->ctx, WEFT_ERR_FILE, "could not write %s: %s", path,
                             strerror(errno));
    weft_status status = WEFT_OK;
    for (int64_t at = 0; at < m->bundle.files[i].n_bytes && status == WEFT_OK;
         at += (int64_t)n) {
        status = take_piece(m, &n, &last);
        bool fits = (int64_t)n <= m->bundle.files[i].n_bytes - at && n > 0 && !last;
        if (status == WEFT_OK && !fits) status = hung_up(m);
        if (status == WEFT_OK)
            status = wefti_file_pwrite(m->ctx, fd, path, m->text, (int64_t)n, at);
    }
    close(fd);
    return status;
}

static weft_status take_all(meeting *m) {
    size_t n;
    bool last = false;
    WEFT_TRY(take_list(m));
    if (mkdir(m->visit->folder, 0755) != 0)
        return weft_ctx_fail(m->ctx, WEFT_ERR_FILE, "could not make the folder %s: %s",
                             m->visit->folder, strerror(errno));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < m->bundle.n_files && status == WEFT_OK; i++)
        status = take_file(m, i);
    if (status == WEFT_OK) status = take_piece(m, &n, &last);
    if (status == WEFT_OK && (n != 0 || !last)) status = hung_up(m);
    if (status == WEFT_OK)
        status = wefti_bundle_unpack(m->ctx, &m->bundle, m->visit->folder);
    weft_ctx *quiet;
    if (status != WEFT_OK && weft_ctx_create(&quiet) == WEFT_OK) {
        (void)!wefti_file_remove_tree(quiet, m->visit->folder);
        weft_ctx_destroy(quiet);
    }
    return status;
}

static weft_status meet(meeting *m) {
    int fd = wefti_dial(m->ctx, m->door->host, m->door->port, wefti_now_s() + answer_s);
    if (fd < 0)
        return weft_ctx_fail(
            m->ctx, WEFT_ERR_PEER,
            "nobody listens at %s:%d: %s; expected the door of a run that "
            "weft up began",
            m->door->host, m->door->port, strerror(errno));
    m->stream = wefti_connection_of(fd);
    m->stream.stop = m->ctx;
    weft_status status = say_hello(m);
    if (status == WEFT_OK) status = prove(m);
    m->refused = m->refused || status == WEFT_OK;
    if (status == WEFT_OK) status = take_all(m);
    wefti_connection_close(&m->stream);
    return status;
}

static weft_status try_doors(meeting *m, const doors *all, char *where, size_t size) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < all->n; i++) {
        m->door = &all->list[i];
        weft_ctx_clear(m->ctx);
        status = meet(m);
        const char *host = m->door->host;
        if (status == WEFT_OK)
            snprintf(where, size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                     m->bundle.run_port);
        wefti_exchange_fini(&m->exchange);
        wefti_bundle_fini(m->ctx, &m->bundle);
        /* another one on this network may be the run; of a host that was named, one is */
        if (status == WEFT_OK || (m->refused && m->visit->host)) break;
    }
    return status;
}

weft_status weft_door_enter(weft_ctx *ctx, const weft_door_visit *visit, char *where,
                            size_t size) {
    meeting *m;
    doors all;
    wefti_code code;
    struct stat info;
    WEFTI_SIZED_IN(ctx, weft_door_visit, visit);
    if (!visit->code || !wefti_code_read(visit->code, &code))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%.40s is no code, expected two digits and eight letters or "
                             "digits as weft up prints them (42-ABCD-EFGH)",
                             visit->code ? visit->code : "");
    if (!visit->folder || lstat(visit->folder, &info) == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%.300s exists, expected a new folder",
                             visit->folder ? visit->folder : "");
    if (sodium_init() < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "libsodium does not start");
    WEFT_TRY(find(ctx, visit, &code, &all));
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "a visit", &m));
    *m = (meeting){.ctx = ctx,
                   .visit = visit,
                   .code = code,
                   .wish = {wefti_bundle_wants(visit->own), visit->most_bytes}};
    weft_status status = try_doors(m, &all, where, size);
    sodium_memzero(m, sizeof *m);
    wefti_free(ctx, m);
    return status;
}
