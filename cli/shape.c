/* SPDX-License-Identifier: MIT */
/* The model of a plan: a config.json, a number of parameters, or the folder of model.init. */
#include "shape.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/model.h>
#include <weft/plan.h>
#include <weft/train.h>

#include "common.h"

/* *out is unchanged if the flag was not given. */
static weft_status count_of(weft_ctx *ctx, const args *a, const char *name,
                            const char *example, int64_t *out) {
    const char *text = args_value(a, name);
    if (!text || (weft_quantity_parse_int(text, WEFT_UNIT_COUNT, out) && *out > 0))
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "%s is '%.60s', expected a whole number such as %s", name, text,
                         example);
}

/* The step of a checkpoint's folder such as "step-00000100"; -1: not a checkpoint's name. */
static long step_of(const char *name) {
    static const char before[] = "step-";
    size_t n = sizeof before - 1;
    bool fits = strncmp(name, before, n) == 0 && name[n] &&
                strspn(name + n, "0123456789") == strlen(name + n);
    return fits ? strtol(name + n, NULL, 10) : -1;
}

/* Sets `file` to the config.json of a run's newest checkpoint; leaves it unchanged if
 * there is none. */
static void look_into_run(const char *path, char *file, size_t size) {
    char folder[1000];
    long newest = -1;
    snprintf(folder, sizeof folder, "%.900s/checkpoints", path);
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (step_of(entry->d_name) > newest) {
            newest = step_of(entry->d_name);
            snprintf(file, size, "%s/%.60s/config.json", folder, entry->d_name);
        }
    closedir(dir);
}

/* Loads a file, or the config.json in a folder or at an address, which may be a run's. */
static weft_status load(weft_ctx *ctx, const char *path, weft_shape **out) {
    char file[1100], *text, at[1000];
    struct stat info;
    int64_t n;
    if (strstr(path, "://")) {
        WEFT_TRY(weft_address_check(ctx, path));
        WEFT_TRY(weft_address_look(ctx, path, at, sizeof at));
        if (at[0]) path = at;
    }
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(file, sizeof file, "%.1000s%s", path, folder ? "/config.json" : "");
    if (folder && stat(file, &info) != 0) look_into_run(path, file, sizeof file);
    char *paths[] = {file};
    WEFT_TRY(read_files(ctx, paths, 1, &text, &n));
    weft_status status = weft_shape_from_json(ctx, text ? text : "", n, file, out);
    free(text);
    return status;
}

/* The run's own model, from its parts. */
static weft_status own_model(weft_ctx *ctx, const weft_config *run, weft_model **out) {
    weft_model_config wanted = {.struct_size = sizeof wanted,
                                .kind = run->model.kind,
                                .vocab = run->model.vocab > 0 ? run->model.vocab : 256,
                                .context = run->data.length,
                                .layers = run->model.layers,
                                .width = run->model.width,
                                .heads = run->model.heads,
                                .kv_heads = run->model.kv_heads,
                                .ffn = run->model.ffn,
                                .head_dim = run->model.head_dim,
                                .decoder_layers = run->model.decoder_layers,
                                .tied = run->model.tied,
                                .described = true};
    int64_t target = run->data.length, source = run->data.source_length;
    if (run->model.decoder_layers > 0) wanted.source = source > 0 ? source : target;
    wanted.context += wanted.source;
    return weft_model_create(ctx, &wanted, out);
}

static weft_status own_flop(weft_ctx *ctx, const weft_config *run, double *out) {
    weft_model *model;
    int64_t target = run->data.length, source = run->data.source_length;
    if (run->model.decoder_layers > 0) target += source > 0 ? source : target;
    WEFT_TRY(own_model(ctx, run, &model));
    *out = weft_model_flop_per_token(model, target);
    weft_model_destroy(ctx, model);
    return WEFT_OK;
}

/* A matrix of n x m has adapters of rank (n + m): four of attention, and three of the
 * feed-forward layer or, without a gate, two. */
weft_status lora_share(weft_ctx *ctx, const weft_config *run, double rank, double *out) {
    weft_model *model;
    WEFT_TRY(own_model(ctx, run, &model));
    double C = (double)run->model.width, heads = (double)run->model.heads;
    double F = run->model.ffn > 0 ? (double)run->model.ffn : 4 * C;
    double kv = run->model.kv_heads > 0 ? C * (double)run->model.kv_heads / heads : C;
    double each = 4 * C + 2 * (C + kv) + 3 * (C + F);
    double layers = (double)(run->model.layers + run->model.decoder_layers);
    *out = fmin(1, rank * layers * each / (double)weft_model_parameters(model));
    weft_model_destroy(ctx, model);
    return WEFT_OK;
}

static weft_status name_shape(weft_ctx *ctx, const args *a, const weft_config *run,
                              weft_shape **named) {
    int64_t parameters = 0, layers = 12;
    const char *file = args_value(a, "--hf");
    *named = NULL;
    WEFT_TRY(count_of(ctx, a, "--parameters", "63M", &parameters));
    WEFT_TRY(count_of(ctx, a, "--layers", "12", &layers));
    if (file && parameters > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--hf and --parameters both say the model, expected one");
    if (args_has(a, "--layers") && parameters <= 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--layers belongs to --parameters; of a run's model say "
                             "model.layers=N");
    if (file) return load(ctx, file, named);
    if (parameters > 0) return weft_shape_of_size(ctx, (double)parameters, layers, named);
    return run->model.init[0] ? load(ctx, run->model.init, named) : WEFT_OK;
}

static bool is_given(const weft_config *run, const char *key) {
    return weft_config_origin_of(run, key_of(key)) >= WEFT_ORIGIN_FILE;
}

/* A rank takes 16,384 tokens, all together at most what GPT-3's table has (arXiv 2005.14165: 0.5M
 * at 125M parameters, 3.2M at 175G). Its rows are a power of two, so that fewer nodes can share. */
void assume_batch(const shape *s, weft_config *run, const weft_cluster *c, bool each) {
    const double per_rank = 16384, at_125m = 524288;
    int64_t ranks = c->nodes * c->ranks_per_node;
    double T = (double)run->data.length, rows = 1;
    double most = at_125m * pow(s->parameters / 125e6, 0.25) / (double)ranks;
    if (s->parameters <= 0 || is_given(run, "batch.tokens_per_step") ||
        is_given(run, "batch.rows_per_step"))
        return;
    while (2 * rows * T <= fmin(per_rank, most)) rows *= 2;
    run->batch.tokens_per_step = (int64_t)(rows * T) * (each ? c->ranks_per_node : ranks);
}

weft_status shape_of_args(weft_ctx *ctx, const args *a, weft_config *run, shape *out) {
    weft_shape *named;
    int64_t flop = 0;
    double own = 0;
    *out = (shape){.flop_share = 1};
    WEFT_TRY(name_shape(ctx, a, run, &named));
    if (named) {
        weft_status status = weft_shape_apply(ctx, named, run);
        out->flop_share = named->active_share;
        if (args_has(a, "--hf") || args_has(a, "--parameters"))
            out->parameters = named->parameters;
        snprintf(out->note, sizeof out->note, "%s", named->note);
        weft_free(ctx, named);
        WEFT_TRY(status);
    }
    WEFT_TRY(count_of(ctx, a, "--flop-per-token", "400M", &flop));
    if (flop <= 0) return WEFT_OK;
    WEFT_TRY(own_flop(ctx, run, &own));
    out->flop_share = (double)flop / own;
    return WEFT_OK;
}
