/* SPDX-License-Identifier: MIT */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What machines can do: measured by a probe (cluster.yaml, docs/prediction.md) or taken
 * from data sheets. Every rate is what one rank gets while all ranks work. A rate of zero
 * means: not known; a prediction that needs it uses the estimate given at the field. */

/** One wire, of one direction. */
typedef struct weft_link_facts {
    double bandwidth_Bps; /* payload, one way; 0 = memory speed */
    double latency_s;     /* one way */
    double message_s; /* time that a message keeps the sender's processor busy, and the
                         receiver's */
    double bytes_per_message; /* that the protocol adds on the wire; and as a share: */
    double overhead;          /* 0.03 = 3 % */
    double up_Bps;   /* out of an interface, if that rate differs; 0 = the same */
    double loss;     /* share of packets that are lost and sent again; 0.01 = 1 % */
    double jitter_s; /* mean delay of a message beyond latency_s, exponential */
    double residual; /* of the fit, relative; 0: not measured */
    double incast;   /* factor by which a message takes longer than the interfaces allow,
                        when three or more processes send to each other; 0 = 1 */
} weft_link_facts;

/** A measured pair of nodes that differs from the rest. */
typedef struct weft_link_pair {
    int64_t from, to; /* nodes */
    double bandwidth_Bps, latency_s;
} weft_link_pair;

/** A machine that differs from the others; 0 in a field: like the others. */
typedef struct weft_machine {
    int64_t node;
    double rank_flops, memory_bytes; /* of one of its ranks */
    double bandwidth_Bps, up_Bps;    /* of its interface to the wire: in, out; up 0 = the
                                        same */
} weft_machine;

/** How the time of computing varies, relative to its median. */
typedef struct weft_jitter {
    double spread; /* standard deviation of the logarithm, drawn for each rank and step */
    double drift;  /* the same of a factor that each rank keeps over the whole run:
                      persistent stragglers */
    double stall_share; /* probability that a rank stalls in a step */
    double stall_s;     /* mean of the stall's length, exponential */
} weft_jitter;

/** The measured time of one unit of the model for one micro-batch. The head's forward_s is 0
 * in training: its backward pass computes both. */
typedef struct weft_unit_seconds {
    char name[32]; /* as weft list units names it: "embedding", "block", "head" */
    double forward_s, backward_s;
} weft_unit_seconds;

/** The work of a replicator or mixer on one thread without the exchange, in seconds per
 * parameter: while sending; for what arrives (once, and per other member); at the end. */
typedef struct weft_codec_seconds {
    char name
        [96]; /* of the variant: "demo 4/64 int8 all_gather", "gossip", "outer int8" */
    double begin_s, combine_s, combine_peer_s, end_s;
} weft_codec_seconds;

/** Seconds per parameter of one optimizer, on one rank. */
typedef struct weft_optimizer_seconds {
    char name[32];
    double step_s; /* per parameter, one thread */
} weft_optimizer_seconds;

/** Collective time over message size, as measured; the model must predict it. */
typedef struct weft_collective_seconds {
    char name[32]; /* "all-reduce", "all-gather", "pair", "all-reduces of a step" */
    int64_t nodes, bytes;
    double median_s, low_s, high_s; /* 5 and 95 % */
} weft_collective_seconds;

/** Facts about machines and links, measured or by hand; a file cluster.yaml holds one. */
typedef struct weft_cluster {
    char source[128]; /* "probe", "by hand" */
    char date[32];    /* ISO 8601, UTC */
    char host[256];   /* of the first rank */
    char backend[32];
    int64_t nodes, ranks_per_node, sites, threads; /* threads per rank */
    double memory_bytes; /* of memory per rank; 0 = not known: not checked */
    double rank_flops;   /* FLOP/s of one rank in the matrix products of training; 0 = not
                            known: then units, or mesh.compute_time, must give the time of
                            computing */
    double launch_s;     /* fixed time of a layer's forward pass, whatever the batch
                        (backward: twice that); added to the time that follows from
                        rank_flops */
    double rank_flops_bf16; /* the same with model.precision bf16; 0 = rank_flops */
    double
        collective_cpu_s; /* processor time per byte that a rank sends in a collective of
                             another framework (gloo); 0 = none */
    double memory_Bps;    /* copy rate of one rank, bytes read and written; 0 = codecs and
                          optimizers that were not measured take no time */
    weft_link_facts local, wire, site;
    int64_t flows; /* parallel streams with which the wire was measured; 1 if not given */
    weft_link_pair *pairs; /* "links" in the file: weft_links_load reads the same list */
    int64_t n_pairs;
    weft_machine *machines;
    int64_t n_machines;
    weft_jitter jitter;
    /** Valid only for one model and batch; for others the time of computing is FLOP over
     * rank_flops. */
    char model[256]; /* what was measured: weft_cluster_model_key */
    weft_unit_seconds *units;
    int64_t n_units;
    double rest_s; /* part of a step that is in no unit and no exchange */
    double wake_s; /* how late a thread wakes that sleeps until a given time, median: for
                      emulated wires and mesh.compute_time */
    weft_codec_seconds *codecs;
    int64_t n_codecs;
    weft_optimizer_seconds *optimizers;
    int64_t n_optimizers;
    weft_collective_seconds *collectives;
    int64_t n_collectives;
    double *step_s; /* computing of a rank in consecutive steps: samples of the jitter */
    int64_t n_steps;
    double
        stream_Bps; /* of one socket between two nodes (with sites: between sites), where
                          several carry more; 0 = by its window */
    double matrix_share; /* of an optimizer's work on whole matrices (Muon) that is done,
                            where a part of the parameters learns; 0 = all */
} weft_cluster;

