/* SPDX-License-Identifier: MIT */
#pragma once

/* Rounds of disjoint pairs after which N nodes have their exact mean, for any N. */

/* The partner of a node in a round. Both set x <- (1 - weight) x + weight x_partner. */
typedef struct wefti_fold_pair {
    int partner; /* -1: none */
    double weight;
} wefti_fold_pair;

typedef struct wefti_fold {
    int N, k, m, p1; /* N = 2^k m, m odd, p1 = floor(log2 m) */
    int rounds;      /* 0 for one node */
} wefti_fold;

wefti_fold wefti_fold_make(int N);

/* The partner of `node` in round 0..rounds-1. The same call for the partner returns
 * `node`, with the same weight. */
wefti_fold_pair wefti_fold_meet(const wefti_fold *fold, int node, int round);
