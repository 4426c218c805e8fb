/* SPDX-License-Identifier: MIT */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What one optimizer step did. Seconds and bytes are those of the first node: the mean
 * seconds of its ranks, and the bytes of its interface; if a node holds several copies of
 * the model, those of its first copy. */
typedef struct weft_step_record {
    int64_t step, steps;       /* steps done; steps in all */
    double loss;               /* nats per token, mean over the step's tokens */
    double lr;                 /* of this step */
    double grad_norm;          /* before clipping; with full of the agreed gradient, with
                                  demo of the first node's own */
    double update_norm;        /* of the change of all parameters */
    double consensus_distance; /* estimate of sqrt(mean |x_i - mean x|^2) over the
                                  replicas before the last mixing; NAN where no replica
                                  mixed */
    int mean_of_all;           /* 1: consensus control, or average_every, made the mixing
                                  a mean of all replicas; 0: it did not; -1: there is no
                                  control */
    int64_t late;   /* messages that a deadline left out of this step's mixing; -1 without
                       a deadline */
    int64_t tokens; /* of the step, all ranks */
    double tokens_per_s;
    double mfu;           /* model FLOP per second over the measured GEMM rate */
    int64_t memory_bytes; /* peak resident memory of the process */
    int64_t wire_bytes_out, wire_bytes_in;   /* between nodes, this step */
    int64_t local_bytes_out, local_bytes_in; /* inside the node, this step */
    double compute_s;                        /* step without waiting for an exchange */
    double exchange_s;                       /* exchanges under way, and work on them */
    double wait_s;                           /* computing waited for the exchange */
    double hidden_share; /* 1 - wait/exchange; 1 if nothing was exchanged */
    double step_s, elapsed_s;
    int64_t allocations;       /* made by the first rank and the mesh so far */
    double left_s;             /* estimate of the time to the last step */
    int64_t memory_rank_bytes; /* held by the first rank itself: parameters, gradients,
                                  state, activations, messages */
    int64_t ranks;             /* members of the step, if membership may change; else 0 */
    double participation;      /* share of them whose rows counted */
    int64_t
        suspect_node; /* with mesh.robust: whose numbers were too large again and again,
                             the last one that was named; -1: nobody's */
    int64_t relayed_bytes; /* between two others, that passed through the first process */
    const char *form; /* where method=auto may change it: what crosses the wire, such as
                         "outer f32 50 0.4"; NULL: it may not */
    const char *why;  /* it changed to that form; NULL: it is the first one */
    double gain; /* times as fast as without that change, as expected; 0: not known */
    const uint64_t
        *sent; /* with run.audit: two digests for each of n_sent ranks, of what it
                             sent in step `sent_step`, borrowed for the call; or NULL */
    int64_t n_sent, sent_step;
    double
        planned_s;   /* of a step in this form, as expected of the change; 0: not known */
    double behind_s; /* that the slowest rank computed longer than the first one, */
    int64_t slowest_rank; /* this one; 0: none did */
} weft_step_record;

/** One evaluation; losses in nats per token. */
typedef struct weft_eval_record {
    int64_t step;
    int64_t tokens;
    double loss;       /* nats per token; of the mean of the replicas where they differ */
    double local_loss; /* of the replicas as they are, each on its share of the text; NAN
                          where they do not differ */
    double distance;   /* of the replicas: sqrt(mean |x_i - mean x|^2); NAN as above */
    double accuracy;   /* share of correctly classified images; NAN for other rows */
    double elapsed_s;
} weft_eval_record;

