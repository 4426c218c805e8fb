/* SPDX-License-Identifier: MIT */
/* Two formats of arrays.
 *
 *     npy   "\x93NUMPY" major minor, length of the header (u16 or u32, little-endian), a
 *           Python dictionary with descr, fortran_order and shape, the numbers
 *     idx   0 0 type ndim, the dimensions as u32 big-endian, the numbers; of its types
 *           unsigned bytes (8) are read
 *
 * Of npy little-endian and single-byte whole and floating numbers are read, in C's order. */
#include "input/arrayfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

bool wefti_array_known(const char *name) {
    return ends_in(name, ".npy") || ends_in(name, ".idx") ||
           ends_in(name, "idx1-ubyte") || ends_in(name, "idx3-ubyte");
}

void wefti_array_free(weft_ctx *ctx, wefti_array *array) {
    wefti_free(ctx, array->bytes);
    *array = (wefti_array){0};
}

static weft_status refuse(weft_ctx *ctx, const char *path, const char *what) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is no array that is read: %s", path,
                         what);
}

/* Whether dims, none of them above what `room` bytes hold, make the numbers up to the end. */
static bool fits(wefti_array *a, int64_t room) {
    a->n = 1;
    for (int d = 0; d < a->ndim; d++) {
        if (a->dims[d] < 0 || (a->dims[d] > 0 && a->n > room / a->dims[d])) return false;
        a->n *= a->dims[d];
    }
    return a->n <= room / a->width && a->n * a->width == room;
}

/* ---- idx ---- */

static int64_t big32(const unsigned char *b) {
    return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
}

static weft_status read_idx(weft_ctx *ctx, const char *path, int64_t n, wefti_array *a) {
    const unsigned char *b = (const unsigned char *)a->bytes;
    if (n < 4 || b[0] != 0 || b[1] != 0 || b[2] != 8)
        return refuse(ctx, path, "it begins neither as .npy nor as idx of bytes");
    a->type = 'u';
    a->width = 1;
    a->ndim = b[3];
    a->begin = 4 + 4 * (int64_t)a->ndim;
    if (a->ndim < 1 || a->ndim > WEFTI_ARRAY_DIMS || n < a->begin)
        return refuse(ctx, path, "its dimensions are not 1 to 4");
    for (int d = 0; d < a->ndim; d++) a->dims[d] = big32(b + 4 + 4 * d);
    if (fits(a, n - a->begin)) return WEFT_OK;
    return refuse(ctx, path, "its length is not that of its dimensions");
}

/* ---- npy ---- */

/* What follows 'key': in the header, spaces left out; NULL: the key is not there. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

static bool read_type(const char *at, wefti_array *a) {
    char order, type, width;
    if (!at || sscanf(at, "'%c%c%c'", &order, &type, &width) != 3) return false;
    a->type = type;
    a->width = width - '0';
    bool whole = (type == 'u' || type == 'i') && strchr("1248", width);
    bool floating = type == 'f' && strchr("48", width);
    return (order == '<' || order == '|') && (whole || floating);
}

static bool read_shape(const char *at, wefti_array *a) {
    if (!at || *at++ != '(') return false;
    for (a->ndim = 0; *at && *at != ')'; a->ndim++) {
        char *end;
        if (a->ndim == WEFTI_ARRAY_DIMS) return false;
        a->dims[a->ndim] = strtoll(at, &end, 10);
        if (end == at) return false;
        for (at = end; *at == ',' || *at == ' ';) at++;
    }
    return *at == ')' && a->ndim > 0;
}

static weft_status read_npy(weft_ctx *ctx, const char *path, int64_t n, wefti_array *a) {
    enum { MAX_HEADER = 4096, MAGIC = 8 };
    const unsigned char *b = (const unsigned char *)a->bytes;
    char header[MAX_HEADER + 1] = "";
    int64_t head = n < MAGIC + 4 ? 0
                   : b[6] == 1   ? (int64_t)wefti_get_u16(b + 8)
                                 : (int64_t)wefti_get_u32(b + 8);
    int64_t at = MAGIC + (n >= MAGIC && b[6] == 1 ? 2 : 4);
    if (head < 1 || head > MAX_HEADER || head > n - at)
        return refuse(ctx, path, "the header of the .npy is not there as a whole");
    memcpy(header, b + at, (size_t)head);
    a->begin = at + head;
    if (!read_type(value_of(header, "'descr'"), a))
        return refuse(ctx, path, "descr is no little-endian u, i or f of 1 to 8 bytes");
    const char *order = value_of(header, "'fortran_order'");
    if (!order || strncmp(order, "False", 5) != 0)
        return refuse(ctx, path, "fortran_order is not False");
    if (!read_shape(value_of(header, "'shape'"), a))
        return refuse(ctx, path, "shape does not have 1 to 4 dimensions");
    if (fits(a, n - a->begin)) return WEFT_OK;
    return refuse(ctx, path, "its length is not that of its shape");
}

weft_status wefti_array_read(weft_ctx *ctx, const char *path, wefti_array *out) {
    int64_t n;
    *out = (wefti_array){0};
    WEFT_TRY(wefti_file_read(ctx, path, INT64_MAX, &out->bytes, &n));
    bool npy = n >= 6 && memcmp(out->bytes, "\x93NUMPY", 6) == 0;
    weft_status status = npy ? read_npy(ctx, path, n, out) : read_idx(ctx, path, n, out);
    if (status != WEFT_OK) wefti_array_free(ctx, out);
    return status;
}

/* ---- numbers ---- */

static double whole_at(const wefti_array *a, const unsigned char *b) {
    uint64_t bits = 0;
    for (int i = 0; i < a->width; i++) bits |= (uint64_t)b[i] << (8 * i);
    if (a->type == 'u') return (double)bits;
    int unused = 64 - 8 * a->width; /* sign by way of the top bit */
    uint64_t sign = (uint64_t)1 << (8 * a->width - 1);
    if (!(bits & sign)) return (double)bits;
    uint64_t negated = (~bits + 1) << unused >> unused;
    return -(double)negated;
}

double wefti_array_at(const wefti_array *a, int64_t i) {
    const unsigned char *b = (const unsigned char *)a->bytes + a->begin + i * a->width;
    float single;
    double number;
    if (a->type != 'f') return whole_at(a, b);
    if (a->width == 8) return memcpy(&number, b, sizeof number), number;
    return memcpy(&single, b, sizeof single), (double)single;
}
