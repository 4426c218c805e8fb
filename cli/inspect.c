/* SPDX-License-Identifier: MIT */
/* `weft data inspect` for a tokenizer and for token shards. */
#include "inspect.h"

#include <inttypes.h>
#include <stdio.h>

#include <weft/shard_file.h>

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

weft_status inspect_shard(weft_ctx *ctx, const char *path,
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

weft_status inspect_tokenizer(weft_ctx *ctx, const char *path) {
    weft_tokenizer *tokenizer;
    WEFT_TRY(weft_tokenizer_load(ctx, path, &tokenizer));
    printf("kind: %s\nids: %" PRId64 "\nend of text: %" PRId32
           "\ntokenizer hash: %016" PRIx64 "\n",
           weft_tokenizer_kind(tokenizer), weft_tokenizer_vocab(tokenizer),
           weft_tokenizer_end(tokenizer), weft_tokenizer_hash(tokenizer));
    weft_tokenizer_destroy(ctx, tokenizer);
    return WEFT_OK;
}
