/* SPDX-License-Identifier: MIT */
#pragma once

#include "chat/template.h"

/* A template as a tree. Nodes are numbers in one table; 0 is none, so that a node of zeros
 * has no parts. `next` joins statements, items, arguments and pairs to chains. */
typedef enum wefti_node_kind {
    /* statements */
    WEFTI_NODE_TEXT,       /* value */
    WEFTI_NODE_PRINT,      /* a */
    WEFTI_NODE_FOR,        /* value: names; a: over what; b: only if; c: body; d: else */
    WEFTI_NODE_IF,         /* a: condition; b: then; c: else */
    WEFTI_NODE_SET,        /* value: [name] or [namespace, name]; a: what, or c: body */
    WEFTI_NODE_GENERATION, /* c: body */
    WEFTI_NODE_BREAK,
    WEFTI_NODE_CONTINUE,
    /* expressions */
    WEFTI_NODE_LITERAL, /* value */
    WEFTI_NODE_NAME,    /* value */
    WEFTI_NODE_LIST,    /* a: items */
    WEFTI_NODE_DICT,    /* a: key, value, key, value ... */
    WEFTI_NODE_GET,     /* a[b], a.b */
    WEFTI_NODE_SLICE,   /* a[b:c:d] */
    WEFTI_NODE_CALL,    /* a: a NAME, or a GET: a method; b: arguments */
    WEFTI_NODE_FILTER,  /* a | value(b) */
    WEFTI_NODE_TEST,    /* a is value(b) */
    WEFTI_NODE_NAMED,   /* an argument value=a */
    WEFTI_NODE_NOT,
    WEFTI_NODE_MINUS,
    WEFTI_NODE_AND,
    WEFTI_NODE_OR,
    WEFTI_NODE_CHOICE, /* b if a else c */
    WEFTI_NODE_BINARY  /* a op b */
} wefti_node_kind;

typedef enum wefti_binary {
    WEFTI_EQUAL,
    WEFTI_UNEQUAL,
    WEFTI_LESS,
    WEFTI_MORE,
    WEFTI_AT_MOST,
    WEFTI_AT_LEAST,
    WEFTI_IN,
    WEFTI_NOT_IN,
    WEFTI_PLUS,
    WEFTI_LESS_BY,
    WEFTI_TIMES,
    WEFTI_WHOLE,
    WEFTI_REST,
    WEFTI_JOIN
} wefti_binary;

typedef struct wefti_template_node {
    wefti_node_kind kind;
    wefti_binary op;
    int line;
    int a, b, c, d, next;
    json_t *value; /* owned */
} wefti_template_node;

struct wefti_template {
    char *where;                /* owned */
    wefti_template_node *nodes; /* [n], owned */
    int64_t n, room;
    int body; /* first statement */
    bool marks;
};
