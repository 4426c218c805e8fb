/* SPDX-License-Identifier: MIT */
#ifndef WEFT_DOCTOR_H
#define WEFT_DOCTOR_H

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds what is wrong with a machine, or with a group of machines, before a run suffers from
 * it (docs/launching.md). Facts are collected on each rank, brought together, and judged by
 * a function of the facts alone:
 *
 *     weft_doctor_examine (each rank) -> all ranks' facts -> weft_doctor_judge -> findings */

enum { WEFT_DOCTOR_CPU_WORDS = 16, WEFT_DOCTOR_PEERS = 64 };

/** What one rank knows about its process and machine: numbers and texts of fixed size, so
 * that ranks can send them to each other. A number that the system does not tell is -1, a
 * text "". */
typedef struct weft_rank_facts {
    size_t struct_size;
    /** the process */
    int64_t rank, size;     /* as the launcher says; without one: 0 of 1 */
    int64_t ranks_here;     /* processes of this run on this machine; 1 without a
                               launcher */
    int64_t process_ranks;  /* ranks that are threads of this process */
    char launcher[16];      /* "openmpi", "mpich", "slurm" or "" */
    char version[32];       /* of weft */
    char mpi[96], blas[96]; /* versions that the linked libraries report */
    char blas_core[32];     /* kernels that OpenBLAS chose */
    uint64_t program_hash, library_hash;
    /** the machine */
    char host[64], system[96], processor[96];
    int64_t instructions;         /* 0 base, 1 AVX, 2 AVX2, 3 AVX-512, 4 and AMX */
    int64_t cores, cores_allowed; /* online; allowed to this process */
    uint64_t cpus[WEFT_DOCTOR_CPU_WORDS];         /* the latter as a set of bits */
    int64_t memory_nodes;                         /* NUMA nodes that have cores */
    double cpu_quota;                             /* cores, of the control group */
    double load;                                  /* mean of the last minute */
    char governor[24];                            /* of the processor's frequency */
    int64_t memory_bytes, memory_available_bytes; /* without the limit of a control
                                                     group */
    int64_t memory_limit_bytes, memory_limit_used_bytes; /* of the control group */
    int64_t swap_bytes, swap_used_bytes;
    int64_t clock_synchronized;                  /* 0, 1 */
    double clock_error_s;                        /* the system's own estimate */
    double clock_offset_s, clock_offset_error_s; /* relative to the first rank, by
                                                    messages */
    /** the network */
    int64_t host_resolves; /* 0 not at all, 1 to loopback only, 2 to an own address,
                              3 to an address that no interface has */
    char host_address[48]; /* what it resolves to */
    char interfaces[256];  /* "eth0 10.0.0.1 mtu 1500, ..." without loopback */
    int64_t n_interfaces;  /* that are up and have an IPv4 address */
    char interface[16], address[48]; /* the one that reaches the others */
    int64_t mtu, speed_Mbit;
    /** variables of the environment; "" if not set */
    char openblas_coretype[32], openblas_l2[32], openblas_threads[16], omp_threads[16],
        omp_bind[16];
    char ucx_tls[64], mca_btl[64], mca_interface[64], mca[128];
    /** the run; not filled in without a configuration */
    int64_t has_run;
    uint64_t config_hash;                   /* of the resolved configuration */
    int64_t nodes, ranks_per_node, threads; /* keys of mesh; threads 0 = decided later */
    int64_t memory_needed_bytes;            /* by this process */
    int64_t data_files, data_bytes, data_missing;
    uint64_t data_hash;    /* sizes and heads of the text files */
    char data_path[128];   /* the first one, or the first that is missing */
    char folder[128];      /* the nearest existing parent of run.folder */
    char folder_type[16];  /* type of its file system */
    int64_t folder_shared; /* whether several machines can share that type; 0, 1 */
    int64_t folder_error;  /* errno of writing there; 0 = allowed */
    int64_t disk_free_bytes, disk_needed_bytes;
    uint64_t machine; /* weft_mesh_machine: equal numbers are one machine; 0: not known */
    int64_t send_buffer,
        receive_buffer;  /* most bytes that a TCP connection gets by itself:
                                            net.ipv4.tcp_wmem, tcp_rmem */
    char congestion[16]; /* net.ipv4.tcp_congestion_control */
    char chosen[80];     /* why `interface` is the one: "the route to node2" */
    char
        calls[128]; /* a letter for each rank, over weft's own transport: '+' this one can
                            call it where it listens, '-' it cannot, '=' the same machine,
                            '?' not tried; "": not known */
} weft_rank_facts;

