/* SPDX-License-Identifier: MIT */
/* The invitation of a run: one thread, which polls all its sockets and never waits for one.
 *
 *     call (UDP) -> answer                                              anybody, at any time
 *     listener -> wefti_callers -> hello -> joiner: SHARES -> PROVES -> GIVES -> ENDS
 *
 * A stranger who is silent is one of many callers (callers.h), and later one of JOINERS, where
 * one who has proved nothing makes room. Nothing is read from a file, and no key is
 * used, before a joiner has proved that it has the code. */
#define _GNU_SOURCE
#include <weft/invite.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <stdio.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/bytes.h"
#include "base/sized.h"
#include "invite/bundle.h"
#include "invite/sealed.h"
#include "net/socket.h"
#include "start/callers.h"

enum { JOINERS = 32, WRONG_CODES = 3, PORTS = 16, CALLS_AT_ONCE = 32, LOOK_MS = 200 };
static const double proof_s = 5, silence_s = 30;

typedef enum step { SHARES, PROVES, GIVES, ENDS } step;

typedef struct joiner {
    wefti_connection stream; /* fd -1: the place is free */
    step step;
    double
        until_s; /* its deadline; later each time that it takes bytes it has a right to */
    char address[WEFTI_CALLER_ADDRESS_BYTES];
    wefti_exchange exchange;
    wefti_sealed sealed;
    unsigned char in[WEFTI_PROOF_BYTES];
    size_t n_in, n_out, n_sent;
    unsigned char out[WEFTI_GREETING_BYTES + WEFTI_SEALED_MOST];
    wefti_wish wish;
    char *list; /* owned */
    int64_t n_list, at_list;
    bool *gives; /* owned */
    int64_t file, at;
    int fd; /* of that file */
} joiner;

struct weft_invite {
    weft_ctx *ctx;
    wefti_code code;
    char code_text[WEFTI_CODE_BYTES];
    char host[256];
    int port, udp[2], listener, wakeup, wrong;
    uint64_t number;
    int64_t most_bytes;
    wefti_bundle bundle;
    wefti_callers callers;
    joiner *joiners; /* owned; [JOINERS] */
    pthread_t thread;
    bool runs;
    atomic_bool closing;
};

static bool is_closed(const weft_invite *d) { return d->wrong >= WRONG_CODES; }

/* --- joiners --- */

static void dismiss(weft_invite *d, joiner *g) {
    wefti_connection_close(&g->stream);
    if (g->fd >= 0) close(g->fd);
    if (g->list) sodium_memzero(g->list, (size_t)g->n_list); /* it has the key */
    WEFTI_FREE(d->ctx, g->list, g->gives);
    sodium_memzero(g, sizeof *g);
    g->stream.fd = g->fd = -1;
}

static void put_judgement(const weft_invite *d, wefti_ruling verdict,
                          unsigned char *out) {
    int left = is_closed(d) ? 0 : WRONG_CODES - d->wrong;
    wefti_judgement j = {WEFTI_MEETING_VERSION, verdict, left};
    wefti_judgement_write(&j, out);
}

/* How many joiners of this one's address have proved nothing; 0: it has proved. */
static int crowd_of(const weft_invite *d, const joiner *g) {
    int n = 0;
    for (const joiner *o = d->joiners; o < d->joiners + JOINERS; o++)
        n += o->step < GIVES && strcmp(o->address, g->address) == 0;
    return g->step < GIVES ? n : 0;
}

/* A free place, or that of any unproved joiner of the address with the most of them, by chance:
 * who floods can not know how long it takes until a true one's turn is over. NULL: all have
 * proved that they have the code. */
static joiner *find_place(weft_invite *d) {
    joiner *worst = NULL;
    int most = 0;
    uint32_t alike = 0;
    for (joiner *g = d->joiners; g < d->joiners + JOINERS; g++) {
        if (g->stream.fd < 0) return g;
        int n = crowd_of(d, g);
        if (n > most) most = n, alike = 0;
        if (n > 0 && n == most && randombytes_uniform(++alike) == 0) worst = g;
    }
    if (worst) dismiss(d, worst);
    return worst;
}

static wefti_caller_fate turn_away(weft_invite *d, wefti_caller *caller,
                                   wefti_ruling verdict) {
    unsigned char answer[WEFTI_RULING_BYTES + WEFTI_CPACE_POINT] = {0};
    put_judgement(d, verdict, answer);
    wefti_callers_answer(&d->callers, caller, answer, sizeof answer);
    return WEFTI_CALLER_WAITS;
}

