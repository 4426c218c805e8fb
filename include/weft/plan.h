/* SPDX-License-Identifier: MIT */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include <weft/model.h>
#include <weft/predict.h>
#include <weft/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds which method makes a run faster on a cluster, and whether a second machine helps at
 * all (docs/planning.md). Every candidate shares the run's batch.tokens_per_step among all
 * its ranks: more nodes do not make the batch larger. */

/** What a method does to learning. Texts live as long as the program. */
typedef struct weft_learning {
    const char *changes; /* what differs from one machine; "" = nothing */
    bool measured;
    float
        per_doubling_error; /* of per_doubling; 0: all gradients are averaged in each step */
    double low, high; /* steps to a loss, relative to full synchronization with AdamW on
                         two nodes: the lowest and highest measured value */
    double per_doubling; /* growth of the logarithm of that when the nodes double */
    const char *source;  /* where the numbers are documented */
} weft_learning;

/** A way to do a run on several nodes: assignments over the run's keys. */
typedef struct weft_recipe {
    const char *name;
    const char *method;   /* the method whose row of a table and curve it shares */
    const char *settings; /* separated by blanks */
    int64_t least_nodes;
    int64_t period; /* steps between two exchanges; 0: each */
    bool
        main; /* tried with each number of nodes and each mesh, not only with all nodes */
    weft_learning learning;
    bool muon;     /* its optimizer is Muon, whatever the run's is */
    float largest; /* parameters of the largest model that it was compared with; INFINITY:
                      others have trained billions; 0: none */
} weft_recipe;

/** The i-th one that a plan tries on one site, or NULL past the last. The first averages all
 * gradients in each step. */
WEFT_API const weft_recipe *weft_recipe_at(int i);

/** Steps to a loss with a model of so many parameters in a run of so many steps (0: not known,
 * between the shortest and the longest measured), relative to one node with AdamW; 1 where that
 * was not measured. [out] *error: of them, plus or minus; 0.2 = 20 %. */
WEFT_API double weft_recipe_steps(const weft_recipe *recipe, int64_t parameters,
                                  int64_t nodes, double steps, double *error);

/** Whether that was measured within two decades of the size: a plan chooses no other method. */
WEFT_API bool weft_recipe_reaches(const weft_recipe *recipe, int64_t parameters);

/** How other frameworks reduce, and with which number types. */
typedef enum weft_collective {
    WEFT_COLLECTIVE_AUTO, /* ring or tree, whichever is faster */
    WEFT_COLLECTIVE_RING,
    WEFT_COLLECTIVE_TREE,
    WEFT_COLLECTIVE_HIERARCHICAL,
    WEFT_COLLECTIVE_GLOO /* PyTorch's gloo, for CPUs: rings; a reduce-scatter is an
                            all-reduce, and sharded frameworks hide nothing behind
                            computing */
} weft_collective;

/** Types of numbers that an accelerator computes with. */
typedef enum weft_precision {
    WEFT_PRECISION_F32,
    WEFT_PRECISION_MIXED, /* weights f32, products and sharded weights on the wire bf16 */
    WEFT_PRECISION_BF16,  /* everything in bf16 */
    WEFT_PRECISION_BF16_8BIT /* the same, with the optimizer's moments in 8 bits */
} weft_precision;

/** Where a fact comes from; this decides how far a prediction may be off. */
typedef enum weft_known {
    WEFT_KNOWN_TYPED, /* an expected figure, typed by the user */
    WEFT_KNOWN_SHEET, /* a data sheet, and the share of it that was reached elsewhere */
    WEFT_KNOWN_MEASURED
} weft_known;

/** The i-th framework that can be planned ("ddp", "fsdp", ...), or NULL past the last. */
WEFT_API const char *weft_framework_name(int i, const char **doc);

/** The same of a name in any case, or of another name for it ("fsdp-all" for "fsdp"); NULL: there
 * is no such framework. */
WEFT_API const char *weft_framework_find(const char *name);

