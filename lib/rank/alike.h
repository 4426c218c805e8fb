/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

#include "rank/bootstrap.h"

/* What the processes of a run must have in common: the configuration, except for keys of
 * one machine (wefti_config_key_is_own), and the contents of their files, wherever these
 * lie. */

/* Compares a text of lines "name: value", which begins with wefti_config_shared's, in all
 * processes. The error, in all of them, names the first line that differs, both values and
 * whose they are. Collective; does nothing if this process is alone. */
weft_status wefti_alike_texts(weft_ctx *ctx, wefti_bootstrap *b,
                              const char *own) WEFT_CHECKED;

/* The same of the processes of a mesh that have no bootstrap yet. */
weft_status wefti_alike_among(weft_ctx *ctx, weft_mesh *mesh,
                              const char *own) WEFT_CHECKED;

/* A hash of the configuration without the keys of one machine; sized: with the numbers of
 * nodes and ranks. */
weft_status wefti_alike_config(weft_ctx *ctx, const weft_config *config, bool sized,
                               uint64_t *out) WEFT_CHECKED;

/* A text as bytes for wefti_alike_compare, behind room for hashes of files, and what
 * method=auto decided (or ""); owned by the caller (wefti_free). */
enum { WEFTI_NOTICE_FACTS = 4 };
weft_status wefti_alike_notice_of(weft_ctx *ctx, const char *text, const char *decided,
                                  void **out, int64_t *n) WEFT_CHECKED;

/* What was decided, of a notice, which may be NULL and comes from outside: any bytes are
 * accepted. [out] out[size]: "" if it says nothing. */
void wefti_alike_decided(const void *notice, int64_t n, char *out, size_t size);

/* The failure of a process that joins and is refused: it names the line of the two texts
 * that differs. WEFT_OK: they are the same. `own` is this process's text,
 * without numbers of nodes and ranks. The notice comes from
 * outside: any bytes are accepted. */
weft_status wefti_alike_compare(weft_ctx *ctx, const char *own, const void *notice,
                                int64_t n) WEFT_CHECKED;
