/* SPDX-License-Identifier: MIT */
/* What this process may use of the machine: memory that is free for it (its control group's
 * limit counts), memory that it holds, cores that it may run on. */
#define _GNU_SOURCE
#include "base/machine.h"

#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#include "base/groups.h"
#include "base/system_file.h"

int64_t wefti_machine_available_bytes(void) {
    int64_t available = wefti_kilobyte_line(NULL, "/proc/meminfo", "MemAvailable");
    wefti_group_limits limits = wefti_groups_look(NULL);
    if (limits.memory_bytes < 0 || limits.memory_used_bytes < 0) return available;
    int64_t left = limits.memory_bytes - limits.memory_used_bytes;
    if (left < 0) left = 0;
    return available < 0 || left < available ? left : available;
}

int64_t wefti_process_resident_bytes(void) {
    return wefti_kilobyte_line(NULL, "/proc/self/status", "VmRSS");
}

int64_t wefti_process_peak_bytes(void) {
    return wefti_kilobyte_line(NULL, "/proc/self/status", "VmHWM");
}

int wefti_machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}
