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
 * gamma W. A mean of all leaves w = 1 where gamma is 1. */
#include "mix/pushsum.h"

#include <string.h>

#include "base/memory.h"

weft_status wefti_pushsum_init(wefti_mixer *m, wefti_pushsum *self) {
    int R = m->comm->size;
    self->step = -1;
    if (!m->weights) return WEFT_OK;
    WEFT_TRY(weft_neighbours_create(m->ctx, m->config.everybody, &self->room));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->row));
    return wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->next);
}

void wefti_pushsum_fini(wefti_mixer *m, wefti_pushsum *self) {
    weft_neighbours_destroy(m->ctx, self->room);
    WEFTI_FREE(m->ctx, self->row, self->next);
}

/* P_ij w_j for source k of the member whose neighbours are in `room`. */
static double share_of(const wefti_mixer *m, const weft_neighbours *room, double gamma,
                       int k) {
    double p = gamma * room->weights[k];
    if (k == room->self) p += 1 - gamma;
    return p * m->weights[room->sources[k]];
}

const double *wefti_pushsum_row(wefti_mixer *m, wefti_pushsum *self, int64_t step) {
    int R = m->comm->size, me = m->comm->rank;
    if (self->step == step) return self->row;
    double gamma = wefti_mixer_gamma(&m->config, step);
    self->step = step;
    for (int i = 0; i < R; i++) {
        wefti_gossip_look_up(m, i, step, self->room);
        self->next[i] = 0;
        for (int k = 0; k < self->room->n_sources; k++)
            self->next[i] += share_of(m, self->room, gamma, k);
        for (int k = 0; k < self->room->n_sources && i == me; k++)
            self->row[k] = share_of(m, self->room, gamma, k) / self->next[i];
    }
    memcpy(m->weights, self->next, (size_t)R * sizeof(double));
    return self->row;
}
