/* SPDX-License-Identifier: MIT */
/* DCT-II (Ahmed, Natarajan, Rao 1974) by matrix products: 2 c FLOP per element and axis.
 */
#include "compress/dct.h"

#include <math.h>

void wefti_dct_basis(int64_t c, float *basis) {
    const double pi = 3.14159265358979323846;
    for (int64_t f = 0; f < c; f++) {
        double s = sqrt((f ? 2.0 : 1.0) / (double)c);
        for (int64_t i = 0; i < c; i++)
            basis[f * c + i] =
                (float)(s * cos(pi * (double)((2 * i + 1) * f) / (double)(2 * c)));
    }
}
