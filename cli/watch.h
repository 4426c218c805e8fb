/* SPDX-License-Identifier: MIT */
#pragma once

#include "common.h"

enum { MAX_WATCHED = 64 };

/* The run folders that are followed. */
typedef struct watched {
    weft_ctx *ctx;
    const char *folders[MAX_WATCHED]; /* borrowed */
    int n;
    double every_s;
} watched;

/* A number that changes when a file that the page is made of does. */
unsigned long long watch_stamp(const watched *w);

/* Serves the page on port of 127.0.0.1 (0: a free one) until a signal comes. */
int watch_serve(const watched *w, int port);

/* Prints each run in a few lines, anew when something changed, until a signal comes;
 * `once`: one time. */
int watch_text(const watched *w, bool once);

/* Sleeps; false: a signal asks for the end. */
bool watch_sleep(double seconds);
