/* SPDX-License-Identifier: MIT */
/* The bytes of vitals.h. */
#include "start/vitals.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"

enum { SEALED = 88, SEAL = 32 };
static const char magic[4] = {'w', 'e', 'f', 'D'};

static bool seal(const unsigned char *bytes, uint64_t run, unsigned char *out) {
    unsigned char key[8];
    unsigned n = 0;
    wefti_put_u64(key, run);
    return HMAC(EVP_sha256(), key, sizeof key, bytes, SEALED, out, &n) && n == SEAL;
}

void wefti_vitals_write(const wefti_vitals *v, uint64_t run, unsigned char *bytes) {
    memset(bytes, 0, WEFTI_VITALS_BYTES);
    memcpy(bytes, magic, sizeof magic);
    wefti_put_u32(bytes + 4, (uint32_t)v->state);
    wefti_put_u64(bytes + 8, v->id.key);
    wefti_put_u64(bytes + 16, v->id.incarnation);
    wefti_put_u64(bytes + 24, (uint64_t)v->view);
    wefti_put_u64(bytes + 32, (uint64_t)v->record.promised_view);
    wefti_put_u64(bytes + 40, v->record.promised.counter);
    wefti_put_u64(bytes + 48, (uint64_t)v->record.promised.leader);
    wefti_put_u64(bytes + 56, (uint64_t)v->record.accepted_view);
    wefti_put_u64(bytes + 64, v->record.heir.key);
    wefti_put_u64(bytes + 72, v->record.heir.incarnation);
    wefti_put_u64(bytes + 80, v->record.chain);
    if (!seal(bytes, run, bytes + SEALED)) memset(bytes, 0, WEFTI_VITALS_BYTES);
}

bool wefti_vitals_read(const unsigned char *bytes, int n, uint64_t run,
                       wefti_vitals *out) {
    unsigned char expected[SEAL];
    if (n != WEFTI_VITALS_BYTES || memcmp(bytes, magic, sizeof magic) != 0 ||
        !seal(bytes, run, expected) || CRYPTO_memcmp(expected, bytes + SEALED, SEAL) != 0)
        return false;
    uint32_t state = wefti_get_u32(bytes + 4);
    *out = (wefti_vitals){
        .state = (wefti_vital_state)state,
        .id = {wefti_get_u64(bytes + 8), wefti_get_u64(bytes + 16)},
        .view = (int64_t)wefti_get_u64(bytes + 24),
        .record = {(int64_t)wefti_get_u64(bytes + 32),
                   {wefti_get_u64(bytes + 40), (int)(wefti_get_u64(bytes + 48) & 0xffff)},
                   (int64_t)wefti_get_u64(bytes + 56),
                   {wefti_get_u64(bytes + 64), wefti_get_u64(bytes + 72)},
                   wefti_get_u64(bytes + 80)}};
    return state >= WEFTI_VITAL_LIVES && state <= WEFTI_VITAL_OVER;
}

wefti_vital_state wefti_vitals_claim(const unsigned char *bytes) {
    uint32_t state = wefti_get_u32(bytes + 4);
    bool known = memcmp(bytes, magic, sizeof magic) == 0 && state <= WEFTI_VITAL_OVER;
    return known ? (wefti_vital_state)state : WEFTI_VITAL_NONE;
}
