/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_DIARY_H
#define WEFTI_DIARY_H

#include <weft/ctx.h>

/* What a rank's two threads did in one step, for the report: timeline.json. Each thread
 * writes into its own part; the compute thread opens and closes the diary while the
 * exchange thread rests. All functions accept NULL: nothing is kept. */

enum { WEFTI_DIARY_COMPUTE, WEFTI_DIARY_EXCHANGE, WEFTI_DIARY_THREADS };

typedef struct wefti_diary_line {
    const char *what; /* lives as long as the program */
    int index;        /* unit or bucket */
    double begin_s, end_s;
} wefti_diary_line;

typedef struct wefti_diary {
    wefti_diary_line *lines[WEFTI_DIARY_THREADS]; /* owned */
    int n[WEFTI_DIARY_THREADS], room;
    int64_t step; /* that is kept */
    double begun_s;
    bool open, kept, written;
} wefti_diary;

/* Room for n_lines of each thread; what is more is dropped. */
weft_status wefti_diary_create(weft_ctx *ctx, int64_t step, int64_t n_lines,
                               wefti_diary **out) WEFT_CHECKED;
void wefti_diary_destroy(weft_ctx *ctx, wefti_diary *diary);

/* The step begins, or has settled. */
void wefti_diary_open(wefti_diary *diary, int64_t step, double now_s);
void wefti_diary_close(wefti_diary *diary);

/* The time, if the diary is open; then what was done since. */
double wefti_diary_now(const wefti_diary *diary);
void wefti_diary_put(wefti_diary *diary, int thread, int index, const char *what,
                     double begin_s);

/* Writes <folder>/timeline.json once, when there is something to write. */
weft_status wefti_diary_write(weft_ctx *ctx, wefti_diary *diary,
                              const char *folder) WEFT_CHECKED;

#endif
