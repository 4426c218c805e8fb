/* SPDX-License-Identifier: MIT */
/* Shared by the judges of all topics: recording a finding, and distinguishing ranks of
 * one machine from ranks of several. */
#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/machine.h"
#include "base/text.h"
#include "doctor/judge.h"

void wefti_find(wefti_judge *j, weft_severity severity, const char *topic, int64_t rank,
                const char *advice, const char *format, ...) {
    weft_findings *out = j->out;
    if (j->status != WEFT_OK) return;
    j->status = wefti_grow(j->ctx, &out->items, out->n, out->n + 1, sizeof *out->items,
                           "findings");
    if (j->status != WEFT_OK) return;
    weft_finding *f = &out->items[out->n++];
    f->severity = severity;
    f->rank = rank;
    wefti_set_text(f->topic, sizeof f->topic, topic);
    wefti_set_text(f->advice, sizeof f->advice, advice ? advice : "");
    va_list values;
    va_start(values, format);
    vsnprintf(f->text, sizeof f->text, format, values);
    va_end(values);
}

bool wefti_same_host(const wefti_judge *j, int64_t a, int64_t b) {
    uint64_t one = j->ranks[a].machine, other = j->ranks[b].machine;
    if (one && other) return one == other;
    return wefti_is(j->ranks[a].host, j->ranks[b].host);
}

bool wefti_first_of_host(const wefti_judge *j, int64_t rank) {
    for (int64_t r = 0; r < rank; r++)
        if (wefti_same_host(j, r, rank)) return false;
    return true;
}

const char *wefti_place(const wefti_judge *j, int64_t rank) {
    return j->n_hosts > 1 ? j->ranks[rank].host : "this machine";
}
