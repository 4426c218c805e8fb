/* SPDX-License-Identifier: MIT */
/* Training of byte-level BPE (Sennrich, Haddow, Birch 2016).
 *
 * The text is split into pieces; equal pieces are one word with a count w. The words'
 * symbols lie in flat arrays as linked lists. For each pair of adjacent symbols
 *   count[pair] = sum over its positions of w      (kept exact at every merge)
 *   positions[pair] = a list of where it was seen  (it may be there no more)
 * and a heap holds (count, pair), highest count first, then the lower pair. Two
 * symbols come to stand side by side only while the younger of them is being made, so
 * a pair gets all its positions, in ascending order, in one merge, enters the heap
 * after that merge, and only falls from then on: a count in the heap is never below
 * the true one, and is put right when it comes to the top. A merge visits only its own
 * positions, so the whole costs O(n log n) in the symbols. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "token/bytemap.h"
#include "token/vocab.h"

enum { LARGEST_VOCAB = 1 << 24 };

typedef struct position {
    int32_t at, next; /* index of a symbol; the next in the list of its pair, -1: none */
} position;

typedef struct pair_state {
    int64_t count;
    int32_t first, last; /* ends of the list of positions */
} pair_state;

typedef struct candidate {
    int64_t count, pair;
    uint64_t key;
} candidate;

typedef struct trainer {
    weft_ctx *ctx;
    weft_tokenizer *t;
    const char *text; /* borrowed */
    wefti_strmap words;
    int32_t *symbols;                  /* [n_symbols]; one that is gone: -1 */
    int32_t *before, *after, *word_of; /* [n_symbols] */
    int64_t n_symbols;
    wefti_u64map pairs;
    pair_state *states; /* [pairs.n] */
    int64_t states_capacity;
    position *positions; /* [n_positions] */
    int64_t n_positions, positions_capacity;
    candidate *heap; /* [n_heap] */
    int64_t n_heap, heap_capacity;
    int64_t n_offered; /* pairs that have been in the heap */
} trainer;

static weft_status reserve(trainer *r, void *list, int64_t *capacity, int64_t n,
                           size_t item) {
    return wefti_reserve(r->ctx, list, capacity, n, 1, item, "training of the tokenizer");
}

