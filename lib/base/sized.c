/* SPDX-License-Identifier: MIT */
/* Copies between a program's structs and the library's, whose versions may differ. */
#include <string.h>

#include <weft/ext/transport.h>
#include <weft/probe.h>
#include <weft/weft.h>

#include "base/memory.h"
#include "base/sized.h"

/* No struct will ever be this long: such a number is no size. */
enum { MOST_BYTES = 1 << 20 };

#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* The first version ended with the field `last` and the padding after it. */
#define WEFTI_SIZED(type, last)                                                          \
    const wefti_sized wefti_sized_##type = {                                             \
        #type,                                                                           \
        ROUND_UP(offsetof(type, last) + sizeof(((type *)0)->last), _Alignof(type)),      \
        sizeof(type)};                                                                   \
    _Static_assert(offsetof(type, struct_size) == 0, #type " begins with its size");
#include "base/sized.def"

static size_t size_of(const void *theirs) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

static weft_status check(weft_ctx *ctx, const wefti_sized *kind, const void *theirs) {
    size_t size = size_of(theirs);
    if (size < kind->first || size > MOST_BYTES)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s.struct_size is %zu, expected sizeof(%s), which is %zu "
                             "in weft " WEFT_VERSION " and never less than %zu",
                             kind->name, size, kind->name, kind->size, kind->first);
    const unsigned char *bytes = theirs;
    for (size_t i = kind->size; i < size; i++)
        if (bytes[i] != 0)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "%s has %zu bytes, of which weft " WEFT_VERSION
                                 " knows the first %zu, and byte %zu is not 0: the "
                                 "program sets a field of a newer weft",
                                 kind->name, size, kind->size, i);
    return WEFT_OK;
}

static void copy_in(const wefti_sized *kind, const void *theirs, void *own) {
    size_t size = size_of(theirs);
    memset(own, 0, kind->size);
    memcpy(own, theirs, size < kind->size ? size : kind->size);
    memcpy(own, &kind->size, sizeof kind->size);
}

static void copy_out(const wefti_sized *kind, const void *own, void *theirs) {
    size_t size = size_of(theirs), known = size < kind->size ? size : kind->size;
    memcpy((char *)theirs + sizeof size, (const char *)own + sizeof size,
           known - sizeof size);
}

weft_status wefti_sized_in(weft_ctx *ctx, const wefti_sized *kind, const void *theirs,
                           void *own) {
    memset(own, 0, kind->size);
    memcpy(own, &kind->size, sizeof kind->size);
    if (!theirs) return WEFT_OK;
    WEFT_TRY(check(ctx, kind, theirs));
    copy_in(kind, theirs, own);
    return WEFT_OK;
}

weft_status wefti_sized_out(const wefti_sized *kind, const void *own, void *theirs,
                            weft_status status) {
    if (theirs) copy_out(kind, own, theirs);
    return status;
}

void wefti_sized_clear(void *theirs) {
    size_t size = size_of(theirs);
    if (size > sizeof size && size <= MOST_BYTES)
        memset((char *)theirs + sizeof size, 0, size - sizeof size);
}

weft_status wefti_sized_list_in(weft_ctx *ctx, const wefti_sized *kind,
                                const void *theirs, int64_t n, void *own) {
    char *copies = NULL;
    memset(own, 0, sizeof(void *));
    if (n < 1) return WEFT_OK;
    if (!theirs)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "a list of %lld %s is NULL",
                             (long long)n, kind->name);
    size_t stride = size_of(theirs);
    WEFT_TRY(check(ctx, kind, theirs));
    WEFT_TRY(wefti_alloc_n(ctx, n, kind->size, kind->name, &copies));
    for (int64_t i = 0; i < n; i++) {
        const char *item = (const char *)theirs + (size_t)i * stride;
        weft_status status = check(ctx, kind, item);
        if (status == WEFT_OK && size_of(item) != stride)
            status = weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                   "%s.struct_size is %zu in element %lld of a list, "
                                   "expected %zu as in the first",
                                   kind->name, size_of(item), (long long)i, stride);
        WEFTI_TRY_OR(status, wefti_free(ctx, copies));
        copy_in(kind, item, copies + (size_t)i * kind->size);
    }
    memcpy(own, &copies, sizeof copies);
    return WEFT_OK;
}

weft_status wefti_sized_list_out(const wefti_sized *kind, const void *own, void *theirs,
                                 int64_t n, weft_status status) {
    for (int64_t i = 0; i < n; i++)
        copy_out(kind, (const char *)own + (size_t)i * kind->size,
                 (char *)theirs + (size_t)i * size_of(theirs));
    return status;
}
