/* SPDX-License-Identifier: MIT */
/* Decoders of bytes that other processes send, for libFuzzer: the first byte chooses one.
 * What is accepted must be sound; the sanitizers see the rest.
 *
 *     clang -fsanitize=fuzzer,address ... (cmake -DWEFT_FUZZ=ON with clang); run it as
 *     WEFT_FUZZ_ONLY=2 fuzz_decoders -max_total_time=60 CORPUS tests/fuzz/corpus
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "invite/bundle.h"
#include "comm/envelope.h"
#include "start/joiner.h"
#include "start/relay.h"
#include "start/rendezvous.h"
#include "start/streams.h"
#include "start/tcp.h"
#include "start/witness.h"
#include "fuzz_elastic.h"
#include "fuzz_only.h"
#include "rank/alike.h"
#include "wire/section.h"

enum { RANKS = 7, MAX_VALUES = 4096, PLACES = 1024, DECODERS = 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int sound) {
    if (!sound) abort();
}

static void decode_envelope(const uint8_t *data, size_t size) {
    wefti_envelope out;
    if (!wefti_envelope_decode(data, (int64_t)size, &out)) return;
    require(out.kind >= WEFTI_ENVELOPE_HELLO && out.kind <= WEFTI_ENVELOPE_BYE);
    require(out.n_bytes >= 0 && out.channel >= 0);
    if (out.kind != WEFTI_ENVELOPE_LONG)
        require(out.n_bytes == (int64_t)size - WEFTI_ENVELOPE_BYTES);
}

static void read_card(const uint8_t *data, size_t size) {
    unsigned char card[WEFTI_CARD_BYTES] = {0};
    memcpy(card, data, size < sizeof card ? size : sizeof card);
    int rank = wefti_card_read(card, RANKS);
    require(rank >= -1 && rank < RANKS);
    const char *host = (const char *)card + WEFTI_CARD_HOST_AT;
    require(memchr(host, 0, WEFTI_CARD_HOST_BYTES) != NULL);
    for (; *host; host++) require((unsigned char)*host >= 0x20);
}

static void require_text(const char *text, size_t room) {
    require(memchr(text, 0, room) != NULL);
    for (; *text; text++) require((unsigned char)*text >= 0x20);
}

/* The card of who comes later; what is written of it is read as the same. */
static void read_late_card(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES] = {0}, again[WEFTI_CARD_BYTES];
    wefti_late_card card, back;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    bool fine = wefti_late_card_read(bytes, &card);
    require_text(card.host, sizeof card.host);
    if (!fine) return;
    require(card.place >= -1 && card.place < PLACES && card.port > 0 &&
            card.port <= 0xffff);
    require(card.incarnation > 1);
    wefti_late_card_write(&card, again);
    require(wefti_late_card_read(again, &back));
    require(back.place == card.place && back.port == card.port && back.run == card.run);
    require(back.incarnation == card.incarnation && back.machine == card.machine &&
            strcmp(back.host, card.host) == 0);
    wefti_late_card_as_card(&card, again);
    require(wefti_card_port(again) == card.port);
}

/* The card of a further socket. */
static void read_stream_card(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES] = {0}, again[WEFTI_CARD_BYTES];
    wefti_stream_card card, back;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (!wefti_stream_card_read(bytes, &card)) return;
    require(card.number >= 1 && card.number < WEFTI_STREAMS && card.rank >= 0);
    wefti_stream_card_write(&card, again);
    require(wefti_stream_card_read(again, &back));
    require(back.number == card.number && back.rank == card.rank &&
            back.token == card.token);
}

/* The card of a connection that goes on, and the answer to it. */
static void read_resume_card(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES] = {0}, again[WEFTI_CARD_BYTES];
    wefti_resume_card card, back;
    int64_t n_read, from;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (wefti_resumed_read(bytes, &n_read, &from)) {
        require(n_read >= 0 && from >= 0);
        wefti_resumed_write(n_read, from, again);
        require(memcmp(again, bytes, WEFTI_RESUMED_SAID_BYTES) == 0);
    }
    if (!wefti_resume_card_read(bytes, &card)) return;
    require(card.number >= 0 && card.number < WEFTI_STREAMS && card.n_read >= 0);
    require(card.from >= 0 && card.to >= 0 && card.from != card.to);
    wefti_resume_card_write(&card, again);
    require(wefti_resume_card_read(again, &back));
    require(memcmp(again, bytes, WEFTI_RESUME_SAID_BYTES + WEFTI_SECRET_BYTES) == 0);
}

