/* SPDX-License-Identifier: MIT */
/* Facts travel as bytes; clocks are compared by messages. */
#include <math.h>

#include "doctor/fact_fields.h"
#include "doctor/collect.h"
#include "ranks.h"
#include "unit/doctor/facts.h"

enum { RANKS = 4 };

static double shifted_clock(void *user) {
    const double *shift_s = user;
    return wefti_wall_s(NULL) + *shift_s;
}

static const double shifts_s[RANKS] = {0, 30, -7, 1000};

static weft_status gather(rank_env *env) {
    weft_rank_facts mine = healthy(env->rank, RANKS, 1), all[RANKS];
    double shift_s = shifts_s[env->rank];
    WEFT_TRY(wefti_gather_clock(env->control, 100, shifted_clock, &shift_s, &mine));
    WEFT_TRY(wefti_gather_facts(env->control, 200, &mine, all));
    for (int r = 0; r < RANKS; r++) {
        weft_rank_facts expected = healthy(r, RANKS, 1);
        if (strcmp(all[r].host, expected.host) != 0 || all[r].rank != r ||
            all[r].memory_bytes != expected.memory_bytes)
            return weft_ctx_fail(env->ctx, WEFT_ERR_INTERNAL,
                                 "rank %d arrived as another", r);
        if (!(fabs(all[r].clock_offset_s - shifts_s[r]) <=
              all[r].clock_offset_error_s + 1e-4))
            return weft_ctx_fail(env->ctx, WEFT_ERR_INTERNAL, "rank %d: %g s, error %g s",
                                 r, all[r].clock_offset_s, all[r].clock_offset_error_s);
    }
    return WEFT_OK;
}

TEST(clocks_are_known_within_their_error) {
    run_ranks(RANKS, 1, (wefti_wire_model){.bandwidth_Bps = 0}, gather, NULL, NULL);
    run_ranks(RANKS, 1, (wefti_wire_model){.bandwidth_Bps = 1e7, .latency_s = 0.002},
              gather, NULL, NULL);
}

TEST(facts_survive_the_way) {
    enum { ROOM = 8192 };
    unsigned char bytes[ROOM];
    weft_rank_facts mine = healthy(1, 2, 1), back = {.struct_size = sizeof back};
    weft_ctx *ctx;
    size_t n = wefti_facts_bytes();
    assert_true(n <= ROOM);
    assert_int_equal(ctx_begin(&ctx), 0);
    mine.clock_offset_s = -0.125;
    wefti_facts_encode(&mine, bytes);
    assert_ok(ctx, wefti_facts_decode(ctx, bytes, n, &back));
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++)
        assert_memory_equal((const char *)&mine + f->offset,
                            (const char *)&back + f->offset, f->size);
    assert_fails(ctx, wefti_facts_decode(ctx, bytes, n - 1, &back), WEFT_ERR_WIRE,
                 "different versions");
    bytes[0] ^= 1;
    assert_fails(ctx, wefti_facts_decode(ctx, bytes, n, &back), WEFT_ERR_WIRE,
                 "different versions");
    memset(bytes, 'x', n);
    memcpy(bytes, "WFD1", 4);
    assert_fails(ctx, wefti_facts_decode(ctx, bytes, n, &back), WEFT_ERR_WIRE,
                 "has no end");
    assert_int_equal(ctx_end(ctx), 0);
}

/* Every byte of the struct belongs to a field, or to a gap that no field is in. */
TEST(table_has_every_field) {
    weft_rank_facts mine;
    size_t listed = 0;
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) {
        listed += f->size;
        assert_true(f->size > 0 && f->offset + f->size <= sizeof(weft_rank_facts));
        for (const wefti_fact_field *g = wefti_rank_fields; g < f; g++)
            assert_true(g->offset + g->size <= f->offset ||
                        f->offset + f->size <= g->offset);
    }
    /* all members are 8-byte words or texts of a multiple of 8 bytes: there are no gaps
     */
    assert_int_equal(sizeof mine.struct_size + listed, sizeof mine);
}

TEST(json_has_every_field) {
    weft_rank_facts mine = healthy(0, 1, 1);
    char *text, key[64];
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    memcpy(mine.mca, "\xff\xfe", 3); /* no UTF-8 */
    mine.cpus[1] = 0x12;
    assert_ok(ctx, weft_doctor_facts_json(ctx, &mine, &text));
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) {
        snprintf(key, sizeof key, "\"%s\": ", f->name);
        if (!strstr(text, key)) fail_msg("no %s in %s", key, text);
    }
    assert_non_null(strstr(text, "\"mca\": \"??\""));
    assert_non_null(strstr(text, "\"cpus\": \"000000000000001200000000000000ff\""));
    weft_free(ctx, text);
    assert_int_equal(ctx_end(ctx), 0);
}
