/* SPDX-License-Identifier: MIT */
/* Common accelerators: peak rates of their data sheets (16-bit products, dense, f32 sums;
 * NVIDIA's and AMD's sheets and NVIDIA's papers on the GA102, AD102 and GB202 architectures;
 * Apple's announcements up to the M2 Ultra, for later ones 256 FLOP a core and cycle) and
 * the share of them that training of large models is reported to reach. Where no report
 * is named, 25 to 45 % is assumed. Small batches reach less: give --launch, or a measured
 * step (weft_cluster_anchor). */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <weft/cluster.h>

#include "base/text.h"

#define T 1e12
#define GB 1e9

static const char assumed[] = "assumed, no report known";
static const char megatron[] = "Narayanan et al. 2021, arXiv 2104.04473, table 1: 44 to "
                               "52 %; MosaicML llm-foundry, benchmarking: 36 to 64 %";
static const char llama3[] = "Llama team 2024, arXiv 2407.21783, table 4: 38 to 43 %; "
                             "MosaicML llm-foundry, benchmarking: 35 to 46 %";
static const char shoeybi[] = "Shoeybi et al. 2019, arXiv 1909.08053: 39 of 125 TFLOP/s; "
                              "Oneflow-Inc/DLPerf: 23 to 31 %";
static const char frontier[] = "Dash et al. 2023, arXiv 2312.12705: 32 to 38 %";

/* Memory 0: there are several sizes, say --node-memory. Watts: of the board, 0: unknown. */
static const weft_accelerator table[] = {
    {"V100", 125 * T, 900 * GB, 16 * GB, 0.25, 0.35, shoeybi, 300},
    {"V100-32GB", 125 * T, 900 * GB, 32 * GB, 0.25, 0.35, shoeybi, 300},
    {"A100", 312 * T, 1555 * GB, 40 * GB, 0.40, 0.62, megatron, 400},
    {"A100-80GB", 312 * T, 2039 * GB, 80 * GB, 0.40, 0.62, megatron, 400},
    {"A100-PCIe", 312 * T, 1555 * GB, 40 * GB, 0.40, 0.62, megatron, 250},
    {"A100-80GB-PCIe", 312 * T, 1935 * GB, 80 * GB, 0.40, 0.62, megatron, 300},
    {"H100", 989 * T, 3350 * GB, 80 * GB, 0.35, 0.46, llama3, 700},
    {"H100-PCIe", 756 * T, 2000 * GB, 80 * GB, 0.35, 0.46, llama3, 350},
    {"H100-NVL", 835 * T, 3938 * GB, 94 * GB, 0.35, 0.46, llama3, 400},
    {"H200", 989 * T, 4800 * GB, 141 * GB, 0.35, 0.46, llama3, 700},
    {"B200", 2250 * T, 8000 * GB, 180 * GB, 0.25, 0.45, assumed, 1000},
    {"GB10", 125 * T, 273 * GB, 128 * GB, 0.25, 0.45, assumed, 140},
    {"MI250X-GCD", 191.5 * T, 1638 * GB, 64 * GB, 0.30, 0.38, frontier, 280},
    {"MI300X", 1307 * T, 5300 * GB, 192 * GB, 0.25, 0.45, assumed, 750},
    {"MI325X", 1307 * T, 6000 * GB, 256 * GB, 0.25, 0.45, assumed, 1000},
    {"L40S", 362 * T, 864 * GB, 48 * GB, 0.25, 0.45, assumed, 350},
    {"L40", 181 * T, 864 * GB, 48 * GB, 0.25, 0.45, assumed, 300},
    {"L4", 121 * T, 300 * GB, 24 * GB, 0.25, 0.45, assumed, 72},
    {"A10G", 70 * T, 600 * GB, 24 * GB, 0.25, 0.45, assumed, 300},
    {"A10", 125 * T, 600 * GB, 24 * GB, 0.25, 0.45, assumed, 150},
    {"A40", 150 * T, 696 * GB, 48 * GB, 0.25, 0.45, assumed, 300},
    {"A6000", 155 * T, 768 * GB, 48 * GB, 0.25, 0.45, assumed, 300},
    {"A5000", 111 * T, 768 * GB, 24 * GB, 0.25, 0.45, assumed, 230},
    {"RTX6000-Ada", 364 * T, 960 * GB, 48 * GB, 0.25, 0.45, assumed, 300},
    {"T4", 65 * T, 320 * GB, 16 * GB, 0.25, 0.45, assumed, 70},
    {"RTX3060", 25 * T, 360 * GB, 12 * GB, 0.25, 0.45, assumed, 170},
    {"RTX3060-Ti", 32 * T, 448 * GB, 8 * GB, 0.25, 0.45, assumed, 200},
    {"RTX3070", 41 * T, 448 * GB, 8 * GB, 0.25, 0.45, assumed, 220},
    {"RTX3070-Ti", 43.5 * T, 608 * GB, 8 * GB, 0.25, 0.45, assumed, 290},
    {"RTX3080", 60 * T, 760 * GB, 10 * GB, 0.25, 0.45, assumed, 320},
    {"RTX3080-Ti", 68 * T, 912 * GB, 12 * GB, 0.25, 0.45, assumed, 350},
    {"RTX3090", 71 * T, 936 * GB, 24 * GB, 0.25, 0.45, assumed, 350},
    {"RTX3090-Ti", 80 * T, 1008 * GB, 24 * GB, 0.25, 0.45, assumed, 450},
    {"RTX4060", 30 * T, 272 * GB, 8 * GB, 0.25, 0.45, assumed, 115},
    {"RTX4060-Ti", 44 * T, 288 * GB, 0, 0.25, 0.45, assumed, 165},
    {"RTX4070", 58 * T, 504 * GB, 12 * GB, 0.25, 0.45, assumed, 200},
    {"RTX4070-Super", 71 * T, 504 * GB, 12 * GB, 0.25, 0.45, assumed, 220},
    {"RTX4070-Ti", 80 * T, 504 * GB, 12 * GB, 0.25, 0.45, assumed, 285},
    {"RTX4070-Ti-Super", 88 * T, 672 * GB, 16 * GB, 0.25, 0.45, assumed, 285},
    {"RTX4080", 97 * T, 717 * GB, 16 * GB, 0.25, 0.45, assumed, 320},
    {"RTX4080-Super", 104 * T, 736 * GB, 16 * GB, 0.25, 0.45, assumed, 320},
    {"RTX4090", 165 * T, 1008 * GB, 24 * GB, 0.25, 0.45, assumed, 450},
    {"RTX5060", 38 * T, 448 * GB, 8 * GB, 0.25, 0.45, assumed, 145},
    {"RTX5060-Ti", 47 * T, 448 * GB, 0, 0.25, 0.45, assumed, 180},
    {"RTX5070", 62 * T, 672 * GB, 12 * GB, 0.25, 0.45, assumed, 250},
    {"RTX5070-Ti", 88 * T, 896 * GB, 16 * GB, 0.25, 0.45, assumed, 300},
    {"RTX5080", 113 * T, 960 * GB, 16 * GB, 0.25, 0.45, assumed, 360},
    {"RTX5090", 210 * T, 1792 * GB, 32 * GB, 0.25, 0.45, assumed, 575},
    {"M1", 2.6 * T, 68 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M1-Pro", 5.2 * T, 200 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M1-Max", 10.4 * T, 400 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M1-Ultra", 21 * T, 800 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M2", 3.6 * T, 100 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M2-Pro", 6.8 * T, 200 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M2-Max", 13.6 * T, 400 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M2-Ultra", 27 * T, 800 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M3", 3.5 * T, 100 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M3-Pro", 6.4 * T, 150 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M3-Max", 14.2 * T, 400 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M3-Ultra", 28 * T, 819 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M4", 4.3 * T, 120 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M4-Pro", 8.5 * T, 273 * GB, 0, 0.25, 0.45, assumed, 0},
    {"M4-Max", 17 * T, 546 * GB, 0, 0.25, 0.45, assumed, 0},
};
enum { N_ACCELERATORS = sizeof table / sizeof table[0] };

const weft_accelerator *weft_accelerator_at(int i) {
    return i >= 0 && i < N_ACCELERATORS ? &table[i] : NULL;
}

static const char gaps[] = " -_";

/* "rtx 4090" is RTX4090: case, blanks, '-' and '_' do not count. */
static bool is_named(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, gaps), b += strspn(b, gaps);
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

static const weft_accelerator *find_exact(const char *name) {
    for (int i = 0; i < N_ACCELERATORS; i++)
        if (is_named(table[i].name, name)) return &table[i];
    return NULL;
}

/* Words with which drivers print a name, and which tell nothing apart here. */
static bool is_filler(const char *word) {
    static const char *const fillers[] = {
        "nvidia", "geforce", "tesla", "amd",  "instinct", "apple", "generation",
        "sxm",    "sxm2",    "sxm4",  "sxm5", "hbm2",     "hbm2e", "hbm3"};
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++)
        if (is_named(fillers[i], word)) return true;
    return false;
}

