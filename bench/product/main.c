/* SPDX-License-Identifier: MIT */
/* product --seeds A..B: each seed in a process of its own. A seed that fails is printed with what
 * was wrong; --trace shows one from the first call to the last. */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

void __gcov_dump(void) __attribute__((weak)); /* of a build that counts lines */

static const struct itimerval most = {.it_value = {.tv_sec = 60}}; /* of one seed */

typedef struct result {
    uint64_t seed, hash;
    int64_t steps, n_calls, now_ns, n_changes;
    char failure[1500];
} result;

static void run_seed(uint64_t seed, result *r) {
    w.seed = seed;
    w.random = seed * 0x2545f4914f6cdd1du;
    w.end_ns = 3600 * SECOND;
    w.due_ns = NEVER;
    plan_draw();
    for (int h = 1; h <= the_plan.n; h++)
        machine_begin(h, false, draw_between(0, 300) * MS);
    if (the_plan.witness) witness_begin();
    if (the_plan.train) {
        disk_begin();
        run_write_text();
    }
    check_schedule();
    world_run();
    w.current = NULL;
    if (!w.failure[0]) kept_judge();
    *r = (result){seed, w.hash, all_steps, w.n_calls, w.now_ns, n_changes, ""};
    snprintf(r->failure, sizeof r->failure, "%.1490s", w.failure);
}

typedef struct job {
    pid_t process;
    int pipe;
    uint64_t seed;
    char folder[40]; /* in which it works */
} job;

static job start(uint64_t seed) {
    int ends[2];
    result r;
    job j = {.seed = seed, .folder = "/dev/shm/product-XXXXXX"};
    if (pipe(ends) != 0) exit(2);
    if (!the_plan.train)
        j.folder[0] = 0;
    else if (!mkdtemp(j.folder))
        exit(2);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) exit(2);
    if (child > 0) {
        close(ends[1]);
        j.process = child;
        j.pipe = ends[0];
        return j;
    }
    if (j.folder[0] && chdir(j.folder) != 0) _exit(2);
    setitimer(ITIMER_PROF, &most, NULL); /* a busy machine takes nothing from it */
    alarm(600);                          /* it stands still */
    run_seed(seed, &r);
    if (__gcov_dump) __gcov_dump();
    _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 2);
}

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static void finish(job j, result *r) {
    int code;
    ssize_t n = read(j.pipe, r, sizeof *r);
    close(j.pipe);
    while (waitpid(j.process, &code, 0) < 0 && errno == EINTR) continue;
    if (w.trace && j.folder[0])
        fprintf(stderr, "the disks are in %s\n", j.folder);
    else if (j.folder[0])
        nftw(j.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (n == (ssize_t)sizeof *r) return;
    *r = (result){.seed = j.seed};
    if (WIFSIGNALED(code) && WTERMSIG(code) == SIGPROF)
        snprintf(r->failure, sizeof r->failure,
                 "takes more than a minute of processor time");
    else
        snprintf(r->failure, sizeof r->failure, "ended by signal %d",
                 WIFSIGNALED(code) ? WTERMSIG(code) : 0);
}

static char key_path[64];

static void remove_key(void) { unlink(key_path); }

/* The key of the runs with TLS. */
static void write_key(void) {
    snprintf(key_path, sizeof key_path, "/tmp/product-key-XXXXXX");
    int fd = mkstemp(key_path);
    static const char key[] =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe\n";
    if (fd < 0 || write(fd, key, sizeof key - 1) != sizeof key - 1) exit(2);
    close(fd);
    the_plan.key = key_path;
    atexit(remove_key);
}

static int usage(void) {
    fprintf(stderr,
            "usage: product [--seed N] [--seeds A..B] [--jobs J] [--trace] [--again]\n"
            "               [--machines N] [--shards S] [--witness] [--faults TEXT] "
            "[--found FILE] "
            "[--train | --auto]\n");
    return 2;
}

typedef struct options {
    uint64_t first, last;
    int jobs;
    bool again;
    const char *found;
} options;

static bool parse_seeds(const char *text, options *o) {
    char *end;
    o->first = o->last = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) == 0) o->last = strtoull(end + 2, &end, 10);
    return end != text && *end == 0;
}

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--trace") == 0)
            w.trace = true;
        else if (strcmp(argv[i], "--train") == 0)
            the_plan.train = true;
        else if (strcmp(argv[i], "--auto") == 0)
            the_plan.follows = true;
        else if (strcmp(argv[i], "--again") == 0)
            o->again = true;
        else if (strcmp(argv[i], "--witness") == 0)
            the_plan.witness = true;
        else if (strcmp(argv[i], "--jobs") == 0 && next)
            o->jobs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--machines") == 0 && next)
            the_plan.machines = atoi(argv[++i]);
        else if (strcmp(argv[i], "--shards") == 0 && next)
            the_plan.shards = atoi(argv[++i]);
        else if (strcmp(argv[i], "--faults") == 0 && next)
            the_plan.faults = argv[++i];
        else if (strcmp(argv[i], "--found") == 0 && next)
            o->found = argv[++i];
        else if (strncmp(argv[i], "--seed", 6) == 0 && next) {
            if (!parse_seeds(argv[++i], o)) return false;
        } else
            return false;
    }
    return o->jobs >= 1 && o->jobs <= 64 && the_plan.machines <= MAX_HOSTS - 1 &&
           the_plan.shards >= 0 && the_plan.shards <= MOST_SHARDS &&
           !(the_plan.follows && (the_plan.train || the_plan.shards > 1));
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct tally {
    int64_t n, failed, steps, calls, changes;
    double virtual_s;
    uint64_t hash;
} tally;

