/* SPDX-License-Identifier: MIT */
/* The normalizer, the pre_tokenizer, the added tokens and the model's settings of a
 * tokenizer.json -> pipeline. A part that would change ids and is not done here is refused by
 * its name. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "text/utf8.h"
#include "token/bytemap.h"
#include "token/loader.h"

#define BLANK "\xE2\x96\x81" /* U+2581, what Metaspace writes for a blank */

/* The splitting expressions of which it is known that a match never goes from an ASCII
 * letter or digit on to white space, and always ends there: those of GPT-2, Llama 3, Qwen 2
 * and GPT-4o. Texts are cut there and encoded in parts. */
static const char *const parting[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
    "\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}"
    "\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL};

/* What is learnt on the way about the places where a text may be cut. */
typedef struct builder {
    wefti_loader *l;
    wefti_pipeline *p;
    bool parts;  /* an expression of `parting` splits */
    bool opaque; /* some step may look across any place */
    bool byte_level;
} builder;

/* -- parts of steps -- */

static weft_status copy_text(const builder *b, const json_t *part, const char *key,
                             wefti_step *step) {
    const json_t *value = json_object_get(part, key);
    if (!json_is_string(value))
        return weft_ctx_fail(b->l->ctx, WEFT_ERR_FORMAT, "%s: %s has no text as its %s",
                             b->l->path, wefti_loader_type(part), key);
    step->n_text = (int64_t)json_string_length(value);
    WEFT_TRY(wefti_alloc_n(b->l->ctx, step->n_text + 1, 1, "a step's text", &step->text));
    memcpy(step->text, json_string_value(value), (size_t)step->n_text);
    return WEFT_OK;
}

/* Puts the file's name before a sentence of the pattern's. */
static weft_status blame_file(const builder *b, weft_status status) {
    char sentence[300];
    if (status != WEFT_ERR_FORMAT) return status;
    const char *message = weft_ctx_message(b->l->ctx);
    size_t n = strlen(message) < sizeof sentence - 1 ? strlen(message)
                                                     : sizeof sentence - 1;
    memcpy(sentence, message, n);
    sentence[n] = '\0';
    weft_ctx_clear(b->l->ctx); /* the first sentence stays otherwise */
    return weft_ctx_fail(b->l->ctx, status, "%s: %s", b->l->path, sentence);
}

/* {"String": ".."} or {"Regex": ".."}. */
static weft_status read_pattern(builder *b, const json_t *part, wefti_step *step) {
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *text = json_object_get(pattern, "String");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *value = regex ? regex : text;
    if (!json_is_string(value))
        return weft_ctx_fail(b->l->ctx, WEFT_ERR_FORMAT,
                             "%s: the pattern of %s is neither a String nor a Regex",
                             b->l->path, wefti_loader_type(part));
    return blame_file(b, wefti_pattern_create(b->l->ctx, json_string_value(value),
                                              (int64_t)json_string_length(value),
                                              regex != NULL, &step->pattern));
}

static bool is_one_character(const char *text, int64_t n) {
    uint32_t code;
    return n > 0 && wefti_utf8_decode(text, n, &code) == n;
}

/* What a blank becomes. */
static weft_status note_blank(const builder *b, const char *text, int64_t n) {
    if (!is_one_character(text, n) || b->p->blank) return WEFT_OK;
    return wefti_strdup(b->l->ctx, text, &b->p->blank);
}

/* -- normalizers -- */

static weft_status add_form(const builder *b, wefti_form form) {
    wefti_step *step;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_FORM;
    step->form = form;
    return WEFT_OK;
}

/* A pattern of one character looks at nothing beside it. */
static weft_status add_replace(builder *b, const json_t *part) {
    wefti_step *step;
    const json_t *pattern = json_object_get(json_object_get(part, "pattern"), "String");
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_REPLACE;
    WEFT_TRY(copy_text(b, part, "content", step));
    WEFT_TRY(read_pattern(b, part, step));
    const char *from = json_string_value(pattern);
    int64_t n = (int64_t)json_string_length(pattern);
    if (!from || !is_one_character(from, n)) {
        b->opaque = true;
        return WEFT_OK;
    }
    if (strcmp(from, " ") == 0) return note_blank(b, step->text, step->n_text);
    if ((unsigned char)from[0] < 0x80) b->opaque = true; /* the cuts look at those */
    return WEFT_OK;
}

static weft_status add_strip(const builder *b, const json_t *part) {
    wefti_step *step;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_STRIP;
    WEFT_TRY(wefti_loader_flag(b->l, part, "strip_left", true, &step->left));
    return wefti_loader_flag(b->l, part, "strip_right", true, &step->right);
}

static weft_status add_prepend(const builder *b, const json_t *part) {
    wefti_step *step;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_PREPEND;
    return copy_text(b, part, "prepend", step);
}

static weft_status add_normalizer(builder *b, const json_t *part) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *type = wefti_loader_type(part);
    for (int k = 0; k < 4; k++)
        if (wefti_is(type, forms[k])) return add_form(b, (wefti_form)k);
    if (wefti_is(type, "Replace")) return add_replace(b, part);
    if (wefti_is(type, "Prepend")) return add_prepend(b, part);
    if (wefti_is(type, "Strip")) return add_strip(b, part);
    return wefti_loader_refuse(
        b->l, "the normalizer", type,
        "NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip or a Sequence of them");
}

