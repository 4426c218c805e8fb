/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/doctor.h>

#include "base/machine.h"

/* The parts of weft_doctor_examine, each in its own file. Facts that they cannot find out
 * remain -1 or "". */
void wefti_examine_machine(const char *root, weft_rank_facts *facts);
void wefti_examine_network(const weft_doctor_options *options, weft_rank_facts *facts);
void wefti_examine_software(weft_ctx *ctx, weft_rank_facts *facts);
void wefti_examine_environment(const char *const *environment, weft_rank_facts *facts);
weft_status wefti_examine_run(weft_ctx *ctx, const weft_doctor_options *options,
                              weft_rank_facts *facts) WEFT_CHECKED;

/* Fills in `calls`: which ranks of the mesh this process can call. */
void wefti_examine_calls(weft_ctx *ctx, weft_mesh *mesh, weft_rank_facts *facts);

/* weft_rank_facts.instructions of this processor. */
int64_t wefti_instructions(void);
