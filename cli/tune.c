/* SPDX-License-Identifier: MIT */
/* `weft tune`: trains trials in child processes, as the search decides (weft/tune.h).
 *
 *     parent   next -> fork -> ... poll the pipes -> report        one job per process
 *     child    train up to the job's step, write the outcome into its pipe, exit
 *
 * A child ignores Ctrl-C, which the terminal sends to all processes. The parent asks it
 * to stop (SIGTERM: the child saves first), and kills it at the second signal. Where the
 * system supports it, a child dies with its parent, however the parent ends. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <sys/prctl.h>
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/train.h>
#include <weft/tune.h>

#include "common.h"

enum { MOST_JOBS = 64, PATH_ROOM = 4096 };

static const flag flags[] = {
    {"--key", "KEY=VALUES", "a key to search over: LOW..HIGH, or A,B,C; several times",
     NULL},
    {"--trials", "N", "number of points to try (12; all of a grid of lists)", NULL},
    {"--seeds", "K", "runs of a trial at the full budget; their mean counts (1)", NULL},
    {"--budget", "STEPS", "steps of a whole trial", "run.steps"},
    {"--eta", "N", "one of N trials continues, to N times the steps (3)", NULL},
    {"--rungs", "N", "how often trials are compared; 1 = none stops early", NULL},
    {"--jobs", "N", "trials at the same time (as many as the cores allow)", NULL},
    {"--folder", "FOLDER", "where runs, journal.tsv and best.yaml go (runs/tune)", NULL},
    {"--json", NULL, "one JSON object on stdout", NULL},
    {"--quiet", NULL, "no progress lines", NULL},
    {NULL, NULL, NULL, NULL}};

/* The message of a child to the parent: a single write, below the size up to which pipes
 * write atomically. */
typedef struct outcome {
    weft_status status;
    double loss, seconds;
    char message[400];
} outcome;

typedef struct running {
    pid_t pid; /* 0: this slot is free */
    int pipe;
    weft_tune_job job;
} running; /* a job in a process of its own */

typedef struct search {
    weft_ctx *ctx;
    const weft_config *base; /* finished */
    weft_tune *tune;
    const char *folder;
    bool quiet;
    int n_jobs, threads;
    running jobs[MOST_JOBS];
    weft_status
        status; /* of the first job that failed for a reason other than its loss */
} search;

static volatile sig_atomic_t n_signals; /* in the parent */
static atomic_int asked_to_stop;        /* in a child */

static void count_signal(int number) {
    (void)number;
    n_signals = n_signals + 1;
}

static void ask_to_stop(int number) {
    (void)number;
    atomic_store(&asked_to_stop, 1);
}

/* --- a child --- */

/* Where a child stops: at the step of its job, after the evaluation of that step. The
 * result is first written beside the run. If the search dies before it has written its
 * journal, it finds the result there, although the run itself is already past that step. */
typedef struct trial_run {
    int64_t steps;
    double loss, seconds;
    bool reached, kept;
    char path[PATH_ROOM + 128];
} trial_run;

static bool keep(const trial_run *run) {
    char aside[sizeof run->path + 8];
    snprintf(aside, sizeof aside, "%s.part", run->path);
    FILE *file = fopen(aside, "w");
    if (!file) return false;
    fprintf(file, "%.17g %.3f\n", run->loss, run->seconds);
    bool whole = fclose(file) == 0;
    return whole && rename(aside, run->path) == 0;
}

static void look_for_kept(trial_run *run) {
    FILE *file = fopen(run->path, "r");
    if (!file) return;
    run->reached = fscanf(file, "%lf %lf", &run->loss, &run->seconds) == 2;
    fclose(file);
}

static void note_evaluation(void *user, const weft_eval_record *r) {
    trial_run *run = user;
    if (r->step != run->steps) return;
    run->loss = r->loss;
    run->seconds = r->elapsed_s;
    run->reached = true;
    run->kept = keep(run);
}

static bool wants_stop(void *user) {
    const trial_run *run = user;
    return run->reached || atomic_load(&asked_to_stop);
}

static weft_status set_int(weft_ctx *ctx, weft_config *config, const char *key,
                           long long value) {
    char assignment[96];
    snprintf(assignment, sizeof assignment, "%s=%lld", key, value);
    return weft_config_set(ctx, config, assignment);
}

