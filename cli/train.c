/* SPDX-License-Identifier: MIT */
/* `weft train`: runs, shows progress, stops cleanly on a signal. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weft/doctor.h>
#include <weft/plan.h>
#include <weft/report.h>
#include <weft/train.h>

#include "comeback.h"
#include "common.h"
#include "facts.h"
#include "figures.h"
#include "operands.h"
#include "progress.h"

static const flag flags[] = {
    {"--resume", NULL, "continue run.folder from its newest checkpoint, or begin one",
     NULL},
    {"--join", "HOST[:PORT]",
     "join a running run over TCP, through any of its processes on that host; several "
     "hosts with commas between them",
     NULL},
    {"--returns", "N",
     "how often to join again if the others continued without this process, because it "
     "was suspended or the network was cut (10; 0: end)",
     NULL},
    {"--listen", "PORT",
     "start alone; others join by --join HOST:PORT (from other machines with mesh.key)",
     NULL},
    {"--replay", "RUN",
     "replay the run of this folder, with the processes that came and went, and compare "
     "all bits",
     NULL},
    RUN_FLAGS,
    {"--plan", "FILE",
     "compare with the prediction from these facts, as weft probe writes them; here = "
     "this machine's, measured before the run",
     NULL},
    {"--json", NULL, "one JSON object per step and evaluation on stdout", NULL},
    {"--quiet", NULL, "no progress; errors, lost processes and results only", NULL},
    {NULL, NULL, NULL, NULL}};

extern char **environ;

static atomic_int stop_requested; /* written by the signal handler, read by rank 0 */
static atomic_llong stop_ms;      /* when it was */

enum { SAME_MS = 300 };

/* The first signal asks for a clean end; a second one ends the program at once. timeout(1) sends
 * each twice: to its child, and to the group in which both are. */
static void request_stop(int number) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long ms = 1000LL * now.tv_sec + now.tv_nsec / 1000000;
    long long first = 0;
    if (atomic_compare_exchange_strong(&stop_ms, &first, ms)) {
        atomic_store(&stop_requested, 1);
    } else if (ms - first > SAME_MS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL); /* nohup stays as it is */
    signal(SIGPIPE, SIG_IGN);             /* `| head` does not end a run */
}

static bool should_stop(void *user) {
    (void)user;
    return atomic_load(&stop_requested) != 0;
}

enum { RECENT = 50 };

typedef struct view {
    bool json, quiet;
    bool resumes; /* --resume */
    bool unheard; /* stdout has refused a line, which was reported */
    weft_ctx *ctx;
    weft_watch
        *watch; /* NULL without --plan; owned, like what a decision is compared with */
    const weft_config *config;
    bool decides; /* method=auto on several nodes */
    int64_t train_tokens, step_tokens;
    double losses[RECENT]; /* of the last steps, in a ring */
    int64_t n_losses;
    int64_t n_steps; /* of this process, and the sums over them */
    double wire_bytes, wait_s, step_s;
} view;

static void bytes_text(double n, char *out, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int k = 0;
    while (k < 4 && n >= 999.5) n /= 1000, k++;
    snprintf(out, size, n < 9.95 && k ? "%.1f %s" : "%.0f %s", n, units[k]);
}

static void show_plan(const view *v, const weft_run_summary *s) {
    static const char *const bounds[] = {"computing", "the wire", "late ranks", "coding"};
    const weft_prediction *p = weft_watch_prediction(v->watch);
    char step[32], low[32], high[32], sent[32], parameters[32], real[32];
    if (v->json)
        printf("{\"predicted_step_s\": %.6g, \"predicted_hidden_share\": %.4f, "
               "\"predicted_wire_bytes\": %.12g}\n",
               p->step_s.median, p->hidden_share, p->wire_bytes);
    if (v->json || v->quiet) return;
    fprintf(stderr, "plan     %s per step (%s to %s), bound by %s",
            time_text(p->step_s.median, step, sizeof step),
            time_text(p->step_s.low, low, sizeof low),
            time_text(p->step_s.high, high, sizeof high), bounds[p->bound]);
    if (p->wire_bytes > 0)
        fprintf(stderr, "; %s per step, %.0f %% of the exchange hidden",
                size_text(p->wire_bytes, sent, sizeof sent), 100 * p->hidden_share);
    fputc('\n', stderr);
    if (p->parameters != s->parameters)
        fprintf(stderr,
                "weft: warning: the plan is of %s parameters, the model has %s: set "
                "model.vocab\n",
                count_text((double)p->parameters, parameters, sizeof parameters),
                count_text((double)s->parameters, real, sizeof real));
}