/** Which of `nodes` nodes may send in the codec `values` for the sake of their way out, as
 * replicator.node_values takes it ("2=int4,5=int4"): those whose way out carries at most twice
 * what the narrowest does. The result is the steps to a loss, relative to those without; 0 and "":
 * all ways are alike, the codec was not measured, or `out` is too short. */
WEFT_API double weft_plan_node_values(const weft_cluster *cluster, int64_t nodes,
                                      const char *values, char *out, size_t out_size);

/** One way to do the run. */
typedef struct weft_candidate {
    char name[48];      /* "flexdemo int8" */
    char method[32];    /* the preset */
    char framework[16]; /* another framework than weft: "ddp"; "" = weft */
    char settings[320]; /* keys that replace the run's: "mesh.nodes=2 method=flexdemo
                           ..." */
    int64_t nodes, ranks_per_node, shards, sites;
    bool own;    /* uses the run's own keys of the method */
    bool usable; /* false: `problem` says why */
    char problem[96];
    weft_learning learning;
    weft_prediction prediction; /* without spans */
    bool goes_on; /* continues if a node fails; false: all return to the checkpoint */
    double efficiency; /* what a token teaches, relative to a token in one node's batch; 1
                          without critical_batch */
    double steps;      /* to a loss, relative to one node; 1 if that was not measured */
    double steps_error; /* of `steps`, plus or minus: 0.2 = 20 % */
    double cost_s;  /* time to learn what one node learns in a step: as many tokens (more
                       if they teach less) times `steps` */
    double speedup; /* relative to one node, by cost_s */
    double error;   /* of cost_s, plus or minus, by what is known */
    double hours,
        gigabytes; /* to learn what one node learns until the goal; bytes that leave one
                      node's interface */
    /** For the best candidate of each method, else NAN: */
    double break_even_Bps; /* rate of the wire above which it is faster than one node; 0 =
                              always, INFINITY = never in what was tried */
    double overtaken_Bps;  /* rate nearest to the wire's at which the next method of the
                              ranking is as fast; NAN = there is none */
    int64_t curve;         /* its row in weft_advice.speedups, or -1 */
} weft_candidate;

/** Candidates that were not predicted, and why. */
typedef struct weft_left_out {
    char what[96]; /* the first of them */
    int64_t n;     /* candidates left out for the same reason */
    char why[320];
} weft_left_out;

/** Where the wire's rate is in [from, to), this candidate would be the choice. */
typedef struct weft_range {
    double from_Bps, to_Bps;
    int64_t candidate;
} weft_range;

/** The least share of its label that a wire plausibly carries (weft_advise_options.wire_low). */
#define WEFT_TCP_LOW 0.2
#define WEFT_RDMA_LOW (1 / 1.5)

/** Whether a second machine is worth it. */
typedef enum weft_worth {
    WEFT_WORTH_NO,     /* not even at the best plausible facts */
    WEFT_WORTH_YES,    /* also at the worst */
    WEFT_WORTH_MEASURE /* that depends on a fact which nobody has measured */
} weft_worth;

/** The fact on which a range depends most. */
typedef enum weft_doubt {
    WEFT_DOUBT_WIRE,
    WEFT_DOUBT_COMPUTING,
    WEFT_DOUBT_LEARNING, /* steps to the same loss */
    WEFT_DOUBT_MODEL     /* the prediction's own error */
} weft_doubt;

/** A candidate at both ends of what is plausible: the slowest wire with the fastest ranks, and
 * the fastest wire with the slowest ranks. All numbers are speed-ups to the same loss. */
typedef struct weft_outlook {
    double low, high; /* weft_candidate.speedup at both ends; NAN: not predicted there */
    double alone, alone_low,
        alone_high; /* relative to one node with the same optimizer */
    double optimizer, optimizer_low,
        optimizer_high; /* of that one node, relative to one with the run's optimizer */
    int64_t peer;       /* that candidate on one node */
    weft_worth worth;   /* by alone_low and alone_high; of one node: no */
    weft_doubt doubt;
} weft_outlook;