/* "NVIDIA A100-SXM4-40GB" is A100: the size is the table's, or the name is not known. */
const weft_accelerator *weft_accelerator_find(const char *name) {
    char word[24], sized[80] = "", plain[80] = ""; /* with the size, and without */
    double size = 0, bytes;
    const weft_accelerator *found = find_exact(name);
    if (found || strlen(name) >= sizeof sized) return found;
    for (size_t n; name += strspn(name, gaps), *name; name += n) {
        n = strcspn(name, gaps);
        snprintf(word, sizeof word, "%.*s", (int)n, name);
        if (is_filler(word)) continue;
        bool is_size = weft_quantity_parse(word, WEFT_UNIT_BYTES, &bytes) && bytes >= GB;
        if (!is_size && !*plain && isdigit((unsigned char)*word)) /* "4090" */
            strcat(sized, "RTX"), strcat(plain, "RTX");
        strcat(sized, word);
        if (is_size)
            size = bytes;
        else
            strcat(plain, word);
    }
    found = find_exact(sized);
    if (!found && size <= 0 && !strncasecmp(plain, "RTXA", 4))
        return find_exact(plain + 3);
    if (found || size <= 0) return found;
    found = find_exact(plain);
    return found && fabs(found->memory_bytes - size) < 0.01 * size ? found : NULL;
}

static weft_status find(weft_ctx *ctx, const char *name, const weft_accelerator **out) {
    char known[800];
    size_t used = 0;
    *out = weft_accelerator_find(name);
    if (*out) return WEFT_OK;
    for (int i = 0; i < N_ACCELERATORS && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 table[i].name);
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "accelerator is '%.40s', expected one of %s; of others say "
                         "--node-flops ('here': as this machine), of a cloud's instance "
                         "the accelerator in it",
                         name, known);
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
