/* SPDX-License-Identifier: MIT */
/* Units lie in backward order, so that what is ready first lies first, and a bucket of
 * neighbouring units is one contiguous range of parameters, gradients and state.
 *
 *     units of the model      embed   block 0   block 1   block 2   head
 *     flat buffer             | head | block 2 | block 1 | block 0 | embed |
 *     buckets                 |  b0            |  b1               |  b2   |
 *
 * A bucket is closed when its message has at least mesh.min_message bytes, counted by the
 * replicator or the mixer, whichever sends more: many small messages would each pay a
 * latency, and one large message could not be hidden behind computing. A unit without
 * elements, of which nothing is trained, joins the bucket of a neighbour. */
#include "base/memory.h"
#include "job/job.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

static weft_status allocate(weft_ctx *ctx, const wefti_job *job, wefti_arrangement *a) {
    int n = a->n_units;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_layout), "layouts", &a->layouts));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int64_t), "layouts", &a->unit_offset));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "buckets", &a->bucket_of));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int64_t), "buckets", &a->bucket_offset));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "buckets", &a->bucket_last_unit));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_bucket), "buckets", &a->buckets));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_matrix_list), "buckets", &a->lists));
    WEFT_TRY(wefti_alloc_n(ctx, job->optimizer.n_whole, sizeof(wefti_matrix), "matrices",
                           &a->matrices));
    WEFT_TRY(wefti_alloc_n(ctx, job->optimizer.n_whole, sizeof(void *), "matrices",
                           &a->matrix_rules));
    return wefti_alloc_n(ctx, job->model->n_params, sizeof(wefti_piece), "pieces",
                         &a->pieces);
}

/* Appends unit u's blocks to the bucket; returns where the next piece goes. */
static wefti_piece *append_unit(wefti_arrangement *a, int u, wefti_bucket *bucket,
                                int first_tensor, wefti_piece *next) {
    const wefti_layout *layout = &a->layouts[u];
    for (int t = 0; t < layout->n_tensors; t++) {
        wefti_block block = wefti_layout_block(layout, layout->s, t);
        if (block.n_rows == 0) continue;
        *next++ = (wefti_piece){.rows = block.n_rows,
                                .cols = block.cols,
                                .offset = bucket->n_elements + block.shard_offset,
                                .decays = block.decays,
                                .tensor = first_tensor + t};
        bucket->n_pieces++;
    }
    bucket->n_elements += layout->n_shard;
    return next;
}

/* Appends the matrices of unit u that are moved as wholes, also those of which this rank
 * has no row; `at` is where the unit's shard begins in the rank's buffers. Returns their
 * number. */
static int append_matrices(const wefti_job *job, const wefti_arrangement *a, int u,
                           int first, int64_t at) {
    const wefti_layout *layout = &a->layouts[u];
    int first_tensor = wefti_job_first_tensor(job, u), n = 0;
    for (int t = 0; t < layout->n_tensors; t++) {
        const wefti_param *param = &job->model->params[first_tensor + t];
        const wefti_optimizer_rule *rule = &job->optimizer.rules[first_tensor + t];
        wefti_block block = wefti_layout_block(layout, layout->s, t);
        if (!wefti_job_moves_whole(job, first_tensor + t)) continue;
        a->matrix_rules[first + n] = rule;
        a->matrices[first + n++] = (wefti_matrix){
            .rows = param->rows,
            .cols = param->cols,
            .n_rows = block.n_rows,
            .offset = at + block.shard_offset,
            .parts = param->parts,
            .cols_are_outputs = param->cols_are_outputs};
    }
    return n;
}

/* The larger of the messages that replicator and mixer would send. */
static int64_t message_bytes(const wefti_job *job, const wefti_bucket *bucket) {
    wefti_replicator_config r = job->replicator_config;
    if (job->site.replicas == 1 && wefti_job_has_sites(job))
        r = job->site_replicator_config;
    r.values_of = NULL; /* whoever is there, buckets are cut alike */
    int64_t sent = wefti_replicator_wire_bytes(&r, bucket, 2, 0, 1);
    const wefti_mixer_config *m = &job->mixer_config;
    int64_t mixed = wefti_mixer_find(m->kind)->message_bytes(m, bucket);
    return sent > mixed ? sent : mixed;
}

static void arrange(const wefti_job *job, int s, wefti_arrangement *a) {
    wefti_piece *next = a->pieces;
    int n_matrices = 0;
    int64_t seen = 0;
    bool open = false;
    for (int u = a->n_units - 1; u >= 0; u--) {
        bool empty = job->model->units[u].n_elements == 0 && a->n_buckets > 0;
        int b = open || empty ? a->n_buckets - 1 : a->n_buckets++;
        wefti_bucket *bucket = &a->buckets[b];
        if (!open && !empty) {
            *bucket = (wefti_bucket){.pieces = next};
            a->lists[b] = (wefti_matrix_list){0, a->matrices + n_matrices,
                                              a->matrix_rules + n_matrices};
            a->bucket_offset[b] = a->n_elements;
        }
        a->layouts[u] = wefti_job_layout(job, u, s);
        a->unit_offset[u] = a->n_elements;
        a->bucket_of[u] = b;
        a->bucket_last_unit[b] = u;
        int first_tensor = wefti_job_first_tensor(job, u);
        next = append_unit(a, u, bucket, first_tensor, next);
        int n = append_matrices(job, a, u, n_matrices, a->n_elements);
        a->lists[b].n += n;
        n_matrices += n;
        a->n_elements += a->layouts[u].n_shard;
        seen += job->model->units[u].n_elements;
        open = seen == 0 || message_bytes(job, bucket) < job->config->mesh.min_message;
    }
}

weft_status wefti_arrangement_create(weft_ctx *ctx, const wefti_job *job, int s,
                                     wefti_arrangement **out) {
    *out = NULL;
    wefti_arrangement *a;
    WEFT_TRY(wefti_alloc(ctx, sizeof *a, "the arrangement", &a));
    a->n_units = job->model->n_units;
    WEFTI_TRY_OR(allocate(ctx, job, a), wefti_arrangement_destroy(ctx, a));
    arrange(job, s, a);
    *out = a;
    return WEFT_OK;
}

void wefti_arrangement_destroy(weft_ctx *ctx, wefti_arrangement *a) {
    if (!a) return;
    WEFTI_FREE(ctx, a->layouts, a->unit_offset, a->bucket_of, a->bucket_offset,
               a->bucket_last_unit, a->buckets, a->pieces, a->matrices, a->matrix_rules,
               a->lists, a);
}
