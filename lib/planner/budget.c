/* SPDX-License-Identifier: MIT */
/* A limit of the bytes that a node sends in any 24 hours. What was sent is counted by the hour, and
 * an hour counts until its last byte is a day old:
 *
 *     sent in the last 24 hours at t, if the rate x is kept:   x t + what is not a day old at t
 *
 * Just before an hour stops counting that is largest: there it is compared with the limit. */
#include <math.h>
#include <string.h>

#include "planner/replan.h"

static const double hour_s = 3600, whole_day_s = 86400;
enum { HOURS = sizeof((wefti_budget *)NULL)->sent / sizeof(double) };

void wefti_budget_add(wefti_budget *b, double seconds, double bytes) {
    b->in_s += fmin(seconds, 2 * whole_day_s);
    for (; b->in_s >= hour_s; b->in_s -= hour_s) {
        memmove(b->sent + 1, b->sent, (HOURS - 1) * sizeof *b->sent);
        b->sent[0] = 0;
    }
    b->sent[0] += bytes;
}

bool wefti_budget_is_busy(const wefti_budget *b, double day_s) {
    const wefti_busy *h = &b->busy;
    bool after = day_s >= (double)h->from_s, before = day_s < (double)h->to_s;
    if (!(h->Bps > 0)) return false;
    return h->from_s < h->to_s ? after && before : after || before;
}

double wefti_budget_Bps(const wefti_budget *b, double left_s, double day_s) {
    double counts = 0, Bps = INFINITY, until_s = hour_s - b->in_s;
    if (wefti_budget_is_busy(b, day_s)) Bps = b->busy.Bps;
    if (!(b->per_day > 0)) return isfinite(Bps) ? Bps : 0;
    for (int i = 0; i < HOURS; i++) counts += b->sent[i];
    for (int i = HOURS - 1; i >= 0; i--) { /* the oldest hour stops counting first */
        Bps = fmin(Bps, (b->per_day - counts) / fmax(1, fmin(until_s, left_s)));
        counts -= b->sent[i];
        until_s += hour_s;
    }
    return fmax(1, Bps);
}
