/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* What processes of a run must have alike: the configuration, but for keys of one machine
 * (wefti_config_key_is_own), and what is in their files, wherever these lie. */

/* Compares with the first process; an error names the key and both values, or the kind of file.
 * Collective; nothing where this process is alone. */
weft_status wefti_alike_check(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* A hash of the configuration, but for those keys; sized: with the numbers of nodes and ranks. */
weft_status wefti_alike_config(weft_ctx *ctx, const weft_config *config, bool sized,
                               uint64_t *out) WEFT_CHECKED;

/* What wefti_alike_check compares, in bytes, for a process that joins and is refused; owned by the
 * caller (wefti_free). */
weft_status wefti_alike_notice(weft_ctx *ctx, const wefti_prepared *p, void **out,
                               int64_t *n) WEFT_CHECKED;

/* Such a process's failure: the key and both values, or the kind of file, in place of the sentence
 * that it was refused. WEFT_OK: nothing differs that a notice tells of. */
weft_status wefti_alike_explain(weft_ctx *ctx, const wefti_prepared *p, const void *notice,
                                int64_t n) WEFT_CHECKED;

/* The part of it that is text, `own` being this process's (wefti_config_shared, without numbers of
 * nodes and ranks). The notice is foreign: any bytes will do. */
weft_status wefti_alike_compare(weft_ctx *ctx, const char *own, const void *notice,
                                int64_t n) WEFT_CHECKED;

/* For who comes later: hashes of the configuration without the numbers of nodes and ranks, and of
 * tokenizer and text. */
weft_status wefti_alike_hashes(weft_ctx *ctx, const wefti_prepared *p, uint64_t *config,
                               uint64_t *data) WEFT_CHECKED;
