/* SPDX-License-Identifier: MIT */
/* Which half of a cut run has a witness's vote.
 *
 *     judge(run, view, claim) = NEW     the run is not known, or its vote was for an earlier view
 *                               GIVEN   the same view, the same claim
 *                               TAKEN   the same view, another claim or another branch of the run
 *                               OLD     an earlier view
 *
 * Safety depends on TAKEN alone: quorum.c shows that two sets which can both decide are the
 * two halves of one set, so their claims differ. OLD is a consequence of keeping only one
 * vote per run. */
#include "member/votes.h"

#include "base/memory.h"

weft_status wefti_votes_init(weft_ctx *ctx, wefti_votes *votes) {
    votes->n = 0;
    return wefti_alloc_n(ctx, WEFTI_VOTES_RUNS, sizeof *votes->list, "votes",
                         &votes->list);
}

void wefti_votes_fini(weft_ctx *ctx, wefti_votes *votes) {
    wefti_free(ctx, votes->list);
    *votes = (wefti_votes){0};
}

static wefti_vote *find(const wefti_votes *votes, uint64_t run) {
    for (int i = 0; i < votes->n; i++)
        if (votes->list[i].run == run) return &votes->list[i];
    return NULL;
}

wefti_vote_answer wefti_votes_judge(const wefti_votes *votes, const wefti_vote *vote) {
    const wefti_vote *last = find(votes, vote->run);
    if (!last) return votes->n < WEFTI_VOTES_RUNS ? WEFTI_VOTE_NEW : WEFTI_VOTE_FULL;
    if (vote->view > last->view) return WEFTI_VOTE_NEW;
    if (vote->view < last->view) return WEFTI_VOTE_OLD;
    bool same = vote->claim == last->claim && vote->chain == last->chain;
    return same ? WEFTI_VOTE_GIVEN : WEFTI_VOTE_TAKEN;
}

void wefti_votes_give(wefti_votes *votes, const wefti_vote *vote) {
    wefti_vote *last = find(votes, vote->run);
    if (!last && votes->n < WEFTI_VOTES_RUNS) last = &votes->list[votes->n++];
    if (last) *last = *vote;
}
