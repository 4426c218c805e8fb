/* SPDX-License-Identifier: MIT */
/* Nothing is mixed: the replicator keeps the replicas equal. */
#include "mix/mixer.h"

static int no_acts(const wefti_mixer_config *config, const wefti_mixer_question *question,
                   wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    (void)config, (void)question, (void)acts;
    return 0;
}

static int64_t no_bytes(const wefti_mixer_config *config, const wefti_bucket *bucket) {
    (void)config, (void)bucket;
    return 0;
}

static bool none_agrees(const wefti_mixer_config *config, int64_t step) {
    (void)config, (void)step;
    return true;
}

static const char *const no_keys[] = {NULL};

const wefti_mixer_ops wefti_mixer_none = {
    .name = "none",
    .keys = no_keys,
    .states = wefti_mixer_no_states,
    .acts = no_acts,
    .message_bytes = no_bytes,
    .agrees = none_agrees,
};