static bool comes_first(const candidate *a, const candidate *b) {
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static weft_status heap_push(trainer *r, int64_t pair) {
    WEFT_TRY(reserve(r, &r->heap, &r->heap_capacity, r->n_heap, sizeof *r->heap));
    candidate c = {
        .count = r->states[pair].count, .pair = pair, .key = r->pairs.keys[pair]};
    int64_t i = r->n_heap++;
    while (i > 0 && comes_first(&c, &r->heap[(i - 1) / 2])) {
        r->heap[i] = r->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->heap[i] = c;
    return WEFT_OK;
}

/* Puts c at the root and lets it sink to its place. */
static void heap_sink(trainer *r, candidate c) {
    int64_t i = 0;
    for (int64_t child = 1; child < r->n_heap; child = 2 * i + 1) {
        if (child + 1 < r->n_heap && comes_first(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (!comes_first(&r->heap[child], &c)) break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = c;
}

/* Takes the most frequent pair; false if none occurs twice. */
static bool heap_best(trainer *r, int64_t *pair) {
    while (r->n_heap > 0) {
        candidate top = r->heap[0];
        int64_t count = r->states[top.pair].count;
        if (count == top.count && count >= 2) {
            *pair = top.pair;
            r->n_heap--;
            if (r->n_heap > 0) heap_sink(r, r->heap[r->n_heap]);
            return true;
        }
        top.count = count;
        if (count < 2) top = r->heap[--r->n_heap];
        if (r->n_heap > 0) heap_sink(r, top);
    }
    return false;
}

/* Adds w occurrences of the pair that starts at symbol `at`. */
static weft_status raise_pair(trainer *r, int32_t at) {
    int64_t before = r->pairs.n, pair;
    uint64_t key = wefti_pair_key(r->symbols[at], r->symbols[r->after[at]]);
    WEFT_TRY(reserve(r, &r->states, &r->states_capacity, before, sizeof *r->states));
    WEFT_TRY(wefti_u64map_put(r->ctx, &r->pairs, key, &pair));
    pair_state *s = &r->states[pair];
    if (r->n_positions == INT32_MAX)
        return weft_ctx_fail(r->ctx, WEFT_ERR_MEMORY,
                             "the text has too many different pieces "
                             "to train a tokenizer on; train it on a part of the text");
    WEFT_TRY(reserve(r, &r->positions, &r->positions_capacity, r->n_positions,
                     sizeof *r->positions));
    int32_t here = (int32_t)r->n_positions++;
    r->positions[here] = (position){.at = at, .next = -1};
    if (pair == before)
        *s = (pair_state){.first = here};
    else
        r->positions[s->last].next = here;
    s->last = here;
    s->count += r->words.entries[r->word_of[at]].value;
    return WEFT_OK;
}

/* Takes w occurrences away from the pair that starts at symbol `at`. */
static void lower_pair(trainer *r, int32_t at) {
    uint64_t key = wefti_pair_key(r->symbols[at], r->symbols[r->after[at]]);
    int64_t pair = wefti_u64map_find(&r->pairs, key);
    r->states[pair].count -= r->words.entries[r->word_of[at]].value;
}

/* Puts the pairs that the present merge has brought about into the heap. */
static weft_status offer_new_pairs(trainer *r) {
    for (; r->n_offered < r->pairs.n; r->n_offered++)
        WEFT_TRY(heap_push(r, r->n_offered));
    return WEFT_OK;
}

static weft_status count_words(trainer *r, wefti_scan *scan, int64_t n_bytes) {
    wefti_scan_start(scan, r->text, n_bytes);
    for (;;) {
        const char *piece;
        int64_t n;
        WEFT_TRY(wefti_scan_next(scan, &piece, &n));
        if (n == 0) break;
        if (n < 2) continue; /* nothing to merge */
        wefti_str_entry *word;
        int64_t known = r->words.n;
        WEFT_TRY(wefti_strmap_put(r->ctx, &r->words, r->text, piece - r->text, n, &word));
        if (r->words.n > known) r->n_symbols += n;
        word->value++;
    }
    if (r->n_symbols < INT32_MAX) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_MEMORY,
                         "the text has %lld bytes of different pieces, expected fewer "
                         "than %d; train the tokenizer on a part of it",
                         (long long)r->n_symbols, INT32_MAX);
}

static weft_status lay_out_words(trainer *r) {
    size_t item = sizeof *r->symbols;
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_symbols, item, "the words", &r->symbols));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_symbols, item, "the words", &r->before));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_symbols, item, "the words", &r->after));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_symbols, item, "the words", &r->word_of));
    int32_t at = 0;
    for (int64_t k = 0; k < r->words.n; k++) {
        const wefti_str_entry *word = &r->words.entries[k];
        for (int64_t i = 0; i < word->n_bytes; i++, at++) {
            unsigned char byte = (unsigned char)r->text[word->offset + i];
            r->symbols[at] = r->t->byte_ids[byte];
            r->before[at] = i > 0 ? at - 1 : -1;
            r->after[at] = i + 1 < word->n_bytes ? at + 1 : -1;
            r->word_of[at] = (int32_t)k;
        }
    }
    for (at = 0; at < r->n_symbols; at++)
        if (r->after[at] >= 0) WEFT_TRY(raise_pair(r, at));
    return offer_new_pairs(r);
}

static weft_status merge_at(trainer *r, int32_t at, int32_t merged) {
    int32_t gone = r->after[at], left = r->before[at], right = r->after[gone];
    lower_pair(r, at);
    if (left >= 0) lower_pair(r, left);
    if (right >= 0) lower_pair(r, gone);
    r->symbols[at] = merged;
    r->symbols[gone] = -1;
    r->after[at] = right;
    if (right >= 0) r->before[right] = at;
    if (left >= 0) WEFT_TRY(raise_pair(r, left));
    return right >= 0 ? raise_pair(r, at) : WEFT_OK;
}

/* Gives the merged pair its token. Its bytes are new: bytes that no merge has crossed
 * the edge of are merged alike wherever they stand, so no two pairs ever make the same
 * ones. */
static weft_status name_merge(trainer *r, int32_t left, int32_t right, int32_t *merged) {
    bool fresh;
    *merged = (int32_t)r->t->vocab;
    WEFT_TRY(wefti_vocab_stage_pair(r->ctx, r->t, left, right));
    if (wefti_vocab_find_staged(r->t) >= 0)
        return weft_ctx_fail(r->ctx, WEFT_ERR_INTERNAL,
                             "ids %d and %d make a token twice", left, right);
    WEFT_TRY(wefti_vocab_add_staged(r->ctx, r->t, *merged, WEFTI_TOKEN_MODEL));
    return wefti_vocab_add_merge(r->ctx, r->t, left, right, *merged, &fresh);
}

/* Visits the positions from the left: of "aaa", the left pair of "a"s is merged. */
static weft_status merge_pair(trainer *r, int64_t pair) {
    int32_t left = (int32_t)(r->pairs.keys[pair] >> 32);
    int32_t right = (int32_t)(r->pairs.keys[pair] & UINT32_MAX);
    int32_t merged;
    WEFT_TRY(name_merge(r, left, right, &merged));
    for (int32_t k = r->states[pair].first; k >= 0; k = r->positions[k].next) {
        int32_t at = r->positions[k].at;
        if (r->symbols[at] != left || r->after[at] < 0) continue;
        if (r->symbols[r->after[at]] == right) WEFT_TRY(merge_at(r, at, merged));
    }
    return offer_new_pairs(r);
}