/* The card of a relayed connection. */
static void read_relay_card(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES] = {0}, again[WEFTI_CARD_BYTES];
    wefti_relay_card card, back;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (!wefti_relay_card_read(bytes, &card)) return;
    require(card.from >= 0 && card.to >= 0 && card.from != card.to && card.port > 0);
    require_text(card.address, sizeof card.address);
    wefti_relay_card_write(&card, again);
    require(wefti_relay_card_read(again, &back));
    require(back.kind == card.kind && back.token == card.token && back.to == card.to &&
            strcmp(back.address, card.address) == 0);
}

/* The card that is shown to a witness. */
static void read_witness_card(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES] = {0}, again[WEFTI_CARD_BYTES];
    wefti_witness_card card, back;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    bool fine = wefti_witness_card_read(bytes, &card);
    require_text(card.host, sizeof card.host);
    if (!fine) return;
    require(card.rank >= 0 && card.vote.view >= 0);
    wefti_witness_card_write(&card, again);
    require(wefti_witness_card_read(again, &back));
    require(memcmp(&back.vote, &card.vote, sizeof card.vote) == 0);
    require(back.rank == card.rank && strcmp(back.host, card.host) == 0);
}

/* The table that is told to who comes later: head, then rows as far as there are any. */
static void read_late_table(const uint8_t *data, size_t size) {
    const size_t head = WEFTI_LATE_HEAD_BYTES - 1;
    static bool seen[PLACES];
    wefti_late_table table;
    if (size < head || !wefti_late_head_read(data, PLACES, &table)) return;
    require(table.n_places >= 1 && table.n_places <= PLACES);
    require(table.place >= 0 && table.place < table.n_places);
    size_t n = (size_t)table.n_places;
    memset(seen, 0, sizeof seen);
    table.rank_of = calloc(n, sizeof *table.rank_of);
    table.names = calloc(n, sizeof *table.names);
    table.cards = calloc(n, WEFTI_CARD_BYTES);
    bool fine = table.rank_of && table.names && table.cards;
    for (int i = 0; i < table.n_places && fine; i++) {
        unsigned char row[WEFTI_LATE_ROW_BYTES];
        size_t at = head + (size_t)i * sizeof row;
        if (at + sizeof row > size) break;
        memcpy(row, data + at, sizeof row);
        fine = wefti_late_row_read(row, i, seen, &table);
        if (!fine) break;
        const char *card = (const char *)table.cards + (size_t)i * WEFTI_CARD_BYTES;
        const int address = WEFTI_CARD_ADDRESS_AT;
        require(table.rank_of[i] >= 0 && table.rank_of[i] < table.n_places);
        require(seen[table.rank_of[i]]);
        require_text(card + WEFTI_CARD_HOST_AT, WEFTI_CARD_HOST_BYTES);
        require_text(card + address, (size_t)(WEFTI_CARD_BYTES - address));
    }
    wefti_late_table_fini(&table);
}

/* Every block of a section whose shape follows from two bytes. */
static void decode_section(weft_ctx *ctx, const uint8_t *data, size_t size) {
    static int32_t indices[MAX_VALUES];
    static float values[MAX_VALUES];
    if (size < 2) return;
    wefti_value_codec codec = (wefti_value_codec)(data[0] % WEFTI_VALUE_CODECS);
    bool dense = data[0] >= 128;
    wefti_index_codec code = data[0] & 64 ? WEFTI_INDICES_BITMAP : WEFTI_INDICES_FIXED;
    int64_t n = 1 + data[1] % 32;
    wefti_section s = dense ? wefti_section_dense(n * 7, codec)
                            : wefti_section_sparse(n, 4, 64, codec, code, NULL);
    for (int64_t b = 0; b < s.n_blocks; b++) {
        int64_t at = wefti_section_bytes(&s, 0, b),
                n_bytes = wefti_section_bytes(&s, b, 1);
        int64_t count = wefti_section_block_values(&s, b);
        unsigned char *exact;
        if (at + n_bytes > (int64_t)size - 2) return;
        exact = malloc((size_t)n_bytes + 1); /* so that reading past its end is seen */
        if (!exact) return;
        memcpy(exact, data + 2 + at, (size_t)n_bytes);
        weft_status status = wefti_section_decode(ctx, &s, b, exact, indices, values);
        for (int64_t i = 0; i < count && status == WEFT_OK && !dense; i++)
            require(indices[i] >= 0 && indices[i] < 64);
        weft_ctx_clear(ctx);
        free(exact);
    }
}

