/* SPDX-License-Identifier: MIT */
#pragma once

#include "member/member.h"

/* The evidence against one member of the view. */
typedef struct wefti_standing {
    wefti_evidence evidence;
    wefti_member_record record; /* with WEFTI_EVIDENCE_RECORD */
    bool is_new;                /* it has joined, and does not have the state yet */
} wefti_standing;

/* The question: may those who answered decide what follows after `view`, in this ballot? */
typedef struct wefti_quorum_question {
    const wefti_member_policy *policy;
    const wefti_view *view;
    const bool *answered;            /* [n_nodes] */
    const wefti_standing *standings; /* [n_nodes] */
    wefti_ballot ballot;
    uint64_t vote; /* the claim that has a witness's vote for this view; 0: none */
} wefti_quorum_question;

bool wefti_quorum_is(const wefti_quorum_question *q);

/* Whether those who answered are exactly half, so that a witness's vote would let them
 * decide. */
bool wefti_quorum_ties(const wefti_quorum_question *q);

/* The name for the witness of the half of the view that has answered; never 0. */
uint64_t wefti_quorum_claim(const wefti_quorum_question *q);
