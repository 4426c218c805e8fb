/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* Whether a parameter belongs to a module whose name ends like the pattern ("lm_head"),
 * or matches the pattern. */
bool wefti_param_is_of_module(const char *pattern, const wefti_param *param);

/* A parameter's name in an adapter's file: that of the tensor, except that a head which
 * is embed_out.weight in files of whole models is lm_head.weight. That is the module's
 * name since transformers 5, and PEFT uses the names of modules. */
const char *wefti_param_adapter_name(const wefti_param *param);

/* The module that a parameter's tensor in files belongs to: its name without ".weight". */
enum { WEFTI_MODULE_NAME = 96 };
void wefti_param_module(const wefti_param *param, char out[WEFTI_MODULE_NAME]);

/* Whether a pattern matches a matrix of a block in the sense of PEFT's target_modules:
 * the module's name, its last parts, a pattern, or @matrices. */
bool wefti_param_is_target(const char *pattern, const wefti_param *param);
