/* SPDX-License-Identifier: MIT */
/* A model without training: all units' parameters, two activation buffers that take
 * turns.
 *
 *     unit 0   unit 1   unit 2   ...   head
 *       x0  ->   x1  ->   x0   ->  ...   ->  logits or loss
 *
 * Sampling passes the prompt once and keeps its keys and values (model/past.h); then each
 * token is a pass over one position. A text longer than the context has its last `context`
 * tokens as its past, whose positions are other ones for each new token: there every token
 * is a pass over all of them. An evaluation processes as many rows at once as make about
 * EVALUATION_TOKENS tokens. */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/sized.h"
#include "infer/inference.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"
#include "runfiles/adopt.h"
#include "model/model.h"
#include "token/encode.h"
#include "runfiles/adapterfile.h"
#include "passes/initial.h"
#include "passes/rowids.h"
#include "runfiles/state.h"

enum { EVALUATION_TOKENS = 4096 };

static weft_status read_model(weft_ctx *ctx, const char *folder, weft_inference *inf) {
    weft_model_config config = {.struct_size = sizeof config};
    WEFT_TRY(wefti_adopt_read(ctx, folder, &config));
    return weft_model_create(ctx, &config, &inf->model);
}

static weft_status read_tokenizer(weft_ctx *ctx, const char *folder,
                                  weft_inference *inf) {
    char path[PATH_MAX];
    bool images = weft_inference_rows(inf) == WEFT_ROWS_IMAGES;
    int64_t vocab = inf->model->config.vocab;
    if (wefti_file_there(folder, "tokenizer.json", path))
        WEFT_TRY(weft_tokenizer_load(ctx, path, &inf->tokenizer));
    else if (!images)
        WEFT_TRY(wefti_adopt_bytes(ctx, folder, vocab));
    if (!inf->tokenizer) WEFT_TRY(weft_tokenizer_create_bytes(ctx, &inf->tokenizer));
    int64_t ids = weft_tokenizer_vocab(inf->tokenizer);
    if (ids > vocab && !images)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s: the tokenizer has %lld ids, the model %lld", folder,
                             (long long)ids, (long long)vocab);
    return WEFT_OK;
}

/* The same for an adapter. If its folder has no tokenizer, that of the base is used. */
static weft_status read_adapted(weft_ctx *ctx, const char *folder, const char *base,
                                weft_inference *inf) {
    char found[PATH_MAX], own[PATH_MAX];
    WEFT_TRY(wefti_merge_locate(ctx, folder, base, found));
    WEFT_TRY(read_model(ctx, found, inf));
    WEFT_TRY(read_tokenizer(
        ctx, wefti_file_there(folder, "tokenizer.json", own) ? folder : found, inf));
    return wefti_merge_read(ctx, inf, folder, found);
}

/* Reads a unit's tensors by their names in the checkpoint, whichever program wrote it. */
static weft_status read_unit(weft_ctx *ctx, const wefti_weights *weights,
                             const wefti_unit *unit, float *params) {
    for (int p = 0; p < unit->n_params; p++) {
        const wefti_param *param = &unit->params[p];
        WEFT_TRY(wefti_initial_read(ctx, weights, param, 0, param->rows,
                                    params + param->offset));
    }
    return WEFT_OK;
}

static weft_status read_params(weft_ctx *ctx, const char *folder, weft_inference *inf) {
    int n = inf->model->n_units;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(float *), "parameters", &inf->params));
    wefti_weights *weights;
    WEFT_TRY(wefti_initial_open(ctx, folder, inf->model, &weights));
    weft_status status = WEFT_OK;
    for (int u = 0; u < n && status == WEFT_OK; u++) {
        const wefti_unit *unit = &inf->model->units[u];
        status = wefti_alloc_n(ctx, unit->n_elements, sizeof(float), "parameters",
                               &inf->params[u]);
        if (status == WEFT_OK) status = read_unit(ctx, weights, unit, inf->params[u]);
    }
    weft_status closed = wefti_weights_close(ctx, weights);
    return status == WEFT_OK ? closed : status;
}

