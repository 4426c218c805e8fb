/* SPDX-License-Identifier: MIT */
/* Nodes with different parts of a step's sequences. Node i with share s_i has
 *
 *     n_i = U s_i / (sum of all s), rounded so that max n_i / s_i is least, of the U sequences
 *           of one rank of every node
 *
 * Its gradient is the mean over its own sequences. It enters the exchange times
 *
 *     w_i = n_i R / (sum of all n)
 *
 * and what is added up is divided by the sum of the w of those that count
 * (wefti_round.weight). So a mean over nodes is the mean over all sequences, no message has
 * another length, and no number travels that is not known to all beforehand.
 *
 * Gossip weighs the parameters that meet (mix/gossip_rounds.c).
 *
 * Measured: with e_i seconds for a sequence (rank/speeds.c) s_i is 1 / e_i, if max n_i e_i, which
 * is how long all wait for each other, falls by a twelfth or more. With batch.shares=steps a node
 * makes of its n_i the next whole number of n_i R / U optimizer steps, one at least: H of an outer
 * step becomes H_i, and its change weighs n_i, as in federated averaging (arXiv 1602.05629). Nodes
 * draw from the same data, so unequal H_i favour no node's optimum. HEW-Local SGD (arXiv
 * 2604.24463, of which the abstract was read) chooses weights by a bound on the next loss of a
 * convex sum; here they are rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/value.h"
#include "job/job.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

enum { MAX_SHARE = 1000000, MAX_ROWS = 1 << 30 };
static const double worth = 0.92, longest_row_s = 1e6;

bool wefti_shares_measured(const weft_config *c) {
    return wefti_is(c->batch.shares, "speed") || wefti_is(c->batch.shares, "steps");
}

static bool are_equal(const weft_config *c) { return wefti_is(c->batch.shares, "equal"); }

/* Sequences of a step that one rank of each node has together. */
static int64_t units_of(const weft_config *c, int64_t T) {
    int64_t rows = c->batch.rows_per_step;
    if (rows == 0) rows = c->batch.tokens_per_step / T;
    return rows / c->mesh.ranks_per_node;
}

static weft_status refuse(weft_ctx *ctx, const weft_config *c) {
    char shown[80];
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "batch.shares is '%s', expected equal, speed, steps, or a whole number from 1 to "
        "%d for each of the %lld nodes, as in 3,1",
        wefti_shown(c->batch.shares, shown, sizeof shown), (int)MAX_SHARE,
        (long long)c->mesh.nodes);
}

static weft_status read_shares(weft_ctx *ctx, const weft_config *c, int64_t *shares) {
    const char *at = c->batch.shares;
    for (int64_t i = 0; i < c->mesh.nodes; i++) shares[i] = 1;
    if (wefti_shares_measured(c)) return WEFT_OK; /* equal at first */
    for (int64_t i = 0; i < c->mesh.nodes; i++) {
        char *end;
        if (*at < '0' || *at > '9') return refuse(ctx, c);
        shares[i] = strtoll(at, &end, 10);
        bool last = i == c->mesh.nodes - 1;
        if (shares[i] < 1 || shares[i] > MAX_SHARE || *end != (last ? '\0' : ','))
            return refuse(ctx, c);
        at = end + 1;
    }
    return WEFT_OK;
}

void wefti_shares_divide(int64_t all, int n, const int64_t *shares, int64_t *parts) {
    int64_t sum = 0, given = 0;
    for (int i = 0; i < n; i++) sum += shares[i];
    for (int i = 0; i < n; i++) {
        parts[i] = all * shares[i] / sum;
        given += parts[i];
    }
    for (; given < all; given++) { /* to whoever is done first with one more */
        int first = 0;
        for (int i = 1; i < n; i++)
            if ((parts[i] + 1) * shares[first] < (parts[first] + 1) * shares[i])
                first = i;
        parts[first]++;
    }
    for (int i = 0; i < n && all >= n; i++) { /* from the largest part */
        int most = 0;
        for (int j = 1; j < n; j++)
            if (parts[j] > parts[most]) most = j;
        if (parts[i] == 0) parts[i]++, parts[most]--;
    }
}

