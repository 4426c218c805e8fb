/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdlib.h>

#include "samples.h"

typedef struct fixture {
    weft_ctx *ctx;
    wefti_message_room room;
    unsigned char bytes[4096], again[4096];
    sample s;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    return !f || ctx_begin(&f->ctx) ||
           wefti_message_room_init(f->ctx, &sample_limits, &f->room) != WEFT_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    wefti_message_room_fini(f->ctx, &f->room);
    int left = ctx_end(f->ctx);
    free(f);
    return left;
}

static size_t encode(fixture *f, int kind) {
    make_sample((wefti_message_kind)kind, &f->s);
    size_t n = wefti_message_encode(&sample_limits, &f->s.message, f->bytes,
                                    sizeof f->bytes);
    assert_true(n >= WEFTI_MESSAGE_HEADER);
    assert_true(n <= wefti_message_max_bytes(&sample_limits));
    return n;
}

static const char *decode(fixture *f, size_t n, wefti_message *out) {
    return wefti_message_decode(&sample_limits, &f->room, f->bytes, n, out);
}

TEST(what_was_read_is_written_as_the_same_bytes) {
    fixture *f = *state;
    for (int kind = 1; kind < WEFTI_SAY_KINDS; kind++) {
        size_t n = encode(f, kind);
        wefti_message out;
        assert_null(decode(f, n, &out));
        assert_int_equal(out.kind, kind);
        assert_int_equal(
            wefti_message_encode(&sample_limits, &out, f->again, sizeof f->again), n);
        assert_memory_equal(f->again, f->bytes, n);
    }
}

TEST(the_fields_arrive) {
    fixture *f = *state;
    wefti_message out;
    assert_null(decode(f, encode(f, WEFTI_SAY_FLUSH_OK), &out));
    assert_true(wefti_node_is(out.from, f->s.message.from));
    assert_int_equal(out.steps.begun, 8);
    assert_int_equal(out.other.counter, 9);
    assert_int_equal(out.n_entries, 2);
    assert_int_equal(out.entries[1].step, 8);
    assert_int_equal(out.entries[0].held[3], 0x81);
    assert_int_equal(out.value->chain, f->s.view.chain);
    assert_int_equal(*wefti_view_holder(&sample_limits, out.value, 0, 1, 0, 10), 2);
    assert_int_equal(*wefti_view_holder(&sample_limits, out.value, 0, 1, 1, 10),
                     WEFTI_MEMBER_NOBODY);
}

TEST(a_message_cut_short_or_too_long_is_refused) {
    fixture *f = *state;
    for (int kind = 1; kind < WEFTI_SAY_KINDS; kind++) {
        size_t n = encode(f, kind);
        wefti_message out;
        for (size_t k = 0; k < n; k++) assert_non_null(decode(f, k, &out));
        assert_non_null(decode(f, n + 1, &out));
    }
}

TEST(a_room_that_is_too_small_gives_nothing) {
    fixture *f = *state;
    for (int kind = 1; kind < WEFTI_SAY_KINDS; kind++) {
        size_t n = encode(f, kind);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(
                wefti_message_encode(&sample_limits, &f->s.message, f->again, k), 0);
    }
}

static void refused(fixture *f, size_t n, size_t at, unsigned char byte,
                    const char *words) {
    wefti_message out;
    unsigned char kept = f->bytes[at];
    f->bytes[at] = byte;
    const char *why = decode(f, n, &out);
    if (!why || !strstr(why, words)) fail_msg("byte %zu: '%s', not '%s'", at, why, words);
    f->bytes[at] = kept;
}

TEST(numbers_out_of_range_are_refused) {
    fixture *f = *state;
    size_t n = encode(f, WEFTI_SAY_WELCOME), body = WEFTI_MESSAGE_HEADER;
    refused(f, n, 0, 'W', "does not begin");
    refused(f, n, 4, 1, "version");
    refused(f, n, 5, 0, "kind");
    refused(f, n, 5, WEFTI_SAY_KINDS, "kind");
    refused(f, n, 6, 1, "zero");
    refused(f, n, 52, 1, "zero");
    refused(f, n, 48, 1, "not as long");
    refused(f, n, body + 7, 0x80, "out of range");
    refused(f, n, body + 16, 1, "hash is wrong");
    refused(f, n, body + 40, 3, "above its limit");
    refused(f, n, body + 42, 5, "above its limit");
    refused(f, n, body + 43, 1, "above its limit");
    n = encode(f, WEFTI_SAY_BYE);
    refused(f, n, body, WEFTI_BYE_REASONS, "code");
    n = encode(f, WEFTI_SAY_ALIVE);
    refused(f, n, body + 8, 9, "not begun");
}

/* Bytes drawn at random behind a good head, and good messages with bytes changed: each is
 * refused or means what it says. */
TEST(damage_is_refused_or_read_as_it_stands) {
    fixture *f = *state;
    int64_t n_read = 0;
    for (uint64_t k = 0; k < 60000; k++) {
        size_t n = encode(f, 1 + (int)(k % (WEFTI_SAY_KINDS - 1)));
        uint64_t r = wefti_rng_u64(3, WEFTI_STREAM_TEST, 0, k);
        for (int change = 0; change <= (int)(r % 4); change++) {
            uint64_t x = wefti_rng_u64(3, WEFTI_STREAM_TEST, 1 + (uint64_t)change, k);
            size_t body = n - WEFTI_MESSAGE_HEADER;
            size_t at = k & 1 || !body ? x % WEFTI_MESSAGE_HEADER
                                       : WEFTI_MESSAGE_HEADER + x % body;
            f->bytes[at] = (unsigned char)(x >> 32);
        }
        wefti_message out;
        if (decode(f, n, &out)) continue;
        n_read++;
        assert_int_equal(
            wefti_message_encode(&sample_limits, &out, f->again, sizeof f->again), n);
        assert_memory_equal(f->again, f->bytes, n);
    }
    assert_true(n_read > 1000);
}

int main(void) { return check_run(setup, teardown); }
