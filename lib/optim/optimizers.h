/* SPDX-License-Identifier: MIT */
#pragma once

#include "optim/optimizer.h"

/* All optimizers, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_optimizer_ops wefti_optimizer_##name;
#include "optim/optimizers.def"
#undef WEFTI_KIND
