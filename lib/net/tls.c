/* SPDX-License-Identifier: MIT */
/* OpenSSL does the cryptography; the socket stays ours. Our BIO reads and writes the
 * stream's socket and notes when it is empty or full, so that the kernel is never asked in
 * vain. Short frames share a record of 16 KB, and on a fast wire several records share a
 * call of the kernel. What was encrypted but not sent is not counted as written: the caller
 * passes these bytes again, and they are skipped.
 *
 *     frames -> records of 16 KB -> out -> socket        socket -> 64 KB -> SSL_read
 *
 * The key used in the handshake is HKDF-SHA256(key of the file, salt "weft 2", name of the
 * run): the file's key itself is used for nothing else, and a peer of one run is a stranger
 * to another run.
 *
 * The limit of AES-GCM, 2^24.5 records with one key, is kept by counting records; OpenSSL
 * does not do this. */
#define _GNU_SOURCE
#include "net/tls.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include "net/connection.h"

enum { RECORD_BYTES = 16 << 10, READ_BYTES = 64 << 10, MOST_AHEAD = 256 << 10 };
static const int64_t key_records = (int64_t)1 << 23;
static const unsigned char identity[] = "weft 2";
static const unsigned char aes_128_gcm[] = {0x13, 0x01};

struct wefti_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *method;
    unsigned char key[WEFTI_KEY_BYTES];
    bool has_certificate;
    int64_t key_records;
};

struct wefti_tls {
    SSL *ssl;
    BIO *bio; /* the SSL's */
    const wefti_tls_context *context;
    int64_t n_records; /* sent with the current key */
    int n_updates;
    wefti_connection *s;  /* borrowed, during a call */
    unsigned char *out;   /* [n_room] encrypted */
    size_t n_out, n_sent; /* bytes of it, and how many of them the socket has */
    size_t n_room;
    size_t n_held; /* bytes of the caller that out stands for */
    int n_staged;  /* bytes of a record that was not encrypted yet */
    unsigned char staged[RECORD_BYTES];
};

/* --- the key --- */

static int digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = tolower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_key(const char *text, unsigned char *key) {
    for (int i = 0; i < WEFTI_KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0) return false;
        key[i] = (unsigned char)(high * 16 + low);
    }
    const char *rest = text + (size_t)2 * WEFTI_KEY_BYTES;
    return rest[strspn(rest, " \r\n")] == 0;
}

static weft_status read_key(weft_ctx *ctx, int fd, const char *path, unsigned char *key) {
    struct stat info;
    char text[2 * WEFTI_KEY_BYTES + 8] = {0};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "the key %s is not a file", path);
    if (info.st_mode & 077)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "others may read or change the key %s (mode %03o), expected "
                             "mode 600: chmod 600 %s",
                             path, (unsigned)info.st_mode & 0777, path);
    ssize_t n = read(fd, text, sizeof text - 1);
    bool fine = n >= 0 && parse_key(text, key);
    memset(text, 0, sizeof text);
    if (fine && key[0] == 0 && memcmp(key, key + 1, WEFTI_KEY_BYTES - 1) == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "the key %s is all zeros, expected random bytes, as weft key new writes them",
            path);
    if (fine) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_FORMAT,
        "%s holds no key, expected 64 hexadecimal digits, as weft key new writes them",
        path);
}

weft_status wefti_key_read(weft_ctx *ctx, const char *path, unsigned char *key) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open the key %s: %s", path,
                             strerror(errno));
    weft_status status = read_key(ctx, fd, path, key);
    close(fd);
    return status;
}

/* --- the socket below --- */

static int bio_read(BIO *bio, char *into, int n) {
    wefti_connection *s = ((wefti_tls *)BIO_get_data(bio))->s;
    BIO_clear_retry_flags(bio);
    if (n <= 0) return 0;
    ssize_t got = -1;
    errno = EAGAIN;
    if (s->unread) got = recv(s->fd, into, (size_t)n, MSG_DONTWAIT);
    bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (later) BIO_set_retry_read(bio);
    if (got < 0) s->unread = errno == EINTR;
    if (got > 0 && got < n && !s->ending) s->unread = false;
    return (int)got;
}

/* Sends what was encrypted; false: the socket does not take all of it now, or has ended. */
static bool flush(wefti_tls *tls) {
    wefti_connection *s = tls->s;
    while (tls->n_sent < tls->n_out) {
        size_t left = tls->n_out - tls->n_sent;
        if (!s->writable) return false;
        ssize_t got = send(s->fd, tls->out + tls->n_sent, left,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            s->error = ECONNRESET;
            s->ended = true;
            return false;
        }
        if (got < (ssize_t)left) s->writable = got < 0 && errno == EINTR;
        if (got > 0) tls->n_sent += (size_t)got;
    }
    tls->n_out = tls->n_sent = 0;
    return true;
}

