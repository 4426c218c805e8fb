/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MACHINE_H
#define WEFTI_MACHINE_H

#include <stdint.h>

/* What the system says of this machine and process; -1 where it does not say. */
int64_t wefti_machine_available_bytes(void); /* memory that can be used without swapping,
                                                limits of control groups included */
int64_t wefti_process_resident_bytes(void);
int64_t wefti_process_peak_bytes(void);
int wefti_machine_cores(void); /* that this process may run on */

#endif
