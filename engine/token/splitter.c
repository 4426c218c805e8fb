/* SPDX-License-Identifier: MIT */
/* Splitting rules through PCRE2. The expressions are those of GPT-2 (Radford et al.
 * 2019) and Llama 3, with \s written out as the Unicode property White_Space, which is
 * what it means to the other programs that read these files (PCRE2's own \s also has
 * U+180E). Every character is matched by some alternative, so the matches tile the
 * text; no alternative nests one repetition in another, so the work of a match is
 * linear in what it looks at. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <string.h>

#include "text/utf8.h"
#include "token/pcrememory.h"
#include "token/splitter.h"

#define SPACES "\\p{Z}\\x{09}-\\x{0D}\\x{85}"

typedef struct rule_text {
    const char *name, *regex, *compiled;
} rule_text;

static const rule_text rules[] = {
    [WEFTI_RULE_NONE] = {"none", NULL, NULL},
    [WEFTI_RULE_GPT2] = {"gpt2",
                         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
                         "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES
                         "\\p{L}\\p{N}]+|"
                         "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"},
    [WEFTI_RULE_LLAMA3] =
        {"llama3",
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
         " ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+|"
         "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"},
    [WEFTI_RULE_STEPS] = {"steps", NULL, NULL},
};
enum { N_RULES = WEFTI_RULE_STEPS }; /* those that are expressions, and none */

struct wefti_splitter {
    pcre_expression rule;
};

struct wefti_scan {
    weft_ctx *ctx;
    pcre_matching room;
    const wefti_splitter *splitter; /* borrowed */
    const char *text;
    int64_t n_bytes, at;
    int64_t run_start, run_end; /* the stretch of valid UTF-8 that `at` is in */
};

const char *wefti_rule_name(wefti_rule rule) { return rules[rule].name; }
const char *wefti_rule_regex(wefti_rule rule) { return rules[rule].regex; }

bool wefti_rule_by_name(const char *name, wefti_rule *rule) {
    for (int i = WEFTI_RULE_GPT2; i < N_RULES; i++) {
        if (strcmp(name, rules[i].name) != 0) continue;
        *rule = (wefti_rule)i;
        return true;
    }
    return false;
}

bool wefti_rule_by_regex(const char *regex, wefti_rule *rule) {
    for (int i = WEFTI_RULE_GPT2; i < N_RULES; i++) {
        if (strcmp(regex, rules[i].regex) != 0) continue;
        *rule = (wefti_rule)i;
        return true;
    }
    return false;
}

weft_status wefti_splitter_create(weft_ctx *ctx, wefti_rule rule, wefti_splitter **out) {
    *out = NULL;
    wefti_splitter *splitter;
    WEFT_TRY(wefti_alloc(ctx, sizeof *splitter, "the splitting rule", &splitter));
    weft_status status = pcre_compile(ctx, &splitter->rule, rules[rule].compiled,
                                      PCRE2_ANCHORED | PCRE2_NO_START_OPTIMIZE,
                                      WEFT_ERR_INTERNAL, "compile a rule");
    if (status != WEFT_OK)
        wefti_splitter_destroy(ctx, splitter);
    else
        *out = splitter;
    return status;
}

void wefti_splitter_destroy(weft_ctx *ctx, wefti_splitter *splitter) {
    if (!splitter) return;
    pcre_release(ctx, &splitter->rule);
    wefti_free(ctx, splitter);
}

weft_status wefti_scan_create(weft_ctx *ctx, const wefti_splitter *splitter,
                              wefti_scan **out) {
    *out = NULL;
    wefti_scan *scan;
    WEFT_TRY(wefti_alloc(ctx, sizeof *scan, "a walk over text", &scan));
    scan->ctx = ctx;
    scan->splitter = splitter;
    weft_status status = splitter ? pcre_open(ctx, &scan->room) : WEFT_OK;
    if (status == WEFT_OK)
        *out = scan;
    else
        wefti_scan_destroy(scan);
    return status;
}

void wefti_scan_destroy(wefti_scan *scan) {
    if (!scan) return;
    pcre_close(&scan->room);
    wefti_free(scan->ctx, scan);
}

void wefti_scan_start(wefti_scan *scan, const char *text, int64_t n_bytes) {
    scan->text = text;
    scan->n_bytes = n_bytes;
    scan->at = scan->run_start = scan->run_end = 0;
}