static weft_status divide(weft_ctx *ctx, const weft_config *c, int64_t T, int64_t *rows) {
    int64_t *shares;
    WEFT_TRY(wefti_alloc_n(ctx, c->mesh.nodes, sizeof *shares, "shares", &shares));
    weft_status status = read_shares(ctx, c, shares);
    if (status == WEFT_OK && units_of(c, T) > MAX_ROWS)
        status = weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "a step has more than %d sequences for a rank of each node, "
            "with batch.shares %s",
            (int)MAX_ROWS, c->batch.shares);
    if (status == WEFT_OK)
        wefti_shares_divide(units_of(c, T), (int)c->mesh.nodes, shares, rows);
    wefti_free(ctx, shares);
    return status;
}

weft_status wefti_shares_of(weft_ctx *ctx, const weft_config *config, int64_t T,
                            int64_t **rows) {
    bool alike = true;
    *rows = NULL;
    if (are_equal(config)) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, config->mesh.nodes, sizeof **rows, "shares", rows));
    weft_status status = divide(ctx, config, T, *rows);
    for (int64_t i = 1; i < config->mesh.nodes; i++)
        alike = alike && (*rows)[i] == (*rows)[0];
    if (status == WEFT_OK && (!alike || wefti_shares_measured(config))) return WEFT_OK;
    wefti_free(ctx, *rows);
    *rows = NULL;
    return status;
}

weft_status wefti_weights_check(weft_ctx *ctx, const weft_config *c, const char *said) {
    const wefti_replicator_ops *replicator = wefti_replicator_find(c->replicator.kind);
    if (c->mesh.sites > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s with mesh.sites %lld, expected one site", said,
                             (long long)c->mesh.sites);
    if (!replicator || !replicator->votes) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s with replicator.kind %s, which gives each node one vote, "
                         "expected equal rows",
                         said, c->replicator.kind);
}

weft_status wefti_weights_check_topology(weft_ctx *ctx, const wefti_job *job,
                                         const char *said) {
    static const char *const by_size[] = {"exponential", "static_exponential", "push"};
    if (!job->topology) return WEFT_OK;
    const weft_topology_facts *facts = weft_topology_describe(job->topology);
    bool may_be = false; /* with another number of nodes, when one is lost or comes */
    for (size_t i = 0; i < sizeof by_size / sizeof by_size[0]; i++)
        may_be = may_be || wefti_is(facts->kind, by_size[i]);
    may_be = may_be && wefti_is(job->config->mesh.on_loss, "go_on");
    if (!facts->directed && !may_be) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "%s with mixer.topology %s of %d nodes, in which one hears another that does not "
        "hear it%s, expected aer, ring, torus, complete, matching or measured",
        said, facts->kind, job->R,
        facts->directed ? "" : " when nodes are lost or come (mesh.on_loss go_on)");
}

/* What is under way when shares change was weighed by the rows before. The weights of all have the
 * same sum then, so a mixer's mean is right; not so one of some of them. */
static weft_status check_measured(weft_ctx *ctx, const weft_config *c) {
    const wefti_mixer_ops *mixer = wefti_mixer_find(c->mixer.kind);
    bool sorts_out = c->mixer.delay > 0 && !wefti_is(c->mesh.robust, "off");
    const char *found = c->replicator.delay > 0  ? "replicator.delay"
                        : sorts_out              ? "mixer.delay and mesh.robust"
                        : mixer && mixer->direct ? "a mixer of directions"
                                                 : NULL;
    if (!found) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "batch.shares is %s with %s, which cannot weigh what was sent "
                         "before shares change; expected no %s, or batch.shares=equal",
                         c->batch.shares, found, found);
}

/* More optimizer steps than others a node may make only between two exchanges. */
static weft_status check_steps(weft_ctx *ctx, const weft_config *c) {
    const wefti_mixer_ops *mixer = wefti_mixer_find(c->mixer.kind);
    const char *found = !wefti_is(c->replicator.kind, "none") || !mixer || !mixer->period
                            ? "nodes that exchange in each step"
                        : c->mesh.ranks_per_node > 1 ? "several ranks on a node"
                        : strncmp(c->optimizer.kind, "accum", 5) == 0
                            ? "an optimizer that counts its steps"
                            : NULL;
    if (!found || !wefti_is(c->batch.shares, "steps")) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "batch.shares is steps with %s, expected an outer method "
                         "(diloco, muloco), a rank on each node and no accumulation; "
                         "speed shares rows alone",
                         found);
}

