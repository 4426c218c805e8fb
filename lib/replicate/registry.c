/* SPDX-License-Identifier: MIT */
/* The table of functions of each kind that replicators.def names, in its order. */
#include "replicate/replicator.h"

#define WEFTI_KIND(name, summary) &wefti_replicator_##name,
const wefti_replicator_ops *const wefti_replicator_registry[] = {
#include "replicate/replicators.def"
    NULL,
};
#undef WEFTI_KIND