/* The run is compared with what its method was expected to do on the measured cluster. */
static weft_status watch_decision(view *v, const char *folder) {
    char path[PATH_MAX];
    weft_cluster *cluster;
    snprintf(path, sizeof path, "%s/cluster.yaml", folder);
    if (!v->decides || access(path, R_OK) != 0) return WEFT_OK;
    WEFT_TRY(weft_cluster_load(v->ctx, path, &cluster));
    weft_status status = weft_watch_create(v->ctx, v->config, cluster, &v->watch);
    weft_cluster_destroy(v->ctx, cluster);
    return status;
}

/* Starts the comparison with the plan. If plan.json cannot be written the run continues
 * without it. */
static void start_plan(view *v, const weft_run_summary *s) {
    weft_status status = watch_decision(v, s->folder);
    if (status == WEFT_OK && !v->watch) return;
    if (status == WEFT_OK) {
        show_plan(v, s);
        status = weft_watch_write(v->ctx, v->watch, s->folder);
    }
    if (status == WEFT_OK) return;
    progress_note("weft: warning: ", weft_ctx_message(v->ctx));
    weft_ctx_clear(v->ctx);
}

/* How much a checkpoint is, how long it takes, and how often there is one. */
static void show_saving(const weft_config *config, const weft_run_summary *s) {
    char saved[32], sent[32], time[32];
    int64_t steps = config->run.save_every;
    double wire_s = s->save_s - s->save_disk_s;
    bytes_text((double)s->save_bytes, saved, sizeof saved);
    bytes_text((double)s->save_wire_bytes, sent, sizeof sent);
    fprintf(stderr, "saves    %s", saved);
    if (s->save_s > 0) fprintf(stderr, " in about %.2g s", s->save_s);
    if (wire_s > 0)
        fprintf(stderr, " (%.2g s on the disk, %.2g s on the wire)", s->save_disk_s,
                wire_s);
    else if (s->save_wire_bytes > 0)
        fprintf(stderr, " and what %s on each node's wire take", sent);
    if (steps == 1) fputs(" every step (run.save_every)", stderr);
    if (steps > 1)
        fprintf(stderr, " every %lld steps (run.save_every)", (long long)steps);
    if (s->save_time_s > 0)
        fprintf(stderr, "%s every %s (run.save_time%s)", steps > 0 ? " and" : "",
                time_text(s->save_time_s, time, sizeof time),
                s->save_time_s > config->run.save_time ? ", at most 2 % of the time"
                                                       : "");
    fputs(steps > 0 || s->save_time_s > 0 ? "\n" : " at the end\n", stderr);
}

static void show_run(const view *v, const weft_run_summary *s) {
    if (v->quiet || v->json) return;
    char memory[32], rank[32], wire[32];
    bytes_text((double)s->memory_bytes, memory, sizeof memory);
    bytes_text((double)s->memory_rank_bytes, rank, sizeof rank);
    bytes_text((double)s->wire_bytes_per_step, wire, sizeof wire);
    fprintf(stderr, "model    %s\ndata     %s\nmethod   %s\nmesh     %s\nbatch    %s\n",
            s->model, s->data, s->method, s->mesh, s->batch);
    fprintf(stderr, "expects  %s memory (%s per rank), %s per step on each node's wire\n",
            memory, rank, wire);
    if (s->save_bytes > 0) show_saving(v->config, s);
    fprintf(stderr, "kernels  %s, %.0f GFLOP/s measured\n", s->kernels,
            s->gemm_flops / 1e9);
    if (s->first_step > 0)
        fprintf(stderr, "resumes  after step %lld\n", (long long)s->first_step);
    else if (v->resumes)
        fputs("resumes  nothing: the folder has no run, a new one begins\n", stderr);
    char folder[PATH_MAX];
    fprintf(stderr, "folder   %s\n", plain_text(s->folder, folder, sizeof folder));
}

static void show_start(void *user, const weft_run_summary *s) {
    view *v = user;
    v->train_tokens = s->train_tokens;
    program_starts();
    show_run(v, s);
    start_plan(v, s);
}

/* A run goes on without its reader: what is not written is reported at once, and the exit code
 * (finish_output) says it at the end. */
