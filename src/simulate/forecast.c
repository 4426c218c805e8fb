/* SPDX-License-Identifier: MIT */
/* What predictions by events, by arrays and of long runs share: after how many steps a
 * method's exchanges repeat, and quantiles. */
#include "simulate/forecast.h"

#include <stdlib.h>

enum { MOST_STEPS = 4096 };

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t wefti_forecast_cycle(const wefti_job *job) {
    const wefti_mixer_config *m = &job->mixer_config;
    int64_t period = job->topology ? weft_topology_describe(job->topology).period : 1;
    int64_t parts[] = {job->replicator_config.every,
                       job->sites > 1 ? job->site_replicator_config.every : 1,
                       wefti_mixer_period(m), period > 0 ? period : 1,
                       job->topology && m->average_every > 0 ? m->average_every : 1};
    int64_t cycle = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t more = parts[i] / gcd(cycle, parts[i]);
        if (more > MOST_STEPS / cycle) return MOST_STEPS;
        cycle *= more;
    }
    return cycle;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

weft_quantiles wefti_forecast_quantiles(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    double at[] = {0.05, 0.5, 0.95}, q[3];
    for (int i = 0; i < 3; i++) {
        double place = at[i] * (double)(n - 1);
        int64_t low = (int64_t)place;
        double high = values[low + 1 < n ? low + 1 : low];
        q[i] = values[low] + (place - (double)low) * (high - values[low]);
    }
    return (weft_quantiles){q[0], q[1], q[2]};
}
