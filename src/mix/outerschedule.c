/* SPDX-License-Identifier: MIT */
/* In which steps the fragments of DiLoCo are sent and applied (docs/methods.md, outer):
 * fragment f is sent at the steps that leave f H / P modulo H, and applied `delay` steps
 * later. */
#include "mix/outerschedule.h"

int64_t wefti_outer_start(const wefti_mixer_config *config, wefti_outer_part part,
                          int64_t step) {
    int64_t H = config->outer_every, P = config->fragments;
    int64_t fragment = part.number * P / part.n_buckets;
    int64_t since = (step + 1 - fragment * H / P) % H;
    int64_t start = step - (since < 0 ? since + H : since);
    return start >= 0 && start + config->delay < config->steps ? start : -1;
}

int64_t wefti_outer_answer_step(const wefti_mixer_config *config, int64_t start) {
    return start + (config->delay + 1) / 2;
}

int64_t wefti_outer_fragments(const wefti_mixer_config *config, int n_buckets) {
    return config->fragments < n_buckets ? config->fragments : n_buckets;
}
