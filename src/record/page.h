/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_PAGE_H
#define WEFTI_PAGE_H

#include "record/buffer.h"

/* The frame of an HTML page that needs nothing from elsewhere: one style sheet, light and
 * dark, no scripts. */

/* Writes everything up to the headline. */
void wefti_page_begin(weft_ctx *ctx, wefti_buffer *out, const char *title);

/* Ends the page and writes it to `path`, unless something failed before. */
weft_status wefti_page_end(weft_ctx *ctx, wefti_buffer *out,
                           const char *path) WEFT_CHECKED;

/* A tile: label, then the caller writes the number (escaped), then wefti_tile_note, then
 * the caller writes a line of small text, then wefti_tile_end. */
void wefti_tile_begin(weft_ctx *ctx, wefti_buffer *out, const char *label);
void wefti_tile_note(weft_ctx *ctx, wefti_buffer *out);
void wefti_tile_end(weft_ctx *ctx, wefti_buffer *out);

#endif
