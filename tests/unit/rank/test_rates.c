/* SPDX-License-Identifier: MIT */
/* Whose learning rate counts where ranks have set different ones. */
#include <math.h>

#include "base/bytes.h"
#include "check.h"
#include "rank/rank.h"

enum { STEP = 3, MOST = 5 };

static const struct {
    double rate[MOST]; /* of ranks 0 to n - 1 */
    int n;
    const char *fails; /* a rank each: whether it fails */
} rows[] = {
    {{0.1}, 1, "0"},
    {{0.1, 0.1}, 2, "00"},
    {{0.1, 0.01}, 2, "01"}, /* of as many, that of the first */
    {{0.1, 0.01, 0.1}, 3, "010"},
    {{0.1, 0.01, 0.01}, 3, "100"},
    {{0.1, 0.01, 0.01, 0.1}, 4, "0110"},
    {{0.01, 0.1, 0.01, 0.1, 0.1}, 5, "10100"},
    {{0, 0, 0.1}, 3, "001"},      /* 0: it has set none */
    {{0.1, 0.01, NAN}, 3, "111"}, /* one that is no number backs neither side */
    {{NAN, NAN, 0.1}, 3, "111"},
    {{INFINITY, INFINITY, 0.1}, 3, "001"},
};

static bool fails(int row, int me, char *sentence, size_t size) {
    static wefti_rank r;
    wefti_step_status agreed = {0};
    wefti_put_f64(r.says.sent[STEP % WEFTI_STATUS_SLOTS] + 32, rows[row].rate[me]);
    for (int i = 0; i < rows[row].n; i++)
        wefti_rates_note(&r, STEP, i, &(wefti_step_status){.rate = rows[row].rate[i]},
                         &agreed.rates);
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    weft_status status = wefti_status_check(ctx, &agreed, STEP);
    snprintf(sentence, size, "%s", weft_ctx_message(ctx));
    weft_ctx_destroy(ctx);
    return status != WEFT_OK;
}

TEST(who_is_in_the_minority_fails_alone) {
    char sentence[300];
    for (int row = 0; row < (int)(sizeof rows / sizeof *rows); row++)
        for (int me = 0; me < rows[row].n; me++)
            if (fails(row, me, sentence, sizeof sentence) != (rows[row].fails[me] == '1'))
                fail_msg("row %d, rank %d: %s", row, me, sentence);
}

TEST(both_rates_and_the_rank_are_named) {
    char sentence[300];
    assert_true(fails(4, 0, sentence, sizeof sentence));
    assert_non_null(
        strstr(sentence, "the learning rate was 0.1 in step 4, that of rank 1 0.01;"));
}
