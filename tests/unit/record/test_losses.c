/* SPDX-License-Identifier: MIT */
/* Losses of a run that is played again beside its lines (engine/record/losses.c): a view of four
 * ranks ends with step 40, and what was lost with its first rank counts in no later line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "record/losses.h"

enum { RANKS = 4, END = 40 };

typedef struct judged {
    int64_t equal, wrong_step;
    int warned;
    char said[300];
} judged;

static void hear(void *user, weft_log_level level, const char *text) {
    judged *j = user;
    j->warned += level == WEFT_LOG_WARN;
    snprintf(j->said, sizeof j->said, "%s", text);
}

/* One line, {step, loss, share}. Rank 0 plays loss 1 in each step, of all; the others do up to
 * step 38, and then loss 2, of three. */
static judged judge(double step, double loss, double share) {
    double line[] = {step, loss, share};
    judged j = {0};
    wefti_losses l = {.rows = line, .n_rows = 1};
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    weft_ctx_set_sink(ctx, hear, &j);
    assert_ok(ctx, wefti_losses_begin(ctx, &l, RANKS));
    for (int r = RANKS - 1; r >= 0; r--)
        for (int64_t t = 1; t <= END; t++) {
            bool later = r > 0 && t > 38;
            wefti_played_step played = {t, later ? 2 : 1, later ? 0.75 : 1};
            wefti_losses_played(&l, r, &played, END);
        }
    wefti_losses_end(ctx, &l);
    j.equal = l.n_equal;
    j.wrong_step = l.wrong_step;
    if (l.wrong_step > 0) snprintf(j.said, sizeof j.said, "%s", l.wrong);
    l.rows = NULL;
    wefti_losses_fini(ctx, &l);
    assert_int_equal(ctx_end(ctx), 0);
    return j;
}

static void assert_judged(judged j, int64_t equal, int64_t wrong_step, int warned) {
    assert_int_equal(j.equal, equal);
    assert_int_equal(j.wrong_step, wrong_step);
    assert_int_equal(j.warned, warned);
}

TEST(a_line_of_the_first_rank_or_of_one_who_stays_is_the_same) {
    assert_judged(judge(5, 1, 1), 1, 0, 0);
    assert_judged(judge(39, 1, 1), 1, 0, 0);    /* the first rank had written it */
    assert_judged(judge(39, 2, 0.75), 1, 0, 0); /* who stays had */
    assert_judged(judge(5, 1, NAN), 1, 0, 0);   /* a run without membership */
}

TEST(a_line_that_differs_is_named_in_every_step_of_a_view) {
    assert_judged(judge(5, 3, 1), 0, 5, 0);
    assert_judged(judge(5, 2, 0.75), 0, 5,
                  0); /* long before the end nobody was missing */
    assert_judged(judge(38, 3, 1), 0, 38, 0);
    assert_judged(judge(39, 3, 1), 0, 39, 0);
    assert_judged(judge(40, 3, 0.75), 0, 40, 0);
    assert_judged(judge(39, 3, NAN), 0, 39, 0);
    assert_string_equal(judge(40, 3, 0.75).said,
                        "the loss of step 40 is 2, metrics.jsonl has 3");
}

TEST(a_line_whose_writer_was_lost_as_well_is_named_as_not_compared) {
    judged j = judge(39, 3, 0.5);
    assert_judged(j, 0, 0, 1);
    assert_non_null(strstr(j.said,
                           "the loss of step 39 is not compared: the rows of 2 of "
                           "4 ranks count in metrics.jsonl"));
}

TEST(the_newest_step_is_that_of_a_loss) {
    double lines[] = {3, 1, 1, 7, NAN, 1, 9, 1, 1};
    const wefti_losses l = {.rows = lines, .n_rows = 3};
    assert_int_equal(wefti_losses_newest(&l, 1, 8), 3);
    assert_int_equal(wefti_losses_newest(&l, 4, 8), 4);
    assert_int_equal(wefti_losses_newest(&l, 4, 9), 9);
}
