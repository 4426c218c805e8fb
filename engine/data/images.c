/* SPDX-License-Identifier: MIT */
/* Images with a class each:
 *
 *     a folder    of folders, one per class, whose .png and .jpg are its images; classes
 *                 are numbered in the order of their names' bytes
 *     two arrays  of images [n,h,w] or [n,h,w,channels] and of classes [n], numbers from 0
 *
 * Several paths are one list. Images for validation have the classes of those for
 * training: by name, or with arrays by number. All are scaled to one square; without a
 * wish all have to be squares of one size. Floating numbers in [0,1] are shares of 255. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "input/arrayfile.h"
#include "data/examples.h"
#include "input/imagefile.h"

enum { MAX_CLASSES = 1 << 20, MAX_SIDE = 2048, MAX_ARRAY_SIDE = 1 << 16 };

/* Names of a folder's entries, in order; each owned. */
typedef struct names {
    char **items;
    int64_t n, room;
} names;

static void names_fini(weft_ctx *ctx, names *list) {
    for (int64_t i = 0; i < list->n; i++) wefti_free(ctx, list->items[i]);
    wefti_free(ctx, list->items);
}

static weft_status add_name(weft_ctx *ctx, names *list, const char *name) {
    WEFT_TRY(wefti_reserve(ctx, &list->items, &list->room, list->n, 1,
                           sizeof *list->items, "names of files"));
    WEFT_TRY(wefti_strdup(ctx, name, &list->items[list->n]));
    list->n++;
    return WEFT_OK;
}

/* The entries of a folder that are folders, or that are images. */
static weft_status list(weft_ctx *ctx, const char *path, bool folders, names *out) {
    char full[PATH_MAX];
    struct stat info;
    weft_status status = WEFT_OK;
    DIR *folder = opendir(path);
    if (!folder) return wefti_fail_errno(ctx, "open", path);
    while (status == WEFT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno != 0) status = wefti_fail_errno(ctx, "read", path);
        if (!entry) break;
        if (entry->d_name[0] == '.') continue;
        status = wefti_file_path(ctx, path, entry->d_name, full);
        bool is_folder = status == WEFT_OK && stat(full, &info) == 0 &&
                         S_ISDIR(info.st_mode);
        bool wanted = folders ? is_folder
                              : !is_folder && wefti_image_known(entry->d_name);
        if (status == WEFT_OK && wanted) status = add_name(ctx, out, entry->d_name);
    }
    closedir(folder);
    if (status == WEFT_OK && out->n > 0)
        qsort(out->items, (size_t)out->n, sizeof *out->items, wefti_by_name);
    return status;
}

/* ---- the list ---- */

static weft_status settle_side(weft_ctx *ctx, wefti_examples *e, const char *path,
                               int64_t height, int64_t width) {
    if (e->side == 0 && height == width && height <= MAX_SIDE) e->side = height;
    if (e->side > 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has %lld x %lld pixels, expected a square of at most %d; "
                         "set model.image to scale all images to one",
                         path, (long long)width, (long long)height, MAX_SIDE);
}

/* Room for one more image, whose pixels are returned in *pixels. */
static weft_status add_example(weft_ctx *ctx, wefti_examples *e, int64_t label,
                               unsigned char **pixels) {
    int64_t size = e->channels * e->side * e->side;
    WEFT_TRY(
        wefti_reserve(ctx, &e->pixels, &e->pixels_room, e->n * size, size, 1, "images"));
    WEFT_TRY(wefti_reserve(ctx, &e->labels, &e->labels_room, e->n, 1, sizeof *e->labels,
                           "classes"));
    e->labels[e->n] = (int32_t)label;
    *pixels = e->pixels + e->n++ * size;
    return WEFT_OK;
}

/* Adds an image as it is, or scaled where a size is wished. */
static weft_status add_image(weft_ctx *ctx, wefti_examples *e, const char *path,
                             const wefti_image *image, int64_t label, bool wished) {
    unsigned char *pixels;
    WEFT_TRY(settle_side(ctx, e, path, image->height, image->width));
    bool same = image->height == e->side && image->width == e->side;
    if (!same && !wished)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s has %lld x %lld pixels, but others %lld x %lld; set "
                             "model.image to scale all images to one size",
                             path, (long long)image->width, (long long)image->height,
                             (long long)e->side, (long long)e->side);
    WEFT_TRY(add_example(ctx, e, label, &pixels));
    return wefti_image_scale(ctx, image, e->side, pixels);
}

