/* SPDX-License-Identifier: MIT */
/* The network between the machines, and what a kernel does for it. A connection is a file at each
 * end. What one end sends is a list of parcels on the way to the other, in order, each with the
 * time of its arrival:
 *
 *     sent -> interface of the host (its rate) -> latency -> link: cut, slow -> receiver's buffer
 *
 * TCP loses nothing: a parcel that meets a cut link arrives when the cut is over, a little later,
 * as one sent again. What arrives at an end that nobody has is answered by a reset, and what
 * arrives at a machine that is off is lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "world.h"

enum { WINDOW = 128 << 10, BACKLOG = 64 };

host hosts[MAX_HOSTS + 1];
link_state links[MAX_HOSTS + 1][MAX_HOSTS + 1];
bool wire_loses, wire_secret;
static file *all_files[1 << 16];
static int n_all, n_ports;

file *file_new(file_kind kind, int at) {
    file *f = calloc(1, sizeof *f);
    f->kind = kind;
    f->refs = 1;
    f->host = at;
    f->epoch = hosts[at].epoch;
    f->lowat = 1;
    f->number = n_all;
    if (n_all == (int)(sizeof all_files / sizeof *all_files)) {
        fail_world("more than %d files", n_all);
        return f;
    }
    all_files[n_all++] = f;
    return f;
}

/* --- readiness --- */

static int room(const file *f) {
    if (!f->peer) return 0;
    return WINDOW - f->peer->flying - f->peer->n_in;
}

uint32_t file_mask(const file *f) {
    uint32_t m = 0;
    if (f->kind == LISTENER || f->kind == ENDPOINT) return f->n_queue > 0 ? EPOLLIN : 0;
    if (f->kind == EVENT) return EPOLLOUT | (f->count > 0 ? (uint32_t)EPOLLIN : 0);
    if (f->kind == LIFE) return f->subject->dead ? EPOLLIN : 0;
    if (f->kind == EPOLL) return 0;
    if (f->state == FRESH) return EPOLLOUT | EPOLLHUP;
    if (f->state == CALLING) return 0;
    if (f->state == BROKEN) m |= EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    if (f->n_in >= f->lowat || f->ended) m |= EPOLLIN;
    if (f->ended) m |= EPOLLRDHUP;
    if (f->ended && f->ending) m |= EPOLLHUP;
    if (room(f) >= WINDOW / 3) m |= EPOLLOUT;
    return m;
}

void file_edge(file *f) {
    f->edges++;
    fiber_wake(&hosts[f->host], true);
}

/* --- on the way --- */

static void pump(void *argument);

static void plan_pump(file *to, int64_t when_ns) {
    if (to->pumped) return;
    to->pumped = true;
    at_time(when_ns, pump, to);
}

static int64_t travel(int from, int to, size_t n) {
    int64_t begin = w.now_ns, spike = 0;
    if (from == to) return w.now_ns + draw_between(5000, 40000);
    host *h = &hosts[from];
    if (h->free_ns > begin) begin = h->free_ns;
    h->free_ns = begin + (int64_t)((double)n * h->byte_ns);
    if (wire_loses && draw_one_in(40))
        spike = draw_between(200, 900) * MS; /* sent again */
    const link_state *l = &links[from][to];
    if (l->slow_ns > w.now_ns) spike += l->delay_ns;
    int64_t latency = h->latency_ns + hosts[to].latency_ns;
    return h->free_ns + latency + draw_between(0, latency / 4 + 1) + spike;
}

static void post(file *to, int from_host, char kind, const void *bytes, size_t n) {
    parcel *p = calloc(1, sizeof *p + n);
    p->kind = kind;
    p->n = (int)n;
    p->sent_ns = w.now_ns;
    if (n) memcpy(p->bytes, bytes, n);
    p->arrive_ns = travel(from_host, to->host, n + 60);
    if (p->arrive_ns < to->last_ns) p->arrive_ns = to->last_ns;
    to->last_ns = p->arrive_ns;
    if (to->last)
        to->last->next = p;
    else
        to->first = p;
    to->last = p;
    to->flying += (int)n;
    plan_pump(to, to->first->arrive_ns);
}

static void drop_parcel(file *to) {
    parcel *p = to->first;
    to->first = p->next;
    if (!to->first) to->last = NULL;
    to->flying -= p->n;
    free(p);
}

static void drop_all(file *to) {
    while (to->first) drop_parcel(to);
}

static void store(file *to, const char *bytes, int n) {
    if (to->first_in + to->n_in + n > to->max_in) {
        int most = to->n_in + n > 4096 ? 2 * (to->n_in + n) : 8192;
        char *in = malloc((size_t)most);
        if (to->n_in) memcpy(in, to->in + to->first_in, (size_t)to->n_in);
        free(to->in);
        to->in = in;
        to->first_in = 0;
        to->max_in = most;
    }
    memcpy(to->in + to->first_in + to->n_in, bytes, (size_t)n);
    to->n_in += n;
}

