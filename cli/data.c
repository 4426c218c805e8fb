/* SPDX-License-Identifier: MIT */
/* `weft data encode|inspect|train-tokenizer`: texts to tokens, once for many runs. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <stdio.h>

#include <weft/shard_file.h>
#include <weft/tokenizer.h>

#include "common.h"
#include <weft/ctx.h>

/* `weft data inspect` for a tokenizer and for token shards. */

/* Prints the bytes of a token in quotes; bytes that are not printable as \xNN. */
static void print_bytes(const char *bytes, int64_t n) {
    fputs(" \"", stdout);
    for (int64_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c >= 0x20 && c < 0x7f)
            putchar(c);
        else
            printf("\\x%02x", c);
    }
    fputc('"', stdout);
}

static void print_tokens(const weft_shard *shard, const weft_tokenizer *tokenizer,
                         int64_t n) {
    for (int64_t i = 0; i < n && i < weft_shard_tokens(shard); i++) {
        int32_t id;
        int64_t n_bytes;
        weft_shard_read(shard, i, 1, &id);
        const char *bytes = tokenizer ? weft_tokenizer_bytes(tokenizer, id, &n_bytes)
                                      : NULL;
        printf("%" PRId64 " %" PRId32, i, id);
        if (bytes) print_bytes(bytes, n_bytes);
        putchar('\n');
    }
}

/* Checks a token shard, prints a summary of it and its first n_tokens tokens. If a
 * tokenizer is given, the tokens are also printed as text. */
static weft_status inspect_shard(weft_ctx *ctx, const char *path,
                                 const weft_tokenizer *tokenizer, int64_t n_tokens) {
    weft_shard *shard;
    WEFT_TRY(weft_shard_open(ctx, path, tokenizer, &shard));
    printf("format: %s\ntokens: %" PRId64 "\n", weft_shard_format(shard),
           weft_shard_tokens(shard));
    if (weft_shard_tokenizer_hash(shard))
        printf("tokenizer hash: %016" PRIx64 "\n", weft_shard_tokenizer_hash(shard));
    print_tokens(shard, tokenizer, n_tokens);
    weft_shard_close(ctx, shard);
    return WEFT_OK;
}

/* Prints a summary of a tokenizer.json. */
static weft_status inspect_tokenizer(weft_ctx *ctx, const char *path) {
    weft_tokenizer *tokenizer;
    WEFT_TRY(weft_tokenizer_load(ctx, path, &tokenizer));
    printf("kind: %s\nids: %" PRId64 "\nend of text: %" PRId32
           "\ntokenizer hash: %016" PRIx64 "\n",
           weft_tokenizer_kind(tokenizer), weft_tokenizer_vocab(tokenizer),
           weft_tokenizer_end(tokenizer), weft_tokenizer_hash(tokenizer));
    weft_tokenizer_destroy(ctx, tokenizer);
    return WEFT_OK;
}

static const char *const actions[] = {"train-tokenizer", "encode", "inspect", NULL};

static const flag flags[] = {
    {"-o", "FILE", "the file to write (train-tokenizer, encode)", NULL},
    {"--tokenizer", "FILE", "bytes, or a tokenizer.json (encode, inspect)", NULL},
    {"--vocab", "N", "ids of the new tokenizer (default 1024) (train-tokenizer)", NULL},
    {"--split", "gpt2|llama3", "splitting rule of the new tokenizer (train-tokenizer)",
     NULL},
    {"--field", "NAME",
     "the field of each line of a .jsonl file that is text (not inspect)", NULL},
    {"--column", "NAME", "the column of a .csv file that is text (not inspect)", NULL},
    {"--threads", "N", "threads that encode; default: one per core (encode)", NULL},
    {"--tokens", "N", "print the first N tokens as well (inspect)", NULL},
    {NULL, NULL, NULL, NULL}};

/* The texts that the command line names. */
static weft_shard_texts texts_of(const args *a, int threads) {
    return (weft_shard_texts){.struct_size = sizeof(weft_shard_texts),
                              .paths = (const char *const *)(a->operands + 1),
                              .n_paths = a->n_operands - 1,
                              .field = args_value(a, "--field"),
                              .column = args_value(a, "--column"),
                              .threads = threads};
}

/* Trains a tokenizer on text, saves it, and prints a summary on stdout. */
static weft_status train_tokenizer(weft_ctx *ctx, const args *a, int64_t vocab) {
    const char *out = args_value(a, "-o"), *split = args_value(a, "--split");
    char shown[PATH_MAX];
    int64_t n_bytes;
    weft_tokenizer *tokenizer = NULL;
    const weft_shard_texts texts = texts_of(a, 1);
    WEFT_TRY(weft_tokenizer_train_texts(ctx, &texts, vocab, split ? split : "gpt2",
                                        &tokenizer, &n_bytes));
    weft_status status = weft_tokenizer_save(ctx, tokenizer, out);
    if (status == WEFT_OK)
        printf("%s: %" PRId64 " ids from %" PRId64 " bytes of text\n",
               plain_text(out, shown, sizeof shown), weft_tokenizer_vocab(tokenizer),
               n_bytes);
    weft_tokenizer_destroy(ctx, tokenizer);
    return status;
}