/* Keeps the bytes until flush. */
static int bio_write(BIO *bio, const char *from, int n) {
    wefti_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0) return 0;
    if (tls->n_room - tls->n_out < (size_t)n) {
        size_t room = 2 * tls->n_out + (size_t)n;
        unsigned char *out = realloc(tls->out, room);
        if (!out) return -1;
        tls->out = out;
        tls->n_room = room;
    }
    memcpy(tls->out + tls->n_out, from, (size_t)n);
    tls->n_out += (size_t)n;
    return n;
}

static long bio_control(BIO *bio, int command, long number, void *data) {
    (void)bio;
    (void)number;
    (void)data;
    return command == BIO_CTRL_FLUSH; /* each call of ours flushes at its end */
}

/* --- the context --- */

static SSL_SESSION *session_of(SSL *ssl) {
    const wefti_tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && cipher &&
        SSL_SESSION_set1_master_key(session, c->key, sizeof c->key) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id,
                     size_t *n_id, SSL_SESSION **session) {
    (void)digest; /* every allowed suite uses SHA-256 */
    *id = identity;
    *n_id = sizeof identity - 1;
    *session = session_of(ssl);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t n_id,
                    SSL_SESSION **session) {
    bool ours = n_id == sizeof identity - 1 && memcmp(id, identity, n_id) == 0;
    *session = ours ? session_of(ssl) : NULL;
    return !ours || *session != NULL;
}

static weft_status fail_tls(weft_ctx *ctx, const char *what, const char *path) {
    char why[160] = "unknown error";
    unsigned long code = ERR_get_error();
    if (code) ERR_error_string_n(code, why, sizeof why);
    ERR_clear_error();
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s%s: %s", what, path ? " " : "",
                         path ? path : "", why);
}

/* ChaCha20 is faster on processors without AES instructions. */
static bool prefers_chacha(void) {
#if defined(__x86_64__)
    return !__builtin_cpu_supports("aes");
#else
    return false;
#endif
}

static bool set_up(SSL_CTX *ssl) {
    const char *suites = prefers_chacha()
                             ? "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"
                             : "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_default_read_buffer_len(ssl, READ_BYTES);
    /* A peer without the key is not trusted. */
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(ssl, suites) && SSL_CTX_set_num_tickets(ssl, 0) &&
           SSL_CTX_set1_groups_list(ssl, "X25519:P-256");
}

static weft_status use_certificate(weft_ctx *ctx, SSL_CTX *ssl,
                                   const weft_mesh_security *security) {
    if (!security->cert_key || !security->ca)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "mesh.cert is %s, expected mesh.cert_key and mesh.ca with it",
            security->cert);
    if (SSL_CTX_use_certificate_chain_file(ssl, security->cert) != 1)
        return fail_tls(ctx, "could not use the certificate", security->cert);
    if (SSL_CTX_use_PrivateKey_file(ssl, security->cert_key, SSL_FILETYPE_PEM) != 1)
        return fail_tls(ctx, "could not use the certificate's key", security->cert_key);
    if (SSL_CTX_load_verify_locations(ssl, security->ca, NULL) != 1)
        return fail_tls(ctx, "could not use the authority", security->ca);
    return WEFT_OK;
}

/* Derives the run's key from the file's key; in place. */
static bool derive(unsigned char *key, const char *run) {
    union {
        const unsigned char *in;
        void *param;
    } salt = {.in = identity};
    union {
        const char *in;
        void *param;
    } info = {.in = run}, digest = {.in = "SHA256"};
    unsigned char file_key[WEFTI_KEY_BYTES];
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *hkdf = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    memcpy(file_key, key, sizeof file_key);
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.param, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, file_key, sizeof file_key),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.param,
                                          sizeof identity - 1),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.param, strlen(run)),
        OSSL_PARAM_construct_end()};
    bool done = hkdf && EVP_KDF_derive(hkdf, key, WEFTI_KEY_BYTES, params) == 1;
    OPENSSL_cleanse(file_key, sizeof file_key);
    EVP_KDF_CTX_free(hkdf);
    EVP_KDF_free(kdf);
    return done;
}

static weft_status use_key(weft_ctx *ctx, wefti_tls_context *c,
                           const weft_mesh_security *security) {
    WEFT_TRY(wefti_key_read(ctx, security->key, c->key));
    if (!derive(c->key, security->run ? security->run : ""))
        return fail_tls(ctx, "could not derive the run's key", NULL);
    SSL_CTX_set_psk_use_session_callback(c->ssl, offer_key);
    SSL_CTX_set_psk_find_session_callback(c->ssl, find_key);
    return WEFT_OK;
}

