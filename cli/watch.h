/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/report.h>

#include "common.h"

enum { MAX_WATCHED = 64 };

/* The run folders that are followed. */
typedef struct watched {
    weft_ctx *ctx;
    weft_report *report; /* of the folders; what it has read of them stays with it */
    const char *folders[MAX_WATCHED]; /* borrowed */
    int n;
    double every_s;
} watched;

/* A number that changes whenever a file that the page shows changes. */
unsigned long long watch_stamp(const watched *w);

/* Serves the page on `port` of 127.0.0.1 (0: any free port) until a signal arrives. */
int watch_serve(const watched *w, int port);

/* Prints each run in a few lines, and again whenever something has changed, until a
 * signal arrives. `once`: prints one time and returns. */
int watch_text(const watched *w, bool once);

/* Sleeps. Returns false if a signal asks the program to end. */
bool watch_sleep(double seconds);
