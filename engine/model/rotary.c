/* SPDX-License-Identifier: MIT */
/* Rotary positions, and the changes of their frequencies for longer texts. Pair i of R/2
 * is rotated by t w_i at position t, w_i = theta^(-2i/R). With a factor s and original
 * texts of length L:
 *
 *     linear   w / s
 *     llama3   w, where a turn takes less than L/high tokens; w / s, where more than L/low;
 *              between them interpolated linearly in L w / 2 pi     (Llama 3.1)
 *     yarn     w before pair `low`, w / s after pair `high`, between them interpolated
 *              linearly in i; `low` and `high` are the pairs that make fast and slow turns
 *              in L tokens; cosines and sines times 0.1 ln s + 1    (Peng et al. 2023) */
#include "model/rotary.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const double two_pi = 6.283185307179586;

/* ---- the text ---- */

static const char *const rules[] = {"default", "linear", "llama3", "yarn"};

static double *number_named(wefti_rope_scaling *s, const char *name, size_t n,
                            double *truncate) {
    struct {
        const char *name;
        double *at;
    } places[] = {{"factor", &s->factor},       {"low", &s->low},      {"high", &s->high},
                  {"original", &s->original},   {"fast", &s->fast},    {"slow", &s->slow},
                  {"attention", &s->attention}, {"truncate", truncate}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strlen(places[i].name) == n && strncmp(places[i].name, name, n) == 0)
            return places[i].at;
    return NULL;
}

static weft_status fail_text(weft_ctx *ctx, const char *text) {
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "model.rope_scaling is '%.120s', expected nothing, 'linear factor=S', 'llama3 "
        "factor=S low=A high=B original=L' or 'yarn factor=S original=L', all above 0",
        text);
}

static bool fits(const wefti_rope_scaling *s) {
    if (!(s->factor > 0) || !isfinite(s->factor)) return false;
    if (s->rule == WEFTI_ROPE_LINEAR) return true;
    if (!(s->original > 0) || !isfinite(s->original)) return false;
    if (s->rule == WEFTI_ROPE_LLAMA3) return s->low > 0 && s->high > s->low;
    return s->slow > 0 && s->fast > s->slow && s->attention >= 0;
}

weft_status wefti_rope_scaling_read(weft_ctx *ctx, const char *text,
                                    wefti_rope_scaling *out) {
    char word[64];
    double truncate = 1;
    int n = 0;
    *out = (wefti_rope_scaling){.fast = 32, .slow = 1};
    if (sscanf(text, " %63s%n", word, &n) < 1) return WEFT_OK;
    for (int i = 0; i < 4; i++)
        if (strcmp(word, rules[i]) == 0) out->rule = (wefti_rope_rule)i;
    if (out->rule == WEFTI_ROPE_DEFAULT) return fail_text(ctx, text);
    for (const char *at = text + n; sscanf(at, " %63s%n", word, &n) == 1; at += n) {
        const char *equals = strchr(word, '=');
        char *end;
        double *place = equals
                            ? number_named(out, word, (size_t)(equals - word), &truncate)
                            : NULL;
        if (!place) return fail_text(ctx, text);
        *place = wefti_strtod(equals + 1, &end);
        if (end == equals + 1 || *end) return fail_text(ctx, text);
    }
    out->truncate = truncate != 0;
    return fits(out) ? WEFT_OK : fail_text(ctx, text);
}

static void print_scaling(const wefti_rope_scaling *s, char *out, size_t out_size) {
    out[0] = '\0';
    if (s->rule == WEFTI_ROPE_LINEAR)
        snprintf(out, out_size, "linear factor=%.15g", s->factor);
    if (s->rule == WEFTI_ROPE_LLAMA3)
        snprintf(out, out_size, "llama3 factor=%.15g low=%.15g high=%.15g original=%.15g",
                 s->factor, s->low, s->high, s->original);
    if (s->rule != WEFTI_ROPE_YARN) return;
    int n = snprintf(out, out_size,
                     "yarn factor=%.15g original=%.15g fast=%.15g slow=%.15g", s->factor,
                     s->original, s->fast, s->slow);
    if (s->attention > 0)
        n += snprintf(out + n, out_size - (size_t)n, " attention=%.15g", s->attention);
    if (!s->truncate) snprintf(out + n, out_size - (size_t)n, " truncate=0");
}

