/* SPDX-License-Identifier: MIT */
/* The resources of the machine that this process may use: free memory (within the limits
 * of its control groups), the memory that it holds, its processor time, and the cores
 * that it may run on; and which machine it is. */
#define _GNU_SOURCE
#include "base/machine.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

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

double wefti_process_cpu_s(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return NAN;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int wefti_machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* /proc/stat: "cpu user nice system idle iowait irq softirq steal ...", in clock ticks;
 * the time of guests is already part of user. */
void wefti_machine_busy(const char *root, double *busy_s, double *all_s) {
    enum { COUNTS = 8, IDLE = 3, IOWAIT = 4 };
    char line[512];
    unsigned long long t[COUNTS] = {0};
    double ticks_per_s = (double)sysconf(_SC_CLK_TCK), all = 0;
    *busy_s = *all_s = NAN;
    if (!wefti_first_line(root, "/proc/stat", line, sizeof line) || ticks_per_s <= 0)
        return;
    int n = sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1],
                   &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    if (n <= IDLE) return;
    for (int i = 0; i < n; i++) all += (double)t[i];
    *all_s = all / ticks_per_s;
    *busy_s = (all - (double)t[IDLE] - (double)t[IOWAIT]) / ticks_per_s;
}

/* Whether the bytes of an interface never leave the machine, or are also counted at
 * another interface. */
static bool stays_here(const char *name) {
    static const char *const kinds[] = {"veth", "docker", "br-", "virbr", "vnet", "tap"};
    if (strcmp(name, "lo") == 0) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0) return true;
    return false;
}

/* /proc/net/dev: "  eth0: bytes packets errs drop fifo frame compressed multicast bytes ...". */
void wefti_machine_network(const char *root, double *out_bytes, double *in_bytes) {
    char path[PATH_MAX], line[512], name[32];
    unsigned long long in, out;
    double sum_in = 0, sum_out = 0;
    *out_bytes = *in_bytes = NAN;
    if (snprintf(path, sizeof path, "%s/proc/net/dev", root ? root : "") >= PATH_MAX)
        return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        int n = sscanf(line, " %31[^: ]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name,
                       &in, &out);
        if (n != 3 || stays_here(name)) continue;
        sum_in += (double)in;
        sum_out += (double)out;
    }
    fclose(file);
    *in_bytes = sum_in;
    *out_bytes = sum_out;
}

uint64_t wefti_machine_number(void) {
    char name[256] = "", boot[64] = "", network[64] = "", all[1024];
    const char *own = getenv("WEFT_MACHINE");
    if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
    wefti_first_line(NULL, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) network[0] = '\0';
    snprintf(all, sizeof all, "%s\n%s\n%s\n%.500s", name, boot, network, own ? own : "");
    uint64_t number = XXH3_64bits(all, strlen(all));
    return number ? number : 1;
}
