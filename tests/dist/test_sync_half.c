/* SPDX-License-Identifier: MIT */
/* A program's own loop (weft/sync.h) in which one process begins a step, and another one was
 * interrupted while it prepared for that step, because a third was lost then. So the step is of
 * the world that was left. And one comes while a third is lost. Processes are forks that join by
 * TCP. */
#define _GNU_SOURCE
#include <weft/sync.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "comm/envelope.h"

enum {
    FOUNDERS = 4,
    COMES = 3,      /* the number of who comes to three others */
    FIRST_LOSS = 5, /* step in which number 3 is killed */
    AFTER = 5,      /* steps that are done after number 1 is lost */
    ELEMENTS = 40,
    PATIENCE_S = 60
};

static const weft_sync_tensor tensors[] = {
    {sizeof(weft_sync_tensor), "matrix", ELEMENTS, 1, true}};

/* Number 1 loses all that it sends to number 0 in a world after the first; what the membership
 * machines say does not count. Soon after it dies. */
static int cut_port; /* where number 0 listens; 0: nothing is cut */

static void die(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

static bool is_cut_off(int fd) {
    struct sockaddr_in to;
    socklen_t size = sizeof to;
    return cut_port && getpeername(fd, (struct sockaddr *)&to, &size) == 0 &&
           ntohs(to.sin_port) == cut_port;
}

/* Whether this is an envelope of a communicator of a later world. */
static bool is_later(const struct iovec *part) {
    wefti_envelope e;
    return part->iov_len >= WEFTI_ENVELOPE_BYTES &&
           wefti_envelope_decode(part->iov_base, (int64_t)part->iov_len, &e) &&
           e.channel >= 32 && e.channel < 0x8000;
}

/* In the place of the system's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static union {
        void *address;
        ssize_t (*call)(int, const struct msghdr *, int);
    } really;
    static bool lost;
    struct msghdr some = *message;
    ssize_t n = 0;
    if (!really.address) really.address = dlsym(RTLD_NEXT, "sendmsg");
    if (!is_cut_off(fd)) return really.call(fd, message, flags);
    for (size_t i = 0; i < message->msg_iovlen && !lost; i++) {
        lost = is_later(&message->msg_iov[i]);
        if (lost)
            some.msg_iovlen = i > 0 ? i - 1 : 0; /* nor the frame's head before it */
        if (!lost) continue;
        signal(SIGALRM, die);
        ualarm(700000, 0);
    }
    if (!lost) return really.call(fd, message, flags);
    if (some.msg_iovlen > 0 && some.msg_iovlen < message->msg_iovlen)
        (void)!really.call(fd, &some, flags);
    for (size_t i = 0; i < message->msg_iovlen; i++)
        n += (ssize_t)message->msg_iov[i].iov_len;
    return n;
}

typedef struct member {
    const char *const *keys;
    int number;
    bool comes; /* number 3: while the others train */
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
    _Atomic pid_t *victim; /* shared: who is killed while number 0 packs */
} member;

typedef struct places {
    int founders, port[FOUNDERS], listener[FOUNDERS];
} places;

static void wait_ms(int ms) {
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* Long enough for the other two to begin the step if they do not wait; one of them is lost. */
static const void *pack(void *user, size_t *n_bytes) {
    member *m = user;
    wait_ms(500);
    pid_t victim = m->victim ? atomic_exchange(m->victim, 0) : 0;
    if (victim > 0) kill(victim, SIGKILL);
    wait_ms(1000);
    *n_bytes = 1;
    return "x";
}

static bool unpack(void *user, const void *bytes, size_t n_bytes) {
    (void)user, (void)bytes;
    return n_bytes == 1;
}

static weft_status make(member *m, int founders) {
    char nodes[32];
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = tensors,
                             .n_tensors = 1,
                             .pack = pack,
                             .unpack = unpack,
                             .user = m,
                             .endless = true,
                             .elastic = true,
                             .writes = true};
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    for (int i = 0; m->keys[i]; i++)
        WEFT_TRY(weft_config_set(m->ctx, m->config, m->keys[i]));
    snprintf(nodes, sizeof nodes, "mesh.nodes=%d", m->comes ? 1 : founders);
    WEFT_TRY(weft_config_set(m->ctx, m->config, nodes));
    WEFT_TRY(weft_config_finish(m->ctx, m->config));
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    memset(weft_sync_parameters(m->s, 0), 0, ELEMENTS * sizeof(float));
    return weft_sync_begin(m->s);
}

/* Until some steps after one was lost. */
static weft_status train(member *m) {
    int64_t after = 0;
    bool lost = m->comes; /* before it has state nothing changes for it */
    while (after < AFTER) {
        weft_sync_report told = {.struct_size = sizeof told};
        for (int k = 0; k < ELEMENTS; k++)
            weft_sync_gradients(m->s, 0)[k] = weft_sync_parameters(m->s, 0)[k] -
                                              (float)(k + m->number);
        wait_ms(20);
        WEFT_TRY(weft_sync_open(m->s));
        const char *change = weft_sync_change(m->s);
        if (m->number == 3 && weft_sync_steps(m->s) == FIRST_LOSS) die(0);
        lost = lost || (change && strstr(change, "lost rank 1"));
        WEFT_TRY(weft_sync_step(m->s, 1, &told));
        after += lost;
    }
    return WEFT_OK;
}