/** What weft_advise makes of all candidates: choice, ranking, sentences. Read only. */
typedef struct weft_advice {
    weft_candidate *candidates; /* sorted by cost_s, where differences below half a per
                                   cent count as equal; then those whose learning was not
                                   measured, and unusable ones */
    int64_t n_candidates;
    int64_t baseline; /* the fastest on one node; it may need too much memory */
    int64_t fastest;  /* the fastest usable one, whatever it does to learning; -1: none */
    int64_t choice;   /* see weft_advise; -1: none */
    int64_t full;     /* fastest on several nodes that learns like one; -1: none */
    int64_t rival;    /* the one with the least expected cost_s among those whose learning
                         was measured; the choice, or level with it; -1: none */
    weft_left_out *left_out;
    int64_t n_left_out;
    double tokens; /* the goal */
    int64_t tokens_per_step, parameters;
    weft_link_facts wire; /* that the plan assumed; with several sites, the link between
                             sites */
    double *bandwidths;   /* [n_bandwidths] ascending */
    double *speedups;     /* [n_curves, n_bandwidths] relative to one node */
    int64_t n_bandwidths, n_curves;
    weft_range *ranges; /* ascending, without gaps, over all bandwidths */
    int64_t n_ranges;
    char *text; /* the advice, paragraphs separated by empty lines */
    struct weft_measurement *measured; /* those of the options, copied */
    int n_measured;
    struct weft_inference_of_facts *inferred; /* of the options, copied, or NULL */
    weft_outlook *outlooks;                   /* [n_candidates] */
    int64_t headline; /* the candidate on several nodes that the answer is about: the
                               choice, or the best of them; -1: none */
    weft_worth worth; /* of a second machine; by the headline */
    char *answer;     /* the answer: choice, range and reason, then what was assumed */
    char *next;       /* what to type next; "": nothing */
    double price_h, node_watts; /* of the options */
    weft_precision precision;   /* of memory: of the options, or what was found to fit */
    bool recompute, found_fit;  /* activations are recomputed; either was found to fit */
    double ranks_needed;        /* where nothing fits: about as many do, sharded over all
                                   of them; INFINITY: no number does; 0: not asked */
    int64_t together; /* the choice among those on several nodes that are expected to be
                         faster than every one on one node: what machines do that are
                         there anyway; -1: none */
    char money[8];    /* of price_h, by the options; "": not named */
    /** [n_ranks] of each machine, by the options, the most first; NULL: all have as many. */
    int64_t *ranks;
    int64_t n_ranks;
} weft_advice;

