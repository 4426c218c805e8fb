/* SPDX-License-Identifier: MIT */
/* A communicator without other ranks: it writes down what is asked of it, in one thread, and
 * delivers the messages that a test has laid into its inbox.
 *
 *     log    "S2 S0 W R0 L0": sent to 2, sent to 0, waited for own messages, received from 0,
 *            released; a test adds its own words
 *
 * So the order of a collective's calls is a text that a test compares. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "check.h"
#include "comm/comm.h"

enum { FAKE_MESSAGES = 64, FAKE_BYTES = 256, FAKE_LOG = 2000 };

typedef struct fake_message {
    int peer;
    int64_t tag, n_bytes;
    unsigned char bytes[FAKE_BYTES];
    const void *data; /* of a message that was sent */
    bool taken, released;
} fake_message;

typedef struct fake_comm {
    wefti_comm comm; /* first */
    fake_message inbox[FAKE_MESSAGES], sent[FAKE_MESSAGES];
    int n_inbox, n_sent;
    int64_t awaited; /* tag of the last await */
    bool holds_all;  /* no message that was sent has been read */
    char log[FAKE_LOG];
} fake_comm;

static inline void fake_note(fake_comm *f, const char *format, ...) {
    size_t n = strlen(f->log);
    va_list args;
    if (n > 0 && n + 1 < sizeof f->log) f->log[n++] = ' ';
    va_start(args, format);
    vsnprintf(f->log + n, sizeof f->log - n, format, args);
    va_end(args);
}

/* Compares the log with `wanted` and empties it. */
static inline void assert_log(fake_comm *f, const char *wanted) {
    assert_string_equal(f->log, wanted);
    f->log[0] = '\0';
}

static inline weft_status fake_send(wefti_comm *comm, int peer, int64_t tag,
                                    const void *data, int64_t n_bytes) {
    fake_comm *f = (fake_comm *)comm;
    assert_true(f->n_sent < FAKE_MESSAGES && n_bytes <= FAKE_BYTES);
    fake_message *m = &f->sent[f->n_sent++];
    *m = (fake_message){.peer = peer, .tag = tag, .n_bytes = n_bytes, .data = data};
    memcpy(m->bytes, data, (size_t)n_bytes);
    fake_note(f, "S%d", peer);
    return WEFT_OK;
}

static inline fake_message *fake_find(fake_comm *f, int peer, int64_t tag) {
    for (int i = 0; i < f->n_inbox; i++) {
        fake_message *m = &f->inbox[i];
        if (m->peer == peer && m->tag == tag && !m->released) return m;
    }
    return NULL;
}

static inline weft_status fake_receive(wefti_comm *comm, int peer, int64_t tag,
                                       int64_t n_bytes, const void **view) {
    fake_comm *f = (fake_comm *)comm;
    fake_message *m = fake_find(f, peer, tag);
    fake_note(f, "R%d", peer);
    if (!m || m->taken) fail_msg("nothing has come from rank %d: %s", peer, f->log);
    if (m->n_bytes != n_bytes)
        return weft_ctx_fail(comm->ctx, WEFT_ERR_WIRE, "another length");
    m->taken = true;
    *view = m->bytes;
    return WEFT_OK;
}

/* Nothing comes while a test waits: what is not there is late. */
static inline weft_status fake_receive_by(wefti_comm *comm, int peer, int64_t tag,
                                          int64_t n_bytes, double deadline_s,
                                          const void **view) {
    fake_comm *f = (fake_comm *)comm;
    (void)deadline_s;
    *view = NULL;
    if (fake_find(f, peer, tag)) return fake_receive(comm, peer, tag, n_bytes, view);
    fake_note(f, "-%d", peer);
    return WEFT_OK;
}

static inline void fake_release(wefti_comm *comm, int peer, int64_t tag) {
    fake_comm *f = (fake_comm *)comm;
    fake_message *m = fake_find(f, peer, tag);
    fake_note(f, "L%d", peer);
    if (!m || !m->taken) fail_msg("released what was not received: %s", f->log);
    m->released = true;
    memset(m->bytes, 0xee, sizeof m->bytes); /* nobody may read it any more */
}

static inline weft_status fake_await(wefti_comm *comm, int64_t tag) {
    fake_comm *f = (fake_comm *)comm;
    f->awaited = tag;
    fake_note(f, "W");
    return WEFT_OK;
}

static inline bool fake_holds(wefti_comm *comm, const void *data) {
    fake_comm *f = (fake_comm *)comm;
    bool sent = false;
    for (int i = 0; i < f->n_sent; i++) sent |= f->sent[i].data == data;
    return sent && f->holds_all;
}

static const wefti_comm_ops fake_ops = {
    .name = "fake",
    .send = fake_send,
    .receive = fake_receive,
    .receive_by = fake_receive_by,
    .release = fake_release,
    .await = fake_await,
    .holds = fake_holds,
};

/* Rank `rank` of `size`. */
static inline void fake_begin(fake_comm *f, weft_ctx *ctx, int rank, int size) {
    memset(f, 0, sizeof *f);
    f->comm = (wefti_comm){.ops = &fake_ops, .ctx = ctx, .rank = rank, .size = size};
}

/* Lays a message from `peer` into the inbox; returns where its bytes lie. */
static inline unsigned char *fake_deliver(fake_comm *f, int peer, int64_t tag,
                                          const void *bytes, int64_t n_bytes) {
    assert_true(f->n_inbox < FAKE_MESSAGES && n_bytes <= FAKE_BYTES);
    fake_message *m = &f->inbox[f->n_inbox++];
    *m = (fake_message){.peer = peer, .tag = tag, .n_bytes = n_bytes};
    memcpy(m->bytes, bytes, (size_t)n_bytes);
    return m->bytes;
}
