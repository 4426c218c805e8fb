/* SPDX-License-Identifier: MIT */
/* Who computes how many rows of a step, by what was measured. Each says for how many seconds it
 * has computed. All read the same numbers, so all know before the next step what is decided,
 * without another message:
 *
 *     block: a step, or so many that the slowest has computed for a quarter of a second
 *     t_i:   n_i times the median of the seconds for a row in the last 8 blocks
 *
 * so that steps in which a machine was asleep say nothing about the next ones. A processor's quota
 * is given in periods P of up to 100 ms, of which short steps take nothing or all: in a block, the
 * mean of both. A node takes t_i + b_i (n - n_i) seconds for n rows; b_i follows from t now and u
 * for m_i rows before, a quarter of n_i more or less, or else is t / n_i:
 *
 *     b_i = (t - u) / (n_i - m_i), from t / 2 n_i to t / n_i, or to 2 t / n_i where n is
 *           on the side of m_i
 *
 * since who has left of its quota looks faster than it is, until it has more rows. All take T then,
 * for which all wait, with one row each at least, if T falls by a twentieth or more. At first n is
 * at most max(2, t_i / P) times n_i, and T may fall by more than that later. P = 0.1 s.
 *
 * A change is judged by t of the slowest, 8 blocks later. If it is longer than before, the rows
 * before are taken again. The next change waits for twice as many blocks (up to 128), and adds half
 * as much to any n_i, unless t is another than it was by a half: then speeds have changed.
 *
 * Who waits for one that has become slow waits long for 8 blocks. So the last second, two blocks at
 * least, suffices where T falls by a third; for taking back, if t is longer by a half, and of the
 * slowest's rows a quarter is new; and for another speed, if t is another by twice. */
#include <math.h>
#include <string.h>

#include "job/speeds.h"
#include <weft/sync.h>

enum { most_patience = 16, level_rounds = 60 };
static const double soon_s = 1, period_s = 0.1, longest_step_s = 1e6, most_rows = 1 << 30;
static const double worth = 0.95, worth_soon = 1 / 1.5, worse_soon = 1.5;

/* --- rows by time --- */

/* b_i, for more rows or fewer. More rows in less time: of another speed, and none is known. */
static double row_s_of(const wefti_speed *t, bool more) {
    double e = t->step_s / t->rows, other = t->rows - t->earlier;
    double b = (t->step_s - t->earlier_s) / other;
    if (t->earlier == 0 || 4 * fabs(other) < t->rows || b < 0) return e;
    return b > e && more != (t->earlier > t->rows) ? e : fmin(2 * e, fmax(e / 2, b));
}

static double seconds_of(const wefti_speed *t, double rows) {
    return t->step_s + row_s_of(t, rows > t->rows) * (rows - t->rows);
}

static double rows_by(const wefti_speed *t, double T) {
    return t->rows + (T - t->step_s) / row_s_of(t, T > t->step_s);
}

/* T by which n copies have `all` rows, each one at least, and the most if that is asked for. */
static double level_of(int n, const wefti_speed *of, double all, bool most) {
    double low = 0, high = 0;
    for (int i = 0; i < n; i++) high = fmax(high, seconds_of(&of[i], all));
    for (int round = 0; round < level_rounds; round++) {
        double T = (low + high) / 2, rows = 0;
        for (int i = 0; i < n; i++)
            rows += fmax(1, fmin(most ? of[i].most : all, rows_by(&of[i], T)));
        *(rows < all ? &low : &high) = T;
    }
    return high;
}

static void divide_by_time(int n, wefti_speed *of, double all) {
    double T = level_of(n, of, all, true), given = 0;
    for (int i = 0; i < n; i++) {
        double rows = floor(rows_by(&of[i], T));
        of[i].next = fmax(1, fmin(all - n + 1, fmin(rows, of[i].most)));
        given += of[i].next;
    }
    for (; given < all; given++) { /* to whoever is done first with one more */
        int first = -1;
        for (int i = 0; i < n; i++)
            if (of[i].next < of[i].most &&
                (first < 0 || seconds_of(&of[i], of[i].next + 1) <
                                  seconds_of(&of[first], of[first].next + 1)))
                first = i;
        of[first].next++;
    }
    for (; given > all; given--) { /* by rounding */
        int last = -1;
        for (int i = 0; i < n; i++)
            if (of[i].next > 1 && (last < 0 || seconds_of(&of[i], of[i].next) >
                                                   seconds_of(&of[last], of[last].next)))
                last = i;
        of[last].next--;
    }
}

