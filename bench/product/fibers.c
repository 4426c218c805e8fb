/* SPDX-License-Identifier: MIT */
/* Threads as fibers: one thread of the system runs all of them, one at a time. The scheduler draws
 * the next one of those that are ready, each time that one waits, and once in `preempt` calls of
 * the system. Time passes by a little with each call; when all wait, it jumps to what is due.
 *
 * A mutex or a condition is where the library has it: its first bytes are ours (locks.c). A fork
 * continues on the stack of its parent: whoever of the two runs has its image in place. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "world.h"

enum { STACK = 512 << 10, RED_ZONE = 128 };

world w;
static ucontext_t scheduler;
static int n_born;

/* --- numbers --- */

uint64_t draw(void) {
    uint64_t z = w.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t draw_between(int64_t least, int64_t most) {
    return least + (int64_t)(draw() % (uint64_t)(most - least + 1));
}

bool draw_one_in(int n) { return draw() % (uint64_t)n == 0; }

double draw_share(void) { return (double)(draw() >> 11) / 9007199254740992.0; }

void mix(uint64_t value) {
    w.hash = (w.hash ^ value) * 0x9e3779b97f4a7c15u;
    w.hash ^= w.hash >> 32;
}

void trace(const char *format, ...) {
    char text[1500];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (int i = 0; i < n && i < (int)sizeof text - 1; i++) mix((unsigned char)text[i]);
    if (!w.trace) return;
    fprintf(stderr, "%12.6f %-10s %s\n", (double)w.now_ns / 1e9,
            w.current ? w.current->owner->name : "", text);
}

void fail_world(const char *format, ...) {
    va_list list;
    w.over = true;
    w.due_ns = 0;
    if (w.failure[0]) return;
    va_start(list, format);
    vsnprintf(w.failure, sizeof w.failure, format, list);
    va_end(list);
    trace("FAILED: %s", w.failure);
}

/* --- what happens at a time --- */

typedef struct event {
    int64_t when_ns;
    int64_t number;
    void (*what)(void *);
    void *argument;
} event;

static event *heap;
static int n_heap, max_heap;
static int64_t n_events;

static bool is_before(const event *a, const event *b) {
    return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : a->number < b->number;
}

void at_time(int64_t when_ns, void (*what)(void *), void *argument) {
    if (n_heap == max_heap)
        heap = realloc(heap, (size_t)(max_heap = 2 * max_heap + 64) * sizeof *heap);
    event e = {when_ns, n_events++, what, argument};
    int i = n_heap++;
    for (; i > 0 && is_before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
    if (when_ns < w.due_ns) w.due_ns = when_ns;
}

static event take_event(void) {
    event first = heap[0], last = heap[--n_heap];
    int i = 0;
    for (int next; (next = 2 * i + 1) < n_heap; i = next) {
        if (next + 1 < n_heap && is_before(&heap[next + 1], &heap[next])) next++;
        if (!is_before(&heap[next], &last)) break;
        heap[i] = heap[next];
    }
    heap[i] = last;
    return first;
}

/* --- switching --- */

/* The bytes of a stack that are in use. */
static void keep_image(fiber *f) {
    fiber *of = f->lender ? f->lender : f;
    char *top = of->stack + STACK;
#if defined(__x86_64__)
    f->image_at = (char *)f->at.uc_mcontext.gregs[REG_RSP] - RED_ZONE;
#else
    f->image_at = (char *)f->at.uc_mcontext.sp - RED_ZONE;
#endif
    f->n_image = (size_t)(top - f->image_at);
    if (f->n_image > f->max_image)
        f->image = realloc(f->image, f->max_image = f->n_image + 4096);
    memcpy(f->image, f->image_at, f->n_image);
}

static void put_image(const fiber *f) { memcpy(f->image_at, f->image, f->n_image); }

static fiber *root(fiber *f) { return f->lender ? f->lender : f; }

/* Runs a fiber until it gives way. Called by the scheduler, on the stack of the program. */
static void resume(fiber *f) {
    bool lent = f->lender != NULL;
    if (lent) {
        if (f->lender->state != DONE && !f->lender->owner->dead) keep_image(f->lender);
        put_image(f);
    }
    w.current = f;
    errno = f->error;
    swapcontext(&scheduler, &f->at);
    f->error = errno;
    w.current = NULL;
    if (!lent) return;
    if (f->state != DONE && !f->owner->dead) keep_image(f);
    if (f->lender->state != DONE && !f->lender->owner->dead) put_image(f->lender);
}

static void give_way(void) {
    fiber *f = w.current;
    int error = errno;
    swapcontext(&f->at, &scheduler);
    errno = error;
}

static void end_fiber(fiber *f) {
    f->state = DONE;
    fiber_wake(f, true);
    swapcontext(&f->at, &scheduler);
}

static void begin_fiber(void) {
    fiber *f = w.current;
    f->result = f->main(f->argument);
    end_fiber(f);
}

static fiber *add_fiber(process *p) {
    fiber *f = calloc(1, sizeof *f);
    if (w.n_fibers == (int)(sizeof w.fibers / sizeof *w.fibers)) abort();
    f->id = ++n_born;
    f->owner = p;
    f->wake_ns = NEVER;
    w.fibers[w.n_fibers++] = f;
    return f;
}

fiber *fiber_new(process *p, void *(*run)(void *), void *argument) {
    fiber *f = add_fiber(p);
    f->main = run;
    f->argument = argument;
    f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED) abort();
    mprotect(f->stack, 4096, PROT_NONE);
    getcontext(&f->at);
    f->at.uc_stack.ss_sp = f->stack;
    f->at.uc_stack.ss_size = STACK;
    f->at.uc_link = NULL;
    makecontext(&f->at, begin_fiber, 0);
    return f;
}

/* --- waiting --- */

static void note_due(int64_t when_ns) {
    if (when_ns < w.due_ns) w.due_ns = when_ns;
}

bool fiber_wait(const void *on, int64_t until_ns) {
    fiber *f = w.current;
    f->state = WAITS;
    f->on = on;
    f->wake_ns = until_ns;
    f->timed_out = false;
    give_way();
    return !f->timed_out;
}

static void make_ready(fiber *f, bool timed_out) {
    f->state = READY;
    f->on = NULL;
    f->wake_ns = NEVER;
    f->timed_out = timed_out;
}

/* One of those that wait, drawn; or all. */
void fiber_wake(const void *on, bool all) {
    fiber *found = NULL;
    uint64_t n = 0;
    for (int i = 0; i < w.n_fibers; i++) {
        fiber *f = w.fibers[i];
        if (f->state != WAITS || f->on != on || f->owner->dead) continue;
        if (all)
            make_ready(f, false);
        else if (draw() % ++n == 0)
            found = f;
    }
    if (found) make_ready(found, false);
}

void fiber_sleep(int64_t ns) {
    int64_t until_ns = w.now_ns + ns;
    while (w.now_ns < until_ns) (void)fiber_wait(w.current, until_ns);
}

void point(void) {
    w.n_calls++;
    w.now_ns += 200 + (int64_t)(draw() & 1023);
    bool gives = w.now_ns >= w.due_ns || draw() % w.preempt == 0;
    if (!gives) return;
    if (draw_one_in(400)) w.current->held_ns = w.now_ns + draw_between(0, 30 * MS);
    give_way();
}

/* --- processes --- */

process *process_new(int at, const char *name, void *its_life, void *(*run)(void *)) {
    process *p = calloc(1, sizeof *p);
    p->id = 1000 + w.n_processes;
    p->host = at;
    p->life = its_life;
    snprintf(p->name, sizeof p->name, "%s", name);
    w.processes[w.n_processes++] = p;
    if (run) (void)fiber_new(p, run, its_life);
    return p;
}

void process_kill(process *p) {
    if (p->dead) return;
    p->dead = true;
    trace("process %s has ended", p->name);
    for (int i = 0; i < MAX_FILES; i++) {
        file *f = p->files[i];
        p->files[i] = NULL;
        if (f) file_close(f);
    }
    disk_forget(p);
    for (int i = 0; i < w.n_processes; i++) /* those who watch its life */
        for (int k = 0; k < MAX_FILES; k++) {
            file *f = w.processes[i]->files[k];
            if (f && f->kind == LIFE && f->subject == p) file_edge(f);
        }
    fiber_wake(p, true);
    if (w.current && w.current->owner == p) {
        w.current->state = DONE;
        swapcontext(&w.current->at, &scheduler);
    }
}

int fiber_fork(void) {
    fiber *parent = w.current;
    char name[sizeof parent->owner->name];
    snprintf(name, sizeof name, "%.20s'", parent->owner->name);
    process *p = process_new(parent->owner->host, name, NULL, NULL);
    p->guard = true;
    p->parent = parent->owner->id;
    memcpy(p->files, parent->owner->files, sizeof p->files);
    for (int i = 0; i < MAX_FILES; i++)
        if (p->files[i]) p->files[i]->refs++;
    fiber *child = add_fiber(p);
    child->lender = root(parent);
    getcontext(&child->at);
    if (w.current == child) return 0;
    keep_image(child);
    return p->id;
}

/* --- the scheduler --- */

static bool may_run(const fiber *f) {
    return f->state == READY && !f->owner->dead && f->owner->asleep_ns <= w.now_ns &&
           f->held_ns <= w.now_ns;
}

/* Forgets fibers that never run again, so that looking at all stays short. */
static void drop_dead(void) {
    int n = 0;
    for (int i = 0; i < w.n_fibers; i++)
        if (w.fibers[i]->state != DONE && !w.fibers[i]->owner->dead)
            w.fibers[n++] = w.fibers[i];
    w.n_fibers = n;
}

static fiber *choose(void) {
    fiber *found = NULL;
    uint64_t n = 0;
    bool stale = false;
    w.due_ns = n_heap > 0 ? heap[0].when_ns : NEVER;
    for (int i = 0; i < w.n_fibers; i++) {
        fiber *f = w.fibers[i];
        stale |= f->state == DONE || f->owner->dead;
        if (f->owner->dead) continue;
        if (f->state == WAITS && f->wake_ns <= w.now_ns) make_ready(f, true);
        if (f->state == WAITS) note_due(f->wake_ns);
        if (may_run(f)) {
            if (draw() % ++n == 0) found = f;
        } else if (f->state == READY) {
            int64_t when = f->owner->asleep_ns > f->held_ns ? f->owner->asleep_ns
                                                            : f->held_ns;
            note_due(when);
        }
    }
    if (stale) drop_dead();
    return found;
}

void world_run(void) {
    while (!w.over) {
        while (n_heap > 0 && heap[0].when_ns <= w.now_ns && !w.over) {
            event e = take_event();
            e.what(e.argument);
        }
        if (w.over) break;
        fiber *f = choose();
        if (f) {
            w.n_switches++;
            mix((uint64_t)f->id << 40 ^ (uint64_t)w.now_ns);
            resume(f);
            continue;
        }
        if (w.due_ns == NEVER) {
            fail_world("all threads wait, and nothing is due");
            break;
        }
        if (w.due_ns > w.now_ns) w.now_ns = w.due_ns;
        if (w.now_ns > w.end_ns) fail_world("the world does not end");
    }
}
