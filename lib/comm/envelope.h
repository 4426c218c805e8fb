/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What goes in front of a message between processes (docs/wire-format.md, "Envelopes").
 * Little-endian:
 *
 *     offset bytes
 *          0    4  magic "wefM"
 *          4    1  version, 3
 *          5    1  kind
 *          6    6  bytes of the message
 *         12    4  channel of the communicator, below 2^31
 *         16    8  tag
 *
 * A short message follows at once; a long one comes in pieces: messages without an
 * envelope, in order, whose sum is its length. */
typedef enum wefti_envelope_kind {
    WEFTI_ENVELOPE_HELLO = 1, /* the first message: the sender's program */
    WEFTI_ENVELOPE_SHORT,     /* a whole message */
    WEFTI_ENVELOPE_LONG,      /* a message whose pieces follow */
    WEFTI_ENVELOPE_ALIVE,     /* a sign of life; tag = the step */
    WEFTI_ENVELOPE_FAILED,    /* a rank failed; tag = its number, and whether the sender
                                 comes back (WEFTI_RETURNS); channel = the status */
    WEFTI_ENVELOPE_BYE        /* the last message */
} wefti_envelope_kind;

enum { WEFTI_ENVELOPE_BYTES = 24, WEFTI_SHORT_BYTES = 4096 };

typedef struct wefti_envelope {
    wefti_envelope_kind kind;
    int channel;
    int64_t tag;
    int64_t n_bytes;
} wefti_envelope;

void wefti_envelope_encode(const wefti_envelope *envelope, unsigned char *out);

/* False: these n_arrived bytes are not an envelope of weft, or not as long as it says. */
bool wefti_envelope_decode(const unsigned char *bytes, int64_t n_arrived,
                           wefti_envelope *out);
