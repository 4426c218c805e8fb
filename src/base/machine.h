/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What the system says of this machine and process; -1 where it does not say. */
int64_t wefti_machine_available_bytes(void); /* memory that can be used without swapping,
                                                limits of control groups included */
int64_t wefti_process_resident_bytes(void);
int64_t wefti_process_peak_bytes(void);
double wefti_process_cpu_s(void); /* of all its threads since it was started; NAN: not known */
int wefti_machine_cores(void); /* that this process may run on */

/* Counters of the whole machine since it was started, NAN where the system does not say. root:
 * as in base/system_file.h. Seconds of all cores together, busy and in all; bytes through the
 * network interfaces that lead out of the machine: all but lo and those of bridges to
 * containers and virtual machines, whose bytes pass another one as well. */
void wefti_machine_busy(const char *root, double *busy_s, double *all_s);
void wefti_machine_network(const char *root, double *out_bytes, double *in_bytes);
