/* SPDX-License-Identifier: MIT */
/* A machine that computes wrongly (cli/faults, cli/audit), or slower from some step on
 * (cli/measured, bench/unequal): linked in front of wefti_rank_pace, which the program calls
 * after each backward pass of a unit.
 *
 *     WEFT_FAULTY="gradient 17"     one number of block 1's gradient in step 17 is NaN
 *     WEFT_FAULTY="loss 17"         the loss and all gradients
 *     WEFT_FAULTY="parameters 17"   one bit of block 1's parameters changes
 *     WEFT_FAULTY="bit 17"          one bit of a number of block 1's gradient changes
 *     WEFT_FAULTY="gradient 17-"    in every step from 17 on
 *     WEFT_FAULTY="slower 1- 2.5 17- 4"  takes 2.5 times mesh.compute_time, then 4 times */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rank/rank.h"

void __real_wefti_rank_pace(wefti_rank *r, double share);
void __wrap_wefti_rank_pace(wefti_rank *r, double share);

enum { UNIT = 2 }; /* block 1 */

static void spoil(wefti_rank *r, const char *what) {
    const wefti_arrangement *a = r->arrangement;
    if (strcmp(what, "loss") == 0) {
        r->now.status.loss_sum = NAN;
        atomic_store(&r->now.lost_loss, true);
        for (int64_t i = 0; i < a->n_elements; i++) r->grads[i] = NAN;
        return;
    }
    float *grads = r->job->S > 1 ? r->passes.gradients.buffer[0]
                                 : r->grads + a->unit_offset[UNIT];
    uint32_t bits;
    memcpy(&bits, &grads[3], sizeof bits);
    bits ^= 1u << 22; /* a quarter to a half of it */
    if (strcmp(what, "bit") == 0) memcpy(&grads[3], &bits, sizeof bits);
    if (strcmp(what, "gradient") == 0) grads[3] = NAN;
    if (strcmp(what, "parameters") == 0) r->params[a->unit_offset[UNIT] + 3] += 0.5f;
}

static double slowness(const char *text, int64_t step) {
    long long from;
    double times, now = 1;
    int n = 0;
    for (text = strchr(text, ' ');
         text && sscanf(text, " %lld- %lf%n", &from, &times, &n) == 2; text += n)
        if (step >= from) now = times;
    return now;
}

/* The units' backward passes of a step are counted, from the last unit on. */
void __wrap_wefti_rank_pace(wefti_rank *r, double share) {
    static _Thread_local int64_t step = -1;
    static _Thread_local int passes;
    char what[16] = "", on = 0;
    long long first = -1;
    const char *text = getenv("WEFT_FAULTY");
    int n = text ? sscanf(text, "%15s %lld%c", what, &first, &on) : 0;
    passes = r->step == step ? passes + 1 : 0;
    step = r->step;
    bool due = n >= 2 && (r->step + 1 == first || (n >= 3 && r->step + 1 > first));
    int unit = r->arrangement->n_units - 1 - passes;
    bool all = strcmp(what, "loss") == 0;
    if (due && (all || unit == UNIT)) spoil(r, what);
    const wefti_job *whole = r->job;
    wefti_job job = *whole;
    weft_config slower = *whole->config;
    slower.mesh.compute_time *= strcmp(what, "slower") == 0 ? slowness(text, r->step + 1)
                                                            : 1;
    job.config = &slower;
    r->job = &job;
    __real_wefti_rank_pace(r, share);
    r->job = whole;
}
