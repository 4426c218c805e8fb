/* SPDX-License-Identifier: MIT */
/* The replicators, in the order in which `weft list` shows them. A new kind is one line here. */
#include "replicate/replicators.h"

const wefti_replicator_ops *const wefti_replicator_registry[] = {
    &wefti_replicator_none,
    &wefti_replicator_full,
    &wefti_replicator_demo,
    &wefti_replicator_topk,
    &wefti_replicator_random,
    &wefti_replicator_striding,
    &wefti_replicator_slicing,
    &wefti_replicator_public_demo,
    &wefti_replicator_signsgd,
    &wefti_replicator_powersgd,
    NULL,
};
