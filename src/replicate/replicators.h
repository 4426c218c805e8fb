/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_REPLICATORS_H
#define WEFTI_REPLICATORS_H

#include "replicate/replicator.h"

/* One line per replicator; each is defined at the foot of its own file. */
extern const wefti_replicator_ops wefti_replicator_none;
extern const wefti_replicator_ops wefti_replicator_full;
extern const wefti_replicator_ops wefti_replicator_demo;
extern const wefti_replicator_ops wefti_replicator_topk;
extern const wefti_replicator_ops wefti_replicator_public_demo;
extern const wefti_replicator_ops wefti_replicator_signsgd;
extern const wefti_replicator_ops wefti_replicator_powersgd;
extern const wefti_replicator_ops wefti_replicator_random;
extern const wefti_replicator_ops wefti_replicator_striding;
extern const wefti_replicator_ops wefti_replicator_slicing;

#endif
