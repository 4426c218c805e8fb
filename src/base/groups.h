/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What the control groups above this process allow; -1: nothing is said. */
typedef struct wefti_group_limits {
    int64_t memory_bytes;      /* the smallest on the way to the root */
    int64_t memory_used_bytes; /* in that group, without cached pages of files */
    double cpu_quota;          /* cores */
} wefti_group_limits;

/* root: see system_file.h. */
wefti_group_limits wefti_groups_look(const char *root);
