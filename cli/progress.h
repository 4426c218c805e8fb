/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Progress on stderr: one redrawn line on a terminal, else a plain line now and then.
 * There is one of it in the program. */

typedef struct progress_state {
    int64_t step, total;
    double loss; /* NAN: not shown, as all below */
    double tokens_per_s;
    double wire_bytes_per_step;
    double hidden_share; /* 0..1, of the exchange behind computing */
    double eta_s;
    double against_plan; /* measured step over the predicted one */
    const char *phase;   /* "train", "validate", ...; NULL: not shown */
} progress_state;

void progress_begin(int64_t total);
void progress_update(const progress_state *state);

/* Leaves the last state on the screen. */
void progress_end(void);

/* Prints a line of its own on stderr, above the bar; from any thread. */
void progress_note(const char *prefix, const char *line);