static void count(tally *all, const result *r) {
    all->n++;
    all->steps += r->steps;
    all->calls += r->n_calls;
    all->changes += r->n_changes;
    all->virtual_s += (double)r->now_ns / 1e9;
    all->hash ^= (r->hash + r->seed) * 0x9e3779b97f4a7c15u;
    if (!r->failure[0]) return;
    all->failed++;
    printf("seed %llu: %s\n", (unsigned long long)r->seed, r->failure);
    fflush(stdout);
}

static void run_all(const options *o, tally *all) {
    job queue[64];
    int n = 0;
    for (uint64_t seed = o->first; seed <= o->last || n > 0;) {
        result r, second;
        for (; n < o->jobs && seed <= o->last; seed++) queue[n++] = start(seed);
        job j = queue[0];
        memmove(queue, queue + 1, (size_t)--n * sizeof *queue);
        finish(j, &r);
        count(all, &r);
        if (!o->again) continue;
        finish(start(r.seed), &second);
        if (second.hash == r.hash && strcmp(second.failure, r.failure) == 0) continue;
        printf("seed %llu: other runs of it differ\n", (unsigned long long)r.seed);
        all->failed++;
    }
}

/* A line of the list of what was found (found): seeds, machines, x2 for two processes on each,
 * +1 for a witness, faults. */
static bool run_found(options *o, tally *all) {
    char line[400], seeds[48];
    FILE *list = fopen(o->found, "r");
    bool fine = list != NULL;
    while (fine && fgets(line, sizeof line, list)) {
        int at = 0, more = 0, n_witnesses = 0;
        int64_t failed = all->failed;
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#' || !line[0]) continue;
        fine = sscanf(line, "%47s %d %n", seeds, &the_plan.machines, &at) == 2 && at &&
               parse_seeds(seeds, o);
        the_plan.shards = 0;
        if (fine && sscanf(line + at, "x%d %n", &the_plan.shards, &more) == 1) at += more;
        if (fine && sscanf(line + at, "+%d %n", &n_witnesses, &more) == 1) at += more;
        the_plan.witness = n_witnesses > 0;
        the_plan.faults = strcmp(line + at, "-") ? line + at : NULL; /* -: drawn */
        if (fine) run_all(o, all);
        if (!fine || all->failed > failed) printf("%s: %s\n", o->found, line);
    }
    if (list) fclose(list);
    return fine;
}

int main(int argc, char **argv) {
    options o = {.first = 1, .last = 100, .jobs = 1};
    tally all = {0};
    if (!parse(argc, argv, &o)) return usage();
    write_key();
    double begin_s = seconds();
    if (!o.found)
        run_all(&o, &all);
    else if (!run_found(&o, &all))
        return usage();
    double took_s = seconds() - begin_s;
    if (the_plan.follows) printf("%lld changes of form; ", (long long)all.changes);
    printf("%lld seeds, %lld failed; %lld steps, %.0f virtual seconds, %.1f million "
           "calls; %.1f s, "
           "%.0f seeds a minute; %016llx\n",
           (long long)all.n, (long long)all.failed, (long long)all.steps, all.virtual_s,
           (double)all.calls / 1e6, took_s, (double)all.n / took_s * 60,
           (unsigned long long)all.hash);
    return all.failed ? 1 : 0;
}
