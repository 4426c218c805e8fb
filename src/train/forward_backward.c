/* SPDX-License-Identifier: MIT */
/* Units forward and backward over one micro-batch:
 *
 *     for u in forward order:   gather(u); forward(u)
 *     for u in backward order:  gather(u); [forward(u) again]; backward(u);
 *                               reduce(gradient of u) -> shard; bucket complete: hand it
 * over
 */
#include <string.h>

#include "base/clock.h"
#include "train/rank.h"

static int n_units(const wefti_rank *r) { return r->arrangement->n_units; }

static int borrowed_unit(const wefti_rank *r, int u) {
    return r->job->model->units[u].borrows;
}

/* The place of unit u among the units in flight: see WEFTI_PLACES. */
static int place_of(const wefti_rank *r, int u) {
    return u == 0 && borrowed_unit(r, n_units(r) - 1) == 0 ? 1 : 0;
}

static float *shard_of(const wefti_rank *r, float *flat, int u) {
    return flat + r->arrangement->unit_offset[u];
}

static double start_clock(const wefti_rank *r) { return r->clock ? wefti_now_s() : 0; }

weft_status wefti_rank_gather(wefti_rank *r, int u, const float **params) {
    const float *shard = shard_of(r, r->params, u);
    *params = shard;
    if (r->job->S == 1) return WEFT_OK;
    int place = place_of(r, u);
    float *full = r->gathered.buffer[place];
    *params = full;
    if (r->gathered.unit[place] == u) return WEFT_OK;
    r->gathered.unit[place] = u;
    double start_s = start_clock(r);
    WEFT_TRY(wefti_shard_gather(&r->arrangement->layouts[u], r->comms.shard,
                                r->n_shard_messages++, shard, full));
    if (r->clock) r->clock->shard_s += wefti_now_s() - start_s;
    return WEFT_OK;
}

void wefti_rank_forget_gathered(wefti_rank *r) {
    for (int i = 0; i < WEFTI_PLACES; i++) r->gathered.unit[i] = -1;
}

/* Where unit u's full gradient is added to: zero before its first addition of a step (S =
 * 1: the micro-batches add up in the shard itself) or of a micro-batch (S > 1). */
static float *gradient_of(wefti_rank *r, int u, int64_t micro) {
    int place = place_of(r, u);
    size_t n_bytes = (size_t)r->job->model->units[u].n_elements * sizeof(float);
    bool begun = r->gradients.unit[place] == u;
    r->gradients.unit[place] = u;
    float *grads = r->job->S == 1 ? shard_of(r, r->grads, u) : r->gradients.buffer[place];
    if (!begun && (r->job->S > 1 || micro == 0)) memset(grads, 0, n_bytes);
    return grads;
}

static weft_status make_pass(wefti_rank *r, int u, bool training, int64_t row,
                             wefti_pass *pass) {
    const wefti_job *job = r->job;
    *pass = (wefti_pass){.kernels = job->kernels,
                         .B = job->B,
                         .T = job->T,
                         .training = training,
                         .seed = (uint64_t)job->config->run.seed,
                         .step = (uint64_t)r->step,
                         .row = (uint64_t)row,
                         .tokens = r->tokens,
                         .targets = r->targets,
                         .dy = r->dy,
                         .saved = r->saved[u],
                         .scratch = r->scratch};
    wefti_comm_note(r->comms.control, r->step, job->model->units[u].name);
    if (u > 0) pass->x = r->outputs[u - 1];
    if (u < n_units(r) - 1) pass->y = r->outputs[u];
    WEFT_TRY(wefti_rank_gather(r, u, &pass->params));
    int borrowed = borrowed_unit(r, u);
    return borrowed < 0 ? WEFT_OK : wefti_rank_gather(r, borrowed, &pass->borrowed);
}

