/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/report.h>

/* Writes the first names of runs that lie in a folder, in the order of their names. False: there
 * are none. */
bool wefti_runs_in(const char *folder, char *out, size_t size);
