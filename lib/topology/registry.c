/* SPDX-License-Identifier: MIT */
/* The table of functions and the summary of each kind in topologies.def, in the same order. */
#include "topology/kinds.h"

#define WEFTI_KIND(name, summary) &wefti_topology_##name,
const wefti_topology_ops *const wefti_topology_registry[] = {
#include "topology/topologies.def"
    NULL,
};
#undef WEFTI_KIND

#define WEFTI_KIND(name, summary) summary,
const char *const wefti_topology_summaries[] = {
#include "topology/topologies.def"
};
#undef WEFTI_KIND
