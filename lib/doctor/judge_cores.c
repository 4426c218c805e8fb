/* SPDX-License-Identifier: MIT */
/* Compares threads with cores, for each machine: pinning, NUMA, control groups, other load.
 *
 *     usable cores    the union of what the host's ranks may run on, less than all if pinned
 *     threads         ranks of the host times the computing threads of each
 *
 * If there are more threads than cores they run alternately, and a barrier then costs a time
 * slice. The same happens when two processes share cores while other cores are idle, and with a
 * quota of a control group: the process sees all cores, but gets only a share of their time. */
#include <string.h>

#include "doctor/judge.h"

typedef struct host_cores {
    int64_t ranks, threads; /* of all processes of the host; a number of threads that weft
                               chooses counts as 1 */
    int64_t usable;         /* cores that at least one process may use */
    uint64_t cpus[WEFT_DOCTOR_CPU_WORDS];
} host_cores;

static int64_t count(const uint64_t cpus[WEFT_DOCTOR_CPU_WORDS]) {
    int64_t n = 0;
    for (int w = 0; w < WEFT_DOCTOR_CPU_WORDS; w++) n += __builtin_popcountll(cpus[w]);
    return n;
}

/* Threads of a process; one for each rank if the configuration does not set their number. */
static int64_t threads_of(const weft_rank_facts *f) {
    int64_t each = f->threads > 0 ? f->threads : 1;
    return f->process_ranks * each;
}

static host_cores sum_host(const wefti_judge *j, int64_t first) {
    host_cores h = {0};
    for (int64_t r = first; r < j->n_ranks; r++) {
        if (!wefti_same_host(j, first, r)) continue;
        h.ranks += j->ranks[r].process_ranks;
        h.threads += threads_of(&j->ranks[r]);
        for (int w = 0; w < WEFT_DOCTOR_CPU_WORDS; w++) h.cpus[w] |= j->ranks[r].cpus[w];
    }
    if (j->n_ranks == 1 && j->ranks[0].ranks_here > 1) { /* started by a launcher, but
                                                            facts were not gathered */
        h.ranks *= j->ranks[0].ranks_here;
        h.threads *= j->ranks[0].ranks_here;
    }
    h.usable = count(h.cpus);
    if (h.usable == 0) h.usable = j->ranks[first].cores_allowed;
    return h;
}

/* Judges pairs of processes that share all their cores, when these are too few for both. */
static void judge_sharing(wefti_judge *j, int64_t first) {
    for (int64_t a = first; a < j->n_ranks; a++)
        for (int64_t b = a + 1; wefti_same_host(j, first, a) && b < j->n_ranks; b++) {
            const weft_rank_facts *x = &j->ranks[a], *y = &j->ranks[b];
            int64_t n = count(x->cpus);
            if (!wefti_same_host(j, a, b) || n == 0 || n >= x->cores ||
                memcmp(x->cpus, y->cpus, sizeof x->cpus) != 0 ||
                threads_of(x) + threads_of(y) <= n)
                continue;
            wefti_find(
                j, WEFT_FINDING_WARNING, "cores", a,
                "start with mpirun --bind-to none, or --map-by slot:PE=THREADS so that "
                "each rank gets its own cores (docs/launching.md)",
                "ranks %lld and %lld are bound to the same %lld of the %lld cores of %s",
                (long long)a, (long long)b, (long long)n, (long long)x->cores,
                wefti_place(j, a));
            return;
        }
}

static void judge_binding(wefti_judge *j, int64_t first) {
    for (int64_t r = first; r < j->n_ranks; r++) {
        const weft_rank_facts *f = &j->ranks[r];
        if (!wefti_same_host(j, first, r) || f->cores_allowed >= f->cores) continue;
        bool few = threads_of(f) > f->cores_allowed;
        if (!few && r != first) continue;
        wefti_find(
            j, few ? WEFT_FINDING_WARNING : WEFT_FINDING_NOTE, "cores", r,
            "if nobody else needs the others, start without taskset, or with mpirun "
            "--bind-to none; a batch system gives more with --cpus-per-task",
            "%s: the process may use %lld of %lld cores%s", wefti_place(j, r),
            (long long)f->cores_allowed, (long long)f->cores,
            few ? ", fewer than its threads" : "");
        return;
    }
}

/* Memory of another NUMA node is slower, and a thread that wanders leaves its own behind. weft
 * binds nothing: where there is one such node it does not help, elsewhere launchers do it. */
static void judge_memory_nodes(wefti_judge *j, int64_t first) {
    for (int64_t r = first; r < j->n_ranks; r++) {
        const weft_rank_facts *f = &j->ranks[r];
        if (!wefti_same_host(j, first, r) || f->memory_nodes < 2 ||
            f->cores_allowed * f->memory_nodes <= f->cores)
            continue;
        wefti_find(
            j, WEFT_FINDING_NOTE, "cores", r,
            "start a process for each NUMA node and bind it there: mpirun --map-by numa "
            "--bind-to numa, or numactl --cpunodebind=N --membind=N before each weft "
            "train (docs/launching.md)",
            "%s has %lld NUMA nodes, and the process may run on more than one of them",
            wefti_place(j, r), (long long)f->memory_nodes);
        return;
    }
}

static void judge_count(wefti_judge *j, int64_t r, const host_cores *h) {
    const weft_rank_facts *f = &j->ranks[r];
    if (h->threads > h->usable)
        wefti_find(j, WEFT_FINDING_WARNING, "cores", r,
                   "start fewer ranks on it or set mesh.threads lower; ranks that wait "
                   "their turn for a core slow all others down",
                   "%s has %lld rank%s with %lld thread%s in all on %lld core%s",
                   wefti_place(j, r), (long long)h->ranks, h->ranks == 1 ? "" : "s",
                   (long long)h->threads, h->threads == 1 ? "" : "s",
                   (long long)h->usable, h->usable == 1 ? "" : "s");
    else
        wefti_find(j, WEFT_FINDING_OK, "cores", r, NULL,
                   "%s: %lld rank%s on %lld usable cores", wefti_place(j, r),
                   (long long)h->ranks, h->ranks == 1 ? "" : "s", (long long)h->usable);
    int64_t wanted = f->threads > 0 ? h->threads : h->usable;
    if (f->cpu_quota > 0 && f->cpu_quota < (double)wanted)
        wefti_find(j, WEFT_FINDING_WARNING, "cores", r,
                   "give the container more (docker --cpus, Kubernetes limits.cpu), or "
                   "set mesh.threads so that all ranks together stay below",
                   "%s: the control group allows %.3g cores' time, but %lld threads "
                   "would run, which are stopped in every period",
                   wefti_place(j, r), f->cpu_quota, (long long)wanted);
}

static void judge_load(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    if (f->load < 0 || f->cores < 1 || f->load < 0.25 * (double)f->cores) return;
    bool much = f->load >= 0.75 * (double)f->cores;
    wefti_find(
        j, much ? WEFT_FINDING_WARNING : WEFT_FINDING_NOTE, "load", r,
        "look with top for who it is; others' load on one machine is waited for by all",
        "%s was busy in the last minute: load %.2f on %lld cores", wefti_place(j, r),
        f->load, (long long)f->cores);
}

void wefti_judge_cores(wefti_judge *j) {
    for (int64_t r = 0; r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r)) continue;
        host_cores h = sum_host(j, r);
        judge_count(j, r, &h);
        judge_binding(j, r);
        judge_sharing(j, r);
        judge_memory_nodes(j, r);
        judge_load(j, r);
    }
}