static void free_activations(weft_ctx *ctx, weft_inference *inf) {
    float **blocks[] = {&inf->x[0], &inf->x[1], &inf->saved, &inf->scratch};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        wefti_free(ctx, *blocks[i]);
        *blocks[i] = NULL;
    }
    inf->capacity_B = inf->capacity_T = 0;
}

/* Makes room for B sequences of T. The room grows with what is asked for, because a model
 * may accept far longer texts than it is ever given. */
weft_status wefti_inference_reserve(weft_ctx *ctx, weft_inference *inf, int64_t B,
                                    int64_t T) {
    const weft_model *model = inf->model;
    int64_t saved = 0;
    if (B <= inf->capacity_B && T <= inf->capacity_T) return WEFT_OK;
    free_activations(ctx, inf);
    int64_t n = B * T * model->config.width;
    for (int u = 0; u < model->n_units; u++) {
        int64_t own = model->ops->saved_floats(model, u, B, T, inf->kernels);
        if (own > saved) saved = own;
    }
    int64_t scratch = model->ops->scratch_floats(model, B, T, wefti_kernels_threads(),
                                                 inf->kernels);
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(float), "activations", &inf->x[0]));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(float), "activations", &inf->x[1]));
    WEFT_TRY(wefti_alloc_n(ctx, saved, sizeof(float), "activations", &inf->saved));
    WEFT_TRY(wefti_alloc_n(ctx, scratch, sizeof(float), "scratch", &inf->scratch));
    inf->capacity_B = B;
    inf->capacity_T = T;
    return WEFT_OK;
}

static void free_past(weft_ctx *ctx, weft_inference *inf) {
    wefti_past *past = &inf->past;
    WEFTI_FREE(ctx, past->n, past->n_source, past->kv, past->cross, past->bias,
               past->scratch);
    *past = (wefti_past){0};
}

weft_status wefti_inference_keep(weft_ctx *ctx, weft_inference *inf, int64_t B,
                                 int64_t rows) {
    const weft_model *model = inf->model;
    const weft_model_config *c = &model->config;
    wefti_past *past = &inf->past;
    bool pairs = model->ops->input == WEFTI_INPUT_PAIRS;
    free_past(ctx, inf);
    inf->first_kept = pairs ? (int)c->layers + 1 : 1;
    inf->kept_B = B;
    past->rows = rows;
    past->source = pairs ? c->source : 0;
    int64_t n = model->n_units - 1 - inf->first_kept;
    int64_t most = rows > past->source ? rows : past->source;
    WEFT_TRY(wefti_alloc_n(ctx, B, sizeof(int32_t), "lengths", &past->n));
    WEFT_TRY(wefti_alloc_n(ctx, B, sizeof(int32_t), "lengths", &past->n_source));
    WEFT_TRY(wefti_alloc_n(ctx, n * wefti_past_floats(model, B, rows), sizeof(float),
                           "kept keys and values", &past->kv));
    WEFT_TRY(wefti_alloc_n(ctx, n * wefti_past_floats(model, B, past->source),
                           sizeof(float), "kept keys and values", &past->cross));
    WEFT_TRY(wefti_alloc_n(ctx, c->heads * (rows + 65), sizeof(float), "scratch",
                           &past->bias));
    return wefti_alloc_n(ctx, wefti_past_scratch(model, inf->kernels, most),
                         sizeof(float), "scratch", &past->scratch);
}

wefti_past wefti_inference_past(const weft_inference *inf, int u) {
    wefti_past past = inf->past;
    int64_t block = u - inf->first_kept, B = inf->kept_B;
    if (block < 0 || !past.kv) return past; /* a unit that keeps nothing */
    past.kv += block * wefti_past_floats(inf->model, B, past.rows);
    past.cross += block * wefti_past_floats(inf->model, B, past.source);
    return past;
}

void wefti_inference_set_source(weft_ctx *ctx, weft_inference *inf, int64_t source) {
    if (inf->model->config.source != source) free_activations(ctx, inf);
    inf->model->config.source = source;
}

