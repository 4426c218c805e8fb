/* SPDX-License-Identifier: MIT */
/* Memory, swap, frequency, clock.
 *
 *     memory     the needs of all ranks of the host, against the free memory or the limit of its
 *                control group, whichever is less: warns of a run that would be killed later
 *     swap       pages that are swapped out: training uses all of its memory in every step
 *     governor   a processor that is kept at a low frequency
 *     clock      hosts whose clocks differ: times in logs cannot be compared
 */
#include <math.h>

#include "base/text.h"
#include "doctor/judge.h"

/* Memory that a process can use without swapping or reaching the control group's limit. */
static int64_t free_memory(const weft_rank_facts *f) {
    int64_t free = f->memory_available_bytes;
    int64_t used = f->memory_limit_used_bytes > 0 ? f->memory_limit_used_bytes : 0;
    if (f->memory_limit_bytes > 0 && (free < 0 || f->memory_limit_bytes - used < free))
        free = f->memory_limit_bytes - used;
    return free;
}

static int64_t needed_on_host(const wefti_judge *j, int64_t first) {
    int64_t needed = 0;
    for (int64_t r = first; r < j->n_ranks; r++)
        if (wefti_same_host(j, first, r) && j->ranks[r].memory_needed_bytes > 0)
            needed += j->ranks[r].memory_needed_bytes;
    if (j->n_ranks == 1 && j->ranks[0].ranks_here > 1) needed *= j->ranks[0].ranks_here;
    return needed;
}

static void judge_memory(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    int64_t free = free_memory(f), needed = needed_on_host(j, r);
    char a[32], b[32];
    if (free < 0) return;
    wefti_format_bytes((double)needed, a, sizeof a);
    wefti_format_bytes((double)free, b, sizeof b);
    const char *limited = f->memory_limit_bytes > 0 && free < f->memory_available_bytes
                              ? " under the control group's limit"
                              : "";
    const char *advice =
        "use fewer layers or width, batch.micro=1, model.recompute=true, or "
        "more nodes that share the model (mesh.ranks_per_node)";
    if (needed > free)
        wefti_find(j, WEFT_FINDING_ERROR, "memory", r, advice,
                   "%s: the run needs %s, but %s is free%s", wefti_place(j, r), a, b,
                   limited);
    else if ((double)needed > 0.9 * (double)free)
        wefti_find(j, WEFT_FINDING_WARNING, "memory", r, advice,
                   "%s: the run needs %s of the %s that is free%s, without its text",
                   wefti_place(j, r), a, b, limited);
    else if (needed > 0)
        wefti_find(j, WEFT_FINDING_OK, "memory", r, NULL,
                   "%s: the run needs %s, %s is free%s", wefti_place(j, r), a, b,
                   limited);
    else
        wefti_find(j, WEFT_FINDING_OK, "memory", r, NULL, "%s: %s is free%s",
                   wefti_place(j, r), b, limited);
}

static void judge_swap(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    enum { MUCH = 100000000 };
    char used[32];
    if (f->swap_used_bytes <= 0) return;
    wefti_find(j, f->swap_used_bytes >= MUCH ? WEFT_FINDING_WARNING : WEFT_FINDING_NOTE,
               "memory", r,
               "end what else takes memory, or look with vmstat 1 whether si and so stay "
               "0 during the run",
               "%s has %s of memory swapped out to disk", wefti_place(j, r),
               wefti_format_bytes((double)f->swap_used_bytes, used, sizeof used));
}

static void judge_governor(wefti_judge *j, int64_t r) {
    const char *governor = j->ranks[r].governor;
    if (!wefti_is(governor, "powersave") && !wefti_is(governor, "conservative")) return;
    wefti_find(j, WEFT_FINDING_WARNING, "processor", r,
               "cpupower frequency-set -g performance (as root)",
               "%s: the processor's frequency governor is %s, which may keep it slow "
               "when ranks wait for messages",
               wefti_place(j, r), governor);
}

static void judge_clock(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    double off = fabs(f->clock_offset_s) - f->clock_offset_error_s;
    if (r > 0 && off > 0.01)
        wefti_find(j, off > 1 ? WEFT_FINDING_WARNING : WEFT_FINDING_NOTE, "clock", r,
                   "let a time service run on every machine (chrony or "
                   "systemd-timesyncd): times in logs and of files cannot be compared",
                   "the clock of %s is %.3g s %s that of %s (known to %.2g s)",
                   wefti_place(j, r), fabs(f->clock_offset_s),
                   f->clock_offset_s > 0 ? "ahead of" : "behind", j->ranks[0].host,
                   f->clock_offset_error_s);
    if (f->clock_synchronized == 0)
        wefti_find(j, WEFT_FINDING_NOTE, "clock", r,
                   "start chrony or systemd-timesyncd, if the host of a virtual machine "
                   "does not keep its clock: timedatectl set-ntp true",
                   "%s: no time service steers the clock", wefti_place(j, r));
    else if (f->clock_synchronized == 1)
        wefti_find(j, WEFT_FINDING_OK, "clock", r, NULL,
                   "%s: the clock is synchronized, to %.2g s", wefti_place(j, r),
                   f->clock_error_s);
}

void wefti_judge_machine(wefti_judge *j) {
    for (int64_t r = 0; r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r)) continue;
        judge_memory(j, r);
        judge_swap(j, r);
        judge_governor(j, r);
        judge_clock(j, r);
    }
}
