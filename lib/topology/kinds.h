/* SPDX-License-Identifier: MIT */
#pragma once

#include "topology/topology.h"

/* All topologies, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_topology_ops wefti_topology_##name;
#include "topology/topologies.def"
#undef WEFTI_KIND
