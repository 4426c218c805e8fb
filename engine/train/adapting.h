/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"

/* Replaces the job's model by one of which a part is trained, if the configuration says so. */
weft_status wefti_job_adapt(weft_ctx *ctx, wefti_job *job) WEFT_CHECKED;
