/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Progress on stderr: one line that is redrawn on a terminal, otherwise a plain line at
 * intervals. The program has only one instance. */

typedef struct progress_state {
    int64_t step, total;
    double loss; /* NAN: not shown; the same for all fields below */
    double tokens_per_s;
    double wire_bytes_per_step; /* mean of all steps: some methods send in few of them */
    double wait_share;          /* of the time of all steps, for other ranks' messages */
    double eta_s;
    double against_plan; /* measured step time over the predicted one */
    const char *phase;   /* "train", "validate", ...; NULL: not shown */
} progress_state;

/* Whether a stream is a terminal that moves its cursor; TERM=dumb does not. */
bool progress_redraws(int fd);

void progress_begin(int64_t total);
void progress_update(const progress_state *state);

/* Ends the progress line and leaves its last state on the screen. */
void progress_end(void);

/* Prints a separate line on stderr, above the bar. May be called from any thread. */
void progress_note(const char *prefix, const char *line);