/** What the run is before it begins, for one screen of text. Texts live until training ends. */
typedef struct weft_run_summary {
    const char *folder;
    const char *model; /* "gpt2, 6 layers x 384, 10.8M parameters" */
    const char *data;
    const char *method; /* "flexdemo: demo + sgd" */
    const char *mesh;   /* "2 nodes x 2 ranks x 1 thread, wire 100Mbit,10ms" */
    const char
        *batch; /* "16384 tokens per step = 64 x 256, 1 micro-batch of 16 per rank" */
    const char *kernels;
    int64_t parameters;
    int64_t memory_bytes;        /* predicted peak of the process */
    int64_t memory_rank_bytes;   /* the part of it that is one rank's own */
    int64_t wire_bytes_per_step; /* predicted, one node's interface, out */
    double gemm_flops;           /* measured, all ranks together */
    int64_t first_step;          /* > 0 when resumed */
    int64_t
        train_tokens;   /* of the training text; 0 for pairs, images, generated tokens */
    int64_t save_bytes; /* predicted, of a checkpoint; 0: nothing is saved */
    double
        save_time_s; /* between two checkpoints by the clock: run.save_time, or longer where
                           saving would take more than 2 % of the time; 0: never */
    double save_s;   /* predicted, that all wait for a checkpoint; 0: not known */
    double save_disk_s; /* the part of it that its files take, by a sample of them */
    /** Bytes that cross a node's wire for it: the mean of replicas that differ, files of machines
     * that do not see the folder. Their time is in save_s where mesh.link says the wire's rate. */
    int64_t save_wire_bytes;
} weft_run_summary;

/** Called by the first rank while a run goes on; any may be NULL. */
typedef struct weft_train_hooks {
    size_t struct_size;
    void *user;
    void (*on_start)(void *user, const weft_run_summary *summary);
    void (*on_step)(void *user, const weft_step_record *record);
    void (*on_evaluation)(void *user, const weft_eval_record *record);
    /** Called once per step on the first rank's thread, like the other hooks: true = finish
     * the step, save, return. Any hook may be NULL. */
    bool (*should_stop)(void *user);
    /** The members of the run changed, a process begins to join, something else crosses the wire
     * (method=auto), or the first checkpoint is saved: the sentence says what, why, and how the
     * run continues. */
    void (*on_change)(void *user, const char *sentence);
} weft_train_hooks;

/** How a run ended; times in seconds, bytes of the first node. */
typedef struct weft_train_result {
    size_t struct_size;
    int64_t steps;          /* done in all */
    bool stopped;           /* by should_stop, before the last step */
    double loss;            /* of the last step */
    double validation_loss; /* NAN if stopped */
    double bigram_loss; /* the baseline on the same validation tokens; NAN if stopped */
    double bytes_per_token; /* of the validation text; NAN: it is none */
    double elapsed_s;
    int64_t wire_bytes;   /* one node's interface, out, this run */
    int64_t memory_bytes; /* peak resident memory */
    int64_t memory_predicted_bytes;
    double hidden_share; /* over all steps of this run */
    bool left;           /* should_stop ended this process's part only (elastic.stop) */
    bool leads; /* this process wrote the run folder at the end: rank 0, or the first rank
                  that was not lost */
} weft_train_result;

/** Trains as `config` (finished) says. Without a mesh (NULL) the ranks are nodes x
 * ranks_per_node threads of this process. With a mesh this process is one of the ranks: the
 * configuration is fitted to the mesh (weft_mesh_fit), all ranks call this function, and
 * rank 0 writes the run folder and gets the full result; on the other ranks the result has
 * only steps, stopped, and their own memory. Writes the run folder: config.yaml,
 * metrics.jsonl, TensorBoard events, checkpoints. resume: continues the folder's newest
 * complete checkpoint; without a checkpoint it starts from the beginning, and if all steps
 * are done nothing happens (result->steps says how many). Unless resuming, a folder that
 * holds another run is rejected. Errors: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. */
WEFT_API weft_status weft_train(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                                bool resume, const weft_train_hooks *hooks,
                                weft_train_result *result) WEFT_CHECKED;

/** Reads the configuration of a run that run.upload has copied to s3://BUCKET/PREFIX, and sets
 * run.upload to it: weft_train with resume goes on from the newest checkpoint there. The
 * caller says whether weft_train may use the paths in it (run.folder, data.path, mesh.key ...).
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_run_fetch(weft_ctx *ctx, const char *address,
                                    weft_config *config) WEFT_CHECKED;

/** Takes over into a finished configuration what a run of it would take over before its first step:
 * the shape and the tokenizer of model.init, the adapter of adapter.init. Errors: CONFIG, FILE,
 * FORMAT. */
