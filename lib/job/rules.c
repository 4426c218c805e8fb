/* SPDX-License-Identifier: MIT */
/* How each tensor is moved: the optimizer section, and the groups of optimizer.groups
 * over it. A group is a text
 *
 *     PATTERN key=value ...         "@vectors decay=0", "*.wte.* lr=0.5 optimizer=adamw"
 *
 * whose pattern is a tensor's name with the wildcards of fnmatch(3), or one of @matrices
 * (of blocks), @tables (embeddings and heads) and @vectors. Keys: lr, a factor of
 * optimizer.lr; decay, in place of optimizer.weight_decay; optimizer. If a tensor is in
 * several groups, the first one counts. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "job/job.h"
#include "replicate/replicator.h"

enum { MAX_WORD = 128 };

/* The next word of a group's text into word; false at its end. */
static bool next_word(const char **text, char word[MAX_WORD]) {
    *text += strspn(*text, " \t");
    size_t n = strcspn(*text, " \t");
    if (n == 0) return false;
    snprintf(word, MAX_WORD, "%.*s", (int)(n < MAX_WORD ? n : MAX_WORD - 1), *text);
    *text += n;
    return true;
}

static weft_status refuse(weft_ctx *ctx, const char *group, const char *what,
                          const char *expected) {
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "optimizer.groups has '%s' in '%s', expected %s", what, group,
                         expected);
}

static weft_status read_number(weft_ctx *ctx, const char *group, const char *word,
                               double *out) {
    const char *text = strchr(word, '=') + 1;
    if (weft_quantity_parse(text, WEFT_UNIT_NUMBER, out) && *out >= 0 && *out <= 1000)
        return WEFT_OK;
    return refuse(ctx, group, word, "a number from 0 to 1000");
}

static weft_status apply_word(weft_ctx *ctx, const char *group, const char *word,
                              wefti_optimizer_rule *rule) {
    if (strncmp(word, "lr=", 3) == 0) return read_number(ctx, group, word, &rule->lr);
    if (strncmp(word, "decay=", 6) == 0)
        return read_number(ctx, group, word, &rule->config.weight_decay);
    if (strncmp(word, "optimizer=", 10) != 0)
        return refuse(ctx, group, word, "lr=, decay= or optimizer=");
    rule->ops = wefti_optimizer_find(word + 10);
    if (!rule->ops) return refuse(ctx, group, word, "an optimizer's name");
    rule->config.kind = rule->ops->name;
    return WEFT_OK;
}

/* Applies the group to the rule of a tensor, if the tensor is in it (*found). */
static weft_status apply_group(weft_ctx *ctx, const char *group, const wefti_param *param,
                               wefti_optimizer_rule *rule, bool *found) {
    char pattern[MAX_WORD], word[MAX_WORD];
    const char *rest = group;
    *found = next_word(&rest, pattern) && wefti_param_is_in(pattern, param);
    int n = 0;
    for (; *found && next_word(&rest, word); n++)
        WEFT_TRY(apply_word(ctx, group, word, rule));
    if (*found && n == 0) return refuse(ctx, group, pattern, "settings after it");
    return WEFT_OK;
}

static weft_status make_rule(weft_ctx *ctx, const wefti_job *job, int i,
                             bool *group_is_used) {
    const weft_texts *groups = &job->config->optimizer.groups;
    const wefti_param *param = &job->model->params[i];
    wefti_optimizer_rule *rule = &job->optimizer.rules[i];
    *rule = (wefti_optimizer_rule){job->optimizer.ops, job->optimizer.config, 1};
    if (!param->decays) rule->config.weight_decay = 0;
    bool found = false;
    for (int g = 0; g < groups->n && !found; g++) {
        WEFT_TRY(apply_group(ctx, groups->items[g], param, rule, &found));
        group_is_used[g] = group_is_used[g] || found;
    }
    return WEFT_OK;
}

bool wefti_job_moves_whole(const wefti_job *job, int tensor) {
    return job->optimizer.rules[tensor].ops->matrix && job->model->params[tensor].hidden;
}

/* Refuses what leaves a rank no whole matrices: rows of a program's own, or a replicator
 * that moves only some rows in a step. */
static weft_status check_covers(weft_ctx *ctx, const wefti_job *job) {
    if (job->as.local_rows && job->S > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.shards is %d, so the program's tensors are rows of "
                             "matrices, but optimizer muon needs whole ones",
                             job->S);
    const char *kinds[] = {job->replicator_config.kind, job->site_replicator_config.kind};
    for (int i = 0; i < (wefti_job_has_sites(job) ? 2 : 1); i++)
        if (wefti_replicator_find(kinds[i])->cover)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "replicator '%s' moves some rows in a step, but "
                                 "optimizer muon needs whole matrices",
                                 kinds[i]);
    return WEFT_OK;
}

weft_status wefti_job_rules(weft_ctx *ctx, wefti_job *job) {
    int n = job->model->n_params, n_groups = job->config->optimizer.groups.n;
    bool *is_used;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *job->optimizer.rules, "tensor table",
                           &job->optimizer.rules));
    WEFT_TRY(wefti_alloc_n(ctx, n_groups, sizeof *is_used, "groups", &is_used));
    weft_status status = WEFT_OK;
    job->optimizer.most_states = job->optimizer.ops;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        status = make_rule(ctx, job, i, is_used);
        if (status != WEFT_OK) break;
        if (job->optimizer.rules[i].ops->n_states > job->optimizer.most_states->n_states)
            job->optimizer.most_states = job->optimizer.rules[i].ops;
        job->optimizer.n_whole += wefti_job_moves_whole(job, i);
    }
    for (int g = 0; g < n_groups && status == WEFT_OK; g++)
        if (!is_used[g])
            status = weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                   "optimizer.groups has '%s', which no tensor is in",
                                   job->config->optimizer.groups.items[g]);
    wefti_free(ctx, is_used);
    WEFT_TRY(status);
    return job->optimizer.n_whole > 0 ? check_covers(ctx, job) : WEFT_OK;
}
