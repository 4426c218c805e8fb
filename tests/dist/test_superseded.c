/* SPDX-License-Identifier: MIT */
/* A process comes into a run, and another is killed before the first step with it. So the world
 * that it came into is replaced by the next one, in which it may already have state. Processes
 * are forks that join by TCP; what is killed kills itself, at one place of the code. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "record/metrics.h"
#include "record/views.h"
#include "training.h"

enum { MOST = 3, REPLAY = MOST + 1, STEPS_AFTER = 5 };

typedef enum moment {
    NEVER,
    ALL_HAVE_STATE, /* it is about to begin the step */
    IN_THE_HANDOVER /* it has given nothing but its parameters */
} moment;

typedef struct plan {
    const char *const *keys;
    int founders, dies; /* the number of the one that is killed */
    moment when;
} plan;

typedef struct member {
    const plan *plan;
    moment dies;
    bool lost; /* it knows of the loss */
    int64_t steps_after;
    atomic_int steps; /* that it has begun */
} member;

static member me;

static void die(void) {
    const struct timespec others_wait = {0, 700000000};
    nanosleep(&others_wait, NULL);
    kill(getpid(), SIGKILL);
}

/* In the place of the library's: the giver computes it before it sends its first share. */
XXH64_hash_t XXH3_64bits_withSeed(const void *data, size_t n_bytes, XXH64_hash_t seed) {
    if (me.dies == IN_THE_HANDOVER && atomic_load(&me.steps) > 0) die();
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset_withSeed(state, seed);
    XXH3_64bits_update(state, data, n_bytes);
    XXH64_hash_t sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}

static void hear(void *user, const char *sentence) {
    member *m = user;
    if (m->dies == ALL_HAVE_STATE && strstr(sentence, "joined by")) die();
    m->lost = m->lost || strstr(sentence, "lost rank") == sentence;
}

static void count(void *user, const weft_step_record *record) {
    member *m = user;
    m->steps_after += m->lost;
}

static bool should_stop(void *user) {
    member *m = user;
    atomic_fetch_add(&m->steps, 1);
    return m->steps_after >= STEPS_AFTER;
}

typedef struct places {
    int port[MOST], listener[MOST];
} places;

static weft_status meet(weft_ctx *ctx, int number, const places *at, weft_mesh **mesh) {
    int founders = me.plan->founders;
    if (number == founders) {
        for (int r = 0; r < founders; r++) close(at->listener[r]);
        return weft_mesh_enter(ctx, "127.0.0.1", at->port[0], 60, NULL, mesh);
    }
    const weft_mesh_place place = {.struct_size = sizeof place,
                                   .rank = number,
                                   .size = founders,
                                   .host = "127.0.0.1",
                                   .port = at->port[0],
                                   .listener = at->listener[number]};
    for (int r = 0; r < founders; r++)
        if (r != number) close(at->listener[r]);
    return weft_mesh_join(ctx, &place, mesh);
}

static weft_status configure(weft_ctx *ctx, weft_mesh *mesh, weft_config **config) {
    char nodes[64];
    WEFT_TRY(weft_config_create(ctx, config));
    for (int i = 0; small_run[i]; i++)
        WEFT_TRY(weft_config_set(ctx, *config, small_run[i]));
    for (int i = 0; me.plan->keys[i]; i++)
        WEFT_TRY(weft_config_set(ctx, *config, me.plan->keys[i]));
    snprintf(nodes, sizeof nodes, "mesh.nodes=%d", me.plan->founders);
    WEFT_TRY(weft_config_set(ctx, *config, nodes));
    WEFT_TRY(weft_config_set(ctx, *config, "run.folder=run"));
    return weft_config_finish(ctx, *config);
}

/* The whole life of a process; a sentence of its failure goes into the pipe. */
static void live(const plan *p, int number, const places *at, int tell) {
    weft_ctx *ctx;
    weft_mesh *mesh = NULL;
    weft_config *config = NULL;
    weft_train_result result = {.struct_size = sizeof result};
    const weft_train_hooks hooks = {.struct_size = sizeof hooks,
                                    .user = &me,
                                    .on_step = count,
                                    .should_stop = should_stop,
                                    .on_change = hear};
    me = (member){.plan = p, .dies = number == p->dies ? p->when : NEVER};
    weft_status status = weft_ctx_create(&ctx);
    if (status == WEFT_OK) status = meet(ctx, number, at, &mesh);
    if (status == WEFT_OK) status = configure(ctx, mesh, &config);
    if (status == WEFT_OK) status = weft_train(ctx, mesh, config, false, &hooks, &result);
    const char *said = status == WEFT_OK ? "" : weft_ctx_message(ctx);
    bool told = write(tell, said, strlen(said)) == (ssize_t)strlen(said);
    weft_config_destroy(ctx, config);
    (void)weft_mesh_close(mesh);
    weft_ctx_destroy(ctx);
    _exit(status == WEFT_OK && told ? 0 : 1);
}

typedef struct child {
    pid_t process;
    int pipe;
} child;

