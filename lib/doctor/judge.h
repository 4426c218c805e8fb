/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/doctor.h>

/* The facts to judge, and the findings so far. */
typedef struct wefti_judge {
    weft_ctx *ctx;
    const weft_rank_facts *ranks;
    const weft_peer_facts *peers;
    int64_t n_ranks, n_peers;
    int64_t n_hosts; /* different machines among the ranks */
    bool several;    /* several machines: different hosts, or peers were named */
    weft_findings *out;
    weft_status status; /* failure of allocating room for findings; the first is kept */
} wefti_judge;

/* Adds a finding about `rank` (-1: all). `advice` may be NULL. */
void wefti_find(wefti_judge *j, weft_severity severity, const char *topic, int64_t rank,
                const char *advice, const char *format, ...) WEFT_PRINTF(6, 7);

/* "this machine" if there is one host, else the host's name. */
const char *wefti_place(const wefti_judge *j, int64_t rank);

/* Whether the rank is the first of its host. Facts about the machine are judged only for
 * that rank. */
bool wefti_first_of_host(const wefti_judge *j, int64_t rank);
bool wefti_same_host(const wefti_judge *j, int64_t a, int64_t b);

/* weft_doctor_blas_trap, from the facts. */
const char *wefti_blas_trap(const weft_rank_facts *facts, char *out, size_t out_size);

/* The checks, each for its own part of the facts. */
void wefti_judge_software(wefti_judge *j);
void wefti_judge_environment(wefti_judge *j);
void wefti_judge_cores(wefti_judge *j);
void wefti_judge_machine(wefti_judge *j);
void wefti_judge_network(wefti_judge *j);
void wefti_judge_run(wefti_judge *j);