static weft_status allocate(weft_ctx *ctx, weft_inference *inf) {
    int64_t V = inf->model->config.vocab;
    WEFT_TRY(wefti_alloc_n(ctx, V, sizeof(int32_t), "logits", &inf->order));
    return wefti_alloc_n(ctx, V, sizeof(float), "logits", &inf->logits);
}

static weft_status open_all(weft_ctx *ctx, const char *path, const char *base,
                            weft_inference *inf) {
    char folder[PATH_MAX];
    inf->kernels = wefti_kernels_find(NULL);
    wefti_kernels_set_threads(wefti_machine_cores());
    WEFT_TRY(wefti_products_check(ctx, wefti_kernels_threads()));
    WEFT_TRY(wefti_state_locate(ctx, path, folder));
    WEFT_TRY(wefti_strdup(ctx, folder, &inf->folder));
    if (wefti_adapter_here(folder)) {
        WEFT_TRY(read_adapted(ctx, folder, base, inf));
        return allocate(ctx, inf);
    }
    if (base)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s holds a whole model, expected an adapter of %s", folder,
                             base);
    WEFT_TRY(read_model(ctx, folder, inf));
    WEFT_TRY(read_tokenizer(ctx, folder, inf));
    WEFT_TRY(read_params(ctx, folder, inf));
    return allocate(ctx, inf);
}

weft_status weft_inference_open(weft_ctx *ctx, const char *path, weft_inference **out) {
    return weft_inference_open_on(ctx, path, NULL, out);
}

weft_status weft_inference_open_on(weft_ctx *ctx, const char *path, const char *base,
                                   weft_inference **out) {
    *out = NULL;
    weft_inference *inf;
    WEFT_TRY(wefti_alloc(ctx, sizeof *inf, "a model", &inf));
    WEFTI_TRY_OR(open_all(ctx, path, base, inf), weft_inference_close(ctx, inf));
    *out = inf;
    return WEFT_OK;
}

void weft_inference_close(weft_ctx *ctx, weft_inference *inf) {
    if (!inf) return;
    for (int u = 0; inf->params && inf->model && u < inf->model->n_units; u++)
        wefti_free(ctx, inf->params[u]);
    free_activations(ctx, inf);
    free_past(ctx, inf);
    WEFTI_FREE(ctx, inf->params, inf->logits, inf->order, inf->folder);
    weft_model_destroy(ctx, inf->model);
    weft_tokenizer_destroy(ctx, inf->tokenizer);
    wefti_free(ctx, inf);
}

const weft_model_config *weft_inference_model(const weft_inference *inf) {
    return &inf->model->config;
}

const weft_tokenizer *weft_inference_tokenizer(const weft_inference *inf) {
    return inf->tokenizer;
}

weft_status weft_inference_chat(weft_ctx *ctx, const weft_inference *inf,
                                const char *name, weft_chat **out) {
    return weft_chat_open(ctx, name, inf->folder, out);
}

weft_rows weft_inference_rows(const weft_inference *inf) {
    return (weft_rows)inf->model->ops->input; /* the same order */
}

double weft_inference_accuracy(const weft_inference *inf) { return inf->accuracy; }

wefti_pass wefti_inference_pass(weft_inference *inf, int u, int64_t B, int64_t T) {
    int borrowed = inf->model->units[u].borrows;
    return (wefti_pass){.kernels = inf->kernels,
                        .B = B,
                        .T = T,
                        .params = inf->params[u],
                        .borrowed = borrowed >= 0 ? inf->params[borrowed] : NULL,
                        .x = inf->x[(u + 1) % 2],
                        .y = inf->x[u % 2],
                        .saved = inf->saved,
                        .scratch = inf->scratch};
}

/* All units but the head; the result is the head's x. */
static const float *forward(weft_inference *inf, int64_t B, int64_t T,
                            const int32_t *tokens, bool keeps) {
    int head = inf->model->n_units - 1;
    for (int u = 0; u < head; u++) {
        wefti_pass pass = wefti_inference_pass(inf, u, B, T);
        wefti_past past = wefti_inference_past(inf, u);
        pass.past = keeps ? &past : NULL;
        pass.tokens = tokens;
        inf->model->ops->forward(inf->model, u, &pass);
    }
    return inf->x[(head + 1) % 2];
}

