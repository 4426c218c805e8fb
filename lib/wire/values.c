/* SPDX-License-Identifier: MIT */
/* Which of the compiled value codecs this processor runs. */
#include "wire/values.h"

#include <stddef.h>

extern const wefti_value_ops wefti_value_ops_base[];
#if defined(__x86_64__)
extern const wefti_value_ops wefti_value_ops_avx2[], wefti_value_ops_avx512[];
#endif

static const wefti_value_ops *const tables[] = {
    [WEFTI_ISA_BASE] = wefti_value_ops_base,
#if defined(__x86_64__)
    [WEFTI_ISA_AVX2] = wefti_value_ops_avx2,
    [WEFTI_ISA_AVX512] = wefti_value_ops_avx512,
#endif
};

const wefti_value_ops *wefti_value_ops_for(wefti_isa isa, wefti_value_codec codec) {
    return isa <= wefti_isa_detect() ? &tables[isa][codec] : NULL;
}

const wefti_value_ops *wefti_value_ops_of(wefti_value_codec codec) {
    return wefti_value_ops_for(wefti_isa_detect(), codec);
}
