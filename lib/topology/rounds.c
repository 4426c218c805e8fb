/* SPDX-License-Identifier: MIT */
/* Pairs of nodes, round by round: the form in which the topology `measured` stores its
 * period. */
#include "topology/rounds.h"

#include <math.h>

#include "base/memory.h"

void wefti_rounds_fini(weft_ctx *ctx, wefti_rounds *rounds) {
    wefti_free(ctx, rounds->pairs);
    *rounds = (wefti_rounds){.N = rounds->N};
}

weft_status wefti_rounds_add(weft_ctx *ctx, const double *cost_s, const int *partners,
                             wefti_rounds *rounds) {
    int N = rounds->N;
    int64_t n = rounds->n * N;
    double slowest_s = 0;
    WEFT_TRY(wefti_grow(ctx, &rounds->pairs, n, n + N, sizeof(wefti_fold_pair),
                        "the schedule"));
    for (int node = 0; node < N; node++) {
        rounds->pairs[n + node] = (wefti_fold_pair){partners[node], 0.5};
        if (partners[node] >= 0)
            slowest_s = fmax(slowest_s, cost_s[(int64_t)node * N + partners[node]]);
    }
    rounds->n++;
    rounds->seconds += slowest_s;
    return WEFT_OK;
}