/* A pass with less work than this is not worth a team of threads. */
static void choose_threads(const weft_inference *inf, int64_t n_tokens) {
    double work = (double)inf->model->n_elements * (double)n_tokens;
    wefti_kernels_set_threads(work < 2e9 ? 1 : wefti_machine_cores());
}

/* Computes the logits after the last of T tokens; `keeps`: they follow those that are kept,
 * and are kept too. */
static void next_logits(weft_inference *inf, int64_t T, const int32_t *tokens,
                        bool keeps) {
    choose_threads(inf, T);
    int head = inf->model->n_units - 1;
    const float *x = forward(inf, 1, T, tokens, keeps);
    if (keeps) inf->past.n[0] += (int32_t)T;
    wefti_pass pass = wefti_inference_pass(inf, head, 1, 1);
    pass.x = x + (T - 1) * inf->model->config.width;
    wefti_model_logits(inf->model, &pass, inf->logits);
}

/* Whether id a is less likely than b; of equal ones the higher is. */
static bool is_below(const float *logits, int32_t a, int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
}

/* Lets the id at `i` sink in a heap of n ids with the least likely at its top. */
static void sink_id(const float *logits, int32_t *heap, int64_t n, int64_t i) {
    for (int64_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && is_below(logits, heap[child + 1], heap[child])) child++;
        if (!is_below(logits, heap[child], heap[i])) return;
        int32_t id = heap[i];
        heap[i] = heap[child];
        heap[child] = id;
    }
}

/* Puts the k likeliest of n ids into order[], the likeliest first. Few ids of a vocabulary
 * get past the least likely of the k best before them. */
static void select_top(weft_inference *inf, int64_t n, int64_t k) {
    const float *logits = inf->logits;
    int32_t *heap = inf->order;
    for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink_id(logits, heap, k, i);
    for (int64_t i = k; i < n; i++) {
        if (logits[i] <= logits[heap[0]]) continue;
        heap[0] = (int32_t)i;
        sink_id(logits, heap, k, 0);
    }
    for (int64_t left = k - 1; left > 0; left--) {
        int32_t id = heap[0];
        heap[0] = heap[left];
        heap[left] = id;
        sink_id(logits, heap, left, 0);
    }
}

/* The next token: the likeliest at temperature 0, else one of the k likeliest, each with the
 * probability that the softmax at this temperature gives it. The draw is a function of
 * (seed, number of the token), so a sample can be repeated. */
static int32_t choose(weft_inference *inf, const weft_sample_options *options,
                      uint64_t index) {
    int64_t n = weft_tokenizer_vocab(inf->tokenizer), k = options->top_k;
    if (k <= 0 || k > n) k = n;
    bool greedy = options->temperature <= 0;
    if (greedy || k < n)
        select_top(inf, n, greedy ? 1 : k);
    else
        for (int64_t i = 0; i < n; i++) inf->order[i] = (int32_t)i;
    if (greedy) return inf->order[0];
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < k; i++) top = fmax(top, (double)inf->logits[inf->order[i]]);
    for (int64_t i = 0; i < k; i++)
        sum += exp(((double)inf->logits[inf->order[i]] - top) / options->temperature);
    double left = sum * wefti_rng_uniform(options->seed, WEFTI_STREAM_SAMPLE, 0, index);
    for (int64_t i = 0; i < k; i++) {
        left -= exp(((double)inf->logits[inf->order[i]] - top) / options->temperature);
        if (left < 0) return inf->order[i];
    }
    return inf->order[k - 1];
}

