/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"

/* All of them, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_mixer_ops wefti_mixer_##name;
#include "mix/mixers.def"
#undef WEFTI_KIND
