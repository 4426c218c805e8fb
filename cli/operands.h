/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

#include "args.h"

/* Reads the operands of a command with a configuration, then its flags that set a key. What
 * an operand is follows from its name or, where that says nothing, from what is there:
 *
 *     section.key=value         that, unless it is no key and a file has this name
 *     folder with config.yaml   a run: its configuration, with run.folder as it is named
 *     folder with config.json   a model: model.init
 *     another folder, text      data.path; several form a list
 *     *.yaml, other file of keys    a run file */
weft_status operands_read(weft_ctx *ctx, const args *a, weft_config *config) WEFT_CHECKED;