/* ---- folders ---- */

static weft_status find_class(weft_ctx *ctx, wefti_examples *e, const char *path,
                              const char *name, bool known, int64_t *out) {
    for (*out = 0; *out < e->n_classes; ++*out)
        if (strcmp(e->classes[*out], name) == 0) return WEFT_OK;
    if (known)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has a class '%.100s', which the images for training do "
                             "not have",
                             path, name);
    WEFT_TRY(wefti_reserve(ctx, &e->classes, &e->classes_room, e->n_classes, 1,
                           sizeof *e->classes, "classes"));
    WEFT_TRY(wefti_strdup(ctx, name, &e->classes[e->n_classes]));
    *out = e->n_classes++;
    return WEFT_OK;
}

static weft_status add_class(weft_ctx *ctx, wefti_examples *e, const char *folder,
                             int64_t label, bool wished) {
    char path[PATH_MAX];
    names files = {0};
    weft_status status = list(ctx, folder, false, &files);
    for (int64_t i = 0; i < files.n && status == WEFT_OK; i++) {
        wefti_image image = {0};
        status = wefti_file_path(ctx, folder, files.items[i], path);
        if (status == WEFT_OK) status = wefti_image_read(ctx, path, e->channels, &image);
        if (status == WEFT_OK) status = add_image(ctx, e, path, &image, label, wished);
        wefti_image_free(ctx, &image);
    }
    names_fini(ctx, &files);
    return status;
}

static weft_status add_folder(weft_ctx *ctx, wefti_examples *e, const char *path,
                              bool known, bool wished) {
    char folder[PATH_MAX];
    int64_t label;
    names classes = {0};
    weft_status status = list(ctx, path, true, &classes);
    if (status == WEFT_OK && classes.n == 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                               "the folder %s has no folders, expected one per class",
                               path);
    for (int64_t i = 0; i < classes.n && status == WEFT_OK; i++) {
        status = wefti_file_path(ctx, path, classes.items[i], folder);
        if (status == WEFT_OK)
            status = find_class(ctx, e, path, classes.items[i], known, &label);
        if (status == WEFT_OK) status = add_class(ctx, e, folder, label, wished);
    }
    names_fini(ctx, &classes);
    return status;
}

/* ---- arrays ---- */

static double largest(const wefti_array *a) {
    double most = 0;
    for (int64_t i = 0; i < a->n; i++) most = fmax(most, wefti_array_at(a, i));
    return most;
}

static weft_status check_arrays(weft_ctx *ctx, const char *const paths[2],
                                const wefti_array *images, const wefti_array *labels) {
    if (images->ndim < 3)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has %d dimensions, expected 3 or 4: images, height, "
                             "width, channels",
                             paths[0], images->ndim);
    if (labels->ndim == 1 && labels->dims[0] == images->dims[0] && labels->type != 'f')
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s has %lld images, but %s is no list of so many whole numbers",
                         paths[0], (long long)images->dims[0], paths[1]);
}

static weft_status label_at(weft_ctx *ctx, const char *path, const wefti_array *labels,
                            int64_t i, const wefti_examples *like, int64_t *out) {
    double label = wefti_array_at(labels, i);
    double end = like ? (double)like->n_classes : MAX_CLASSES;
    *out = 0;
    if (!(label >= 0 && label < end))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "class %lld of %s is %.10g, expected 0 to %.10g",
                             (long long)i, path, label, end - 1);
    *out = (int64_t)label;
    return WEFT_OK;
}

/* Image i of an array as bytes. */
static weft_status cut_image(weft_ctx *ctx, const char *path, const wefti_array *a,
                             int64_t i, double scale, wefti_image *out) {
    int64_t n = out->height * out->width * out->channels;
    for (int64_t p = 0; p < n; p++) {
        double value = wefti_array_at(a, i * n + p) * scale;
        if (!(value >= 0 && value <= 255))
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "image %lld of %s has the number %.10g, expected 0 to "
                                 "255, or floating numbers from 0 to 1",
                                 (long long)i, path, value);
        out->pixels[p] = (unsigned char)(value + 0.5);
    }
    return WEFT_OK;
}

