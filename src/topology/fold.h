/* SPDX-License-Identifier: MIT */
#pragma once

/* Rounds of disjoint pairs after which N nodes, whatever N is, have their exact mean. */

/* Whom a node meets in a round. The two take x <- (1 - weight) x + weight x_partner. */
typedef struct wefti_fold_pair {
    int partner; /* -1: nobody */
    double weight;
} wefti_fold_pair;

typedef struct wefti_fold {
    int N, k, m, p1; /* N = 2^k m, m odd, p1 = floor(log2 m) */
    int rounds;      /* 0 for one node */
} wefti_fold;

wefti_fold wefti_fold_make(int N);

/* Whom `node` meets in round 0..rounds-1; the partner's answer is the same. */
wefti_fold_pair wefti_fold_meet(const wefti_fold *fold, int node, int round);
