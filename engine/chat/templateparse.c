/* SPDX-License-Identifier: MIT */
/* A template's text -> its tree, by recursive descent.
 *
 *     body        text | {{ expression }} | {% statement %} | {# comment #}
 *     statement   for, if, elif, else, set, generation, break, continue
 *
 * White space as transformers sets Jinja up: the newline behind a block or a comment is no
 * text (trim_blocks), nor are the blanks before one that stands first in its line
 * (lstrip_blocks); a minus in a tag takes all white space on its side, a plus takes nothing. */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "text/utf8.h"
#include "chat/templateparser.h"

enum { SHOWN = 24 };

/* ---- statements ---- */

/* The end of a tag, and the white space that it takes. */
static void end_tag(wefti_parser *p) {
    if (p->status == WEFT_OK && p->kind != TOKEN_END)
        wefti_parser_expected(p, "the end of the tag");
    if (p->status != WEFT_OK) return;
    int64_t n = wefti_parser_end_length(p, p->at);
    char sign = n == 3 ? p->text[p->at] : 0;
    if (n == 0) {
        wefti_parser_fail(p, "a tag does not end:", p->text + p->at, p->n - p->at);
        return;
    }
    p->at += n;
    if (sign == '-')
        while (p->at < p->n && wefti_parser_blank(p->text[p->at])) p->at++;
    else if (sign == 0 && p->closer == '%' && p->text[p->at] == '\n')
        p->at++;
    p->line_starts = p->text[p->at - 1] == '\n';
}

static void begin_tag(wefti_parser *p, char closer) {
    p->closer = closer;
    p->brackets = 0;
    p->n_token = 0;
    wefti_parser_advance(p);
}

/* How much of the text before the tag at `tag` is text. */
static int64_t kept_before(const wefti_parser *p, int64_t tag) {
    char sign = p->text[tag + 2];
    int64_t end = tag, from;
    if (sign == '-')
        while (end > p->at && wefti_parser_blank(p->text[end - 1])) end--;
    if (sign == '-' || sign == '+' || p->text[tag + 1] == '{') return end;
    for (from = tag; from > p->at && p->text[from - 1] != '\n'; from--)
        if (!wefti_parser_blank(p->text[from - 1])) return end;
    return from > p->at || p->line_starts ? from : end;
}

static int64_t find_tag(const wefti_parser *p) {
    int64_t tag = p->at;
    while (tag < p->n &&
           !(p->text[tag] == '{' && p->text[tag + 1] && strchr("{%#", p->text[tag + 1])))
        tag++;
    return tag;
}

static int parse_stretch(wefti_parser *p, int64_t tag) {
    int64_t end = tag < p->n ? kept_before(p, tag) : tag;
    int node = 0;
    if (end > p->at)
        node = wefti_parser_add_value(
            p, WEFTI_NODE_TEXT, json_stringn(p->text + p->at, (size_t)(end - p->at)));
    p->at = tag;
    return node;
}

/* {# ... #} */
static void skip_comment(wefti_parser *p) {
    const char *end = strstr(p->text + p->at + 2, "#}");
    if (!end) {
        wefti_parser_fail(p, "a comment does not end:", p->text + p->at, p->n - p->at);
        return;
    }
    p->closer = '%'; /* its white space is taken as a block's */
    p->at = end + 2 - p->text;
    if (end[-1] == '-')
        while (p->at < p->n && wefti_parser_blank(p->text[p->at])) p->at++;
    else if (end[-1] != '+' && p->text[p->at] == '\n')
        p->at++;
    p->line_starts = p->text[p->at - 1] == '\n';
}

static int parse_statement(wefti_parser *p);

/* Statements up to a tag that begins with one of the words (which is taken), or to the end of
 * the template if there are none. */