/** An empty description: one node, one rank, nothing known. [out] *out owned by the caller
 * (weft_cluster_destroy), with all its arrays; NULL on failure. A cluster must come from
 * here or from weft_cluster_load, never from the stack: it has private fields behind these. */
WEFT_API weft_status weft_cluster_create(weft_ctx *ctx, weft_cluster **out) WEFT_CHECKED;
WEFT_API void weft_cluster_destroy(weft_ctx *ctx, weft_cluster *cluster);

/** The number of nodes in the description, for languages that do not read this header and so
 * do not know the offsets of the fields. */
WEFT_API int64_t weft_cluster_nodes(const weft_cluster *cluster);

/** The lists of a cluster, by number. */
typedef enum weft_cluster_list {
    WEFT_CLUSTER_PAIRS,
    WEFT_CLUSTER_UNITS,
    WEFT_CLUSTER_CODECS,
    WEFT_CLUSTER_OPTIMIZERS,
    WEFT_CLUSTER_COLLECTIVES,
    WEFT_CLUSTER_STEPS,
    WEFT_CLUSTER_MACHINES,
    WEFT_CLUSTER_LISTS
} weft_cluster_list;

/** Gives a list n items and sets its n_... field; new items are zero. On failure the list is
 * unchanged. */
WEFT_API weft_status weft_cluster_resize(weft_ctx *ctx, weft_cluster *cluster,
                                         weft_cluster_list list, int64_t n) WEFT_CHECKED;

/** Reads cluster.yaml; errors start with "path:line: ". Errors: FILE, FORMAT. */
WEFT_API weft_status weft_cluster_load(weft_ctx *ctx, const char *path,
                                       weft_cluster **out) WEFT_CHECKED;

/** Writes cluster.yaml atomically: a crash leaves the old file or the whole new one.
 * Errors: FILE. */
WEFT_API weft_status weft_cluster_write(weft_ctx *ctx, const weft_cluster *cluster,
                                        const char *path) WEFT_CHECKED;

/** Sets one fact as typed by hand: "nodes" "8", "ranks-per-node" "4", "link" "25Gbit,20us",
 * "node-flops" "80T", "node-link" "100GBps", "jitter" "5%", ... (the error of an unknown name
 * lists all). "link" is the link between nodes, "node-link" the one inside a node, "site-link"
 * the one between sites. Facts about a node are divided among its ranks. Errors: CONFIG. */
WEFT_API weft_status weft_cluster_set(weft_ctx *ctx, weft_cluster *cluster,
                                      const char *name, const char *value) WEFT_CHECKED;

/** An accelerator by its data sheet, and the share of its peak that training is known to
 * reach. */
typedef struct weft_accelerator {
    const char *name;
    double peak_flops, memory_Bps, memory_bytes;
    double low, high;   /* shares of the peak */
    const char *source; /* of these shares */
    double watts;       /* of the board, by the data sheet; 0: unknown */
} weft_accelerator;

/** The i-th one known, or NULL past the last. */
WEFT_API const weft_accelerator *weft_accelerator_at(int i);

/** The one of that name, or NULL; case, blanks, '-' and '_' do not count, nor words that a
 * driver adds: "NVIDIA A100-SXM4-40GB" is A100. */
WEFT_API const weft_accelerator *weft_accelerator_find(const char *name);

/** Describes all ranks as such accelerators, with the geometric mean of the known shares. */
WEFT_API weft_status weft_cluster_accelerate(weft_ctx *ctx, weft_cluster *cluster,
                                             const char *name) WEFT_CHECKED;

/** The same, computing at the share `effort` of the peak (0 to 1) instead. */
WEFT_API weft_status weft_cluster_effort(weft_ctx *ctx, weft_cluster *cluster,
                                         const char *name, double effort) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
