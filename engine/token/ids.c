/* SPDX-License-Identifier: MIT */
/* Ids without a text: music, proteins, what somebody else's tokenizer gave. Whoever wants to see
 * or to say some writes numbers, so the tokenizer is one whose words are numbers:
 *
 *     17 0 256   <->   "_17" "_0" "_256"   <->   ids 17, 0, 256     _ is U+2581
 *
 * It is a tokenizer.json like others (BPE without merges, whose pieces are words, as Metaspace
 * makes them), so that checkpoints hold it and transformers read it; all else in weft sees a
 * tokenizer and need not know that there is no text. Only what would be counted in bytes of
 * text, and what a text would lose in encoding, asks here. */
#include "token/encode.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "token/loader.h"

#define BLANK "\xE2\x96\x81"

static const char head[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
    "\"" BLANK "\",\"prepend_scheme\":\"always\",\"split\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"" BLANK
    "\",\"prepend_scheme\":\"always\",\"split\":true},\"model\":{\"type\":\"BPE\","
    "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
    "\"ignore_merges\":true,\"vocab\":{",
                  tail[] = "},\"merges\":[]}}\n";

weft_status wefti_tokenizer_create_ids(weft_ctx *ctx, int64_t vocab,
                                       weft_tokenizer **out) {
    wefti_buffer text = {0};
    char entry[64];
    *out = NULL;
    wefti_buffer_put(ctx, &text, head, sizeof head - 1);
    for (int64_t id = 0; id < vocab; id++) {
        int n = snprintf(entry, sizeof entry, "%s\"" BLANK "%lld\":%lld",
                         id > 0 ? "," : "", (long long)id, (long long)id);
        wefti_buffer_put(ctx, &text, entry, n);
    }
    wefti_buffer_put(ctx, &text, tail, sizeof tail - 1);
    if (text.status == WEFT_OK)
        return wefti_tokenizer_read(ctx, "data.tokenizer=ids", text.bytes, text.n, out);
    weft_status status = text.status;
    wefti_buffer_fini(ctx, &text);
    return status;
}

bool wefti_tokenizer_is_ids(const weft_tokenizer *t) {
    char name[32];
    if (!t->pipeline || t->merges.n > 0) return false;
    for (int64_t id = 0; id < t->vocab; id++) {
        int n = snprintf(name, sizeof name, BLANK "%lld", (long long)id);
        const wefti_token *token = &t->tokens[id];
        if (token->n_bytes != n || memcmp(t->text + token->offset, name, (size_t)n) != 0)
            return false;
    }
    return true;
}

/* The number that stands at text[*at], and *at behind it; -1: none below `vocab` does. */
static int64_t next_id(const char *text, int64_t n, int64_t *at, int64_t vocab) {
    int64_t id = 0, begin = *at;
    for (; *at < n && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        if (*at > begin && id == 0) return -1; /* "07" is no word of the vocabulary */
        id = id * 10 + text[*at] - '0';
        if (id >= vocab) return -1;
    }
    bool ends = *at == n || text[*at] == ' ';
    return *at > begin && ends ? id : -1;
}

weft_status wefti_ids_check(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                            int64_t n) {
    if (!wefti_tokenizer_is_ids(t)) return WEFT_OK;
    for (int64_t at = 0; at < n;) {
        int64_t begin = at;
        if (text[at] == ' ') {
            at++;
        } else if (next_id(text, n, &at, t->vocab) < 0) {
            int shown = n - begin < 20 ? (int)(n - begin) : 20;
            return weft_ctx_fail(
                ctx, WEFT_ERR_ARGUMENT,
                "the text has '%.*s' at byte %lld, expected ids from 0 to %lld with a "
                "blank between two: the model was trained with data.tokenizer=ids",
                shown, text + begin, (long long)begin, (long long)t->vocab - 1);
        }
    }
    return WEFT_OK;
}
