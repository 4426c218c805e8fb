/* SPDX-License-Identifier: MIT */
#ifndef TEST_PAGE_CHECK_H
#define TEST_PAGE_CHECK_H

#include "unit/record/helpers.h"

#include <ctype.h>

/* Fails unless the page is well-formed as far as this can tell: tags nest and close,
 * attributes are quoted, text has no bare '<' and every '&' begins one of our escapes;
 * unless it needs nothing from elsewhere; and if a number in a drawing is none. */

static inline bool is_void_tag(const char *name) {
    return strcmp(name, "meta") == 0 || strcmp(name, "!doctype") == 0;
}

/* Reads ` name="value"` pairs up to '>' or '/>'. */
static inline const char *check_attributes(const char *at, bool *closed) {
    *closed = false;
    for (;;) {
        while (*at == ' ' || *at == '\n') at++;
        if (*at == '>') return at + 1;
        if (at[0] == '/' && at[1] == '>') {
            *closed = true;
            return at + 2;
        }
        if (!isalpha((unsigned char)*at))
            fail_msg("an attribute begins with '%.20s'", at);
        while (isalnum((unsigned char)*at) || *at == '-') at++;
        if (*at != '=') continue; /* <!doctype html> */
        if (at[1] != '"') fail_msg("an attribute is not quoted: '%.20s'", at);
        at = strchr(at + 2, '"');
        if (!at) fail_msg("a quote does not end");
        at++;
    }
}

static inline void check_text(const char *begin, const char *end) {
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (const char *at = begin; at < end; at++) {
        if (*at == '>') fail_msg("a bare '>' at '%.20s'", at);
        if (*at != '&') continue;
        bool known = false;
        for (int i = 0; i < 5; i++)
            known |= strncmp(at, escapes[i], strlen(escapes[i])) == 0;
        if (!known) fail_msg("a bare '&' at '%.20s'", at);
    }
}

static inline void check_nesting(const char *page) {
    char open[64][16];
    int depth = 0;
    const char *at = page;
    while (*at) {
        const char *tag = strchr(at, '<');
        if (!tag) tag = at + strlen(at);
        bool is_style = depth && strcmp(open[depth - 1], "style") == 0;
        if (!is_style) check_text(at, tag);
        if (!*tag) break;
        bool ends = tag[1] == '/';
        const char *name = tag + 1 + ends;
        size_t n = strcspn(name, " >/\n");
        char word[16] = "";
        if (n >= sizeof word) fail_msg("a strange tag: '%.20s'", tag);
        memcpy(word, name, n);
        bool closed;
        at = check_attributes(name + n, &closed);
        if (ends) {
            if (!depth || strcmp(open[depth - 1], word) != 0)
                fail_msg("</%s> closes <%s>", word, depth ? open[depth - 1] : "");
            depth--;
        } else if (!closed && !is_void_tag(word)) {
            assert_true(depth < 64);
            strcpy(open[depth++], word);
        }
    }
    assert_int_equal(depth, 0);
}

static inline void check_paths(const char *page) {
    static const char begin[] = " d=\"";
    for (size_t at = 0; page[at]; at++) {
        if (strncmp(page + at, begin, 4) != 0) continue;
        size_t n = strcspn(page + at + 4, "\"");
        if (strspn(page + at + 4, "MLh0123456789.- ") < n)
            fail_msg("a path is '%.40s'", page + at);
    }
}

static inline void check_page(const char *page) {
    static const char *const foreign[] = {"http",    "src=", "href=",       "<script",
                                          "@import", "url(", "javascript:", " onload"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strstr(page, foreign[i])) fail_msg("the page has %s", foreign[i]);
    check_nesting(page);
    check_paths(page);
    static const char *const numbers[] = {"\"nan", "\"-nan", "\"inf", "\"-inf"};
    for (size_t i = 0; i < 4; i++) assert_null(strstr(page, numbers[i]));
}

#endif