weft_status wefti_shares_check(weft_ctx *ctx, const weft_config *c, int64_t T) {
    int64_t *rows, ranks = c->mesh.ranks_per_node;
    long long tokens = c->batch.tokens_per_step;
    if (are_equal(c)) return WEFT_OK;
    if (c->batch.rows_per_step > 0) tokens = c->batch.rows_per_step * T;
    char said[120], shown[80];
    snprintf(said, sizeof said, "batch.shares is %s",
             wefti_shown(c->batch.shares, shown, sizeof shown));
    WEFT_TRY(wefti_weights_check(ctx, c, said));
    if (wefti_shares_measured(c)) WEFT_TRY(check_measured(ctx, c));
    WEFT_TRY(check_steps(ctx, c));
    WEFT_TRY(wefti_shares_of(ctx, c, T, &rows));
    bool alike = !rows;
    wefti_free(ctx, rows);
    int64_t unit = T * ranks * (alike ? c->mesh.nodes : 1);
    if (tokens % unit == 0 && units_of(c, T) >= c->mesh.nodes) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "a step has %lld tokens, expected a multiple of %lld (%lld "
        "positions of a row for each rank of a node) with a row for each of "
        "%lld ranks: batch.shares is %s",
        tokens, (long long)unit, (long long)T, (long long)(c->mesh.nodes * ranks),
        c->batch.shares);
}

int64_t wefti_job_rows_before(const wefti_job *job, int rank) {
    int64_t rows = 0;
    if (!job->rows) return rank * job->rows_per_rank;
    for (int i = 0; i < rank / job->S; i++) rows += job->S * job->rows[i];
    return rows + rank % job->S * job->rows[rank / job->S];
}

double wefti_job_weight(const wefti_job *job, int replica) {
    if (!job->rows) return 1;
    return (double)(job->rows[replica] * job->W) / (double)job->rows_per_step;
}

int64_t wefti_job_sends_every(const wefti_job *job) {
    bool mixes = wefti_is(job->replicator_config.kind, "none");
    return mixes ? wefti_mixer_period(&job->mixer_config) : 1;
}

double wefti_job_weight_sent(const wefti_job *job, int replica, int64_t step) {
    int64_t period = wefti_job_sends_every(job), now = step + 1 - job->shared_step;
    if (!job->earlier_rows || now >= period) return wefti_job_weight(job, replica);
    int64_t rows = now * job->rows[replica] + (period - now) * job->earlier_rows[replica];
    return (double)(rows * job->W) / (double)(period * job->rows_per_step);
}

bool wefti_shares_by_speed(int n, const double *row_s, const int64_t *rows, int64_t *next,
                           double took_s[2]) {
    double least = INFINITY;
    int64_t all = 0;
    took_s[0] = took_s[1] = 0;
    for (int i = 0; i < n; i++) {
        if (!(row_s[i] > 0 && row_s[i] < longest_row_s)) return false; /* not known */
        least = fmin(least, row_s[i]);
        all += rows[i];
    }
    int64_t *shares = next + n;
    for (int i = 0; i < n; i++)
        shares[i] = 1 + (int64_t)(least / row_s[i] * (MAX_SHARE - 1));
    wefti_shares_divide(all, n, shares, next);
    for (int i = 0; i < n; i++) {
        took_s[0] = fmax(took_s[0], (double)rows[i] * row_s[i]);
        took_s[1] = fmax(took_s[1], (double)next[i] * row_s[i]);
    }
    return took_s[1] <= worth * took_s[0];
}

void wefti_job_share(wefti_job *job, int64_t step, const int64_t *rows) {
    job->rows_per_rank = 0;
    job->shared_step = step;
    for (int i = 0; i < job->R; i++) {
        job->earlier_rows[i] = job->rows[i];
        job->rows[i] = rows[i];
        if (rows[i] > job->rows_per_rank) job->rows_per_rank = rows[i];
    }
    job->n_micro = (job->rows_per_rank + job->B - 1) / job->B;
}
