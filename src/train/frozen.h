/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"
#include "model/adapted.h"

/* Bytes that the base of the job's model takes in this process; 0: all is trained. */
int64_t wefti_frozen_bytes(const wefti_job *job);

/* Fills the base of a model that is trained in part, from the first of these that there
 * is: `folder` (NULL: none), model.init, the seed; and lends it to the model. Nothing for
 * other models. `on_text`: the run is a user's, who wants an adapter of some model. */
weft_status wefti_frozen_load(weft_ctx *ctx, wefti_job *job, const char *folder,
                              bool on_text, wefti_base *base) WEFT_CHECKED;

/* Reads the whole model's values from a model folder into base->values, which has room. */
weft_status wefti_frozen_read(weft_ctx *ctx, const weft_model *whole, const char *folder,
                              wefti_base *base) WEFT_CHECKED;
