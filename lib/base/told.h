/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Warnings that a context gives once, however many files they are about. */
typedef enum wefti_told { WEFTI_TOLD_ENCODING = 1 } wefti_told;

void wefti_ctx_warn_once(weft_ctx *ctx, wefti_told what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
