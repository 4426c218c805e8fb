/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>
#include <weft/dataset.h>

#include "comm/world.h"
#include "job/modelshape.h"
#include "mix/mixerconfig.h"
#include "optim/optimizer.h"
#include "replicate/replicatorconfig.h"
#include "shard/bucket.h"
#include "shard/layout.h"

/* Gossip waits for neighbours only; with it, the status of all ranks is read this many steps
 * later; in the next step where rows follow speed: that keeps all equally far, if it hears soon. */
enum { WEFTI_MEASURED_LAG = 1, WEFTI_GOSSIP_LAG = 8, WEFTI_MAX_LAG = 8 };

/* A rank keeps its status of this many steps. It may be ahead of the slowest reader by as
 * many steps as this exceeds the lag. */
enum { WEFTI_STATUS_SLOTS = 4 * WEFTI_MAX_LAG };

/* What the run decides once, whatever its ranks are later. */
typedef struct wefti_job_run {
    int threads;     /* of a rank's compute thread */
    bool measures;   /* rows follow what the ranks take for theirs (batch.shares=speed) */
    bool weighs;     /* each step says its rows (weft_sync_weigh), and mixes after that */
    bool follows;    /* what crosses the wire may change (job/form.h) */
    bool recomputes; /* activations are computed twice, in this process */
    int64_t inner_rows; /* of an optimizer step, about, whatever a node has of a step
                           (batch.shares=steps); 0: each makes one in a step */
    int64_t vocab;      /* the tokenizer's ids, or the classes of images */
    bool keeps_whole;   /* S > 1: gathered units are kept for the rest of the step */
} wefti_job_run;

/* What follows from a configuration before anything runs: read-only, shared by all ranks. */
typedef struct wefti_job {
    const weft_config *config;   /* borrowed */
    const weft_dataset *dataset; /* borrowed; NULL when nothing is trained */
    weft_model *model;           /* owned */
    wefti_tensor *tensors;       /* owned, [model params], unit by unit */
    const wefti_kernels *kernels;
    const wefti_kernels *pass_kernels; /* of all matrix products: in model.precision */
    wefti_replicator_config replicator_config;      /* in a site */
    wefti_replicator_config site_replicator_config; /* between sites */
    wefti_mixer_config mixer_config;
    int R, S, W;         /* replicas of the model, shards of each, ranks */
    int copies;          /* replicas per node */
    bool replicas_equal; /* no mixer: all replicas hold the same bits after each step */
    int64_t T;           /* positions of x in a row */
    int64_t B;           /* sequences per rank and forward pass */
    wefti_job_run run;

    /* How tensors are moved (rules.c). */
    struct {
        const wefti_optimizer_ops *ops;
        wefti_optimizer_config config;
        wefti_optimizer_rule *rules;            /* owned, [model params] */
        const wefti_optimizer_ops *most_states; /* the one with most among the rules' */
        int n_whole; /* tensors that are moved as whole matrices */
        double clip; /* bound of the gradient's norm; 0: none */
    } optimizer;

    /* Where the mixer gossips; else NULL. */
    struct {
        weft_topology *topology, *everybody; /* owned */
        weft_neighbours *room;               /* owned; for predictions, by one thread */
    } gossip;

    /* Steps later. */
    struct {
        int status; /* it is read */
        int audit;  /* ranks tell what they sent (comm/sent.h); 0: never */
    } lag;

    /* Sites, and the groups that they make. */
    struct {
        int n;
        int *
            first; /* owned, [n + 1] first replicas, once a site has lost nodes; or NULL */
        int replicas; /* of the largest: the replicator's group */
        int mixed;    /* the mixer's group: the sites, or all replicas if there is one */
    } site;

    /* Of each replica, [R]; owned. */
    struct {
        int *nodes; /* where its node stood among those that the run began with, once some
                       were lost or came; NULL: in order */
        wefti_value_codec *codecs; /* of what they send (nodecodecs.c), or NULL */
    } each;

    /* What it is made for, beside a run. */
    struct {
        bool described;  /* a prediction: nothing is computed with the model */
        bool outside;    /* the caller optimizes: exchanges end with the direction */
        bool local_rows; /* the model's tensors are this rank's rows already */
        double loop_s;   /* of a program's own model: a step's computing; 0: unknown */
    } as;

    /* Sequences per step (shares.c). */
    struct {
        int64_t per_rank, per_step, n_micro; /* n_micro: passes */
        int64_t *micros; /* owned, [R] B of each rank of a replica, at most B; NULL: B */
        int64_t *rows; /* owned, [R] of each rank of a replica, whose largest is per_rank;
                          NULL: all have as many */
        int64_t *earlier; /* owned, [R] the same before step shared_step, the last change
                             (batch.shares=speed); NULL: as `rows` */
        int64_t shared_step;
    } batch;

    /* The first step, and its first row in the endless sequence of rows. */
    struct {
        int64_t step, row;
    } from;
} wefti_job;

