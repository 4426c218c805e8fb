/* SPDX-License-Identifier: MIT */
/* How much memory a rank takes, before it takes it (rank/rank.c allocates).
 *
 *     shards           (2 + optimizer states) n floats, n = elements of this rank
 *     in flight        whole units that are gathered or not yet reduced
 *     activations      of a micro-batch, kept or computed twice
 *     method           states of replicator and mixer, their messages in all buffers
 *     batch            tokens and targets of a micro-batch
 *
 * It is counted with the functions by which the kinds allocate, so a run that does not
 * fit is refused with the numbers instead of being killed later. */
#include "base/memory.h"
#include "job/job.h"
#include "mix/mixer.h"
#include "optim/matrices.h"
#include "replicate/replicator.h"

/* Bytes of an allocation of n floats, rounding included; 0 if n is 0. */
static int64_t cost(int64_t n) {
    return n > 0 ? (int64_t)wefti_alloc_cost((size_t)n * sizeof(float)) : 0;
}

bool wefti_job_own_place(const wefti_job *job, int u) {
    return job->model->units[u].lent;
}

/* Floats of each place for units in flight. */
static void place_floats(const wefti_job *job, int64_t floats[WEFTI_PLACES]) {
    const weft_model *model = job->model;
    floats[0] = floats[1] = 0;
    for (int u = 0; u < model->n_units && job->S > 1 && !job->as.local_rows; u++) {
        int place = wefti_job_own_place(job, u) ? 1 : 0;
        if (model->units[u].n_elements > floats[place])
            floats[place] = model->units[u].n_elements;
    }
}

static int64_t largest_unit(const wefti_job *job) {
    int64_t largest = 0;
    for (int u = 0; u < job->model->n_units; u++)
        if (job->model->units[u].n_elements > largest)
            largest = job->model->units[u].n_elements;
    return largest;
}

/* Bytes of the units that are kept: the whole model. */
static int64_t kept_bytes(const wefti_job *job) {
    int64_t n_bytes = 0;
    for (int u = 0; u < job->model->n_units && job->run.keeps_whole; u++)
        n_bytes += cost(job->model->units[u].n_elements);
    return n_bytes;
}

static int64_t output_floats(const wefti_job *job, int64_t B) {
    return B * job->T * job->model->config.width;
}

int64_t wefti_job_saved_floats(const wefti_job *job, int u, int64_t B) {
    return job->model->ops->saved_floats(job->model, u, B, job->T, job->pass_kernels);
}

static int64_t largest_saved(const wefti_job *job, int64_t B) {
    int64_t largest = 0;
    for (int u = 0; u < job->model->n_units; u++)
        if (wefti_job_saved_floats(job, u, B) > largest)
            largest = wefti_job_saved_floats(job, u, B);
    return largest;
}

static int64_t scratch_floats(const wefti_job *job, int64_t B) {
    return job->model->ops->scratch_floats(job->model, B, job->T, job->run.threads,
                                           job->pass_kernels);
}

wefti_sizes wefti_job_sizes(const wefti_job *job, int64_t B) {
    wefti_sizes sizes = {.output = output_floats(job, B),
                         .largest_saved = largest_saved(job, B),
                         .scratch = scratch_floats(job, B)};
    place_floats(job, sizes.places);
    if (job->S > 1 && !job->as.local_rows) sizes.largest_unit = largest_unit(job);
    return sizes;
}

static int64_t activation_bytes(const wefti_job *job, int64_t B) {
    int64_t n_bytes = cost(largest_saved(job, B));
    if (!job->run.recomputes) {
        n_bytes = 0;
        for (int u = 0; u < job->model->n_units; u++)
            n_bytes += cost(wefti_job_saved_floats(job, u, B));
    }
    /* outputs of all units but the head, and dy */
    return n_bytes + job->model->n_units * cost(output_floats(job, B)) +
           cost(scratch_floats(job, B));
}

static int64_t replicator_bytes(const wefti_replicator_config *config,
                                const wefti_arrangement *a, int R) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    int64_t n_bytes = wefti_replicator_work_bytes(config, a->buckets, a->n_buckets, R);
    for (const char *const *name = ops->states(config); *name; name++)
        n_bytes += cost(a->n_elements);
    return n_bytes;
}

