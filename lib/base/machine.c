/* SPDX-License-Identifier: MIT */
/* The resources of the machine that this process may use: free memory (within the limits
 * of its control groups), the memory that it holds, its processor time, and the cores
 * that it may run on; and which machine it is. */
#define _GNU_SOURCE

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/machine.h"
#include "base/text.h"

/* The limits of the control groups that contain this process: of version 1 (one hierarchy for
 * each controller) and 2. The limit that counts is the smallest one on the path to the root. In
 * a container the group's own path is often not visible; then the root of the hierarchy is read.
 */

enum { PATH_ROOM = 1024, UNLIMITED_GiB = 1 << 30 };

typedef struct group_place {
    char memory1[PATH_ROOM], cpu1[PATH_ROOM], all2[PATH_ROOM]; /* "" = not in one */
} group_place;

/* Whether `controller` is in a list such as "cpu,cpuacct". */
static bool listed(const char *list, const char *controller) {
    size_t n = strlen(controller);
    for (const char *word = list; word;
         word = strchr(word, ','), word = word ? word + 1 : NULL)
        if (strncmp(word, controller, n) == 0 && (word[n] == ',' || word[n] == '\0'))
            return true;
    return false;
}

/* Reads the lines "number:controllers:path" of /proc/self/cgroup. */
static void read_place(const char *root, group_place *place) {
    char path[4096], line[PATH_ROOM + 256];
    memset(place, 0, sizeof *place);
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root ? root : "") >=
        (int)sizeof path)
        return;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *where = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!where) continue;
        *where++ = '\0';
        controllers++;
        if (!controllers[0]) wefti_set_text(place->all2, PATH_ROOM, where);
        if (listed(controllers, "memory"))
            wefti_set_text(place->memory1, PATH_ROOM, where);
        if (listed(controllers, "cpu")) wefti_set_text(place->cpu1, PATH_ROOM, where);
    }
    if (file) fclose(file);
}

/* The number in the file base + group + "/" + name; -1 if the file is missing or contains
 * "max". */
static int64_t group_number(const char *root, const char *base, const char *group,
                            const char *name) {
    char path[PATH_ROOM + 256];
    const char *separator = group[0] && !wefti_is(group, "/") ? group : "";
    if (snprintf(path, sizeof path, "%s%s/%s", base, separator, name) >= (int)sizeof path)
        return -1;
    return wefti_lone_number(root, path);
}

/* Removes the last part of a path; returns false at the root. */
static bool go_up(char *group) {
    char *slash = strrchr(group, '/');
    if (!slash || !group[0] || wefti_is(group, "/")) return false;
    *slash = '\0';
    return true;
}

/* Cached pages of files, which the kernel releases first: they are counted as used, but
 * are available.
 */
static int64_t cached_bytes(const char *root, const char *base, const char *group,
                            const char *key) {
    char path[PATH_ROOM + 4096], line[256];
    long long value = 0;
    size_t n = strlen(key);
    const char *inner = !wefti_is(group, "/") ? group : "";
    if (snprintf(path, sizeof path, "%s%s%s/memory.stat", root ? root : "", base,
                 inner) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, n) == 0 && line[n] == ' ') value = atoll(line + n);
    fclose(file);
    return value;
}

typedef struct memory_names {
    const char *limit, *used, *cached;
} memory_names;

static void memory_limits(const char *root, const char *base, const char *start,
                          const memory_names *names, wefti_group_limits *limits) {
    char group[PATH_ROOM];
    wefti_set_text(group, sizeof group, start);
    do {
        int64_t limit = group_number(root, base, group, names->limit);
        if (limit <= 0 || limit >> 30 >= UNLIMITED_GiB)
            continue; /* "no limit" in version 1 */
        if (limits->memory_bytes >= 0 && limits->memory_bytes <= limit) continue;
        limits->memory_bytes = limit;
        limits->memory_used_bytes = group_number(root, base, group, names->used);
        if (limits->memory_used_bytes > 0)
            limits->memory_used_bytes -= cached_bytes(root, base, group, names->cached);
    } while (go_up(group));
}

static void narrow(wefti_group_limits *limits, double quota) {
    if (quota > 0 && (limits->cpu_quota < 0 || quota < limits->cpu_quota))
        limits->cpu_quota = quota;
}

