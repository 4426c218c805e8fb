/* SPDX-License-Identifier: MIT */
/* Text that grows, for figures in SVG. */
#include "topology/sheet.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"

void wefti_sheet_print(wefti_sheet *sheet, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *at = sheet->text ? sheet->text + sheet->n : NULL;
    size_t room = sheet->text ? (size_t)(sheet->room - sheet->n) : 0;
    int n = vsnprintf(at, room, format, args);
    va_end(args);
    if (n > 0) sheet->n += n;
}

weft_status wefti_sheet_write(weft_ctx *ctx, wefti_sheet_writer writer, void *user,
                              char **text, int64_t *n_bytes) {
    wefti_sheet sheet = {0};
    *text = NULL;
    writer(&sheet, user);
    sheet.room = sheet.n + 1;
    WEFT_TRY(wefti_alloc(ctx, (size_t)sheet.room, "text", &sheet.text));
    sheet.n = 0;
    writer(&sheet, user);
    *text = sheet.text;
    if (n_bytes) *n_bytes = sheet.n;
    return WEFT_OK;
}
