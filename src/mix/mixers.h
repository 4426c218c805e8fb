/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MIXERS_H
#define WEFTI_MIXERS_H

#include "mix/mixer.h"

/* One line per mixer; each is defined at the foot of its own file. */
extern const wefti_mixer_ops wefti_mixer_none;
extern const wefti_mixer_ops wefti_mixer_outer;
extern const wefti_mixer_ops wefti_mixer_sparse_outer;
extern const wefti_mixer_ops wefti_mixer_gossip;
extern const wefti_mixer_ops wefti_mixer_choco;

#endif
