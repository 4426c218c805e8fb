/* SPDX-License-Identifier: MIT */
/* The rate of the slowest connection to another machine, which determines over how many
 * steps a joining process gets its state.
 *
 *     TCP_INFO of each connection, five times a second -> the slowest one -> median of 3 s
 *
 * A single sample misleads: right after a burst that fitted into buffers it is several
 * times too high, and while nothing is sent it is old. A slice of the state that is then
 * four times too long delays every step until the learner has its state. */
#include "mesh/elastic.h"

#include <string.h>

#include "base/stats.h"

/* The minimum over all connections that have carried data, because one of them may have
 * been measured by a burst that only filled buffers. */
static double slowest(const weft_mesh *mesh) {
    const weft_transport *t = mesh->transport;
    double least = 0;
    for (int r = 0; r < mesh->elastic->size && t->ops->rate; r++) {
        if (r == mesh->rank || mesh->peers[r].lost || mesh->peers[r].here) continue;
        double rate = t->ops->rate(t, mesh->places.peer_of[r]);
        if (rate > 0 && (least == 0 || rate < least)) least = rate;
    }
    return least;
}

void wefti_elastic_watch_rate(wefti_elastic_rates *rates, const weft_mesh *mesh,
                              double now_s) {
    static const double every_s = 0.2;
    if (now_s - rates->looked_s < every_s) return;
    rates->looked_s = now_s;
    double rate_Bps = slowest(mesh);
    if (rate_Bps > 0) rates->Bps[rates->n++ % WEFTI_RATES] = rate_Bps;
}

double wefti_elastic_usual_rate(const wefti_elastic_rates *rates) {
    double sorted[WEFTI_RATES];
    int n = rates->n < WEFTI_RATES ? (int)rates->n : WEFTI_RATES;
    memcpy(sorted, rates->Bps, sizeof sorted);
    return n > 0 ? wefti_median(sorted, n) : 0;
}
