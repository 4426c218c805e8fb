/* SPDX-License-Identifier: MIT */
/* Common accelerators: peak rates of their data sheets (16-bit products, dense, f32 sums)
 * and the share of them that training of large models is reported to reach. Where no
 * report is named, 25 to 45 % is assumed. Small batches reach less: give --launch, or a
 * measured step (weft_cluster_anchor). */
#include <math.h>
#include <string.h>

#include <weft/cluster.h>

#include "base/text.h"

#define T 1e12
#define GB 1e9

static const char assumed[] = "assumed, no report known";
static const char megatron[] =
    "Narayanan et al. 2021, arXiv 2104.04473, table 1: 44 to 52 %; MosaicML llm-foundry, "
    "benchmarking: 36 to 64 %";
static const char llama3[] =
    "Llama team 2024, arXiv 2407.21783, table 4: 38 to 43 %; MosaicML "
    "llm-foundry, benchmarking: 35 to 46 %";
static const char shoeybi[] = "Shoeybi et al. 2019, arXiv 1909.08053: 39 of 125 TFLOP/s; "
                              "Oneflow-Inc/DLPerf: 23 to 31 %";
static const char frontier[] = "Dash et al. 2023, arXiv 2312.12705: 32 to 38 %";

static const weft_accelerator table[] = {
    {"V100", 125 * T, 900 * GB, 16 * GB, 0.25, 0.35, shoeybi},
    {"V100-32GB", 125 * T, 900 * GB, 32 * GB, 0.25, 0.35, shoeybi},
    {"A100", 312 * T, 1555 * GB, 40 * GB, 0.40, 0.62, megatron},
    {"A100-80GB", 312 * T, 2039 * GB, 80 * GB, 0.40, 0.62, megatron},
    {"H100", 989 * T, 3350 * GB, 80 * GB, 0.35, 0.46, llama3},
    {"H200", 989 * T, 4800 * GB, 141 * GB, 0.35, 0.46, llama3},
    {"MI250X-GCD", 191.5 * T, 1638 * GB, 64 * GB, 0.30, 0.38, frontier},
    {"MI300X", 1307 * T, 5300 * GB, 192 * GB, 0.25, 0.45, assumed},
    {"L40S", 362 * T, 864 * GB, 48 * GB, 0.25, 0.45, assumed},
    {"L4", 121 * T, 300 * GB, 24 * GB, 0.25, 0.45, assumed},
    {"A10G", 70 * T, 600 * GB, 24 * GB, 0.25, 0.45, assumed},
    {"T4", 65 * T, 320 * GB, 16 * GB, 0.25, 0.45, assumed},
    {"RTX3090", 71 * T, 936 * GB, 24 * GB, 0.25, 0.45, assumed},
    {"RTX4090", 165 * T, 1008 * GB, 24 * GB, 0.25, 0.45, assumed},
};
enum { N_ACCELERATORS = sizeof table / sizeof table[0] };

const weft_accelerator *weft_accelerator_at(int i) {
    return i >= 0 && i < N_ACCELERATORS ? &table[i] : NULL;
}

static weft_status find(weft_ctx *ctx, const char *name, const weft_accelerator **out) {
    for (int i = 0; i < N_ACCELERATORS; i++)
        if (wefti_is(table[i].name, name)) {
            *out = &table[i];
            return WEFT_OK;
        }
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "accelerator is '%.40s', expected one of V100, A100, A100-80GB, "
                         "H100, H200, MI250X-GCD, MI300X, L40S, L4, A10G, T4, RTX3090 "
                         "or RTX4090; of others say --node-flops",
                         name);
}

weft_status weft_cluster_effort(weft_ctx *ctx, weft_cluster *cluster, const char *name,
                                double effort) {
    const weft_accelerator *a = NULL;
    WEFT_TRY(find(ctx, name, &a));
    if (!(effort > 0 && effort <= 1))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "effort is %.4g %%, expected a share of the data sheet's "
                             "rate, above 0 and at most 100 %%, such as 38%%",
                             100 * effort);
    cluster->rank_flops = a->peak_flops * effort;
    cluster->memory_Bps = a->memory_Bps;
    cluster->memory_bytes = a->memory_bytes;
    return WEFT_OK;
}

weft_status weft_cluster_accelerate(weft_ctx *ctx, weft_cluster *cluster,
                                    const char *name) {
    const weft_accelerator *a = NULL;
    WEFT_TRY(find(ctx, name, &a));
    return weft_cluster_effort(ctx, cluster, name, sqrt(a->low * a->high));
}