/* The first id of options->stop, or -1. */
static weft_status find_stop(weft_ctx *ctx, const weft_inference *inf,
                             const weft_sample_options *options, int32_t *stop) {
    int32_t *ids;
    int64_t n;
    *stop = -1;
    if (!options->stop || !options->stop[0]) return WEFT_OK;
    WEFT_TRY(wefti_encode_marked(ctx, inf->tokenizer, options->stop,
                                 (int64_t)strlen(options->stop), &ids, &n));
    if (n > 0) *stop = ids[0];
    wefti_free(ctx, ids);
    return WEFT_OK;
}

/* Computes the logits after n tokens: passes only those that are not kept yet, and keeps
 * them. If the text is longer than the context, its last tokens are passed and not kept. */
static weft_status logits_after(weft_ctx *ctx, weft_inference *inf, const int32_t *tokens,
                                int64_t n) {
    int64_t context = inf->model->config.context;
    if (n <= context && !inf->whole_passes) {
        int64_t before = inf->past.n[0];
        next_logits(inf, n - before, tokens + before, true);
        return WEFT_OK;
    }
    int64_t T = n < context ? n : context;
    WEFT_TRY(wefti_inference_reserve(ctx, inf, 1, T));
    next_logits(inf, T, tokens + n - T, false);
    return WEFT_OK;
}

/* Samples tokens one by one and passes each to the sink. */
static weft_status sample_tokens(weft_ctx *ctx, weft_inference *inf, int32_t *tokens,
                                 int64_t n, const weft_sample_options *options,
                                 weft_sample_sink sink, void *user) {
    int32_t stop;
    WEFT_TRY(find_stop(ctx, inf, options, &stop));
    int64_t context = inf->model->config.context, most = n + options->n_tokens;
    WEFT_TRY(wefti_inference_reserve(ctx, inf, 1, n < context ? n : context));
    WEFT_TRY(wefti_inference_keep(ctx, inf, 1, most < context ? most : context));
    for (int64_t i = 0; i < options->n_tokens; i++, n++) {
        int64_t n_bytes;
        WEFT_TRY(logits_after(ctx, inf, tokens, n));
        tokens[n] = choose(inf, options, (uint64_t)i);
        if (tokens[n] == weft_tokenizer_end(inf->tokenizer) || tokens[n] == stop) break;
        const char *bytes = weft_tokenizer_bytes(inf->tokenizer, tokens[n], &n_bytes);
        if (bytes && !sink(user, bytes, n_bytes)) break;
    }
    return WEFT_OK;
}

weft_status weft_inference_sample(weft_ctx *ctx, weft_inference *inf, const char *prompt,
                                  int64_t n_bytes, const weft_sample_options *options,
                                  weft_sample_sink sink, void *user) {
    int32_t *ids, *tokens;
    int64_t n;
    WEFTI_SIZED_IN(ctx, weft_sample_options, options);
    if (weft_inference_rows(inf) != WEFT_ROWS_TEXT)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the model is a %s, which does not continue texts",
                             inf->model->config.kind);
    WEFT_TRY(wefti_ids_check(ctx, inf->tokenizer, prompt, n_bytes));
    if (options->marks)
        WEFT_TRY(wefti_encode_marked(ctx, inf->tokenizer, prompt, n_bytes, &ids, &n));
    else
        WEFT_TRY(
            weft_tokenizer_encode(ctx, inf->tokenizer, prompt, n_bytes, 1, &ids, &n));
    if (n == 0) {
        wefti_free(ctx, ids);
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the prompt is empty, expected some text");
    }
    weft_status status = wefti_alloc_n(ctx, n + options->n_tokens, sizeof(int32_t),
                                       "tokens", &tokens);
    if (status == WEFT_OK) {
        memcpy(tokens, ids, (size_t)n * sizeof(int32_t));
        status = sample_tokens(ctx, inf, tokens, n, options, sink, user);
        wefti_free(ctx, tokens);
    }
    wefti_free(ctx, ids);
    return status;
}

/* The rows of a batch, and the sums that the head adds to. */
typedef struct batch {
    int64_t B, T, n_tokens, n_targets; /* T: positions of x; n_tokens, n_targets: of a
                                          row */
    int32_t *tokens, *targets;
    double loss, hits;
} batch;

