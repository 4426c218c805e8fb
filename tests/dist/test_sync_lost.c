/* SPDX-License-Identifier: MIT */
/* A program's own loop (weft/sync.h) whose processes are killed: the others go on, with the same
 * bits as each other, at the addresses that they were given, and with an average that is
 * theirs; and a new process takes a killed one's place, with the parameters, the state and what
 * the program keeps beside. Processes are forks that join by TCP; no thread is made before them. */
#include <weft/sync.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "loop/sync.h"

enum {
    TENSORS = 2,
    ELEMENTS = 12 * 10 + 7,
    MOST = 4,
    STEPS = 30,
    TOGETHER = 6,
    FORM_AT = 2
};

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[TENSORS] = {{TENSOR, "matrix", 12, 10, true},
                                                  {TENSOR, "vector", 7, 1, false}};

/* What the processes are to do. */
typedef struct plan {
    const char *const *keys; /* NULL-terminated */
    int size;
    int ends[MOST]; /* step in which each is killed; STEPS: it is not */
    bool leaves;    /* it ends its part and says farewell instead */
    bool returns;   /* another comes for the killed one; TOGETHER steps later all end */
    bool refused;   /* with other tensors, so that it is sent away */
    bool falls;     /* it is killed while it takes what the others have */
    int returns_to; /* the number of the process that it calls */
    bool outside, averages;
    bool
        follows; /* what crosses the wire may change; all who began are killed one by one, and
                     two come; the first of them is told that the wire has slowed */
    const char *form; /* that the first one asks for before step FORM_AT; NULL: none */
} plan;

/* What one of them says in the end. */
typedef struct report {
    float params[ELEMENTS], average[ELEMENTS];
    int first_processes, processes, rank, size;
    int64_t first_step, steps; /* done when it began, and in the end */
    int64_t beside;            /* what the program keeps beside: a number of its own */
    bool decided;              /* the form changed for what it was told */
    bool moved;                /* tensors no longer lie where they lay */
    char change[200], form[64];
} report;

typedef struct member {
    const plan *plan;
    int number;
    bool comes; /* it is not of those who began */
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
    float *at;
    report found;
} member;

static int64_t elements(int i) { return tensors[i].rows * tensors[i].cols; }

static void copy(member *m, float *to) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(i); k++)
            *to++ = weft_sync_parameters(m->s, i)[k];
}

static void compute(member *m, int64_t step) {
    for (int i = 0; i < TENSORS; i++) {
        const float *p = weft_sync_parameters(m->s, i);
        float *g = weft_sync_gradients(m->s, i);
        for (int64_t k = 0; k < elements(i); k++)
            g[k] = p[k] - sinf((float)(k + 3 * m->number + i)) +
                   0.1f * cosf((float)(k + step));
    }
}

static void descend(member *m) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(i); k++)
            weft_sync_parameters(m->s, i)[k] -= 0.05f * weft_sync_gradients(m->s, i)[k];
}

static weft_status finish(member *m, weft_sync_report *told) {
    bool moves;
    if (!m->plan->outside) return weft_sync_step(m->s, 1, told);
    WEFT_TRY(weft_sync_agree(m->s, 1, &moves));
    if (moves) descend(m);
    return weft_sync_mix(m->s, told);
}

/* Whether the run is over: where somebody returns, TOGETHER steps after it has. */
static bool is_over(const member *m, int64_t t, int64_t end, int64_t together) {
    return m->plan->returns ? together >= TOGETHER : t >= end;
}

/* A killed one dies when its gradients are on their way. */
static bool dies(const member *m, int64_t t, int64_t together, int joined) {
    const plan *p = m->plan;
    if (m->comes || p->ends[m->number] >= STEPS) return false;
    if (!p->follows || m->number == 0) return p->ends[m->number] == t;
    return joined == m->number && together == 2;
}

/* Whether those are there with whom it ends. */
static bool are_there(const member *m, int processes, int joined) {
    const plan *p = m->plan;
    if (!p->follows || !m->comes) return processes == p->size;
    return processes == 2 && (m->number == 1 || joined > 0);
}

