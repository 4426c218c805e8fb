/* SPDX-License-Identifier: MIT */
#include "mix/mixers.h"

const wefti_mixer_ops *const wefti_mixer_registry[] = {
    &wefti_mixer_none, &wefti_mixer_outer, &wefti_mixer_gossip, &wefti_mixer_choco, NULL,
};