static void break_stream(file *f, int error) {
    if (f->state == BROKEN) return;
    f->state = BROKEN;
    f->error = error;
    f->ended = true;
    drop_all(f);
    file_edge(f);
}

static void reset_peer(file *f) {
    if (f->peer && f->peer->state != BROKEN) post(f->peer, f->host, 'r', NULL, 0);
}

static void arrive(file *to, const parcel *p) {
    if ((p->kind == 'd' || p->kind == 'a') && to->closed) {
        reset_peer(to);
        return;
    }
    if (p->kind == 'r') {
        break_stream(to, to->state == CALLING ? ECONNREFUSED : ECONNRESET);
        return;
    }
    if (p->kind == 'd') {
        for (int i = 0; i < p->n && !wire_secret; i++) mix((unsigned char)p->bytes[i]);
        mix((uint64_t)to->number << 32 ^ (uint64_t)p->n);
        if (to->peer) to->peer->unconfirmed -= p->n;
        store(to, p->bytes, p->n);
        if (to->n_in >= to->lowat) file_edge(to);
        return;
    }
    if (p->kind == 'f') to->ended = true;
    if (p->kind == 'a' && to->state == CALLING) to->state = OPEN;
    if (p->kind == 'n') {
        break_stream(to, ECONNREFUSED);
        return;
    }
    file_edge(to);
}

/* A machine that was started again knows nothing of the connection. */
static bool is_forgotten(const file *f) { return f->epoch != hosts[f->host].epoch; }

static void pump(void *argument) {
    file *to = argument;
    to->pumped = false;
    while (to->first) {
        parcel *p = to->first;
        int from = to->peer_host;
        int64_t free_ns = from == to->host ? 0 : links[from][to->host].cut_ns;
        if (p->arrive_ns > w.now_ns) break;
        bool sender_gone = to->peer && is_forgotten(to->peer);
        if (hosts[to->host].off || is_forgotten(to)) {
            if (!hosts[to->host].off) reset_peer(to);
            drop_all(to);
            return;
        }
        if (free_ns > w.now_ns && sender_gone) { /* nobody sends it again */
            drop_all(to);
            return;
        }
        if (free_ns > w.now_ns) {
            int64_t again_ns = 200 * MS, waited_ns = free_ns - p->sent_ns;
            if (waited_ns > again_ns)
                again_ns = waited_ns < 20 * SECOND ? waited_ns / 2 : 10 * SECOND;
            p->arrive_ns = free_ns + (int64_t)(draw_share() * (double)again_ns);
            if (to->last_ns < p->arrive_ns) to->last_ns = p->arrive_ns;
            break;
        }
        to->first = p->next;
        if (!to->first) to->last = NULL;
        to->flying -= p->n;
        arrive(to, p);
        free(p);
    }
    if (to->first) {
        int64_t when_ns = to->first->arrive_ns;
        plan_pump(to, when_ns > w.now_ns ? when_ns : w.now_ns);
    }
}

/* --- calling --- */

file *listener_at(int at, int port) {
    for (int i = 0; i < n_all; i++) {
        file *f = all_files[i];
        if (f->kind == LISTENER && !f->closed && f->host == at && f->port == port &&
            !is_forgotten(f))
            return f;
    }
    return NULL;
}

file *door_at(int at, int number) {
    for (int i = 0; i < n_all; i++) {
        file *f = all_files[i];
        if (f->kind == ENDPOINT && !f->closed && f->host == at && f->port == number &&
            !is_forgotten(f))
            return f;
    }
    return NULL;
}

static void try_call(void *argument);

/* The call has arrived at the other machine. */
static void answer_call(file *f, file *at) {
    int to = f->peer_host;
    const link_state *l = &links[f->host][to];
    bool refused = !at || at->n_queue == BACKLOG ||
                   (f->host != to && l->refuse_ns > w.now_ns);
    if (refused) {
        post(f, to, 'n', NULL, 0);
        return;
    }
    file *s = file_new(STREAM, to);
    s->state = OPEN;
    s->peer = f;
    s->peer_host = f->host;
    s->peer_port = f->local_port;
    s->local_port = at->port;
    s->v6 = at->v6;
    f->peer = s;
    at->queue[at->n_queue++] = s;
    file_edge(at);
    post(f, to, 'a', NULL, 0);
}