/* Makes the configuration of a job: that of the search, with the keys of the trial. The
 * search sets the folder, the seed, and when to evaluate. */
static weft_status configure(const search *s, weft_ctx *ctx, const weft_tune_job *job,
                             weft_config *config, trial_run *run) {
    char folder[PATH_ROOM + 64];
    int64_t seed = s->base->run.seed + job->seed;
    WEFT_TRY(weft_tune_set(s->tune, job->trial, config));
    snprintf(folder, sizeof folder, "run.folder=%s/trial-%04d-seed-%lld", s->folder,
             job->trial, (long long)seed);
    snprintf(run->path, sizeof run->path, "%s/loss-%lld", strchr(folder, '=') + 1,
             (long long)job->steps);
    WEFT_TRY(weft_config_set(ctx, config, folder));
    WEFT_TRY(set_int(ctx, config, "run.seed", seed));
    WEFT_TRY(set_int(ctx, config, "run.eval_every", job->steps));
    WEFT_TRY(set_int(ctx, config, "run.keep", 1));
    WEFT_TRY(set_int(ctx, config, "mesh.threads", s->threads));
    WEFT_TRY(weft_config_set(ctx, config, "run.tensorboard=false"));
    WEFT_TRY(weft_config_set(ctx, config, "run.prometheus="));
    return weft_config_finish(ctx, config);
}

static weft_status train_run(weft_ctx *ctx, weft_config *config, trial_run *run) {
    weft_train_hooks hooks = {.struct_size = sizeof hooks,
                              .user = run,
                              .on_evaluation = note_evaluation,
                              .should_stop = wants_stop};
    weft_train_result result = {.struct_size = sizeof result};
    look_for_kept(run);
    if (run->reached) return WEFT_OK;
    WEFT_TRY(weft_train(ctx, NULL, config, true, &hooks, &result));
    if (!run->reached && !atomic_load(&asked_to_stop))
        return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL, "no evaluation after step %lld",
                             (long long)run->steps);
    if (!run->reached || run->kept) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not write %s", run->path);
}

static weft_status train_job(const search *s, weft_ctx *ctx, const weft_tune_job *job,
                             outcome *out) {
    weft_config *config;
    trial_run run = {.steps = job->steps, .loss = NAN};
    WEFT_TRY(weft_config_copy(ctx, s->base, &config));
    weft_status status = configure(s, ctx, job, config, &run);
    if (status == WEFT_OK) status = train_run(ctx, config, &run);
    weft_config_destroy(ctx, config);
    out->loss = run.loss;
    out->seconds = run.seconds;
    return status;
}

/* Runs the child process. Never returns. */
static void be_child(const search *s, const weft_tune_job *job, int pipe, pid_t parent) {
    outcome out = {.status = WEFT_ERR_MEMORY, .loss = NAN};
    weft_ctx *ctx;
#if defined(__linux__)
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(CODE_FAILED);
#else
    (void)parent;
#endif
    if (weft_ctx_create(&ctx) == WEFT_OK) {
        out.status = train_job(s, ctx, job, &out);
        snprintf(out.message, sizeof out.message, "%s", weft_ctx_message(ctx));
    }
    bool stopped = out.status == WEFT_OK && !isfinite(out.loss); /* by a signal */
    bool written = stopped || write(pipe, &out, sizeof out) == (ssize_t)sizeof out;
    _exit(written ? CODE_OK : CODE_FAILED);
}

/* --- the parent --- */

static void set_action(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Blocks signals. They are unblocked only while the parent waits, so that none is missed. */
static void block_signals(sigset_t *before) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    set_action(SIGINT, count_signal);
    set_action(SIGTERM, count_signal);
    sigprocmask(SIG_BLOCK, &both, before);
}

static weft_status fail_errno(weft_ctx *ctx, const char *what) {
    return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL, "could not %s: %s", what,
                         strerror(errno));
}