static void check_output(view *v) {
    char sentence[160];
    if (v->unheard || !ferror(stdout)) return;
    v->unheard = true;
    snprintf(sentence, sizeof sentence,
             "could not write to stdout: %s; the run goes on, without its lines there",
             strerror(errno));
    progress_note("weft: warning: ", sentence);
}

static void show_step(void *user, const weft_step_record *r) {
    view *v = user;
    char sentence[400];
    program_speak(v->ctx); /* this process leads now, if it did not before */
    v->step_tokens = r->tokens;
    v->losses[v->n_losses++ % RECENT] = r->loss;
    v->n_steps++;
    v->wire_bytes += (double)r->wire_bytes_out;
    v->wait_s += r->wait_s;
    v->step_s += r->step_s;
    if (v->watch && weft_watch_step(v->watch, r, sentence, sizeof sentence) && !v->quiet)
        progress_note("weft: ", sentence);
    char loss[32];
    if (v->json)
        printf("{\"step\": %lld, \"loss\": %s, \"lr\": %.9g, \"tokens_per_s\": %.6g, "
               "\"wire_bytes_out\": %lld, \"hidden_share\": %.4f, \"elapsed_s\": %.3f}\n",
               (long long)r->step, real_text(r->loss, loss, sizeof loss), r->lr,
               r->tokens_per_s, (long long)r->wire_bytes_out, r->hidden_share,
               r->elapsed_s);
    if (v->json) check_output(v);
    if (v->json || v->quiet) return;
    progress_state state = {.step = r->step,
                            .total = r->steps,
                            .loss = r->loss,
                            .tokens_per_s = r->tokens_per_s,
                            .wire_bytes_per_step = v->wire_bytes / (double)v->n_steps,
                            .wait_share = v->wait_s / v->step_s,
                            .eta_s = r->left_s,
                            .against_plan = v->watch ? weft_watch_ratio(v->watch)
                                                     : (double)NAN,
                            .phase = "train"};
    progress_update(&state);
}

static void show_evaluation(void *user, const weft_eval_record *r) {
    const view *v = user;
    char line[128];
    char accuracy[64] = "", loss[32];
    bool classes = !isnan(r->accuracy);
    if (classes && v->json)
        snprintf(accuracy, sizeof accuracy, "\"validation_accuracy\": %.9g, ",
                 r->accuracy);
    if (classes && !v->json)
        snprintf(accuracy, sizeof accuracy, ", accuracy %.2f %%", 100 * r->accuracy);
    if (v->json)
        printf("{\"step\": %lld, \"validation_loss\": %s, %s\"tokens\": %lld, "
               "\"elapsed_s\": %.3f}\n",
               (long long)r->step, real_text(r->loss, loss, sizeof loss), accuracy,
               (long long)r->tokens, r->elapsed_s);
    if (v->json || v->quiet) return;
    snprintf(line, sizeof line, "validation loss %.4f%s after step %lld", r->loss,
             accuracy, (long long)r->step);
    progress_note("", line);
}

static void show_against_plan(weft_watch *watch) {
    weft_watch_outcome o = *weft_watch_look(watch);
    char step[32], planned[32];
    if (isnan(o.measured_s) || isnan(o.planned_s)) return;
    printf("plan             %s per step predicted, %s measured (%s): %+.0f %%\n",
           time_text(o.planned_s, planned, sizeof planned),
           time_text(o.measured_s, step, sizeof step), o.mean ? "mean" : "median",
           100 * (o.measured_s / o.planned_s - 1));
}

/* Prints the training loss beside the validation loss, and whether the difference can be
 * overfitting. It cannot before some of the training text was used a second time. */
static void show_training_loss(const weft_config *config, const view *v,
                               const weft_train_result *r) {
    double sum = 0;
    int64_t n = v->n_losses < RECENT ? v->n_losses : RECENT;
    for (int64_t i = 0; i < n; i++) sum += v->losses[i];
    if (n == 0 || v->train_tokens <= 0 || isnan(r->bytes_per_token)) return;
    double read = (double)r->steps * (double)v->step_tokens / (double)v->train_tokens;
    const char *which = config->data.validation_path.n > 0 ? "data.validation_path"
                                                           : "the end of each file";
    printf("training loss    %.4f, mean of the last %lld steps; ", sum / (double)n,
           (long long)n);
    if (read <= 1)
        printf(
            "%.3g of the training text was read, nothing twice: what validation (%s) has "
            "more is other text, not overfitting\n",
            read, which);
    else
        printf("the training text was read %.3g times, validation (%s) is other text\n",
               read, which);
}

