/* SPDX-License-Identifier: MIT */
#pragma once

/* What only an error in this library can make false, where it would first be seen. Builds with
 * WEFT_ASSERT (the presets dev, asan and tsan, and all with sanitizers or fuzzers) end there;
 * others do not evaluate it. Nothing that comes from outside is checked with it. */
#ifdef WEFT_ASSERT
#include <stdio.h>
#include <stdlib.h>
#define WEFTI_ASSERT(x)                                                                  \
    ((x) ? (void)0                                                                       \
         : (fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #x), abort()))
#else
#define WEFTI_ASSERT(x) ((void)sizeof(x))
#endif