static weft_status fill(weft_ctx *ctx, wefti_tls_context *c,
                        const weft_mesh_security *security) {
    c->key_records = key_records;
    c->ssl = SSL_CTX_new(TLS_method());
    c->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
    if (!c->ssl || !c->method || !BIO_meth_set_read(c->method, bio_read) ||
        !BIO_meth_set_write(c->method, bio_write) ||
        !BIO_meth_set_ctrl(c->method, bio_control) || !set_up(c->ssl))
        return fail_tls(ctx, "could not prepare TLS", NULL);
    SSL_CTX_set_app_data(c->ssl, c);
    c->has_certificate = security->cert != NULL;
    return c->has_certificate ? use_certificate(ctx, c->ssl, security)
                              : use_key(ctx, c, security);
}

weft_status wefti_tls_context_create(weft_ctx *ctx, const weft_mesh_security *security,
                                     wefti_tls_context **out) {
    *out = NULL;
    if (!security || security->plain || (!security->key && !security->cert))
        return WEFT_OK;
    wefti_tls_context *c = calloc(1, sizeof *c);
    if (!c) return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for TLS");
    weft_status status = fill(ctx, c, security);
    if (status == WEFT_OK)
        *out = c;
    else
        wefti_tls_context_destroy(c);
    return status;
}

void wefti_tls_context_destroy(wefti_tls_context *c) {
    if (!c) return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->method);
    OPENSSL_cleanse(c->key, sizeof c->key);
    free(c);
}

void wefti_tls_set_key_records(wefti_tls_context *context, int64_t n_records) {
    context->key_records = n_records;
}

int wefti_tls_key_updates(const wefti_tls *tls) { return tls->n_updates; }

/* --- a connection --- */

