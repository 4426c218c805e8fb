/* SPDX-License-Identifier: MIT */
/* Initial values. Element i of a parameter is half of a Box-Muller pair: with (r0, r1)
 * the counter-based pair number i/2 of (seed, parameter number), rho = sqrt(-2 ln u(r0)),
 * z[2j] = rho cos(2 pi v(r1)),  z[2j+1] = rho sin(2 pi v(r1)). Elements are numbered row
 * by row, so a value depends on no sharding and no thread count. Kernels compute most of them
 * (`normals`), with the same bits. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "adapter/adapted.h"

static float normal(const wefti_param *p, const wefti_rng_run *run, int64_t i) {
    uint64_t r[2];
    wefti_rng_pair(run->seed, run->stream, run->step, (uint64_t)i / 2, r);
    double u = ((double)(r[0] >> 11) + 0.5) * 0x1p-53;
    double angle = 6.283185307179586 * ((double)(r[1] >> 11) * 0x1p-53);
    double rho = sqrt(-2.0 * log(u)), z = rho * (i % 2 ? sin(angle) : cos(angle));
    return (float)((double)p->init_mean + (double)p->init_std * z);
}

static void fill_normal(const wefti_param *p, wefti_rng_run run, int64_t begin,
                        int64_t end, float *out) {
    enum { BLOCK = 4096 };
    const wefti_layers *layers = wefti_kernels_find(NULL)->layers;
#pragma omp parallel for schedule(static) firstprivate(run)
    for (int64_t at = begin; at < end; at += BLOCK) {
        float *to = out + (at - begin);
        run.first = (uint64_t)at;
        run.n = end - at < BLOCK ? end - at : BLOCK;
        layers->normals(&run, p->init_mean, p->init_std, to);
        for (int64_t i = 0; i < run.n; i++)
            if (isnan(to[i])) to[i] = normal(p, &run, at + i);
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
        wefti_rng_run run = {.seed = seed, .stream = WEFTI_STREAM_INIT, .step = number};
        fill_normal(p, run, begin, end, out);
        return;
    }
    for (int64_t i = 0; i < end - begin; i++) out[i] = p->init_mean;
}
