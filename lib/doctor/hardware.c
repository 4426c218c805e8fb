/* SPDX-License-Identifier: MIT */
/* Processor, memory, swap, load and clock of this machine. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/text.h"
#include "doctor/examine.h"
#include "kernels/isa.h"

static int64_t memory_line(const char *root, const char *key) {
    return wefti_kilobyte_line(root, "/proc/meminfo", key);
}

static void examine_memory(const char *root, weft_rank_facts *facts) {
    facts->memory_bytes = memory_line(root, "MemTotal");
    facts->memory_available_bytes = memory_line(root, "MemAvailable");
    facts->swap_bytes = memory_line(root, "SwapTotal");
    int64_t left = memory_line(root, "SwapFree");
    if (facts->swap_bytes >= 0 && left >= 0)
        facts->swap_used_bytes = facts->swap_bytes - left;
}

int64_t wefti_instructions(void) {
#if defined(__x86_64__) || defined(__i386__)
    return wefti_isa_asks_amx()                ? 4
           : __builtin_cpu_supports("avx512f") ? 3
           : __builtin_cpu_supports("avx2")    ? 2
           : __builtin_cpu_supports("avx")     ? 1
                                               : 0;
#else
    return -1;
#endif
}

static void examine_processor(const char *root, weft_rank_facts *facts) {
    char path[4096], line[512];
    if (snprintf(path, sizeof path, "%s/proc/cpuinfo", root ? root : "") <
        (int)sizeof path) {
        FILE *file = fopen(path, "re");
        while (file && !facts->processor[0] && fgets(line, sizeof line, file)) {
            char *colon = strchr(line, ':');
            if (strncmp(line, "model name", 10) == 0 && colon)
                wefti_set_text(facts->processor, sizeof facts->processor,
                               colon + 1 + strspn(colon + 1, " "));
        }
        if (file) fclose(file);
    }
    facts->instructions = wefti_instructions();
    wefti_first_line(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                     facts->governor, sizeof facts->governor);
}

/* How many numbers a list of the kernel has, "0-1,4": 3; -1 if it is none. */
static int64_t count_listed(const char *list) {
    int64_t n = 0;
    for (const char *at = list;; at++) {
        char *end;
        long long first = strtoll(at, &end, 10), last = first;
        if (end == at) return -1;
        if (*end == '-') {
            at = end + 1;
            last = strtoll(at, &end, 10);
            if (end == at) return -1;
        }
        if (first < 0 || last < first || last > 65535) return -1;
        n += last - first + 1;
        if (*end != ',') return *end == '\0' ? n : -1;
        at = end;
    }
}

static void examine_cores(const char *root, weft_rank_facts *facts) {
    char nodes[256];
    facts->cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (wefti_first_line(root, "/sys/devices/system/node/has_cpu", nodes, sizeof nodes))
        facts->memory_nodes = count_listed(nodes);
    facts->cores_allowed = wefti_machine_cores();
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (size_t cpu = 0; cpu < 64 * WEFT_DOCTOR_CPU_WORDS && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) facts->cpus[cpu / 64] |= 1ull << cpu % 64;
#endif
}

/* Asks the kernel whether a time service synchronizes the clock. */
static void examine_clock(weft_rank_facts *facts) {
    struct timex state = {.modes = 0};
    int answer = ntp_adjtime(&state);
    if (answer < 0) return;
    facts->clock_synchronized = answer != TIME_ERROR && !(state.status & STA_UNSYNC);
    if (facts->clock_synchronized) facts->clock_error_s = (double)state.maxerror * 1e-6;
}

void wefti_examine_machine(const char *root, weft_rank_facts *facts) {
    struct utsname name;
    char line[64], system[sizeof name.sysname + sizeof name.release + 2];
    if (gethostname(line, sizeof line) == 0) {
        line[sizeof line - 1] = '\0';
        wefti_set_text(facts->host, sizeof facts->host, line);
    }
    facts->machine = wefti_machine_number();
    if (uname(&name) == 0) {
        snprintf(system, sizeof system, "%s %s", name.sysname, name.release);
        wefti_set_text(facts->system, sizeof facts->system, system);
    }
    if (wefti_first_line(root, "/proc/loadavg", line, sizeof line))
        facts->load = wefti_strtod(line, NULL);
    examine_processor(root, facts);
    examine_cores(root, facts);
    examine_memory(root, facts);
    examine_clock(facts);
}
