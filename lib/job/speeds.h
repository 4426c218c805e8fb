/* SPDX-License-Identifier: MIT */
/* Shares by measured speed: who computes how many of a step's rows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WEFTI_SPEED_BLOCKS = 8 };
#define WEFTI_SPEED_BLOCK_S 0.25

/* Of a copy of the model; and of the slowest one of each step, whose rows are all. Numbers alone,
 * so that a program may keep them (weft_shares_update). */
typedef struct wefti_speed {
    double rows, step_s;        /* of a step, and how long it takes */
    double earlier, earlier_s;  /* the same before rows changed by much; 0: not known */
    double before, next, most;  /* rows until they changed; to come, and at most */
    double block_rows, block_s; /* of the block under way */
    double last_s[WEFTI_SPEED_BLOCKS]; /* for a row, in the last blocks; 0: not known */
} wefti_speed;

/* What weft_shares_begin makes of weft_shares_numbers. */
typedef struct wefti_speeds {
    double n;         /* 1 and the blocks with these rows; 0: the first step warms up */
    double decided;   /* n when eight blocks were judged last */
    double steps;     /* of the block under way */
    double step_rows; /* of a step of the last block, of all */
    double patience, waited; /* in eights of blocks, and in blocks */
    double known_s;          /* of the slowest, with the rows of now; 0: not known */
    double before_s;         /* the same before rows changed; 0: that is judged */
    wefti_speed of[];        /* [copies + 1] */
} wefti_speeds;

/* What a copy says of a step. */
typedef struct wefti_said {
    double rows, seconds;
} wefti_said;

/* What all copies say of a step. A block is at least so long. */
void wefti_speeds_hear(wefti_speeds *s, int copies, const wefti_said *said,
                       double least_s);

/* Whether rows change with the next step: then rows of all are those. took_s: the longest of all,
 * now and then. */
bool wefti_speeds_decide(wefti_speeds *s, int copies, double took_s[2]);

/* Divides the rows of n copies anew, by what each takes for its own: next, at most `growth` times
 * as many as now, or more where a step is long. False: not worth a change, by which T falls to this
 * part of now. */
bool wefti_shares_by_speed(int n, wefti_speed *of, double growth, double part,
                           double took_s[2]);