void wefti_rope_scaling_text(const wefti_rope_scaling *s, char *out, size_t out_size) {
    print_scaling(s, out, out_size);
    wefti_with_point(out);
}

/* ---- frequencies ---- */

static double llama3(const wefti_rope_scaling *s, double w) {
    double turns = s->original * w / two_pi; /* in a text of the original length */
    if (turns > s->high) return w;
    if (turns < s->low) return w / s->factor;
    double share = (turns - s->low) / (s->high - s->low);
    return (1 - share) * w / s->factor + share * w;
}

/* The pair, as a real number, that makes `turns` turns in a text of the original length. */
static double pair_of(const wefti_rope_scaling *s, double turns, double theta,
                      int64_t R) {
    return (double)R * log(s->original / (turns * two_pi)) / (2 * log(theta));
}

static double yarn(const wefti_rope_scaling *s, double theta, int64_t R, int64_t i,
                   double w) {
    double low = pair_of(s, s->fast, theta, R), high = pair_of(s, s->slow, theta, R);
    if (s->truncate) low = floor(low), high = ceil(high);
    if (low < 0) low = 0;
    if (high > (double)(R - 1)) high = (double)(R - 1);
    if (high == low) high += 0.001;
    double share = ((double)i - low) / (high - low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return w / s->factor * share + w * (1 - share);
}

static double frequency(const wefti_rope_scaling *s, double theta, int64_t R, int64_t i) {
    double w = pow(theta, -2.0 * (double)i / (double)R);
    switch (s->rule) {
    case WEFTI_ROPE_LINEAR: return w / s->factor;
    case WEFTI_ROPE_LLAMA3: return llama3(s, w);
    case WEFTI_ROPE_YARN: return yarn(s, theta, R, i, w);
    case WEFTI_ROPE_DEFAULT: break;
    }
    return w;
}

static double amplitude(const wefti_rope_scaling *s) {
    if (s->rule != WEFTI_ROPE_YARN) return 1;
    if (s->attention > 0) return s->attention;
    return s->factor > 1 ? 0.1 * log(s->factor) + 1 : 1;
}

/* ---- the tables ---- */

int64_t wefti_rotary_columns(const weft_model_config *c) {
    if (c->rope_share <= 0) return c->head_dim;
    return (int64_t)((double)c->head_dim * c->rope_share);
}

/* cos_sin[T][R] for the kernel rope. */
static void fill_table(const wefti_rope_scaling *s, double theta, int64_t T, int64_t R,
                       float *table) {
    double size = amplitude(s);
    for (int64_t i = 0; i < R / 2; i++) {
        double w = frequency(s, theta, R, i);
        for (int64_t t = 0; t < T; t++) {
            table[t * R + i] = (float)(size * cos((double)t * w));
            table[t * R + R / 2 + i] = (float)(size * sin((double)t * w));
        }
    }
}

weft_status wefti_rotary_build(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    const wefti_rope_scaling as_it_is = {.rule = WEFTI_ROPE_DEFAULT};
    int64_t R = wefti_rotary_columns(c), tables = c->rope_local_theta > 0 ? 2 : 1;
    wefti_rope_scaling scaling;
    WEFT_TRY(wefti_rope_scaling_read(ctx, c->rope_scaling, &scaling));
    WEFT_TRY(wefti_alloc_n(ctx, tables * c->context * R, sizeof(float),
                           "the rotary table", &model->tables));
    fill_table(&scaling, c->rope_theta, c->context, R, model->tables);
    if (tables > 1)
        fill_table(&as_it_is, c->rope_local_theta, c->context, R,
                   model->tables + c->context * R);
    return WEFT_OK;
}
