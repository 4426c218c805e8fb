/* SPDX-License-Identifier: MIT */
/* Coming to an invitation: looking for it on this network, the exchange, and what it gives.
 *
 *     calls go to the broadcast address of each interface, and of this machine, and to a group of
 *     IPv6; the address that an answer comes from is the one by which this machine reaches the run
 *
 * Whoever answers may be a stranger: it learns nothing but whether one guess was right. */
#define _GNU_SOURCE
#include <weft/invite.h>

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
#include "invite/bundle.h"
#include "invite/sealed.h"
#include "net/socket.h"
#include "start/tcp.h"

/* Each try is a guess for who plays the host: there are few. */
enum { PLACES = 16, LOOK_MS = 100, CROWDED_TRIES = 30 };
static const double call_every_s = 0.5, gather_s = 0.15, told_after_s = 3, answer_s = 10,
                    again_s = 0.03, silence_s = 30;

/* Where invitations may be. */
typedef struct places {
    wefti_tcp_endpoint list[PLACES];
    uint64_t numbers[PLACES];
    int n, other_version;
} places;

static weft_status refuse_version(weft_ctx *ctx, int theirs) {
    return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                         "the run is of another version of weft (its protocol is "
                         "%d, here %d), expected the same version on both machines",
                         theirs, WEFTI_MEETING_VERSION);
}

/* --- looking for the run --- */

static void call_at(int fd, uint32_t address, const unsigned char *bytes) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
    } to = {.v4 = {.sin_family = AF_INET,
                   .sin_port = htons(WEFT_INVITE_PORT),
                   .sin_addr.s_addr = address}};
    (void)sendto(fd, bytes, WEFTI_CALL_BYTES, MSG_NOSIGNAL, &to.any, sizeof to.v4);
}

static void call_group(int fd, const unsigned char *bytes) {
    struct if_nameindex *all = if_nameindex();
    union {
        struct sockaddr any;
        struct sockaddr_in6 v6;
    } to = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(WEFT_INVITE_PORT)}};
    (void)inet_pton(AF_INET6, WEFTI_CALL_GROUP, &to.v6.sin6_addr);
    for (struct if_nameindex *i = all; i && i->if_index; i++) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &i->if_index,
                         sizeof i->if_index);
        (void)sendto(fd, bytes, WEFTI_CALL_BYTES, MSG_NOSIGNAL, &to.any, sizeof to.v6);
    }
    if (all) if_freenameindex(all);
}

static void call_all(const int fds[2], const wefti_call *call) {
    unsigned char bytes[WEFTI_CALL_BYTES];
    struct ifaddrs *all;
    wefti_call_write(call, bytes);
    call_at(fds[0], htonl(0x7fffffff), bytes);
    call_group(fds[1], bytes);
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct sockaddr_in own, mask;
        bool usable = a->ifa_flags & IFF_UP && a->ifa_flags & IFF_BROADCAST;
        if (!usable || !a->ifa_addr || a->ifa_addr->sa_family != AF_INET ||
            !a->ifa_netmask)
            continue;
        memcpy(&own, a->ifa_addr, sizeof own);
        memcpy(&mask, a->ifa_netmask, sizeof mask);
        call_at(fds[0], own.sin_addr.s_addr | ~mask.sin_addr.s_addr, bytes);
    }
    freeifaddrs(all);
}

/* Notes an invitation that has answered, once: by IPv4 where it can. */
static void note(places *all, const wefti_call *call, const struct sockaddr *from) {
    int i = 0;
    while (i < all->n && all->numbers[i] != call->id) i++;
    if (call->version != WEFTI_MEETING_VERSION) all->other_version = call->version;
    if (call->version != WEFTI_MEETING_VERSION || i == PLACES) return;
    wefti_tcp_endpoint *at = &all->list[i];
    if (i < all->n && !strchr(at->host, ':')) return;
    wefti_socket_address(from, at->host, sizeof at->host);
    at->port = call->port;
    all->numbers[i] = call->id;
    all->n += i == all->n;
}

static void hear_answers(int fd, const wefti_call *asked, places *all) {
    for (;;) {
        unsigned char bytes[WEFTI_CALL_BYTES + 1];
        union {
            struct sockaddr any;
            struct sockaddr_storage storage;
        } from;
        socklen_t size = sizeof from;
        wefti_call call;
        ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, &from.any, &size);
        if (n < 0) return;
        if (wefti_call_read(bytes, (size_t)n, &call) && call.answers &&
            call.nonce == asked->nonce && call.channel == asked->channel)
            note(all, &call, &from.any);
    }
}

