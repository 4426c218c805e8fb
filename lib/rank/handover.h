/* SPDX-License-Identifier: MIT */
#pragma once

#include "rank/rank.h"

/* What a rank that has just joined gets from the ranks that were there before, between
 * two steps: parameters and every array of state, in equal shares from all of them. Its
 * parameters are zeros before.
 *
 *     has      [world ranks] which ranks have state; a rank that has none gets it here
 *
 * Element i of all arrays comes from one rank, so moments that belong together stay
 * together. Where replicas differ, the parameters become the mean over all ranks that
 * have them. What compression has left out of earlier exchanges (error feedback) becomes
 * a copy of a share of each giver's, so that the mean over the nodes of what is still to
 * be sent does not change.
 *
 * Collective over the world. */
weft_status wefti_handover(wefti_rank *r, const bool *has) WEFT_CHECKED;

/* After that: all ranks wait until those that have just joined have everything, so that nobody
 * begins a step without them. Where replicas are equal they compare checksums of their
 * parameters, and a rank that has just joined with others fails. Collective over the world. */
weft_status wefti_handover_compare(wefti_rank *r, const bool *has) WEFT_CHECKED;

/* Compares checksums of all ranks' parameters; fails on a rank that checks if its own are not those
 * of most replicas that have state ([R]; NULL: all but the learners), of as many those of the
 * lowest. So none of them alone can pass others on. Collective over the world. */
weft_status wefti_handover_match(wefti_rank *r, const bool *has,
                                 bool checks) WEFT_CHECKED;