static void show_result(const weft_config *config, const weft_train_result *r,
                        const view *v) {
    weft_watch *watch = v->watch;
    char wire[32], peak[32], predicted[32];
    bytes_text((double)r->wire_bytes, wire, sizeof wire);
    bytes_text((double)r->memory_bytes, peak, sizeof peak);
    bytes_text((double)r->memory_predicted_bytes, predicted, sizeof predicted);
    if (r->stopped)
        printf("stopped after step %lld of %lld and saved; continue with --resume\n",
               (long long)r->steps, (long long)config->run.steps);
    else if (!isnan(r->validation_loss) && isnan(r->bytes_per_token))
        printf("validation loss  %.4f nats per target\n", r->validation_loss);
    else if (!isnan(r->validation_loss))
        printf("validation loss  %.4f nats per token (%.3f bits per byte); bigram model "
               "%.4f\n",
               r->validation_loss, r->validation_loss / log(2) / r->bytes_per_token,
               r->bigram_loss);
    if (!r->stopped && !isnan(r->validation_loss)) show_training_loss(config, v, r);
    printf("time             %.1f s for %lld steps\n", r->elapsed_s, (long long)r->steps);
    if (r->wire_bytes > 0)
        printf("wire             %s out of %s node in all steps, waited for in %.0f %% "
               "of the time; %.0f %% of the exchange hidden behind computing\n",
               wire, config->node_values[0] ? "the first" : "each",
               100 * v->wait_s / fmax(v->step_s, 1e-9), 100 * r->hidden_share);
    if (watch) show_against_plan(watch);
    printf("memory           %s at its peak, %s predicted\n", peak, predicted);
    char folder[PATH_MAX];
    printf("run folder       %s\n",
           plain_text(config->run.folder, folder, sizeof folder));
}

/* Warns of environment variables that make the BLAS library choose slower kernels than
 * the processor supports. */
static void warn_of_environment(void) {
    char sentence[384];
    if (weft_doctor_blas_trap((const char *const *)environ, sentence, sizeof sentence)[0])
        fprintf(stderr, "weft: warning: %s\n", sentence);
}

/* Makes the watch of --plan. All ranks of a mesh do the same work here, so either all
 * succeed or all fail. */
static weft_status make_watch(weft_ctx *ctx, const args *a, const weft_mesh *mesh,
                              const weft_config *config, weft_watch **out) {
    const char *path = args_value(a, "--plan");
    weft_cluster *cluster = NULL;
    *out = NULL;
    if (!path) return WEFT_OK;
    if (strcmp(config->method, "auto") == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--plan %s has facts, and method=auto measures its own, "
                             "with which the run is compared: expected one of them",
                             path);
    bool here = strcmp(path, "here") == 0;
    if (mesh && here)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--plan here measures this machine alone, expected --plan "
                             "FILE when every rank is a process");
    weft_status status = here ? cluster_here(ctx, config, &cluster)
                              : weft_cluster_load(ctx, path, &cluster);
    if (status == WEFT_OK) status = weft_watch_create(ctx, config, cluster, out);
    weft_cluster_destroy(ctx, cluster);
    return status;
}

static void show_end(const args *a, const weft_config *config,
                     const weft_train_result *result, const view *v) {
    bool json = args_has(a, "--json");
    if (result->elapsed_s > 0 && !json) show_result(config, result, v);
    char folder[PATH_MAX];
    plain_text(config->run.folder, folder, sizeof folder);
    if (result->elapsed_s == 0 && !json)
        printf(
            "nothing left to do: %lld of run.steps=%lld are done in %s; its loss: weft "
            "eval %s\n",
            (long long)result->steps, (long long)config->run.steps, folder, folder);
}

/* Whether a message says that the run continues without some processes. It is printed
 * even with --quiet, since some of the machines are then idle. */
static bool tells_of_loss(const char *sentence) {
    static const char word[] = "lost ";
    return strncmp(sentence, word, sizeof word - 1) == 0;
}

static void show_change(void *user, const char *sentence) {
    const view *v = user;
    if (v->json) {
        printf("{\"change\": \"");
        for (const char *c = sentence; *c; c++) { /* plain text: no control characters */
            if (*c == '"' || *c == '\\') putchar('\\');
            putchar(*c);
        }
        printf("\"}\n");
    }
    if (!v->quiet || tells_of_loss(sentence)) progress_note("weft: ", sentence);
}

