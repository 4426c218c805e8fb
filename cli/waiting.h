/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes waiting threads sleep after a while instead of spinning. Must be called first in
 * main, with its arguments. Returns if there is nothing to do; otherwise the program
 * restarts itself. */
void threads_sleep(char **argv);

/* An OpenBLAS with threads of its own computes each product in the thread that calls it. */
void products_in_one_thread(void);
