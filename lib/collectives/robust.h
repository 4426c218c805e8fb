/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Means that a few wrong members cannot ruin. x_i is what member i sent about one range, w_i its
 * weight (wefti_comm.weights), |x_i| / w_i its size. A member with a number that is not finite is
 * left out. Of the m others:
 *
 *     clip    sum_i c_i x_i / sum_i w_i      c_i = min(1, M w_i / |x_i|), M the median of the
 *                                            sizes, of an even m the lower one
 *     trim    for each number: the mean of all x_i / w_i but the b least and the b greatest,
 *             b = max(1, m / 4) rounded down, at most (m - 1) / 2: members count alike
 *
 * Whoever adds a range does this with what has come anyway: nothing more is sent. Sums have one
 * order and are the same with each table of kernels, so any rank may add for a lost one. It
 * guards against members with wrong numbers, not against one that answers wrongly. */
typedef enum wefti_robust {
    WEFTI_ROBUST_OFF,
    WEFTI_ROBUST_CLIP,
    WEFTI_ROBUST_TRIM
} wefti_robust;

/* "off", "clip", "trim"; anything else is off. */
wefti_robust wefti_robust_named(const char *name);

/* The sum of squares of n numbers, in one order. */
double wefti_robust_squares(int64_t n, const float *x);

/* Members whose parts are here. */
typedef struct wefti_robust_members {
    int n;
    const double *squares, *weights; /* [n] |x_i|^2 and w_i */
    double *sizes;                   /* [n] room */
    float *factors; /* [n] out: by which x_i is multiplied before wefti_robust_sum; 0:
                       left out */
} wefti_robust_members;

/* Fills in the factors. Returns by what the sum is divided; 1 if nothing is left. */
double wefti_robust_factors(wefti_robust rule, const wefti_robust_members *m);

/* sum[j] <- clip: the sum of rows[i][j]; trim: without the least and greatest. rows: those
 * members that are not left out, multiplied; changed by trim. */
void wefti_robust_sum(wefti_robust rule, int n_rows, float *const *rows, int64_t n,
                      float *sum);

/* Whose contribution is too large again and again, as this rank sees it in the ranges that it
 * adds: more than 4 times the median, or not finite, in more than half of the last 20
 * exchanges. */
enum { WEFTI_ROBUST_EXCHANGES = 20, WEFTI_ROBUST_FAR = 4 };

typedef struct wefti_robust_seen {
    double squares;   /* of its contribution to the exchange under way, by weight */
    double times;     /* size over the median, in the last exchange that was too large */
    uint32_t history; /* bit 0: the last exchange was too large */
    bool present, named;
} wefti_robust_seen;

typedef struct wefti_robust_watch {
    int n;
    int64_t step;            /* of the exchange under way; -1: none yet */
    wefti_robust_seen *seen; /* [n], the owner's */
    double *sizes;           /* [n] room, the owner's */
} wefti_robust_watch;

/* Adds what member i contributed in an exchange. A later step ends the one before. */
void wefti_robust_note(wefti_robust_watch *watch, int64_t step, int member,
                       double squares);

/* Ends the exchange under way. Returns a member that is too large again and again and was not
 * returned before, or -1. [out] times, exchanges: how large, and in how many of the last 20. */
int wefti_robust_suspect(wefti_robust_watch *watch, double *times, int *exchanges);
