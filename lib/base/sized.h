/* SPDX-License-Identifier: MIT */
/* Public structs that programs allocate. They begin with `size_t struct_size`, which the program
 * sets to its own sizeof, so that a program and a library built from different versions of the
 * headers understand each other:
 *
 *     program older than the library   fields that it does not know are 0; nothing is written
 *                                      behind its struct
 *     program newer than the library   accepted as long as the bytes that the library does not
 *                                      know are 0
 *
 * A public function works on its own copy, which it makes in its first lines. */
#pragma once

#include <weft/ctx.h>

typedef struct wefti_sized {
    const char *name;   /* "weft_sync_setup" */
    size_t first, size; /* sizeof in the first version that had the struct, and today */
} wefti_sized;

/* One for each row of sized.def. */
#define WEFTI_SIZED(type, last) extern const wefti_sized wefti_sized_##type;
#include "base/sized.def"
#undef WEFTI_SIZED

/* Copies what the program gave to *own, a whole struct of the kind; NULL counts as all zeros.
 * Refuses sizes that no version has, and bytes that are not 0 where this version has no field. */
weft_status wefti_sized_in(weft_ctx *ctx, const wefti_sized *kind, const void *theirs,
                           void *own) WEFT_CHECKED;

/* Copies *own to the program's struct, as much of it as that has room for; returns `status`. */
weft_status wefti_sized_out(const wefti_sized *kind, const void *own, void *theirs,
                            weft_status status);

/* Zeros a struct of the program behind its size. */
void wefti_sized_clear(void *theirs);

/* The same for n structs in a row, which all have the size of the first. [out] *own: n whole
 * structs, owned by the caller (wefti_free); NULL if n < 1. */
weft_status wefti_sized_list_in(weft_ctx *ctx, const wefti_sized *kind,
                                const void *theirs, int64_t n, void *own) WEFT_CHECKED;
weft_status wefti_sized_list_out(const wefti_sized *kind, const void *own, void *theirs,
                                 int64_t n, weft_status status);

/* The beginning of a public function: `name`, its argument, points to the function's own copy
 * from here on. */
#define WEFTI_SIZED_IN(ctx, type, name)                                                  \
    type name##_own;                                                                     \
    WEFT_TRY(wefti_sized_in(ctx, &wefti_sized_##type, name, &name##_own));               \
    name = &name##_own

/* The same for a struct that the function fills in; `name`_theirs is the program's. */
#define WEFTI_SIZED_OUT(ctx, type, name)                                                 \
    type *const name##_theirs = name;                                                    \
    WEFTI_SIZED_IN(ctx, type, name)

/* The same for a struct that a field of the function's own copy `outer`_own points to; NULL
 * stays NULL. */
#define WEFTI_SIZED_PART(ctx, type, outer, field)                                        \
    type field##_own;                                                                    \
    WEFT_TRY(wefti_sized_in(ctx, &wefti_sized_##type, outer->field, &field##_own));      \
    if (outer->field) outer##_own.field = &field##_own

/* Ends such a function. */
#define WEFTI_SIZED_GIVE(type, name, status)                                             \
    wefti_sized_out(&wefti_sized_##type, name, name##_theirs, status)
