/* SPDX-License-Identifier: MIT */
#pragma once

#include "chat/templatenode.h"

/* Values of a template are those of JSON; NULL is what Jinja calls undefined. Functions
 * borrow their arguments and return a new reference. The first failure is kept in the
 * machine, and everything after it does nothing. */
enum { WEFTI_TEMPLATE_ARGUMENTS = 8, WEFTI_TEMPLATE_SCOPES = 40 };

typedef struct wefti_machine {
    weft_ctx *ctx;
    const wefti_template *t;
    wefti_rendered *out;
    weft_status status;
    int line;     /* of the node at hand, for messages */
    int depth;    /* of expressions and statements in each other */
    int64_t work; /* nodes run; a template that does not end is stopped */
    json_t *scopes[WEFTI_TEMPLATE_SCOPES]; /* names; [0] is the caller's, borrowed */
    int n_scopes;
    json_t *undefined;    /* what a name is set to whose value is undefined */
    wefti_node_kind flow; /* BREAK and CONTINUE while they take effect, else TEXT */
} wefti_machine;

typedef struct wefti_arguments {
    json_t *items[WEFTI_TEMPLATE_ARGUMENTS];     /* owned; NULL: undefined */
    const char *names[WEFTI_TEMPLATE_ARGUMENTS]; /* NULL: by place; borrowed */
    int n;
} wefti_arguments;

/* Fails with the template's name and line; returns NULL. */
json_t *wefti_machine_fail(wefti_machine *m, const char *fault, const char *name);

/* The value, or a failure if it is NULL: of calls of the JSON library. */
json_t *wefti_machine_made(wefti_machine *m, json_t *value);

/* The argument at a place or of a name; NULL: not given. Borrowed. */
json_t *wefti_argument(const wefti_arguments *given, int place, const char *name);

bool wefti_value_is_true(const json_t *value);

/* Appends a value as {{ }} prints it. */
void wefti_value_print(wefti_machine *m, const json_t *value, wefti_buffer *out);

json_t *wefti_value_binary(wefti_machine *m, wefti_binary op, json_t *a, json_t *b);
json_t *wefti_value_minus(wefti_machine *m, const json_t *value);

/* a[key], a.key; undefined where there is none. */
json_t *wefti_value_get(wefti_machine *m, json_t *of, const json_t *key);
/* of[from:to:by]; undefined bounds are the ends. */
json_t *wefti_value_slice(wefti_machine *m, const json_t *of, json_t *const bounds[3]);

/* What `for` goes through, as a list. */
json_t *wefti_value_items(wefti_machine *m, json_t *value);

/* templatefunction.c: what is called by name. */
json_t *wefti_value_filter(wefti_machine *m, const char *name, json_t *value,
                           const wefti_arguments *given);
json_t *wefti_value_method(wefti_machine *m, const char *name, json_t *of,
                           const wefti_arguments *given);
json_t *wefti_value_function(wefti_machine *m, const char *name,
                             const wefti_arguments *given);
bool wefti_value_test(wefti_machine *m, const char *name, const json_t *value,
                      const wefti_arguments *given);
