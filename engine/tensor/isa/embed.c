/* SPDX-License-Identifier: MIT */
/* Embedding: rows are copied; the transpose adds rows in ascending order within each
 * column, and the columns are divided among the threads, so equal tokens never race. */
#include "kernels/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"

#include <stddef.h>

static void add_row(int64_t C, const float *a, const float *b, float *y) {
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES) store(y + c, load(a + c) + load(b + c));
    for (; c < C; c++) y[c] = a[c] + b[c];
}

void WEFT_ISA_NAME(wefti_embed_forward)(int64_t N, int64_t T, int64_t C,
                                        const int32_t *token, const float *table,
                                        const float *pos, float *y) {
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span rows = team_slice(N, 1, i, t);
        for (int64_t n = rows.begin; n < rows.end; n++) {
            const float *row = table + token[n] * C;
            if (pos == NULL)
                memcpy(y + n * C, row, (size_t)C * sizeof *y);
            else
                add_row(C, row, pos + n % T * C, y + n * C);
        }
    }
}

void WEFT_ISA_NAME(wefti_embed_backward)(int64_t N, int64_t T, int64_t C,
                                         const int32_t *token, const float *dy,
                                         float *dtable, float *dpos) {
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span c = team_slice(C, 16, i, t);
        for (int64_t n = 0; n < N; n++) {
            const float *from = dy + n * C + c.begin;
            float *to = dtable + token[n] * C + c.begin;
            add_row(c.end - c.begin, from, to, to);
            if (dpos == NULL) continue;
            to = dpos + n % T * C + c.begin;
            add_row(c.end - c.begin, from, to, to);
        }
    }
}
