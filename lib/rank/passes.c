/* SPDX-License-Identifier: MIT */
/* The passes of a library that was built without the engine. */
#include "rank/rank.h"
#include "step/schedule.h"

#ifndef WEFT_ENGINE

static weft_status none(wefti_rank *r, const wefti_op *op) {
    return weft_ctx_fail(r->ctx, WEFT_ERR_INTERNAL,
                         "a step is to compute (%s), but this libweft was built without "
                         "the engine",
                         wefti_op_name(op->kind));
}

const wefti_passes wefti_passes_here = {none, none, none, none, none};

#endif
