/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* A message of a step that did not count for its receiver, because its sender was lost. For
 * a range that was summed again in place of its lost owner, the receiver is that owner.
 * Sent between processes as it is in memory. */
typedef struct wefti_missed {
    int64_t tag;
    int32_t channel;          /* group * 8 + channel of the communicator */
    int32_t receiver, sender; /* mesh ranks; in a replay ranks of the world */
    int32_t settled; /* 0: the answer that it belongs to may still be discarded */
} wefti_missed;