/* A hello has arrived (wefti_callers.admit). */
static wefti_caller_fate admit(void *user, wefti_caller *caller) {
    weft_invite *d = user;
    wefti_hello hello;
    if (!wefti_hello_read(caller->card, &hello)) {
        wefti_callers_complain(&d->callers, caller->address,
                               "sent nothing that weft knows");
        return WEFTI_CALLER_GONE;
    }
    if (hello.version != WEFTI_MEETING_VERSION)
        return turn_away(d, caller, WEFTI_RULING_VERSION);
    if (is_closed(d)) return turn_away(d, caller, WEFTI_RULING_CLOSED);
    if (hello.channel != d->code.channel)
        return turn_away(d, caller, WEFTI_RULING_CHANNEL);
    joiner *g = find_place(d);
    if (!g) return turn_away(d, caller, WEFTI_RULING_BUSY);
    bool begun = wefti_exchange_begin(&g->exchange, &d->code, hello.session);
    memcpy(g->exchange.newcomer.share, hello.share, sizeof hello.share);
    if (!begun || !wefti_exchange_meet(&g->exchange)) {
        dismiss(d, g);
        return WEFTI_CALLER_GONE; /* no element of the group: nothing was learnt */
    }
    put_judgement(d, WEFTI_RULING_GO, g->out);
    memcpy(g->out + WEFTI_RULING_BYTES, g->exchange.host.share, WEFTI_CPACE_POINT);
    g->n_out = WEFTI_RULING_BYTES + WEFTI_CPACE_POINT;
    g->stream = caller->stream;
    g->step = SHARES;
    g->until_s = wefti_now_s() + proof_s;
    memcpy(g->address, caller->address, sizeof g->address);
    return WEFTI_CALLER_TAKEN;
}

static void tell_wrong(weft_invite *d, const joiner *g) {
    if (is_closed(d))
        weft_ctx_log(d->ctx, WEFT_LOG_WARN,
                     "three wrong codes, the last one by somebody at %s: the invitation "
                     "is closed, and the run goes on without it",
                     g->address);
    else
        weft_ctx_log(
            d->ctx, WEFT_LOG_WARN,
            "somebody at %s gave a wrong code; the invitation closes after %d more",
            g->address, WRONG_CODES - d->wrong);
}

/* The proof is here: a right one gets the greeting, a wrong one is counted. */
static bool judge(weft_invite *d, joiner *g) {
    const unsigned char *head = g->in + WEFTI_CPACE_TAG;
    unsigned char wish[WEFTI_WISH_BYTES];
    wefti_sealed heard;
    bool last, right = !is_closed(d) && wefti_exchange_proves(&g->exchange, g->in);
    g->n_sent = 0;
    g->n_out = WEFTI_GREETING_BYTES;
    memset(g->out, 0, g->n_out);
    if (!right) {
        bool was_open = !is_closed(d);
        d->wrong += was_open;
        if (was_open) tell_wrong(d, g);
        put_judgement(d, is_closed(d) ? WEFTI_RULING_CLOSED : WEFTI_RULING_WRONG, g->out);
        g->step = ENDS;
        return true;
    }
    if (crypto_secretstream_xchacha20poly1305_init_pull(&heard, head,
                                                        g->exchange.receives) != 0 ||
        !wefti_unseal(&heard, head + WEFTI_SEALED_HEAD, sizeof wish + WEFTI_SEAL_BYTES,
                      wish, &last) ||
        !wefti_wish_read(wish, &g->wish))
        return false;
    if (g->wish.most_bytes > d->most_bytes) g->wish.most_bytes = d->most_bytes;
    put_judgement(d, WEFTI_RULING_GO, g->out);
    memcpy(g->out + WEFTI_RULING_BYTES, g->exchange.tag, WEFTI_CPACE_TAG);
    crypto_secretstream_xchacha20poly1305_init_push(
        &g->sealed, g->out + WEFTI_RULING_BYTES + WEFTI_CPACE_TAG, g->exchange.sends);
    wefti_exchange_fini(&g->exchange);
    g->step = GIVES;
    return true;
}

/* Before the first piece: the list, whose length is the first piece. */
static bool begin_giving(weft_invite *d, joiner *g) {
    unsigned char length[8];
    if (wefti_alloc_n(d->ctx, d->bundle.n_files, sizeof *g->gives, "a joiner's files",
                      &g->gives) != WEFT_OK ||
        wefti_bundle_text(d->ctx, &d->bundle, &g->wish, g->gives, &g->list) != WEFT_OK) {
        weft_ctx_log(d->ctx, WEFT_LOG_WARN, "a newcomer at %s gets nothing: %s",
                     g->address, weft_ctx_message(d->ctx));
        weft_ctx_clear(d->ctx);
        return false;
    }
    weft_ctx_log(d->ctx, WEFT_LOG_INFO, "somebody at %s has the code and comes in",
                 g->address);
    g->n_list = (int64_t)strlen(g->list);
    wefti_put_u64(length, (uint64_t)g->n_list);
    g->n_out = wefti_seal_piece(&g->sealed, length, sizeof length, false, g->out);
    return true;
}

