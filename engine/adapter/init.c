/* SPDX-License-Identifier: MIT */
/* Initial values. Element i of a parameter is half of a Box-Muller pair: with (r0, r1)
 * the counter-based pair number i/2 of (seed, parameter number), rho = sqrt(-2 ln u(r0)),
 * z[2j] = rho cos(2 pi v(r1)),  z[2j+1] = rho sin(2 pi v(r1)). Elements are numbered row
 * by row, so a value depends on no sharding and no thread count. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "adapter/adapted.h"

static void normal_pair(uint64_t seed, uint64_t number, int64_t j, double z[2]) {
    uint64_t r[2];
    wefti_rng_pair(seed, WEFTI_STREAM_INIT, number, (uint64_t)j, r);
    double u = ((double)(r[0] >> 11) + 0.5) * 0x1p-53;
    double angle = 6.283185307179586 * ((double)(r[1] >> 11) * 0x1p-53);
    double rho = sqrt(-2.0 * log(u));
    z[0] = rho * cos(angle);
    z[1] = rho * sin(angle);
}

static void fill_normal(const wefti_param *p, uint64_t seed, uint64_t number,
                        int64_t begin, int64_t end, float *out) {
    double mean = (double)p->init_mean, std = (double)p->init_std;
    int64_t first = begin / 2, past = (end + 1) / 2;
#pragma omp parallel for schedule(static)
    for (int64_t j = first; j < past; j++) {
        double z[2];
        normal_pair(seed, number, j, z);
        if (2 * j >= begin) out[2 * j - begin] = (float)(mean + std * z[0]);
        if (2 * j + 1 < end) out[2 * j + 1 - begin] = (float)(mean + std * z[1]);
    }
}

void wefti_model_init_rows(const weft_model *model, uint64_t seed, int unit, int param,
                           int64_t row_begin, int64_t n_rows, float *out) {
    const wefti_param *p = &model->units[unit].params[param];
    uint64_t number = (uint64_t)(p - model->params);
    int64_t begin = row_begin * p->cols, end = begin + n_rows * p->cols;
    const float *saved = wefti_model_saved_values(model, unit, param);
    if (saved) { /* a module trained in full beside adapters starts with the base's values */
        memcpy(out, saved + begin, (size_t)(end - begin) * sizeof *out);
        return;
    }
    if (p->init_std > 0) {
        fill_normal(p, seed, number, begin, end, out);
        return;
    }
    for (int64_t i = 0; i < end - begin; i++) out[i] = p->init_mean;
}
