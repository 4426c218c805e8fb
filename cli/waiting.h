/* SPDX-License-Identifier: MIT */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

/* Makes threads that wait sleep after a while instead of spinning; to be called first, with the
 * arguments of main. Returns if nothing is to do. */
void threads_sleep(char **argv);

#endif
