/* SPDX-License-Identifier: MIT */
/* The cost of each part of a step in seconds: from the measured units and codecs of
 * cluster.yaml, or else FLOP divided by the machine's rate and bytes divided by the rate
 * of its memory.
 *
 *     part         measured                            estimated
 *     unit         units[] of this model and batch     FLOP / rank_flops: 2 per parameter of a
 *                                                      matrix product and token forward, 4
 *                                                      backward, 6 with recomputation
 *     codec        codecs[] of this variant, or of     bytes touched / memory rate, as the
 *                  one with the same first word        kind's table says (touched)
 *     optimizer    optimizers[]                        traffic per element / memory rate
 *     own loop     the caller's seconds, a third of them forward, two thirds backward
 *
 * Costs of elements are linear: seconds per element times the elements of a bucket. */
#include "simulate/costs.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "mix/mixer.h"
#include "optim/matrices.h"
#include "replicate/variants.h"
#include "wire/values.h"

char *wefti_costs_key(const wefti_job *job, char *out, size_t size) {
    const weft_model_config *m = &job->model->config;
    char source[64] = "";
    if (m->source > 0)
        snprintf(source, sizeof source, " of which %lld source, %lld decoder layers",
                 (long long)m->source, (long long)m->decoder_layers);
    snprintf(out, size,
             "%s layers %lld width %lld heads %lld kv %lld ffn %lld vocab %lld tied %d "
             "qk %d length %lld%s rows %lld recompute %d threads %d%s",
             m->kind, (long long)m->layers, (long long)m->width, (long long)m->heads,
             (long long)m->kv_heads, (long long)m->ffn, (long long)m->vocab, m->tied,
             m->qk_norm, (long long)job->T, source, (long long)job->B,
             job->run.recomputes, job->run.threads,
             job->pass_kernels == job->kernels ? "" : " bf16");
    return out;
}

/* The seconds of units are valid only for the same model, batch, length and number of
 * threads; for any other job they would silently be wrong. */
bool wefti_costs_measured(const weft_cluster *cluster, const wefti_job *job) {
    char key[256];
    return cluster->n_units > 0 &&
           wefti_is(wefti_costs_key(job, key, sizeof key), cluster->model);
}

static const char *unit_name(wefti_unit_kind kind) {
    static const char *const names[] = {
        [WEFTI_EMBED] = "embedding", [WEFTI_BLOCK] = "block", [WEFTI_HEAD] = "head"};
    return names[kind];
}

/* The share of unit u in the step of another program's model: by the elements of
 * matrices, or of all tensors if there are no matrices. */
static double loop_share(const weft_model *model, int u) {
    double matrices = 0, all = 0;
    for (int v = 0; v < model->n_units; v++) {
        double n = (double)model->units[v].n_elements;
        all += n;
        if (n > 0 && model->units[v].params[0].ndim == 2) matrices += n;
    }
    if (matrices > 0 && model->units[u].params[0].ndim != 2) return 0;
    return (double)model->units[u].n_elements / (matrices > 0 ? matrices : all);
}

/* FLOP per second of a rank in this job's model.precision; 0: not known. */
static double flops_of(const weft_cluster *cluster, const wefti_job *job) {
    bool bf16 = job->pass_kernels != job->kernels && cluster->rank_flops_bf16 > 0;
    return bf16 ? cluster->rank_flops_bf16 : cluster->rank_flops;
}

wefti_unit_cost wefti_costs_unit(const weft_cluster *cluster, const wefti_job *job,
                                 int u) {
    double loop_s = job->as.loop_s > 0 ? job->as.loop_s * loop_share(job->model, u) : 0;
    if (job->as.loop_s > 0) return (wefti_unit_cost){loop_s / 3, loop_s * 2 / 3, 0};
    const char *name = unit_name(job->model->units[u].kind);
    bool measured = wefti_costs_measured(cluster, job);
    for (int64_t i = 0; i < cluster->n_units && measured; i++)
        if (wefti_is(cluster->units[i].name, name))
            return (wefti_unit_cost){cluster->units[i].forward_s,
                                     cluster->units[i].backward_s, 0};
    double flops = flops_of(cluster, job);
    if (!(flops > 0)) return (wefti_unit_cost){0, 0, 0};
    double tokens = (double)(job->B * job->T);
    double forward_s = cluster->launch_s +
                       job->model->ops->unit_flop(job->model, u, job->T) / 3 * tokens /
                           flops;
    bool again = job->run.recomputes && u < job->model->n_units - 1;
    return (wefti_unit_cost){forward_s, (again ? 3 : 2) * forward_s,
                             forward_s > 0 ? cluster->launch_s / forward_s : 0};
}