static weft_status start(search *s, running *place, const weft_tune_job *job,
                         const sigset_t *before) {
    int ends[2];
    pid_t parent = getpid();
    fflush(NULL); /* otherwise the child's exit would print buffered output again */
    if (pipe(ends) != 0) return fail_errno(s->ctx, "make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (int i = 0; i < s->n_jobs; i++)
            if (s->jobs[i].pid) close(s->jobs[i].pipe);
        set_action(SIGINT, SIG_IGN);
        set_action(SIGTERM, ask_to_stop);
        sigprocmask(SIG_SETMASK, before, NULL);
        be_child(s, job, ends[1], parent);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return fail_errno(s->ctx, "start a process");
    }
    *place = (running){pid, ends[0], *job};
    return WEFT_OK;
}

static void say(const search *s, const weft_tune_job *job, const outcome *out) {
    if (s->quiet) return;
    fprintf(stderr, "trial %3d  step %6lld ", job->trial, (long long)job->steps);
    if (isfinite(out->loss))
        fprintf(stderr, " loss %.4f", out->loss);
    else
        fprintf(stderr, " failed     ");
    for (int k = 0; k < weft_tune_keys(s->tune); k++)
        fprintf(stderr, "  %s=%s", weft_tune_key(s->tune, k),
                weft_tune_value(s->tune, job->trial, k));
    fputc('\n', stderr);
}

/* Takes the outcome of a job. A loss that is not finite is a result; any other failure
 * ends the search. */
static weft_status take(search *s, const weft_tune_job *job, const outcome *out) {
    if (out->status != WEFT_OK && out->status != WEFT_ERR_NUMERIC)
        return weft_ctx_fail(s->ctx, out->status, "trial %d: %s", job->trial,
                             out->message);
    WEFT_TRY(weft_tune_report(
        s->tune, job, out->status == WEFT_OK ? out->loss : (double)NAN, out->seconds));
    say(s, job, out);
    return WEFT_OK;
}

/* Collects the outcome of a child that has ended, or has sent its outcome and is about to
 * end. */
static void collect(search *s, running *place) {
    outcome out = {0};
    ssize_t n;
    int code = 0;
    do n = read(place->pipe, &out, sizeof out);
    while (n < 0 && errno == EINTR);
    while (waitpid(place->pid, &code, 0) < 0 && errno == EINTR) continue;
    close(place->pipe);
    place->pid = 0;
    out.message[sizeof out.message - 1] = '\0';
    weft_status status = WEFT_OK;
    if (n == (ssize_t)sizeof out)
        status = take(s, &place->job, &out);
    else if (n_signals == 0 && s->status == WEFT_OK)
        status = weft_ctx_fail(s->ctx, WEFT_ERR_PEER,
                               "the process of trial %d ended without a word (%s %d)",
                               place->job.trial, WIFSIGNALED(code) ? "signal" : "code",
                               WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code));
    if (s->status == WEFT_OK) s->status = status;
}

static int n_running(const search *s) {
    int n = 0;
    for (int i = 0; i < s->n_jobs; i++) n += s->jobs[i].pid != 0;
    return n;
}

static void signal_all(const search *s, int number) {
    for (int i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].pid) kill(s->jobs[i].pid, number);
}

/* Waits until a child has sent something or a signal has arrived. */
static void wait_for_one(search *s, const sigset_t *before) {
    fd_set ready;
    int most = 0;
    FD_ZERO(&ready);
    for (int i = 0; i < s->n_jobs; i++) {
        if (!s->jobs[i].pid) continue;
        FD_SET(s->jobs[i].pipe, &ready);
        if (s->jobs[i].pipe > most) most = s->jobs[i].pipe;
    }
    if (pselect(most + 1, &ready, NULL, NULL, NULL, before) <= 0) return;
    for (int i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].pid && FD_ISSET(s->jobs[i].pipe, &ready)) collect(s, &s->jobs[i]);
}

/* Starts jobs in the free slots, as long as there are any. */
static void start_jobs(search *s, const sigset_t *before) {
    weft_tune_job job = {.struct_size = sizeof job};
    for (int i = 0; i < s->n_jobs && s->status == WEFT_OK && n_signals == 0; i++) {
        if (s->jobs[i].pid) continue;
        bool any;
        s->status = weft_tune_next(s->tune, &job, &any);
        if (s->status != WEFT_OK || !any) return;
        s->status = start(s, &s->jobs[i], &job, before);
    }
}

