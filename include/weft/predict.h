/* SPDX-License-Identifier: MIT */
#ifndef WEFT_PREDICT_H
#define WEFT_PREDICT_H

#include <weft/cluster.h>
#include <weft/config.h>
#include <weft/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The runtime model (docs/prediction.md): how long a step of a configured run takes on a
 * cluster. Byte counts come from the code that sends the bytes. */

/** What mainly determines the length of a step. */
typedef enum weft_bound {
    WEFT_BOUND_COMPUTE,
    WEFT_BOUND_WIRE,    /* waiting for bytes */
    WEFT_BOUND_WAITING, /* waiting for other ranks that are late */
    WEFT_BOUND_CODEC    /* coding, decoding, optimizing on the exchange thread */
} weft_bound;

/** Of a time, in seconds. */
typedef struct weft_quantiles {
    double low, median, high; /* 5, 50, 95 % */
} weft_quantiles;

/** Something that a thread does in the shown step; seconds since the step's beginning. */
typedef struct weft_span {
    int lane;      /* 0 compute, 1 exchange thread, 2 wire */
    int index;     /* unit, bucket or micro-batch */
    char what[24]; /* as lib/step/schedule.c names it; "message" on the wire */
    double begin_s, end_s;
} weft_span;

/** How a prediction is played; zeroed: the defaults. */
typedef struct weft_predict_options {
    size_t struct_size;
    int64_t steps; /* simulated; 0 = enough for the quantiles */
    uint64_t seed; /* of the jitter */
    bool timeline; /* fill spans */
    bool events;   /* simulate message by message even where the array simulation would do
                      (docs/prediction.md, "Long runs") */
    int64_t nodes; /* 0 = mesh.nodes; may be more than a run can have. Tokens per step
                      grow with the nodes */
} weft_predict_options;

/** Times of a step in seconds, bytes per step and node, memory per rank. */
typedef struct weft_prediction {
    size_t struct_size;
    weft_quantiles step_s;
    double mean_step_s;           /* used to predict the hours of a run */
    double compute_s, exchange_s; /* of a step, as in weft_step_record, means */
    double wait_s, hidden_share;
    double wire_s, codec_s, late_s; /* parts of wait_s: bytes, coding, late ranks */
    double vote_s; /* part of compute_s: waiting for the status of late ranks */
    weft_bound bound;
    double tokens_per_s;     /* all ranks; by mean_step_s */
    double wire_bytes;       /* per step and node interface, out, mean of all steps */
    int64_t wire_bytes_step; /* the same as weft_run_summary gives before training */
    int64_t memory_bytes;    /* of a rank */
    int64_t parameters;
    bool goes_on;     /* over TCP the other nodes continue if one is lost */
    weft_span *spans; /* of a typical step of rank 0 */
    int64_t n_spans;
} weft_prediction;

/** With one site, no measured pairs of nodes and a wire that is not emulated, steps are
 * simulated in arrays, so a step never takes longer when the wire or a node is faster.
 * Otherwise they are simulated message by message; there, as on real machines, that can
 * happen, by some per cent.
 *
 * `config` (finished) says model, batch, mesh and method; the numbers of nodes, ranks per
 * node, shards and sites are those of its mesh, not the cluster's. If mesh.link is not
 * "none", it replaces the cluster's wire. No file is read: a vocabulary that only the text
 * could tell is 256 for bytes, else data.vocab. [out] *out owned by the caller
 * (weft_prediction_clear). Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_predict(weft_ctx *ctx, const weft_config *config,
                                  const weft_cluster *cluster,
                                  const weft_predict_options *options,
                                  weft_prediction *out) WEFT_CHECKED;
/** The same for a caller's own loop (weft/sync.h): its tensors, and how long forward and
 * backward of a step take one rank, measured where the loop will run. This time is divided
 * among the matrices by their number of elements, a rough guess for tables that are looked
 * up. Every rank holds a whole copy; tokens_per_s is 0. */
typedef struct weft_loop_facts {
    size_t struct_size;
    const weft_sync_tensor *tensors;
    int n_tensors;
    double step_s;
} weft_loop_facts;

/** The same of a program with a loop of its own. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_predict_loop(weft_ctx *ctx, const weft_config *config,
                                       const weft_cluster *cluster,
                                       const weft_loop_facts *loop,
                                       weft_prediction *out) WEFT_CHECKED;

/** Frees what the prediction owns. */
WEFT_API void weft_prediction_clear(weft_ctx *ctx, weft_prediction *prediction);

/** The text that cluster->model must be equal to if the cluster's units are to be used for
 * `config` with `threads` per rank (unless mesh.threads is set): the model and the
 * micro-batch. [out] out: 256 bytes. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_cluster_model_key(weft_ctx *ctx, const weft_config *config,
                                            int64_t threads, char *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