weft_status wefti_rank_forward(wefti_rank *r, bool training, int64_t row) {
    const weft_model *model = r->job->model;
    for (int u = 0; u < n_units(r) - 1; u++) {
        wefti_pass pass;
        double begun_s = wefti_timeline_now(r->timeline);
        WEFT_TRY(make_pass(r, u, training, row, &pass));
        double start_s = start_clock(r);
        model->ops->forward(model, u, &pass);
        if (r->clock) r->clock->forward_s[u] += wefti_now_s() - start_s;
        wefti_timeline_put(r->timeline, WEFTI_TIMELINE_COMPUTE, u, "forward", begun_s);
    }
    return WEFT_OK;
}

weft_status wefti_rank_loss(wefti_rank *r, double *loss_sum) {
    const weft_model *model = r->job->model;
    int head = n_units(r) - 1;
    wefti_pass pass;
    WEFT_TRY(make_pass(r, head, false, 0, &pass));
    pass.loss_sum = loss_sum;
    model->ops->forward(model, head, &pass);
    return WEFT_OK;
}

weft_status wefti_rank_submit(wefti_rank *r, int b) {
    r->last_ticket = wefti_worker_submit(r->worker, b);
    if (r->job->config->mesh.overlap) return WEFT_OK;
    return wefti_worker_wait(r->worker, r->last_ticket, &r->tally.wait_s);
}

/* Unit u's gradient is complete for this micro-batch. */
static weft_status finish_unit(wefti_rank *r, int u, const float *grads, int64_t micro) {
    const wefti_arrangement *a = r->arrangement;
    r->gradients.unit[place_of(r, u)] = -1;
    double start_s = start_clock(r);
    if (r->job->S > 1)
        WEFT_TRY(wefti_shard_reduce(&a->layouts[u], r->comms.shard, r->n_shard_messages++,
                                    r->job->kernels, grads, micro > 0, r->staging,
                                    shard_of(r, r->grads, u)));
    if (r->clock) r->clock->shard_s += wefti_now_s() - start_s;
    int b = a->bucket_of[u];
    bool complete = micro == r->job->n_micro - 1 && a->bucket_last_unit[b] == u;
    bool at_once = r->apply_in_exchange || r->clip_after_exchange;
    return complete && at_once ? wefti_rank_submit(r, b) : WEFT_OK;
}

/* Share of a pass's computing that is done after the backward pass of unit u, by the
 * parameters: a third is forward. */
static double backward_share(const wefti_rank *r, int u) {
    const weft_model *model = r->job->model;
    int64_t left = 0;
    for (int v = 0; v < u; v++) left += model->units[v].n_elements;
    return 1 - 2.0 / 3 * (double)left / (double)model->n_elements;
}

weft_status wefti_rank_backward(wefti_rank *r, int64_t row, int64_t micro) {
    const weft_model *model = r->job->model;
    bool recompute = r->job->config->model.recompute;
    double tokens_of_node = (double)(r->job->rows_per_rank * r->job->S * r->job->T);
    for (int u = n_units(r) - 1; u >= 0; u--) {
        wefti_pass pass;
        double begun_s = wefti_timeline_now(r->timeline);
        WEFT_TRY(make_pass(r, u, true, row, &pass));
        double start_s = start_clock(r);
        if (recompute && pass.y) model->ops->forward(model, u, &pass);
        int borrowed = borrowed_unit(r, u);
        pass.grads = gradient_of(r, u, micro);
        if (borrowed >= 0) pass.borrowed_grads = gradient_of(r, borrowed, micro);
        pass.grad_scale = (float)(1.0 / tokens_of_node);
        pass.loss_sum = &r->vote.loss_sum;
        model->ops->backward(model, u, &pass);
        if (r->clock) r->clock->backward_s[u] += wefti_now_s() - start_s;
        wefti_rank_pace(r,
                        ((double)micro + backward_share(r, u)) / (double)r->job->n_micro);
        wefti_timeline_put(r->timeline, WEFTI_TIMELINE_COMPUTE, u, "backward", begun_s);
        WEFT_TRY(finish_unit(r, u, pass.grads, micro));
    }
    return WEFT_OK;
}
