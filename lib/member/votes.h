/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ctx.h>

/* The votes of a witness (docs/membership.md, "A witness"): for each run the last one that
 * it gave. A witness is not a member. It gets no messages of the run and is asked only when
 * exactly half of the members of a view can hear each other:
 *
 *     half of view v  --  claim: hash of (view, who is in the half)  -->  witness
 *                     <--  given, or not given                       --
 *
 * A view's vote is given to the first claim, and again to the same claim, whichever node of
 * that half asks; never to another claim. A vote for a view before the last one is not
 * remembered, and is not given. */
typedef struct wefti_vote {
    uint64_t run, chain; /* of the view */
    int64_t view;        /* the view that would be replaced */
    uint64_t claim;      /* wefti_quorum_claim; 0: none */
} wefti_vote;

typedef enum wefti_vote_answer {
    WEFTI_VOTE_NEW,   /* not given yet: store it before answering */
    WEFTI_VOTE_GIVEN, /* this claim has it already */
    WEFTI_VOTE_TAKEN, /* another claim has it */
    WEFTI_VOTE_OLD,   /* the run has continued since then */
    WEFTI_VOTE_FULL   /* there is no room for another run */
} wefti_vote_answer;

/* The last vote of a run is never forgotten, so the number of runs is limited. */
enum { WEFTI_VOTES_RUNS = 4096 };

typedef struct wefti_votes {
    int n;
    wefti_vote *list; /* [WEFTI_VOTES_RUNS] owned; one for each run */
} wefti_votes;

weft_status wefti_votes_init(weft_ctx *ctx, wefti_votes *votes) WEFT_CHECKED;
void wefti_votes_fini(weft_ctx *ctx, wefti_votes *votes);

/* The answer to a claim. Changes nothing. */
wefti_vote_answer wefti_votes_judge(const wefti_votes *votes, const wefti_vote *vote);

/* Stores a vote that was judged NEW. The last vote of a run counts, so a list of all given
 * votes can be stored again in its order. */
void wefti_votes_give(wefti_votes *votes, const wefti_vote *vote);