/* After a signal or a failure asks the children to stop, once; kills them at the next signal. */
static void hush(const search *s, int *asked) {
    bool stop = n_signals > 0 || s->status != WEFT_OK;
    if (stop && *asked == 0) signal_all(s, SIGTERM);
    if (n_signals > 1 && *asked < 2) signal_all(s, SIGKILL);
    *asked = n_signals > 1 ? 2 : stop;
}

static void go_through(search *s) {
    sigset_t before;
    int asked = 0;
    block_signals(&before);
    for (;;) {
        start_jobs(s, &before);
        hush(s, &asked);
        if (n_running(s) == 0) break;
        wait_for_one(s, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* --- results --- */

static int n_tried(const search *s) {
    int n = 0;
    while (n < weft_tune_trials(s->tune) && weft_tune_place(s->tune, n)->steps > 0) n++;
    return n;
}

static void print_table(const search *s) {
    printf("trial    steps     loss   spread");
    for (int k = 0; k < weft_tune_keys(s->tune); k++)
        printf("  %s", weft_tune_key(s->tune, k));
    putchar('\n');
    for (int i = 0; i < n_tried(s); i++) {
        weft_tune_look look = *weft_tune_place(s->tune, i);
        printf("%5d %8lld ", look.trial, (long long)look.steps);
        printf(isfinite(look.loss) ? "%8.4f " : "  failed ", look.loss);
        printf(look.n_seeds > 1 && isfinite(look.loss) ? "%8.4f" : "       -",
               look.spread);
        for (int k = 0; k < weft_tune_keys(s->tune); k++)
            printf("  %*s", (int)strlen(weft_tune_key(s->tune, k)),
                   weft_tune_value(s->tune, look.trial, k));
        putchar('\n');
    }
}

static void print_json(const search *s) {
    printf("{\"trials\": [");
    for (int i = 0; i < n_tried(s); i++) {
        weft_tune_look look = *weft_tune_place(s->tune, i);
        printf("%s{\"trial\": %d, \"steps\": %lld, \"seeds\": %d, ", i ? ", " : "",
               look.trial, (long long)look.steps, look.n_seeds);
        printf(isfinite(look.loss) ? "\"loss\": %.9g, " : "\"loss\": null, ", look.loss);
        printf("\"spread\": %.6g, \"seconds\": %.3f, \"values\": {", look.spread,
               look.trained_s);
        for (int k = 0; k < weft_tune_keys(s->tune); k++)
            printf("%s\"%s\": \"%s\"", k ? ", " : "", weft_tune_key(s->tune, k),
                   weft_tune_value(s->tune, look.trial, k));
        printf("}}");
    }
    printf("]}\n");
}

static weft_status show(const search *s, bool json) {
    char path[PATH_ROOM + 16];
    snprintf(path, sizeof path, "%s/best.yaml", s->folder);
    if (n_tried(s) == 0) return WEFT_OK;
    if (json) print_json(s);
    if (!json) print_table(s);
    WEFT_TRY(weft_tune_write(s->tune, path));
    if (!json) printf("best             %s\n", path);
    return WEFT_OK;
}

/* --- the command --- */

/* Sets the number of jobs and the threads of each. Without --jobs and mesh.threads each
 * core has one job. */
static void share_cores(search *s, const weft_config *config, long long asked) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long long ranks = config->mesh.nodes * config->mesh.ranks_per_node;
    long long threads = config->mesh.threads > 0 ? config->mesh.threads : 1;
    long long jobs = asked ? asked : cores / (ranks * threads);
    s->n_jobs = jobs < 1 ? 1 : jobs > MOST_JOBS ? MOST_JOBS : (int)jobs;
    if (config->mesh.threads == 0) threads = cores / (ranks * s->n_jobs);
    s->threads = threads < 1 ? 1 : (int)threads;
}

static int read_numbers(const args *a, weft_tune_setup *setup, long long *jobs) {
    long long trials = 0, seeds = 1, eta = 3, rungs = 0;
    int code = args_int(a, "--trials", 1, 10000, &trials);
    if (code == CODE_OK) code = args_int(a, "--seeds", 1, 16, &seeds);
    if (code == CODE_OK) code = args_int(a, "--eta", 2, 64, &eta);
    if (code == CODE_OK) code = args_int(a, "--rungs", 1, 12, &rungs);
    if (code == CODE_OK) code = args_int(a, "--jobs", 1, MOST_JOBS, jobs);
    setup->n_trials = (int)trials;
    setup->n_seeds = (int)seeds;
    setup->eta = (int)eta;
    setup->n_rungs = (int)rungs;
    return code;
}

/* The number of trials without --trials: 12 if any key has a range. */
static int default_trials(const weft_tune_setup *setup) {
    if (setup->n_trials > 0) return setup->n_trials;
    for (int i = 0; i < setup->n_keys; i++)
        if (strstr(setup->keys[i], "..")) return 12;
    return 0;
}

/* Refuses a folder with the runs of another search but without its journal: those runs
 * would be mistaken for this search's. */
static weft_status check_folder(const search *s) {
    char path[PATH_ROOM + 32];
    int n_entries = 0;
    snprintf(path, sizeof path, "%s/journal.tsv", s->folder);
    if (access(path, F_OK) == 0) return WEFT_OK;
    DIR *folder = opendir(s->folder);
    if (!folder) return WEFT_OK;
    for (const struct dirent *e; (e = readdir(folder));)
        n_entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(folder);
    if (n_entries == 0) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_FILE,
                         "%s has %d entries and no journal.tsv, expected an empty folder "
                         "or that of a search to go on with",
                         s->folder, n_entries);
}

static weft_status tune(search *s, const args *a, weft_tune_setup *setup,
                        weft_config *base) {
    const char *keys[MAX_GIVEN];
    while ((keys[setup->n_keys] = args_nth(a, "--key", setup->n_keys))) setup->n_keys++;
    setup->keys = keys;
    setup->n_trials = default_trials(setup);
    setup->budget = base->run.steps;
    setup->folder = s->folder;
    s->base = base;
    WEFT_TRY(check_folder(s));
    WEFT_TRY(weft_tune_create(s->ctx, setup, base, &s->tune));
    go_through(s);
    weft_status shown = show(s, args_has(a, "--json"));
    weft_tune_destroy(s->tune);
    return s->status != WEFT_OK ? s->status : shown;
}

static int run(weft_ctx *ctx, args *a) {
    weft_tune_setup setup = {.struct_size = sizeof setup};
    long long jobs = 0;
    int code = read_numbers(a, &setup, &jobs);
    if (code != CODE_OK) return code;
    const char *folder = args_value(a, "--folder");
    search s = {.ctx = ctx,
                .folder = folder ? folder : "runs/tune",
                .quiet = args_has(a, "--quiet") || args_has(a, "--json")};
    if (strlen(s.folder) >= PATH_ROOM)
        return usage_error("--folder has %zu letters, expected fewer than %d",
                           strlen(s.folder), (int)PATH_ROOM);
    weft_config *base = NULL;
    weft_status status = config_of_args(ctx, a, &base);
    if (status == WEFT_OK) share_cores(&s, base, jobs);
    if (status == WEFT_OK) status = tune(&s, a, &setup, base);
    code = program_code(ctx, status);
    if (status == WEFT_OK && n_signals > 0 && !s.quiet)
        fprintf(stderr, "stopped; the same command goes on\n");
    weft_config_destroy(ctx, base);
    return code;
}

const command command_tune = {
    .name = "tune",
    .summary = "search for the best values of keys, stopping bad trials early",
    .usage = "[run.yaml] [key=value ...] --key KEY=LOW..HIGH ...",
    .help =
        "Trains trials of the configuration that differ in the keys of --key, and "
        "writes the keys of the best one to best.yaml, a file that weft train takes "
        "after the run's own.\n\n"
        "The search is asynchronous successive halving (Li et al. 2020). All trials "
        "train a part of the steps; the best third of those that have ended continues "
        "to three times as many steps, and so on up to --budget. The learning rate's "
        "schedule is always that of the whole budget. At the budget a trial is trained "
        "with --seeds seeds. Points of a range are spread evenly, in the logarithm if "
        "both ends are above 0. If all keys have lists, every combination is tried.\n\n"
        "journal.tsv lists the trials that have ended: the same command continues where "
        "it was stopped. With --jobs 1 the outcome is always the same; with several it "
        "may depend on which trial ends first.",
    .examples = "tune my.txt --key optimizer.lr=1e-4..1e-2 --trials 12",
    .flags = flags,
    .configures = true,
    .run = run,
};
