/* SPDX-License-Identifier: MIT */
/* Small files that describe the machine (/proc, /sys), below a root that tests can
 * choose. A file that is missing or malformed means "unknown"; it is never an error. */
#define _GNU_SOURCE
#include "base/system_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wefti_set_text(char *out, size_t size, const char *text) {
    size_t n = strcspn(text, "\n");
    if (n >= size) n = size - 1;
    memmove(out, text, n);
    memset(out + n, 0, size - n); /* equal texts are equal bytes */
}

static FILE *open_below(const char *root, const char *path) {
    char full[4096];
    int n = snprintf(full, sizeof full, "%s%s", root ? root : "", path);
    return n > 0 && n < (int)sizeof full ? fopen(full, "re") : NULL;
}

bool wefti_first_line(const char *root, const char *path, char *out, size_t size) {
    char line[512] = "";
    FILE *file = open_below(root, path);
    memset(out, 0, size);
    if (!file) return false;
    bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    wefti_set_text(out, size, line);
    return got;
}

int64_t wefti_lone_number(const char *root, const char *path) {
    char line[64], *end;
    if (!wefti_first_line(root, path, line, sizeof line)) return -1;
    long long value = strtoll(line, &end, 10);
    return end == line ? -1 : (int64_t)value;
}

int64_t wefti_kilobyte_line(const char *root, const char *path, const char *key) {
    char line[256];
    long long value = -1;
    size_t n = strlen(key);
    FILE *file = open_below(root, path);
    if (!file) return -1;
    while (value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, n) == 0 && sscanf(line + n, ": %lld", &value) == 1)
            value *= 1024;
    fclose(file);
    return value;
}