static int parse_body(wefti_parser *p, const char *const *words) {
    int first = 0, last = 0;
    if (++p->depth > WEFTI_TEMPLATE_DEPTH)
        return wefti_parser_fail(p, "nested too deeply:", "", 0);
    while (p->status == WEFT_OK) {
        int64_t tag = find_tag(p);
        wefti_parser_chain(p, &first, &last, parse_stretch(p, tag));
        if (p->status != WEFT_OK) break;
        if (tag >= p->n && words)
            return wefti_parser_fail(p, "the template ends before", words[0], SHOWN);
        if (tag >= p->n) break;
        char kind = p->text[tag + 1];
        if (kind == '#') {
            skip_comment(p);
            continue;
        }
        p->at += p->text[tag + 2] == '-' || p->text[tag + 2] == '+' ? 3 : 2;
        begin_tag(p, kind == '{' ? '}' : '%');
        if (kind == '{') {
            int value = wefti_parse_expression(p);
            end_tag(p);
            wefti_parser_chain(p, &first, &last,
                               wefti_parser_add_two(p, WEFTI_NODE_PRINT, 0, value, 0));
            continue;
        }
        for (int i = 0; words && words[i]; i++)
            if (wefti_parser_take_word(p, words[i])) {
                p->ended = words[i];
                p->depth--;
                return first;
            }
        wefti_parser_chain(p, &first, &last, parse_statement(p));
    }
    p->depth--;
    return first;
}

/* The body of a tag that ends with one word. */
static int parse_until(wefti_parser *p, const char *word) {
    const char *const words[] = {word, NULL};
    end_tag(p);
    int body = parse_body(p, words);
    end_tag(p);
    return body;
}

static json_t *take_names(wefti_parser *p) {
    json_t *names = json_array();
    bool fine = names != NULL, group = wefti_parser_take_sign(p, "(");
    do {
        fine = fine && json_array_append_new(names, wefti_parser_take_name(p)) == 0;
    } while (fine && p->status == WEFT_OK && wefti_parser_take_sign(p, ","));
    if (group) wefti_parser_expect(p, ")");
    if (fine) return names;
    json_decref(names);
    return NULL;
}

static int parse_for(wefti_parser *p) {
    static const char *const words[] = {"endfor", "else", NULL};
    int node = wefti_parser_add_value(p, WEFTI_NODE_FOR, take_names(p));
    if (p->status == WEFT_OK && !wefti_parser_take_word(p, "in"))
        return wefti_parser_expected(p, "'in'");
    int over = wefti_parse_or(p),
        only = wefti_parser_take_word(p, "if") ? wefti_parse_expression(p) : 0;
    end_tag(p);
    int body = parse_body(p, words), other = 0;
    if (p->status == WEFT_OK && wefti_is(p->ended, "else"))
        other = parse_until(p, "endfor");
    else
        end_tag(p);
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->a = over;
    wefti_parser_at(p, node)->b = only;
    wefti_parser_at(p, node)->c = body;
    wefti_parser_at(p, node)->d = other;
    return node;
}

static int parse_if(wefti_parser *p) {
    static const char *const words[] = {"endif", "elif", "else", NULL};
    int node = wefti_parser_add(p, WEFTI_NODE_IF), other = 0;
    int condition = wefti_parse_expression(p);
    end_tag(p);
    int body = parse_body(p, words);
    if (p->status != WEFT_OK) return 0;
    if (++p->depth > WEFTI_TEMPLATE_DEPTH)
        return wefti_parser_expected(p, "less nesting");
    if (wefti_is(p->ended, "elif"))
        other = parse_if(p);
    else if (wefti_is(p->ended, "else"))
        other = parse_until(p, "endif");
    else
        end_tag(p);
    p->depth--;
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->a = condition;
    wefti_parser_at(p, node)->b = body;
    wefti_parser_at(p, node)->c = other;
    return node;
}

