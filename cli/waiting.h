/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes threads that wait sleep after a while instead of spinning; to be called first, with the
 * arguments of main. Returns if nothing is to do. */
void threads_sleep(char **argv);
