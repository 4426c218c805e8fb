/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* Whether a parameter is meant: by its name with the wildcards of fnmatch(3), or by one of
 * @matrices (of blocks), @tables (embeddings and heads), @vectors. */
bool wefti_param_is_in(const char *pattern, const wefti_param *param);

/* Whether a parameter belongs to a module whose name ends so, "lm_head", or is of a pattern. */
bool wefti_param_is_of_module(const char *pattern, const wefti_param *param);

/* A parameter's name in an adapter's file: that of the tensor, but lm_head.weight for a head that
 * whole models' files call embed_out.weight. Modules are called so since transformers 5, and
 * PEFT's names are those of modules. */
const char *wefti_param_adapter_name(const wefti_param *param);

/* The module that a parameter's tensor in files belongs to: its name without ".weight". */
enum { WEFTI_MODULE_NAME = 96 };
void wefti_param_module(const wefti_param *param, char out[WEFTI_MODULE_NAME]);

/* Whether a matrix of a block is meant as PEFT's target_modules mean it: by the module's
 * name, by the last parts of it, by a pattern, or as one of @matrices. */
bool wefti_param_is_target(const char *pattern, const wefti_param *param);