/* The 256 bytes in GPT-2's order: by the code point that stands for them. */
static weft_status add_alphabet(weft_ctx *ctx, weft_tokenizer *t) {
    for (uint32_t code = 0; code < WEFTI_BYTEMAP_CODES; code++) {
        int byte = wefti_bytemap_byte(code);
        if (byte < 0) continue;
        char c = (char)byte;
        t->byte_ids[byte] = (int32_t)t->vocab;
        WEFT_TRY(wefti_vocab_stage(ctx, t, &c, 1));
        WEFT_TRY(wefti_vocab_add_staged(ctx, t, t->vocab, WEFTI_TOKEN_MODEL));
    }
    return WEFT_OK;
}

static weft_status add_end(weft_ctx *ctx, weft_tokenizer *t) {
    char extras[320];
    snprintf(extras, sizeof extras,
             "{\"added_tokens\": [{\"id\": %lld, \"content\": \"%s\", \"single_word\": "
             "false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
             "\"special\": true}], \"post_processor\": null}",
             (long long)t->vocab, WEFTI_END_OF_TEXT);
    WEFT_TRY(wefti_strdup(ctx, extras, &t->extras));
    WEFT_TRY(
        wefti_vocab_stage(ctx, t, WEFTI_END_OF_TEXT, (int64_t)strlen(WEFTI_END_OF_TEXT)));
    return wefti_vocab_add_staged(ctx, t, t->vocab,
                                  WEFTI_TOKEN_MODEL | WEFTI_TOKEN_SPECIAL);
}

static weft_status train(trainer *r, wefti_scan *scan, int64_t n_bytes, int64_t vocab) {
    int64_t n_model = vocab > 256 ? vocab - 1 : vocab, pair;
    WEFT_TRY(add_alphabet(r->ctx, r->t));
    WEFT_TRY(count_words(r, scan, n_bytes));
    WEFT_TRY(lay_out_words(r));
    while (r->t->vocab < n_model && heap_best(r, &pair)) WEFT_TRY(merge_pair(r, pair));
    return vocab > 256 ? add_end(r->ctx, r->t) : WEFT_OK;
}

static void trainer_fini(trainer *r) {
    void *const blocks[] = {r->symbols, r->before,    r->after, r->word_of,
                            r->states,  r->positions, r->heap};
    for (size_t k = 0; k < sizeof blocks / sizeof blocks[0]; k++)
        wefti_free(r->ctx, blocks[k]);
    wefti_strmap_fini(r->ctx, &r->words);
    wefti_u64map_fini(r->ctx, &r->pairs);
}

/* Trains into r->t with the rule's splitter, which is not yet the tokenizer's own. */
static weft_status train_split(trainer *r, int64_t n_bytes, int64_t vocab) {
    wefti_splitter *splitter;
    wefti_scan *scan = NULL;
    WEFT_TRY(wefti_splitter_create(r->ctx, r->t->rule, &splitter));
    weft_status status = wefti_scan_create(r->ctx, splitter, &scan);
    if (status == WEFT_OK) status = train(r, scan, n_bytes, vocab);
    wefti_scan_destroy(scan);
    wefti_splitter_destroy(r->ctx, splitter);
    trainer_fini(r);
    return status;
}

static weft_status check_arguments(weft_ctx *ctx, int64_t n_bytes, int64_t vocab,
                                   const char *split_rule, wefti_rule *rule) {
    if (n_bytes <= 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "there is no text to train a tokenizer on");
    if (vocab < 256 || vocab > LARGEST_VOCAB)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a tokenizer of %lld ids was asked for, expected 256 to %d",
                             (long long)vocab, LARGEST_VOCAB);
    if (wefti_rule_by_name(split_rule, rule)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "the splitting rule '%s' is not known, expected gpt2 or llama3",
                         split_rule);
}

weft_status weft_tokenizer_train(weft_ctx *ctx, const char *text, int64_t n_bytes,
                                 int64_t vocab, const char *split_rule,
                                 weft_tokenizer **out) {
    *out = NULL;
    wefti_rule rule;
    int missing;
    WEFT_TRY(check_arguments(ctx, n_bytes, vocab, split_rule, &rule));
    trainer r = {.ctx = ctx, .text = text};
    WEFT_TRY(wefti_vocab_create(ctx, rule, &r.t));
    weft_status status = train_split(&r, n_bytes, vocab);
    if (status == WEFT_OK) status = wefti_vocab_finish(ctx, r.t, &missing);
    if (status == WEFT_OK)
        *out = r.t;
    else
        weft_tokenizer_destroy(ctx, r.t);
    return status;
}