/* Checks that the numbers fit together (world size divides the batch, T fits the model,
 * the vocabulary fits) and derives the rest. `vocab` is the tokenizer's. */
weft_status wefti_job_create(weft_ctx *ctx, const weft_config *config,
                             const weft_dataset *dataset, int64_t vocab,
                             wefti_job **out) WEFT_CHECKED;

/* The same for a prediction, which computes nothing. */
weft_status wefti_job_describe(weft_ctx *ctx, const weft_config *config,
                               wefti_job **out) WEFT_CHECKED;

/* Where parts of a world differ, else NULL; both are taken, also on failure. */
typedef struct wefti_job_parts {
    int *site_first; /* the sites' sizes (world.h) */
    int64_t *rows;   /* as in wefti_job, like nodes */
    int *nodes;
} wefti_job_parts;

/* The same with another job's text, vocabulary and run. */
weft_status wefti_job_create_like(weft_ctx *ctx, const wefti_job *other,
                                  const weft_config *config, const wefti_job_parts *parts,
                                  wefti_job **out) WEFT_CHECKED;

/* The same for a model that is computed elsewhere (job/foreign.c): there is no batch,
 * and with several shards its tensors are the rows of one shard. `model` and `nodes` (NULL, or as
 * in wefti_job) are taken, also on failure. */
weft_status wefti_job_create_for(weft_ctx *ctx, const weft_config *config,
                                 weft_model *model, int *nodes,
                                 wefti_job **out) WEFT_CHECKED;
void wefti_job_destroy(weft_ctx *ctx, wefti_job *job);

/* The first tensor of a unit among all of the model. */
static inline int wefti_job_first_tensor(const wefti_job *job, int unit) {
    return (int)(job->model->units[unit].params - job->model->params);
}

/* Whether there are two levels of exchange: in sites, and between them. */
static inline bool wefti_job_has_sites(const wefti_job *job) {
    return job->site.n > 1 || job->site.first;
}

/* Sequences per step of each rank of a replica; passes that it makes of them; those of the
 * ranks before it in the step's order. */
static inline int64_t wefti_job_rows(const wefti_job *job, int replica) {
    return job->batch.rows ? job->batch.rows[replica] : job->batch.per_rank;
}

/* Optimizer steps in `every` steps of so many rows each, one at least; of more than inner_rows as
 * many in each step. */
int64_t wefti_shares_steps(int64_t rows, int64_t inner_rows, int64_t every);

/* Optimizer steps that a replica makes in a step in which it does not gather. */
static inline int64_t wefti_job_inner_steps(const wefti_job *job, int replica) {
    int64_t inner_rows = job->run.inner_rows;
    return inner_rows ? wefti_shares_steps(wefti_job_rows(job, replica), inner_rows, 1)
                      : 1;
}

/* How often this step's gradient counts in the optimizer step that it is for, for which a replica
 * with few rows gathers several: all together once. *last: it makes it in this step. */
double wefti_job_gathers(const wefti_job *job, int replica, int64_t step, bool *last);

/* Sequences of a forward pass of its ranks. */
static inline int64_t wefti_job_micro(const wefti_job *job, int replica) {
    return job->batch.micros ? job->batch.micros[replica] : job->B;
}

static inline int64_t wefti_job_passes(const wefti_job *job, int replica) {
    int64_t inner = wefti_job_inner_steps(job, replica);
    int64_t B = wefti_job_micro(job, replica);
    if (!job->batch.rows && !job->batch.micros) return job->batch.n_micro;
    return inner * (((wefti_job_rows(job, replica) + inner - 1) / inner + B - 1) / B);
}

