/* SPDX-License-Identifier: MIT */
/* For callers that keep the momentum and compress where their tensors are: what they
 * chose goes into the replicator's messages in place of the replicator's own choice. What
 * all chose comes back, or the signs of its sum.
 *
 *     hear and offer, tensor by tensor -> agree -> heard or signs -> the caller steps -> mix */
#include <math.h>

#include "base/sized.h"
#include "loop/sync.h"

static weft_status check_tensor(weft_sync *s, int i) {
    if (s->now.offers && i >= 0 && i < s->setup.n_tensors) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "tensor %d is offered%s; expected one of 0 to %d", i,
                         s->now.offers ? "" : " without weft_sync_setup.compressed",
                         s->setup.n_tensors - 1);
}

static weft_status shape_of(weft_sync *s, int i, weft_sync_chunk_shape *shape) {
    *shape = (weft_sync_chunk_shape){.struct_size = sizeof(weft_sync_chunk_shape),
                                     .n_chunks = 0};
    WEFT_TRY(check_tensor(s, i));
    const wefti_replicator *r = s->rank->replicator;
    const wefti_piece *piece = wefti_sync_piece(s, i);
    if (!piece) return WEFT_OK;
    wefti_offer_shape found = r->ops->offers(&r->config, piece);
    *shape = (weft_sync_chunk_shape){.struct_size = sizeof(weft_sync_chunk_shape),
                                     .n_chunks = found.n_chunks,
                                     .k = found.k,
                                     .elements = found.elements,
                                     .whole = found.whole};
    return WEFT_OK;
}

weft_status weft_sync_chunk_shape_of(weft_sync *s, int i, weft_sync_chunk_shape *shape) {
    weft_ctx *ctx = s->ctx;
    WEFTI_SIZED_OUT(ctx, weft_sync_chunk_shape, shape);
    return WEFTI_SIZED_GIVE(weft_sync_chunk_shape, shape, shape_of(s, i, shape));
}

static weft_status check_places(weft_sync *s, int i, const weft_sync_chunk_shape *shape,
                                const int32_t *places) {
    for (int64_t chunk = 0; chunk < shape->n_chunks; chunk++) {
        int64_t before = -1;
        for (int64_t j = chunk * shape->k; j < (chunk + 1) * shape->k; j++) {
            if (places[j] <= before || places[j] >= shape->elements)
                return weft_ctx_fail(
                    s->ctx, WEFT_ERR_ARGUMENT,
                    "tensor %d, chunk %lld: place %d is offered; expected one above %lld "
                    "and below %lld",
                    i, (long long)chunk, (int)places[j], (long long)before,
                    (long long)shape->elements);
            before = places[j];
        }
    }
    return WEFT_OK;
}

/* As with what lies here (rank/finite.c): a rank fails before it has sent any of it. */
static weft_status wrong(weft_sync *s, const char *what, int i) {
    (void)weft_ctx_fail(s->ctx, WEFT_ERR_NUMERIC,
                        "the %s not finite at step %lld (learning rate %g): tensor %s",
                        what, (long long)s->step + 1, (double)s->rank->now.lr,
                        s->job->model->params[i].name);
    return wefti_sync_told(s, WEFT_ERR_NUMERIC);
}

static weft_status check_finite(weft_sync *s, int i, int64_t n, const float *values) {
    for (int64_t j = 0; j < n; j++)
        if (!isfinite(values[j])) return wrong(s, "gradient is", i);
    return WEFT_OK;
}

weft_status weft_sync_not_finite(weft_sync *s, int i) {
    WEFT_TRY(wefti_sync_check_whole(s));
    if (s->rank->mixer && s->rank->mixer->outgoing && i >= 0 && i < s->setup.n_tensors)
        return wrong(s, "parameters are", i);
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "tensor %d of %d is reported not to be finite; expected one of them, "
        "after weft_sync_hold_mixer",
        i, s->setup.n_tensors);
}

weft_status weft_sync_submit(weft_sync *s, int i, int32_t *places, float *values) {
    weft_sync_chunk_shape shape = {.struct_size = sizeof shape};
    WEFT_TRY(shape_of(s, i, &shape));
    if (shape.n_chunks > 0 && (!values || (!shape.whole && !places)))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT, "tensor %d is offered without %s",
                             i, values ? "places" : "values");
    if (!shape.whole) WEFT_TRY(check_places(s, i, &shape, places));
    if (!s->setup.skips) WEFT_TRY(weft_sync_open(s)); /* opening clears earlier offers */
    WEFT_TRY(check_finite(s, i, shape.n_chunks * shape.k, values));
    if (!s->now.ready[i])
        s->now.offers[i].places = places, s->now.offers[i].values = values;
    return weft_sync_ready(s, i);
}

weft_status weft_sync_collect(weft_sync *s, int i, int32_t *places, float *values,
                              int64_t stride) {
    weft_sync_chunk_shape shape = {.struct_size = sizeof shape};
    WEFT_TRY(shape_of(s, i, &shape));
    if (!s->setup.skips) WEFT_TRY(weft_sync_open(s));
    if (s->now.ready[i] || stride < shape.n_chunks * shape.k || !places || !values)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "tensor %d, %s, gets room for %lld numbers of each rank%s; "
                             "expected it before it is offered, and %lld or more",
                             i, s->now.ready[i] ? "which was offered" : "not offered yet",
                             (long long)stride, places && values ? "" : ", at NULL",
                             (long long)(shape.n_chunks * shape.k));
    wefti_offer *offer = &s->now.offers[i];
    offer->heard_places = places, offer->heard_values = values, offer->stride = stride;
    return WEFT_OK;
}

static weft_status check_agreed(weft_sync *s, int i) {
    WEFT_TRY(check_tensor(s, i));
    if (wefti_sync_ended(s, i)) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "what was agreed on is there between weft_sync_agree and "
        "weft_sync_mix, or of tensors that weft_sync_wait_any has named");
}

weft_status weft_sync_collected(weft_sync *s, int i, int *n) {
    *n = 0;
    WEFT_TRY(check_agreed(s, i));
    *n = s->now.offers[i].n_heard;
    return WEFT_OK;
}

weft_status weft_sync_signs(weft_sync *s, int i, unsigned char *below,
                            unsigned char *moves, bool *sound) {
    *sound = true;
    WEFT_TRY(check_agreed(s, i));
    const wefti_piece *piece = wefti_sync_piece(s, i);
    int64_t n = piece ? piece->rows * piece->cols : 0;
    const float *d = weft_sync_gradients(s, i);
    for (int64_t e = 0; e < n; e += 8) {
        unsigned b = 0, m = 0;
        for (int64_t j = 0; j < 8 && e + j < n; j++) {
            b |= (unsigned)(d[e + j] < 0) << j;
            m |= (unsigned)(d[e + j] != 0) << j;
            if (isnan(d[e + j])) *sound = false;
        }
        below[e / 8] = (unsigned char)b;
        moves[e / 8] = (unsigned char)m;
    }
    return WEFT_OK;
}
