/* SPDX-License-Identifier: MIT */
/* The messages of meeting.h as bytes. They come from strangers: what is read is complete and
 * bounded, or refused. */
#include "invite/meeting.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
enum { LARGEST_CHANNEL = WEFTI_CHANNELS - 1, MOST_VERSION = 1 << 16, MOST_TRIES = 100 };

/* --- codes --- */

bool wefti_code_read(const char *text, wefti_code *out) {
    char kept[2 + WEFTI_CODE_SECRET_BYTES + 1] = "";
    size_t n = 0;
    for (; *text; text++) {
        int c = toupper((unsigned char)*text);
        if (c == '-' || c == ' ') continue;
        if (n == sizeof kept - 1) return false;
        if (c == 'O') c = '0';
        if (c == 'I' || c == 'L') c = '1';
        if (!strchr(letters, c)) return false;
        kept[n++] = (char)c;
    }
    if (n != sizeof kept - 1 || !isdigit((unsigned char)kept[0]) ||
        !isdigit((unsigned char)kept[1]))
        return false;
    out->channel = 10 * (kept[0] - '0') + kept[1] - '0';
    memcpy(out->secret, kept + 2, sizeof out->secret);
    return true;
}

void wefti_code_make(int channel, const unsigned char random[WEFTI_CODE_RANDOM_BYTES],
                     wefti_code *out) {
    uint64_t bits = 0;
    for (int i = 0; i < WEFTI_CODE_RANDOM_BYTES; i++) bits = bits << 8 | random[i];
    *out = (wefti_code){.channel = channel};
    for (int i = 0; i < WEFTI_CODE_SECRET_BYTES; i++, bits >>= 5)
        out->secret[i] = letters[bits & 31];
}

void wefti_code_text(const wefti_code *code, char out[WEFTI_CODE_BYTES]) {
    snprintf(out, WEFTI_CODE_BYTES, "%02d-%.4s-%.4s",
             (int)((unsigned)code->channel % WEFTI_CHANNELS), code->secret,
             code->secret + 4);
}

/* --- messages --- */

/* "wefX", version. */
static void put_head(unsigned char *bytes, char kind, int version) {
    const char magic[4] = {'w', 'e', 'f', kind};
    memcpy(bytes, magic, sizeof magic);
    wefti_put_u32(bytes + 4, (uint32_t)version);
}

static bool get_head(const unsigned char *bytes, char kind, int *version) {
    const char magic[4] = {'w', 'e', 'f', kind};
    uint32_t number = wefti_get_u32(bytes + 4);
    *version = (int)(number % MOST_VERSION);
    return memcmp(bytes, magic, sizeof magic) == 0 && number < MOST_VERSION;
}

void wefti_call_write(const wefti_call *call, unsigned char *bytes) {
    put_head(bytes, call->answers ? 'A' : 'Q', call->version);
    wefti_put_u32(bytes + 8, (uint32_t)call->channel);
    wefti_put_u64(bytes + 12, call->nonce);
    wefti_put_u32(bytes + 20, (uint32_t)call->port);
    wefti_put_u64(bytes + 24, call->id);
}

bool wefti_call_read(const unsigned char *bytes, size_t n, wefti_call *out) {
    *out = (wefti_call){0};
    if (n != WEFTI_CALL_BYTES) return false;
    out->answers = bytes[3] == 'A';
    if (!get_head(bytes, out->answers ? 'A' : 'Q', &out->version)) return false;
    uint32_t channel = wefti_get_u32(bytes + 8), port = wefti_get_u32(bytes + 20);
    if (channel > LARGEST_CHANNEL || port > UINT16_MAX) return false;
    out->channel = (int)channel;
    out->nonce = wefti_get_u64(bytes + 12);
    out->port = (int)port;
    out->id = wefti_get_u64(bytes + 24);
    return out->answers == (port > 0);
}

void wefti_hello_write(const wefti_hello *hello, unsigned char card[WEFTI_CARD_BYTES]) {
    memset(card, 0, WEFTI_CARD_BYTES);
    put_head(card, 'U', hello->version);
    wefti_put_u32(card + 8, (uint32_t)hello->channel);
    memcpy(card + 12, hello->session, sizeof hello->session);
    memcpy(card + 28, hello->share, sizeof hello->share);
}

bool wefti_hello_read(const unsigned char card[WEFTI_CARD_BYTES], wefti_hello *out) {
    uint32_t channel = wefti_get_u32(card + 8);
    *out = (wefti_hello){.channel = (int)(channel % WEFTI_CHANNELS)};
    memcpy(out->session, card + 12, sizeof out->session);
    memcpy(out->share, card + 28, sizeof out->share);
    return get_head(card, 'U', &out->version) && channel <= LARGEST_CHANNEL;
}

void wefti_judgement_write(const wefti_judgement *j, unsigned char *bytes) {
    put_head(bytes, 'U', j->version);
    wefti_put_u32(bytes + 8, (uint32_t)j->verdict);
    wefti_put_u32(bytes + 12, (uint32_t)j->tries);
}

bool wefti_judgement_read(const unsigned char *bytes, wefti_judgement *out) {
    uint32_t verdict = wefti_get_u32(bytes + 8), tries = wefti_get_u32(bytes + 12);
    *out = (wefti_judgement){.verdict = (wefti_ruling)(verdict % WEFTI_RULINGS),
                             .tries = (int)(tries % MOST_TRIES)};
    return get_head(bytes, 'U', &out->version) && verdict < WEFTI_RULINGS &&
           tries < MOST_TRIES;
}

void wefti_wish_write(const wefti_wish *wish, unsigned char *bytes) {
    wefti_put_u32(bytes, wish->keys);
    wefti_put_u32(bytes + 4, 0);
    wefti_put_u64(bytes + 8, (uint64_t)wish->most_bytes);
}

bool wefti_wish_read(const unsigned char *bytes, wefti_wish *out) {
    uint64_t most = wefti_get_u64(bytes + 8);
    *out = (wefti_wish){.keys = wefti_get_u32(bytes),
                        .most_bytes = (int64_t)(most & INT64_MAX)};
    return most <= INT64_MAX;
}
