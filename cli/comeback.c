/* SPDX-License-Identifier: MIT */
/* Joining the run again after the others have dropped this process.
 *
 *     n-th time within ten minutes of the one before:  waits 2^(n-1) s, 60 s at most
 *
 * Each time that a process with an unstable link is lost costs the others a second. So
 * the waits grow longer, and there are at most --returns of them. After ten minutes of
 * training the count starts again from zero. An environment variable passes the count
 * from one start to the next. */
#define _GNU_SOURCE
#include "comeback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

enum { MOST_RETURNS = 1000, DOORS_BYTES = 1024, LONGEST_WAIT_S = 60 };
static const char count_variable[] = "WEFT_RETURNS";
static const double trained_s = 600;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t); /* this clock also runs while the machine is
                                          suspended */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int comeback_init(comeback *c, const args *given) {
    const char *text = getenv(count_variable);
    long n = text ? strtol(text, NULL, 10) : 0;
    *c = (comeback){.given = given, .most = 10, .begin_s = now_s()};
    c->n = n > 0 && n <= MOST_RETURNS ? (int)n : 0;
    return args_int(given, "--returns", 0, MOST_RETURNS, &c->most);
}

/* Whether a flag or variable gives how this process began; it is not valid for the restart. */
static bool is_of_the_beginning(const char *name) {
    static const char *const names[] = {"--join", "--listen", "--resume"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* The command line of a process that joins. NULL: no memory, or the training text comes
 * from stdin, which can be read only once. */
static char **command_line(const args *a, const char *endpoints) {
    size_t most = 6 + 2 * (size_t)a->n_given + (size_t)a->n_operands;
    union {
        const char *in;
        char *out;
    } word;
    char **argv = calloc(most, sizeof *argv);
    int n = 0;
    if (!argv) return NULL;
    const char *begin[] = {"weft", a->command->name, "--join", endpoints};
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        word.in = begin[i], argv[n++] = word.out;
    for (int i = 0; i < a->n_given; i++) {
        const flag *f = &a->command->flags[a->given[i].flag];
        if (is_of_the_beginning(f->name)) continue;
        word.in = f->name, argv[n++] = word.out;
        if (f->placeholder) word.in = a->given[i].value, argv[n++] = word.out;
    }
    word.in = "--", argv[n++] = word.out;
    for (int i = 0; i < a->n_operands; i++) {
        if (strcmp(a->operands[i], "-") == 0) { /* the text came from stdin */
            free(argv);
            return NULL;
        }
        argv[n++] = a->operands[i];
    }
    return argv;
}

/* Waits until the time is over, or until `should_stop` asks the process to end. */
static bool wait_for(int seconds, bool (*should_stop)(void *user)) {
    double until_s = now_s() + seconds;
    const struct timespec pause = {.tv_nsec = 50000000};
    while (now_s() < until_s && !should_stop(NULL)) nanosleep(&pause, NULL);
    return !should_stop(NULL);
}

/* Executes the program again; returns only if that fails. */
static void begin_anew(const comeback *c, int n, const char *endpoints) {
    char count[16];
    char **argv = command_line(c->given, endpoints);
    if (!argv) return;
    snprintf(count, sizeof count, "%d", n);
    if (setenv(count_variable, count, 1) == 0) {
        fflush(NULL);
        execv("/proc/self/exe", argv);
    }
    fprintf(stderr, "weft: warning: could not begin anew to join the run: %s\n",
            strerror(errno));
    free(argv);
}

void comeback_try(const comeback *c, const weft_ctx *ctx, weft_mesh *mesh,
                  bool (*should_stop)(void *user)) {
    char endpoints[DOORS_BYTES], sentence[1200];
    int n = now_s() - c->begin_s > trained_s ? 1 : c->n + 1;
    int wait = n > 6 ? LONGEST_WAIT_S : 1 << (n - 1);
    if (should_stop(NULL) || c->most == 0) return;
    if (!weft_mesh_way_back(mesh, endpoints, sizeof endpoints)) return;
    if (n > c->most) {
        snprintf(
            sentence, sizeof sentence,
            "it has come in again %lld times shortly one after another, which --returns "
            "allows, and ends",
            c->most);
        progress_note("weft: ", sentence);
        return;
    }
    snprintf(sentence, sizeof sentence,
             "%.900s; this process joins the run again in %d s (time %d of %lld)",
             weft_ctx_message(ctx), wait, n, c->most);
    progress_note("weft: ", sentence);
    if (!wait_for(wait, should_stop)) return;
    if (weft_mesh_way_back(mesh, endpoints, sizeof endpoints))
        begin_anew(c, n, endpoints);
}