double wefti_costs_touch(const weft_cluster *cluster, double n_bytes) {
    return cluster->memory_Bps > 0 ? n_bytes / cluster->memory_Bps : 0;
}

/* The codec of that name, or else one that begins with the same word; NULL: neither. */
static const weft_codec_seconds *find_codec(const weft_cluster *cluster,
                                            const char *name) {
    const weft_codec_seconds *near = NULL;
    size_t n = strcspn(name, " "), best = 0;
    for (int64_t i = 0; i < cluster->n_codecs; i++) {
        const char *other = cluster->codecs[i].name;
        size_t same = 0;
        while (name[same] && name[same] == other[same]) same++;
        if (!name[same] && !other[same]) return &cluster->codecs[i];
        if (strncmp(name, other, n) != 0 || (other[n] && other[n] != ' ')) continue;
        if (!near || same > best) near = &cluster->codecs[i];
        if (same > best) best = same;
    }
    return near;
}

static wefti_work scaled(const weft_codec_seconds *codec, double n) {
    return (wefti_work){n * codec->begin_s, n * codec->combine_s,
                        n * codec->combine_peer_s, n * codec->end_s};
}

static wefti_work touched(const weft_cluster *cluster, wefti_touched t, double n) {
    return (wefti_work){wefti_costs_touch(cluster, t.begin * n),
                        wefti_costs_touch(cluster, t.combine * n),
                        wefti_costs_touch(cluster, t.combine_peer * n),
                        wefti_costs_touch(cluster, t.end * n)};
}

/* The estimate, if nothing is measured. */
static wefti_work estimated(const weft_cluster *cluster,
                            const wefti_replicator_config *config,
                            const wefti_bucket *bucket, int R) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    double n = (double)bucket->n_elements;
    wefti_touched t = {0, 0, 0, 0};
    if (ops->touched) t = ops->touched(config, R);
    return touched(cluster, t, n);
}

wefti_work wefti_costs_replicator(const weft_cluster *cluster,
                                  const wefti_replicator_config *config,
                                  const wefti_bucket *bucket, int R) {
    char name[96];
    wefti_variant_name(config, name, sizeof name);
    const weft_codec_seconds *codec = find_codec(cluster, name);
    if (codec) return scaled(codec, (double)bucket->n_elements);
    return estimated(cluster, config, bucket, R);
}

wefti_work wefti_costs_mixer(const weft_cluster *cluster, const wefti_job *job,
                             const wefti_bucket *bucket) {
    const wefti_mixer_config *config = &job->mixer_config;
    char name[96];
    double n = (double)bucket->n_elements;
    const char *values = wefti_value_ops_of(config->values)->name;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    snprintf(name, sizeof name, "%s%s%s", ops->name, ops->coded ? " " : "",
             ops->coded ? values : "");
    if (!ops->touched) return (wefti_work){0, 0, 0, 0};
    const weft_codec_seconds *codec = find_codec(cluster, name);
    if (codec) return scaled(codec, n);
    return touched(cluster, ops->touched(job->site.mixed), n);
}

/* The cost of matrices that are updated as wholes: reading and writing the momentum,
 * sending the rows to the owner and back, and the products. */
static double matrices_s(const weft_cluster *cluster, const wefti_job *job,
                         const wefti_arrangement *a, int bucket) {
    int s = a->layouts[0].s, S = job->S;
    double moved = 0;
    for (int i = 0; i < a->lists[bucket].n; i++) {
        const wefti_matrix *m = &a->lists[bucket].matrices[i];
        moved += (double)m->n_rows * (double)m->cols;
    }
    double period = (double)job->optimizer.config.whole_every;
    double share = cluster->matrix_share > 0 ? cluster->matrix_share : 1;
    double flop = share * wefti_matrices_flop(&a->lists[bucket], S, s);
    double flops = flops_of(cluster, job), products = flops > 0 ? flop / flops : 0;
    return wefti_costs_touch(cluster, (S > 1 ? 16 / period : 0) * moved) + products;
}

double wefti_costs_optimizer(const weft_cluster *cluster, const wefti_job *job,
                             const wefti_arrangement *a, int bucket) {
    double n = (double)a->buckets[bucket].n_elements;
    double matrices = matrices_s(cluster, job, a, bucket);
    for (int64_t i = 0; i < cluster->n_optimizers; i++)
        if (wefti_is(cluster->optimizers[i].name, job->optimizer.ops->name))
            return n * cluster->optimizers[i].step_s + matrices;
    return wefti_costs_touch(cluster,
                             n * job->optimizer.ops->traffic(&job->optimizer.config)) +
           matrices;
}