/** What the advice depends on beside configuration and cluster; zeroed: the defaults. */
typedef struct weft_advise_options {
    size_t struct_size;
    double tokens;       /* the goal; 0 = run.steps x batch.tokens_per_step */
    int64_t steps;       /* simulated for each candidate; 0 = enough for the quantiles */
    bool same_only;      /* leave out methods that do not learn like one machine */
    bool batch_per_rank; /* each node keeps batch.tokens_per_step: weak scaling */
    const char *frameworks; /* also tried, separated by blanks: "ddp fsdp"; NULL: none */
    weft_collective collective; /* of those frameworks */
    weft_precision precision;   /* of memory, and of what those frameworks send */
    weft_known computing, wire; /* where these facts come from; those of a probe are
                                   measured */
    double peak_flops;          /* of a rank, by its data sheet; 0: not known */
    const struct weft_measurement *measured; /* [n_measured] given with the advice */
    int n_measured;
    const struct weft_inference_of_facts *inferred; /* what weft_cluster_anchor inferred
                                                       from them; or NULL */
    double failure_s;         /* mean time between failures of a node; 0: none fails */
    double restart_s, save_s; /* until all nodes continue; time that all nodes stop for a
                                 checkpoint */
    bool roll_back; /* after a failure all nodes return to the checkpoint, even if the
                       others could continue */
    bool shares;    /* faster machines get more sequences */
    double busy_s, busy_share; /* seconds of each day in which the wire carries only this
                                  share of its rate; busy_s 0: none */
    double
        critical_batch; /* tokens; above this batch size a token teaches less; 0: no such
                           limit */
    void (*on_progress)(void *user, int64_t done, int64_t all); /* or NULL */
    void *user;
    double flop_share; /* FLOP of a token, relative to the run's model, if the model is
                          another one; 0 = 1. The cluster's rates and peak_flops are
                          already divided by it; rates in results are not. */
    /** The ends of what is plausible, relative to the rates that were given; 0: by
     * `computing` and `wire` (lib/planner/advise_ends.c). */
    double wire_low, wire_high, computing_low, computing_high;
    double price_h;    /* of a node for an hour, in any money; 0: unknown */
    double node_watts; /* of a node's accelerators; 0: unknown */
    double trainable;  /* share of the parameters that learn and are exchanged; 0 = all */
    double weight_bytes; /* of a weight that does not learn; 0: by the precision */
    bool find_fit; /* where one node has no room: in bf16, with recomputed activations or
                      sharded over all ranks, whichever of them is first to have it */
    bool keep_optimizer; /* leave out methods with another optimizer than the run's, or
                            with settings of their own for it */
    bool all_nodes;      /* only one node and all nodes, and mesh.sites as in the run */
    /** Above 0: only what the answer needs, and the outlooks of so many methods' best. Other
     * outlooks are NAN or by weft_candidate.error; no curves, text and rates of candidates. */
    int64_t rows;
    const char *money; /* of price_h: "$", "EUR"; NULL: not named */
    /** [cluster.nodes] of each machine; NULL: all have as many. A machine with fewer has as many in
     * the cluster, which are slower. */
    const int64_t *ranks;
} weft_advise_options;

/** Tries the methods on one node and on more of the cluster's nodes. Of a run with method=auto,
 * decide.keep says which (keep_optimizer, same_only). `run` (finished) says
 * model, batch and goal; the numbers of nodes, ranks per node and sites are the cluster's.
 * The wire is the cluster's or, if that is not known, mesh.link. Keys of the sections
 * replicator, site_replicator and mixer are used only for the run as it is configured,
 * those of optimizer for all candidates of the run's method.
 *
 * Candidates are compared by the time to a loss: the time of a step times the number of
 * steps that the method needs, relative to one node. The best candidate of a method: among
 * its candidates that take at most 5 % more than the fastest of them, the one with the
 * fewest nodes, then the fewest bytes. The choice is one of these or one node. Among all
 * that are level with the fastest (the known errors do not tell them apart), it is a method
 * that learns like one machine, then the fewest nodes, then the fastest (docs/planning.md).
 * Methods with another optimizer are left out if the user chose optimizer.kind. `options`
 * NULL: all zero. [out] *out owned by the caller (weft_advice_destroy).
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_advise(weft_ctx *ctx, const weft_config *run,
                                 const weft_cluster *cluster,
                                 const weft_advise_options *options,
                                 weft_advice **out) WEFT_CHECKED;
WEFT_API void weft_advice_destroy(weft_ctx *ctx, weft_advice *advice);

/** The configuration of candidate i of the advice about `run`: complete and finished. [out]
 * *out owned by the caller (weft_config_destroy). Errors: CONFIG. */
WEFT_API weft_status weft_advice_config(weft_ctx *ctx, const weft_config *run,
                                        const weft_advice *advice, int64_t i,
                                        weft_config **out) WEFT_CHECKED;

/** The whole advice as one JSON object (docs/planning.md). [out] *text owned by the caller
 * (weft_free). */
WEFT_API weft_status weft_advice_json(weft_ctx *ctx, const weft_advice *advice,
                                      char **text) WEFT_CHECKED;

/** Draws speed-up over the wire's rate, one curve per method, as SVG. Errors: FILE. */
WEFT_API weft_status weft_advice_draw(weft_ctx *ctx, const weft_advice *advice,
                                      const char *path) WEFT_CHECKED;