/* A part, or the parts of a Sequence under `key`; Sequences do not nest. */
static weft_status each(builder *b, const json_t *part, const char *key,
                        weft_status (*add)(builder *, const json_t *)) {
    size_t k;
    json_t *step;
    if (!part) return WEFT_OK;
    if (!wefti_is(wefti_loader_type(part), "Sequence")) return add(b, part);
    json_array_foreach(json_object_get(part, key), k, step) WEFT_TRY(add(b, step));
    return WEFT_OK;
}

/* -- pre-tokenizers -- */

static weft_status add_split_step(const builder *b, const char *regex,
                                  wefti_behavior behavior) {
    wefti_step *step;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_SPLIT;
    step->behavior = behavior;
    return wefti_pattern_create(b->l->ctx, regex, (int64_t)strlen(regex), true,
                                &step->pattern);
}

static weft_status read_behavior(const builder *b, const json_t *part, wefti_step *step) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(part, "behavior"));
    for (int k = 0; name && k < 5; k++)
        if (wefti_is(name, names[k])) {
            step->behavior = (wefti_behavior)k;
            return WEFT_OK;
        }
    return wefti_loader_refuse(b->l, "the behavior of Split", name ? name : "",
                               "Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                               "Contiguous");
}

/* A blank that became another character is not there to split at (Gemma), so that a Split at
 * it changes nothing. */
static bool never_matches(const builder *b, const json_t *part) {
    const char *text = json_string_value(
        json_object_get(json_object_get(part, "pattern"), "String"));
    return text && wefti_is(text, " ") && b->p->blank;
}

static weft_status add_split(builder *b, const json_t *part) {
    wefti_step *step;
    const char *regex = json_string_value(
        json_object_get(json_object_get(part, "pattern"), "Regex"));
    bool known = false;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_SPLIT;
    WEFT_TRY(read_behavior(b, part, step));
    WEFT_TRY(wefti_loader_flag(b->l, part, "invert", false, &step->invert));
    for (int k = 0; regex && parting[k]; k++)
        known = known || wefti_is(regex, parting[k]);
    bool whole = step->behavior == WEFTI_ISOLATED ||
                 (step->behavior == WEFTI_REMOVED && step->invert);
    if (known && whole)
        b->parts = true;
    else if (!never_matches(b, part))
        b->opaque = true;
    return read_pattern(b, part, step);
}

static weft_status read_front(const builder *b, const json_t *part, wefti_step *step) {
    static const char *const names[] = {"always", "first", "never"};
    const json_t *scheme = wefti_loader_get(part, "prepend_scheme");
    const char *name = json_string_value(scheme);
    bool prefix;
    if (!scheme) { /* older files say it so */
        WEFT_TRY(wefti_loader_flag(b->l, part, "add_prefix_space", true, &prefix));
        step->front = prefix ? WEFTI_FRONT_ALWAYS : WEFTI_FRONT_NEVER;
        return WEFT_OK;
    }
    for (int k = 0; name && k < 3; k++)
        if (wefti_is(name, names[k])) {
            step->front = (wefti_front)k;
            return WEFT_OK;
        }
    return wefti_loader_refuse(b->l, "prepend_scheme of Metaspace", name ? name : "",
                               "always, first or never");
}

