/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The bytes of a connection that the other end may not have read yet: they are sent again when
 * the connection goes on by another socket (start/tcp_resume.c). Places in the stream are counted
 * from its first byte. Memory grows with what is on its way, up to WEFTI_RESEND_BYTES; beyond that,
 * or without memory, nothing is kept any more. */
enum { WEFTI_RESEND_BYTES = 64 << 20 };

typedef struct wefti_resend {
    unsigned char *ring; /* [room], a power of 2; byte i of the stream is at i % room */
    size_t room;
    int64_t begin, end; /* it has these bytes, */
    int64_t again;      /* and those from this one on are to be sent again */
    bool lost;          /* some bytes are gone, so it is of no use */
} wefti_resend;

wefti_resend *wefti_resend_create(void); /* NULL: no memory */
void wefti_resend_destroy(wefti_resend *k);

/* The first n bytes of the parts were sent. */
void wefti_resend_add(wefti_resend *k, const struct iovec *parts, int n_parts, size_t n);

/* The other end has read up to `end`, given by its lowest 32 bits; nonsense is ignored. */
void wefti_resend_confirm(wefti_resend *k, uint32_t end);

/* Everything from here on is to be sent again; false: it does not have all of that. */
bool wefti_resend_rewind(wefti_resend *k, int64_t from);

/* What is to be sent again, in at most two parts; returns their number. */
int wefti_resend_rest(const wefti_resend *k, struct iovec *parts);
