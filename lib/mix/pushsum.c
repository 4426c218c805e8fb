/* SPDX-License-Identifier: MIT */
/* Push-sum (Kempe, Dobra, Gehrke 2003; for training, arXiv 1811.10792), for schedules
 * whose columns add up to one but whose rows do not. x is the mass that moves, w its
 * weight, and z = x / w is what is trained:
 *
 *     x_i(t+1) = sum_j P_ij x_j(t)     w_i(t+1) = sum_j P_ij w_j(t)     w(0) = 1
 *     z_i(t+1) = sum_j r_ij z_j(t)     r_ij = P_ij w_j(t) / w_i(t+1)
 *
 * w follows from the schedule alone, so every rank computes it for all ranks, and what is
 * sent is z, as in plain gossip. sum_i w_i z_i is preserved, because it is sum_i x_i; the
 * r_ij add up to one over j, so z stays within its former values. P = (1 - gamma) I +
 * gamma W. A mean of all leaves w = 1 where gamma is 1.
 *
 * A learner g (comm.h) has no weight, and what others would give it they keep: P_gj is added
 * to P_jj. So sum w_i z_i over those that take part is preserved without it, while z_g is the
 * mean of what it hears. When it takes part it brings w_g = 1 with its z_g:
 *
 *     sum w_i z_i  grows by z_g      its mean moves by 1 / sum w_i of the distance to z_g
 *
 * With a member that is lost w_i z_i of it is lost, and the others begin a new world with
 * w = 1: what is preserved from then on is the plain mean of their z. */
#include "mix/pushsum.h"

#include <string.h>

#include "base/assert.h"
#include "base/memory.h"

weft_status wefti_pushsum_init(wefti_mixer *m, wefti_pushsum *self) {
    int R = m->comm->size;
    self->step = -1;
    if (!m->weights) return WEFT_OK;
    WEFT_TRY(weft_neighbours_create(m->ctx, m->config.everybody, &self->room));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->row));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->kept));
    return wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->next);
}

void wefti_pushsum_fini(wefti_mixer *m, wefti_pushsum *self) {
    weft_neighbours_destroy(m->ctx, self->room);
    WEFTI_FREE(m->ctx, self->row, self->kept, self->next);
}

/* P_ij w_j for source k of the member whose neighbours are in `room`; of a learner nothing. */
static double share_of(const wefti_mixer *m, const wefti_pushsum *self, double gamma,
                       int k) {
    const weft_neighbours *room = self->room;
    int source = room->sources[k];
    double p = gamma * room->weights[k];
    if (k == room->self) p += 1 - gamma + self->kept[source];
    return wefti_gossip_is_learner(m, source, self->step) ? 0 : p * m->weights[source];
}

/* kept[j] <- sum over the learners g of P_gj: what j does not give. */
static void keep_from_learners(const wefti_mixer *m, wefti_pushsum *self, double gamma) {
    int R = m->comm->size;
    memset(self->kept, 0, (size_t)R * sizeof *self->kept);
    for (int i = R - m->comm->n_learners; i < R; i++) {
        if (!wefti_gossip_is_learner(m, i, self->step)) continue;
        wefti_gossip_look_up(m, i, self->step, self->room);
        for (int k = 0; k < self->room->n_sources; k++)
            self->kept[self->room->sources[k]] += gamma * self->room->weights[k];
    }
}

/* The weight of member i after the round; row: the shares of its sources, or NULL. */
static double weight_of(const wefti_mixer *m, wefti_pushsum *self, double gamma, int i,
                        double *row) {
    double sum = 0;
    wefti_gossip_look_up(m, i, self->step, self->room);
    int n = self->room->n_sources;
    for (int k = 0; k < n; k++) sum += share_of(m, self, gamma, k);
    for (int k = 0; k < n && row; k++) {
        double all = k == self->room->self; /* of a learner that hears nobody */
        row[k] = sum > 0 ? share_of(m, self, gamma, k) / sum : all;
    }
    return wefti_gossip_is_learner(m, i, self->step) ? 1
                                                     : sum; /* from its first round on */
}

const double *wefti_pushsum_row(wefti_mixer *m, wefti_pushsum *self, int64_t step) {
    int R = m->comm->size, me = m->comm->rank;
    WEFTI_ASSERT(self->step <= step);
    if (self->step == step) return self->row;
    double gamma = wefti_mixer_gamma(&m->config, step);
    self->step = step;
    keep_from_learners(m, self, gamma);
    for (int i = 0; i < R; i++)
        self->next[i] = weight_of(m, self, gamma, i, i == me ? self->row : NULL);
    memcpy(m->weights, self->next, (size_t)R * sizeof(double));
    return self->row;
}
