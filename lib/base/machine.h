/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Figures of the system about this machine and process; -1 where they are not known. */
int64_t wefti_machine_available_bytes(void); /* memory that can be used without swapping,
                                                limits of control groups included */
int64_t wefti_process_resident_bytes(void);
int64_t wefti_process_peak_bytes(void);
double
wefti_process_cpu_s(void); /* of all its threads since it was started; NAN: not known */
int wefti_machine_cores(void); /* cores that this process may run on */

/* A number that processes of one machine have in common, and those of different ones do not,
 * even if the machines have the same name: a hash of the host name, of the boot of the kernel,
 * of the network (containers with addresses of their own count as machines) and of the variable
 * WEFT_MACHINE. What can not be read counts as empty. Never 0. */
uint64_t wefti_machine_number(void);

/* Counters of the whole machine since its start, NAN where they are not known. root: as
 * in base/system_file.h. The first function gives seconds of all cores together, busy and
 * in total. The second gives the bytes through the network interfaces that lead out of
 * the machine: all except lo and those of bridges to containers and virtual machines,
 * whose bytes also pass through another interface. */
void wefti_machine_busy(const char *root, double *busy_s, double *all_s);
void wefti_machine_network(const char *root, double *out_bytes, double *in_bytes);
