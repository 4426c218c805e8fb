/* SPDX-License-Identifier: MIT */
/* Normal numbers by Box and Muller, as adapter/init.c defines them, CALLS pairs side by side.
 *
 *     u = 2^k m, s = (m - 1) / (m + 1):  ln u = k ln 2 + 2 (s + s^3/3 + ... + s^17/17)
 *     v = q/4 + t, |t| <= 1/8:           cos, sin 2 pi t by their series, turned by q quarters
 *
 * |s| < 0.172 and |2 pi t| < 0.786, so the series leave off less than 2^-50, and what is computed
 * in double precision differs from the C library's by less than 2^-46 (std rho + |mean|). A number
 * is given if all of CLOSE = 2^-42 of that around it rounds to the same f32, so to the one that the
 * C library's double rounds to; else, of 100,000 numbers about one, it is NaN. */
#include "tensor/isa/parts.h"
#include "tensor/isa/philox.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 2 * CALLS };

static const double CLOSE = 0x1p-42;

/* rho of each pair: sqrt(-2 ln u), with u as in wefti_rng_normal. */
static void radii(uint32_t word[4][CALLS], double rho[CALLS]) {
    const uint64_t root_half = 0x3FE6A09E667F3BCD, mantissa = ((uint64_t)1 << 52) - 1;
    for (int i = 0; i < CALLS; i++) {
        double high = (double)(int32_t)(word[1][i] ^ 0x80000000u) + 0x1p31, m, k;
        double u = (high * 0x1p21 + (double)(int32_t)(word[0][i] >> 11) + 0.5) * 0x1p-53;
        uint64_t bits;
        memcpy(&bits, &u, sizeof bits);
        bits += ((uint64_t)1023 << 52) - root_half; /* m in [sqrt(1/2), sqrt(2)) */
        uint64_t m_bits = (bits & mantissa) + root_half;
        uint64_t k_bits = bits >> 52 | (uint64_t)0x433 << 52; /* 2^52 + k + 1023 */
        memcpy(&m, &m_bits, sizeof m);
        memcpy(&k, &k_bits, sizeof k);
        double s = (m - 1) / (m + 1), z = s * s;
        double sum = 2.0 / 17;
        sum = sum * z + 2.0 / 15;
        sum = sum * z + 2.0 / 13;
        sum = sum * z + 2.0 / 11;
        sum = sum * z + 2.0 / 9;
        sum = sum * z + 2.0 / 7;
        sum = sum * z + 2.0 / 5;
        sum = sum * z + 2.0 / 3;
        sum = sum * z + 2;
        rho[i] = sqrt(-2 * ((k - (0x1p52 + 1023)) * 0.6931471805599453 + s * sum));
    }
}

/* cos and sin of 2 pi v, v = the upper 53 bits of words 2 and 3. */
static void turns(uint32_t word[4][CALLS], double cosine[CALLS], double sine[CALLS]) {
    for (int i = 0; i < CALLS; i++) {
        uint32_t q = (word[3][i] + 0x20000000u) >> 30;
        double t = (double)(int32_t)(word[3][i] - (q << 30)) * 0x1p-32 +
                   (double)(int32_t)(word[2][i] >> 11) * 0x1p-53;
        double a = 6.283185307179586 * t, z = a * a;
        double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
        s = s * z + 1.0 / 6227020800;
        s = s * z - 1.0 / 39916800;
        s = s * z + 1.0 / 362880;
        s = s * z - 1.0 / 5040;
        s = s * z + 1.0 / 120;
        s = s * z - 1.0 / 6;
        s = a + a * z * s;
        c = c * z - 1.0 / 87178291200;
        c = c * z + 1.0 / 479001600;
        c = c * z - 1.0 / 3628800;
        c = c * z + 1.0 / 40320;
        c = c * z - 1.0 / 720;
        c = c * z + 1.0 / 24;
        c = c * z - 0.5;
        c = c * z + 1;
        double x = q & 1 ? s : c, y = q & 1 ? c : s;
        cosine[i] = (q + 1) & 2 ? -x : x;
        sine[i] = q & 2 ? -y : y;
    }
}

static inline float rounded(double x, double error) {
    float low = (float)(x - error), high = (float)(x + error);
    return low == high ? low : NAN;
}

void WEFT_ISA_NAME(wefti_normals)(const wefti_rng_run *run, float mean, float std,
                                  float *out) {
    double m = (double)mean, d = (double)std, rho[CALLS], cosine[CALLS], sine[CALLS];
    uint32_t word[4][CALLS];
    float pairs[BLOCK];
    for (int64_t i = 0, n; i < run->n; i += n) {
        uint64_t first = run->first + (uint64_t)i;
        int64_t from = (int64_t)(first % BLOCK);
        n = run->n - i < BLOCK - from ? run->n - i : BLOCK - from;
        philox_block(run, first / BLOCK * CALLS, word);
        radii(word, rho);
        turns(word, cosine, sine);
        for (int k = 0; k < CALLS; k++) {
            double size = d * rho[k], error = CLOSE * (size + fabs(m));
            pairs[2 * k] = rounded(m + size * cosine[k], error);
            pairs[2 * k + 1] = rounded(m + size * sine[k], error);
        }
        memcpy(out + i, pairs + from, (size_t)n * sizeof *out);
    }
}
