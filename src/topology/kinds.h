/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_KINDS_H
#define WEFTI_KINDS_H

#include "topology/topology.h"

/* One line per kind; each is defined at the foot of its own file. */
extern const wefti_topology_ops wefti_topology_complete;
extern const wefti_topology_ops wefti_topology_ring;
extern const wefti_topology_ops wefti_topology_exponential;
extern const wefti_topology_ops wefti_topology_aer;
extern const wefti_topology_ops wefti_topology_static_exponential;
extern const wefti_topology_ops wefti_topology_torus;
extern const wefti_topology_ops wefti_topology_matching;
extern const wefti_topology_ops wefti_topology_push;
extern const wefti_topology_ops wefti_topology_measured;

#endif