static void cpu_limits_1(const char *root, const char *base, const char *start,
                         wefti_group_limits *limits) {
    char group[PATH_ROOM];
    wefti_set_text(group, sizeof group, start);
    do {
        int64_t quota = group_number(root, base, group, "cpu.cfs_quota_us");
        int64_t period = group_number(root, base, group, "cpu.cfs_period_us");
        if (quota > 0 && period > 0) narrow(limits, (double)quota / (double)period);
    } while (go_up(group));
}

/* cpu.max is "quota period" or "max period". */
static void cpu_limits_2(const char *root, const char *base, const char *start,
                         wefti_group_limits *limits) {
    char group[PATH_ROOM], path[PATH_ROOM + 256], line[64], *end;
    wefti_set_text(group, sizeof group, start);
    do {
        const char *inner = !wefti_is(group, "/") ? group : "";
        snprintf(path, sizeof path, "%s%s/cpu.max", base, inner);
        if (!wefti_first_line(root, path, line, sizeof line)) continue;
        double quota = wefti_strtod(line, &end), period = wefti_strtod(end, NULL);
        if (end != line && period > 0) narrow(limits, quota / period);
    } while (go_up(group));
}

wefti_group_limits wefti_groups_look(const char *root) {
    static const memory_names one = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "total_inactive_file"};
    static const memory_names two = {"memory.max", "memory.current", "inactive_file"};
    static const char *const bases[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    wefti_group_limits limits = {-1, -1, -1};
    group_place place;
    read_place(root, &place);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        memory_limits(root, bases[i], place.all2, &two, &limits);
        cpu_limits_2(root, bases[i], place.all2, &limits);
    }
    memory_limits(root, "/sys/fs/cgroup/memory", place.memory1, &one, &limits);
    cpu_limits_1(root, "/sys/fs/cgroup/cpu", place.cpu1, &limits);
    cpu_limits_1(root, "/sys/fs/cgroup/cpu,cpuacct", place.cpu1, &limits);
    return limits;
}

/* Small files that describe the machine (/proc, /sys), below a root that tests can
 * choose. A file that is missing or malformed means "unknown"; it is never an error. */
void wefti_set_text(char *out, size_t size, const char *text) {
    size_t n = strcspn(text, "\n");
    if (n >= size) n = size - 1;
    memmove(out, text, n);
    memset(out + n, 0, size - n); /* equal texts are equal bytes */
}

static FILE *open_below(const char *root, const char *path) {
    char full[4096];
    int n = snprintf(full, sizeof full, "%s%s", root ? root : "", path);
    return n > 0 && n < (int)sizeof full ? fopen(full, "re") : NULL;
}

bool wefti_first_line(const char *root, const char *path, char *out, size_t size) {
    char line[512] = "";
    FILE *file = open_below(root, path);
    memset(out, 0, size);
    if (!file) return false;
    bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    wefti_set_text(out, size, line);
    return got;
}

int64_t wefti_lone_number(const char *root, const char *path) {
    char line[64], *end;
    if (!wefti_first_line(root, path, line, sizeof line)) return -1;
    long long value = strtoll(line, &end, 10);
    return end == line ? -1 : (int64_t)value;
}

int64_t wefti_kilobyte_line(const char *root, const char *path, const char *key) {
    char line[256];
    long long value = -1;
    size_t n = strlen(key);
    FILE *file = open_below(root, path);
    if (!file) return -1;
    while (value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, n) == 0 && sscanf(line + n, ": %lld", &value) == 1)
            value *= 1024;
    fclose(file);
    return value;
}

#ifndef __APPLE__ /* macos/figures.c has these */
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

bool wefti_machine_random(void *out, size_t n) {
    return getrandom(out, n, 0) == (ssize_t)n;
}

void wefti_machine_boot(char *out, size_t size) {
    wefti_first_line(NULL, "/proc/sys/kernel/random/boot_id", out, size);
}
#endif

double wefti_process_cpu_s(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return NAN;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* /proc/stat: "cpu user nice system idle iowait irq softirq steal ...", in clock ticks;
 * the time of learners is already part of user. */
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
    wefti_machine_boot(boot, sizeof boot);
    if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) network[0] = '\0';
    snprintf(all, sizeof all, "%s\n%s\n%s\n%.500s", name, boot, network, own ? own : "");
    uint64_t number = XXH3_64bits(all, strlen(all));
    return number ? number : 1;
}
