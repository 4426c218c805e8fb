/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of wefti_kernels_reference that are not in the file of its table. Their
 * meaning, their shapes, and whether results are stored or added: kernels/kernels.h. */

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/kernels.h"

/* The reference table: plain loops as in the formulas, with sums in double where it matters. */
extern const wefti_kernels wefti_kernels_reference;

/* wefti_kernels_find and wefti_kernels_names, which know this one, too: as "reference", last. */
static inline const wefti_kernels *test_kernels_find(const char *name) {
    if (name && strcmp(name, "reference") == 0) return &wefti_kernels_reference;
    return wefti_kernels_find(name);
}

static inline const char *const *test_kernels_names(void) {
    enum { MOST = 8 };
    static const char *names[MOST];
    int n = 0;
    for (const char *const *name = wefti_kernels_names(); *name; name++)
        names[n++] = *name;
    names[n] = "reference";
    return names;
}

/* The nearest bfloat16 as an f32; a NaN is unchanged. */
static inline float wefti_reference_bf16(float x) {
    return isnan(x) ? x : wefti_f32_of_bf16(wefti_bf16(x));
}

/* reference_optimizer.c */
WEFTI_KERNEL(adam) wefti_reference_adam;
WEFTI_KERNEL(accum_adam) wefti_reference_accum_adam;
WEFTI_KERNEL(sgd) wefti_reference_sgd;

/* --- spectrum_reference.c: the DCT (compress/spectrum.h) by its matrix --- */

/* n vectors of length c, one after another: out = DCT of each (inverse: from coefficients
 * back). out must not overlap x. */
void wefti_dct_vectors(const wefti_kernels *kernels, int64_t c, const float *basis,
                       int64_t n, bool inverse, const float *x, float *out);

/* n blocks of c x c: out = basis x basis^T of each (inverse: basis^T x basis). `scratch`:
 * n * c * c floats; x is left as it is. */
void wefti_dct_blocks(const wefti_kernels *kernels, int64_t c, const float *basis,
                      int64_t n, bool inverse, const float *x, float *out,
                      float *scratch);
