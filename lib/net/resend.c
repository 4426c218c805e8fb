/* SPDX-License-Identifier: MIT */
/* A ring of bytes: byte i of the stream is at i % room. */
#include "net/resend.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4 << 10 };

wefti_resend *wefti_resend_create(void) { return calloc(1, sizeof(wefti_resend)); }

void wefti_resend_destroy(wefti_resend *k) {
    if (k) free(k->ring);
    free(k);
}

/* Up to n bytes from place `at` of the stream on, as far as they lie side by side. */
static size_t stretch(const wefti_resend *k, int64_t at, size_t n,
                      unsigned char **bytes) {
    size_t i = (size_t)at & (k->room - 1);
    *bytes = k->ring + i;
    return n < k->room - i ? n : k->room - i;
}

static bool grow(wefti_resend *k, size_t needed) {
    size_t room = k->room ? k->room : FIRST_ROOM;
    while (room < needed) room *= 2;
    wefti_resend more = {.ring = room <= WEFTI_RESEND_BYTES ? malloc(room) : NULL,
                         .room = room};
    if (!more.ring) return false;
    for (int64_t at = k->begin; at < k->end;) {
        unsigned char *from, *to;
        size_t n = stretch(k, at, (size_t)(k->end - at), &from);
        n = stretch(&more, at, n, &to);
        memcpy(to, from, n);
        at += (int64_t)n;
    }
    free(k->ring);
    k->ring = more.ring;
    k->room = room;
    return true;
}

void wefti_resend_add(wefti_resend *k, const struct iovec *parts, int n_parts, size_t n) {
    size_t needed = (size_t)(k->end - k->begin) + n;
    k->lost = k->lost || (needed > k->room && !grow(k, needed));
    for (int i = 0; i < n_parts && n > 0; i++) {
        const char *from = parts[i].iov_base;
        size_t left = parts[i].iov_len < n ? parts[i].iov_len : n;
        n -= left;
        while (left > 0) {
            unsigned char *to;
            size_t now = k->lost ? left : stretch(k, k->end, left, &to);
            if (!k->lost) memcpy(to, from, now);
            from += now;
            left -= now;
            k->end += (int64_t)now;
        }
    }
    k->again = k->end;
    if (!k->lost) return;
    free(k->ring);
    k->ring = NULL;
    k->room = 0;
    k->begin = k->end;
}

void wefti_resend_confirm(wefti_resend *k, uint32_t end) {
    uint32_t n = end - (uint32_t)k->begin;
    if (n <= (uint64_t)(k->again - k->begin)) k->begin += n;
}

bool wefti_resend_rewind(wefti_resend *k, int64_t from) {
    if (k->lost || from < k->begin || from > k->end) return false;
    k->again = from;
    return true;
}

int wefti_resend_rest(const wefti_resend *k, struct iovec *parts) {
    int n = 0;
    for (int64_t at = k->again; at < k->end; n++) {
        unsigned char *bytes;
        size_t now = stretch(k, at, (size_t)(k->end - at), &bytes);
        parts[n] = (struct iovec){bytes, now};
        at += (int64_t)now;
    }
    return n;
}
