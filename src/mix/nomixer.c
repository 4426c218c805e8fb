/* SPDX-License-Identifier: MIT */
/* Nothing is mixed: the replicator keeps the replicas equal. */
#include "mix/mixers.h"

static const char *const *no_states(const wefti_mixer_config *config) {
    static const char *const none[] = {NULL};
    (void)config;
    return none;
}

static int no_acts(const wefti_mixer_config *config, const wefti_mixer_question *question,
                   wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    (void)config, (void)question, (void)acts;
    return 0;
}

static void no_messages(const wefti_mixer_config *config,
                        const wefti_mixer_question *question, const wefti_mixer_act *act,
                        wefti_mixer_visit visit, void *user) {
    (void)config, (void)question, (void)act, (void)visit, (void)user;
}

static int64_t no_message(const wefti_mixer_config *config, const wefti_bucket *bucket) {
    (void)config, (void)bucket;
    return 0;
}

static int64_t no_work(const wefti_mixer_config *config, const wefti_bucket *buckets,
                       int n_buckets, int R) {
    (void)config, (void)buckets, (void)n_buckets, (void)R;
    return 0;
}

static weft_status none_create(wefti_mixer *m) {
    (void)m;
    return WEFT_OK;
}

static weft_status none_prime(wefti_mixer *m, int bucket, int64_t step,
                              const float *params) {
    (void)m, (void)bucket, (void)step, (void)params;
    return WEFT_OK;
}

static weft_status none_touch(wefti_mixer *m, int bucket, int64_t step, float *params) {
    (void)m, (void)bucket, (void)step, (void)params;
    return WEFT_OK;
}

static bool none_agrees(const wefti_mixer_config *config, int64_t step) {
    (void)config, (void)step;
    return true;
}

static void none_destroy(wefti_mixer *m) { (void)m; }

static const char *const no_keys[] = {NULL};

const wefti_mixer_ops wefti_mixer_none = {
    .name = "none",
    .keys = no_keys,
    .states = no_states,
    .acts = no_acts,
    .messages = no_messages,
    .message_bytes = no_message,
    .work_bytes = no_work,
    .create = none_create,
    .prime = none_prime,
    .before = none_touch,
    .after = none_touch,
    .finish = none_touch,
    .agrees = none_agrees,
    .destroy = none_destroy,
};
