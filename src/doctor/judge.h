/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/doctor.h>

/* What is being judged, and what was found so far. */
typedef struct wefti_judge {
    weft_ctx *ctx;
    const weft_rank_facts *ranks;
    const weft_peer_facts *peers;
    int64_t n_ranks, n_peers;
    int64_t n_hosts; /* different names among the ranks */
    bool several;    /* machines: hosts, or peers were named */
    weft_findings *out;
    weft_status status; /* of finding room; the first failure stays */
} wefti_judge;

/* Adds a finding about `rank` (-1: all). `advice` may be NULL. */
void wefti_find(wefti_judge *j, weft_severity severity, const char *topic, int64_t rank,
                const char *advice, const char *format, ...) WEFT_PRINTF(6, 7);

/* "this machine" if there is one host, else the host's name. */
const char *wefti_place(const wefti_judge *j, int64_t rank);

/* Whether no rank before it is on the same host: machine-wide facts are judged once. */
bool wefti_first_of_host(const wefti_judge *j, int64_t rank);
bool wefti_same_host(const wefti_judge *j, int64_t a, int64_t b);

/* weft_doctor_blas_trap, from the facts. */
const char *wefti_blas_trap(const weft_rank_facts *facts, char *out, size_t out_size);

/* The checks, each about its own part of the facts. */
void wefti_judge_software(wefti_judge *j);
void wefti_judge_environment(wefti_judge *j);
void wefti_judge_cores(wefti_judge *j);
void wefti_judge_machine(wefti_judge *j);
void wefti_judge_network(wefti_judge *j);
void wefti_judge_run(wefti_judge *j);