/* Rank 0 shows everything; the others only take part. */
static weft_status train_watched(weft_ctx *ctx, const args *a, weft_mesh *mesh,
                                 weft_config *config, view *v) {
    bool leads = !mesh || weft_mesh_look(mesh)->rank == 0;
    bool bar = leads && !v->quiet && !v->json;
    weft_train_hooks hooks = {.struct_size = sizeof hooks,
                              v,
                              show_start,
                              show_step,
                              show_evaluation,
                              should_stop,
                              show_change};
    weft_train_result result = {.struct_size = sizeof result};
    catch_signals();
    if (v->json)
        setvbuf(stdout, NULL, _IOLBF, 0); /* a reader of the output sees each step */
    if (leads && !v->quiet) warn_of_environment();
    if (bar) progress_begin(config->run.steps);
    weft_status status = weft_train(ctx, mesh, config, args_has(a, "--resume"), &hooks,
                                    &result);
    if (bar) progress_end();
    if (result.left) {
        char sentence[96];
        snprintf(sentence, sizeof sentence,
                 "left the run after step %lld; the others continue",
                 (long long)result.steps);
        progress_note("weft: ", sentence);
        return status;
    }
    if (status == WEFT_OK && args_has(a, "--join") && !result.leads) {
        char sentence[96];
        snprintf(sentence, sizeof sentence,
                 "the run %s after step %lld; its first process has what is saved",
                 result.stopped ? "was stopped" : "has ended", (long long)result.steps);
        progress_note("weft: ", sentence);
    }
    bool nothing_to_do = result.elapsed_s == 0 && leads;
    if (status != WEFT_OK || !(result.leads || nothing_to_do)) return status;
    if (result.elapsed_s > 0) status = weft_report_write(ctx, config->run.folder, NULL);
    if (status == WEFT_OK) show_end(a, config, &result, v);
    return status;
}

static weft_status train(weft_ctx *ctx, const args *a, weft_mesh *mesh,
                         weft_config *config) {
    view v = {.json = args_has(a, "--json"),
              .quiet = args_has(a, "--quiet"),
              .resumes = args_has(a, "--resume"),
              .ctx = ctx,
              .config = config,
              .decides = config->mesh.nodes > 1 && strcmp(config->method, "auto") == 0};
    WEFT_TRY(make_watch(ctx, a, mesh, config, &v.watch));
    weft_status status = train_watched(ctx, a, mesh, config, &v);
    weft_watch_destroy(ctx, v.watch);
    return status;
}

static void show_replay(const char *folder, const weft_replay_result *r) {
    printf("played           %lld steps of %s in %.1f s, %d view%s of who takes part\n",
           (long long)r->steps, folder, r->elapsed_s, r->views, r->views == 1 ? "" : "s");
    printf("the same bits    losses of %lld steps, parameters before %d of the views",
           (long long)r->losses, r->compared);
    if (r->checkpoint >= 0)
        printf(", every number of checkpoint %lld", (long long)r->checkpoint);
    printf("\n");
}

/* Replays a run in this process alone, with the configuration in its folder. No other
 * operands are allowed. */
static int replay(weft_ctx *ctx, const args *a, const char *folder) {
    view v = {.json = args_has(a, "--json"), .quiet = args_has(a, "--quiet"), .ctx = ctx};
    weft_train_hooks hooks = {.struct_size = sizeof hooks,
                              .user = &v,
                              .on_step = show_step,
                              .on_change = show_change};
    weft_replay_result result = {.struct_size = sizeof result};
    bool bar = !v.quiet && !v.json;
    if (bar) progress_begin(0);
    weft_status status = weft_replay(ctx, folder, &hooks, &result);
    if (bar) progress_end();
    if (status == WEFT_OK && !v.json) show_replay(folder, &result);
    return program_code(ctx, status);
}

static bool has_run(const char *folder) {
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%.4000s/metrics.jsonl", folder);
    return stat(path, &info) == 0 && info.st_size > 0;
}

/* Whether the command line names the folder, or a file in it. */
static bool names_folder(const args *a, const weft_config *config) {
    char path[PATH_MAX];
    struct stat info, own;
    const weft_config_key *key = key_of("run.folder");
    if (weft_config_origin_of(config, key) == WEFT_ORIGIN_COMMAND) return true;
    snprintf(path, sizeof path, "%.4000s/config.yaml", config->run.folder);
    if (stat(path, &own) != 0) return false;
    for (int i = 0; i < a->n_operands; i++)
        if (stat(a->operands[i], &info) == 0 && info.st_ino == own.st_ino &&
            info.st_dev == own.st_dev)
            return true;
    return false;
}

