/* SPDX-License-Identifier: MIT */
/* Formats numbers for people, with a suitable unit. */
#include "figures.h"

#include <math.h>
#include <stdio.h>

static const char *scaled(double x, const char *const *units, int n, char *out,
                          size_t out_size) {
    int k = 0;
    while (k < n - 1 && x >= 999.5) x /= 1000, k++;
    snprintf(out, out_size, "%.3g%s", x, units[k]);
    return out;
}

const char *count_text(double n, char *out, size_t out_size) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    return scaled(n, units, 6, out, out_size);
}

const char *size_text(double n_bytes, char *out, size_t out_size) {
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB"};
    return scaled(n_bytes, units, 6, out, out_size);
}

const char *rate_text(double bandwidth_Bps, char *out, size_t out_size) {
    static const char *const units[] = {" bit/s", " kbit/s", " Mbit/s", " Gbit/s",
                                        " Tbit/s"};
    return scaled(8 * bandwidth_Bps, units, 5, out, out_size);
}

const char *time_text(double seconds, char *out, size_t out_size) {
    static const struct {
        double from, unit;
        const char *name;
    } rows[] = {{172800, 86400, " d"}, {7200, 3600, " h"},       {180, 60, " min"},
                {0.9995, 1, " s"},     {0.9995e-3, 1e-3, " ms"}, {0, 1e-6, " us"}};
    int k = 0;
    while (seconds < rows[k].from) k++;
    double n = seconds / rows[k].unit;
    snprintf(out, out_size, n < 99999.5 && n >= 999.5 ? "%.0f%s" : "%.3g%s", n,
             rows[k].name);
    if (n >= 99999.5) snprintf(out, out_size, "%.0e%s", n, rows[k].name);
    return out;
}

const char *real_text(double x, char *out, size_t out_size) {
    if (!isfinite(x)) return "null";
    snprintf(out, out_size, "%.9g", x);
    return out;
}
