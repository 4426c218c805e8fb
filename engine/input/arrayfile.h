/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

enum { WEFTI_ARRAY_DIMS = 4 };

/* Numbers of a .npy or idx file, row-major. */
typedef struct wefti_array {
    char *bytes;   /* the file; owned */
    int64_t begin; /* of the numbers in it */
    int64_t n;     /* numbers: the product of dims */
    int ndim;      /* 1 to 4 */
    int64_t dims[WEFTI_ARRAY_DIMS];
    char type; /* 'u' and 'i' whole numbers, 'f' floating */
    int width; /* bytes of a number: 1, 2, 4 or 8 */
} wefti_array;

/* Whether the name is one of an array: *.npy, *idx1-ubyte, *idx3-ubyte, *.idx. */
bool wefti_array_known(const char *name);

/* Reads a file; what its header says is checked against its length. */
weft_status wefti_array_read(weft_ctx *ctx, const char *path,
                             wefti_array *out) WEFT_CHECKED;
void wefti_array_free(weft_ctx *ctx, wefti_array *array);

/* Number i; i < n. */
double wefti_array_at(const wefti_array *array, int64_t i);