/* number REPLAY: plays the run again, which needs threads, and no fork may come after them. */
static void replay(int tell) {
    weft_ctx *ctx;
    weft_replay_result found = {.struct_size = sizeof found};
    me = (member){.plan = NULL};
    weft_status status = weft_ctx_create(&ctx);
    if (status == WEFT_OK) status = weft_replay(ctx, "run", NULL, &found);
    const char *said = status == WEFT_OK ? "" : weft_ctx_message(ctx);
    bool told = write(tell, said, strlen(said)) == (ssize_t)strlen(said);
    bool compared = found.checkpoint >= STEPS_AFTER && found.compared >= 1;
    weft_ctx_destroy(ctx);
    _exit(status == WEFT_OK && told && compared ? 0 : 1);
}

static child start(const plan *p, int number, const places *at) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that has failed */
    if (process == 0 && number == REPLAY) replay(ends[1]);
    if (process == 0) live(p, number, at, ends[1]);
    close(ends[1]);
    return (child){process, ends[0]};
}

/* Ends as expected: exit code, or -1 for killed. */
static void finish(child c, int number, int wanted, char said[1024]) {
    int code;
    ssize_t n = read(c.pipe, said, 1023);
    said[n > 0 ? n : 0] = 0;
    assert_int_equal(waitpid(c.process, &code, 0), c.process);
    close(c.pipe);
    int found = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
    if (found != wanted)
        fail_msg("process %d ended with %d, expected %d: %s", number, found, wanted,
                 said);
}

static bool has_steps(int64_t n) {
    if (access("run/metrics.jsonl", F_OK) != 0) return false;
    weft_ctx *ctx;
    double *rows = NULL;
    int64_t n_rows = 0;
    static const char *const names[] = {"step", "loss"};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx,
              wefti_metrics_read(ctx, "run/metrics.jsonl", names, 2, &rows, &n_rows));
    wefti_free(ctx, rows);
    weft_ctx_destroy(ctx);
    return n_rows >= n;
}

/* Runs the plan; *said: what the one that joins says in the end. */
static void run(const plan *p, int joiner_ends, char said[1024]) {
    weft_ctx *ctx;
    places at;
    child all[MOST + 1];
    char unused[1024];
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_remove_tree(ctx, "run"));
    for (int r = 0; r < p->founders; r++)
        assert_ok(ctx, weft_mesh_listen(ctx, &at.listener[r], &at.port[r]));
    for (int r = 0; r < p->founders; r++) all[r] = start(p, r, &at);
    while (!has_steps(3)) usleep(10000);
    all[p->founders] = start(p, p->founders, &at);
    for (int r = 0; r < p->founders; r++) close(at.listener[r]);
    for (int r = 0; r < p->founders; r++)
        finish(all[r], r, r == p->dies ? -1 : 0, unused);
    finish(all[p->founders], p->founders, joiner_ends, said);
    finish(start(p, REPLAY, NULL), REPLAY, 0, unused);
    weft_ctx_destroy(ctx);
}

#define ENDLESS                                                                          \
    "run.steps=100000", "run.eval_every=0", "run.save_every=0", "mesh.join_steps=0"

/* The others, and who has come, wait for the killed one before the first step: at a comparison of
 * all. Shares of the state that it gave are in the run, and in a replay. */
TEST(who_gave_state_is_killed_before_the_step) {
    const char *const *const keys[] = {
        KEYS("method=flexdemo", "run.compare_every=1", ENDLESS),
        KEYS("method=hsdp", "run.compare_every=1", ENDLESS),
        KEYS("method=dadam", "run.compare_every=1", ENDLESS),
        KEYS("method=diloco", "mixer.outer_every=3", "run.compare_every=1", ENDLESS)};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char said[1024];
        const plan p = {
            .keys = keys[i], .founders = 2, .dies = 0, .when = ALL_HAVE_STATE};
        run(&p, 0, said);
    }
}

/* A world that took no step and gave no state leaves no line. */
static void assert_no_line(int64_t view) {
    weft_ctx *ctx;
    wefti_views views;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_views_read(ctx, "run/views.jsonl", &views));
    assert_true(views.n_views > 1);
    for (int64_t i = 0; i < views.n_views; i++)
        assert_int_not_equal(views.views[i].view, view);
    wefti_views_fini(ctx, &views);
    weft_ctx_destroy(ctx);
}

/* Nobody begins the step before who has come has everything, also where replicas differ and nothing
 * is compared: it gets its state again, and nothing of what it had is in that. */
TEST(half_a_state_is_forgotten) {
    const char *const *const keys[] = {
        KEYS("method=dadam", "run.compare_every=0", ENDLESS),
        KEYS("method=diloco", "mixer.outer_every=3", "run.compare_every=0", ENDLESS),
        KEYS("method=dadam", "run.compare_every=1", ENDLESS),
        KEYS("method=diloco", "mixer.outer_every=3", "run.compare_every=1", ENDLESS)};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char said[1024];
        const plan p = {
            .keys = keys[i], .founders = 2, .dies = 1, .when = IN_THE_HANDOVER};
        run(&p, 0, said);
        assert_no_line(2);
    }
}

int main(void) {
    weft_ctx *ctx; /* the text is there before anybody reads it */
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    write_text("text.txt", 20000);
    weft_ctx_destroy(ctx);
    return check_run(NULL, NULL);
}