static weft_status look_for(weft_ctx *ctx, const int fds[2], const wefti_call *call,
                            double patience_s, places *out) {
    double begin_s = wefti_now_s(), called_s = -INFINITY, told_s = begin_s,
           until_s = begin_s + patience_s;
    for (double now_s = begin_s; now_s < until_s; now_s = wefti_now_s()) {
        struct pollfd both[] = {{.fd = fds[0], .events = POLLIN},
                                {.fd = fds[1], .events = POLLIN}};
        if (wefti_stop_asked(ctx))
            return weft_ctx_fail(ctx, WEFT_ERR_PEER, "asked to stop");
        if (now_s - called_s >= call_every_s) call_all(fds, call), called_s = now_s;
        if (now_s - told_s >= told_after_s) {
            weft_ctx_log(
                ctx, WEFT_LOG_INFO,
                "waiting: no run of this code has answered on this network yet; "
                "weft join HOST:PORT CODE, as weft up printed it, finds it anywhere");
            told_s = now_s;
        }
        int before = out->n;
        (void)poll(both, 2, LOOK_MS);
        for (int i = 0; i < 2; i++) hear_answers(fds[i], call, out);
        if (before == 0 && out->n > 0) until_s = fmin(until_s, wefti_now_s() + gather_s);
    }
    if (out->n > 0) return WEFT_OK;
    if (out->other_version) return refuse_version(ctx, out->other_version);
    return weft_ctx_fail(
        ctx, WEFT_ERR_PEER,
        "no run of this code has answered on this network within %.0f s; if it is on "
        "another one, or a firewall drops such calls (UDP port %d), give its address: "
        "weft join HOST:PORT CODE, as weft up printed it",
        patience_s, WEFT_INVITE_PORT);
}

static weft_status find(weft_ctx *ctx, const weft_invite_request *request,
                        const wefti_code *code, places *out) {
    int yes = 1;
    *out = (places){.n = 0};
    if (request->host) {
        wefti_tcp_endpoint *list;
        int n;
        WEFT_TRY(
            wefti_tcp_endpoints(ctx, request->host, WEFT_INVITE_PORT, PLACES, &list, &n));
        out->n = n < PLACES ? n : PLACES;
        memcpy(out->list, list, (size_t)out->n * sizeof *list);
        wefti_free(ctx, list);
        return WEFT_OK;
    }
    wefti_call call = {.version = WEFTI_MEETING_VERSION, .channel = code->channel};
    randombytes_buf(&call.nonce, sizeof call.nonce);
    const int fds[] = {wefti_socket_open(AF_INET, SOCK_DGRAM),
                       wefti_socket_open(AF_INET6, SOCK_DGRAM)};
    if (fds[0] < 0 && fds[1] < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "no socket to look for the run: %s",
                             strerror(errno));
    (void)setsockopt(fds[0], SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    double patience_s = request->patience > 0 ? request->patience : 10;
    weft_status status = look_for(ctx, fds, &call, patience_s, out);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}

/* --- the exchange --- */

/* One connection to an invitation. */
typedef struct meeting {
    weft_ctx *ctx;
    const weft_invite_request *request;
    const wefti_tcp_endpoint *at;
    wefti_code code;
    wefti_wish wish;
    wefti_connection stream;
    wefti_exchange exchange;
    wefti_sealed sealed;
    wefti_bundle bundle;
    bool refused; /* the invitation has judged: asking it again may cost a try */
    bool crowded; /* it has hung up instead, for others who came; that costs none */
    unsigned char piece[WEFTI_SEALED_MOST], text[WEFTI_PIECE_BYTES];
} meeting;

static weft_status hung_up(meeting *m) {
    return weft_ctx_fail(
        m->ctx, WEFT_ERR_PEER, "%s:%d does not answer as `weft up` does: %s", m->at->host,
        m->at->port, m->stream.error ? strerror(m->stream.error) : "it has hung up");
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
        return weft_ctx_fail(
            m->ctx, WEFT_ERR_PEER,
            "this is not the run's code; the invitation closes after %d more wrong one%s",
            j.tries, j.tries == 1 ? "" : "s");
    case WEFTI_RULING_CLOSED:
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "the run's invitation is closed, because it was given three "
                             "wrong codes; start the run again with weft up --resume for "
                             "a new code, or copy its key for weft train --join");
    case WEFTI_RULING_BUSY:
        return weft_ctx_fail(m->ctx, WEFT_ERR_PEER,
                             "as many machines come into the run at the moment as its "
                             "invitation serves; try again");
    case WEFTI_RULING_VERSION: return refuse_version(m->ctx, j.version);
    case WEFTI_RULING_CHANNEL:
    case WEFTI_RULINGS: break;
    }
    return weft_ctx_fail(
        m->ctx, WEFT_ERR_PEER,
        "the run at %s:%d has another code: its first two digits are not these",
        m->at->host, m->at->port);
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
    memcpy(m->exchange.host.share, answer + WEFTI_RULING_BYTES, WEFTI_CPACE_POINT);
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
                             "run",
                             m->at->host, m->at->port);
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
                         m->at->host, m->at->port);
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
    WEFT_TRY(wefti_bundle_path(m->ctx, &m->bundle, i, m->request->folder, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return wefti_fail_errno(m->ctx, "write", path);
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
    if (mkdir(m->request->folder, 0755) != 0)
        return wefti_fail_errno(m->ctx, "make the folder", m->request->folder);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < m->bundle.n_files && status == WEFT_OK; i++)
        status = take_file(m, i);
    if (status == WEFT_OK) status = take_piece(m, &n, &last);
    if (status == WEFT_OK && (n != 0 || !last)) status = hung_up(m);
    if (status == WEFT_OK)
        status = wefti_bundle_unpack(m->ctx, &m->bundle, m->request->folder);
    weft_ctx *quiet;
    if (status != WEFT_OK && weft_ctx_create(&quiet) == WEFT_OK) {
        (void)!wefti_file_remove_tree(quiet, m->request->folder);
        weft_ctx_destroy(quiet);
    }
    return status;
}