static weft_status encode(weft_ctx *ctx, const args *a, int threads) {
    const char *name = args_value(a, "--tokenizer"), *out = args_value(a, "-o");
    weft_tokenizer *tokenizer;
    int64_t n_tokens = 0;
    char shown[PATH_MAX];
    WEFT_TRY(weft_tokenizer_open(ctx, name ? name : "bytes", &tokenizer));
    const weft_shard_texts texts = texts_of(a, threads);
    weft_status status = weft_shard_encode_texts(ctx, tokenizer, &texts, out, &n_tokens);
    if (status == WEFT_OK)
        printf("%s: %" PRId64 " tokens\n", plain_text(out, shown, sizeof shown),
               n_tokens);
    weft_tokenizer_destroy(ctx, tokenizer);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static weft_status inspect(weft_ctx *ctx, const args *a, int64_t n_tokens) {
    const char *name = args_value(a, "--tokenizer"), *path = a->operands[1];
    weft_tokenizer *tokenizer = NULL;
    if (ends_with(path, ".json")) return inspect_tokenizer(ctx, path);
    if (!ends_with(path, ".bin"))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s is neither a token shard (.bin) nor a tokenizer.json",
                             path);
    if (name) WEFT_TRY(weft_tokenizer_open(ctx, name, &tokenizer));
    weft_status status = inspect_shard(ctx, path, tokenizer, n_tokens);
    if (tokenizer) weft_tokenizer_destroy(ctx, tokenizer);
    return status;
}

/* The flags with numeric values. */
typedef struct numbers {
    long long vocab, threads, tokens;
} numbers;

static int read_numbers(const args *a, numbers *out) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (numbers){1024, cores > 0 ? cores : 1, 0};
    int code = args_int(a, "--vocab", 256, 1 << 24, &out->vocab);
    if (code == CODE_OK) code = args_int(a, "--threads", 1, 4096, &out->threads);
    if (code == CODE_OK) code = args_int(a, "--tokens", 0, 1000000, &out->tokens);
    return code;
}

/* Checks that the action exists and that its files are given. */
static int check(const args *a) {
    const char *action = a->operands[0];
    const char *guess = nearest_word(action, actions, 3);
    bool trains = strcmp(action, actions[0]) == 0,
         encodes = strcmp(action, actions[1]) == 0;
    if (!trains && !encodes && strcmp(action, actions[2]) != 0)
        return usage_error("cannot '%s' data, expected %s, %s or %s%s%s%s", action,
                           actions[0], actions[1], actions[2],
                           guess ? " (did you mean '" : "", guess ? guess : "",
                           guess ? "'?)" : "");
    if (a->n_operands < 2) return usage_error("%s needs a file to read", action);
    if ((trains || encodes) && !args_has(a, "-o"))
        return usage_error("%s needs -o FILE, the file to write", action);
    return trains || encodes ? CODE_OK : args_expect(a, 2, 2);
}

static int run(weft_ctx *ctx, args *a) {
    numbers n;
    int code = check(a);
    if (code == CODE_OK) code = read_numbers(a, &n);
    if (code != CODE_OK) return code;
    weft_status status = strcmp(a->operands[0], actions[0]) == 0
                             ? train_tokenizer(ctx, a, n.vocab)
                         : strcmp(a->operands[0], actions[1]) == 0
                             ? encode(ctx, a, (int)n.threads)
                             : inspect(ctx, a, n.tokens);
    return program_code(ctx, status);
}

const command command_data = {
    .name = "data",
    .summary = "train a tokenizer, turn text into token shards, inspect them",
    .usage = "train-tokenizer|encode|inspect FILE ... [flags]",
    .help = "train-tokenizer TEXT ... -o tokenizer.json trains byte-level BPE on at most "
            "256 MiB of text.\n\n"
            "encode TEXT ... -o OUT.bin writes the tokens of texts as a shard, which "
            "training reads without encoding it again; memory use does not grow with the "
            "text. TEXT: .txt, .md, .jsonl or .csv, compressed (.gz, .zst) or not, a "
            "folder of them, or - for standard input.\n\n"
            "inspect FILE reads a whole shard (weft's, nanoGPT's or llm.c's), checks it "
            "and describes its contents, or describes a tokenizer.json.",
    .flags = flags,
    .words = actions,
    .least = 1,
    .most = INT_MAX,
    .run = run,
};
