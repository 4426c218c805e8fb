/* SPDX-License-Identifier: MIT */
/* A model as an ordered list of units with their parameters: names, shapes, offsets in the
 * unit's flat buffer, and the FLOP that a token costs. */
#include "model/units.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

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

static wefti_unit *add_unit(weft_model *model, wefti_unit_kind kind,
                            const wefti_param_spec *specs, int n) {
    wefti_unit *unit = &model->units[model->n_units++];
    unit->kind = kind;
    unit->borrows = -1;
    unit->params = &model->params[model->n_params];
    for (int i = 0; i < n; i++) add_param(model, unit, &specs[i]);
    model->n_elements += unit->n_elements;
    return unit;
}

/* Gives the unit's parameters the names of their specs, blocks with prefix and number. */
static void name_params(weft_model *model, const wefti_unit *unit,
                        const wefti_param_spec *specs, const char *prefix, int block) {
    wefti_param *p = model->params + (unit->params - model->params);
    for (int i = 0; i < unit->n_params; i++) {
        if (prefix)
            snprintf(p[i].name, sizeof p[i].name, "%s%d.%s", prefix, block,
                     specs[i].name);
        else
            snprintf(p[i].name, sizeof p[i].name, "%s", specs[i].name);
        p[i].file = (wefti_place){
            .rows = p[i].rows, .run = p[i].rows, .stride = p[i].rows};
        memcpy(p[i].file.name, p[i].name, sizeof p[i].name);
    }
}

weft_status wefti_units_build(weft_ctx *ctx, weft_model *model,
                              const wefti_model_spec *spec) {
    int64_t L = model->config.layers;
    int64_t n_params = spec->n_embed + L * spec->n_block + spec->n_head;
    WEFT_TRY(wefti_alloc_n(ctx, L + 2, sizeof *model->units, "the model's units",
                           &model->units));
    WEFT_TRY(wefti_alloc_n(ctx, n_params, sizeof *model->params, "the parameter table",
                           &model->params));
    wefti_unit *unit = add_unit(model, WEFTI_EMBED, spec->embed, spec->n_embed);
    snprintf(unit->name, sizeof unit->name, "embed");
    name_params(model, unit, spec->embed, NULL, 0);
    for (int i = 0; i < (int)L; i++) {
        unit = add_unit(model, WEFTI_BLOCK, spec->block, spec->n_block);
        snprintf(unit->name, sizeof unit->name, "block.%d", i);
        name_params(model, unit, spec->block, spec->block_prefix, i);
    }
    unit = add_unit(model, WEFTI_HEAD, spec->head, spec->n_head);
    snprintf(unit->name, sizeof unit->name, "head");
    name_params(model, unit, spec->head, NULL, 0);
    if (model->config.tied) unit->borrows = 0;
    return WEFT_OK;
}

/* A product with a matrix of n elements costs 2n FLOP per token forward and 4n backward
 * (one product for dx, one for dW): 6n, over the blocks' matrices and the head's [V,C],
 * tied or not; the embedding's lookup is no product. Attention, counted causally: token t
 * meets t+1 keys, (T+1)/2 on average; q.k and p.v cost 4 H D FLOP per key forward, twice
 * that backward: 12 L H D (T+1)/2. What a kernel computes twice, or computes and masks,
 * is not counted. */
double wefti_units_flop_per_token(const weft_model *model, int64_t T) {
    const weft_model_config *c = &model->config;
    double matrices = c->tied ? (double)c->vocab * (double)c->width : 0;
    for (int u = 1; u < model->n_units; u++) {
        const wefti_unit *unit = &model->units[u];
        for (int i = 0; i < unit->n_params; i++)
            if (unit->params[i].ndim == 2)
                matrices += (double)unit->params[i].rows * (double)unit->params[i].cols;
    }
    double keys = ((double)T + 1) / 2;
    double columns = (double)(c->heads * c->head_dim);
    return 6 * matrices + 12 * (double)c->layers * columns * keys;
}

int64_t wefti_place_row(const wefti_place *place, int64_t row, int64_t most, int64_t *n) {
    int64_t into = row % place->run;
    *n = place->run - into < most ? place->run - into : most;
    return place->start + row / place->run * place->stride + into;
}