static int parse_set(wefti_parser *p) {
    json_t *names = json_array();
    bool fine = names && json_array_append_new(names, wefti_parser_take_name(p)) == 0;
    if (fine && wefti_parser_take_sign(p, "."))
        fine = json_array_append_new(names, wefti_parser_take_name(p)) == 0;
    if (!fine) {
        json_decref(names);
        names = NULL;
    }
    int node = wefti_parser_add_value(p, WEFTI_NODE_SET, names), value = 0, body = 0;
    if (p->kind == TOKEN_END) {
        body = parse_until(p, "endset");
    } else {
        wefti_parser_expect(p, "=");
        value = wefti_parse_expression(p);
        end_tag(p);
    }
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->a = value;
    wefti_parser_at(p, node)->c = body;
    return node;
}

static int parse_plain(wefti_parser *p, wefti_node_kind kind) {
    int node = wefti_parser_add(p, kind), body = 0;
    if (kind == WEFTI_NODE_GENERATION)
        body = parse_until(p, "endgeneration");
    else
        end_tag(p);
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->c = body;
    p->t->marks |= kind == WEFTI_NODE_GENERATION;
    return node;
}

static int parse_statement(wefti_parser *p) {
    if (wefti_parser_take_word(p, "for")) return parse_for(p);
    if (wefti_parser_take_word(p, "if")) return parse_if(p);
    if (wefti_parser_take_word(p, "set")) return parse_set(p);
    if (wefti_parser_take_word(p, "generation"))
        return parse_plain(p, WEFTI_NODE_GENERATION);
    if (wefti_parser_take_word(p, "break")) return parse_plain(p, WEFTI_NODE_BREAK);
    if (wefti_parser_take_word(p, "continue")) return parse_plain(p, WEFTI_NODE_CONTINUE);
    return wefti_parser_expected(p, "for, if, set, generation, break or continue");
}

/* ---- all ---- */

/* The text with lines that end in \n alone, and without the last one's end. */
static weft_status unify_lines(weft_ctx *ctx, const char *text, int64_t n,
                               wefti_buffer *out) {
    for (int64_t i = 0; i < n; i++) {
        char c = text[i] == '\r' ? '\n' : text[i];
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') i++;
        wefti_buffer_put(ctx, out, &c, 1);
    }
    wefti_buffer_put(ctx, out, "", 0); /* a NUL, also behind nothing */
    if (out->status != WEFT_OK) return out->status;
    if (out->n > 0 && out->bytes[out->n - 1] == '\n') out->bytes[--out->n] = '\0';
    return WEFT_OK;
}

static weft_status parse_all(weft_ctx *ctx, wefti_template *t, const char *text,
                             int64_t n) {
    wefti_buffer lines = {0};
    if (memchr(text, 0, (size_t)n) || wefti_utf8_valid(text, n) < n)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is not text in UTF-8", t->where);
    weft_status status = unify_lines(ctx, text, n, &lines);
    wefti_parser p = {.ctx = ctx,
                      .t = t,
                      .status = status,
                      .text = lines.bytes,
                      .n = lines.n,
                      .line = 1,
                      .line_starts = true};
    if (status == WEFT_OK) wefti_parser_add(&p, WEFTI_NODE_TEXT); /* number 0 */
    if (p.status == WEFT_OK) t->body = parse_body(&p, NULL);
    wefti_buffer_fini(ctx, &lines);
    return p.status;
}

weft_status wefti_template_parse(weft_ctx *ctx, const char *text, int64_t n,
                                 const char *where, wefti_template **out) {
    wefti_template *t;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *t, "a template", &t));
    weft_status status = wefti_strdup(ctx, where, &t->where);
    if (status == WEFT_OK) status = parse_all(ctx, t, text, n);
    if (status == WEFT_OK)
        *out = t;
    else
        wefti_template_destroy(ctx, t);
    return status;
}

void wefti_template_destroy(weft_ctx *ctx, wefti_template *t) {
    if (!t) return;
    for (int64_t i = 0; i < t->n; i++) json_decref(t->nodes[i].value);
    wefti_free(ctx, t->nodes);
    wefti_free(ctx, t->where);
    wefti_free(ctx, t);
}

bool wefti_template_marks(const wefti_template *t) { return t->marks; }
