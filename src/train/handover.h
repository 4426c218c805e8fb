/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/rank.h"

/* What a rank that has just come gets from those who were there, between two steps: parameters and
 * every array of state, in equal shares from all of them.
 *
 *     has      [world ranks] who has state already; not this one: it gets it here
 *
 * Element i of all arrays comes from one rank, so moments that belong together stay together.
 * Where replicas differ, parameters are the mean of all who have them; what coding has lost of
 * earlier exchanges (error feedback) is a copy of a share of each, so that the mean over the
 * nodes of what is still to be sent is as it was.
 *
 * Collective over the world. */
weft_status wefti_handover(wefti_rank *r, const bool *has) WEFT_CHECKED;
