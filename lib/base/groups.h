/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The limits of the control groups that contain this process; -1: no limit known. */
typedef struct wefti_group_limits {
    int64_t memory_bytes;      /* the smallest on the path to the root */
    int64_t memory_used_bytes; /* used in that group, without cached pages of files */
    double cpu_quota;          /* cores */
} wefti_group_limits;

/* root: see system_file.h. */
wefti_group_limits wefti_groups_look(const char *root);