/* Finds the stretch of valid UTF-8 that begins at `at`. A match looks at each byte of
 * it a few times at most, which bounds the work that a fault of ours could cost. */
static void find_run(wefti_scan *scan) {
    int64_t n = wefti_utf8_valid(scan->text + scan->at, scan->n_bytes - scan->at);
    scan->run_start = scan->at;
    scan->run_end = scan->at + n;
    uint64_t limit = 1000 + 16 * (uint64_t)n;
    pcre2_set_match_limit(scan->room.limits,
                          limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
}

static weft_status match(wefti_scan *scan, int64_t *n_bytes) {
    int64_t from = scan->at - scan->run_start;
    int rc = pcre_match(scan->splitter->rule.code, &scan->room,
                        scan->text + scan->run_start, scan->run_end - scan->run_start,
                        from, 0);
    if (rc < 0)
        return fail_pcre(&scan->room.memory, WEFT_ERR_INTERNAL, rc, "split the text");
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(scan->room.match);
    *n_bytes = (int64_t)(span[1] - span[0]);
    if (span[0] == (size_t)from && *n_bytes > 0) return WEFT_OK;
    return weft_ctx_fail(scan->ctx, WEFT_ERR_INTERNAL,
                         "the splitting rule matched nothing at byte %lld of the text",
                         (long long)scan->at);
}

weft_status wefti_scan_next(wefti_scan *scan, const char **piece, int64_t *n_bytes) {
    *piece = scan->text + scan->at;
    *n_bytes = 0;
    if (scan->at == scan->n_bytes) return WEFT_OK;
    if (!scan->splitter) {
        *n_bytes = scan->n_bytes - scan->at;
    } else {
        if (scan->at >= scan->run_end) find_run(scan);
        if (scan->at == scan->run_end)
            *n_bytes = 1; /* not UTF-8 */
        else
            WEFT_TRY(match(scan, n_bytes));
    }
    scan->at += *n_bytes;
    return WEFT_OK;
}

/* Where text may be cut without changing its pieces. Two kinds of place are safe:
 *   A  ASCII letter or digit | ASCII white space
 *   B  not white space, newline | not white space
 * No alternative of a rule matches across either place (a piece has white space after
 * a letter or digit never, and "\n" before something else never), so each is a piece's
 * edge. The pieces before it do not change when the text ends there: repetitions stop
 * there anyway, and the one thing that looks ahead, \s+(?!\S), starts from white space
 * that reaches the cut, which in A is none and in B is the single "\n": as `\s+` or
 * with the lookahead, it is the same piece. A byte that is not UTF-8 is a piece of its
 * own and counts as not white space. docs/file-formats.md has this in full. */

enum { LONGEST_CHARACTER = 4 };

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool starts_with_space(const char *text, int64_t n) {
    uint32_t code;
    return wefti_utf8_decode(text, n, &code) > 0 && wefti_utf8_is_space(code);
}

static bool ends_with_space(const char *text, int64_t n) {
    uint32_t code;
    for (int length = 1; length <= LONGEST_CHARACTER && length <= n; length++)
        if (wefti_utf8_decode(text + n - length, length, &code) == length)
            return wefti_utf8_is_space(code);
    return false;
}

static bool is_safe(const char *text, int64_t n, int64_t p) {
    char before = text[p - 1], after = text[p];
    if (is_alnum(before)) return after == ' ' || (after >= '\t' && after <= '\r');
    if (before != '\n' || p < 2) return false;
    return !starts_with_space(text + p, n - p) && !ends_with_space(text, p - 1);
}

int64_t wefti_safe_cut_after(const char *text, int64_t n_bytes, int64_t from) {
    int64_t last = n_bytes -
                   LONGEST_CHARACTER; /* the character after the cut is in view */
    for (int64_t p = from > 1 ? from : 1; p <= last; p++)
        if (is_safe(text, n_bytes, p)) return p;
    return -1;
}

int64_t wefti_safe_cut_before(const char *text, int64_t n_bytes, int64_t from) {
    int64_t last = n_bytes - LONGEST_CHARACTER;
    for (int64_t p = from < last ? from : last; p >= 1; p--)
        if (is_safe(text, n_bytes, p)) return p;
    return -1;
}
