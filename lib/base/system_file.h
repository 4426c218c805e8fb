/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
