/* SPDX-License-Identifier: MIT */
/* The exchange of a code for keys, and the two streams under them. */
#include "invite/sealed.h"

#include <string.h>

#include "base/bytes.h"

/* lv_cat of who takes part. */
static const char parties[] = "\x09weft join\x07weft up";
static const char newcomer_says[] = "weft join 1", host_says[] = "weft up 1";

static wefti_cpace_text session_of(const wefti_exchange *e) {
    return (wefti_cpace_text){e->session, sizeof e->session};
}

bool wefti_exchange_begin(wefti_exchange *e, const wefti_code *code,
                          const unsigned char *session) {
    *e = (wefti_exchange){.answers = session != NULL};
    if (sodium_init() < 0) return false;
    if (session) memcpy(e->session, session, sizeof e->session);
    if (!session) randombytes_buf(e->session, sizeof e->session);
    wefti_cpace_input input = {{code->secret, strlen(code->secret)},
                               {parties, sizeof parties - 1},
                               session_of(e)};
    e->newcomer.associated = (wefti_cpace_text){newcomer_says, sizeof newcomer_says - 1};
    e->host.associated = (wefti_cpace_text){host_says, sizeof host_says - 1};
    wefti_cpace_scalar(e->y);
    return wefti_cpace_share(&input, e->y,
                             e->answers ? e->host.share : e->newcomer.share);
}

bool wefti_exchange_meet(wefti_exchange *e) {
    static const unsigned char name[] = "weft invite keys";
    unsigned char k[WEFTI_CPACE_POINT], isk[WEFTI_CPACE_KEY];
    unsigned char both[crypto_hash_sha512_BYTES];
    crypto_hash_sha512_state hash;
    if (!wefti_cpace_secret(e->y, e->answers ? e->newcomer.share : e->host.share, k))
        return false;
    wefti_cpace_key(session_of(e), k, &e->newcomer, &e->host, isk);
    const wefti_cpace_message *own = e->answers ? &e->host : &e->newcomer;
    wefti_cpace_tag(session_of(e), isk, own, e->tag);
    wefti_cpace_tag(session_of(e), isk, e->answers ? &e->newcomer : &e->host,
                    e->expected);
    crypto_hash_sha512_init(&hash);
    crypto_hash_sha512_update(&hash, name, sizeof name);
    crypto_hash_sha512_update(&hash, isk, sizeof isk);
    crypto_hash_sha512_final(&hash, both);
    memcpy(e->answers ? e->sends : e->receives, both, sizeof e->sends);
    memcpy(e->answers ? e->receives : e->sends, both + sizeof e->sends, sizeof e->sends);
    sodium_memzero(k, sizeof k);
    sodium_memzero(isk, sizeof isk);
    sodium_memzero(both, sizeof both);
    sodium_memzero(&hash, sizeof hash);
    return true;
}

bool wefti_exchange_proves(const wefti_exchange *e, const unsigned char *tag) {
    return sodium_memcmp(e->expected, tag, sizeof e->expected) == 0;
}

void wefti_exchange_fini(wefti_exchange *e) { sodium_memzero(e, sizeof *e); }

void wefti_seal(wefti_sealed *s, const void *text, size_t n, bool last,
                unsigned char *out) {
    unsigned char tag = last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL
                             : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;
    (void)crypto_secretstream_xchacha20poly1305_push(s, out, NULL, text, n, NULL, 0, tag);
}

size_t wefti_seal_piece(wefti_sealed *s, const void *text, size_t n, bool last,
                        unsigned char *out) {
    wefti_put_u32(out, (uint32_t)(n + WEFTI_SEAL_BYTES));
    wefti_seal(s, text, n, last, out + 4);
    return 4 + n + WEFTI_SEAL_BYTES;
}

bool wefti_unseal(wefti_sealed *s, const unsigned char *in, size_t n, void *text,
                  bool *last) {
    unsigned char tag = 0;
    if (n < WEFTI_SEAL_BYTES || n > WEFTI_PIECE_BYTES + WEFTI_SEAL_BYTES) return false;
    if (crypto_secretstream_xchacha20poly1305_pull(s, text, NULL, &tag, in, n, NULL, 0))
        return false;
    *last = tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
    return true;
}

int wefti_piece_length(const unsigned char *head) {
    uint32_t n = wefti_get_u32(head);
    bool fits = n >= WEFTI_SEAL_BYTES && n <= WEFTI_PIECE_BYTES + WEFTI_SEAL_BYTES;
    return fits ? (int)(n - WEFTI_SEAL_BYTES) : -1;
}