/** Writes a page that draws speed-up and cost over the wire's rate and the number of nodes,
 * and recomputes them for other wires, nodes and batches. `run`, `cluster` and `options`
 * are those that the advice was made for. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_advice_page(weft_ctx *ctx, const weft_config *run,
                                      const weft_cluster *cluster,
                                      const weft_advise_options *options,
                                      const weft_advice *advice,
                                      const char *path) WEFT_CHECKED;

/* ---- step times that a user has measured ---- */

/** A measured step of any framework, by which rates are fitted. */
typedef struct weft_measurement {
    size_t struct_size;
    char text[128];                /* as typed */
    int64_t nodes, ranks_per_node; /* 0: the cluster's */
    char method[32];               /* a framework, or one of weft's; "" = full sync */
    double tokens;                 /* of a step; 0 = the run's */
    double seconds, tokens_per_s;  /* of a step; one of the two is given */
    double predicted_s;            /* with the facts that were inferred from all
                                      measurements */
    double
        effort; /* FLOP of the model per second, relative to the peak of all ranks; what
                      is recomputed does not count, waiting does; 0: no peak is known */
} weft_measurement;

/** "2 nodes x 4, ddp, 64k tokens: 4.1 s", "1 node: 12k tokens/s". */
WEFT_API weft_status weft_measurement_parse(weft_ctx *ctx, const char *text,
                                            weft_measurement *out) WEFT_CHECKED;

/** Sets the rate of the wire (with several sites: of that between them) from an all-reduce or
 * a stream that was measured: "2 nodes: 0.6 GB/s", bytes reduced in a second; "2 nodes x 8:
 * busbw 12 GB/s"; "2 nodes, 25 MB: 80 ms"; "iperf3 x 4: 9.4 Gbit/s", four streams. [out]
 * *low, *high: the ends that remain plausible, for weft_advise_options.wire_low and
 * .wire_high; .wire is WEFT_KNOWN_MEASURED then. */
WEFT_API weft_status weft_cluster_exchange(weft_ctx *ctx, const char *text,
                                           weft_cluster *cluster, double *low,
                                           double *high) WEFT_CHECKED;

/** The same from one stream and from several at once, "iperf3: 1 Gbit/s" and "iperf3 x 8: 7
 * Gbit/s" in any order. Sets the wire's rate and weft_cluster.stream_Bps: mesh.streams then
 * decides what weft's own methods get of the wire; other frameworks have one stream. */
WEFT_API weft_status weft_cluster_streams(weft_ctx *ctx, const char *one,
                                          const char *several, weft_cluster *cluster,
                                          double *low, double *high) WEFT_CHECKED;

/** What follows from measurements. */
typedef struct weft_inference_of_facts {
    size_t struct_size;
    double rank_flops, launch_s;
    double wire_Bps;            /* 0: not measured */
    weft_known computing, wire; /* how well they are known now */
    char text[600];
    double effort;     /* rank_flops relative to the peak; 0: no peak is known */
    double constant_s; /* of every step on several nodes, beside the wire; 0: none */
    /** Both ends of what explains the measured steps, relative to the facts above: all that is
     * missing is the wire's; nothing is, and the constant is larger. 0: not known. */
    double all_wire, no_wire, all_constant;
    double fast_wire,
        fast_flops; /* only steps on several nodes: the slowest plausible wire,
                                     and the ranks' rate that goes with it, relative */
} weft_inference_of_facts;

/** Fits the cluster's computing and the rate of its wire to measurements, so that the model
 * predicts what was measured. Computing comes from steps on one node (two batch sizes show
 * what a pass costs apart from its tokens), the wire from steps on several nodes. Without a
 * step on one node, and with computing not given or taken from a data sheet
 * (options.computing), the wire is taken as given and computing follows from the steps on
 * several nodes. Fills in `predicted_s`, `seconds` and `effort`. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_cluster_anchor(weft_ctx *ctx, const weft_config *run,
                                         const weft_advise_options *options,
                                         weft_measurement *measured, int n,
                                         weft_cluster *cluster,
                                         weft_inference_of_facts *out) WEFT_CHECKED;

/* ---- models that weft does not have to be able to train ---- */

