/* SPDX-License-Identifier: MIT */
/* On a terminal one line is redrawn; elsewhere a line is printed at intervals:
 *
 *     train 120/500 24% [====>            ]  loss 3.2140  42s left  10.7k tok/s  wire ...
 *
 * The bar keeps its width during the run, so that it does not jump. The words after it
 * are in order of importance, and are printed as long as they fit. The lock of stderr
 * keeps the lines of several threads intact. */
#include "progress.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 512, WORD_BYTES = 64, MIN_BAR = 10, MAX_BAR = 40 };

static struct {
    bool terminal;
    bool drawn;   /* the cursor's line holds the bar */
    bool pending; /* `last` is not on the screen */
    int64_t total;
    int64_t printed_step;
    double begun_s;
    double printed_s; /* when a line was printed last */
    progress_state last;
} now;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool progress_redraws(int fd) {
    const char *kind = getenv("TERM");
    return isatty(fd) == 1 && kind && strcmp(kind, "dumb") != 0;
}

static int terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
    return size.ws_col < LINE_BYTES ? size.ws_col : LINE_BYTES - 1;
}

/* "950", "12.3k", "4.56M": three digits. */
static const char *short_number(double x, char *out, size_t out_size) {
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    int k = 0;
    while (k < 4 && x >= 999.5) x /= 1000, k++;
    int decimals = k == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
    snprintf(out, out_size, "%.*f%s", decimals, x, suffixes[k]);
    return out;
}

/* "42s", "3m05s", "7h12m". */
static const char *short_time(double s, char *out, size_t out_size) {
    long long t = s < 0 ? 0 : (long long)fmin(s, 1e9);
    if (t < 60)
        snprintf(out, out_size, "%llds", t);
    else if (t < 3600)
        snprintf(out, out_size, "%lldm%02llds", t / 60, t % 60);
    else
        snprintf(out, out_size, "%lldh%02lldm", t / 3600, t / 60 % 60);
    return out;
}

/* Appends a word if it fits into the width. If it does not, later words may still fit. */
static void add(char *line, int width, const char *word) {
    size_t used = strlen(line), n = strlen(word);
    if (!word[0] || (int)(used + 2 + n) > width) return;
    snprintf(line + used, LINE_BYTES - used, "  %s", word);
}

static void add_wire(char *line, int width, const progress_state *p) {
    char word[WORD_BYTES], number[24];
    if (!isfinite(p->wire_bytes_per_step)) return;
    short_number(p->wire_bytes_per_step, number, sizeof number);
    if (isfinite(p->wait_share) && p->wire_bytes_per_step > 0)
        snprintf(word, sizeof word, "wire %sB/step, waits %.0f%%", number,
                 100 * p->wait_share);
    else
        snprintf(word, sizeof word, "wire %sB/step", number);
    add(line, width, word);
}

/* Appends " [=====>    ]", wider on a wider terminal; nothing in a file or without enough
 * room. */
static void append_bar(char *line, int width, const progress_state *p) {
    size_t used = strlen(line);
    int n = (width - 56) / 2;
    if (n < MIN_BAR) n = MIN_BAR;
    if (n > MAX_BAR) n = MAX_BAR;
    if (!now.terminal || p->total <= 0 || (int)used + 3 + n > width) return;
    double share = fmin(fmax((double)p->step / (double)p->total, 0), 1);
    int filled = (int)(share * n);
    line += used;
    line += snprintf(line, LINE_BYTES - used, " [");
    for (int i = 0; i < n; i++) *line++ = i < filled ? '=' : i == filled ? '>' : ' ';
    snprintf(line, 2, "]");
}

/* "train 12/1000 1% [>      ]  loss 3.214  ..." */
static void compose(char *line, int width, const progress_state *p) {
    char word[WORD_BYTES], number[24];
    int percent = p->total > 0 ? (int)(100.0 * (double)p->step / (double)p->total) : 0;
    snprintf(line, LINE_BYTES, "%.20s%s%lld/%lld %d%%", p->phase ? p->phase : "",
             p->phase ? " " : "", (long long)p->step, (long long)p->total, percent);
    append_bar(line, width, p);
    if (isfinite(p->loss)) {
        snprintf(word, sizeof word, "loss %.4f", p->loss);
        add(line, width, word);
    }
    if (isfinite(p->eta_s) && p->step < p->total) {
        snprintf(word, sizeof word, "%s left",
                 short_time(p->eta_s, number, sizeof number));
        add(line, width, word);
    }
    if (isfinite(p->tokens_per_s)) {
        short_number(p->tokens_per_s, number, sizeof number);
        snprintf(word, sizeof word, "%s tok/s", number);
        add(line, width, word);
    }
    add_wire(line, width, p);
    if (isfinite(p->against_plan)) {
        double over = 100 * (p->against_plan - 1);
        snprintf(word, sizeof word, "%.0f%% %s plan", fabs(over),
                 over < 0 ? "below" : "above");
        add(line, width, word);
    }
}

static void draw(const progress_state *p) {
    char line[2 * LINE_BYTES];
    int width = now.terminal ? terminal_width() - 1 : LINE_BYTES - 1;
    compose(line, width, p);
    flockfile(stderr);
    if (now.terminal)
        fprintf(stderr, "\r%s\033[K", line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    now.drawn = now.terminal;
    funlockfile(stderr);
    now.printed_s = seconds();
    now.printed_step = p->step;
    now.pending = false;
}

void progress_begin(int64_t total) {
    memset(&now, 0, sizeof now);
    now.terminal = progress_redraws(STDERR_FILENO);
    now.total = total;
    now.begun_s = seconds();
    now.printed_s = -1e9;
}

/* Whether it is time to print. A terminal is redrawn ten times per second. A file gets a
 * line at each tenth of the run, and between these one after 5 s, then more rarely,
 * finally one per minute. */
static bool is_time(const progress_state *p) {
    double at = seconds(), since = at - now.printed_s;
    if (now.terminal) return since >= 0.1;
    double rest = fmin(fmax((at - now.begun_s) / 20, 5), 60);
    return since >= rest || 10 * (p->step - now.printed_step) >= now.total;
}

void progress_update(const progress_state *state) {
    now.last = *state;
    now.pending = true;
    if (is_time(state)) draw(state);
}

void progress_end(void) {
    if (now.pending) draw(&now.last);
    flockfile(stderr);
    if (now.drawn) fputc('\n', stderr);
    now.drawn = false;
    funlockfile(stderr);
}

void progress_note(const char *prefix, const char *line) {
    flockfile(stderr);
    fprintf(stderr, "%s%s%s\n", now.drawn ? "\r\033[K" : "", prefix, line);
    now.pending |= now.drawn;
    now.drawn = false;
    funlockfile(stderr);
}
