/* SPDX-License-Identifier: MIT */
/* How many sockets (net/window.h), and how they are opened. */
#define _GNU_SOURCE
#include "start/streams.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/socket.h"
#include "net/window.h"
#include "start/rendezvous.h"

enum { VERSION = 1 };
static const char magic[4] = {'w', 'e', 'f', 'S'};
static const double again_s = 0.1;

int wefti_streams_wish(int setting) {
    return setting == 0 ? WEFTI_STREAMS_AUTO : setting == 1 ? 0 : setting;
}

/* The largest send buffer that the kernel gives by itself; 0: not known. */
static double buffer_bytes(void) {
    double least, first, most;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
    int n = file ? fscanf(file, "%lf %lf %lf", &least, &first, &most) : 0;
    if (file) (void)fclose(file);
    return n == 3 ? most : 0;
}

int wefti_streams_agree(int own, int wish, const wefti_connection *s, int n_peers) {
    if (wish == 0 || own == 1) return 1;
    if (wish == WEFTI_STREAMS_AUTO && own == 0)
        return wefti_window_streams(wefti_tcp_round_trip_s(s->fd),
                                    wefti_window_bytes(buffer_bytes()), n_peers);
    int n = wish == WEFTI_STREAMS_AUTO ? own : own == 0 || wish < own ? wish : own;
    return n < WEFTI_STREAMS ? n : WEFTI_STREAMS;
}

int wefti_streams_welcomed(int setting, int answer) {
    int n = answer == WEFT_PLACE_WELCOME ? 1 : answer - WEFTI_STREAMS_WELCOME;
    int most = setting == 0 ? WEFTI_STREAMS : setting;
    return n >= 1 && n <= most ? n : 0;
}

/* What both cards of this file begin with. */
static void begin_card(unsigned char *bytes, const char word[4]) {
    memset(bytes, 0, WEFTI_CARD_BYTES);
    memcpy(bytes, word, 4);
    wefti_put_u32(bytes + 4, VERSION);
}

static bool is_card(const unsigned char *bytes, const char word[4]) {
    return memcmp(bytes, word, 4) == 0 && wefti_get_u32(bytes + 4) == VERSION;
}

void wefti_stream_card_write(const wefti_stream_card *card, unsigned char *bytes) {
    begin_card(bytes, magic);
    wefti_put_u32(bytes + 8, (uint32_t)card->number);
    wefti_put_u32(bytes + 12, (uint32_t)card->rank);
    wefti_put_u64(bytes + 16, card->token);
}

bool wefti_stream_card_read(const unsigned char *bytes, wefti_stream_card *out) {
    uint32_t number = wefti_get_u32(bytes + 8), rank = wefti_get_u32(bytes + 12);
    *out = (wefti_stream_card){(int)(number & 0xffff), (int)(rank & 0xffff),
                               wefti_get_u64(bytes + 16)};
    return is_card(bytes, magic) && number >= 1 && number < WEFTI_STREAMS &&
           rank <= 0xffff && out->token != 0;
}

static const char resume_magic[4] = {'w', 'e', 'f', 'C'};

void wefti_resume_card_write(const wefti_resume_card *card, unsigned char *bytes) {
    begin_card(bytes, resume_magic);
    wefti_put_u32(bytes + 8, (uint32_t)card->number);
    wefti_put_u32(bytes + 12, (uint32_t)card->from);
    wefti_put_u32(bytes + 16, (uint32_t)card->to);
    wefti_put_u64(bytes + 20, (uint64_t)card->n_read);
    memcpy(bytes + WEFTI_RESUME_SAID_BYTES, card->proof, sizeof card->proof);
}

bool wefti_resume_card_read(const unsigned char *bytes, wefti_resume_card *out) {
    uint32_t number = wefti_get_u32(bytes + 8), from = wefti_get_u32(bytes + 12),
             to = wefti_get_u32(bytes + 16);
    uint64_t n_read = wefti_get_u64(bytes + 20);
    *out = (wefti_resume_card){(int)(number & 0xffff),
                               (int)(from & 0xffff),
                               (int)(to & 0xffff),
                               (int64_t)(n_read & INT64_MAX),
                               {0}};
    memcpy(out->proof, bytes + WEFTI_RESUME_SAID_BYTES, sizeof out->proof);
    return is_card(bytes, resume_magic) && number < WEFTI_STREAMS && from <= 0xffff &&
           to <= 0xffff && from != to && n_read <= INT64_MAX;
}

