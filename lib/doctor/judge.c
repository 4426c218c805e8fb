/* SPDX-License-Identifier: MIT */
/* From facts to findings: each judge_<topic>.c examines one topic; shared functions are
 * in findings.c.
 *
 *     collect.c    facts of this rank           examine.c   facts about named peers
 *                        |                                |
 *                  gathered from all ranks (fact_fields.h)
 *                        v                                v
 *     judge.c      software, environment, cores, machine, network, run
 *                        v
 *     findings     ok, note, warning, error; each with its topic, rank, sentence and advice
 *
 * Judging reads only facts, not the machine, so that tests can describe any cluster, and
 * every finding has a test. The severity tells how serious a finding is: an error
 * prevents a run from starting or makes its result wrong, a warning makes it slow, a note
 * is worth knowing. On a single machine many findings about the network are notes that
 * would be errors between several. Findings are sorted by severity, the worst first. */
#include "base/sized.h"
#include "doctor/judge.h"

#include "base/memory.h"

const char *weft_severity_name(weft_severity severity) {
    switch (severity) {
    case WEFT_FINDING_OK: return "ok";
    case WEFT_FINDING_NOTE: return "note";
    case WEFT_FINDING_WARNING: return "warning";
    case WEFT_FINDING_ERROR: break;
    }
    return "error";
}

/* Sorts the worst first; insertion sort keeps the order of equal ones. */
static void sort(weft_findings *f) {
    for (int64_t i = 1; i < f->n; i++) {
        weft_finding moving = f->items[i];
        int64_t k = i;
        for (; k > 0 && f->items[k - 1].severity < moving.severity; k--)
            f->items[k] = f->items[k - 1];
        f->items[k] = moving;
    }
}

static weft_status judge(wefti_judge *judging) {
    wefti_judge j = *judging;
    weft_ctx *ctx = j.ctx;
    weft_findings *out = j.out;
    int64_t n_ranks = j.n_ranks, n_peers = j.n_peers;
    if (n_ranks < 1 || n_peers < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "facts of %lld ranks and %lld peers, expected at least one "
                             "rank",
                             (long long)n_ranks, (long long)n_peers);
    for (int64_t r = 0; r < n_ranks; r++) j.n_hosts += wefti_first_of_host(&j, r);
    j.several = j.n_hosts > 1 || n_peers > 0;
    wefti_judge_software(&j);
    wefti_judge_environment(&j);
    wefti_judge_cores(&j);
    wefti_judge_machine(&j);
    wefti_judge_network(&j);
    wefti_judge_run(&j);
    if (j.status == WEFT_OK)
        sort(out);
    else
        weft_findings_clear(ctx, out);
    return j.status;
}

weft_status weft_doctor_judge(weft_ctx *ctx, const weft_rank_facts *ranks,
                              int64_t n_ranks, const weft_peer_facts *peers,
                              int64_t n_peers, weft_findings *out) {
    weft_rank_facts *own_ranks;
    weft_peer_facts *own_peers = NULL;
    WEFTI_SIZED_OUT(ctx, weft_findings, out);
    *out = (weft_findings){.struct_size = sizeof *out};
    WEFT_TRY(wefti_sized_list_in(ctx, &wefti_sized_weft_rank_facts, ranks, n_ranks,
                                 &own_ranks));
    weft_status status = wefti_sized_list_in(ctx, &wefti_sized_weft_peer_facts, peers,
                                             n_peers, &own_peers);
    wefti_judge j = {.ctx = ctx,
                     .ranks = own_ranks,
                     .n_ranks = n_ranks,
                     .peers = own_peers,
                     .n_peers = n_peers,
                     .out = out};
    if (status == WEFT_OK) status = judge(&j);
    WEFTI_FREE(ctx, own_ranks, own_peers);
    return WEFTI_SIZED_GIVE(weft_findings, out, status);
}

void weft_findings_clear(weft_ctx *ctx, weft_findings *findings) {
    wefti_free(ctx, findings->items);
    wefti_sized_clear(findings);
}
