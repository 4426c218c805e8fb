/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

#include "args.h"

/* Flags that are short for a key of a run. */
/* clang-format off */
#define RUN_FLAGS \
    {"--init", "FOLDER", "start from this model: a run, or a Hugging Face folder", \
     "model.init"}, \
    {"--nodes", "N", "number of nodes", "mesh.nodes"}, \
    {"--ranks-per-node", "S", "ranks that shard one copy of the model in a node", \
     "mesh.ranks_per_node"}, \
    {"--link", "LINK", "emulated wire between nodes, such as 100Mbit,10ms", "mesh.link"}, \
    {"--steps", "N", "optimizer steps", "run.steps"}, \
    {"--folder", "FOLDER", "the run's folder", "run.folder"}
/* clang-format on */

/* Reads the operands of a command with a configuration, then its flags that set a key. What
 * an operand is follows from its name or, where that says nothing, from what is there:
 *
 *     section.key=value         that, unless it is no key and a file has this name
 *     folder with config.yaml   a run: its configuration, with run.folder as it is named
 *     folder with config.json   a model: model.init; at an address, too
 *     s3://BUCKET/PREFIX        with --resume: a run that was copied there (run.upload)
 *     another folder, text      data.path; several form a list
 *     *.yaml, other file of keys    a run file */
weft_status operands_read(weft_ctx *ctx, const args *a, weft_config *config) WEFT_CHECKED;

/* Refuses operands that are read as data and do not begin as data of such a run; what its name does
 * not call text is printed. After the configuration is finished. */
weft_status operands_look(weft_ctx *ctx, const args *a,
                          const weft_config *config) WEFT_CHECKED;