static double rows_of(int n, const wefti_speed *of) {
    double all = 0;
    for (int i = 0; i < n; i++) all += of[i].rows;
    return all;
}

bool wefti_shares_by_speed(int n, wefti_speed *of, double growth, double part,
                           double took_s[2]) {
    double all = rows_of(n, of);
    for (int i = 0; i < n; i++) {
        double times = fmax(growth, of[i].step_s / period_s);
        of[i].most = fmax(of[i].rows + 1, floor(of[i].rows * times));
    }
    double free_s = level_of(n, of, all, false);
    bool begins = false; /* somebody has fewer than he could */
    took_s[0] = took_s[1] = 0;
    divide_by_time(n, of, all);
    for (int i = 0; i < n; i++) {
        begins = begins || rows_by(&of[i], free_s) > of[i].most;
        took_s[0] = fmax(took_s[0], of[i].step_s);
        took_s[1] = fmax(took_s[1], seconds_of(&of[i], of[i].next));
    }
    begins = begins && took_s[1] < took_s[0];
    return (begins ? fmin(free_s, took_s[1]) : took_s[1]) <= part * took_s[0];
}

/* --- what was measured --- */

int64_t weft_shares_numbers(int copies) {
    return (int64_t)((sizeof(wefti_speeds) + (size_t)(copies + 1) * sizeof(wefti_speed)) /
                     sizeof(double));
}

void weft_shares_begin(int copies, const int64_t *shares, double *numbers) {
    wefti_speeds *s = (wefti_speeds *)numbers;
    memset(numbers, 0, (size_t)weft_shares_numbers(copies) * sizeof *numbers);
    for (int i = 0; i < copies; i++) s->of[i].rows = (double)shares[i];
    s->patience = 1;
}

static void add(wefti_speed *to, double rows, double seconds) {
    to->block_rows += rows;
    to->block_s += seconds;
}

void wefti_speeds_hear(wefti_speeds *s, int copies, const wefti_said *said,
                       double least_s) {
    wefti_speed *slowest = &s->of[copies];
    double rows = 0, slowest_s = 0;
    if (s->n == 0) { /* the first one warms up */
        s->n = s->decided = 1;
        return;
    }
    for (int i = 0; i < copies; i++) {
        rows += fmax(0, said[i].rows);
        if (!(said[i].rows > 0 && said[i].seconds > 0 &&
              said[i].seconds < longest_step_s))
            continue; /* not known */
        add(&s->of[i], said[i].rows, said[i].seconds);
        slowest_s = fmax(slowest_s, said[i].seconds);
    }
    add(slowest, rows, slowest_s);
    s->steps++;
    if (slowest->block_s < least_s) return;
    s->step_rows = slowest->block_rows / s->steps;
    s->steps = 0;
    int place = ((int)s->n - 1) % WEFTI_SPEED_BLOCKS;
    for (int i = 0; i <= copies; i++) {
        wefti_speed *of = &s->of[i];
        of->last_s[place] = of->block_rows > 0 ? of->block_s / of->block_rows : 0;
        of->block_rows = of->block_s = 0;
    }
    s->n++;
    s->waited++;
}

/* The lower one of the known times of so many blocks, the last ones; 0: there is none, or but one
 * of a few. */
static double median_of(const wefti_speed *of, int end, int blocks) {
    double sorted[WEFTI_SPEED_BLOCKS];
    int n = 0;
    for (int i = end - blocks; i < end; i++) {
        double row_s = of->last_s[i % WEFTI_SPEED_BLOCKS];
        int at = n;
        if (!(row_s > 0)) continue;
        for (; at > 0 && sorted[at - 1] > row_s; at--) sorted[at] = sorted[at - 1];
        sorted[at] = row_s;
        n++;
    }
    bool few = n == 0 || (n == 1 && blocks > 1 && blocks < WEFTI_SPEED_BLOCKS);
    return few ? 0 : sorted[(n - 1) / 2];
}

/* What a step takes, by the last blocks: all eight, or those of the last second. 0: too few. */
static double look(wefti_speeds *s, int copies, bool *all) {
    int have = (int)s->n - 1, blocks = WEFTI_SPEED_BLOCKS;
    wefti_speed *slowest = &s->of[copies];
    double times = s->step_rows / rows_of(copies, s->of);
    *all = s->n - s->decided >= blocks;
    if (!*all && have >= 1) {
        double step_s = s->step_rows * median_of(slowest, have, 1);
        blocks = (int)fmax(2, ceil(soon_s / fmax(WEFTI_SPEED_BLOCK_S, step_s)));
    }
    if (have < blocks) return 0;
    slowest->rows = s->step_rows / times;
    for (int i = 0; i <= copies; i++) {
        double step_s = s->of[i].rows * times * median_of(&s->of[i], have, blocks);
        if (!(step_s > 0 && step_s < longest_step_s)) return 0;
        s->of[i].step_s = step_s;
    }
    return slowest->step_s;
}