static weft_status steps(member *m, int64_t end) {
    weft_sync_report told = {.struct_size = sizeof told, .processes = 0};
    int64_t first = weft_sync_steps(m->s), together = 0;
    int joined = 0;
    bool lost = m->comes;
    for (int64_t t = first; !is_over(m, t, end, together); t++) {
        if (m->plan->form && m->number == 0 && t == FORM_AT)
            WEFT_TRY(weft_sync_ask_form(m->s, m->plan->form));
        bool tells = m->plan->follows && m->comes && together == 1;
        for (int i = 0; i < 20 && tells; i++) wefti_sync_note_step(m->s, 0.1, 2, 0);
        compute(m, t);
        WEFT_TRY(weft_sync_ready(m->s, 1));
        if (dies(m, t, together, joined)) kill(getpid(), SIGKILL);
        WEFT_TRY(finish(m, &told));
        m->found.beside += t + 1;
        const char *change = weft_sync_change(m->s); /* of a return, too */
        lost = lost || change || told.processes < m->plan->size;
        if (change) together = 0; /* one may have fallen as another came */
        const char *why = weft_sync_form_change(m->s, NULL);
        m->found.decided |= why && strstr(why, ": a step takes 2.1 s, as on a wire of ");
        joined += change && strstr(change, "joined by");
        together = lost && are_there(m, told.processes, joined) ? together + 1 : 0;
        if (t == first) m->found.first_processes = told.processes;
        if (change) snprintf(m->found.change, sizeof m->found.change, "%.190s", change);
        if (!m->plan->averages) continue;
        WEFT_TRY(weft_sync_average(m->s));
        copy(m, m->found.average);
        WEFT_TRY(weft_sync_restore(m->s));
    }
    m->found.processes = told.processes;
    m->found.steps = weft_sync_steps(m->s);
    (void)weft_sync_form(m->s, m->found.form, sizeof m->found.form);
    return WEFT_OK;
}

static const void *pack(void *user, size_t *n_bytes) {
    const member *m = user;
    *n_bytes = sizeof m->found.beside;
    return &m->found.beside;
}

static bool unpack(void *user, const void *bytes, size_t n_bytes) {
    member *m = user;
    if (m->plan->falls) kill(getpid(), SIGKILL);
    if (n_bytes != sizeof m->found.beside) return false;
    memcpy(&m->found.beside, bytes, n_bytes);
    return true;
}

static weft_status make(member *m) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = tensors,
                             .n_tensors = m->comes && m->plan->refused ? 1 : TENSORS,
                             .pack = pack,
                             .unpack = unpack,
                             .user = m,
                             .endless = true,
                             .elastic = true,
                             .writes = true,
                             .outside = m->plan->outside};
    char nodes[32];
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    for (int i = 0; m->plan->keys[i]; i++)
        WEFT_TRY(weft_config_set(m->ctx, m->config, m->plan->keys[i]));
    snprintf(nodes, sizeof nodes, "mesh.nodes=%d", m->comes ? 1 : m->plan->size);
    WEFT_TRY(weft_config_set(m->ctx, m->config, nodes));
    WEFT_TRY(weft_config_finish(m->ctx, m->config));
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    m->at = weft_sync_parameters(m->s, 0);
    for (int i = 0; i < setup.n_tensors; i++)
        for (int64_t k = 0; k < elements(i); k++)
            weft_sync_parameters(m->s, i)[k] = m->comes ? NAN : cosf((float)(7 * k + i));
    const weft_sync_limits any = {.struct_size = sizeof any, .loss = 10};
    const char *why = NULL;
    if (m->plan->follows && !m->comes) WEFT_TRY(weft_sync_replan(m->s, &any, &why));
    assert_null(why);
    WEFT_TRY(weft_sync_begin(m->s));
    m->found.first_step = weft_sync_steps(m->s);
    return WEFT_OK;
}

static weft_status train(member *m) {
    int end = m->plan->leaves ? m->plan->ends[m->number] : STEPS;
    WEFT_TRY(make(m));
    if (!weft_sync_goes_on(m->s))
        return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "it does not go on");
    WEFT_TRY(steps(m, end));
    copy(m, m->found.params);
    m->found.moved = m->at != weft_sync_parameters(m->s, 0);
    m->found.rank = weft_sync_rank(m->s, &m->found.size);
    return WEFT_OK;
}

/* Where the processes listen. */
typedef struct places {
    int port[MOST], listener[MOST];
} places;

static weft_status meet(member *m, const places *at) {
    const weft_mesh_place place = {.struct_size = sizeof place,
                                   .rank = m->number,
                                   .size = m->plan->size,
                                   .host = "127.0.0.1",
                                   .port = at->port[0],
                                   .listener = at->listener[m->number]};
    for (int r = 0; r < m->plan->size && !m->comes; r++)
        if (r != m->number) close(at->listener[r]);
    if (m->comes)
        return weft_mesh_enter(m->ctx, "127.0.0.1", at->port[m->plan->returns_to], 60,
                               NULL, &m->mesh);
    return weft_mesh_join(m->ctx, &place, &m->mesh);
}

