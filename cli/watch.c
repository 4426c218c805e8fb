/* SPDX-License-Identifier: MIT */
/* `weft watch`: follows runs while they train, in a browser or in the terminal.
 *
 *     metrics.jsonl, ... of each RUN  --(weft_report_data)-->  one JSON object
 *          |                                                     |          |
 *     watch_stamp: changed?                             watch_serve   watch_text */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const flag flags[] = {
    {"--port", "N", "port of 127.0.0.1 for the page; 0 = any free one (default: 8085)",
     NULL},
    {"--every", "SECONDS", "time between two updates (default: 2)", NULL},
    {"--text", NULL, "in the terminal instead of a browser", NULL},
    {"--once", NULL, "with --text: print once and end", NULL},
    {NULL, NULL, NULL, NULL}};

static volatile sig_atomic_t asked_to_end;

static void ask_to_end(int number) {
    (void)number;
    asked_to_end = 1;
}

bool watch_sleep(double seconds) {
    struct timespec t = {(time_t)seconds,
                         (long)(1e9 * (seconds - (double)(time_t)seconds))};
    if (!asked_to_end) nanosleep(&t, NULL);
    return !asked_to_end;
}

unsigned long long watch_stamp(const watched *w) {
    static const char *const names[] = {"metrics.jsonl", "plan.json",   "timeline.json",
                                        "config.yaml",   "views.jsonl", "nodes.jsonl"};
    unsigned long long stamp = 1469598103934665603ull;
    char path[4096];
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < 6; k++) {
            struct stat info;
            snprintf(path, sizeof path, "%s/%s", w->folders[i], names[k]);
            if (stat(path, &info) != 0) memset(&info, 0, sizeof info);
            unsigned long long parts[] = {(unsigned long long)info.st_size,
                                          (unsigned long long)info.st_mtim.tv_sec,
                                          (unsigned long long)info.st_mtim.tv_nsec,
                                          (unsigned long long)info.st_ino};
            for (int p = 0; p < 4; p++) stamp = (stamp ^ parts[p]) * 1099511628211ull;
        }
    return stamp;
}

/* Signals end the program between two reads of the runs. Interrupted calls are not restarted. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = ask_to_end};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A run that is started a moment later is waited for. */
static weft_status find_folders(const watched *w, bool waits) {
    struct stat info;
    for (int i = 0; i < w->n && !asked_to_end; i++) {
        const char *folder = w->folders[i];
        bool later = waits && !strstr(folder, "://");
        for (bool printed = false; later && stat(folder, &info) != 0 && errno == ENOENT;
             printed = true) {
            if (!printed) fprintf(stderr, "waiting for the run folder %s\n", folder);
            if (!watch_sleep(w->every_s)) return WEFT_OK;
        }
        WEFT_TRY(weft_run_look(w->ctx, folder));
    }
    return WEFT_OK;
}

static int run(weft_ctx *ctx, args *a) {
    long long port = 8085;
    watched w = {.ctx = ctx, .every_s = 2};
    int code = args_plain(a, "--port", 0, 65535, &port);
    if (code == CODE_OK)
        code = args_quantity(a, "--every", WEFT_UNIT_SECONDS, (interval){0.1, 3600},
                             &w.every_s);
    if (code == CODE_OK && args_has(a, "--once") && !args_has(a, "--text"))
        code = usage_error("--once goes with --text");
    if (code == CODE_OK && args_has(a, "--text") && args_has(a, "--port"))
        code = usage_error("--port is of the page, --text shows none");
    if (code != CODE_OK) return code;
    for (; w.n < a->n_operands; w.n++) w.folders[w.n] = a->operands[w.n];
    catch_signals();
    weft_status status = find_folders(&w, !args_has(a, "--once"));
    if (status != WEFT_OK || asked_to_end) return program_code(ctx, status);
    bool text = args_has(a, "--text");
    status = weft_report_create(w.ctx, w.folders, w.n, text ? 0 : w.every_s, &w.report);
    code = status != WEFT_OK ? program_code(w.ctx, status)
           : text            ? watch_text(&w, args_has(a, "--once"))
                             : watch_serve(&w, (int)port);
    weft_report_destroy(w.ctx, w.report);
    return code;
}

const command command_watch = {
    .name = "watch",
    .summary = "follow runs while they train, in a browser or the terminal",
    .usage = "RUN [RUN ...] [--port N | --text]",
    .help = "Serves the page of `weft report` on this machine's own address and keeps it "
            "up to date: open the address that it prints. For a run on another machine, "
            "forward the port first: ssh -t -L 8085:127.0.0.1:8085 HOST weft watch RUN. "
            "With --text it draws loss, speed, bytes and the time left in the terminal "
            "instead. It ends with Ctrl-C, and only reads the run.",
    .flags = flags,
    .least = 1,
    .most = MAX_WATCHED,
    .run = run,
};
