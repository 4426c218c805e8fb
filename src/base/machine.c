/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/groups.h"

/* The number after `key` in a file of "key: number kB" lines, in bytes; -1 if not there.
 */
static int64_t line_value(const char *path, const char *key) {
    char line[256];
    long long value = -1;
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    while (value < 0 && fgets(line, sizeof line, file)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) == 0 && sscanf(line + n, ": %lld", &value) == 1)
            value *= 1024;
    }
    fclose(file);
    return value;
}

int64_t wefti_machine_available_bytes(void) {
    int64_t available = line_value("/proc/meminfo", "MemAvailable");
    wefti_group_limits limits = wefti_groups_look(NULL);
    if (limits.memory_bytes < 0 || limits.memory_used_bytes < 0) return available;
    int64_t left = limits.memory_bytes - limits.memory_used_bytes;
    if (left < 0) left = 0;
    return available < 0 || left < available ? left : available;
}

int64_t wefti_process_resident_bytes(void) {
    return line_value("/proc/self/status", "VmRSS");
}

int64_t wefti_process_peak_bytes(void) {
    return line_value("/proc/self/status", "VmHWM");
}

int wefti_machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}