/** What a plan has to know about a model: the closest of weft's kinds with the same number
 * of parameters. */
typedef struct weft_shape {
    char family[32]; /* model_type of the file */
    char note[160];  /* where this description differs from the model; "" = nowhere */
    weft_model_config *model; /* a part of the shape */
    int64_t tokens;      /* length of a sequence, where the file says so; 0 = the run's */
    double parameters;   /* by the file's own numbers */
    double active_share; /* share of a block's parameters that one token uses */
} weft_shape;

/** Reads a Hugging Face config.json; errors call it `where`. [out] *out owned by the caller
 * (weft_free), as below. Errors: FORMAT. */
WEFT_API weft_status weft_shape_from_json(weft_ctx *ctx, const char *json,
                                          int64_t n_bytes, const char *where,
                                          weft_shape **out) WEFT_CHECKED;

/** A model of that many parameters, spread evenly over that many layers. Errors: FORMAT. */
WEFT_API weft_status weft_shape_of_size(weft_ctx *ctx, double parameters, int64_t layers,
                                        weft_shape **out) WEFT_CHECKED;

/** Sets the run's model (and data.length, if the shape has one) and finishes the
 * configuration. The checkpoint in model.init is read, and the key is empty afterwards.
 * Errors: CONFIG. */
WEFT_API weft_status weft_shape_apply(weft_ctx *ctx, const weft_shape *shape,
                                      weft_config *config) WEFT_CHECKED;

/* ---- comparing a run with its prediction ---- */

/** A run's steps beside its prediction. Owned; NULL may be destroyed. */
typedef struct weft_watch weft_watch;

/** Predicts `config` (finished) on the cluster, and allocates a window of measured steps.
 * [out] *out owned by the caller (weft_watch_destroy). Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_watch_create(weft_ctx *ctx, const weft_config *config,
                                       const weft_cluster *cluster,
                                       weft_watch **out) WEFT_CHECKED;
WEFT_API void weft_watch_destroy(weft_ctx *ctx, weft_watch *watch);

/** Of the run; borrowed from the watch. */
WEFT_API const weft_prediction *weft_watch_prediction(const weft_watch *watch);

/** Adds one measured step, as weft_train_hooks.on_step was given it. The first two steps are
 * ignored, because they touch memory for the first time. Returns true when prediction and
 * measurement differ by more than 20 % over a window of 20 steps, and whenever the likely
 * cause changes, but a cause again only after twice as many steps; `sentence` then gives both
 * numbers and the cause. After a change of `record->form` steps are counted anew, and nothing is
 * said. */
WEFT_API bool weft_watch_step(weft_watch *watch, const weft_step_record *record,
                              char *sentence, size_t sentence_size);

/** Measured step time over predicted step time in the window, after a change of form over the one
 * that was expected of it, since then; NAN while there are fewer than five steps, and where
 * nothing is expected. */
WEFT_API double weft_watch_ratio(const weft_watch *watch);

/** Predicted and measured steps (the first million of them): their medians, or their means
 * where steps differ by design. measured_s is NAN if no step was added. After a change of form the
 * mean since then, and what was expected of it; NAN: nothing was. */
typedef struct weft_watch_outcome {
    bool mean;
    double planned_s, measured_s;
} weft_watch_outcome;

/** The outcome of a run that has ended. Valid until the next call or weft_watch_destroy. */
WEFT_API const weft_watch_outcome *weft_watch_look(weft_watch *watch);

/** Writes <folder>/plan.json: the prediction with its timeline (docs/planning.md). Errors: FILE. */
WEFT_API weft_status weft_watch_write(weft_ctx *ctx, const weft_watch *watch,
                                      const char *folder) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
