/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <ucontext.h>

#include <weft/config.h>

/* A world of simulated machines, processes and threads in one thread of the system. The library
 * that ships runs in it: the linker sends its calls of the system to calls.c (--wrap).
 *
 *     fibers.c   threads, mutexes and conditions, processes, virtual time; one runs at a time
 *     wire.c     sockets and the network between machines
 *     calls.c    the calls of the system, over both
 *     disk.c     files: a disk that is full, slow, without power
 *     plan.c     what a seed draws: shape, timers, faults
 *     life.c     what each process does: join, train, come back
 *     run.c      a process of `weft train`, with its folder
 *     checks.c   what has to hold
 *
 * Everything that is drawn comes from one generator; so the seed decides every instruction. Nothing
 * is freed: each seed runs in a process of its own. */

enum {
    MAX_HOSTS = 8,
    MOST_TENSORS = 3,
    MAX_FILES = 512,  /* of a process */
    FIRST_FILE = 4096 /* real descriptors are below */
};
static const int64_t MS = 1000000, SECOND = 1000000000, NEVER = INT64_MAX;

typedef struct process process;
typedef struct fiber fiber;
typedef struct file file;

/* --- fibers.c --- */

typedef enum { READY, WAITS, DONE } fiber_state;

struct fiber {
    int id;
    process *owner;
    fiber_state state;
    const void *on;  /* a mutex, condition, fiber, process; a host: its files */
    int64_t wake_ns; /* NEVER: no deadline */
    int64_t held_ns; /* not chosen before */
    bool timed_out;
    int error; /* its errno */
    void *(*main)(void *);
    void *argument, *result;
    ucontext_t at;
    char *stack;
    fiber *lender; /* a forked one runs on the stack of the one that forked */
    char *image;   /* of the stack, while another one of the same stack runs */
    size_t n_image, max_image;
    char *image_at;
};

struct process {
    int id, host, code;
    int64_t asleep_ns; /* suspended until then */
    bool dead, guard;
    int parent; /* of a guard */
    int doom;   /* calls to its disk until it dies; 0: it does not */
    file *files[MAX_FILES];
    void *life; /* of life.c; NULL: a fork */
    char name[24];
};

typedef struct world {
    uint64_t seed, random, hash;
    int64_t now_ns, due_ns, end_ns;
    fiber *current;
    fiber *fibers[4096];
    process *processes[1024];
    int n_fibers, n_processes, n_alive;
    int64_t n_calls, n_switches;
    unsigned preempt; /* one call in so many gives way */
    bool trace, over;
    char failure[4096];
} world;
extern world w;

uint64_t draw(void);
int64_t draw_between(int64_t least, int64_t most);
bool draw_one_in(int n);
double draw_share(void);
void mix(uint64_t value);
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The seed has failed: keeps the first sentence, and ends the world. */
void fail_world(const char *format, ...) __attribute__((format(printf, 1, 2)));

process *process_new(int host, const char *name, void *life, void *(*run)(void *));
void process_kill(process *p); /* also the current one; then it does not return */
fiber *fiber_new(process *p, void *(*run)(void *), void *argument);
/* Waits; false: the time has come. */
bool fiber_wait(const void *on, int64_t until_ns);
void fiber_wake(const void *on, bool all);
void fiber_sleep(int64_t ns);
int fiber_fork(void); /* 0 in the child */
void point(void);     /* a call of the system: time passes, and another one may run */
/* Calls what(argument) at that time, outside of all fibers. */
void at_time(int64_t when_ns, void (*what)(void *), void *argument);
void world_run(void);

/* --- wire.c --- */

typedef enum { UNUSED, STREAM, LISTENER, ENDPOINT, EVENT, EPOLL, LIFE } file_kind;
typedef enum { FRESH, CALLING, OPEN, BROKEN } stream_state;

typedef struct parcel {
    struct parcel *next;
    int64_t arrive_ns, sent_ns;
    int n, at; /* bytes; at: in the buffer of the receiver */
    char kind; /* 'd' data, 'f' end, 'r' reset, 's' call, 'a' accepted, 'n' refused */
    char bytes[];
} parcel;

typedef struct interest {
    struct interest *next;
    file *of, *set;
    uint32_t events;
    uint64_t data;
    int64_t seen;
} interest;

struct file {
    file_kind kind;
    int refs, host, port, number;
    int epoch;     /* boots of the host */
    int64_t edges; /* changes so far */
    bool nonblocking, v6;
    /* STREAM */
    stream_state state;
    file *peer;
    int peer_host, peer_port, local_port;
    char *in;
    int n_in, first_in, max_in, lowat, error;
    int flying, unconfirmed;    /* on the way to us; what we sent, until it has arrived */
    bool ended, ending, closed; /* by the peer, by us; nobody has it */
    parcel *first, *last;       /* on the way to us */
    bool pumped;
    int64_t last_ns, tries, n_sent;
    /* LISTENER, ENDPOINT */
    file *queue[64];
    int n_queue;
    /* EVENT */
    uint64_t count;
    /* EPOLL */
    interest *interests;
    /* LIFE */
    process *subject;
};

typedef struct host {
    bool off;
    int epoch;                   /* boots */
    int64_t latency_ns, free_ns; /* free: when its interface has sent all */
    double byte_ns;
    char name[16];
} host;

