/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Text that is written twice by the same function: first only measured, then into memory
 * of just that size. */
typedef struct wefti_sheet {
    char *text; /* NULL: measuring */
    int64_t n, room;
} wefti_sheet;

typedef void (*wefti_sheet_writer)(wefti_sheet *sheet, void *user);

/* As printf; for text and whole numbers (real ones would follow the process's locale). */
void wefti_sheet_print(wefti_sheet *sheet, const char *format, ...) WEFT_PRINTF(2, 3);

/* [out] *text what the writer wrote and a NUL, owned by the caller (wefti_free); *n_bytes
 * its length, may be NULL. */
weft_status wefti_sheet_write(weft_ctx *ctx, wefti_sheet_writer writer, void *user,
                              char **text, int64_t *n_bytes) WEFT_CHECKED;
