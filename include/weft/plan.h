/* SPDX-License-Identifier: MIT */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include <weft/model.h>
#include <weft/predict.h>
#include <weft/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which method makes a run faster on a cluster, and whether a second machine does at all
 * (docs/planning.md). Every candidate shares the run's batch.tokens_per_step among all
 * its ranks: more nodes do not make the batch larger. */

/* What a method does to the learning; texts live as long as the program. */
typedef struct weft_learning {
    const char *changes; /* what is other than on one machine; "" = nothing */
    bool measured;
    double low, high; /* steps to a loss over those of full synchronization with AdamW on
                           two nodes: the least and the greatest of what was measured */
    double per_doubling; /* of the number of nodes: what the logarithm of that grows by */
    const char *source;  /* where the numbers stand */
} weft_learning;

/* How other frameworks reduce, and what their numbers are made of. */
typedef enum weft_collective {
    WEFT_COLLECTIVE_AUTO, /* ring or tree, whichever is faster */
    WEFT_COLLECTIVE_RING,
    WEFT_COLLECTIVE_TREE,
    WEFT_COLLECTIVE_HIERARCHICAL,
    WEFT_COLLECTIVE_GLOO /* PyTorch's on processors: rings; a reduce-scatter is an all-reduce,
                            and sharded frameworks hide nothing behind computing */
} weft_collective;

typedef enum weft_precision {
    WEFT_PRECISION_F32,
    WEFT_PRECISION_MIXED, /* weights f32, products and sharded weights on the wire bf16 */
    WEFT_PRECISION_BF16,  /* all of it */
    WEFT_PRECISION_BF16_8BIT /* and the optimizer's moments in 8 bits */
} weft_precision;

/* Where a fact comes from: decides how far a prediction may be off. */
typedef enum weft_known {
    WEFT_KNOWN_TYPED, /* a figure that somebody expects */
    WEFT_KNOWN_SHEET, /* a data sheet, and what others reached of it */
    WEFT_KNOWN_MEASURED
} weft_known;

/* The i-th framework that can be planned ("ddp", "fsdp", ...), or NULL past the last. */
WEFT_API const char *weft_framework_name(int i, const char **doc);

/* One way to do the run. */
typedef struct weft_candidate {
    char name[48];      /* "flexdemo int8" */
    char method[32];    /* its preset */
    char framework[16]; /* another's than weft: "ddp"; "" = weft */
    char settings[320]; /* over the run's keys: "mesh.nodes=2 method=flexdemo ..." */
    int64_t nodes, ranks_per_node, shards, sites;
    bool own;    /* with the run's own keys of the method */
    bool usable; /* false: `problem` says why */
    char problem[96];
    weft_learning learning;
    weft_prediction prediction; /* without spans */
    bool goes_on; /* without a node that fails; false: all go back to the checkpoint */
    double efficiency; /* of a token, of what it teaches in one node's batch; 1 without
                          critical_batch */
    double steps;      /* to a loss, over those of one node; 1 if that was not measured */
    double steps_error; /* of it, either way: 0.2 = 20 % */
    double cost_s;  /* for what one node learns in a step: as many tokens, more if they
                           teach less, times `steps` */
    double speedup; /* over one node, by cost_s */
    double error;   /* of cost_s, either way, by what is known */
    double hours,
        gigabytes; /* to what one node learns until the goal; per node interface,
                                out */
    /* Of the best of each method, else NAN: */
    double break_even_Bps; /* rate of the wire from which on it beats one node; 0 =
                              always, INFINITY = never in what was tried */
    double overtaken_Bps;  /* rate nearest to the wire's at which the next method of the
                              ranking is as fast; NAN = at none */
    int64_t curve;         /* its row in weft_advice.speedups, or -1 */
} weft_candidate;

typedef struct weft_left_out {
    char what[96]; /* the first of them */
    int64_t n;     /* candidates left out for the same reason */
    char why[320];
} weft_left_out;

/* Inside [from, to) of the wire's rate this candidate would be the choice. */
typedef struct weft_range {
    double from_Bps, to_Bps;
    int64_t candidate;
} weft_range;

