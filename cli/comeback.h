/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/mesh.h>

#include "args.h"

/* A process that the others have gone on without, though it lives, begins anew as one that joins:
 *
 *     weft train run.yaml --resume  -->  wait  -->  weft train --join a:29500,b:29501 run.yaml
 *
 * The program is started again in its own process, so whoever watches over it (a shell, systemd)
 * sees one process all the time, and nothing of the old run is left in it. */
typedef struct comeback {
    const args *given;
    long long most; /* --returns */
    int n;          /* times that it has come back shortly before */
    double begin_s; /* of this start */
} comeback;

/* Returns CODE_OK, or CODE_USAGE after saying what is wrong. */
int comeback_init(comeback *c, const args *given);

/* After a failure, of which `ctx` tells. Returns if there is no way back, or it was taken too
 * often, or `should_stop`. */
void comeback_try(const comeback *c, const weft_ctx *ctx, weft_mesh *mesh,
                  bool (*should_stop)(void *user));
