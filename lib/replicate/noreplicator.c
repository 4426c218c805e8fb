/* SPDX-License-Identifier: MIT */
/* d = g: every node follows its own gradient. Replicas drift unless a mixer pulls them
 * together. Nothing is sent. */
#include "replicate/replicators.h"

static int no_rounds(const wefti_replicator_config *config, const wefti_bucket *bucket,
                     int R) {
    (void)config, (void)bucket, (void)R;
    return 0;
}

static int64_t no_bytes(const wefti_replicator_config *config, const wefti_bucket *bucket,
                        int R, int round, int owner) {
    (void)config, (void)bucket, (void)R, (void)round, (void)owner;
    return 0;
}

static const char *const no_keys[] = {NULL};

const wefti_replicator_ops wefti_replicator_none = {
    .name = "none",
    .keys = no_keys,
    .method = "none",
    .keeps_norm = true,
    .states = wefti_replicator_no_states,
    .rounds = no_rounds,
    .round_bytes = no_bytes,
};
