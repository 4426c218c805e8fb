/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"

/* What crosses the wire, as far as it may change while a run with method=auto goes on: the inner
 * optimizer and its moments stay. docs/methods.md says what each state does then. */
typedef struct wefti_form {
    bool
        outer; /* each node steps by itself, with outer steps; else all gradients are averaged */
    wefti_value_codec values;
    int64_t every;   /* steps between two outer ones; 0: averaged in each */
    double momentum; /* of the outer steps */
} wefti_form;

/* The form of a configuration. Returns NULL, or why what crosses its wire stays as it is. */
const char *wefti_form_of(const weft_config *config, wefti_form *out);

/* How it is asked for with a status: a whole number from 1 on, with the momentum to a hundredth.
 * False: this is no form. */
#define WEFTI_FORM_CODES ((int64_t)1 << 31)
int64_t wefti_form_code(const wefti_form *form);
bool wefti_form_decode(int64_t code, wefti_form *out);

/* A status tells beside the code, or 0, how many times as fast as all one node by itself is
 * expected to be, to a hundredth; 0: it is not. */
#define WEFTI_ALONE_CODES ((int64_t)1 << 16)
int64_t wefti_alone_code(double times);
double wefti_alone_decode(int64_t code, int64_t *form);

/* A code has hundredths of a momentum: where outer steps stay as they are, theirs does. */
void wefti_form_keep(const wefti_form *now, wefti_form *next);

/* Sets the momentum of outer steps, in a run as long as what is left. */
void wefti_form_fit(wefti_form *form, int64_t steps_left);

/* "full f32", "outer int8 50 0.4": as views.jsonl has it. Reading takes what writing gives, and
 * nothing else. */
enum { WEFTI_FORM_TEXT = 64 };
const char *wefti_form_write(const wefti_form *form, char out[WEFTI_FORM_TEXT]);
bool wefti_form_read(const char *text, wefti_form *out);

/* "full sync int8", "diloco H=50": as users know it. */
const char *wefti_form_name(const wefti_form *form, char out[WEFTI_FORM_TEXT]);

bool wefti_form_same(const wefti_form *a, const wefti_form *b);

/* Why a run does not change from one to the other before `step`; NULL: it may. */
const char *wefti_form_refusal(const wefti_form *from, const wefti_form *to,
                               int64_t step);

/* What the run changes to first, on the way from one to the other. */
wefti_form wefti_form_next(const wefti_form *from, const wefti_form *to);

/* Sets the keys. */
weft_status wefti_form_set(weft_ctx *ctx, weft_config *config,
                           const wefti_form *form) WEFT_CHECKED;
