/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* All of them, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary)                                                        \
    extern const wefti_replicator_ops wefti_replicator_##name;
#include "replicate/replicators.def"
#undef WEFTI_KIND