typedef struct weft_advice {
    weft_candidate *candidates; /* by cost_s, to half a per cent; then those whose
                                   learning was not measured, and unusable ones */
    int64_t n_candidates;
    int64_t baseline; /* the fastest with one node; it may need too much memory */
    int64_t fastest;  /* usable, whatever it does to the learning; -1: none */
    int64_t choice;   /* see weft_advise; -1: none */
    int64_t full;     /* the fastest of several nodes that learns as one; -1: none */
    int64_t rival;    /* the least expected cost_s of those whose learning was measured;
                         the choice or level with it; -1: none */
    weft_left_out *left_out;
    int64_t n_left_out;
    double tokens; /* the goal */
    int64_t tokens_per_step, parameters;
    weft_link_facts wire; /* that was reckoned with; with several sites between these */
    double *bandwidths;   /* [n_bandwidths] ascending */
    double *speedups;     /* [n_curves, n_bandwidths] over one node */
    int64_t n_bandwidths, n_curves;
    weft_range *ranges; /* ascending, without gaps, over all bandwidths */
    int64_t n_ranges;
    char *text; /* the advice, paragraphs separated by empty lines */
} weft_advice;

typedef struct weft_advise_options {
    double tokens;       /* the goal; 0 = run.steps x batch.tokens_per_step */
    int64_t steps;       /* simulated for each candidate; 0 = enough for the quantiles */
    bool same_only;      /* leave out methods that learn otherwise than one machine */
    bool batch_per_rank; /* each node keeps batch.tokens_per_step: weak scaling */
    const char *frameworks; /* also tried, separated by blanks: "ddp fsdp"; NULL: none */
    weft_collective collective; /* theirs */
    weft_precision precision;   /* theirs */
    weft_known computing, wire; /* where these facts come from; a probe's are measured */
    double failure_s;           /* mean time between failures of a node; 0: none fails */
    double restart_s, save_s; /* until all go on; that all stand still for a checkpoint */
    bool roll_back; /* a failure sends all nodes back to the checkpoint, also where the
                       others could go on */
    bool shares;    /* sequences go to the machines by their speed */
    double busy_s, busy_share; /* of a day, in which the wire carries this share of its
                                  rate; busy_s 0: never */
    double
        critical_batch; /* tokens; of larger batches a token teaches less; 0: of none */
    void (*on_progress)(void *user, int64_t done, int64_t all); /* or NULL */
    void *user;
} weft_advise_options;

/* Tries the methods on one node and on more of the cluster's nodes. `run` (finished) says
 * model, batch and goal; the cluster's nodes, ranks_per_node and sites count. The wire is
 * the cluster's or, if that is not known, mesh.link. Keys of the sections replicator,
 * site_replicator and mixer hold for the run as it is only, those of optimizer for
 * candidates of its method.
 *
 * What counts is the time to a loss: a step's, times the steps that the method needs, over
 * those of one node. The best of a method: of its candidates that take at most 5 % more than
 * the least of them, the one with the fewest nodes, then the fewest bytes. The choice is one
 * of these or one node: of all that are level with the least, by what is known of both, what
 * learns as one machine does, then the fewest nodes, then the least (docs/planning.md).
 * Methods with another optimizer are left out if somebody chose optimizer.kind.
 * `options` NULL: all zero. [out] *out owned by the caller (weft_advice_destroy).
 */
WEFT_API weft_status weft_advise(weft_ctx *ctx, const weft_config *run,
                                 const weft_cluster *cluster,
                                 const weft_advise_options *options,
                                 weft_advice **out) WEFT_CHECKED;
WEFT_API void weft_advice_destroy(weft_ctx *ctx, weft_advice *advice);

/* The configuration of candidate i of the advice about `run`: complete, finished. [out]
 * *out owned by the caller (weft_config_destroy). */
WEFT_API weft_status weft_advice_config(weft_ctx *ctx, const weft_config *run,
                                        const weft_advice *advice, int64_t i,
                                        weft_config **out) WEFT_CHECKED;

/* All of it as one JSON object (docs/planning.md). [out] *text owned by the caller
 * (weft_free). */
WEFT_API weft_status weft_advice_json(weft_ctx *ctx, const weft_advice *advice,
                                      char **text) WEFT_CHECKED;

/* Draws speed-up over the wire's rate, one curve per method, as SVG. */
WEFT_API weft_status weft_advice_draw(weft_ctx *ctx, const weft_advice *advice,
                                      const char *path) WEFT_CHECKED;

/* Writes a page that draws speed-up and cost over the wire's rate and the number of nodes,
 * and reckons them anew for other wires, nodes and batches. `run`, `cluster` and `options`
 * are those that were advised about. */
WEFT_API weft_status weft_advice_page(weft_ctx *ctx, const weft_config *run,
                                      const weft_cluster *cluster,
                                      const weft_advise_options *options,
                                      const weft_advice *advice,
                                      const char *path) WEFT_CHECKED;

/* ---- what a user has measured already ---- */

