/* SPDX-License-Identifier: MIT */
/* Facts of ranks that have nothing wrong, to be spoilt one by one. */
#pragma once

#include "check.h"

#include <weft/doctor.h>

#define SET(field, text) snprintf(field, sizeof field, "%s", text)

/* Rank r of `size`, `per_host` on each of the hosts n0, n1, ...; 8 cores each. */
static inline weft_rank_facts healthy(int r, int size, int per_host) {
    int host = r / per_host;
    weft_rank_facts f = {.struct_size = sizeof f,
                         .rank = r,
                         .size = size,
                         .ranks_here = per_host,
                         .process_ranks = 1,
                         .program_hash = 11,
                         .library_hash = 12,
                         .instructions = 3,
                         .cores = 8,
                         .cores_allowed = 8,
                         .cpus = {0xff},
                         .cpu_quota = -1,
                         .load = 0.1,
                         .memory_bytes = 64000000000,
                         .memory_available_bytes = 60000000000,
                         .memory_limit_bytes = -1,
                         .memory_limit_used_bytes = -1,
                         .clock_synchronized = 1,
                         .clock_error_s = 1e-3,
                         .host_resolves = 2,
                         .n_interfaces = 1,
                         .mtu = 1500,
                         .speed_Mbit = 1000,
                         .has_run = 1,
                         .config_hash = 13,
                         .nodes = 2,
                         .ranks_per_node = 1,
                         .threads = 2,
                         .memory_needed_bytes = 1000000000,
                         .data_files = 1,
                         .data_bytes = 5000,
                         .data_hash = 14,
                         .folder_shared = 1,
                         .disk_free_bytes = 1000000000,
                         .disk_needed_bytes = 1000000};
    SET(f.version, "0.1.0");
    SET(f.mpi, "Open MPI v4.1.4");
    SET(f.blas, "OpenBLAS 0.3.21");
    SET(f.blas_core, "SkylakeX");
    SET(f.processor, "Test 9000");
    SET(f.system, "Linux 6.1");
    SET(f.interface, "eth0");
    SET(f.folder, "/shared");
    SET(f.folder_type, "nfs");
    snprintf(f.host, sizeof f.host, "n%d", host);
    snprintf(f.address, sizeof f.address, "10.0.0.%d", host + 1);
    SET(f.host_address, f.address);
    snprintf(f.interfaces, sizeof f.interfaces, "eth0 %s mtu 1500", f.address);
    return f;
}

/* The finding with these words in its text, or NULL. */
static inline const weft_finding *find(const weft_findings *all, const char *words) {
    for (int64_t i = 0; i < all->n; i++)
        if (strstr(all->items[i].text, words)) return &all->items[i];
    return NULL;
}

static inline int64_t count_of(const weft_findings *all, weft_severity severity) {
    int64_t n = 0;
    for (int64_t i = 0; i < all->n; i++) n += all->items[i].severity == severity;
    return n;
}

static inline void print_all(const weft_findings *all) {
    for (int64_t i = 0; i < all->n; i++)
        print_error("%s %s: %s\n", weft_severity_name(all->items[i].severity),
                    all->items[i].topic, all->items[i].text);
}
