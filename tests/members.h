/* SPDX-License-Identifier: MIT */
#pragma once

/* Processes of a run as threads, connected by weft's own transport over loopback. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "mesh/mesh.h"
#include "start/tcp.h"
#include "net/tls.h"

typedef struct member {
    wefti_tcp_place place;
    const weft_mesh_security *security;
    weft_ctx *ctx;
    weft_mesh *mesh;
    wefti_comm *comm;
    weft_status (*body)(struct member *m);
    weft_status status;
    double silence_s;
    int n_lines; /* of its log */
    char text[1024];
    pthread_t thread;
} member;

static inline int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static inline weft_status live(member *m) {
    weft_transport *transport;
    WEFT_TRY(wefti_tcp_open(m->ctx, &m->place, m->security, &transport));
    WEFT_TRY(weft_mesh_create(m->ctx, transport, &m->mesh));
    wefti_mesh_watch(m->mesh, m->silence_s, NULL, NULL);
    WEFT_TRY(wefti_world_join(m->ctx, &m->mesh->world, m->mesh->rank, WEFTI_GROUP_WORLD,
                              0, &m->comm));
    return m->body ? m->body(m) : WEFT_OK;
}

static inline void count_line(void *user, weft_log_level level, const char *line) {
    member *m = user;
    (void)level;
    m->n_lines += strncmp(line, "somebody at ", 12) == 0;
}

static inline void *member_main(void *argument) {
    member *m = argument;
    m->status = live(m);
    wefti_comm_destroy(m->comm);
    if (m->mesh && m->status != WEFT_OK)
        m->status = weft_mesh_fail(m->ctx, m->mesh, m->status);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    weft_mesh_close(m->mesh);
    return NULL;
}

static inline member member_at(int rank, int size, int port) {
    return (member){.place = {.rank = rank,
                              .size = size,
                              .host = "127.0.0.1",
                              .port = port,
                              .patience_s = 20},
                    .silence_s = 20};
}

static inline void start(member *m) {
    assert_int_equal(ctx_begin(&m->ctx), 0);
    weft_ctx_set_sink(m->ctx, count_line, m);
    assert_int_equal(pthread_create(&m->thread, NULL, member_main, m), 0);
}

static inline void join(member *m) {
    pthread_join(m->thread, NULL);
    assert_int_equal(ctx_end(m->ctx), 0);
}

static inline void expect(const member *m, weft_status status, const char *words) {
    if (m->status != status || !strstr(m->text, words))
        fail_msg("rank %d: %s, '%s', expected '%s'", m->place.rank,
                 weft_status_name(m->status), m->text, words);
}

static inline void write_key(const char *path, char digit, mode_t mode) {
    char text[65];
    memset(text, digit, 64);
    text[64] = '\n';
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    assert_int_equal(write(fd, text, sizeof text), (int)sizeof text);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static inline wefti_tls_context *context_of(const weft_mesh_security *security) {
    weft_ctx *ctx;
    wefti_tls_context *context;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_tls_context_create(ctx, security, &context));
    assert_non_null(context);
    weft_ctx_destroy(ctx);
    return context;
}

/* The two ends of a connection in this process, which never block. */
static inline void make_ends(int ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(fcntl(ends[i], F_SETFL, O_NONBLOCK), 0);
}

static inline int dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
        close(fd);
        wefti_sleep_until_s(wefti_now_s() + 0.01);
    }
    fail_msg("nobody listens at port %d", port);
    return -1;
}

/* Listens where those who see this process at 127.0.0.1 do not reach it, as behind a router. */
static inline int listen_apart(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

static atomic_int talk_rounds, talk_over;

/* Both say a number to each other, again and again, until all is over: then rank 0 says -1. */
static inline weft_status keep_talking(member *m) {
    for (int64_t tag = 1;; tag++) {
        const void *view;
        int64_t mine = m->comm->rank == 0 && atomic_load(&talk_over) ? -1 : tag, theirs;
        WEFT_TRY(wefti_comm_send_all(m->comm, tag, &mine, sizeof mine));
        WEFT_TRY(
            wefti_comm_receive(m->comm, 1 - m->comm->rank, tag, sizeof theirs, &view));
        memcpy(&theirs, view, sizeof theirs);
        wefti_comm_release(m->comm, 1 - m->comm->rank, tag);
        WEFT_TRY(wefti_comm_await(m->comm, tag));
        if (m->comm->rank == 0) atomic_fetch_add(&talk_rounds, 1);
        if (mine < 0 || theirs < 0) return WEFT_OK;
    }
}