/** How another machine can be reached from here. */
typedef enum weft_peer_answer {
    WEFT_PEER_CONNECTED,   /* a process listens on the port */
    WEFT_PEER_REFUSED,     /* the machine answers; no process listens */
    WEFT_PEER_SILENT,      /* no answer in time */
    WEFT_PEER_UNREACHABLE, /* the system has no route */
    WEFT_PEER_UNKNOWN      /* the name has no address */
} weft_peer_answer;

/** What calling another process gave. */
typedef struct weft_peer_facts {
    size_t struct_size;
    char name[128], address[48];
    weft_peer_answer answer;
    char error[96];                 /* the system's error message */
    char interface[16], source[48]; /* where packets leave this machine */
    int64_t mtu, path_mtu;
    int64_t loopback; /* the name resolves to this machine's loopback */
    int64_t port;
    double round_trip_s; /* of opening a connection, the best of three */
} weft_peer_facts;

/** What a finding means for the run. */
typedef enum weft_severity {
    WEFT_FINDING_OK,      /* checked, nothing wrong */
    WEFT_FINDING_NOTE,    /* good to know */
    WEFT_FINDING_WARNING, /* the run works, but slowly, or may break */
    WEFT_FINDING_ERROR    /* the run will not start, or its result is wrong */
} weft_severity;

/** One thing that was examined, and what follows. */
typedef struct weft_finding {
    weft_severity severity;
    char topic[16];   /* "clock", "cores", ... (docs/launching.md) */
    int64_t rank;     /* the first rank that it is about, or -1: all */
    char text[384];   /* one sentence: what was found */
    char advice[384]; /* what to do about it, or "" */
} weft_finding;

/** All findings of an examination, in the order of the questions. */
typedef struct weft_findings {
    size_t struct_size;
    weft_finding *items; /* worst first; equal severities in the order of the checks */
    int64_t n;
} weft_findings;

/** What is examined, and how long. */
typedef struct weft_doctor_options {
    size_t struct_size;
    weft_mesh *mesh;                /* processes started together; NULL: one process */
    weft_config *config;            /* finished; NULL: there is no run */
    const char *const *environment; /* "NAME=value" lines, NULL-terminated; NULL: empty */
    const char *root;               /* prefix of /proc, /sys and /etc; NULL or "" =
                                       none */
    const char *toward;             /* a host reached the same way as the others; or
                                       NULL */
} weft_doctor_options;

/** Collects this process's facts. A fact that can not be found out stays unknown; that is
 * not a failure. Not collective. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_doctor_examine(weft_ctx *ctx,
                                         const weft_doctor_options *options,
                                         weft_rank_facts *out) WEFT_CHECKED;

/** Resolves the host and opens connections to its port, for at most timeout_s in all. An
 * unreachable host is a fact, not a failure. */
WEFT_API weft_status weft_doctor_reach(weft_ctx *ctx, const char *host, int port,
                                       double timeout_s,
                                       weft_peer_facts *out) WEFT_CHECKED;

/** Collects the facts of all processes of a mesh on every rank, and compares their clocks;
 * `mine` gets the result for this rank. [out] all[ranks] in rank order; without a mesh it
 * is a copy of `mine`. Collective. Errors: PEER, WIRE. */
WEFT_API weft_status weft_doctor_gather(weft_ctx *ctx, weft_mesh *mesh,
                                        weft_rank_facts *mine,
                                        weft_rank_facts *all) WEFT_CHECKED;

/** Judges the facts of all ranks [n_ranks] in rank order and of the peers [n_peers]: a
 * pure function. [out] out->items owned by the caller (weft_findings_clear). */
WEFT_API weft_status weft_doctor_judge(weft_ctx *ctx, const weft_rank_facts *ranks,
                                       int64_t n_ranks, const weft_peer_facts *peers,
                                       int64_t n_peers, weft_findings *out) WEFT_CHECKED;
WEFT_API void weft_findings_clear(weft_ctx *ctx, weft_findings *findings);

/** One sentence about environment variables that slow down the matrix products, or "". `weft
 * train` prints it before it starts. Returns out. */
WEFT_API const char *weft_doctor_blas_trap(const char *const *environment, char *out,
                                           size_t out_size);

/** "ok", "note", "warning", "error"; never NULL. */
WEFT_API const char *weft_severity_name(weft_severity severity);

/** Facts as JSON, one object; [out] *text owned by the caller (weft_free). */
WEFT_API weft_status weft_doctor_facts_json(weft_ctx *ctx, const weft_rank_facts *facts,
                                            char **text) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