/* Gives replicas passes of their own, [R] of at most so many sequences, 0: B; equal parts of a
 * step have equal passes. NULL: all have B. */
weft_status wefti_job_set_micros(weft_ctx *ctx, wefti_job *job,
                                 const int64_t *most) WEFT_CHECKED;

/* A smaller pass of about half as many sequences, 1 at least, that divides equal parts. */
int64_t wefti_job_less(const wefti_job *job, int64_t B);

int64_t wefti_job_rows_before(const wefti_job *job, int rank);

/* Steps from one exchange to the next: a mixer's, where it alone sends, else 1. */
int64_t wefti_job_sends_every(const wefti_job *job);

/* Whether rows may change before a step: in a period at most once. */
bool wefti_job_may_share(const wefti_job *job, int64_t step);

/* How often a replica's sequences count in a mean over all: 1 where all have as many. */
double wefti_job_weight(const wefti_job *job, int replica);

/* The same of what is sent in a step: where a mixer alone sends, of its sequences since it was
 * sent last, also if rows have changed meanwhile. */
double wefti_job_weight_sent(const wefti_job *job, int replica, int64_t step);

/* --- batch.shares (shares.c) --- */

/* Whether rows follow what is measured. */
bool wefti_shares_measured(const weft_config *config);

/* Checks batch.shares against the other keys; a row has T positions. */
weft_status wefti_shares_check(weft_ctx *ctx, const weft_config *config,
                               int64_t T) WEFT_CHECKED;

/* Fails if the means of a configuration's kinds have no place for a weight. `what`
 * weighs nodes. */
weft_status wefti_weights_check(weft_ctx *ctx, const weft_config *config,
                                const char *what) WEFT_CHECKED;

/* Fails if the job's members meet in a way in which weights are not kept: one alone hears the
 * other. */
weft_status wefti_weights_check_topology(weft_ctx *ctx, const wefti_job *job,
                                         const char *what) WEFT_CHECKED;

/* Sequences of each rank of a node, [nodes], as batch.shares divides a step; *rows NULL
 * where shares are equal. [out] *rows for wefti_free. */
weft_status wefti_shares_of(weft_ctx *ctx, const weft_config *config, int64_t T,
                            int64_t **rows) WEFT_CHECKED;

/* Gives the replicas of a job other rows of a step's, [R]: as many in all. */
void wefti_job_share(wefti_job *job, int64_t step, const int64_t *rows);

/* --- replicator.node_values (nodecodecs.c) --- */

/* Checks it against the other keys; and gives a job's replicas their codecs. */
weft_status wefti_codecs_check(weft_ctx *ctx, const weft_config *config) WEFT_CHECKED;
weft_status wefti_job_codecs(weft_ctx *ctx, wefti_job *job) WEFT_CHECKED;

/* How the job's ranks are arranged, with the wires that the configuration emulates. */
wefti_world_shape wefti_job_shape(const wefti_job *job);

/* Of a configuration alone: whether all nodes step along the mean of all gradients; steps
 * from one exchange of the mixer to the next. */
bool wefti_job_averages_all(const weft_config *config);
int64_t wefti_job_period(const weft_config *config);

/* The kind of rows that a run's model takes. */
wefti_input wefti_job_input(const weft_config *config);

/* Positions of x in a row: data.length, and what other kinds of rows add. */
int64_t wefti_job_positions(const weft_config *config);

/* The model section as a model's description; `vocab` and data.length fill what is 0. */
weft_model_config wefti_job_model_config(const weft_config *config, int64_t vocab);

/* The vocabulary that a run will have, as far as it is known without reading the text. */
int64_t wefti_job_vocab(const weft_config *config);

/* Fills rules, most_states and n_whole (rules.c). */
weft_status wefti_job_rules(weft_ctx *ctx, wefti_job *job) WEFT_CHECKED;

/* Whether a tensor of the model is moved as a whole matrix. */
bool wefti_job_moves_whole(const wefti_job *job, int tensor);

/* The layout of unit u on local rank s. */
wefti_layout wefti_job_layout(const wefti_job *job, int unit, int s);

/* One rank's flat buffers: its shards of all units in backward order (head first), cut
 * into buckets of neighbouring units whose message has at least mesh.min_message bytes.
 */