static weft_status meet(member *m, const places *at) {
    const weft_mesh_place place = {.struct_size = sizeof place,
                                   .rank = m->number,
                                   .size = at->founders,
                                   .host = "127.0.0.1",
                                   .port = at->port[0],
                                   .listener = m->comes ? -1 : at->listener[m->number]};
    for (int r = 0; r < at->founders; r++)
        if (r != m->number) close(at->listener[r]);
    if (m->comes)
        return weft_mesh_enter(m->ctx, "127.0.0.1", at->port[0], 60, NULL, &m->mesh);
    return weft_mesh_join(m->ctx, &place, &m->mesh);
}

static void live(member m, const places *at, int tell) {
    weft_status status = weft_ctx_create(&m.ctx);
    if (status == WEFT_OK) status = meet(&m, at);
    if (status == WEFT_OK) status = make(&m, at->founders);
    if (status == WEFT_OK) status = train(&m);
    const char *said = status == WEFT_OK ? "" : weft_ctx_message(m.ctx);
    bool told = write(tell, said, strlen(said)) == (ssize_t)strlen(said);
    if (status != WEFT_OK && m.mesh) weft_mesh_fail(m.ctx, m.mesh, status);
    weft_sync_destroy(m.s);
    weft_config_destroy(m.ctx, m.config);
    (void)weft_mesh_close(m.mesh);
    weft_ctx_destroy(m.ctx);
    _exit(status == WEFT_OK && told ? 0 : 1);
}

typedef struct child {
    pid_t process;
    int pipe;
} child;

static child start(const member *who, const places *at) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that has failed */
        alarm(PATIENCE_S);                /* it hangs where it should not */
        if (who->number == 1 && at->founders == FOUNDERS) cut_port = at->port[0];
        live(*who, at, ends[1]);
    }
    close(ends[1]);
    return (child){process, ends[0]};
}

/* Ends with this code, and says these words; -1: it is killed. */
static void finish(child c, int number, int wanted, const char *words) {
    char said[1024] = "";
    int code;
    (void)!read(c.pipe, said, sizeof said - 1);
    assert_int_equal(waitpid(c.process, &code, 0), c.process);
    close(c.pipe);
    int found = WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code) == SIGKILL ? -1 : -2;
    if (found != wanted || !strstr(said, words))
        fail_msg("process %d ended with %d and said '%s', expected %d and '%s'", number,
                 found, said, wanted, words);
}

static void begin(member m, int founders, places *at, child *all) {
    weft_ctx *ctx;
    at->founders = founders;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int r = 0; r < founders; r++)
        assert_ok(ctx, weft_mesh_listen(ctx, &at->listener[r], &at->port[r]));
    for (m.number = 0; m.number < founders; m.number++) all[m.number] = start(&m, at);
    weft_ctx_destroy(ctx);
}

static void end(const places *at) {
    for (int r = 0; r < at->founders; r++) close(at->listener[r]);
}

static void run_cut(member m) {
    places at;
    child all[FOUNDERS];
    begin(m, FOUNDERS, &at, all);
    end(&at);
    finish(all[3], 3, -1, "");
    finish(all[1], 1, -1, "");
    finish(all[0], 0, 0, "");
    finish(all[2], 2, 0, "");
}

#define GOSSIP "method=dadam", "mixer.topology=complete", "optimizer.clip=0"

/* Number 2 has all terms of the world without number 3, and begins the step; number 0 lacks
 * that of number 1. It does the step as well, with what its mixer sends before. */
TEST(who_was_interrupted_does_the_step_prepared) {
    static const char *const gossip[] = {GOSSIP, NULL};
    static const char *const choco[] = {GOSSIP, "mixer.kind=choco", "mixer.values=int8",
                                        NULL};
    run_cut((member){.keys = gossip});
    run_cut((member){.keys = choco});
}

/* Number 0 packs for who comes, and number 2 does not begin the step before who comes has that,
 * too. Number 1 is killed meanwhile: who comes gets all again, and trains with the other two. */
TEST(half_a_state_is_forgotten) {
    static const char *const gossip[] = {GOSSIP, NULL};
    places at;
    child all[COMES + 1];
    member m = {.keys = gossip};
    m.victim = mmap(NULL, sizeof *m.victim, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(m.victim, MAP_FAILED);
    begin(m, COMES, &at, all);
    atomic_store(m.victim, all[1].process);
    wait_ms(500);
    m.number = COMES;
    m.comes = true;
    all[COMES] = start(&m, &at);
    end(&at);
    finish(all[1], 1, -1, "");
    finish(all[COMES], COMES, 0, "");
    finish(all[0], 0, 0, "");
    finish(all[2], 2, 0, "");
}