static void evaluate_rows(weft_inference *inf, batch *b) {
    int head = inf->model->n_units - 1;
    const float *x = forward(inf, b->B, b->T, b->tokens, false);
    wefti_pass pass = wefti_inference_pass(inf, head, b->B, b->T);
    pass.x = x;
    pass.y = NULL;
    pass.tokens = b->tokens;
    pass.targets = b->targets;
    pass.loss_sum = &b->loss;
    pass.hits = &b->hits;
    inf->model->ops->forward(inf->model, head, &pass);
}

static weft_status check_rows(weft_ctx *ctx, const weft_inference *inf,
                              const weft_dataset *dataset, int64_t T) {
    const weft_model_config *c = &inf->model->config;
    bool images = weft_dataset_rows(dataset) == WEFT_ROWS_IMAGES;
    weft_rows rows = weft_dataset_rows(dataset), takes = weft_inference_rows(inf);
    if (rows != (takes == WEFT_ROWS_TEXT && rows == WEFT_ROWS_PROMPTS ? rows : takes))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the data's rows are not those that a %s takes", c->kind);
    if (images && (weft_dataset_image(dataset) != c->image ||
                   weft_dataset_channels(dataset) != c->channels ||
                   weft_dataset_classes(dataset) > c->vocab))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the images' side, channels or classes are not the model's");
    if (T > c->context)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "windows of %lld tokens, but the model's context is %lld",
                             (long long)T, (long long)c->context);
    if (weft_dataset_validation_rows(dataset) > 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "there is no validation text");
}

static weft_status evaluate_all(weft_ctx *ctx, weft_inference *inf,
                                const weft_dataset *dataset, int64_t rows, batch *b) {
    int64_t most = b->B, n = b->n_tokens + b->n_targets;
    WEFT_TRY(wefti_inference_reserve(ctx, inf, most, b->T));
    WEFT_TRY(wefti_alloc_n(ctx, most * n, sizeof(int32_t), "tokens", &b->tokens));
    b->targets = b->tokens + most * b->n_tokens;
    weft_status status = WEFT_OK;
    for (int64_t row = 0; row < rows && status == WEFT_OK; row += most) {
        b->B = rows - row < most ? rows - row : most;
        const wefti_row_ids ids = {row, b->B, b->T, inf->model->config.vocab};
        weft_dataset_validation_batch(dataset, row, b->B, b->tokens, b->targets);
        status = wefti_row_ids_check(ctx, dataset, &ids, b->tokens, b->targets);
        if (status == WEFT_OK) evaluate_rows(inf, b);
    }
    wefti_free(ctx, b->tokens);
    return status;
}

weft_status weft_inference_evaluate(weft_ctx *ctx, weft_inference *inf,
                                    const weft_dataset *dataset, int64_t T,
                                    int64_t max_tokens, double *loss, int64_t *n_tokens) {
    weft_model *model = inf->model;
    int64_t rows = weft_dataset_validation_rows(dataset);
    bool images = weft_inference_rows(inf) == WEFT_ROWS_IMAGES;
    inf->accuracy = NAN;
    WEFT_TRY(check_rows(ctx, inf, dataset, images ? model->config.context : T));
    wefti_inference_set_source(ctx, inf, weft_dataset_source_length(dataset));
    batch b = {.T = wefti_model_positions(&model->config, T)};
    b.n_tokens = wefti_model_row_tokens(model, b.T);
    b.n_targets = wefti_model_row_targets(model, b.T);
    b.B = EVALUATION_TOKENS / b.T > 0 ? EVALUATION_TOKENS / b.T : 1;
    if (max_tokens > 0 && (max_tokens + b.n_targets - 1) / b.n_targets < rows)
        rows = (max_tokens + b.n_targets - 1) / b.n_targets;
    WEFT_TRY(evaluate_all(ctx, inf, dataset, rows, &b));
    *n_tokens = weft_dataset_validation_targets(dataset, 0, rows);
    *loss = b.loss / (double)*n_tokens;
    if (images) inf->accuracy = b.hits / (double)*n_tokens;
    return WEFT_OK;
}