/* Some bytes of the present file; false: it is not what it was. */
static bool give_file(weft_invite *d, joiner *g) {
    static _Thread_local unsigned char text[WEFTI_PIECE_BYTES];
    const wefti_bundle_file *f = &d->bundle.files[g->file];
    int64_t left = f->n_bytes - g->at;
    size_t n = left < WEFTI_PIECE_BYTES ? (size_t)left : WEFTI_PIECE_BYTES;
    if (g->fd < 0) g->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = g->fd < 0 ? -1 : pread(g->fd, text, n, (off_t)g->at);
    if (got != (ssize_t)n) {
        weft_ctx_log(d->ctx, WEFT_LOG_WARN,
                     "%s has become shorter or can not be read: a newcomer at %s did not "
                     "get it",
                     f->path, g->address);
        return false;
    }
    g->at += got;
    g->n_out = wefti_seal_piece(&g->sealed, text, n, false, g->out);
    return true;
}

/* Makes the next piece. */
static bool give(weft_invite *d, joiner *g) {
    g->n_sent = 0;
    if (!g->list) return begin_giving(d, g);
    if (g->at_list < g->n_list) {
        int64_t left = g->n_list - g->at_list;
        size_t n = left < WEFTI_PIECE_BYTES ? (size_t)left : WEFTI_PIECE_BYTES;
        g->n_out = wefti_seal_piece(&g->sealed, g->list + g->at_list, n, false, g->out);
        g->at_list += (int64_t)n;
        return true;
    }
    while (g->file < d->bundle.n_files &&
           (!g->gives[g->file] || g->at == d->bundle.files[g->file].n_bytes)) {
        if (g->fd >= 0) close(g->fd);
        g->fd = -1;
        g->file++;
        g->at = 0;
    }
    if (g->file < d->bundle.n_files) return give_file(d, g);
    g->n_out = wefti_seal_piece(&g->sealed, "", 0, true, g->out);
    g->step = ENDS;
    return true;
}

/* Sends what there is; whether all of it has left. */
static bool send_some(joiner *g, double now_s) {
    struct iovec part = {g->out + g->n_sent, g->n_out - g->n_sent};
    size_t n = part.iov_len ? wefti_connection_write(&g->stream, &part, 1) : 0;
    g->n_sent += n;
    if (n > 0 && g->step == GIVES) g->until_s = now_s + silence_s;
    return g->n_sent == g->n_out;
}

/* Goes on with a joiner as far as its socket is ready, but for so many pieces at a time; false:
 * it has ended. */
static bool serve_joiner(weft_invite *d, joiner *g) {
    enum { PIECES = 16 };
    double now_s = wefti_now_s();
    if (now_s > g->until_s) return false;
    for (int k = 0; k < PIECES && g->stream.fd >= 0; k++) {
        bool sent = send_some(g, now_s);
        if (!sent) return g->stream.fd >= 0;
        if (g->step == ENDS) return false;
        if (g->step == GIVES && !give(d, g)) return false;
        if (g->step == SHARES) g->step = PROVES;
        if (g->step != PROVES) continue;
        struct iovec part = {g->in + g->n_in, sizeof g->in - g->n_in};
        size_t n = wefti_connection_read(&g->stream, &part, 1);
        g->n_in += n;
        if (g->n_in == sizeof g->in && !judge(d, g)) return false;
        if (g->n_in < sizeof g->in) return g->stream.fd >= 0;
    }
    return g->stream.fd >= 0;
}

/* --- the thread --- */

static void answer_calls(const weft_invite *d, int fd) {
    for (int k = 0; k < CALLS_AT_ONCE && fd >= 0; k++) {
        unsigned char bytes[WEFTI_CALL_BYTES + 1];
        struct sockaddr_storage from;
        union {
            struct sockaddr_storage *storage;
            struct sockaddr *any;
        } address = {.storage = &from};
        socklen_t size = sizeof from;
        wefti_call call;
        ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, address.any, &size);
        if (n < 0) return;
        if (!wefti_call_read(bytes, (size_t)n, &call) || call.answers) continue;
        if (call.channel != d->code.channel) continue;
        call.answers = true;
        call.version = WEFTI_MEETING_VERSION;
        call.port = d->port;
        call.id = d->number;
        wefti_call_write(&call, bytes);
        (void)sendto(fd, bytes, WEFTI_CALL_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL,
                     address.any, size);
    }
}