static weft_status add_metaspace(builder *b, const json_t *part) {
    wefti_step *step;
    bool split;
    WEFT_TRY(wefti_loader_flag(b->l, part, "split", true, &split));
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
    step->kind = WEFTI_STEP_METASPACE;
    WEFT_TRY(copy_text(b, part, "replacement", step));
    WEFT_TRY(read_front(b, part, step));
    if (step->n_text == 0)
        return wefti_loader_refuse(b->l, "replacement of Metaspace", "", "a character");
    WEFT_TRY(note_blank(b, step->text, step->n_text));
    if (!split) return WEFT_OK;
    wefti_step *cut;
    WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &cut));
    step = cut - 1;
    cut->kind = WEFTI_STEP_SPLIT;
    cut->behavior = WEFTI_WITH_NEXT;
    return wefti_pattern_create(b->l->ctx, step->text, step->n_text, false,
                                &cut->pattern);
}

static weft_status add_byte_level(builder *b, const json_t *part) {
    bool use_regex, prefix;
    wefti_step *step;
    WEFT_TRY(wefti_loader_flag(b->l, part, "use_regex", true, &use_regex));
    WEFT_TRY(wefti_loader_flag(b->l, part, "add_prefix_space", true, &prefix));
    if (b->byte_level)
        return wefti_loader_refuse(b->l, "a second pre_tokenizer", "ByteLevel",
                                   "one at the end");
    b->byte_level = true;
    if (prefix) {
        WEFT_TRY(wefti_pipeline_add(b->l->ctx, b->p, &step));
        step->kind = WEFTI_STEP_PREFIX;
    }
    if (!use_regex) return WEFT_OK;
    b->parts = true;
    return add_split_step(b, parting[0], WEFTI_ISOLATED);
}

static weft_status add_digits(builder *b, const json_t *part) {
    bool individual;
    WEFT_TRY(wefti_loader_flag(b->l, part, "individual_digits", false, &individual));
    return add_split_step(b, "\\p{N}", individual ? WEFTI_ISOLATED : WEFTI_CONTIGUOUS);
}

static weft_status add_pre_tokenizer(builder *b, const json_t *part) {
    const char *type = wefti_loader_type(part);
    if (b->byte_level)
        return wefti_loader_refuse(b->l, "a pre_tokenizer after ByteLevel", type, "none");
    if (wefti_is(type, "ByteLevel")) return add_byte_level(b, part);
    if (wefti_is(type, "Split")) return add_split(b, part);
    if (wefti_is(type, "Digits")) return add_digits(b, part);
    if (wefti_is(type, "Metaspace")) return add_metaspace(b, part);
    return wefti_loader_refuse(
        b->l, "a pre_tokenizer", type,
        "ByteLevel, Split, Digits, Metaspace or a Sequence of them");
}

/* -- the whole -- */

/* The beginning of a safe place must not lie inside of an added token. */
static bool may_lie_across(const char *text, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        uint32_t code;
        bool space = wefti_utf8_decode(text + i, n - i, &code) > 0 &&
                     wefti_utf8_is_space(code);
        if (space && (unsigned char)text[i - 1] < 0x80 &&
            !(text[i - 1] == ' ' || (text[i - 1] >= '\t' && text[i - 1] <= '\r')))
            return true;
    }
    return false;
}

