/* SPDX-License-Identifier: MIT */
/* The messages in the two rounds of a gossip exchange, for each step of a topology's
 * period, as flat lists for the array player; none for a step without a gossip round:
 *
 *     round 0: parameters to the partners of the step; round 1: the means of three and more */
#include "simulate/partners.h"

#include "base/memory.h"
#include "mix/gossip_rounds.h"

enum { MOST_LISTED = 1 << 26, MANY_MEMBERS = 1024, SAMPLE = 64, SMALL_SAMPLE = 4 };

/* A message of the first round. */
typedef struct letter {
    int from, to, place;
} letter;

typedef struct letters {
    letter *items;
    int64_t n, room;
} letters;

static weft_status make_empty(wefti_partner_lists *m, int R, wefti_partner_list *out) {
    WEFT_TRY(wefti_alloc_n(m->ctx, R + 1, sizeof(int), "partner lists", &out->first));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(bool), "partner lists", &out->two));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(int), "partner lists", &out->n_sent));
    return wefti_alloc_n(m->ctx, R, sizeof(int), "partner lists", &out->n_wire);
}

static void free_list(wefti_partner_lists *m, wefti_partner_list *list) {
    WEFTI_FREE(m->ctx, list->first, list->two, list->n_sent, list->n_wire, list->heard);
}

weft_status wefti_partner_lists_create(weft_ctx *ctx, const wefti_job *job,
                                       wefti_partner_lists **out) {
    wefti_partner_lists *m;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "partner lists", &m));
    m->ctx = ctx;
    m->everybody.all = true;
    weft_status status = job->gossip.topology ? make_empty(m, job->R, &m->nobody)
                                              : WEFT_OK;
    if (status == WEFT_OK && job->gossip.topology) {
        m->period = weft_topology_describe(job->gossip.topology)->period;
        if (m->period == 0) m->period = job->R > MANY_MEMBERS ? SMALL_SAMPLE : SAMPLE;
        status = wefti_alloc_n(ctx, m->period, sizeof *m->plans, "partner lists",
                               &m->plans);
        if (status == WEFT_OK)
            status = wefti_alloc_n(ctx, m->period, sizeof *m->known, "partner lists",
                                   &m->known);
        if (status == WEFT_OK)
            status = weft_neighbours_create(ctx, job->gossip.everybody, &m->room);
    }
    *out = m;
    if (status == WEFT_OK) return WEFT_OK;
    wefti_partner_lists_destroy(ctx, m);
    *out = NULL;
    return status;
}

void wefti_partner_lists_destroy(weft_ctx *ctx, wefti_partner_lists *m) {
    if (!m) return;
    for (int64_t i = 0; m->plans && i < m->period; i++) free_list(m, &m->plans[i]);
    free_list(m, &m->nobody);
    WEFTI_FREE(ctx, m->plans, m->known);
    weft_neighbours_destroy(ctx, m->room);
    wefti_free(ctx, m);
}

static weft_status add_letter(wefti_partner_lists *m, letters *all, letter l) {
    WEFT_TRY(wefti_reserve(m->ctx, &all->items, &all->room, all->n, 1, sizeof l,
                           "partner lists"));
    all->items[all->n++] = l;
    if (++m->n_listed <= MOST_LISTED) return WEFT_OK;
    return weft_ctx_fail(m->ctx, WEFT_ERR_CONFIG,
                         "the topology has more than %d messages in a period, expected "
                         "fewer nodes or a sparser one",
                         (int)MOST_LISTED);
}

static bool in_two_rounds(const wefti_job *job, const weft_neighbours *list) {
    const wefti_mixer_ops *ops = wefti_mixer_find(job->mixer_config.kind);
    return ops->two_rounds && ops->two_rounds(&job->mixer_config, list);
}

/* Lists the messages of member i in the first round, in the order of sending. */
static weft_status list_member(wefti_partner_lists *m, const wefti_job *job, int i,
                               int64_t step, wefti_partner_list *out, letters *all) {
    const weft_neighbours *list = m->room;
    weft_topology_neighbours(job->gossip.topology, i, step, m->room);
    out->two[i] = in_two_rounds(job, list);
    const int *others = out->two[i] ? list->sources : list->targets;
    int n = out->two[i] ? list->n_sources : list->n_targets;
    int first = wefti_gossip_first(others, n, i);
    for (int k = 0; k < n; k++) {
        int to = others[(first + k) % n];
        if (to == i) continue;
        WEFT_TRY(add_letter(m, all, (letter){i, to, out->n_wire[i]}));
        out->n_sent[i]++;
        out->n_wire[i] += to / job->copies != i / job->copies;
    }
    return WEFT_OK;
}

/* Sorts the messages by receiver; sources are in ascending order, as in `all`. */
static weft_status sort_letters(wefti_partner_lists *m, int R, const letters *all,
                                wefti_partner_list *out) {
    WEFT_TRY(
        wefti_alloc_n(m->ctx, all->n, sizeof *out->heard, "partner lists", &out->heard));
    for (int64_t k = 0; k < all->n; k++) out->first[all->items[k].to + 1]++;
    for (int i = 0; i < R; i++) out->first[i + 1] += out->first[i];
    for (int64_t k = 0; k < all->n; k++) {
        const letter *l = &all->items[k];
        out->heard[out->first[l->to]++] = (wefti_heard){l->from, l->place};
    }
    for (int i = R; i > 0; i--) out->first[i] = out->first[i - 1];
    out->first[0] = 0;
    return WEFT_OK;
}

static weft_status fill(wefti_partner_lists *m, const wefti_job *job, int64_t step,
                        wefti_partner_list *out) {
    letters all = {NULL, 0, 0};
    int R = job->R;
    WEFT_TRY(make_empty(m, R, out));
    weft_topology_neighbours(job->gossip.topology, 0, step, m->room);
    out->all = m->room->n_sources == R && R > 2 && in_two_rounds(job, m->room);
    if (out->all) return WEFT_OK;
    weft_status status = WEFT_OK;
    for (int i = 0; i < R && status == WEFT_OK; i++)
        status = list_member(m, job, i, step, out, &all);
    if (status == WEFT_OK) status = sort_letters(m, R, &all, out);
    wefti_free(m->ctx, all.items);
    return status;
}

weft_status wefti_partner_lists_look_up(wefti_partner_lists *m, const wefti_job *job,
                                        int64_t step, const wefti_partner_list **out) {
    *out = &m->everybody;
    if (!job->gossip.topology || wefti_mixer_average_is_due(&job->mixer_config, step))
        return WEFT_OK;
    int64_t round = wefti_mixer_round(&job->mixer_config, step);
    *out = &m->nobody;
    if (round < 0) return WEFT_OK;
    int64_t at = round % m->period;
    if (!m->known[at]) WEFT_TRY(fill(m, job, at, &m->plans[at]));
    m->known[at] = true;
    *out = &m->plans[at];
    return WEFT_OK;
}
