/* SPDX-License-Identifier: MIT */
/* The topologies, in the order in which `weft list` shows them. A new kind is one line here. */
#include "topology/kinds.h"

const wefti_topology_ops *const wefti_topology_registry[] = {
    &wefti_topology_complete,
    &wefti_topology_ring,
    &wefti_topology_exponential,
    &wefti_topology_aer,
    &wefti_topology_static_exponential,
    &wefti_topology_torus,
    &wefti_topology_matching,
    &wefti_topology_push,
    &wefti_topology_measured,
    NULL,
};
