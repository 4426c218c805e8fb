/* SPDX-License-Identifier: MIT */
/* The mixers, in the order in which `weft list` shows them. A new kind is one line here. */
#include "mix/mixers.h"

const wefti_mixer_ops *const wefti_mixer_registry[] = {
    &wefti_mixer_none,   &wefti_mixer_outer, &wefti_mixer_sparse_outer,
    &wefti_mixer_gossip, &wefti_mixer_choco, NULL,
};
