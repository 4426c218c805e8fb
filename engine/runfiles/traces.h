/* SPDX-License-Identifier: MIT */
#pragma once

#include "rank/rank.h"

/* Writes <folder>/timeline.json when all ranks have recorded their timeline of a step:
 * that of the first rank, and those of all others on its clock. Writes it once, and
 * nothing before there is a timeline. Collective over all ranks, between steps; the first
 * one writes. */
weft_status wefti_traces_write(wefti_rank *r, const char *folder) WEFT_CHECKED;
