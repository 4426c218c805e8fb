/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdlib.h>

#include "member/votes.h"

typedef struct witness {
    weft_ctx *ctx;
    wefti_votes votes;
} witness;

static int setup(void **state) {
    witness *w = calloc(1, sizeof *w);
    assert_int_equal(weft_ctx_create(&w->ctx), WEFT_OK);
    assert_ok(w->ctx, wefti_votes_init(w->ctx, &w->votes));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    witness *w = *state;
    wefti_votes_fini(w->ctx, &w->votes);
    weft_ctx_destroy(w->ctx);
    free(w);
    return 0;
}

/* A claim to the vote of a view of a run: what is said to it, and NEW is given. */
static wefti_vote_answer ask(witness *w, uint64_t run, int64_t view, uint64_t claim) {
    wefti_vote vote = {
        .run = run, .chain = 100 + (uint64_t)view, .view = view, .claim = claim};
    wefti_vote_answer answer = wefti_votes_judge(&w->votes, &vote);
    if (answer == WEFTI_VOTE_NEW) wefti_votes_give(&w->votes, &vote);
    return answer;
}

TEST_IN(setup, teardown, a_vote_is_given_to_the_first_claim_and_to_no_other) {
    witness *w = *state;
    assert_int_equal(ask(w, 7, 1, 11), WEFTI_VOTE_NEW);
    assert_int_equal(ask(w, 7, 1, 12), WEFTI_VOTE_TAKEN);
    assert_int_equal(ask(w, 7, 1, 11), WEFTI_VOTE_GIVEN);
    assert_int_equal(ask(w, 7, 1, 12), WEFTI_VOTE_TAKEN);
}

TEST_IN(setup, teardown, each_view_has_a_vote_and_past_ones_have_none) {
    witness *w = *state;
    assert_int_equal(ask(w, 7, 3, 11), WEFTI_VOTE_NEW);
    assert_int_equal(ask(w, 7, 5, 12), WEFTI_VOTE_NEW);
    assert_int_equal(ask(w, 7, 4, 13), WEFTI_VOTE_OLD);
    assert_int_equal(ask(w, 7, 3, 11),
                     WEFTI_VOTE_OLD); /* that one, too: it has moved on */
    assert_int_equal(ask(w, 7, 5, 12), WEFTI_VOTE_GIVEN);
}

TEST_IN(setup, teardown, another_branch_of_a_view_has_no_vote) {
    witness *w = *state;
    wefti_vote other = {.run = 7, .chain = 1, .view = 3, .claim = 11};
    assert_int_equal(ask(w, 7, 3, 11), WEFTI_VOTE_NEW);
    assert_int_equal(wefti_votes_judge(&w->votes, &other), WEFTI_VOTE_TAKEN);
}

TEST_IN(setup, teardown, a_vote_that_was_only_judged_is_still_free) {
    witness *w = *state;
    wefti_vote vote = {.run = 7, .view = 1, .claim = 11};
    assert_int_equal(wefti_votes_judge(&w->votes, &vote), WEFTI_VOTE_NEW);
    vote.claim = 12; /* it could not be stored, and the other half came next */
    assert_int_equal(wefti_votes_judge(&w->votes, &vote), WEFTI_VOTE_NEW);
}

/* A run that was forgotten would have its vote given twice. */
TEST_IN(setup, teardown, runs_are_kept_apart_and_none_is_forgotten_for_another) {
    witness *w = *state;
    for (uint64_t run = 1; run <= WEFTI_VOTES_RUNS; run++)
        assert_int_equal(ask(w, run, 1, 10 + run), WEFTI_VOTE_NEW);
    assert_int_equal(ask(w, WEFTI_VOTES_RUNS + 1, 1, 9), WEFTI_VOTE_FULL);
    for (uint64_t run = 1; run <= WEFTI_VOTES_RUNS; run++)
        assert_int_equal(ask(w, run, 1, 9), WEFTI_VOTE_TAKEN);
    assert_int_equal(ask(w, 5, 2, 9), WEFTI_VOTE_NEW);
}
