/* SPDX-License-Identifier: MIT */
#pragma once

#include "chat/templatenode.h"

/* What the two halves of the parser share: templateexpression.c and templateparse.c. */
enum { WEFTI_TEMPLATE_DEPTH = 64 };

typedef enum wefti_token_kind {
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_INT,
    TOKEN_SIGN,
    TOKEN_END /* of the tag, or of the template */
} wefti_token_kind;

typedef struct wefti_parser {
    weft_ctx *ctx;
    wefti_template *t;
    weft_status status; /* the first failure; after it nothing is done */
    const char *text;   /* [n], then a NUL; \n alone ends lines */
    int64_t n, at;
    int line, depth;
    int64_t line_at;  /* up to where lines are counted */
    bool line_starts; /* the text at hand begins where a line begins */
    /* the token at hand, of an expression */
    wefti_token_kind kind;
    const char *token;
    int64_t n_token;
    int brackets;      /* open ones, in which an end of the tag is none */
    char closer;       /* '}' or '%': of the tag at hand */
    const char *ended; /* the word that ended the last body */
} wefti_parser;

/* Failures with the line: "<fault> '<found>'", or "expected <expected>, not '<token>'". Both
 * return 0, no node. */
int wefti_parser_fail(wefti_parser *p, const char *fault, const char *found,
                      int64_t n_found);
int wefti_parser_expected(wefti_parser *p, const char *expected);

/* New nodes; 0 after a failure. A NULL value is a failure; it is taken. */
int wefti_parser_add(wefti_parser *p, wefti_node_kind kind);
int wefti_parser_add_value(wefti_parser *p, wefti_node_kind kind, json_t *value);
int wefti_parser_add_two(wefti_parser *p, wefti_node_kind kind, wefti_binary op, int a,
                         int b);
wefti_template_node *wefti_parser_at(wefti_parser *p, int node);

/* Joins a node to the end of a chain. */
void wefti_parser_chain(wefti_parser *p, int *first, int *last, int node);

/* The next token; what is at hand, if it is this. */
bool wefti_parser_blank(char c);
void wefti_parser_advance(wefti_parser *p);
bool wefti_parser_take_word(wefti_parser *p, const char *text);
bool wefti_parser_take_sign(wefti_parser *p, const char *text);
void wefti_parser_expect(wefti_parser *p, const char *sign);
json_t *wefti_parser_take_name(wefti_parser *p); /* NULL with a failure */

/* Bytes of the tag's end at `from`, with its sign; 0: there is none. */
int64_t wefti_parser_end_length(const wefti_parser *p, int64_t from);

int wefti_parse_expression(wefti_parser *p);
int wefti_parse_or(wefti_parser *p); /* an expression without if and else */