static int64_t mixer_bytes(const wefti_job *job, const wefti_arrangement *a) {
    const wefti_mixer_config *config = &job->mixer_config;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    int64_t n_bytes = wefti_mixer_work_bytes(config, a->buckets, a->n_buckets,
                                             job->site.mixed);
    for (const char *const *name = ops->states(config); *name; name++)
        n_bytes += cost(a->n_elements);
    return n_bytes;
}

void wefti_footprint_pass(const wefti_job *job, int64_t B, wefti_footprint *f) {
    f->total -= f->activations + f->batch;
    f->activations = activation_bytes(job, B);
    f->batch = cost(B * wefti_model_row_tokens(job->model, job->T)) +
               cost(B * wefti_model_row_targets(job->model, job->T));
    f->total += f->activations + f->batch;
}

int64_t wefti_footprint_way(const wefti_job *job, const wefti_footprint *f, int64_t B,
                            int way) {
    wefti_job other = *job;
    wefti_footprint g = *f;
    other.run.recomputes |= (way & WEFTI_TWICE) != 0;
    wefti_footprint_pass(&other, way & WEFTI_SMALLER ? 1 : B, &g);
    return g.total;
}

wefti_footprint wefti_job_footprint(const wefti_job *job, const wefti_arrangement *a) {
    int64_t n = a->n_elements, places[WEFTI_PLACES];
    place_floats(job, places);
    wefti_footprint f = {.parameters = cost(n), .gradients = cost(n)};
    f.optimizer = job->optimizer.most_states->n_states * cost(n);
    if (job->optimizer.n_whole > 0)
        f.optimizer += wefti_matrices_bytes(a->lists, a->n_buckets, job->S,
                                            a->layouts[0].s);
    f.replicator = replicator_bytes(&job->replicator_config, a, job->site.replicas);
    if (wefti_job_has_sites(job))
        f.replicator += replicator_bytes(&job->site_replicator_config, a, job->site.n);
    f.mixer = mixer_bytes(job, a);
    if (job->S > 1)
        f.in_flight = (job->run.keeps_whole ? 1 : 2) *
                          (cost(places[0]) + cost(places[1])) +
                      cost(largest_unit(job)) + kept_bytes(job);
    f.total = f.parameters + f.gradients + f.optimizer + f.replicator + f.mixer +
              f.in_flight;
    wefti_footprint_pass(job, job->B, &f);
    return f;
}

static int64_t n_states(const char *const *names) {
    int64_t n = 0;
    while (names[n]) n++;
    return n;
}

static int64_t replicator_states(const wefti_replicator_config *config) {
    return n_states(wefti_replicator_find(config->kind)->states(config));
}

/* Arrays of parameters' size that a checkpoint has: once, and of each replica. */
typedef struct saved_arrays {
    int64_t once, own;
} saved_arrays;

static saved_arrays arrays_of(const wefti_job *job) {
    int64_t all = job->optimizer.most_states->n_states;
    int64_t own = n_states(
        wefti_mixer_find(job->mixer_config.kind)->states(&job->mixer_config));
    own += replicator_states(&job->replicator_config);
    if (wefti_job_has_sites(job)) own += replicator_states(&job->site_replicator_config);
    if (!job->replicas_equal)
        own += 1 + all, all = 0; /* and the mean of the parameters */
    return (saved_arrays){1 + all, own};
}

int64_t wefti_job_saved_bytes(const wefti_job *job, const wefti_arrangement *a) {
    saved_arrays n = arrays_of(job);
    return (n.once + job->R * n.own) * a->n_elements * (int64_t)sizeof(float);
}

int64_t wefti_job_saved_own_bytes(const wefti_job *job) {
    return arrays_of(job).own * job->model->n_elements * (int64_t)sizeof(float);
}

int wefti_job_saved_files(const wefti_job *job) {
    saved_arrays n = arrays_of(job);
    return (n.once > 1 ? 2 : 1) + (n.own > 0 ? job->R : 0);
}

int64_t wefti_job_saved_wire_bytes(const wefti_job *job) {
    int64_t group = job->site.mixed,
            others = group - (wefti_job_has_sites(job) ? 1 : job->copies);
    if (job->replicas_equal || others <= 0) return 0;
    return 2 * others * job->copies * job->model->n_elements * (int64_t)sizeof(float) /
           group;
}
