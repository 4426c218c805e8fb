/* SPDX-License-Identifier: MIT */
/* The processes compare hashes of a text: their configuration, a key in each line, and what else
 * must be equal. Where two hashes differ, both texts are sent to all:
 *
 *     all        hash of the text              -->  all: the first rank r with another than rank 0
 *     rank 0, r  optimizer.lr: 0.001 \n ...    -->  all: the first line that differs is the error
 *     rank 0     hash of tokenizer, tokens     -->  rank r: the first hash that differs
 *
 * So the person at every machine reads which key to change, and to what. A process that joins
 * later and is refused makes the same comparison with the notice that a member then sends
 * it:
 *
 *     notice     hashes of tokenizer, number of tokens, text, rows for validation  4 x u64
 *                text of the configuration, without the numbers of nodes and ranks
 *                a zero, and what method=auto decided, where it did (train/decide.h) */
#include "rank/alike.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/layers.h"

enum { MAX_TEXT = 1 << 20, MAX_LINE = 120 };

/* Copies the line at `at` without characters that could harm a terminal; *n: its length
 * in the text. */
static void line_at(const char *at, char out[MAX_LINE], size_t *n) {
    *n = strcspn(at, "\n");
    snprintf(out, MAX_LINE, "%.*s", (int)(*n < MAX_LINE ? *n : MAX_LINE), at);
    wefti_text_plain(out);
}

/* A line in quotes; one text may end before the other. */
static const char *quoted(const char *line, char out[MAX_LINE + 2]) {
    snprintf(out, MAX_LINE + 2, "'%s'", line);
    return line[0] ? out : "nothing";
}

/* Both texts come from wefti_config_shared, of this version of weft or of another one.
 * who: whose they are, for the message. */
static weft_status fail_by_line(weft_ctx *ctx, const char *const text[2],
                                const char *const who[2]) {
    char line[2][MAX_LINE], both[2][MAX_LINE + 2];
    const char *at[2] = {text[0], text[1]};
    size_t n, m;
    for (;; at[0] += n + 1, at[1] += m + 1) {
        line_at(at[0], line[0], &n);
        line_at(at[1], line[1], &m);
        if (n != m || memcmp(at[0], at[1], n) != 0 || !at[0][n] || !at[1][m]) break;
    }
    const char *colon = strstr(line[0], ": ");
    size_t name = colon ? (size_t)(colon - line[0]) : 0;
    if (name == 0 || strncmp(line[0], line[1], name + 2) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s is %s, and %s is in its place %s; all ranks must have "
                             "the same, of the same version of weft",
                             quoted(line[0], both[0]), who[0], quoted(line[1], both[1]),
                             who[1]);
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG, "%.*s is %s %s and %s %s; all ranks must have the same",
        (int)name, line[0], colon + 2, who[0], line[1] + name + 2, who[1]);
}

/* A rank's text, at every rank; *text is owned by the caller, also after a failure. */
static weft_status tell_text(weft_ctx *ctx, wefti_bootstrap *b, int from, const char *own,
                             char **text) {
    int64_t n = (int64_t)strlen(own);
    WEFT_TRY(wefti_bootstrap_tell_from(b, from, &n, sizeof n));
    if (n < 0 || n > MAX_TEXT)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "the configuration of rank %d has %lld bytes, expected at "
                             "most %d",
                             from, (long long)n, (int)MAX_TEXT);
    WEFT_TRY(wefti_alloc(ctx, (size_t)n + 1, "the configuration of a rank", text));
    if (wefti_bootstrap_rank(b) == from) memcpy(*text, own, (size_t)n);
    return wefti_bootstrap_tell_from(b, from, *text, n);
}