/* The whole life of a process. */
static void live(const plan *p, int number, bool comes, const places *at, int tell) {
    member m = {.plan = p, .number = number, .comes = comes};
    weft_status status = weft_ctx_create(&m.ctx);
    if (status == WEFT_OK) status = meet(&m, at);
    if (status == WEFT_OK) status = train(&m);
    if (status != WEFT_OK) {
        print_message("process %d: %s\n", number, weft_ctx_message(m.ctx));
        if (m.mesh) weft_mesh_fail(m.ctx, m.mesh, status);
    }
    bool told = status == WEFT_OK &&
                write(tell, &m.found, sizeof m.found) == (ssize_t)sizeof m.found;
    weft_sync_destroy(m.s);
    weft_config_destroy(m.ctx, m.config);
    (void)weft_mesh_close(m.mesh);
    weft_ctx_destroy(m.ctx);
    _exit(told ? 0 : 1);
}

typedef struct child {
    pid_t process;
    int pipe;
} child;

static child start(const plan *p, int number, bool comes, const places *at) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that has failed */
    if (process == 0) live(p, number, comes, at, ends[1]);
    close(ends[1]);
    return (child){process, ends[0]};
}

static void finish_child(child c, bool dies, int wanted, report *found) {
    int code;
    ssize_t n = read(c.pipe, found, sizeof *found);
    assert_int_equal(waitpid(c.process, &code, 0), c.process);
    close(c.pipe);
    assert_true(dies ? WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL
                     : WIFEXITED(code) && WEXITSTATUS(code) == wanted);
    assert_int_equal(n, dies || wanted ? 0 : (ssize_t)sizeof *found);
}

/* One after another: who returns has nobody to speak with before the killed one is dead. Nobody
 * else keeps a killed one's listener open: its machine has to refuse calls, or the others could
 * not tell it from one that is cut off. */
static void run(const plan *p, report found[MOST]) {
    weft_ctx *ctx;
    places at;
    child all[MOST];
    memset(found, 0, MOST * sizeof *found);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int r = 0; r < p->size; r++)
        assert_ok(ctx, weft_mesh_listen(ctx, &at.listener[r], &at.port[r]));
    for (int r = 0; r < p->size; r++) all[r] = start(p, r, false, &at);
    for (int r = 0; r < p->size; r++) close(at.listener[r]);
    for (int r = 0; r < p->size && p->returns; r++) {
        if (p->ends[r] >= STEPS) continue;
        finish_child(all[r], true, 0, &found[r]);
        if (p->follows && r == 2) break;
        if (p->refused || p->falls)
            finish_child(start(p, r, true, &at), p->falls, 1, &found[r]);
        plan friendly = *p;
        friendly.refused = friendly.falls = false;
        all[r] = start(&friendly, r, true, &at);
    }
    for (int r = 0; r < p->size - p->follows; r++) {
        bool dies = p->ends[r] < STEPS && !p->leaves && !p->returns;
        finish_child(all[r], dies, 0, &found[r]);
    }
    weft_ctx_destroy(ctx);
}

static const char *const ddp[] = {"method=ddp", "mesh.min_message=1", "optimizer.clip=0",
                                  NULL};
static const char *const demo[] = {"method=flexdemo", "replicator.compression_chunk=4",
                                   "replicator.compression_topk=2", "optimizer.clip=0",
                                   NULL};
static const char *const clipped[] = {"method=ddp", "optimizer.clip=0.5", NULL};
static const char *const ring[] = {"method=dadam", "mixer.topology=ring",
                                   "optimizer.clip=0", NULL};
static const char *const diloco[] = {"method=diloco", "mixer.outer_every=3",
                                     "optimizer.clip=0", NULL};

/* One of three is killed: the two others end alike. */
TEST(test_one_is_killed) {
    const plan plans[] = {{.keys = ddp},
                          {.keys = ddp, .outside = true},
                          {.keys = demo},
                          {.keys = clipped},
                          {.keys = diloco},
                          {.keys = ring, .averages = true},
                          {.keys = diloco, .outside = true, .averages = true}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        plan p = plans[i];
        report found[MOST];
        p.size = 3;
        memcpy(p.ends, (int[]){STEPS, 7, STEPS}, 3 * sizeof(int));
        run(&p, found);
        bool mixes = p.keys == ring || p.keys == diloco;
        if (!mixes)
            assert_memory_equal(found[0].params, found[2].params, sizeof found[0].params);
        assert_memory_equal(found[0].average, found[2].average, sizeof found[0].average);
        for (int r = 0; r < 3; r += 2) {
            assert_int_equal(found[r].first_processes, 3);
            assert_int_equal(found[r].processes, 2);
            assert_int_equal(found[r].size, 2);
            assert_int_equal(found[r].rank, r / 2);
            assert_false(found[r].moved);
            assert_non_null(strstr(found[r].change, "lost rank 1"));
        }
    }
}

