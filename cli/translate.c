/* SPDX-License-Identifier: MIT */
/* `weft translate`: translates the lines of a file with a trained t5, and computes BLEU
 * if there are reference translations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/inference.h>

#include "common.h"

enum { USUAL_LENGTH = 128 };

static const flag flags[] = {
    {"--source", "FILE", "the lines to translate (default: standard input)", NULL},
    {"--reference", "FILE",
     "reference translations of the lines: BLEU is written to stderr", NULL},
    {"--length", "T",
     "most tokens of a translation (default: the run's data.length, else 128)", NULL},
    {NULL, NULL, NULL, NULL}};

/* Lines of a file, each with a terminating NUL. */
typedef struct lines {
    char **items; /* owned, also each item */
    int64_t n, room;
    weft_ctx *ctx; /* borrowed */
} lines;

static void lines_free(lines *l) {
    for (int64_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
}

/* Appends a line. Takes ownership of the text, also on failure. */
static weft_status keep_line(weft_ctx *ctx, lines *l, char *text) {
    if (text && l->n == l->room) {
        l->room = 2 * l->room + 64;
        char **more = realloc(l->items, (size_t)l->room * sizeof *more);
        if (more) l->items = more;
        if (!more) free(text);
        if (!more) text = NULL;
    }
    if (!text)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for %lld lines",
                             (long long)l->n + 1);
    l->items[l->n++] = text;
    return WEFT_OK;
}

static weft_status read_lines(weft_ctx *ctx, const char *path, lines *l) {
    FILE *file = path ? fopen(path, "rb") : stdin;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    weft_status status = WEFT_OK;
    if (!file) return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open %s", path);
    while (status == WEFT_OK && (n = getline(&line, &room, file)) >= 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
        status = keep_line(ctx, l, strdup(line));
    }
    if (status == WEFT_OK && ferror(file))
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not read %s",
                               path ? path : "standard input");
    free(line);
    if (path) fclose(file);
    return status;
}

/* Sets the lengths that the run was trained with. A folder that weft did not write has no
 * file with them. */
static weft_status lengths_of(weft_ctx *ctx, const char *run, int64_t wanted,
                              weft_translate_options *out) {
    char path[4096];
    weft_config *config;
    struct stat info;
    *out = (weft_translate_options){.struct_size = sizeof(weft_translate_options),
                                    USUAL_LENGTH,
                                    wanted ? wanted : USUAL_LENGTH};
    snprintf(path, sizeof path, "%s/config.yaml", run);
    if (stat(path, &info) != 0) return WEFT_OK;
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_ctx_set_sink(ctx, NULL, NULL); /* warnings were given when it was trained */
    weft_status status = weft_config_load(ctx, config, path);
    if (status == WEFT_OK) status = weft_config_finish(ctx, config);
    if (status == WEFT_OK) {
        int64_t source = config->data.source_length, length = config->data.length;
        out->source_length = source ? source : length;
        if (!wanted) out->target_length = length;
    }
    weft_config_destroy(ctx, config);
    return status;
}

/* Keeps a translation as one line: characters that would end the line become spaces. */
static bool keep(void *user, int64_t i, const char *text) {
    lines *l = user;
    char *copy = strdup(text);
    (void)i;
    if (!copy) return false;
    for (char *at = copy; *at; at++)
        if (*at == '\n' || *at == '\r') *at = ' ';
    puts(copy);
    return keep_line(l->ctx, l, copy) == WEFT_OK;
}

static weft_status score(weft_ctx *ctx, const lines *made, const lines *wanted) {
    double bleu;
    if (made->n != wanted->n)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld translations and %lld references, expected as many",
                             (long long)made->n, (long long)wanted->n);
    WEFT_TRY(weft_bleu(ctx, (const char *const *)made->items,
                       (const char *const *)wanted->items, made->n, &bleu));
    fprintf(stderr, "BLEU %.2f of %lld lines\n", bleu, (long long)made->n);
    return WEFT_OK;
}

static weft_status translate(weft_ctx *ctx, const args *a, int64_t length) {
    const char *reference = args_value(a, "--reference");
    weft_translate_options options = {.struct_size = sizeof options};
    weft_inference *inference = NULL;
    lines sources = {0}, wanted = {0}, made = {.ctx = ctx};
    weft_status status = read_lines(ctx, args_value(a, "--source"), &sources);
    if (status == WEFT_OK && reference) status = read_lines(ctx, reference, &wanted);
    if (status == WEFT_OK) status = lengths_of(ctx, a->operands[0], length, &options);
    if (status == WEFT_OK) status = weft_inference_open(ctx, a->operands[0], &inference);
    if (status == WEFT_OK)
        status = weft_inference_translate(ctx, inference,
                                          (const char *const *)sources.items, sources.n,
                                          &options, keep, &made);
    if (status == WEFT_OK && made.n < sources.n)
        status = weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the translations");
    if (status == WEFT_OK && reference) status = score(ctx, &made, &wanted);
    weft_inference_close(ctx, inference);
    lines_free(&sources);
    lines_free(&wanted);
    lines_free(&made);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    long long length = 0;
    int code = args_int(a, "--length", 1, 1 << 16, &length);
    if (code != CODE_OK) return code;
    return program_code(ctx, translate(ctx, a, length));
}

const command command_translate = {
    .name = "translate",
    .summary = "translate lines with a trained t5",
    .usage = "RUN [--source FILE] [--reference FILE]",
    .help = "RUN is a run folder of a t5, or any folder with its model.safetensors, "
            "config.json and tokenizer.json. Each token is the most likely one. BLEU is "
            "computed as sacrebleu does by default.",
    .flags = flags,
    .least = 1,
    .most = 1,
    .run = run,
};