static void wait_for_work(weft_invite *d) {
    struct pollfd all[WEFTI_MAX_CALLERS + JOINERS + 4];
    wefti_callers *c = &d->callers;
    nfds_t n = 0;
    for (int i = 0; i < c->n; i++)
        all[n++] = (struct pollfd){.fd = c->list[i].stream.fd, .events = POLLIN};
    for (joiner *g = d->joiners; g < d->joiners + JOINERS; g++)
        all[n++] = (struct pollfd){
            .fd = g->stream.fd,
            .events = g->n_sent < g->n_out || g->step == GIVES ? POLLOUT : POLLIN};
    all[n++] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        all[n++] = (struct pollfd){.fd = d->udp[i], .events = POLLIN};
    all[n++] = (struct pollfd){.fd = d->wakeup, .events = POLLIN};
    if (poll(all, n, c->more ? 0 : LOOK_MS) <= 0) return;
    n = 0;
    for (int i = 0; i < c->n; i++)
        wefti_connection_ready(&c->list[i].stream, (unsigned short)all[n++].revents);
    for (joiner *g = d->joiners; g < d->joiners + JOINERS; g++)
        wefti_connection_ready(&g->stream, (unsigned short)all[n++].revents);
}

static void *serve(void *user) {
    weft_invite *d = user;
    while (!atomic_load(&d->closing)) {
        wait_for_work(d);
        for (int i = 0; i < 2; i++) answer_calls(d, d->udp[i]);
        if (!wefti_callers_accept(&d->callers))
            usleep(LOOK_MS * 1000); /* no more files: those who wait, wait */
        (void)wefti_callers_hear(&d->callers);
        for (joiner *g = d->joiners; g < d->joiners + JOINERS; g++)
            if (g->stream.fd >= 0 && !serve_joiner(d, g)) dismiss(d, g);
    }
    return NULL;
}

/* --- opening and closing --- */

/* Calls by IPv6 are heard at the interfaces that are there now. */
static void join_group(int fd) {
    struct if_nameindex *all = if_nameindex();
    struct ipv6_mreq group;
    (void)inet_pton(AF_INET6, WEFTI_CALL_GROUP, &group.ipv6mr_multiaddr);
    for (struct if_nameindex *i = all; i && i->if_index; i++) {
        group.ipv6mr_interface = i->if_index;
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    }
    if (all) if_freenameindex(all);
}

/* Where calls arrive. Several invitations of a machine all hear them. */
static int listen_to_calls(int family) {
    int yes = 1, fd = wefti_socket_open(family, SOCK_DGRAM);
    union {
        struct sockaddr_storage storage;
        struct sockaddr any;
    } address;
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        join_group(fd);
    }
    if (wefti_socket_parse(family == AF_INET ? "0.0.0.0" : "::", WEFT_INVITE_PORT,
                           &address.storage) &&
        bind(fd, &address.any, wefti_socket_size(&address.storage)) == 0)
        return fd;
    close(fd);
    return -1;
}

static weft_status open_sockets(weft_ctx *ctx, weft_invite *d, int port) {
    d->listener = port ? wefti_socket_listen(false, port)
                       : wefti_socket_listen_from(false, WEFT_INVITE_PORT, PORTS);
    if (d->listener < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                             "the invitation can not listen at port %d: %s",
                             port ? port : WEFT_INVITE_PORT, strerror(errno));
    d->port = wefti_socket_port(d->listener);
    d->udp[1] = listen_to_calls(AF_INET6);
    d->udp[0] = listen_to_calls(AF_INET);
    if (d->udp[0] < 0)
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "this run is not found by its code alone, because UDP port %d is "
                     "taken (%s): newcomers name HOST:%d",
                     WEFT_INVITE_PORT, strerror(errno), d->port);
    d->wakeup = eventfd(0, EFD_CLOEXEC);
    if (d->wakeup >= 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "the invitation can not open: %s",
                         strerror(errno));
}

static weft_status start_thread(weft_ctx *ctx, weft_invite *d) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* signals are for the program's thread */
    int error = pthread_create(&d->thread, NULL, serve, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    d->runs = error == 0;
    if (d->runs) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no thread for the invitation: %s",
                         strerror(error));
}

