/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Figures of the system about this machine and process; -1 where they are not known. */
int64_t wefti_machine_available_bytes(void); /* memory that can be used without swapping,
                                                limits of control groups included */
int64_t wefti_process_resident_bytes(void);
int64_t wefti_process_peak_bytes(void);
double
wefti_process_cpu_s(void); /* of all its threads since it was started; NAN: not known */
int wefti_machine_cores(void); /* cores that this process may run on */

/* Bytes that nobody can guess; false: errno says why there are none. */
bool wefti_machine_random(void *out, size_t n);

/* What names this start of the kernel, "" if it is not known. */
void wefti_machine_boot(char *out, size_t size);

/* A number that processes of one machine have in common, and those of different ones do not,
 * even if the machines have the same name: a hash of the host name, of the boot of the kernel,
 * of the network (containers with addresses of their own count as machines) and of the variable
 * WEFT_MACHINE. What can not be read counts as empty. Never 0. */
uint64_t wefti_machine_number(void);

/* Counters of the whole machine since its start, NAN where they are not known. root: as
 * below. The first function gives seconds of all cores together, busy and
 * in total. The second gives the bytes through the network interfaces that lead out of
 * the machine: all except lo and those of bridges to containers and virtual machines,
 * whose bytes also pass through another interface. */
void wefti_machine_busy(const char *root, double *busy_s, double *all_s);
void wefti_machine_network(const char *root, double *out_bytes, double *in_bytes);

/* The limits of the control groups that contain this process; -1: no limit known. */
typedef struct wefti_group_limits {
    int64_t memory_bytes;      /* the smallest on the path to the root */
    int64_t memory_used_bytes; /* used in that group, without cached pages of files */
    double cpu_quota;          /* cores */
} wefti_group_limits;

/* root: as below. */
wefti_group_limits wefti_groups_look(const char *root);

/* Files that the system writes, such as /proc/loadavg; root: "" or NULL, or a folder that
 * has a /proc and a /sys of its own (tests). */

/* Copies text, truncated to fit, without its final newline. */
void wefti_set_text(char *out, size_t size, const char *text);

/* Reads the first line of a file below root, "" if there is none. Returns whether there
 * is one. */
bool wefti_first_line(const char *root, const char *path, char *out, size_t size);

/* The whole number at the beginning of a file below root, or -1. */
int64_t wefti_lone_number(const char *root, const char *path);

/* Bytes behind `key` in a file below root of "key: number kB" lines, or -1. */
int64_t wefti_kilobyte_line(const char *root, const char *path, const char *key);
