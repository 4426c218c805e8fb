/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_OPTIMIZERS_H
#define WEFTI_OPTIMIZERS_H

#include "optim/optimizer.h"

/* One line per kind; each is defined at the foot of its own file. */
extern const wefti_optimizer_ops wefti_optimizer_sgd;
extern const wefti_optimizer_ops wefti_optimizer_adam;
extern const wefti_optimizer_ops wefti_optimizer_adamw;
extern const wefti_optimizer_ops wefti_optimizer_accum_adam;
extern const wefti_optimizer_ops wefti_optimizer_accum_adamw;
extern const wefti_optimizer_ops wefti_optimizer_muon;

#endif