wefti_tls *wefti_tls_create(const wefti_tls_context *context, bool answers) {
    wefti_tls *tls = calloc(1, sizeof *tls);
    if (!tls) return NULL;
    tls->context = context;
    tls->ssl = SSL_new(context->ssl);
    tls->bio = BIO_new(context->method);
    if (!tls->ssl || !tls->bio) {
        BIO_free(tls->bio);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    BIO_set_init(tls->bio, 1);
    BIO_set_data(tls->bio, tls);
    SSL_set_bio(tls->ssl, tls->bio, tls->bio);
    if (answers) /* OpenSSL needs this where it may request certificates */
        (void)SSL_set_session_id_context(tls->ssl, identity, sizeof identity - 1);
    if (answers)
        SSL_set_accept_state(tls->ssl);
    else
        SSL_set_connect_state(tls->ssl);
    return tls;
}

void wefti_tls_destroy(wefti_tls *tls) {
    if (!tls) return;
    SSL_free(tls->ssl);
    free(tls->out);
    free(tls);
}

void wefti_tls_read_exactly(wefti_tls *tls) { SSL_set_read_ahead(tls->ssl, 0); }

static void begin(wefti_tls *tls, wefti_connection *s) {
    ERR_clear_error();
    tls->s = s;
}

/* A peer is a member if it has the key, or a certificate where certificates are used. */
static bool is_member(const wefti_tls *tls) {
    if (!tls->context->has_certificate) return SSL_session_reused(tls->ssl) == 1;
    return SSL_get_verify_result(tls->ssl) == X509_V_OK;
}

wefti_shake wefti_tls_shake(wefti_tls *tls, wefti_connection *s, bool *refused) {
    begin(tls, s);
    int done = SSL_do_handshake(tls->ssl), why = SSL_get_error(tls->ssl, done);
    bool sent = flush(tls);
    *refused = false;
    if (done == 1 && is_member(tls) && sent) return WEFTI_SHAKE_DONE;
    s->readable = s->unread;
    if (done == 1 ? is_member(tls)
                  : why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return s->ended ? WEFTI_SHAKE_FAILED : WEFTI_SHAKE_AGAIN;
    unsigned long code = ERR_peek_error();
    *refused = done == 1 || (why == SSL_ERROR_SSL &&
                             ERR_GET_REASON(code) != SSL_R_UNEXPECTED_EOF_WHILE_READING);
    ERR_clear_error();
    return WEFTI_SHAKE_FAILED;
}

/* A value of the connection's keys (RFC 8446, 7.5). */
bool wefti_tls_secret(const wefti_tls *tls, unsigned char *secret) {
    static const char label[] = "EXPORTER-weft-resume";
    return SSL_export_keying_material(tls->ssl, secret, WEFTI_SECRET_BYTES, label,
                                      sizeof label - 1, NULL, 0, 0) == 1;
}

/* HMAC-SHA256(secret, value of this connection, bytes) */
bool wefti_tls_prove(const wefti_tls *tls, const unsigned char *secret, const void *bytes,
                     size_t n, unsigned char *proof) {
    unsigned char text[WEFTI_SECRET_BYTES + 128] = {0};
    unsigned length = 0;
    if (n > sizeof text - WEFTI_SECRET_BYTES || (tls && !wefti_tls_secret(tls, text)))
        return false;
    memcpy(text + WEFTI_SECRET_BYTES, bytes, n);
    return HMAC(EVP_sha256(), secret, WEFTI_SECRET_BYTES, text, WEFTI_SECRET_BYTES + n,
                proof, &length) != NULL &&
           length == WEFTI_SECRET_BYTES;
}

bool wefti_tls_proves(const wefti_tls *tls, const unsigned char *secret,
                      const void *bytes, size_t n, const unsigned char *proof) {
    unsigned char own[WEFTI_SECRET_BYTES];
    return wefti_tls_prove(tls, secret, bytes, n, own) &&
           CRYPTO_memcmp(own, proof, sizeof own) == 0;
}

/* Whether the operation only has to be retried; otherwise the connection has ended. */
static bool is_later(wefti_tls *tls, wefti_connection *s, int result) {
    int why = SSL_get_error(tls->ssl, result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return true;
    (void)flush(tls); /* an alert */
    s->error = why == SSL_ERROR_ZERO_RETURN ? 0 : ECONNRESET;
    if (why == SSL_ERROR_SSL &&
        ERR_GET_REASON(ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
        s->error = EPROTO;
    ERR_clear_error();
    s->ended = true;
    return false;
}

size_t wefti_tls_read(wefti_tls *tls, wefti_connection *s, void *into, size_t n) {
    size_t done = 0;
    begin(tls, s);
    while (done < n) {
        size_t got = 0;
        int result = SSL_read_ex(tls->ssl, (char *)into + done, n - done, &got);
        done += got;
        if (result == 1) continue;
        if (is_later(tls, s, result)) s->readable = s->unread;
        break;
    }
    return done;
}

/* What the next record holds of the parts, from byte `from` on: bytes of one part, or of
 * several short ones, copied into `staged`. */
static const void *record_of(wefti_tls *tls, const struct iovec *parts, int n_parts,
                             size_t from, int *n_bytes) {
    for (int i = 0; i < n_parts && tls->n_staged < RECORD_BYTES; i++) {
        size_t length = parts[i].iov_len, skipped = from < length ? from : length;
        size_t room = (size_t)(RECORD_BYTES - tls->n_staged), n = length - skipped;
        const char *data = (const char *)parts[i].iov_base + skipped;
        from -= skipped;
        if (n > room) n = room;
        if (n == 0) continue;
        *n_bytes = RECORD_BYTES;
        if (n == RECORD_BYTES) return data;
        memcpy(tls->staged + tls->n_staged, data, n);
        tls->n_staged += (int)n;
    }
    *n_bytes = tls->n_staged;
    return tls->staged;
}

static void count_record(wefti_tls *tls) {
    if (++tls->n_records < tls->context->key_records) return;
    tls->n_records = 0;
    tls->n_updates += SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
}

/* Encrypts records from the parts, those after what is held, as far as the wire needs them
 * now. */
static void encrypt_parts(wefti_tls *tls, wefti_connection *s, const struct iovec *parts,
                          int n_parts, size_t done) {
    /* of a connection that may go on, what the peer has read is known to have been sent */
    size_t most = s->kept ? 0 : s->ahead < MOST_AHEAD ? s->ahead : MOST_AHEAD;
    do {
        int n;
        size_t got, from = done + tls->n_held;
        if (tls->n_staged > 0) from = SIZE_MAX;
        const void *record = record_of(tls, parts, n_parts, from, &n);
        if (n == 0) return;
        int result = SSL_write_ex(tls->ssl, record, (size_t)n, &got);
        if (result != 1) (void)is_later(tls, s, result);
        if (result != 1) return;
        tls->n_held += (size_t)n;
        tls->n_staged = 0;
        count_record(tls);
    } while (tls->n_out < most);
}

size_t wefti_tls_write(wefti_tls *tls, wefti_connection *s, const struct iovec *parts,
                       int n_parts) {
    size_t done = 0;
    begin(tls, s);
    while (s->fd >= 0 && !s->ended) {
        if (tls->n_out == 0) encrypt_parts(tls, s, parts, n_parts, done);
        if (tls->n_out == 0 || !flush(tls)) break;
        done += tls->n_held;
        tls->n_held = 0;
    }
    return done;
}

void wefti_tls_say_end(wefti_tls *tls, wefti_connection *s) {
    begin(tls, s);
    if (SSL_is_init_finished(tls->ssl)) (void)SSL_shutdown(tls->ssl);
    (void)flush(tls);
    ERR_clear_error();
}