WEFT_API weft_status weft_config_adopt(weft_ctx *ctx, weft_config *config) WEFT_CHECKED;

/** Refuses a text in which an address has a name or a password, https://NAME:PASSWORD@HOST: logs
 * and config.yaml would keep them. To be called once for each text that a user gives; values of a
 * configuration are checked when they are set. Errors: CONFIG. */
WEFT_API weft_status weft_address_check(weft_ctx *ctx, const char *text) WEFT_CHECKED;

/** Takes signatures, tokens and keys out of the queries of all addresses in a text, as sentences
 * and config.yaml have them: "https://host/a?v=2&sig=x" becomes "https://host/a?v=2&...". Works in
 * place and returns the text. */
WEFT_API char *weft_address_hide(char *text);

/** Looks at what lies at an address (which weft_address_check accepts), by its first 16 KiB. [out]
 * config: the path of a copy of its config.json if a model lies there (a folder, or a run's newest
 * checkpoint), cut at `config_size` bytes; "" if it is data. Anything else is refused.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_address_look(weft_ctx *ctx, const char *address, char *config,
                                       size_t config_size) WEFT_CHECKED;

/** Refuses a file or a folder that a run of `config` (finished) would refuse as data.path, or as
 * data.validation_path where that names it, for what its files begin with, or because it is too
 * short for data.length. Of a pipe nothing is read. [out] *is_text: it is one file of text.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_data_look(weft_ctx *ctx, const weft_config *config,
                                    const char *path, bool *is_text) WEFT_CHECKED;

/** What a run with method=auto decided, and why, as its folder says (decision.json): lines for a
 * reader. [out] *text owned by the caller (weft_free); NULL: there is no such file.
 * Errors: FILE, FORMAT. */
WEFT_API weft_status weft_decision_text(weft_ctx *ctx, const char *run_folder,
                                        char **text) WEFT_CHECKED;

/** What a replay has compared. Everything that was compared was equal. */
typedef struct weft_replay_result {
    size_t struct_size;
    int64_t steps;      /* replayed from the start up to this one */
    int64_t losses;     /* lines of metrics.jsonl with the same loss */
    int64_t checkpoint; /* step of the newest checkpoint, all numbers of which are the
                           same; -1: there is none */
    int views;          /* views that were replayed */
    int compared;       /* views whose recorded checksum of all parameters was compared */
    double loss;        /* of the last step */
    double elapsed_s;
    int64_t digests; /* digests of what a rank sent in a step that were compared */
    int64_t
        wrong_step; /* the first step in which a rank sent something else than it should;
                           0: none */
    int wrong_node; /* its node, or the lowest of them; -1: none */
} weft_replay_result;

/** Runs the run of a folder again in this process, one thread per rank, to the last step
 * that the folder records: with the members that joined and left as views.jsonl says, on
 * the text that its config.yaml names. A difference from the recorded losses, checksums and
 * checkpoint is an error that names it (WEFT_ERR_NUMERIC). The folder is only read. Hooks
 * may be NULL; on_change gets each view. Rejects runs whose result depended on unrecorded
 * timing (mixer.deadline). Errors: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. */
WEFT_API weft_status weft_replay(weft_ctx *ctx, const char *run_folder,
                                 const weft_train_hooks *hooks,
                                 weft_replay_result *result) WEFT_CHECKED;

/** The same for a run with run.audit, of which step 0 means all steps, and any other number
 * that step alone, from the newest checkpoint before it. A rank that sent something else than
 * its state and its rows give is an error that names step and node (WEFT_ERR_NUMERIC;
 * result->wrong_step, wrong_node). Errors: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. */
WEFT_API weft_status weft_audit(weft_ctx *ctx, const char *run_folder, int64_t step,
                                const weft_train_hooks *hooks,
                                weft_replay_result *result) WEFT_CHECKED;

/** Trains run.steps steps on generated tokens, without any file, to measure what the
 * configured model, batch, mesh and method cost. Losses mean nothing.
 * Errors: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. */
WEFT_API weft_status weft_bench_train(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                                      const weft_train_hooks *hooks,
                                      weft_train_result *result) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