typedef struct weft_measurement {
    char text[128];                /* as typed */
    int64_t nodes, ranks_per_node; /* 0: the cluster's */
    char method[32];               /* a framework, or one of weft's; "" = full sync */
    double tokens;                 /* of a step; 0 = the run's */
    double seconds, tokens_per_s;  /* of a step; one of the two */
    double predicted_s;            /* with what was inferred from all of them */
} weft_measurement;

/* "2 nodes x 4, ddp, 64k tokens: 4.1 s", "1 node: 12k tokens/s". */
WEFT_API weft_status weft_measurement_parse(weft_ctx *ctx, const char *text,
                                            weft_measurement *out) WEFT_CHECKED;

/* What follows from measurements. */
typedef struct weft_inference_of_facts {
    double rank_flops, launch_s;
    double given_Bps, wire_Bps; /* 0: not said; not measured */
    char text[400];
} weft_inference_of_facts;

/* Sets the cluster's computing (from steps on one node; two batches tell what a pass
 * costs besides its tokens) and the rate of its wire (from steps on several), so that the
 * model predicts what was measured. Fills in `predicted_s` and `seconds`. */
WEFT_API weft_status weft_cluster_anchor(weft_ctx *ctx, const weft_config *run,
                                         const weft_advise_options *options,
                                         weft_measurement *measured, int n,
                                         weft_cluster *cluster,
                                         weft_inference_of_facts *out) WEFT_CHECKED;

/* ---- models that weft need not be able to train ---- */

/* What a plan has to know of a model: the nearest of weft's kinds with as many
 * parameters. */
typedef struct weft_shape {
    char family[32]; /* model_type of the file */
    char note[160];  /* what is read otherwise than it is; "" = nothing */
    weft_model_config model;
    int64_t tokens;      /* length of a sequence, where the file says so; 0 = the run's */
    double parameters;   /* by the file's own numbers */
    double active_share; /* of a block's parameters, that a token passes through */
} weft_shape;

/* Reads a Hugging Face config.json; `where` is named in errors. */
WEFT_API weft_status weft_shape_from_json(weft_ctx *ctx, const char *json,
                                          int64_t n_bytes, const char *where,
                                          weft_shape *out) WEFT_CHECKED;

/* A model of that many parameters, spread evenly over that many layers. */
WEFT_API weft_status weft_shape_of_size(weft_ctx *ctx, double parameters, int64_t layers,
                                        weft_shape *out) WEFT_CHECKED;

/* Sets the run's model (and data.length, if the shape has one) and finishes it. What
 * model.init named is read, and empty afterwards. */
WEFT_API weft_status weft_shape_apply(weft_ctx *ctx, const weft_shape *shape,
                                      weft_config *config) WEFT_CHECKED;

/* The i-th model_type that is understood, or NULL past the last. */
WEFT_API const char *weft_shape_family(int i);

/* ---- a run that is compared with its prediction ---- */

typedef struct weft_watch weft_watch;

/* The prediction of `config` (finished) on the cluster, and room for a window of steps.
 * [out] *out owned by the caller (weft_watch_destroy). */
WEFT_API weft_status weft_watch_create(weft_ctx *ctx, const weft_config *config,
                                       const weft_cluster *cluster,
                                       weft_watch **out) WEFT_CHECKED;
WEFT_API void weft_watch_destroy(weft_ctx *ctx, weft_watch *watch);

WEFT_API const weft_prediction *weft_watch_prediction(const weft_watch *watch);

/* Takes in one step; the first two are left out, as memory is touched for the first time.
 * True when prediction and measurement part by more than 20 % over a window of 20 steps,
 * and each time the likely cause becomes another: `sentence` says both numbers and the
 * cause. */
WEFT_API bool weft_watch_step(weft_watch *watch, const weft_step_record *record,
                              char *sentence, size_t sentence_size);

/* Measured over predicted step, over the window; NAN while it has fewer than five. */
WEFT_API double weft_watch_ratio(const weft_watch *watch);

/* Steps as predicted and as taken in (the first million of them): their medians, or their
 * means where they differ by design. measured_s is NAN if there were none. */
typedef struct weft_watch_outcome {
    bool mean;
    double planned_s, measured_s;
} weft_watch_outcome;

/* Of a run that has ended. */
WEFT_API weft_watch_outcome weft_watch_look(weft_watch *watch);

/* Writes <folder>/plan.json: the prediction with its timeline (docs/planning.md). */
WEFT_API weft_status weft_watch_write(weft_ctx *ctx, const weft_watch *watch,
                                      const char *folder) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
