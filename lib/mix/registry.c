/* SPDX-License-Identifier: MIT */
/* The table of functions of each kind that mixers.def names, in its order. */
#include "mix/mixers.h"

#define WEFTI_KIND(name, summary) &wefti_mixer_##name,
const wefti_mixer_ops *const wefti_mixer_registry[] = {
#include "mix/mixers.def"
    NULL,
};
#undef WEFTI_KIND