static weft_status add_token(builder *b, wefti_pieces *pieces, const json_t *added) {
    const json_t *content = json_object_get(added, "content");
    const char *text = json_string_value(content);
    int64_t n = (int64_t)json_string_length(content);
    wefti_added t = {.id = (int32_t)json_integer_value(json_object_get(added, "id"))};
    bool normalized;
    weft_ctx *ctx = b->l->ctx;
    WEFT_TRY(wefti_loader_flag(b->l, added, "special", false, &t.special));
    WEFT_TRY(wefti_loader_flag(b->l, added, "single_word", false, &t.single_word));
    WEFT_TRY(wefti_loader_flag(b->l, added, "lstrip", false, &t.lstrip));
    WEFT_TRY(wefti_loader_flag(b->l, added, "rstrip", false, &t.rstrip));
    WEFT_TRY(wefti_loader_flag(b->l, added, "normalized", !t.special, &normalized));
    if (!t.special && (t.single_word || t.lstrip || t.rstrip)) b->opaque = true;
    if (may_lie_across(text, n)) b->opaque = true;
    if (!normalized) return wefti_added_put(ctx, &b->p->plain, &t, text, n);
    WEFT_TRY(wefti_pipeline_normalize(b->p, pieces, text, n));
    return wefti_added_put(ctx, &b->p->normalized, &t, pieces->text.bytes,
                           pieces->text.n);
}

/* After the vocabulary is read: contents and ids are checked then. */
static weft_status read_added(wefti_loader *l) {
    builder b = {.l = l, .p = l->t->pipeline};
    wefti_pieces pieces = {0};
    size_t k;
    json_t *added;
    weft_status status = wefti_pieces_init(l->ctx, &pieces);
    json_array_foreach(wefti_loader_get(l->root, "added_tokens"), k, added) {
        if (status == WEFT_OK) status = add_token(&b, &pieces, added);
    }
    wefti_pieces_fini(&pieces);
    if (b.opaque) b.p->cuts = WEFTI_CUTS_NONE;
    wefti_added_sort(&b.p->plain);
    wefti_added_sort(&b.p->normalized);
    return status;
}

static weft_status read_model(const builder *b) {
    wefti_pipeline *p = b->p;
    bool ignore;
    WEFT_TRY(wefti_loader_flag(b->l, b->l->model, "byte_fallback", false, &p->fallback));
    WEFT_TRY(wefti_loader_flag(b->l, b->l->model, "fuse_unk", false, &p->fuse_unknown));
    WEFT_TRY(wefti_loader_flag(b->l, b->l->model, "ignore_merges", false, &ignore));
    p->chars = !b->byte_level;
    p->unknown = -1;
    b->l->t->ignore_merges = ignore;
    return WEFT_OK;
}

/* What shows the text of ids again; only what the vocabulary needs is done with it. */
static weft_status check_decoder(const wefti_loader *l, const json_t *part) {
    static const char *const known[] = {
        "ByteLevel", "Metaspace", "Replace", "ByteFallback", "Fuse", "Strip", NULL};
    size_t k;
    json_t *step;
    if (!part || wefti_named(known, wefti_loader_type(part))) return WEFT_OK;
    if (!wefti_is(wefti_loader_type(part), "Sequence"))
        return wefti_loader_refuse(l, "the decoder", wefti_loader_type(part),
                                   "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, "
                                   "Strip or a Sequence of them");
    json_array_foreach(json_object_get(part, "decoders"), k, step) {
        if (wefti_is(wefti_loader_type(step), "Sequence"))
            return wefti_loader_refuse(l, "a step of the decoder", "Sequence",
                                       "no nesting");
        WEFT_TRY(check_decoder(l, step));
    }
    return WEFT_OK;
}

weft_status wefti_loader_steps(wefti_loader *l) {
    builder b = {.l = l, .p = l->t->pipeline};
    WEFT_TRY(check_decoder(l, wefti_loader_get(l->root, "decoder")));
    WEFT_TRY(
        each(&b, wefti_loader_get(l->root, "normalizer"), "normalizers", add_normalizer));
    b.p->n_normalizers = b.p->n_steps;
    WEFT_TRY(each(&b, wefti_loader_get(l->root, "pre_tokenizer"), "pretokenizers",
                  add_pre_tokenizer));
    WEFT_TRY(read_model(&b));
    /* blanks that became characters: WEFTI_CUTS_BLANK holds if no merge crosses them, which
     * the merges say */
    b.p->cuts = b.opaque     ? WEFTI_CUTS_NONE
                : b.p->blank ? WEFTI_CUTS_BLANK
                : b.parts    ? WEFTI_CUTS_SPACE
                             : WEFTI_CUTS_NONE;
    return WEFT_OK;
}

