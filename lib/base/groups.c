/* SPDX-License-Identifier: MIT */
/* The limits of the control groups that contain this process: of version 1 (one hierarchy for
 * each controller) and 2. The limit that counts is the smallest one on the path to the root. In
 * a container the group's own path is often not visible; then the root of the hierarchy is read.
 */
#include "base/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system_file.h"
#include "base/text.h"

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
