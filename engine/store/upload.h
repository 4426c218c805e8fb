/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "checkpoint/lease.h"

/* Copies of a run's checkpoints and records at an address (run.upload), made beside training by
 * a thread. A checkpoint's index.json goes last and `latest` after it, so that half an upload
 * never looks like a checkpoint. What fails is tried again; once a newer checkpoint is there,
 * that one. Nothing is sent once the lease is another process's. */
typedef struct wefti_uploader wefti_uploader;

enum { WEFTI_UPLOAD_FRESH = -1, WEFTI_UPLOAD_LATER = -2 };

/* `step`: of the checkpoint with which the run continues, which is sent if the address has none as
 * new; FRESH: the run begins, and it is an error if the address has one. Both write the records,
 * so that an address or key that does not work is found before the first step, and remove the
 * parts that a killed process left. LATER: in the middle of a run. The lease is borrowed until the
 * end. */
weft_status wefti_uploader_create(weft_ctx *ctx, const char *address, const char *folder,
                                  const wefti_lease *lease, int64_t step,
                                  wefti_uploader **out) WEFT_CHECKED;

/* The checkpoint of that step is complete in the run folder. Says what has failed since the last
 * call. */
void wefti_uploader_push(weft_ctx *ctx, wefti_uploader *u, int64_t step);

/* Waits for the last checkpoint and the records, says so each ten seconds, and frees; NULL is
 * accepted. Fails if the last checkpoint is not there. */
weft_status wefti_uploader_end(weft_ctx *ctx, wefti_uploader *u) WEFT_CHECKED;