/* Whether who is slowest now has more rows than before, by a quarter: three more of a hundred make
 * nobody slow. */
static bool is_to_blame(const wefti_speeds *s, int copies) {
    const wefti_speed *last = s->of;
    for (int i = 1; i < copies; i++)
        if (s->of[i].step_s > last->step_s) last = &s->of[i];
    return 4 * (last->rows - last->before) >= last->rows;
}

/* Whether the rows before are taken again, since the slowest takes `now_s` with those of now. */
static bool goes_back(wefti_speeds *s, int copies, double now_s, bool all) {
    double before_s = s->before_s;
    if (before_s == 0) return false;
    bool much = now_s > worse_soon * before_s;
    bool back = much ? is_to_blame(s, copies) : all && now_s > before_s;
    if (back || now_s <= before_s) s->known_s = fmin(now_s, before_s);
    if (back || all) s->before_s = 0;
    if (!back) return false;
    s->patience = fmin(2 * s->patience, most_patience);
    s->waited = 0;
    return true;
}

/* Whether t of the slowest is another than is known. What was measured before says nothing then. */
static bool is_other_speed(wefti_speeds *s, int copies, double now_s, bool all) {
    double times = all ? 1.5 : 2;
    if (s->known_s < times * now_s && now_s < times * s->known_s) return false;
    for (int i = 0; i < copies && s->known_s > 0; i++) s->of[i].earlier = 0;
    s->known_s = now_s;
    s->patience = 1;
    return true;
}

/* Rows of all become the next ones. What is `mixed`, of two speeds, says nothing later. */
static void take(wefti_speeds *s, int copies, bool mixed) {
    s->n = s->decided = 1;
    s->steps = s->of[copies].block_rows = s->of[copies].block_s = 0;
    for (int i = 0; i < copies; i++) {
        wefti_speed *of = &s->of[i];
        of->block_rows = of->block_s = 0;
        if (!mixed && 4 * fabs(of->next - of->rows) >= of->next)
            of->earlier = of->rows, of->earlier_s = of->step_s;
        of->before = of->rows;
        of->rows = of->next;
    }
}

bool wefti_speeds_decide(wefti_speeds *s, int copies, double took_s[2]) {
    bool all;
    double now_s = look(s, copies, &all), before_s = s->before_s, known_s = s->known_s;
    if (now_s == 0) return false;
    if (all) s->decided = s->n;
    if (goes_back(s, copies, now_s, all)) {
        took_s[0] = now_s;
        took_s[1] = before_s;
        for (int i = 0; i < copies; i++) s->of[i].next = s->of[i].before;
        take(s, copies, false);
        return true;
    }
    bool other = is_other_speed(s, copies, now_s, all);
    if (!other && s->waited < WEFTI_SPEED_BLOCKS * (s->patience - 1)) return false;
    if (!wefti_shares_by_speed(copies, s->of, 1 + 1 / s->patience,
                               all ? worth : worth_soon, took_s))
        return false;
    s->before_s = now_s;
    s->waited = 0;
    take(s, copies, other && !all && known_s > 0);
    return true;
}

static bool are_rows(double rows) { return rows >= 1 && rows <= most_rows; }

/* What a program has kept may be anything. */
static bool may_be(const wefti_speeds *s, int copies) {
    bool good = s->n == 0 || are_rows(s->n);
    for (int i = 0; i < copies; i++)
        good = good && are_rows(s->of[i].rows) &&
               (s->before_s == 0 || are_rows(s->of[i].before));
    return good;
}

bool weft_shares_update(int copies, const double *said, double *numbers,
                        int64_t *shares) {
    wefti_speeds *s = (wefti_speeds *)numbers;
    double took_s[2];
    if (!may_be(s, copies)) return false;
    wefti_speeds_hear(s, copies, (const wefti_said *)said, WEFTI_SPEED_BLOCK_S);
    if (!wefti_speeds_decide(s, copies, took_s)) return false;
    for (int i = 0; i < copies; i++) shares[i] = (int64_t)s->of[i].rows;
    return true;
}
