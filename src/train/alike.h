/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* What the processes of a run must have in common: the configuration, except for keys of
 * one machine (wefti_config_key_is_own), and the contents of their files, wherever these
 * lie. */

/* Compares a text of lines "name: value", which begins with wefti_config_shared's, in all
 * processes. The error, in all of them, names the first line that differs, both values and
 * whose they are. Collective; does nothing if this process is alone. */
weft_status wefti_alike_texts(weft_ctx *ctx, wefti_bootstrap *b,
                              const char *own) WEFT_CHECKED;

/* Compares configurations so, and then the contents of files: such an error names the kind of
 * file. Collective. */
weft_status wefti_alike_check(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* A hash of the configuration without the keys of one machine; sized: with the numbers of
 * nodes and ranks. */
weft_status wefti_alike_config(weft_ctx *ctx, const weft_config *config, bool sized,
                               uint64_t *out) WEFT_CHECKED;

/* What wefti_alike_check compares, as bytes, for a process that joins and is refused;
 * owned by the caller (wefti_free). */
weft_status wefti_alike_notice(weft_ctx *ctx, const wefti_prepared *p, void **out,
                               int64_t *n) WEFT_CHECKED;

/* The same of a text alone, for wefti_alike_compare. */
weft_status wefti_alike_notice_of(weft_ctx *ctx, const char *text, void **out,
                                  int64_t *n) WEFT_CHECKED;

/* The failure of such a process: it names the key and both values, or the kind of file,
 * in place of the message that the process was refused. WEFT_OK: nothing that the notice
 * contains differs. */
weft_status wefti_alike_explain(weft_ctx *ctx, const wefti_prepared *p,
                                const void *notice, int64_t n) WEFT_CHECKED;

/* The part of wefti_alike_explain that compares the texts; `own` is this process's text,
 * without numbers of nodes and ranks. The notice comes from
 * outside: any bytes are accepted. */
weft_status wefti_alike_compare(weft_ctx *ctx, const char *own, const void *notice,
                                int64_t n) WEFT_CHECKED;

/* For processes that join later: hashes of the configuration without the numbers of nodes
 * and ranks, and of tokenizer and text. */
weft_status wefti_alike_hashes(weft_ctx *ctx, const wefti_prepared *p, uint64_t *config,
                               uint64_t *data) WEFT_CHECKED;