/* What a member tells a process that is refused: compared line by line, and said. */
static void read_notice(weft_ctx *ctx, const uint8_t *data, size_t size) {
    static const char own[] = "model.width: 32\nmodel.layers: 2\noptimizer.lr: 0.001\n";
    unsigned char *exact = malloc(size + 1);
    if (!exact) return;
    memcpy(exact, data, size);
    weft_status status = wefti_alike_compare(ctx, own, exact, (int64_t)size);
    for (const char *c = weft_ctx_message(ctx); *c; c++)
        require((unsigned char)*c >= 0x20);
    require(status == WEFT_OK || status == WEFT_ERR_CONFIG);
    char decided[16];
    wefti_alike_decided(exact, (int64_t)size, decided, sizeof decided);
    require(strlen(decided) < sizeof decided);
    free(exact);
}

/* Where members listened, as others said it. */
static void read_doors(weft_ctx *ctx, const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    wefti_tcp_endpoint *endpoints;
    int n = 0;
    if (!text) return;
    memcpy(text, data, size);
    text[size] = 0;
    if (wefti_tcp_endpoints(ctx, text, 29500, 16, &endpoints, &n) == WEFT_OK) {
        require(n >= 0 && n <= 1024);
        for (int i = 0; i < n; i++) {
            require(endpoints[i].port > 0 && endpoints[i].port <= 0xffff);
            require(endpoints[i].host[0] &&
                    memchr(endpoints[i].host, 0, sizeof endpoints[i].host));
        }
        wefti_free(ctx, endpoints);
    }
    free(text);
}

/* What a host and a newcomer say before they trust each other. */
static void read_meeting(const uint8_t *data, size_t size) {
    unsigned char bytes[WEFTI_CARD_BYTES + 1] = {0}, again[WEFTI_CARD_BYTES];
    wefti_call call;
    wefti_hello hello;
    wefti_judgement judgement;
    wefti_wish wish;
    wefti_code code;
    memcpy(bytes, data, size < sizeof bytes - 1 ? size : sizeof bytes - 1);
    if (wefti_call_read(data, size, &call)) {
        require(call.channel >= 0 && call.channel < WEFTI_CHANNELS &&
                call.port <= 0xffff);
        wefti_call_write(&call, again);
        require(memcmp(again, data, WEFTI_CALL_BYTES) == 0);
    }
    if (wefti_hello_read(bytes, &hello)) {
        wefti_hello_write(&hello, again);
        require(memcmp(again, bytes, 60) == 0);
    }
    if (wefti_judgement_read(bytes, &judgement))
        require(judgement.verdict < WEFTI_RULINGS && judgement.tries < 100);
    if (wefti_wish_read(bytes, &wish)) require(wish.most_bytes >= 0);
    if (wefti_code_read((const char *)bytes, &code))
        require(strlen(code.secret) == WEFTI_CODE_SECRET_BYTES);
}

/* What an invitation gives: no file leaves the folder. */
static void read_bundle(weft_ctx *ctx, const uint8_t *data, size_t size) {
    wefti_wish wish = {.keys = 31, .most_bytes = 1000};
    wefti_bundle p;
    if (wefti_bundle_read(ctx, (const char *)data, (int64_t)size, &wish, &p) == WEFT_OK) {
        int64_t n = 0;
        for (int64_t i = 0; i < p.n_files; i++) {
            require(p.files[i].name[0] != '.' && !strchr(p.files[i].name, '/'));
            require(p.files[i].kind >= 0 && p.files[i].kind < WEFTI_BUNDLE_KINDS);
            n += p.files[i].n_bytes;
        }
        require(n >= 0 && n <= wish.most_bytes && p.run_port > 0);
    }
    wefti_bundle_fini(ctx, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weft_ctx *ctx;
    if (size == 0 || fuzz_turns_away(data[0], DECODERS))
        return -1; /* not for the corpus */
    if (weft_ctx_create(&ctx) != WEFT_OK) return 0;
    int which = data[0] % DECODERS;
    if (which == 0) decode_envelope(data + 1, size - 1);
    if (which == 1) read_card(data + 1, size - 1);
    if (which == 2) decode_section(ctx, data + 1, size - 1);
    if (which == 3) read_late_card(data + 1, size - 1);
    if (which == 4) read_late_table(data + 1, size - 1);
    if (which == 5) read_notice(ctx, data + 1, size - 1);
    if (which == 6) read_doors(ctx, data + 1, size - 1);
    if (which == 7) hear_messages(data + 1, size - 1);
    if (which == 8) read_witness_card(data + 1, size - 1);
    if (which == 9) read_meeting(data + 1, size - 1);
    if (which == 10) read_bundle(ctx, data + 1, size - 1);
    if (which == 11) read_stream_card(data + 1, size - 1);
    if (which == 12) read_relay_card(data + 1, size - 1);
    if (which == 13) read_resume_card(data + 1, size - 1);
    weft_ctx_clear(ctx);
    require(weft_ctx_bytes_held(ctx) == 0);
    weft_ctx_destroy(ctx);
    return 0;
}
