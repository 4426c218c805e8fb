/* SPDX-License-Identifier: MIT */
/* PNG by libpng, JPEG by libjpeg, and scaling.
 *
 * Scaling weighs the old pixel at distance d from a new one's middle by max(0, 1 - d / r),
 * r = max(1, old / new) old pixels, and divides by the sum of the weights: linear
 * interpolation going up, a mean going down. First rows, then columns, in float. */
#include "input/imagefile.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <jpeglib.h>
#include <png.h>

#include "base/file.h"
#include "base/memory.h"

enum { MAX_PIXELS = 1 << 26, MAX_SIDE = 1 << 16, MAX_FILE = 1 << 29 };

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcasecmp(name + n - m, suffix) == 0;
}

static bool is_png(const char *name) { return ends_in(name, ".png"); }

bool wefti_image_known(const char *name) {
    return is_png(name) || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

void wefti_image_free(weft_ctx *ctx, wefti_image *image) {
    wefti_free(ctx, image->pixels);
    *image = (wefti_image){0};
}

static weft_status make_room(weft_ctx *ctx, const char *path, int64_t height,
                             int64_t width, wefti_image *image) {
    if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE ||
        height > MAX_PIXELS / width)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s has %lld x %lld pixels, expected sides up to %d and at most %d together",
            path, (long long)width, (long long)height, MAX_SIDE, MAX_PIXELS);
    image->height = height;
    image->width = width;
    return wefti_alloc_n(ctx, height * width, (size_t)image->channels, "an image",
                         &image->pixels);
}

static weft_status damaged(weft_ctx *ctx, const char *path, const char *kind,
                           const char *why) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is no whole %s: %.160s", path, kind,
                         why);
}

/* ---- PNG ---- */

static weft_status read_png(weft_ctx *ctx, const char *path, const char *bytes, int64_t n,
                            wefti_image *out) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    const png_color black = {0, 0, 0}; /* behind what is transparent */
    if (!png_image_begin_read_from_memory(&png, bytes, (size_t)n))
        return damaged(ctx, path, "PNG", png.message);
    png.format = out->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    weft_status status = make_room(ctx, path, png.height, png.width, out);
    if (status == WEFT_OK && !png_image_finish_read(&png, &black, out->pixels, 0, NULL))
        status = damaged(ctx, path, "PNG", png.message);
    png_image_free(&png);
    return status;
}

/* ---- JPEG ---- */

/* libjpeg reports by jumping; what is to be freed lives here, outside of the jump. */
typedef struct decoding {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it back */
    jmp_buf caught;
    struct jpeg_decompress_struct jpeg;
    char message[JMSG_LENGTH_MAX];
    weft_ctx *ctx;
    const char *path;
    wefti_image *out;
} decoding;

static void fail(j_common_ptr jpeg) {
    decoding *d = (decoding *)(void *)jpeg->err;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->caught, 1);
}

/* What libjpeg would print. A warning means damaged data: as bad as an error. */
static void hush(j_common_ptr jpeg) { (void)jpeg; }

static void warn(j_common_ptr jpeg, int level) {
    if (level < 0) fail(jpeg);
}

/* May not return at all. */
static weft_status decode(decoding *d, const char *bytes, int64_t n) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, (const unsigned char *)bytes, (unsigned long)n);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = d->out->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(jpeg);
    WEFT_TRY(make_room(d->ctx, d->path, jpeg->output_height, jpeg->output_width, d->out));
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = d->out->pixels +
                       (int64_t)jpeg->output_scanline * d->out->width * d->out->channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return WEFT_OK;
}

/* Nothing that changes lies in the frame that is jumped to. */
static weft_status decode_or_catch(decoding *d, const char *bytes, int64_t n) {
    if (setjmp(d->caught) == 0) return decode(d, bytes, n);
    return damaged(d->ctx, d->path, "JPEG", d->message);
}

static weft_status read_jpeg(weft_ctx *ctx, const char *path, const char *bytes,
                             int64_t n, wefti_image *out) {
    decoding d = {.ctx = ctx, .path = path, .out = out};
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = fail;
    d.errors.output_message = hush;
    d.errors.emit_message = warn;
    weft_status status = decode_or_catch(&d, bytes, n);
    jpeg_destroy_decompress(&d.jpeg);
    return status;
}

weft_status wefti_image_read(weft_ctx *ctx, const char *path, int64_t channels,
                             wefti_image *out) {
    char *bytes;
    int64_t n;
    *out = (wefti_image){.channels = channels};
    WEFT_TRY(wefti_file_read(ctx, path, MAX_FILE, &bytes, &n));
    weft_status status = is_png(path) ? read_png(ctx, path, bytes, n, out)
                                      : read_jpeg(ctx, path, bytes, n, out);
    wefti_free(ctx, bytes);
    if (status != WEFT_OK) wefti_image_free(ctx, out);
    return status;
}

/* ---- scaling ---- */

/* One axis: `lines` lines of `from` values `step` apart, to `to` values. */
typedef struct axis {
    int64_t lines, from, to;
    int64_t line_in, line_out; /* from one line to the next */
    int64_t step_in, step_out; /* from one value of a line to the next */
} axis;

static void scale_value(const axis *a, int64_t at, const float *in, float *out) {
    double scale = (double)a->from / (double)a->to, radius = scale > 1 ? scale : 1;
    double middle = ((double)at + 0.5) * scale - 0.5, sum = 0, weights = 0;
    int64_t first = (int64_t)ceil(middle - radius),
            last = (int64_t)floor(middle + radius);
    for (int64_t i = first < 0 ? 0 : first; i <= last && i < a->from; i++) {
        double weight = 1 - fabs((double)i - middle) / radius;
        if (weight <= 0) continue;
        sum += weight * (double)in[i * a->step_in];
        weights += weight;
    }
    out[at * a->step_out] = (float)(sum / weights);
}

static void scale_axis(const axis *a, const float *in, float *out) {
    for (int64_t l = 0; l < a->lines; l++)
        for (int64_t i = 0; i < a->to; i++)
            scale_value(a, i, in + l * a->line_in, out + l * a->line_out);
}

static unsigned char to_byte(float value) {
    float rounded = value + 0.5f;
    return (unsigned char)(rounded <= 0 ? 0 : rounded >= 255 ? 255 : rounded);
}

/* Channel c, by way of in [height, width] and half [height, side]. */
static void scale_channel(const wefti_image *image, int64_t c, int64_t side, float *in,
                          float *half, unsigned char *out) {
    int64_t h = image->height, w = image->width;
    float *full = in; /* read no more when it is written: side^2 fit (below) */
    for (int64_t i = 0; i < h * w; i++)
        in[i] = (float)image->pixels[i * image->channels + c];
    scale_axis(&(axis){h, w, side, w, side, 1, 1}, in, half);
    scale_axis(&(axis){side, h, side, 1, 1, side, side}, half, full);
    for (int64_t i = 0; i < side * side; i++) out[i] = to_byte(full[i]);
}

weft_status wefti_image_scale(weft_ctx *ctx, const wefti_image *image, int64_t side,
                              unsigned char *out) {
    int64_t n = image->height * image->width, square = side * side;
    float *room;
    if (square > n) n = square;
    WEFT_TRY(
        wefti_alloc_n(ctx, n + image->height * side, sizeof *room, "an image", &room));
    for (int64_t c = 0; c < image->channels; c++)
        scale_channel(image, c, side, room, room + n, out + c * square);
    wefti_free(ctx, room);
    return WEFT_OK;
}
