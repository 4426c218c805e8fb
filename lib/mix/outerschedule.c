/* SPDX-License-Identifier: MIT */
/* In which steps the fragments of DiLoCo are sent and applied (docs/methods.md, outer):
 * fragment f is sent in steps t with (t + 1) mod H = floor(f H / P), and applied `delay`
 * steps later. */
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

weft_status wefti_outer_check(weft_ctx *ctx, const wefti_mixer_config *c) {
    if (c->outer_every < 1 || c->fragments < 1 || c->fragments > c->outer_every)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.fragments is %lld and mixer.outer_every %lld, "
                             "expected 1 or more fragments and at least as many steps",
                             (long long)c->fragments, (long long)c->outer_every);
    if (c->delay < 0 || (c->delay > 0 && c->delay >= c->outer_every))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.delay is %lld, expected 0 or more and less than "
                             "mixer.outer_every (%lld)",
                             (long long)c->delay, (long long)c->outer_every);
    if (!(c->outer_lr >= 0))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.outer_lr is %g, expected 0 or more", c->outer_lr);
    if (!(c->forget >= 0 && c->forget <= 1))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.feedback is %g, expected 0 to 1", 1 - c->forget);
    if (!(c->merge >= 0 && c->merge <= 1))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "mixer.merge is %g, expected 0 to 1",
                             c->merge);
    return WEFT_OK;
}