typedef struct wefti_arrangement {
    int n_units, n_buckets;
    wefti_layout *layouts;  /* [units] */
    int64_t *unit_offset;   /* [units] in the flat buffer, in floats */
    int *bucket_of;         /* [units] */
    int64_t *bucket_offset; /* [buckets] */
    int *bucket_last_unit;  /* [buckets] the unit whose backward completes it */
    wefti_bucket *buckets;  /* [buckets] */
    wefti_piece *pieces;    /* all of them */
    wefti_matrix *matrices; /* those that are moved as wholes */
    const wefti_optimizer_rule **matrix_rules;
    wefti_matrix_list *lists; /* [buckets] into the two before */
    int64_t n_elements;
} wefti_arrangement;

/* Payload bytes that rank (replica, s) of this arrangement sends over wires, to other
 * nodes, in the n steps from `first` on: replicators, mixer and status. */
int64_t wefti_job_wire_bytes(const wefti_job *job, const wefti_arrangement *a,
                             int replica, int64_t first, int64_t n);

/* The same for all copies of the model in the first node or, with `others`, for all but
 * the first one. An arrangement is that of one shard, so the result is that of one rank
 * in S. */
int64_t wefti_job_node_bytes(const wefti_job *job, const wefti_arrangement *a,
                             bool others, int64_t first, int64_t n);

weft_status wefti_arrangement_create(weft_ctx *ctx, const wefti_job *job, int s,
                                     wefti_arrangement **out) WEFT_CHECKED;
void wefti_arrangement_destroy(weft_ctx *ctx, wefti_arrangement *arrangement);

/* Bytes of a rank's status, which every rank sends to every other in each step
 * (rank/rank.h): four numbers, and with run.audit two digests. */
enum { WEFTI_STATUS_BYTES = 40, WEFTI_STATUS_ROOM = 56 };
static inline int wefti_job_status_bytes(const wefti_job *job) {
    return job->lag.audit > 0 ? WEFTI_STATUS_ROOM : WEFTI_STATUS_BYTES;
}

/* Full-size buffers of units in flight when S > 1: a tied embedding has its own place,
 * all other units share one. */
enum { WEFTI_PLACES = 2 };

/* Floats of a rank's buffers besides its shards, with passes of B sequences; 0: the buffer does not
 * exist. */
typedef struct wefti_sizes {
    int64_t places[WEFTI_PLACES], largest_unit; /* S > 1 */
    int64_t output;                             /* x after a unit: [B,T,C] */
    int64_t largest_saved; /* activations of the unit that keeps most */
    int64_t scratch;
} wefti_sizes;

wefti_sizes wefti_job_sizes(const wefti_job *job, int64_t B);
bool wefti_job_own_place(const wefti_job *job, int unit);

/* Floats of activations that unit u keeps for its backward pass. */
int64_t wefti_job_saved_floats(const wefti_job *job, int unit, int64_t B);

/* Bytes that a rank takes, item by item (tests/dist/test_memory.c). */
typedef struct wefti_footprint {
    int64_t parameters, gradients, optimizer, replicator, mixer, in_flight, activations,
        batch, total;
} wefti_footprint;

wefti_footprint wefti_job_footprint(const wefti_job *job, const wefti_arrangement *a);

/* Changes what it says of activations and batch to passes of B sequences. */
void wefti_footprint_pass(const wefti_job *job, int64_t B, wefti_footprint *f);

/* The ways in which a rank makes room, the first that fits: as it is, activations computed twice,
 * smaller passes, both. */
enum { WEFTI_TWICE = 1, WEFTI_SMALLER = 2, WEFTI_WAYS = 4 };

/* Bytes of a rank that makes room so, with passes of B sequences, smaller ones of one. */
int64_t wefti_footprint_way(const wefti_job *job, const wefti_footprint *f, int64_t B,
                            int way);

/* Bytes of a checkpoint's tensors that lie in this arrangement, of all replicas
 * (runfiles/state.c). */
int64_t wefti_job_saved_bytes(const wefti_job *job, const wefti_arrangement *a);

/* Files of tensors in a checkpoint; bytes of one replica's own file; bytes that a node sends for
 * the mean of the replicas. */
int wefti_job_saved_files(const wefti_job *job);
int64_t wefti_job_saved_own_bytes(const wefti_job *job);
int64_t wefti_job_saved_wire_bytes(const wefti_job *job);
