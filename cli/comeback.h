/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/mesh.h>

#include "args.h"

/* Lets a live process that the others have dropped join the run again, as a new process
 * would:
 *
 *     weft train run.yaml --resume  -->  wait  -->  weft train --join a:29500,b:29501 run.yaml
 *
 * The program executes itself again in the same process. So a supervisor (a shell,
 * systemd) sees one process all the time, and no state of the old run is left. */
typedef struct comeback {
    const args *given;
    long long most; /* --returns */
    int n;          /* number of recent returns */
    double begin_s; /* time of this start */
} comeback;

/* Returns CODE_OK, or CODE_USAGE after saying what is wrong. */
int comeback_init(comeback *c, const args *given);

/* To be called after a failure; `ctx` holds its message. Does not return if the program
 * was started again. Returns if the run cannot be joined, if there were too many returns,
 * or if `should_stop` says so. */
void comeback_try(const comeback *c, const weft_ctx *ctx, weft_mesh *mesh,
                  bool (*should_stop)(void *user));
