/* SPDX-License-Identifier: MIT */
/* CPace as in cpace.h. Strings are hashed piece by piece, each behind its length in LEB128. */
#include "invite/cpace.h"

#include <sodium.h>

static const char dsi[] = "CPaceRistretto255", dsi_isk[] = "CPaceRistretto255_ISK";
enum { LENGTH_BYTES = 10 };

static size_t length_of(size_t n, unsigned char out[LENGTH_BYTES]) {
    size_t at = 0;
    for (; n > 127; n >>= 7) out[at++] = (unsigned char)(n | 128);
    out[at++] = (unsigned char)n;
    return at;
}

static void add(crypto_hash_sha512_state *hash, const void *data, size_t n) {
    unsigned char length[LENGTH_BYTES];
    crypto_hash_sha512_update(hash, length, length_of(n, length));
    crypto_hash_sha512_update(hash, data, n);
}

/* Zeros fill the hash's first block, so that its work does not depend on the password. */
static size_t zeros_after(size_t n_password, size_t block) {
    unsigned char length[LENGTH_BYTES];
    size_t n = n_password + length_of(n_password, length) + sizeof dsi + 1;
    return n < block ? block - n : 0;
}

void wefti_cpace_generator(const wefti_cpace_input *input,
                           unsigned char g[WEFTI_CPACE_POINT]) {
    static const unsigned char zeros[128] = {0};
    crypto_hash_sha512_state hash;
    unsigned char digest[crypto_hash_sha512_BYTES];
    crypto_hash_sha512_init(&hash);
    add(&hash, dsi, sizeof dsi - 1);
    add(&hash, input->password.data, input->password.n);
    add(&hash, zeros, zeros_after(input->password.n, sizeof zeros));
    add(&hash, input->parties.data, input->parties.n);
    add(&hash, input->session.data, input->session.n);
    crypto_hash_sha512_final(&hash, digest);
    (void)crypto_core_ristretto255_from_hash(g, digest);
    sodium_memzero(&hash, sizeof hash);
    sodium_memzero(digest, sizeof digest);
}

void wefti_cpace_scalar(unsigned char y[WEFTI_CPACE_SCALAR]) {
    crypto_core_ristretto255_scalar_random(y);
}

bool wefti_cpace_share(const wefti_cpace_input *input,
                       const unsigned char y[WEFTI_CPACE_SCALAR],
                       unsigned char share[WEFTI_CPACE_POINT]) {
    unsigned char g[WEFTI_CPACE_POINT];
    wefti_cpace_generator(input, g);
    bool fine = crypto_scalarmult_ristretto255(share, y, g) == 0;
    sodium_memzero(g, sizeof g);
    return fine;
}

bool wefti_cpace_secret(const unsigned char y[WEFTI_CPACE_SCALAR],
                        const unsigned char theirs[WEFTI_CPACE_POINT],
                        unsigned char k[WEFTI_CPACE_POINT]) {
    return crypto_scalarmult_ristretto255(k, y, theirs) == 0;
}

void wefti_cpace_key(wefti_cpace_text session, const unsigned char k[WEFTI_CPACE_POINT],
                     const wefti_cpace_message *a, const wefti_cpace_message *b,
                     unsigned char isk[WEFTI_CPACE_KEY]) {
    crypto_hash_sha512_state hash;
    crypto_hash_sha512_init(&hash);
    add(&hash, dsi_isk, sizeof dsi_isk - 1);
    add(&hash, session.data, session.n);
    add(&hash, k, WEFTI_CPACE_POINT);
    add(&hash, a->share, sizeof a->share);
    add(&hash, a->associated.data, a->associated.n);
    add(&hash, b->share, sizeof b->share);
    add(&hash, b->associated.data, b->associated.n);
    crypto_hash_sha512_final(&hash, isk);
    sodium_memzero(&hash, sizeof hash);
}

static void authenticate(crypto_auth_hmacsha512_state *mac, const void *data, size_t n) {
    unsigned char length[LENGTH_BYTES];
    crypto_auth_hmacsha512_update(mac, length, length_of(n, length));
    crypto_auth_hmacsha512_update(mac, data, n);
}

void wefti_cpace_tag(wefti_cpace_text session, const unsigned char isk[WEFTI_CPACE_KEY],
                     const wefti_cpace_message *sent,
                     unsigned char tag[WEFTI_CPACE_TAG]) {
    static const unsigned char name[] = {'C', 'P', 'a', 'c', 'e', 'M', 'a', 'c'};
    crypto_hash_sha512_state hash;
    crypto_auth_hmacsha512_state mac;
    unsigned char key[crypto_hash_sha512_BYTES];
    crypto_hash_sha512_init(&hash);
    crypto_hash_sha512_update(&hash, name, sizeof name);
    crypto_hash_sha512_update(&hash, session.data, session.n);
    crypto_hash_sha512_update(&hash, isk, WEFTI_CPACE_KEY);
    crypto_hash_sha512_final(&hash, key);
    crypto_auth_hmacsha512_init(&mac, key, sizeof key);
    authenticate(&mac, sent->share, sizeof sent->share);
    authenticate(&mac, sent->associated.data, sent->associated.n);
    crypto_auth_hmacsha512_final(&mac, tag);
    sodium_memzero(&hash, sizeof hash);
    sodium_memzero(&mac, sizeof mac);
    sodium_memzero(key, sizeof key);
}
