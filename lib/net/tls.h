/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <sys/uio.h>

#include <weft/mesh.h>

/* TLS 1.3 over a stream's socket. A process with the run's key (32 random bytes in a file),
 * or with a certificate of the run's authority, is a member. Each connection has keys of
 * its own, which the file alone does not reveal afterwards (psk_dhe_ke). */

struct wefti_connection;
typedef struct wefti_tls_context wefti_tls_context;
typedef struct wefti_tls wefti_tls;

/* The most that a TLS layer may hold of an incomplete message: part of a record. */
enum { WEFTI_TLS_BUFFERED = 17 << 10 };

enum { WEFTI_KEY_BYTES = 32 };

/* [out] key[WEFTI_KEY_BYTES], read from a file of 64 hexadecimal digits, which only its
 * owner may read. */
weft_status wefti_key_read(weft_ctx *ctx, const char *path,
                           unsigned char *key) WEFT_CHECKED;

/* *out is NULL if nothing is to be encrypted. Must be destroyed after the connections
 * created with it. */
weft_status wefti_tls_context_create(weft_ctx *ctx, const weft_mesh_security *security,
                                     wefti_tls_context **out) WEFT_CHECKED;
void wefti_tls_context_destroy(wefti_tls_context *context);

/* The sending key is replaced after n_records records; for tests. */
void wefti_tls_set_key_records(wefti_tls_context *context, int64_t n_records);

/* How often this side has replaced its sending key. */
int wefti_tls_key_updates(const wefti_tls *tls);

/* `answers`: the side that was called. NULL: no memory. */
wefti_tls *wefti_tls_create(const wefti_tls_context *context, bool answers);
void wefti_tls_destroy(wefti_tls *tls);

/* Reads no byte behind the record that it needs: what follows may not be of this layer. */
void wefti_tls_read_exactly(wefti_tls *tls);

typedef enum wefti_shake {
    WEFTI_SHAKE_DONE,
    WEFTI_SHAKE_AGAIN,
    WEFTI_SHAKE_FAILED
} wefti_shake;

/* Continues the handshake. AGAIN: call again when the socket is ready. FAILED: *refused
 * says whether the other side has another key or does not speak TLS; otherwise the
 * connection has ended. */
wefti_shake wefti_tls_shake(wefti_tls *tls, struct wefti_connection *s, bool *refused);

/* After the handshake: a secret of this connection, which both ends know and nobody else. */
enum { WEFTI_SECRET_BYTES = 32 };
bool wefti_tls_secret(const wefti_tls *tls, unsigned char *secret);

/* Shows on this connection (NULL: a plain one) that one knows the secret of an earlier one, and
 * says these n bytes: what was shown on another connection, or of other bytes, differs. */
bool wefti_tls_prove(const wefti_tls *tls, const unsigned char *secret, const void *bytes,
                     size_t n, unsigned char *proof);
bool wefti_tls_proves(const wefti_tls *tls, const unsigned char *secret,
                      const void *bytes, size_t n, const unsigned char *proof);

/* Like wefti_connection_read and wefti_connection_write. */
size_t wefti_tls_read(wefti_tls *tls, struct wefti_connection *s, void *into, size_t n);
size_t wefti_tls_write(wefti_tls *tls, struct wefti_connection *s,
                       const struct iovec *parts, int n_parts);

/* Tells the other side that this is an orderly end, if the socket accepts it. */
void wefti_tls_say_end(wefti_tls *tls, struct wefti_connection *s);
