/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* Compares configurations so, and then the contents of files: such an error names the kind of
 * file. Collective. */
weft_status wefti_alike_check(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* What wefti_alike_check compares, as bytes, for a process that joins and is refused;
 * owned by the caller (wefti_free). */
weft_status wefti_alike_notice(weft_ctx *ctx, const wefti_prepared *p, void **out,
                               int64_t *n) WEFT_CHECKED;

/* The failure of such a process: it names the key and both values, or the kind of file,
 * in place of the message that the process was refused. WEFT_OK: nothing that the notice
 * contains differs. */
weft_status wefti_alike_explain(weft_ctx *ctx, const wefti_prepared *p,
                                const void *notice, int64_t n) WEFT_CHECKED;

/* For processes that join later: hashes of the configuration without the numbers of nodes
 * and ranks, and of tokenizer and text. */
weft_status wefti_alike_hashes(weft_ctx *ctx, const wefti_prepared *p, uint64_t *config,
                               uint64_t *data) WEFT_CHECKED;