static weft_status open_all(weft_ctx *ctx, weft_invite *d,
                            const weft_invite_setup *setup) {
    unsigned char random[WEFTI_CODE_RANDOM_BYTES];
    if (sodium_init() < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "libsodium does not start");
    randombytes_buf(random, sizeof random);
    randombytes_buf(&d->number, sizeof d->number);
    wefti_code_make((int)randombytes_uniform(WEFTI_CHANNELS), random, &d->code);
    wefti_code_text(&d->code, d->code_text);
    WEFT_TRY(wefti_alloc_n(ctx, JOINERS, sizeof *d->joiners, "an invitation's joiners",
                           &d->joiners));
    for (int i = 0; i < JOINERS; i++) d->joiners[i].stream.fd = d->joiners[i].fd = -1;
    WEFT_TRY(wefti_bundle_make(ctx, setup, &d->bundle));
    WEFT_TRY(open_sockets(ctx, d, setup->port));
    d->callers = (wefti_callers){.ctx = ctx,
                                 .listener = d->listener,
                                 .name = "the invitation",
                                 .admit = admit,
                                 .user = d};
    if (!wefti_callers_init(&d->callers))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                             "no memory for the invitation's callers");
    return start_thread(ctx, d);
}

/* The first address of this machine that is not its own or a link's alone, where no way leads
 * out. */
static bool find_interface(int family, char *out, size_t size) {
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        bool usable = a->ifa_addr && a->ifa_addr->sa_family == family &&
                      a->ifa_flags & IFF_UP && !(a->ifa_flags & IFF_LOOPBACK);
        if (usable) wefti_socket_address(a->ifa_addr, out, size);
        found = usable && !strchr(out, '%');
    }
    freeifaddrs(all);
    return found;
}

/* The address of this machine on the way to another one, to which nothing is sent. */
static bool find_way(const char *other, char *out, size_t size) {
    union {
        struct sockaddr_storage storage;
        struct sockaddr any;
    } to = {.storage = {.ss_family = AF_UNSPEC}};
    bool known = wefti_socket_parse(other, 9, &to.storage);
    int fd = known ? wefti_socket_open(to.storage.ss_family, SOCK_DGRAM) : -1;
    known = fd >= 0 && connect(fd, &to.any, wefti_socket_size(&to.storage)) == 0;
    if (known) wefti_socket_own(fd, out, size);
    if (fd >= 0) close(fd);
    return known;
}

/* The address of this machine on the way to others: examples' addresses. */
static void find_host(char *out, size_t size) {
    char found[128];
    if (find_way("192.0.2.1", found, sizeof found) ||
        find_way("2001:db8::1", found, sizeof found) ||
        find_interface(AF_INET, found, sizeof found) ||
        find_interface(AF_INET6, found, sizeof found))
        snprintf(out, size, strchr(found, ':') ? "[%s]" : "%s", found);
    else if (gethostname(out, size) != 0)
        snprintf(out, size, "HOST");
}

weft_status weft_invite_open(weft_ctx *ctx, const weft_invite_setup *setup,
                             weft_invite **out) {
    weft_invite *d;
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_invite_setup, setup);
    if (!setup->key || !setup->config || setup->port < 0 || setup->port > UINT16_MAX ||
        setup->run_port < 1 || setup->run_port > UINT16_MAX || setup->most_bytes < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "an invitation at port %d of a run at port %d, expected a "
                             "key, a configuration and ports up to 65535",
                             setup->port, setup->run_port);
    WEFT_TRY(wefti_alloc(ctx, sizeof *d, "an invitation", &d));
    d->ctx = ctx;
    d->listener = d->udp[0] = d->udp[1] = d->wakeup = -1;
    d->most_bytes = setup->most_bytes;
    WEFTI_TRY_OR(open_all(ctx, d, setup), weft_invite_close(d));
    find_host(d->host, sizeof d->host);
    *out = d;
    return WEFT_OK;
}

const char *weft_invite_code(const weft_invite *d) { return d->code_text; }
int weft_invite_port(const weft_invite *d) { return d->port; }
const char *weft_invite_host(const weft_invite *d) { return d->host; }

void weft_invite_close(weft_invite *d) {
    if (!d) return;
    weft_ctx *ctx = d->ctx;
    atomic_store(&d->closing, true);
    if (d->runs) {
        (void)eventfd_write(d->wakeup, 1);
        pthread_join(d->thread, NULL);
    }
    for (int i = 0; d->joiners && i < JOINERS; i++) dismiss(d, &d->joiners[i]);
    wefti_callers_fini(&d->callers);
    wefti_bundle_fini(ctx, &d->bundle);
    const int files[] = {d->listener, d->udp[0], d->udp[1], d->wakeup};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] >= 0) close(files[i]);
    wefti_free(ctx, d->joiners);
    sodium_memzero(d, sizeof *d);
    wefti_free(ctx, d);
}
