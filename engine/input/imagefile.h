/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* An image in memory: bytes [height, width, channels]. */
typedef struct wefti_image {
    unsigned char *pixels; /* owned */
    int64_t height, width, channels;
} wefti_image;

/* Whether a file of this name is read: .png, .jpg, .jpeg. */
bool wefti_image_known(const char *name);

/* Reads a file as an image of 1 (grey) or 3 channels. What is no whole image of its kind,
 * or has more than 2^26 pixels, is refused. */
weft_status wefti_image_read(weft_ctx *ctx, const char *path, int64_t channels,
                             wefti_image *out) WEFT_CHECKED;
void wefti_image_free(weft_ctx *ctx, wefti_image *image);

/* Scales an image to side x side, each axis by itself, into [channels, side, side]. Going
 * down each new pixel is a mean of what it covers, weighted by a triangle. */
weft_status wefti_image_scale(weft_ctx *ctx, const wefti_image *image, int64_t side,
                              unsigned char *out) WEFT_CHECKED;
