/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the probe: agreeing, gathering, recording.
 *
 * The number of measurements depends on how long one takes, which differs between ranks.
 * So ranks agree on the number (that of the slowest) before they run a collective
 * operation that many times. Every rank gathers all samples, so that all compute the same
 * figures and make the same decisions in the rest of the probe; rank 0 records them. */
#define _GNU_SOURCE
#include "probe/prober.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "cluster/facts.h"

weft_status wefti_prober_agree(wefti_prober *p, double *x) {
    double *all, most = *x;
    WEFT_TRY(wefti_alloc_n(p->ctx, p->comm->size, sizeof *all, "statuses", &all));
    weft_status status = wefti_comm_all_gather(p->comm, wefti_rank_control_tag(p->rank),
                                               x, (int64_t)sizeof *x, all);
    for (int r = 0; r < p->comm->size; r++)
        if (all[r] > most) most = all[r];
    wefti_free(p->ctx, all);
    *x = most;
    return status;
}

weft_status wefti_prober_rounds(wefti_prober *p, double round_s, double seconds,
                                int64_t least, int64_t most, int64_t *rounds) {
    double each = round_s > 0 && seconds > 0 ? round_s / seconds : 1;
    WEFT_TRY(wefti_prober_agree(p, &each));
    double n = 1 / each;
    *rounds = n > (double)most ? most : n < (double)least ? least : (int64_t)n;
    *rounds += *rounds % 2;
    return WEFT_OK;
}

int wefti_prober_turns(const wefti_prober *p) {
    int cores = wefti_machine_cores(), ranks = p->setup->machine_ranks;
    return cores < ranks ? (ranks + cores - 1) / cores : 1;
}

weft_status wefti_prober_in_turn(wefti_prober *p, weft_status (*act)(void *user),
                                 void *user) {
    int turns = wefti_prober_turns(p);
    for (int turn = 0; turn < turns; turn++) {
        WEFT_TRY(wefti_prober_meet(p));
        if (p->comm->rank % turns == turn) WEFT_TRY(act(user));
    }
    return wefti_prober_meet(p);
}

weft_status wefti_prober_meet(wefti_prober *p) {
    return wefti_comm_barrier(p->comm, wefti_rank_control_tag(p->rank));
}

weft_status wefti_prober_gather(wefti_prober *p, const double *mine, int64_t n,
                                wefti_samples *out) {
    WEFT_TRY(wefti_samples_init(p->ctx, p->comm->size, n, out));
    return wefti_comm_all_gather(p->comm, wefti_rank_control_tag(p->rank), mine,
                                 n * (int64_t)sizeof *mine, out->of);
}

weft_status wefti_prober_note(wefti_prober *p, const weft_probe_figure *figure) {
    weft_probe_result *result = p->result;
    if (!result) return WEFT_OK;
    WEFT_TRY(wefti_grow(p->setup->owner, &result->figures, result->n_figures,
                        result->n_figures + 1, sizeof *figure, "figures"));
    result->figures[result->n_figures++] = *figure;
    return WEFT_OK;
}

weft_status wefti_prober_note_samples(wefti_prober *p, const char *name, const char *unit,
                                      wefti_samples *s) {
    weft_probe_figure figure = {
        .value = wefti_samples_quantile(s, WEFTI_ALL, 0.5),
        .first = wefti_samples_quantile(s, WEFTI_FIRST_HALF, 0.5),
        .second = wefti_samples_quantile(s, WEFTI_SECOND_HALF, 0.5)};
    snprintf(figure.name, sizeof figure.name, "%s", name);
    snprintf(figure.unit, sizeof figure.unit, "%s", unit);
    return wefti_prober_note(p, &figure);
}

weft_status wefti_prober_append(wefti_prober *p, weft_cluster_list list,
                                const void *item) {
    if (!p->result) return WEFT_OK;
    weft_cluster *c = p->result->cluster;
    int64_t n = *wefti_facts_of(c, list).n;
    WEFT_TRY(weft_cluster_resize(p->setup->owner, c, list, n + 1));
    wefti_fact_items items = wefti_facts_of(c, list);
    memcpy((char *)*items.items + (size_t)n * items.size, item, items.size);
    return WEFT_OK;
}

/* --- all parts --- */
