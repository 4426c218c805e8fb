/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"
#include "adapter/adapted.h"

/* Bytes that the base of the job's model takes in this process; 0: all parameters are
 * trained. */
int64_t wefti_frozen_bytes(const wefti_job *job);

/* Fills the base of a model that is trained in part, and lends it to the model. The
 * values come from the first of these that exists: `folder` (NULL: none; not used for
 * adapters), model.init, the seed. Does nothing for other models. `on_text`: the run is a
 * user's, in which adapters need a model.init. */
weft_status wefti_frozen_load(weft_ctx *ctx, wefti_job *job, const char *folder,
                              bool on_text, wefti_base *base) WEFT_CHECKED;

/* Reads the whole model's values from a model folder into base->values, which the caller
 * has allocated. */
weft_status wefti_frozen_read(weft_ctx *ctx, const weft_model *whole, const char *folder,
                              wefti_base *base) WEFT_CHECKED;