static weft_status meet(meeting *m) {
    int fd = wefti_socket_connect(m->ctx, m->at->host, m->at->port,
                                  wefti_now_s() + answer_s);
    if (fd < 0)
        return weft_ctx_fail(
            m->ctx, WEFT_ERR_PEER,
            "nobody listens at %s:%d: %s; expected a run that weft up began", m->at->host,
            m->at->port, strerror(errno));
    m->stream = wefti_connection_of(fd);
    m->stream.stop = m->ctx;
    weft_status status = say_hello(m);
    if (status == WEFT_OK) status = prove(m);
    m->crowded = status != WEFT_OK && m->stream.fd < 0 && !m->refused;
    m->refused = m->refused || status == WEFT_OK;
    if (status == WEFT_OK) status = take_all(m);
    wefti_connection_close(&m->stream);
    return status;
}

static weft_status try_place(meeting *m, char *where, size_t size) {
    const char *host = m->at->host;
    weft_ctx_clear(m->ctx);
    m->crowded = false;
    weft_status status = meet(m);
    if (status == WEFT_OK)
        snprintf(where, size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                 m->bundle.run_port);
    wefti_exchange_fini(&m->exchange);
    wefti_bundle_fini(m->ctx, &m->bundle);
    return status;
}

static weft_status try_places(meeting *m, const places *all, char *where, size_t size) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < all->n; i++) {
        m->at = &all->list[i];
        status = try_place(m, where, size);
        for (int n = 0; m->crowded && n < CROWDED_TRIES; n++) {
            wefti_sleep_until_s(wefti_now_s() + again_s);
            status = try_place(m, where, size);
        }
        /* another one on this network may be the run; of a host that was named, one is */
        if (status == WEFT_OK || (m->refused && m->request->host)) break;
    }
    return status;
}

weft_status weft_invite_accept(weft_ctx *ctx, const weft_invite_request *request,
                               char *where, size_t size) {
    meeting *m;
    places all;
    wefti_code code;
    struct stat info;
    WEFTI_SIZED_IN(ctx, weft_invite_request, request);
    if (!request->code || !wefti_code_read(request->code, &code))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%.40s is no code, expected two digits and eight letters or "
                             "digits as weft up prints them (42-ABCD-EFGH)",
                             request->code ? request->code : "");
    if (!request->folder || lstat(request->folder, &info) == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%.300s exists, expected a new folder",
                             request->folder ? request->folder : "");
    if (sodium_init() < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "libsodium does not start");
    WEFT_TRY(find(ctx, request, &code, &all));
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "a request", &m));
    *m = (meeting){.ctx = ctx,
                   .request = request,
                   .code = code,
                   .wish = {wefti_bundle_wants(request->own), request->most_bytes}};
    weft_status status = try_places(m, &all, where, size);
    sodium_memzero(m, sizeof *m);
    wefti_free(ctx, m);
    return status;
}
