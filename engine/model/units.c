/* SPDX-License-Identifier: MIT */
/* A model as an ordered list of units with their parameters: names, shapes, offsets in
 * the unit's flat buffer, and the FLOP per token. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/units.h"

enum { ALIGN_FLOATS = 16 };

float *wefti_room_take(wefti_room *room, int64_t n) {
    float *at = room->base ? room->base + room->used : NULL;
    room->used += (n + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return at;
}

static void add_param(weft_model *model, wefti_unit *unit, const wefti_param_spec *spec) {
    wefti_param *p = &model->params[model->n_params++];
    p->ndim = spec->cols ? 2 : 1;
    p->rows = spec->rows;
    p->cols = spec->cols ? spec->cols : 1;
    p->decays = p->ndim == 2;
    p->hidden = p->ndim == 2 && unit->kind == WEFTI_BLOCK;
    p->parts = 1;
    p->init_mean = (float)spec->init_mean;
    p->init_std = (float)spec->init_std;
    p->offset = unit->n_elements;
    unit->n_elements += p->rows * p->cols;
    unit->n_params++;
}

/* Names a parameter like its spec; in a block the unit's prefix and number come first. */
static void name_param(wefti_param *p, const wefti_unit_spec *unit, const char *name) {
    if (unit && unit->prefix)
        snprintf(p->name, sizeof p->name, "%s%d.%s", unit->prefix, unit->number, name);
    else
        snprintf(p->name, sizeof p->name, "%s", name);
    p->file = (wefti_place){.rows = p->rows, .run = p->rows, .stride = p->rows};
    memcpy(p->file.name, p->name, sizeof p->name);
}

weft_status wefti_units_begin(weft_ctx *ctx, weft_model *model, int64_t n_units,
                              int64_t n_params) {
    WEFT_TRY(wefti_alloc_n(ctx, n_units, sizeof *model->units, "the model's units",
                           &model->units));
    return wefti_alloc_n(ctx, n_params, sizeof *model->params, "the parameter table",
                         &model->params);
}

void wefti_units_add(weft_model *model, const wefti_unit_spec *spec) {
    wefti_unit *unit = &model->units[model->n_units++];
    unit->kind = spec->kind;
    unit->borrows = spec->borrows;
    if (spec->borrows >= 0) model->units[spec->borrows].lent = true;
    unit->params = &model->params[model->n_params];
    if (spec->number < 0)
        snprintf(unit->name, sizeof unit->name, "%s", spec->name);
    else
        snprintf(unit->name, sizeof unit->name, "%s.%d", spec->name, spec->number);
    for (int i = 0; i < spec->n_params; i++) {
        add_param(model, unit, &spec->params[i]);
        name_param(&model->params[model->n_params - 1], spec, spec->params[i].name);
    }
    model->n_elements += unit->n_elements;
}

void wefti_units_append(weft_model *model, const wefti_param_spec *param) {
    wefti_unit *unit = &model->units[model->n_units - 1];
    int64_t before = unit->n_elements;
    add_param(model, unit, param);
    name_param(&model->params[model->n_params - 1], NULL, param->name);
    model->n_elements += unit->n_elements - before;
}

void wefti_unit_clear(const wefti_unit *unit, const wefti_kernels *kernels,
                      float *grads) {
    int64_t begin = 0, end = 0; /* neighbours together */
    for (int i = 0; i < unit->n_params; i++) {
        const wefti_param *p = &unit->params[i];
        if (p->stored) continue;
        if (p->offset != end) {
            kernels->clear(end - begin, grads + begin);
            begin = p->offset;
        }
        end = p->offset + p->rows * p->cols;
    }
    kernels->clear(end - begin, grads + begin);
}

weft_status wefti_units_build(weft_ctx *ctx, weft_model *model,
                              const wefti_model_spec *spec) {
    int64_t L = model->config.layers;
    WEFT_TRY(wefti_units_begin(ctx, model, L + 2,
                               spec->n_embed + L * spec->n_block + spec->n_head));
    wefti_units_add(model, &(wefti_unit_spec){WEFTI_EMBED, "embed", NULL, -1, spec->embed,
                                              spec->n_embed, -1});
    for (int i = 0; i < (int)L; i++)
        wefti_units_add(model,
                        &(wefti_unit_spec){WEFTI_BLOCK, "block", spec->block_prefix, i,
                                           spec->block, spec->n_block, -1});
    wefti_units_add(model, &(wefti_unit_spec){WEFTI_HEAD, "head", NULL, -1, spec->head,
                                              spec->n_head, model->config.tied ? 0 : -1});
    return WEFT_OK;
}

double wefti_unit_matrices(const wefti_unit *unit) {
    double n = 0;
    for (int i = 0; i < unit->n_params; i++)
        if (unit->params[i].ndim == 2)
            n += (double)unit->params[i].rows * (double)unit->params[i].cols;
    return n;
}

/* A product with a matrix of n elements costs 2n FLOP per token forward and 4n backward
 * (one product for dx, one for dW): 6n, over a block's matrices and the head's [V,C], tied
 * or not; the embedding's lookup is not a product. Causal attention: token t sees t+1 keys,
 * (T+1)/2 on average; q.k and p.v cost 4 H D FLOP per key forward, twice that backward: 12
 * H D (T+1)/2 in each block. Values that a kernel recomputes or masks are not counted. */
double wefti_units_flop(const weft_model *model, int u, int64_t T) {
    const weft_model_config *c = &model->config;
    double columns = (double)(c->heads * c->head_dim), keys = ((double)T + 1) / 2;
    switch (model->units[u].kind) {
    case WEFTI_EMBED: break;
    case WEFTI_BLOCK:
        return 6 * wefti_unit_matrices(&model->units[u]) + 12 * columns * keys;
    case WEFTI_HEAD: return 6 * (double)c->vocab * (double)c->width;
    }
    return 0;
}

int64_t wefti_place_row(const wefti_place *place, int64_t row, int64_t most, int64_t *n) {
    int64_t into = row % place->run, D = place->pairs, half = D / 2;
    if (D > 0) {
        *n = 1;
        return row - row % D + row % half * 2 + row % D / half;
    }
    *n = place->run - into < most ? place->run - into : most;
    return place->start + row / place->run * place->stride + into;
}

/* The buckets of relative positions of T5 (Raffel et al. 2020). */

int64_t wefti_bucket_of(int64_t ahead, bool both, int64_t buckets, int64_t most) {
    int64_t first = 0, far = ahead < 0 ? -ahead : ahead;
    if (both) {
        buckets /= 2;
        first = ahead > 0 ? buckets : 0;
    } else if (ahead > 0) {
        far = 0;
    }
    int64_t exact = buckets / 2;
    if (far < exact) return first + far;
    float share = logf((float)far / (float)exact) /
                  (float)log((double)most / (double)exact);
    int64_t bucket = exact + (int64_t)(share * (float)(buckets - exact));
    return first + (bucket < buckets ? bucket : buckets - 1);
}