static weft_status add_images(weft_ctx *ctx, wefti_examples *e,
                              const char *const paths[2], const wefti_array *images,
                              const wefti_array *labels, const wefti_examples *like,
                              wefti_image *room, bool wished) {
    double scale = images->type == 'f' && largest(images) <= 1 ? 255 : 1;
    for (int64_t i = 0; i < images->dims[0]; i++) {
        int64_t label;
        WEFT_TRY(label_at(ctx, paths[1], labels, i, like, &label));
        WEFT_TRY(cut_image(ctx, paths[0], images, i, scale, room));
        WEFT_TRY(add_image(ctx, e, paths[0], room, label, wished));
        if (label >= e->n_classes) e->n_classes = label + 1;
    }
    return WEFT_OK;
}

static weft_status take_arrays(weft_ctx *ctx, wefti_examples *e,
                               const char *const paths[2], const wefti_array *images,
                               const wefti_array *labels, const wefti_examples *like,
                               bool wished) {
    wefti_image room = {.height = images->dims[1], .width = images->dims[2]};
    room.channels = images->ndim == 4 ? images->dims[3] : 1;
    if (e->channels == 0) e->channels = room.channels;
    if (room.height < 1 || room.width < 1 || room.height > MAX_ARRAY_SIDE ||
        room.width > MAX_ARRAY_SIDE)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s has images of %lld x %lld pixels, expected sides of 1 to %d", paths[0],
            (long long)room.width, (long long)room.height, MAX_ARRAY_SIDE);
    if (room.channels != e->channels || room.channels < 1 || room.channels > 4)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has %lld channels, expected %lld",
                             paths[0], (long long)room.channels,
                             (long long)(e->channels > 4 ? 4 : e->channels));
    WEFT_TRY(wefti_alloc_n(ctx, images->dims[0] ? images->n / images->dims[0] : 0, 1,
                           "an image", &room.pixels));
    weft_status status = add_images(ctx, e, paths, images, labels, like, &room, wished);
    wefti_image_free(ctx, &room);
    return status;
}

static weft_status add_arrays(weft_ctx *ctx, wefti_examples *e,
                              const char *const paths[2], const wefti_examples *like,
                              bool wished) {
    wefti_array images = {0}, labels = {0};
    weft_status status = wefti_array_read(ctx, paths[0], &images);
    if (status == WEFT_OK) status = wefti_array_read(ctx, paths[1], &labels);
    if (status == WEFT_OK) status = check_arrays(ctx, paths, &images, &labels);
    if (status == WEFT_OK)
        status = take_arrays(ctx, e, paths, &images, &labels, like, wished);
    wefti_array_free(ctx, &images);
    wefti_array_free(ctx, &labels);
    return status;
}

/* The classes of others, so that numbers mean the same. */
static weft_status take_classes(weft_ctx *ctx, const wefti_examples *like,
                                wefti_examples *e) {
    int64_t label;
    for (int64_t i = 0; like->classes && i < like->n_classes; i++)
        WEFT_TRY(find_class(ctx, e, "", like->classes[i], false, &label));
    e->n_classes = like->n_classes;
    return WEFT_OK;
}

weft_status wefti_images_read(weft_ctx *ctx, const char *const *paths, int n,
                              const wefti_examples *like, wefti_examples *e) {
    bool wished = e->side > 0;
    if (like) WEFT_TRY(take_classes(ctx, like, e));
    for (int i = 0; i < n; i++) {
        if (!wefti_array_known(paths[i])) {
            if (e->channels == 0) e->channels = 3;
            WEFT_TRY(add_folder(ctx, e, paths[i], like != NULL, wished));
            continue;
        }
        if (i + 1 == n)
            return weft_ctx_fail(
                ctx, WEFT_ERR_CONFIG,
                "%s has no partner, expected an array of classes after it", paths[i]);
        WEFT_TRY(add_arrays(ctx, e, paths + i++, like, wished));
    }
    return WEFT_OK;
}
