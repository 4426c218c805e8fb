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
 * Measured: speeds.c. With batch.shares=steps a node makes of its n_i the next whole number of
 * n_i R / U optimizer steps. If that is below 1, it makes the whole number next to H n_i R / U
 * between two exchanges, one at least, each along the mean gradient of the steps since the last
 * one, also if rows change meanwhile. So H of an outer step becomes H_i, and its change weighs n_i,
 * as in federated averaging (arXiv 1602.05629). Nodes draw from the same data, so unequal H_i
 * favour no node's optimum. HEW-Local SGD (arXiv 2604.24463, of which the abstract was read)
 * chooses weights by a bound on the next loss of a convex sum; here they are rows. */
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
#include <weft/sync.h>

enum { MAX_SHARE = 1000000, MAX_ROWS = 1 << 30 };

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

void weft_shares_divide(int64_t all, int n, const int64_t *shares, int64_t *parts) {
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
        weft_shares_divide(units_of(c, T), (int)c->mesh.nodes, shares, rows);
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

weft_status wefti_weights_check(weft_ctx *ctx, const weft_config *c, const char *what) {
    const wefti_replicator_ops *replicator = wefti_replicator_find(c->replicator.kind);
    if (c->mesh.sites > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s with mesh.sites %lld, expected one site", what,
                             (long long)c->mesh.sites);
    if (!replicator || !replicator->votes) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s with replicator.kind %s, which gives each node one vote, "
                         "expected equal rows",
                         what, c->replicator.kind);
}

weft_status wefti_weights_check_topology(weft_ctx *ctx, const wefti_job *job,
                                         const char *what) {
    static const char *const by_size[] = {"exponential", "static_exponential", "push"};
    if (!job->gossip.topology) return WEFT_OK;
    const weft_topology_facts *facts = weft_topology_describe(job->gossip.topology);
    bool may_be = false; /* with another number of nodes, when one is lost or comes */
    for (size_t i = 0; i < sizeof by_size / sizeof by_size[0]; i++)
        may_be = may_be || wefti_is(facts->kind, by_size[i]);
    may_be = may_be && wefti_is(job->config->mesh.on_loss, "go_on");
    if (!facts->directed && !may_be) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "%s with mixer.topology %s of %d nodes, in which one hears another that does not "
        "hear it%s, expected aer, ring, torus, complete, matching or measured",
        what, facts->kind, job->R,
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
    char what[120], shown[80];
    snprintf(what, sizeof what, "batch.shares is %s",
             wefti_shown(c->batch.shares, shown, sizeof shown));
    WEFT_TRY(wefti_weights_check(ctx, c, what));
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
    if (!job->batch.rows) return rank * job->batch.per_rank;
    for (int i = 0; i < rank / job->S; i++) rows += job->S * job->batch.rows[i];
    return rows + rank % job->S * job->batch.rows[rank / job->S];
}

double wefti_job_weight(const wefti_job *job, int replica) {
    if (!job->batch.rows) return 1;
    return (double)(job->batch.rows[replica] * job->W) / (double)job->batch.per_step;
}

int64_t wefti_job_sends_every(const wefti_job *job) {
    bool mixes = wefti_is(job->replicator_config.kind, "none");
    return mixes ? wefti_mixer_period(&job->mixer_config) : 1;
}

double wefti_job_weight_sent(const wefti_job *job, int replica, int64_t step) {
    int64_t period = wefti_job_sends_every(job), now = step + 1 - job->batch.shared_step;
    if (!job->batch.earlier || now >= period) return wefti_job_weight(job, replica);
    int64_t before = (period - now) * job->batch.earlier[replica];
    int64_t rows = now * job->batch.rows[replica] + before;
    return (double)(rows * job->W) / (double)(period * job->batch.per_step);
}

int64_t wefti_shares_steps(int64_t rows, int64_t inner_rows, int64_t every) {
    if (rows > inner_rows) return every * ((rows + inner_rows / 2) / inner_rows);
    return (int64_t)fmax(1, round((double)every * (double)rows / (double)inner_rows));
}

bool wefti_job_may_share(const wefti_job *job, int64_t step) {
    const int64_t *rows = job->batch.rows, *earlier = job->batch.earlier;
    return step - job->batch.shared_step >= wefti_job_sends_every(job) ||
           memcmp(rows, earlier, (size_t)job->R * sizeof *rows) == 0;
}

/* Of H steps the ones that the optimizer step is for that step q is for: the m-th of H_i, with
 * m <= q H_i / H < m + 1. Returns how many. */
static int64_t window_of(const wefti_job *job, int64_t rows, int64_t q, int64_t H,
                         int64_t *first) {
    int64_t all = job->run.inner_rows;
    *first = q;
    if (rows >= all) return 1;
    int64_t steps = wefti_shares_steps(rows, all, H), m = q * steps / H;
    *first = (m * H + steps - 1) / steps;
    return ((m + 1) * H + steps - 1) / steps - *first;
}

double wefti_job_gathers(const wefti_job *job, int replica, int64_t step, bool *last) {
    int64_t rows = wefti_job_rows(job, replica), longest = MAX_ROWS;
    int64_t H = wefti_job_sends_every(job), first, old_first, from = 0;
    *last = true;
    if (job->run.inner_rows == 0) return 1;
    if (H > longest) H = longest;
    int64_t q = step % H, since = step - job->batch.shared_step;
    const int64_t *earlier = job->batch.earlier;
    if (earlier && earlier[replica] != rows && since < q) from = q - since;
    int64_t n = window_of(job, rows, q - from, H - from, &first);
    *last = q - from == first + n - 1;
    if (from == 0 || first > 0) return 1 / (double)n;
    int64_t old_n = window_of(job, earlier[replica], from - 1, H, &old_first);
    int64_t open = from - old_first; /* n or fewer; all: it is closed */
    return (1 - (double)(open % old_n) / (double)old_n) / (double)n;
}

void wefti_job_share(wefti_job *job, int64_t step, const int64_t *rows) {
    job->batch.per_rank = 0;
    job->batch.shared_step = step;
    for (int i = 0; i < job->R; i++) {
        job->batch.earlier[i] = job->batch.rows[i];
        job->batch.rows[i] = rows[i];
        if (rows[i] > job->batch.per_rank) job->batch.per_rank = rows[i];
    }
    job->batch.n_micro = (job->batch.per_rank + job->B - 1) / job->B;
}
