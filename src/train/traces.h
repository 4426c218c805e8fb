/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/rank.h"

/* Writes <folder>/timeline.json once all ranks have kept their timeline of a step: that of the
 * first rank, and those of all others on its clock. Once; nothing before there is one.
 * Collective over all ranks, between steps; the first one writes. */
weft_status wefti_traces_write(wefti_rank *r, const char *folder) WEFT_CHECKED;