/* The first rank whose text is not rank 0's; *other: the number of ranks if there is none. */
static weft_status find_other(weft_ctx *ctx, wefti_bootstrap *b, const char *own,
                              int *other) {
    uint64_t hash = XXH3_64bits(own, strlen(own)), *all;
    WEFT_TRY(wefti_alloc_n(ctx, b->comm->size, sizeof *all, "checksums", &all));
    weft_status status = wefti_comm_all_gather(b->comm, b->n_messages++, &hash,
                                               sizeof hash, all);
    *other = 0;
    while (*other < b->comm->size && all[*other] == all[0]) ++*other;
    wefti_free(ctx, all);
    return status;
}

weft_status wefti_alike_texts(weft_ctx *ctx, wefti_bootstrap *b, const char *own) {
    int other;
    char *texts[2] = {NULL, NULL}, name[32];
    if (!b->comm) return WEFT_OK;
    WEFT_TRY(find_other(ctx, b, own, &other));
    if (other == b->comm->size) return WEFT_OK;
    weft_status status = tell_text(ctx, b, 0, own, &texts[0]);
    if (status == WEFT_OK) status = tell_text(ctx, b, other, own, &texts[1]);
    snprintf(name, sizeof name, "on rank %d", other);
    if (status == WEFT_OK)
        status = fail_by_line(ctx, (const char *const[]){texts[0], texts[1]},
                              (const char *const[]){"on rank 0", name});
    wefti_free(ctx, texts[0]);
    wefti_free(ctx, texts[1]);
    return status;
}

weft_status wefti_alike_among(weft_ctx *ctx, weft_mesh *mesh, const char *own) {
    wefti_bootstrap all;
    WEFT_TRY(wefti_bootstrap_join(ctx, mesh, &all));
    weft_status status = wefti_alike_texts(ctx, &all, own);
    wefti_bootstrap_leave(ctx, &all);
    return status;
}

weft_status wefti_alike_config(weft_ctx *ctx, const weft_config *config, bool sized,
                               uint64_t *out) {
    const char *text;
    weft_config *copy;
    WEFT_TRY(weft_config_copy(ctx, config, &copy));
    weft_status status = wefti_config_shared(ctx, copy, sized, &text);
    if (status == WEFT_OK) *out = XXH3_64bits(text, strlen(text));
    weft_config_destroy(ctx, copy);
    return status;
}

enum { TEXT_AT = WEFTI_NOTICE_FACTS * 8 };

weft_status wefti_alike_notice_of(weft_ctx *ctx, const char *text, const char *decided,
                                  void **out, int64_t *n) {
    size_t length = strlen(text), more = strlen(decided);
    WEFT_TRY(wefti_alloc(ctx, TEXT_AT + length + 1 + more, "what all have alike", out));
    memcpy((char *)*out + TEXT_AT, text, length);
    memcpy((char *)*out + TEXT_AT + length + 1, decided, more);
    *n = (int64_t)(TEXT_AT + length + 1 + more);
    return WEFT_OK;
}

void wefti_alike_decided(const void *notice, int64_t n, char *out, size_t size) {
    const char *text = notice, *zero = NULL;
    out[0] = 0;
    if (notice && n > TEXT_AT) zero = memchr(text + TEXT_AT, 0, (size_t)n - TEXT_AT);
    if (zero) snprintf(out, size, "%.*s", (int)(text + n - zero - 1), zero + 1);
}

weft_status wefti_alike_compare(weft_ctx *ctx, const char *own, const void *notice,
                                int64_t n) {
    char *theirs;
    if (!notice || n < TEXT_AT || n - TEXT_AT > MAX_TEXT) return WEFT_OK;
    size_t length = (size_t)n - TEXT_AT;
    WEFT_TRY(wefti_alloc(ctx, length + 1, "the run's configuration", &theirs));
    memcpy(theirs, (const char *)notice + TEXT_AT, length);
    theirs[length] = 0;
    bool alike = strcmp(own, theirs) == 0;
    weft_status status = WEFT_OK;
    if (!alike)
        status = fail_by_line(ctx, (const char *const[]){own, theirs},
                              (const char *const[]){"here", "in the run"});
    wefti_free(ctx, theirs);
    return status;
}
