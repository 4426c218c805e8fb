/* SPDX-License-Identifier: MIT */
/* How much memory a rank takes, before it takes it (train/rank.c allocates). */
#include "base/memory.h"
#include "plan/plan.h"

bool wefti_plan_own_place(const wefti_plan *plan, int u) {
    const weft_model *model = plan->model;
    return u == 0 && model->units[model->n_units - 1].borrows == 0;
}

/* Floats of each place for units in flight. */
static void place_floats(const wefti_plan *plan, int64_t floats[WEFTI_PLACES]) {
    const weft_model *model = plan->model;
    floats[0] = floats[1] = 0;
    for (int u = 0; u < model->n_units && plan->S > 1; u++) {
        int place = wefti_plan_own_place(plan, u) ? 1 : 0;
        if (model->units[u].n_elements > floats[place])
            floats[place] = model->units[u].n_elements;
    }
}

static int64_t largest_unit(const wefti_plan *plan) {
    int64_t largest = 0;
    for (int u = 0; u < plan->model->n_units; u++)
        if (plan->model->units[u].n_elements > largest)
            largest = plan->model->units[u].n_elements;
    return largest;
}

static int64_t output_floats(const wefti_plan *plan) {
    return plan->B * plan->T * plan->model->config.width;
}

int64_t wefti_plan_saved_floats(const wefti_plan *plan, int u) {
    return plan->model->ops->saved_floats(plan->model, u, plan->B, plan->T);
}

static int64_t largest_saved(const wefti_plan *plan) {
    int64_t largest = 0;
    for (int u = 0; u < plan->model->n_units; u++)
        if (wefti_plan_saved_floats(plan, u) > largest)
            largest = wefti_plan_saved_floats(plan, u);
    return largest;
}

static int64_t scratch_floats(const wefti_plan *plan) {
    return plan->model->ops->scratch_floats(plan->model, plan->B, plan->T, plan->threads,
                                            plan->kernels);
}

wefti_sizes wefti_plan_sizes(const wefti_plan *plan) {
    wefti_sizes sizes = {.output = output_floats(plan),
                         .largest_saved = largest_saved(plan),
                         .scratch = scratch_floats(plan)};
    place_floats(plan, sizes.places);
    if (plan->S > 1) sizes.largest_unit = largest_unit(plan);
    return sizes;
}

/* What an allocation of n floats takes, rounding included; nothing for none. */
static int64_t cost(int64_t n) {
    return n > 0 ? (int64_t)wefti_alloc_cost((size_t)n * sizeof(float)) : 0;
}

static int64_t activation_bytes(const wefti_plan *plan) {
    int64_t n_bytes = cost(largest_saved(plan));
    if (!plan->config->model.recompute) {
        n_bytes = 0;
        for (int u = 0; u < plan->model->n_units; u++)
            n_bytes += cost(wefti_plan_saved_floats(plan, u));
    }
    /* outputs of all units but the head, and dy */
    return n_bytes + plan->model->n_units * cost(output_floats(plan)) +
           cost(scratch_floats(plan));
}

static int64_t replicator_bytes(const wefti_replicator_config *config,
                                const wefti_arrangement *a, int R) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    int64_t n_bytes = ops->work_bytes(config, a->buckets, a->n_buckets, R);
    for (const char *const *name = ops->states(config); *name; name++)
        n_bytes += cost(a->n_elements);
    return n_bytes;
}

static int64_t mixer_bytes(const wefti_plan *plan, const wefti_arrangement *a) {
    const wefti_mixer_config *config = &plan->mixer_config;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    int64_t n_bytes = ops->work_bytes(config, a->buckets, a->n_buckets,
                                      plan->mixed_replicas);
    for (const char *const *name = ops->states(config); *name; name++)
        n_bytes += cost(a->n_elements);
    return n_bytes;
}

wefti_footprint wefti_plan_footprint(const wefti_plan *plan, const wefti_arrangement *a) {
    int64_t n = a->n_elements, places[WEFTI_PLACES];
    place_floats(plan, places);
    wefti_footprint f = {.parameters = cost(n), .gradients = cost(n)};
    f.optimizer = plan->optimizer->n_states * cost(n);
    f.replicator = replicator_bytes(&plan->replicator_config, a, plan->site_replicas);
    if (plan->sites > 1)
        f.replicator += replicator_bytes(&plan->site_replicator_config, a, plan->sites);
    f.mixer = mixer_bytes(plan, a);
    if (plan->S > 1)
        f.in_flight = 2 * (cost(places[0]) + cost(places[1])) + cost(largest_unit(plan));
    f.activations = activation_bytes(plan);
    f.batch = 2 * cost(plan->B * plan->T);
    f.total = f.parameters + f.gradients + f.optimizer + f.replicator + f.mixer +
              f.in_flight + f.activations + f.batch;
    return f;
}
