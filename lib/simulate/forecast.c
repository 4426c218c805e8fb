/* SPDX-License-Identifier: MIT */
/* Shared by predictions with events, with arrays, and of long runs: the number of steps
 * after which a method's exchanges repeat, and quantiles. */
#include "simulate/forecast.h"

#include "base/stats.h"

enum { MOST_STEPS = 4096 };

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t wefti_forecast_cycle(const wefti_job *job) {
    const wefti_mixer_config *m = &job->mixer_config;
    int64_t period = job->topology ? weft_topology_describe(job->topology)->period : 1;
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

weft_quantiles wefti_forecast_quantiles(double *values, int64_t n) {
    return (weft_quantiles){wefti_quantile(values, n, 0.05),
                            wefti_quantile(values, n, 0.5),
                            wefti_quantile(values, n, 0.95)};
}