weft_status number_folder(weft_ctx *ctx, const args *a, weft_config *config) {
    char base[4000], next[4096], text[4200];
    snprintf(base, sizeof base, "%s", config->run.folder);
    if (!has_run(base) || names_folder(a, config)) return WEFT_OK;
    snprintf(text, sizeof text, "run.folder=%s", base);
    for (int i = 2;; i++) {
        snprintf(next, sizeof next, "%s-%d", base, i);
        if (!has_run(next)) break;
        snprintf(text, sizeof text, "run.folder=%s", next);
    }
    if (!args_has(a, "--resume")) snprintf(text, sizeof text, "run.folder=%s", next);
    return weft_config_set(ctx, config, text);
}

static weft_status config_of_run(weft_ctx *ctx, const args *a, weft_config **out) {
    WEFT_TRY(weft_config_create(ctx, out));
    WEFT_TRY(operands_read(ctx, a, *out));
    WEFT_TRY(number_folder(ctx, a, *out));
    WEFT_TRY(weft_config_finish(ctx, *out));
    return operands_look(ctx, a, *out);
}

static int run(weft_ctx *ctx, args *a) {
    const char *played = args_value(a, "--replay");
    if (played && (a->n_operands > 0 || args_has(a, "--resume") ||
                   args_value(a, "--join") || args_value(a, "--listen")))
        return usage_error("--replay RUN takes the configuration of the run's folder: "
                           "expected no other word but --json or --quiet");
    if (played) return replay(ctx, a, played);
    weft_config *config = NULL;
    weft_mesh *mesh = NULL;
    comeback again;
    if (comeback_init(&again, a) != CODE_OK) return CODE_USAGE;
    weft_status status = mesh_of_args(ctx, a, &mesh);
    if (mesh && weft_mesh_look(mesh)->rank > 0) program_waits(ctx);
    if (status == WEFT_OK)
        status = mesh ? config_on_mesh(ctx, a, mesh, &config)
                      : config_of_run(ctx, a, &config);
    if (status == WEFT_OK) status = train(ctx, a, mesh, config);
    if (status != WEFT_OK && mesh) comeback_try(&again, ctx, mesh, should_stop);
    int code = leave_mesh(ctx, mesh, status, CODE_OK);
    weft_config_destroy(ctx, config);
    return code;
}

const command command_train = {
    .name = "train",
    .summary = "train a model on text, over one or several nodes",
    .usage = "[run.yaml] [key=value ...] [--resume]",
    .help =
        "Trains as the configuration says and writes the run folder: config.yaml, "
        "metrics.jsonl, TensorBoard events, checkpoints and report.html.\n\n"
        "Started by mpirun, mpiexec or srun, each process is a rank, and machines are "
        "the nodes (docs/launching.md). Otherwise nodes and ranks are threads of this "
        "process; --link puts an emulated wire between the nodes, which delays the real "
        "bytes.\n\n"
        "--plan predicts before the run how long a step should take and puts this into "
        "plan.json for the report. During the run it prints the likely cause when "
        "prediction and measurement differ by more than 20 %. method=auto measures "
        "first, and is compared with that.\n\n"
        "Ctrl-C, SIGTERM, SIGQUIT or SIGHUP finishes the step, saves and exits 0; "
        "--resume continues with the same bits as if nothing had happened. A process "
        "that joined leaves, and the others continue (elastic.stop). A second Ctrl-C "
        "ends at once.\n\n"
        "A process that lives and was left out (suspended, a cut network) joins again "
        "by itself: --returns times, after 1 s, 2 s, ... 60 s.\n\n"
        "--replay repeats a run in one process, also a run in which processes came and "
        "went: views.jsonl of its folder lists them. It compares losses, checksums and "
        "the newest checkpoint, and names the first number that differs.",
    .examples = "train my.txt\n"
                "train run.yaml data.path=my.txt --nodes 2 --link 100Mbit,10ms\n"
                "train my.txt --init MODEL adapter.rank=8\n"
                "train runs/weft/config.yaml --resume\n"
                "train run.yaml --join other-machine mesh.key=run.key",
    .flags = flags,
    .configures = true,
    .run = run,
};
