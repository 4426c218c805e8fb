/* SPDX-License-Identifier: MIT */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

/* For programs that run under MPI themselves. Not part of weft/weft.h: it needs mpi.h, and
 * the library of the MPI in use, -lweft_openmpi or -lweft_mpich. */

#include <mpi.h>

#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The processes of `comm` as a mesh. The communicator is duplicated, so that messages of
 * weft and of the program can not be confused. MPI must have been initialized with
 * MPI_THREAD_MULTIPLE; weft does not finalize it. Collective over comm.
 * Errors: CONFIG, FILE, PEER. */
WEFT_API weft_status weft_mesh_from_mpi(weft_ctx *ctx, MPI_Comm comm,
                                        weft_mesh **out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