static void try_call(void *argument) {
    file *f = argument;
    int to = f->peer_host;
    if (f->closed || f->state != CALLING || is_forgotten(f) || hosts[f->host].off) return;
    bool lost = f->host != to && (links[f->host][to].cut_ns > w.now_ns || hosts[to].off);
    if (!lost) {
        answer_call(f, listener_at(to, f->peer_port));
        return;
    }
    if (f->tries++ >= 6)
        break_stream(f, ETIMEDOUT);
    else
        at_time(w.now_ns + (SECOND << (f->tries - 1)), try_call, f);
}

/* 0, or an error. */
int stream_call(file *f, int to, int port) {
    if (f->state != FRESH) return EISCONN;
    if (to < 1 || to > MAX_HOSTS) return ENETUNREACH;
    f->state = CALLING;
    f->peer_host = to;
    f->peer_port = port;
    f->local_port = 32768 + n_ports++ % 28000;
    at_time(travel(f->host, to, 60), try_call, f);
    return EINPROGRESS;
}

/* A socket of the machine itself: connected at once. */
int door_call(file *f, int number) {
    file *at = door_at(f->host, number);
    if (!at || at->n_queue == BACKLOG) return ECONNREFUSED;
    file *s = file_new(STREAM, f->host);
    s->state = f->state = OPEN;
    s->peer = f;
    f->peer = s;
    s->peer_host = f->peer_host = f->host;
    at->queue[at->n_queue++] = s;
    file_edge(at);
    return 0;
}

/* --- bytes --- */

ssize_t stream_send(file *f, const void *bytes, size_t n) {
    int error = f->state == BROKEN    ? (f->error ? f->error : EPIPE)
                : f->ending           ? EPIPE
                : f->state == CALLING ? EAGAIN
                : f->state != OPEN    ? ENOTCONN
                                      : 0;
    if (f->state == BROKEN) f->error = 0;
    if (!error && room(f) <= 0) error = EAGAIN;
    if (error) {
        errno = error;
        return -1;
    }
    if (n > (size_t)room(f)) n = (size_t)room(f);
    f->n_sent += (int64_t)n;
    f->unconfirmed += (int)n;
    post(f->peer, f->host, 'd', bytes, n);
    return (ssize_t)n;
}

ssize_t stream_receive(file *f, void *bytes, size_t n, bool peek) {
    if (f->n_in > 0) {
        bool was_full = f->peer && room(f->peer) < WINDOW / 3;
        if (n > (size_t)f->n_in) n = (size_t)f->n_in;
        memcpy(bytes, f->in + f->first_in, n);
        if (peek) return (ssize_t)n;
        f->first_in += (int)n;
        f->n_in -= (int)n;
        if (f->n_in == 0) f->first_in = 0;
        if (was_full && room(f->peer) >= WINDOW / 3) file_edge(f->peer);
        return (ssize_t)n;
    }
    if (f->state == BROKEN && f->error) {
        errno = f->error;
        f->error = 0;
        return -1;
    }
    if (f->ended) return 0;
    errno = f->state == OPEN || f->state == CALLING ? EAGAIN : ENOTCONN;
    return -1;
}

void stream_shut(file *f) {
    if (f->ending || f->state != OPEN) return;
    f->ending = true;
    if (f->peer) post(f->peer, f->host, 'f', NULL, 0);
}

static void close_stream(file *f) {
    bool unread = f->n_in > 0;
    if (f->state == OPEN && unread)
        reset_peer(f);
    else
        stream_shut(f);
    f->ending = true;
}

void file_close(file *f) {
    if (--f->refs > 0) return;
    f->closed = true;
    if (f->kind == STREAM) close_stream(f);
    for (int i = 0; i < f->n_queue; i++) {
        reset_peer(f->queue[i]);
        f->queue[i]->closed = true;
    }
    f->n_queue = 0;
}

/* --- faults --- */

/* Somebody on the way sends a reset to both ends. */
void reset_between(int a, int b) {
    for (int i = 0; i < n_all; i++) {
        file *f = all_files[i];
        bool ours = f->kind == STREAM && f->state == OPEN && !f->closed &&
                    ((f->host == a && f->peer_host == b) ||
                     (f->host == b && f->peer_host == a));
        if (ours) break_stream(f, ECONNRESET);
    }
}

void host_off(int h) {
    hosts[h].off = true;
    hosts[h].epoch++; /* nothing that was is known any more, nor says farewell */
    for (int i = 0; i < n_all; i++) {
        file *f = all_files[i];
        if (f->host != h || f->closed) continue;
        f->closed = true;
        f->ending = true;
        if (f->kind == STREAM) f->state = BROKEN;
        f->n_queue = 0;
    }
    for (int i = 0; i < w.n_processes; i++)
        if (w.processes[i]->host == h) {
            memset(w.processes[i]->files, 0, sizeof w.processes[i]->files);
            process_kill(w.processes[i]);
        }
    disk_loses_power(h);
}

void host_on(int h) { hosts[h].off = false; }