/* Three of four, one after another: the last is alone. */
TEST(test_one_after_another) {
    const plan p = {.keys = demo, .size = 4, .ends = {3, STEPS, 9, 15}};
    report found[MOST];
    run(&p, found);
    assert_int_equal(found[1].processes, 1);
    assert_int_equal(found[1].rank, 0);
}

/* Who has fewer steps has done its last one as the others have, and is gone on without. */
TEST(test_one_ends_early) {
    const plan p = {.keys = ddp, .size = 3, .ends = {5, STEPS, STEPS}, .leaves = true};
    report found[MOST];
    run(&p, found);
    assert_int_equal(found[0].processes, 3);
    for (int r = 1; r < 3; r++) assert_int_equal(found[r].processes, 2);
    assert_memory_equal(found[1].params, found[2].params, sizeof found[1].params);
}

/* Who takes a killed one's place begins with the others' parameters, state and number of steps,
 * and ends like them. */
static void check_return(const plan *p) {
    report found[MOST];
    int gone = 0;
    run(p, found);
    while (p->ends[gone] >= STEPS) gone++;
    const report *came = &found[gone], *stayed = &found[(gone + 1) % p->size];
    bool mixes = p->keys == ring || p->keys == diloco;
    assert_int_equal(came->steps, stayed->steps);
    assert_true(came->first_step > p->ends[gone]);
    assert_int_equal(came->steps - came->first_step, TOGETHER);
    assert_int_equal(came->first_processes, p->size);
    assert_int_equal(stayed->processes, p->size);
    assert_int_equal(came->beside, stayed->steps * (stayed->steps + 1) / 2);
    assert_false(came->moved);
    assert_non_null(strstr(stayed->change, "joined by rank"));
    if (!mixes) assert_memory_equal(came->params, stayed->params, sizeof came->params);
    assert_memory_equal(came->average, stayed->average, sizeof came->average);
    assert_string_equal(came->form, stayed->form);
    if (p->form) assert_string_equal(came->form, "full sync int8");
}

TEST(test_one_returns) {
    const char *const *const keys[] = {ddp, demo, clipped, ring, diloco};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const plan p = {.keys = keys[i],
                        .size = 3,
                        .ends = {STEPS, 4, STEPS, STEPS},
                        .averages = keys[i] == ring || keys[i] == diloco,
                        .returns = true};
        check_return(&p);
    }
}

/* Who was alone meanwhile says in which form it exchanges, as several do. */
TEST(test_one_returns_to_a_changed_form) {
    for (int size = 2; size <= 3; size++) {
        const plan p = {.keys = ddp,
                        .size = size,
                        .ends = {STEPS, FORM_AT + 4, STEPS},
                        .form = "full int8",
                        .returns = true};
        check_return(&p);
    }
}

/* The first one, at whose address the others met: it comes by another's. */
TEST(test_the_first_returns) {
    const plan p = {.keys = demo,
                    .size = 2,
                    .ends = {5, STEPS, STEPS, STEPS},
                    .outside = true,
                    .returns = true,
                    .returns_to = 1};
    check_return(&p);
}

/* The first one decides what crosses the wire; also one that has come, and measured nothing. */
TEST(test_one_who_came_decides) {
    report found[MOST];
    const plan p = {.keys = ddp,
                    .size = 3,
                    .ends = {5, 0, 0},
                    .returns = true,
                    .returns_to = 2,
                    .outside = true, /* so that all average */
                    .follows = true};
    run(&p, found);
    assert_int_equal(found[0].rank, 0);
    assert_true(found[0].decided && !found[1].decided);
    assert_string_equal(found[0].form, found[1].form);
}

/* Who has other tensors is sent away, and the run goes on; then one comes that fits. */
TEST(test_a_stranger_is_sent_away) {
    const plan p = {.keys = ddp,
                    .size = 2,
                    .ends = {STEPS, 3, STEPS, STEPS},
                    .returns = true,
                    .refused = true};
    check_return(&p);
}

/* Who comes and is killed half-way is a loss like others, and the next one comes. */
TEST(test_one_falls_as_it_comes) {
    const char *const *const keys[] = {ddp, diloco};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const plan p = {.keys = keys[i],
                        .size = 3,
                        .ends = {STEPS, 4, STEPS, STEPS},
                        .averages = keys[i] == diloco,
                        .returns = true,
                        .falls = true};
        check_return(&p);
    }
}