/* From one host to another. */
typedef struct link {
    int64_t cut_ns;    /* loses everything until then */
    int64_t refuse_ns; /* refuses calls until then */
    int64_t slow_ns;   /* delays everything until then, by */
    int64_t delay_ns;
} link_state;

extern host hosts[MAX_HOSTS + 1]; /* from 1 on */
extern link_state links[MAX_HOSTS + 1][MAX_HOSTS + 1];
extern bool wire_loses, wire_secret;

file *file_new(file_kind kind, int host);
void file_edge(file *f);
uint32_t file_mask(const file *f);
void file_close(file *f);
int stream_call(file *f, int to, int port);
int door_call(file *f, int number);
ssize_t stream_send(file *f, const void *bytes, size_t n);
ssize_t stream_receive(file *f, void *bytes, size_t n, bool peek);
void stream_shut(file *f);
file *listener_at(int host, int port);
file *door_at(int host, int number);
void reset_between(int a, int b); /* forged resets on all connections */
void host_off(int h);
void host_on(int h);

/* --- disk.c --- */

void disk_begin(void);
int disk_of(int host);
void disk_fills(int host, int64_t until_ns);
void disk_slows(int host, int64_t until_ns);
void disk_loses_power(int host);
void disk_forget(const process *p); /* it has died */
int disk_open(const char *path, int flags, mode_t mode);
int disk_close(int fd);
ssize_t disk_write(int fd, const void *bytes, size_t n);
ssize_t disk_read(int fd, void *bytes, size_t n);
int disk_lock(int fd, int command, void *argument);

/* --- plan.c, life.c, run.c, checks.c --- */

typedef struct method {
    const char *name;
    const char *keys[6];
    bool equal; /* replicas are equal after each step */
} method;

typedef struct plan {
    int n, n_spare; /* machines of founders */
    int shards;     /* processes of a machine, which share a copy of the model */
    const method *method;
    bool tls, early; /* early: faults from the first instant on */
    bool ends; /* at a time that is given, and whoever is left behind has to end, too */
    bool mild; /* a quorum and somebody who has the state stay */
    int kept;  /* a process that is not killed, in a mild one */
    bool witness; /* on the last machine, in one seed of eight */
    bool bare;    /* who comes is told machines, not ports */
    double silence_s, pause_s;
    int join_steps;
    int64_t compute_ns, heal_ns, bound_ns;
    const char *key;      /* file */
    bool train;           /* processes of weft train */
    int tensors;          /* of the model */
    bool follows;         /* what crosses the wire changes (method=auto) */
    bool shared;          /* which share a folder; else each machine has its own */
    bool lockless;        /* that folder knows no locks */
    int save_every, keep; /* checkpoints */
    int machines;         /* given; 0: drawn */
    const char *faults;   /* given; NULL: drawn */
} plan;
extern plan the_plan;

/* What a process did in a step. */
typedef struct step_record {
    int64_t step, view;
    int size, shard;
    uint64_t sum;
    int64_t form; /* of what crossed the wire (job/form.h); 0: as configured */
    bool equal;   /* replicas are, after it */
    const char *by;
} step_record;

enum { MOST_PENDING = 64, MOST_SHARDS = 4 };
typedef struct life {
    process *process;
    int number, host, turn; /* turn: processes at this host before */
    int seat, shard;        /* which of its machine's; which part of the copy it has */
    bool joins;
    char from[400]; /* where it joins */
    int64_t steps, view, first_step;
    int64_t newest; /* view that it knows; view: the one of its steps */
    int size;       /* of its world at its last step */
    struct weft_mesh *mesh;
    double pace;
    uint64_t sum;
    bool training, done; /* in the loop; it has ended well */
    bool other;          /* its model is another one: it must be refused */
    bool ended, unseen;  /* unseen: nobody reports its end */
    int64_t beside, ended_ns, stepped_ns;
    char why[1200];                    /* it ended with */
    step_record pending[MOST_PENDING]; /* not stable yet */
    int n_pending;
} life;
extern life *lives[256];
extern int n_lives;

/* A process dies in a call to its disk. */
bool life_may_die(const life *l);
void life_dies(life *l);

void plan_draw(void);
void plan_schedule(void);
void witness_begin(void);
life *life_begin(int host, bool joins, int64_t after_ns);
void machine_begin(int host, bool joins, int64_t after_ns); /* all its processes */
bool run_is_over(void);

void check_step(life *l, const step_record *done, int64_t window);
void check_end(life *l, uint64_t average, bool mean);
void check_error(life *l, const char *why);
void check_schedule(void);
extern int64_t goal_step;             /* the run's last one; 0: not known yet */
extern int64_t all_steps, n_changes;  /* n_changes: of forms */
bool end_is_known(void);              /* somebody has ended well */
int64_t committed_view(int64_t step); /* 0: not all have done it */
int64_t newest_commit(void);

/* run.c */

void run_keys(char (*out)[48], int *n);
int run_log_every(void);
void run_write_text(void);
weft_status run_train(life *l, weft_ctx *ctx, weft_config *config);

/* kept.c: the folders of runs */
void kept_saved(int host, int64_t step);
void kept_ended(int host, int64_t step);
void kept_power(int host);
void kept_full(int host);
void kept_look(void);
void kept_judge(void);
