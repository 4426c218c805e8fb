/* SPDX-License-Identifier: MIT */
/* libFuzzer harness: any bytes as a message about membership. What can be read is written again
 * as the same bytes, and taken by a machine.
 *
 *     fuzz_member_message -max_total_time=60 tests/fuzz/corpus_member */
#include <stdlib.h>
#include <string.h>

#include "member/member.h"

static const wefti_member_limits limits = {
    .max_nodes = 4, .window = 2, .rounds = 2, .parts = 11};

typedef struct bench {
    weft_ctx *ctx;
    wefti_message_room room;
    wefti_member *member;
} bench;

static void start(bench *b) {
    static const wefti_view_node founders[2] = {{{2, 12}, 0}, {{4, 14}, 0}};
    wefti_member_config config = {.limits = limits,
                                  .policy = wefti_member_policy_default(),
                                  .run = 5,
                                  .self = founders[1].id,
                                  .n_founders = 2,
                                  .founders = founders};
    if (weft_ctx_create(&b->ctx) != WEFT_OK ||
        wefti_message_room_init(b->ctx, &limits, &b->room) != WEFT_OK ||
        wefti_member_create(b->ctx, &config, &b->member) != WEFT_OK)
        abort();
}

static void end(bench *b) {
    wefti_member_destroy(b->member);
    wefti_message_room_fini(b->ctx, &b->room);
    if (weft_ctx_bytes_held(b->ctx) != 0) abort();
    weft_ctx_destroy(b->ctx);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n) {
    static unsigned char again[1 << 16];
    bench b;
    wefti_message message;
    start(&b);
    if (!wefti_message_decode(&limits, &b.room, data, n, &message)) {
        size_t m = wefti_message_encode(&limits, &message, again, sizeof again);
        if (n <= sizeof again && (m != n || memcmp(again, data, n) != 0)) abort();
    }
    wefti_member_event event = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = {2, 12}, .bytes = data, .n_bytes = n};
    for (int k = 0; k < 3; k++) (void)wefti_member_step(b.member, &event, 1000 + k, 1);
    event.kind = WEFTI_EVENT_TICK;
    (void)wefti_member_step(b.member, &event, 1000000, 1);
    end(&b);
    return 0;
}
