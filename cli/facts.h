/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>
#include <weft/config.h>

#include "args.h"

/* Facts about a cluster on a command line: --cluster FILE, and a flag for each fact that
 * is often given by hand. */

/* clang-format off */
#define CLUSTER_FLAGS                                                                    \
    {"--cluster", "FILE",                                                                \
     "measured facts of the machines, as weft probe writes them", NULL},                 \
    {"--nodes", "N", "number of nodes; the slow wire is between them", NULL},            \
    {"--ranks-per-node", "S", "ranks (accelerators) per node; of each: 4,2", NULL},      \
    {"--sites", "N", "groups of nodes with a slower wire between them", NULL},           \
    {"--link", "LINK", "wire between nodes, such as 1Gbit,100us", NULL},                 \
    {"--site-link", "LINK", "wire between sites", NULL},                                 \
    {"--node-link", "LINK", "wire inside a node, such as 100GBps,5us", NULL},            \
    {"--node-flops", "FLOPS", "rate of a node in training, such as 80T, or here", NULL}, \
    {"--node-flops-bf16", "FLOPS", "the same with model.precision=bf16", NULL},          \
    {"--accelerator", "NAME", "what a rank is: A100, RTX4090, M4, ...; of each: M4,T4",  \
     NULL},                                                                              \
    {"--effort", "SHARE", "share of its data sheet's rate that training reaches: 38%",   \
     NULL},                                                                              \
    {"--launch", "TIME", "fixed time of a layer's pass, such as 30us", NULL},            \
    {"--node-memory", "SIZE", "memory of a node, such as 64GB", NULL},                   \
    {"--memory-bandwidth", "RATE", "memory rate of a rank, such as 20GBps", NULL},       \
    {"--jitter", "SHARE", "spread of a step's computing time, such as 5%", NULL},        \
    {"--drift", "SHARE", "how much slower some ranks always are", NULL},                 \
    {"--stall", "SHARE,TIME", "how often a rank stops, and for how long", NULL},         \
    {"--overhead", "SHARE", "bytes that the protocol adds, such as 3%", NULL},           \
    {"--collective-cpu", "TIME",                                                         \
     "processor time per byte that another framework sends: 0.002us", NULL},             \
    {"--up", "RATE", "rate out of a node, if --link is only the rate in: 20Mbit", NULL}, \
    {"--loss", "SHARE", "share of packets lost on the wire, such as 0.1%", NULL},        \
    {"--behind", "N", "nodes that nobody can call: what a relay passes on", NULL},       \
    {"--wire-jitter", "TIME", "mean delay beyond the latency, such as 5ms", NULL}
/* clang-format on */
#define CLUSTER_FLAGS_LAST "--wire-jitter"

/* Checks --effort against the flags that say the same or that it needs. Returns CODE_OK, or
 * CODE_USAGE after saying what is wrong. */
int check_effort(const args *a);

/* Reads --failures, --restart and --save, and checks that the flags which need --failures come
 * with it: --restart, --roll-back, and with `saves` also --save. Returns as above. */
int read_failures(const args *a, bool saves, double *failure_s, double *restart_s,
                  double *save_s);

/* Reads --busy 8h,30%: the busy time of a day, and the share of the wire's rate that is left
 * then. Returns as above. */
int read_busy(const args *a, double *busy_s, double *busy_share);

/* Refuses a fact that this cluster has no use for, instead of ignoring it. */
weft_status check_facts(weft_ctx *ctx, const args *a, const weft_cluster *c) WEFT_CHECKED;

/* "4,2" of --ranks-per-node; NULL: all nodes have as many. */
const char *ranks_of_each(const args *a);

/* Their numbers; how many there are, 0: not so. */
enum { MOST_MACHINES = 64 };
int numbers_of_ranks(const char *text, int64_t out[MOST_MACHINES]);

/* The next of "M4,T4", behind which *list then is; NULL: there is none, or it is not known. */
const weft_accelerator *next_accelerator(const char **list);

/* The cluster of a command line. Facts that it lacks come from the finished run: the
 * number of nodes (`nodes`, if the run has only one) and the ranks per node. [out] *out
 * owned by the caller (weft_cluster_destroy). */
weft_status cluster_of_args(weft_ctx *ctx, const args *a, const weft_config *run,
                            int64_t nodes, weft_cluster **out) WEFT_CHECKED;

/* The cluster that the threads of this process form: the run's mesh on this machine, with
 * the links of the run. [out] as above. */
weft_status cluster_here(weft_ctx *ctx, const weft_config *run,
                         weft_cluster **out) WEFT_CHECKED;