/* -- which files are the plain ones -- */

static bool has_all_bytes(const json_t *vocab) {
    char name[8];
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        int64_t n = wefti_bytemap_encode(&c, 1, name);
        name[n] = '\0';
        if (!json_object_get(vocab, name)) return false;
    }
    return true;
}

static bool flag_is(const json_t *part, const char *key, bool fallback, bool wanted) {
    const json_t *value = wefti_loader_get(part, key);
    return (value ? json_is_true(value) : fallback) == wanted;
}

static bool is_plain_level(const json_t *part, bool regex) {
    return wefti_is(wefti_loader_type(part), "ByteLevel") &&
           flag_is(part, "add_prefix_space", true, false) &&
           flag_is(part, "use_regex", true, regex);
}

static bool is_plain_rule(const json_t *part, const json_t *model) {
    if (!wefti_is(wefti_loader_type(part), "Sequence"))
        return is_plain_level(part, true) ||
               (is_plain_level(part, false) &&
                json_array_size(json_object_get(model, "merges")) == 0 &&
                json_object_size(json_object_get(model, "vocab")) == 256);
    const json_t *list = json_object_get(part, "pretokenizers");
    const json_t *split = json_array_get(list, 0);
    const char *regex = json_string_value(
        json_object_get(json_object_get(split, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    bool invert = flag_is(split, "invert", false, true);
    wefti_rule rule;
    return json_array_size(list) == 2 && wefti_is(wefti_loader_type(split), "Split") &&
           regex && wefti_rule_by_regex(regex, &rule) && behavior &&
           wefti_is(behavior, invert ? "Removed" : "Isolated") &&
           is_plain_level(json_array_get(list, 1), false);
}

/* Tokens that are looked for in text make a file one with steps. */
static bool has_plain_tokens(const json_t *added) {
    size_t k;
    json_t *token;
    json_array_foreach(added, k, token) {
        if (!flag_is(token, "special", false, true)) return false;
    }
    return true;
}

bool wefti_loader_is_plain(const wefti_loader *l) {
    const json_t *decoder = wefti_loader_get(l->root, "decoder");
    return !wefti_loader_get(l->root, "normalizer") &&
           (!decoder || wefti_is(wefti_loader_type(decoder), "ByteLevel")) &&
           is_plain_rule(wefti_loader_get(l->root, "pre_tokenizer"), l->model) &&
           flag_is(l->model, "byte_fallback", false, false) &&
           has_plain_tokens(wefti_loader_get(l->root, "added_tokens")) &&
           has_all_bytes(json_object_get(l->model, "vocab"));
}

/* What follows from a tokenizer.json's vocabulary and merges once all of it is read: the tokens
 * of bytes, the unknown token, whether words stand apart, and what ids show.
 *
 * What an id shows: an added token its own text; of a vocabulary of bytes the bytes of its name;
 * of one of characters its name with blanks for U+2581 (or what the file writes for a blank),
 * and <0x0A> the byte 0A if the file falls back to bytes. */

static int32_t find_name(const weft_tokenizer *t, int byte) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    return wefti_vocab_find(t, name, (int64_t)strlen(name));
}

/* Byte tokens count only all together, as the fallback wants them one by one; -1: none. */
static void find_bytes(weft_tokenizer *t) {
    const wefti_pipeline *p = t->pipeline;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->byte_ids[byte] = !p->chars     ? wefti_vocab_find(t, &c, 1)
                            : p->fallback ? find_name(t, byte)
                                          : -1;
    }
}

static weft_status find_unknown(const wefti_loader *l) {
    const json_t *value = wefti_loader_get(l->model, "unk_token");
    wefti_pipeline *p = l->t->pipeline;
    const char *name = json_string_value(value);
    if (!value) return WEFT_OK;
    if (!name) return wefti_loader_refuse(l, "unk_token", "no text", "a token");
    for (int64_t id = 0; id < l->t->vocab; id++) {
        const wefti_token *token = &l->t->tokens[id];
        if ((token->flags & WEFTI_TOKEN_EXISTS) &&
            (size_t)token->n_bytes == strlen(name) &&
            memcmp(l->t->text + token->offset, name, strlen(name)) == 0)
            p->unknown = (int32_t)id;
    }
    if (p->unknown >= 0) return WEFT_OK;
    return wefti_loader_refuse(l, "unk_token", name, "a token of the vocabulary");
}

static bool ends_in_blank(const weft_tokenizer *t, int32_t id, const char *blank) {
    const wefti_token *token = &t->tokens[id];
    int64_t m = (int64_t)strlen(blank);
    return token->n_bytes >= m &&
           memcmp(t->text + token->offset + token->n_bytes - m, blank, (size_t)m) == 0;
}

static bool starts_in_blank(const weft_tokenizer *t, int32_t id, const char *blank) {
    const wefti_token *token = &t->tokens[id];
    int64_t m = (int64_t)strlen(blank);
    return token->n_bytes >= m && memcmp(t->text + token->offset, blank, (size_t)m) == 0;
}

/* Whether no merge joins something that is no blank with a blank behind it. */
static bool stand_apart(const weft_tokenizer *t) {
    const char *blank = t->pipeline->blank;
    if (!blank || !t->pipeline->chars || t->ignore_merges) return false;
    if (wefti_vocab_find(t, blank, (int64_t)strlen(blank)) < 0) return false;
    for (int64_t rank = 0; rank < t->merges.n; rank++) {
        int32_t left = (int32_t)(t->merges.keys[rank] >> 32);
        int32_t right = (int32_t)(t->merges.keys[rank] & UINT32_MAX);
        if (starts_in_blank(t, right, blank) && !ends_in_blank(t, left, blank))
            return false;
    }
    return true;
}

/* -- what ids show -- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a name of the fallback means, or -1. */
static int byte_of(const char *name, int64_t n) {
    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    int high = hex_digit(name[3]), low = hex_digit(name[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Writes what a name of characters shows to out, which has room for the name. */
static int64_t show_name(const wefti_pipeline *p, const char *name, int64_t n,
                         char *out) {
    int byte = p->fallback ? byte_of(name, n) : -1;
    int64_t m = p->blank ? (int64_t)strlen(p->blank) : 0, length = 0;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    for (int64_t at = 0; at < n;) {
        bool blank = m > 0 && n - at >= m && memcmp(name + at, p->blank, (size_t)m) == 0;
        out[length++] = blank ? ' ' : name[at];
        at += blank ? m : 1;
    }
    return length;
}

static weft_status show_names(const wefti_loader *l) {
    weft_tokenizer *t = l->t;
    int64_t at = 0;
    WEFT_TRY(wefti_alloc_n(l->ctx, t->vocab, sizeof *t->shown, "the tokens", &t->shown));
    WEFT_TRY(
        wefti_alloc_n(l->ctx, t->n_text + 1, 1, "the tokens' bytes", &t->shown_text));
    for (int64_t id = 0; id < t->vocab; id++) {
        const wefti_token *token = &t->tokens[id];
        bool plain = !t->pipeline->chars || !(token->flags & WEFTI_TOKEN_MODEL) ||
                     (token->flags & WEFTI_TOKEN_SPECIAL);
        const char *name = t->text + token->offset;
        t->shown[id] = (wefti_token){.offset = at, .flags = token->flags};
        if (plain) memcpy(t->shown_text + at, name, (size_t)token->n_bytes);
        t->shown[id].n_bytes = plain
                                   ? token->n_bytes
                                   : (int32_t)show_name(t->pipeline, name, token->n_bytes,
                                                        t->shown_text + at);
        at += t->shown[id].n_bytes;
    }
    return WEFT_OK;
}

weft_status wefti_loader_finish(wefti_loader *l) {
    wefti_pipeline *p = l->t->pipeline;
    find_bytes(l->t);
    WEFT_TRY(find_unknown(l));
    WEFT_TRY(read_added(l));
    p->apart = stand_apart(l->t);
    if (p->cuts == WEFTI_CUTS_BLANK && !p->apart) p->cuts = WEFTI_CUTS_NONE;
    return show_names(l);
}
