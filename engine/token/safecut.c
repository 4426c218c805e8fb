/* SPDX-License-Identifier: MIT */
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
#include "token/splitter.h"
#include "base/utf8.h"

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
