/* SPDX-License-Identifier: MIT */
/* Forms, and the changes between them:
 *
 *     from \ to      full f32        full coded    outer f32         outer coded
 *     full f32       -               yes           yes               yes
 *     full coded     next gradient   error kept    next gradient     next gradient
 *     outer f32      yes             yes           H                 yes
 *     outer coded    by outer f32    by outer f32  own parameters    error kept
 *
 * A word says what becomes of what coding has left out. An outer form is left, or changed, right
 * after an outer step, where all nodes have the same parameters. */
#include "job/form.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/schema.h"
#include "mix/mixer.h"
#include "wire/values.h"

enum { CODECS = 8, MOST_STEPS = 1 << 20 };
_Static_assert(WEFTI_FORM_CODES >= (int64_t)2 * CODECS * MOST_STEPS * 100, "hundredths");

static bool codec_of(const char *name, wefti_value_codec *out) {
    int codec = wefti_value_codec_find(name);
    if (codec < 0 || codec == WEFTI_VALUES_SIGN) return false;
    *out = (wefti_value_codec)codec;
    return true;
}

const char *wefti_form_of(const weft_config *c, wefti_form *out) {
    const wefti_mixer_ops *mixer = wefti_mixer_find(c->mixer.kind);
    bool full = wefti_job_averages_all(c);
    bool outer = wefti_is(c->replicator.kind, "none") && mixer && mixer->period &&
                 mixer->robust;
    *out = (wefti_form){0};
    if (c->mesh.sites > 1) return "it has several sites";
    if (!full && !outer)
        return "only averaging all gradients and outer steps are exchanged for each "
               "other";
    if (outer && (c->mixer.fragments > 1 || c->mixer.delay > 0 || c->mixer.merge > 0))
        return "parts of the model are on their way in every step";
    if (outer && c->mixer.feedback < 1) return "mixer.feedback is below 1";
    if (!codec_of(outer ? c->mixer.values : c->replicator.values, &out->values))
        return "it sends signs";
    out->outer = outer;
    if (!outer) return NULL;
    out->every = c->mixer.outer_every;
    out->momentum = c->mixer.outer_momentum;
    return out->every < MOST_STEPS ? NULL : "it has hardly any outer step";
}

int64_t wefti_form_code(const wefti_form *f) {
    int64_t momentum = llround(100 * fmin(f->momentum, 0.99));
    return 1 + ((momentum * MOST_STEPS + f->every) * CODECS + (int64_t)f->values) * 2 +
           f->outer;
}

int64_t wefti_alone_code(double times) {
    return llround(fmin(100 * times, (double)WEFTI_ALONE_CODES - 1)) * WEFTI_FORM_CODES;
}

double wefti_alone_decode(int64_t code, int64_t *form) {
    *form = code % WEFTI_FORM_CODES;
    return (double)(code / WEFTI_FORM_CODES) / 100;
}

/* As long runs have it (config/presets.c). */
void wefti_form_fit(wefti_form *f, int64_t steps_left) {
    weft_config c = {.run.steps = steps_left};
    char text[32];
    if (!f->outer) return;
    f->momentum = 0.9;
    c.mixer.outer_every = f->every;
    c.mixer.outer_momentum = f->momentum;
    const char *less = wefti_method_momentum(&c, text, sizeof text);
    if (less) sscanf(less, "%lf", &f->momentum);
}

static bool is_form(const wefti_form *f) {
    return f->values < WEFTI_VALUES_SIGN && f->outer == (f->every > 0) && f->every >= 0 &&
           f->every < MOST_STEPS && f->momentum >= 0 && f->momentum < 1 &&
           (f->outer || f->momentum == 0);
}

bool wefti_form_decode(int64_t code, wefti_form *out) {
    int64_t rest = code - 1;
    if (code < 1 || code > WEFTI_FORM_CODES) return false;
    *out = (wefti_form){.outer = rest % 2,
                        .values = (wefti_value_codec)(rest / 2 % CODECS),
                        .every = rest / 2 / CODECS % MOST_STEPS,
                        .momentum = (double)(rest / 2 / CODECS / MOST_STEPS) / 100};
    return is_form(out);
}

void wefti_form_keep(const wefti_form *now, wefti_form *next) {
    bool same = now->outer && next->outer && now->every == next->every;
    if (same) next->momentum = now->momentum;
}

const char *wefti_form_write(const wefti_form *f, char out[WEFTI_FORM_TEXT]) {
    const char *values = wefti_value_ops_of(f->values)->name;
    if (f->outer)
        snprintf(out, WEFTI_FORM_TEXT, "outer %s %lld %.9g", values, (long long)f->every,
                 f->momentum);
    else
        snprintf(out, WEFTI_FORM_TEXT, "full %s", values);
    return out;
}

const char *wefti_form_name(const wefti_form *f, char out[WEFTI_FORM_TEXT]) {
    bool coded = f->values != WEFTI_VALUES_F32;
    const char *values = coded ? wefti_value_ops_of(f->values)->name : "";
    const char *space = coded ? " " : "";
    if (f->outer)
        snprintf(out, WEFTI_FORM_TEXT, "diloco H=%lld%s%s", (long long)f->every, space,
                 values);
    else
        snprintf(out, WEFTI_FORM_TEXT, "full sync%s%s", space, values);
    return out;
}

bool wefti_form_read(const char *text, wefti_form *out) {
    char kind[8] = "", values[8] = "", again[WEFTI_FORM_TEXT];
    long long every = 0;
    *out = (wefti_form){0};
    int n = sscanf(text, "%7s %7s %lld %lf", kind, values, &every, &out->momentum);
    out->outer = kind[0] == 'o'; /* what is written again has to be the text */
    out->every = every;
    return n >= 2 && codec_of(values, &out->values) && is_form(out) &&
           strcmp(wefti_form_write(out, again), text) == 0;
}

bool wefti_form_same(const wefti_form *a, const wefti_form *b) {
    return a->outer == b->outer && a->values == b->values && a->every == b->every;
}

const char *wefti_form_refusal(const wefti_form *from, const wefti_form *to,
                               int64_t step) {
    if (wefti_form_same(from, to)) return "nothing would change";
    if (from->outer && step % from->every != 0)
        return "outer steps are left right after one";
    if (from->outer && !to->outer && from->values != WEFTI_VALUES_F32)
        return "what coding has left out of an outer step is sent by one in f32 first";
    return NULL;
}

wefti_form wefti_form_next(const wefti_form *from, const wefti_form *to) {
    wefti_form next = *from;
    if (!from->outer || to->outer || from->values == WEFTI_VALUES_F32) return *to;
    next.values = WEFTI_VALUES_F32;
    return next;
}

weft_status wefti_form_set(weft_ctx *ctx, weft_config *config, const wefti_form *f) {
    char text[4][64];
    const char *values = wefti_value_ops_of(f->values)->name;
    snprintf(text[0], 64, "replicator.kind=%s", f->outer ? "none" : "full");
    snprintf(text[1], 64, "mixer.kind=%s", f->outer ? "outer" : "none");
    snprintf(text[2], 64, "%s.values=%s", f->outer ? "mixer" : "replicator", values);
    for (int i = 0; i < 3; i++) WEFT_TRY(weft_config_set(ctx, config, text[i]));
    if (!f->outer) return WEFT_OK;
    config->mixer.outer_every = f->every;
    config->mixer.outer_momentum = f->momentum;
    config->mixer.fragments = 1;
    config->mixer.delay = 0;
    config->mixer.merge = 0;
    return WEFT_OK;
}
