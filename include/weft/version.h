/* SPDX-License-Identifier: MIT */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of these headers; the build takes its own from these three lines. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0

/** Helpers of WEFT_VERSION. */
#define WEFT_VERSION_TEXT_OF(a, b, c) #a "." #b "." #c
#define WEFT_VERSION_TEXT(a, b, c) WEFT_VERSION_TEXT_OF(a, b, c)
/** "0.2.0" */
#define WEFT_VERSION                                                                     \
    WEFT_VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)
/** One number to compare with: #if WEFT_VERSION_NUMBER >= WEFT_VERSION_OF(0, 2, 0) */
#define WEFT_VERSION_OF(a, b, c) ((a)*10000 + (b)*100 + (c))
#define WEFT_VERSION_NUMBER                                                              \
    WEFT_VERSION_OF(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)

/** The version of the library that runs, as WEFT_VERSION writes it. */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
