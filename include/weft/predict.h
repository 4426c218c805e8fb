/* SPDX-License-Identifier: MIT */
#ifndef WEFT_PREDICT_H
#define WEFT_PREDICT_H

#include <weft/cluster.h>
#include <weft/config.h>
#include <weft/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The runtime model (docs/prediction.md): what a step of a configured run takes on a
 * cluster. Bytes come from the code that sends them. */

/* What a step's length comes from in the first place. */
typedef enum weft_bound {
    WEFT_BOUND_COMPUTE,
    WEFT_BOUND_WIRE,    /* waiting for bytes */
    WEFT_BOUND_WAITING, /* waiting for other ranks that are late */
    WEFT_BOUND_CODEC    /* coding, decoding, optimizing on the exchange thread */
} weft_bound;

typedef struct weft_quantiles {
    double low, median, high; /* 5, 50, 95 % */
} weft_quantiles;

/* Something that a thread does in the step that is shown; seconds from its begin. */
typedef struct weft_span {
    int lane;      /* 0 compute, 1 exchange thread, 2 wire */
    int index;     /* unit, bucket or micro-batch */
    char what[24]; /* as src/step/schedule.c names it; "message" on the wire */
    double begin_s, end_s;
} weft_span;

typedef struct weft_predict_options {
    int64_t steps; /* simulated; 0 = enough for the quantiles */
    uint64_t seed; /* of the jitter */
    bool timeline; /* fill spans */
    bool events;   /* message by message, also where arrays would do (docs/prediction.md,
                      section 6) */
    int64_t nodes; /* 0 = mesh.nodes; may be more than a run can have. Tokens per step
                      grow with them */
} weft_predict_options;

typedef struct weft_prediction {
    weft_quantiles step_s;
    double mean_step_s;           /* what hours are counted with */
    double compute_s, exchange_s; /* of a step, as in weft_step_record, means */
    double wait_s, hidden_share;
    double wire_s, codec_s, late_s; /* of wait_s: bytes, coding, waiting for late ranks */
    double vote_s; /* of compute_s: waiting for the status of late ranks */
    weft_bound bound;
    double tokens_per_s;     /* all ranks; by mean_step_s */
    double wire_bytes;       /* per step and node interface, out, mean of all steps */
    int64_t wire_bytes_step; /* the same as train's summary says beforehand */
    int64_t memory_bytes;    /* of a rank */
    int64_t parameters;
    bool goes_on;     /* over TCP the others go on without a node that is lost */
    weft_span *spans; /* of a typical step of rank 0 */
    int64_t n_spans;
} weft_prediction;

/* One site, no measured pairs of nodes and a wire that is not emulated: played in arrays, so
 * that a step never takes longer because the wire or a node is faster. Else message by
 * message, which may, as with real machines: by some per cent.
 *
 * `config` (finished) says model, batch, mesh and method; its mesh.nodes, ranks_per_node,
 * shards and sites count, not the cluster's. With mesh.link other than "none" that wire
 * is taken instead of the cluster's. No file is read: a vocabulary that only the text
 * would tell is 256 for bytes, else data.vocab. [out] *out owned by the caller
 * (weft_prediction_clear). */
WEFT_API weft_status weft_predict(weft_ctx *ctx, const weft_config *config,
                                  const weft_cluster *cluster,
                                  const weft_predict_options *options,
                                  weft_prediction *out) WEFT_CHECKED;
/* The same for a loop of the caller's own (weft/sync.h): its tensors, and what a step's
 * forward and backward takes one rank, measured where it will run. The share of each
 * matrix in it goes by its elements, which is a rough guess for tables that are looked up.
 * Every rank holds a whole copy; tokens_per_s is 0. */
typedef struct weft_loop_facts {
    const weft_sync_tensor *tensors;
    int n_tensors;
    double step_s;
} weft_loop_facts;

WEFT_API weft_status weft_predict_loop(weft_ctx *ctx, const weft_config *config,
                                       const weft_cluster *cluster,
                                       const weft_loop_facts *loop,
                                       weft_prediction *out) WEFT_CHECKED;
WEFT_API void weft_prediction_clear(weft_ctx *ctx, weft_prediction *prediction);

/* What cluster->model has to say for the cluster's units to be used for `config` with
 * `threads` per rank (where mesh.threads does not say): the model and the micro-batch.
 * [out] out: 256 bytes. */
WEFT_API weft_status weft_cluster_model_key(weft_ctx *ctx, const weft_config *config,
                                            int64_t threads, char *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