void wefti_resumed_write(int64_t n_read, int64_t again, unsigned char *bytes) {
    bytes[0] = WEFT_PLACE_WELCOME;
    wefti_put_u64(bytes + 1, (uint64_t)n_read);
    wefti_put_u64(bytes + 9, (uint64_t)again);
}

bool wefti_resumed_read(const unsigned char *bytes, int64_t *n_read, int64_t *again) {
    uint64_t read = wefti_get_u64(bytes + 1), from = wefti_get_u64(bytes + 9);
    *n_read = (int64_t)(read & INT64_MAX);
    *again = (int64_t)(from & INT64_MAX);
    return bytes[0] == WEFT_PLACE_WELCOME && read <= INT64_MAX && from <= INT64_MAX;
}

static wefti_connection begin_call(const wefti_connection *first) {
    wefti_connection s = wefti_connection_of(wefti_socket_begin(&first->peer));
    s.peer = first->peer;
    s.stop = first->stop;
    return s;
}

static bool is_connected(wefti_connection *s, double until_s) {
    int error = 0;
    socklen_t size = sizeof error;
    return s->fd >= 0 && wefti_connection_wait(s, POLLOUT, until_s) &&
           getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/* The first words of a handshake. */
static bool hail(const wefti_tls_context *tls, wefti_connection *s) {
    bool refused;
    if (!tls) return true;
    s->tls = wefti_tls_create(tls, false);
    return s->tls && wefti_tls_shake(s->tls, s, &refused) != WEFTI_SHAKE_FAILED;
}

/* One attempt for all that are closed, step by step, so that the round trips pass together.
 */
static void call(const wefti_tls_context *tls, const wefti_connection *first,
                 wefti_stream_card card, int n, double until_s, wefti_connection *more) {
    bool called[WEFTI_STREAMS], fine[WEFTI_STREAMS];
    unsigned char bytes[WEFTI_CARD_BYTES], code;
    for (int i = 0; i < n; i++)
        if ((called[i] = more[i].fd < 0)) more[i] = begin_call(first);
    for (int i = 0; i < n; i++) fine[i] = called[i] && is_connected(&more[i], until_s);
    for (int i = 0; i < n; i++) fine[i] = fine[i] && hail(tls, &more[i]);
    for (int i = 0; i < n; i++) {
        if (!fine[i]) continue;
        card.number = i + 1;
        wefti_stream_card_write(&card, bytes);
        fine[i] = wefti_socket_shake(tls, &more[i], until_s) == WEFTI_SHAKE_DONE &&
                  wefti_connection_all(&more[i], bytes, sizeof bytes, true, until_s);
    }
    for (int i = 0; i < n; i++) {
        fine[i] = fine[i] && wefti_connection_all(&more[i], &code, 1, false, until_s) &&
                  code == WEFT_PLACE_WELCOME;
        if (called[i] && !fine[i]) wefti_connection_close(&more[i]);
    }
}

bool wefti_streams_room(wefti_connection *first, int n, uint64_t token) {
    first->more = n > 1 ? calloc((size_t)n - 1, sizeof *first->more) : NULL;
    first->n_more = first->more ? n - 1 : 0;
    first->token = token;
    for (int i = 0; i < first->n_more; i++) first->more[i] = wefti_connection_of(-1);
    return first->n_more == n - 1;
}

bool wefti_streams_open(const wefti_tls_context *tls, wefti_connection *first, int rank,
                        double until_s) {
    const wefti_stream_card card = {.rank = rank, .token = first->token};
    for (;;) {
        int missing = 0;
        call(tls, first, card, first->n_more, until_s, first->more);
        for (int i = 0; i < first->n_more; i++) missing += first->more[i].fd < 0;
        if (missing == 0) break;
        if (wefti_now_s() + again_s > until_s) return false;
        wefti_sleep_until_s(wefti_now_s() + again_s);
    }
    for (int i = 0; i < first->n_more; i++) first->more[i].stop = NULL;
    return true;
}

bool wefti_streams_take(wefti_connection *first, const wefti_stream_card *card,
                        wefti_connection *s) {
    unsigned char code = WEFT_PLACE_WELCOME;
    struct iovec part = {&code, 1};
    if (first->fd < 0 || card->number > first->n_more || card->token != first->token ||
        first->more[card->number - 1].fd >= 0 || wefti_connection_write(s, &part, 1) != 1)
        return false;
    first->more[card->number - 1] = *s;
    return true;
}
