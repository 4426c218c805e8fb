/* SPDX-License-Identifier: MIT */
/* What a process of the world does: a loop of its own around the library (weft/sync.h), as a user
 * writes it. A founder joins the others, a later one enters the run. When it is left behind it
 * comes back; when it ends with an error it is started again, as a supervisor does, as long as
 * the run trains. */
#include <weft/sync.h>
#include <weft/witness.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "job/form.h"
#include "loop/sync.h"
#include "world.h"

enum { TENSORS = MOST_TENSORS, PORT = 29500 };

life *lives[256];
int n_lives;

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[TENSORS] = {{TENSOR, "matrix", 12, 10, true},
                                                  {TENSOR, "vector", 7, 1, false},
                                                  {TENSOR, "large", 20, 16, true}};

typedef struct member {
    life *l;
    weft_sync_tensor rows[TENSORS]; /* of this process, where several share a copy */
    int64_t first[TENSORS];         /* element, in the whole tensor */
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
} member;

/* What this process has of each tensor. The first one of a copy has the vector whole. */
static void cut(member *m, int shard) {
    int S = the_plan.shards;
    m->l->shard = shard;
    for (int i = 0; i < TENSORS; i++) {
        weft_sync_tensor *t = &m->rows[i];
        *t = tensors[i];
        int64_t first = t->cols > 1 || shard == 0 ? t->rows * shard / S : t->rows;
        int64_t end = t->cols > 1 ? t->rows * (shard + 1) / S : t->rows;
        m->first[i] = first * t->cols;
        t->rows = end - first;
    }
}

static int64_t elements(const member *m, int i) {
    return m->rows[i].rows * m->rows[i].cols;
}

static void log_line(void *user, weft_log_level level, const char *line) {
    (void)user;
    (void)level;
    trace("says: %s", line);
}

static uint64_t sum_of(const member *m) {
    uint64_t sum = 0;
    for (int i = 0; i < the_plan.tensors; i++)
        sum = XXH3_64bits_withSeed(weft_sync_parameters(m->s, i),
                                   (size_t)elements(m, i) * sizeof(float), sum);
    return sum;
}

static void compute(const member *m, int i, int64_t step) {
    const float *p = weft_sync_parameters(m->s, i);
    float *g = weft_sync_gradients(m->s, i);
    for (int64_t k = 0; k < elements(m, i); k++) {
        int64_t e = m->first[i] + k;
        g[k] = p[k] - sinf((float)(e + 3 * (m->l->number / the_plan.shards) + i)) +
               0.1f * cosf((float)(e + step));
    }
}

static const void *pack(void *user, size_t *n_bytes) {
    const member *m = user;
    *n_bytes = sizeof m->l->beside;
    return &m->l->beside;
}

static bool unpack(void *user, const void *bytes, size_t n_bytes) {
    member *m = user;
    if (n_bytes != sizeof m->l->beside) return false;
    memcpy(&m->l->beside, bytes, n_bytes);
    return true;
}

/* The linker sends here who enters a world, so that the trace shows it. */
void __real_wefti_elastic_enter(weft_mesh *, wefti_elastic_world *);
void __wrap_wefti_elastic_enter(weft_mesh *, wefti_elastic_world *);
void __wrap_wefti_elastic_enter(weft_mesh *mesh, wefti_elastic_world *out) {
    __real_wefti_elastic_enter(mesh, out);
    life *l = w.current->owner->life;
    l->view = l->newest = mesh->elastic->world.entered;
    l->size = out->size;
    trace("enters view %lld with step %lld, as %d of %d",
          (long long)mesh->elastic->world.entered, (long long)out->first_step + 1,
          out->rank, out->size);
}

/* --- what crosses the wire --- */

/* A seed asks for more changes than the plan, and for some that are refused. */
static void ask(member *m) {
    static const char *const forms[] = {
        "full f32",        "full bf16",        "full int8",       "full int4",
        "outer f32 3 0.4", "outer int8 3 0.4", "outer int4 5 0.2"};
    int size;
    uint64_t n = sizeof forms / sizeof *forms;
    if (!weft_sync_follows(m->s) || weft_sync_rank(m->s, &size) != 0) return;
    if (!draw_one_in(12)) return;
    if (weft_sync_ask_form(m->s, forms[draw() % n])) weft_ctx_clear(m->ctx);
}

/* Where all gradients are averaged they are equal, also behind outer steps. */
static void add_moments(const member *m, uint64_t *sum) {
    for (int i = 0; i < the_plan.tensors; i++) {
        const char *name;
        const float *x;
        for (int k = 1; (x = weft_sync_state(m->s, k, i, &name)) != NULL; k++)
            if (strncmp(name, "optimizer.", strlen("optimizer.")) == 0)
                *sum = XXH3_64bits_withSeed(x, (size_t)elements(m, i) * sizeof *x, *sum);
    }
}

static void note_form(const member *m, step_record *done) {
    wefti_form form;
    const char *change = weft_sync_form_change(m->s, NULL);
    done->equal = the_plan.method->equal;
    if (change) trace("says: %s", change);
    n_changes += change != NULL;
    if (!the_plan.follows || wefti_form_of(m->s->job->config, &form)) return;
    done->form = wefti_form_code(&form);
    done->equal = !form.outer || done->step % form.every == 0;
    if (!form.outer) add_moments(m, &done->sum);
}

static weft_status may_change(member *m) {
    const char *why;
    const weft_sync_limits limits = {
        .struct_size = sizeof limits, .loss = 10, .measure_s = 1};
    if (!the_plan.follows || m->l->joins) return WEFT_OK;
    WEFT_TRY(weft_sync_replan(m->s, &limits, &why));
    if (why) fail_world("%s never changes: %s", m->l->process->name, why);
    return WEFT_OK;
}

/* --- the loop --- */

static weft_status one_step(member *m) {
    life *l = m->l;
    weft_sync_report told = {.struct_size = sizeof told};
    int64_t step = weft_sync_steps(m->s);
    int size, rank;
    if (the_plan.follows) ask(m);
    for (int i = the_plan.tensors - 1; i >= 0; i--) {
        fiber_sleep((int64_t)((double)the_plan.compute_ns * m->l->pace *
                              (0.8 + 0.4 * draw_share()) / the_plan.tensors));
        compute(m, i, step);
        WEFT_TRY(weft_sync_ready(m->s, i));
    }
    WEFT_TRY(weft_sync_step(m->s, 1, &told));
    l->beside += step + 1;
    l->steps = weft_sync_steps(m->s);
    l->stepped_ns = w.now_ns;
    rank = weft_sync_rank(m->s, &size);
    if (rank % the_plan.shards != l->shard)
        fail_world("%s has part %d of a copy, and has become rank %d", l->process->name,
                   l->shard, rank);
    const wefti_elastic *e = m->mesh->elastic;
    l->view = e->world.entered;
    l->size = size;
    const char *change = weft_sync_change(m->s);
    if (change) trace("step %lld: %s", (long long)l->steps, change);
    step_record done = {.step = l->steps,
                        .view = l->view,
                        .size = size,
                        .shard = l->shard,
                        .sum = sum_of(m),
                        .by = l->process->name};
    note_form(m, &done);
    check_step(l, &done, e->limits.window);
    return WEFT_OK;
}

static weft_status train(member *m) {
    life *l = m->l;
    l->training = true;
    l->n_pending = 0;
    l->steps = l->first_step = weft_sync_steps(m->s);
    while (goal_step == 0 || weft_sync_steps(m->s) < goal_step) WEFT_TRY(one_step(m));
    l->training = false;
    l->newest = m->mesh->elastic->view.number;
    bool mean = !the_plan.method->equal;
    if (mean) WEFT_TRY(weft_sync_average(m->s));
    check_end(l, sum_of(m), mean);
    return WEFT_OK;
}

static weft_status set_keys(member *m) {
    const char *const *keys = the_plan.method->keys;
    char text[32][48];
    int n = 7 + the_plan.witness;
    snprintf(text[0], sizeof *text, "mesh.nodes=%d",
             m->l->joins && !the_plan.train ? 1 : the_plan.n);
    snprintf(text[1], sizeof *text, "elastic.silence=%.3f", the_plan.silence_s);
    snprintf(text[2], sizeof *text, "elastic.pause=%.3f", the_plan.pause_s);
    snprintf(text[3], sizeof *text, "mesh.join_steps=%d", the_plan.join_steps);
    snprintf(text[4], sizeof *text, "mesh.threads=1");
    snprintf(text[5], sizeof *text, "optimizer.clip=0");
    snprintf(text[6], sizeof *text, "mesh.ranks_per_node=%d", the_plan.shards);
    snprintf(text[7], sizeof *text, "elastic.witness=10.0.0.%d", MAX_HOSTS);
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    for (int i = 0; keys[i]; i++) {
        bool ddp = strcmp(keys[i], "method=ddp") == 0; /* it shards nothing */
        const char *key = ddp && the_plan.shards > 1 ? "method=hsdp" : keys[i];
        WEFT_TRY(weft_config_set(m->ctx, m->config, key));
    }
    bool rows = the_plan.shards > 1 && !the_plan.train; /* muon needs whole matrices */
    if (rows && strcmp(the_plan.method->name, "muloco") == 0)
        WEFT_TRY(weft_config_set(m->ctx, m->config, "optimizer.kind=adamw"));
    if (the_plan.train) run_keys(text, &n);
    for (int i = 0; i < n; i++) WEFT_TRY(weft_config_set(m->ctx, m->config, text[i]));
    return weft_config_finish(m->ctx, m->config);
}

static weft_status make(member *m) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = m->rows,
                             .n_tensors = the_plan.tensors - m->l->other,
                             .pack = pack,
                             .unpack = unpack,
                             .user = m,
                             .endless = true,
                             .sharded = the_plan.shards > 1,
                             .elastic = true,
                             .writes = true};
    WEFT_TRY(set_keys(m));
    cut(m, weft_mesh_look(m->mesh)->rank % the_plan.shards);
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    for (int i = 0; i < the_plan.tensors - m->l->other; i++)
        for (int64_t k = 0; k < elements(m, i); k++)
            weft_sync_parameters(m->s, i)[k] =
                m->l->joins ? NAN : cosf((float)(7 * (m->first[i] + k) + i));
    WEFT_TRY(may_change(m));
    WEFT_TRY(weft_sync_begin(m->s));
    if (weft_sync_goes_on(m->s)) return WEFT_OK;
    return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "it does not go on");
}

static weft_status meet(member *m) {
    const weft_mesh_security security = {.struct_size = sizeof security,
                                         .key = the_plan.tls ? the_plan.key : NULL,
                                         .plain = !the_plan.tls,
                                         .run = "product"};
    weft_mesh_place place = {.struct_size = sizeof place,
                             .rank = m->l->number,
                             .size = the_plan.n * the_plan.shards,
                             .host = "10.0.0.1",
                             .port = PORT,
                             .patience = 60,
                             .security = &security};
    if (m->l->joins)
        return weft_mesh_enter(m->ctx, m->l->from, the_plan.bare ? 0 : PORT, 60,
                               &security, &m->mesh);
    WEFT_TRY(weft_mesh_listen_at(m->ctx, PORT + m->l->seat, &place.listener));
    return weft_mesh_join(m->ctx, &place, &m->mesh);
}

/* One part in the run; [out] back: whether it may come back, and where. */
static weft_status take_part(life *l, bool *back) {
    member m = {.l = l};
    l->pace = 1 + 0.3 * draw_share();
    weft_status status = weft_ctx_create(&m.ctx);
    *back = false;
    weft_ctx_set_sink(m.ctx, log_line, NULL);
    l->beside = 0;
    if (status == WEFT_OK) status = meet(&m);
    if (status == WEFT_OK && !m.mesh)
        status = weft_ctx_fail(m.ctx, WEFT_ERR_INTERNAL, "there is no mesh");
    l->mesh = m.mesh;
    if (status == WEFT_OK && the_plan.train) {
        status = set_keys(&m);
        if (status == WEFT_OK) status = run_train(l, m.ctx, m.config);
    } else if (status == WEFT_OK) {
        status = make(&m);
        if (status == WEFT_OK) status = train(&m);
    }
    l->training = false;
    if (status != WEFT_OK) {
        if (m.mesh) (void)weft_mesh_fail(m.ctx, m.mesh, status);
        snprintf(l->why, sizeof l->why, "%s", weft_ctx_message(m.ctx));
        trace("ends: %s", l->why);
        *back = m.mesh && weft_mesh_way_back(m.mesh, l->from, sizeof l->from);
        check_error(l, l->why);
    }
    weft_sync_destroy(m.s);
    weft_config_destroy(m.ctx, m.config);
    (void)weft_mesh_close(m.mesh);
    if (weft_ctx_bytes_held(m.ctx) != 0)
        fail_world("%s ends and still holds %lld bytes", l->process->name,
                   (long long)weft_ctx_bytes_held(m.ctx));
    weft_ctx_destroy(m.ctx);
    return status;
}

/* --- the witness --- */

/* Its file is a real one, which has no name any more when the witness begins. */
static void *be_witness(void *argument) {
    weft_ctx *ctx;
    weft_witness *witness;
    char votes[] = "/tmp/product-votes-XXXXXX";
    const weft_mesh_security security = {.struct_size = sizeof security,
                                         .key = the_plan.tls ? the_plan.key : NULL,
                                         .plain = !the_plan.tls,
                                         .run = "product"};
    const weft_witness_setup setup = {
        .struct_size = sizeof setup, .votes = votes, .security = &security};
    (void)argument;
    close(mkstemp(votes));
    weft_status status = weft_ctx_create(&ctx);
    if (status == WEFT_OK) weft_ctx_set_sink(ctx, log_line, NULL);
    if (status == WEFT_OK) status = weft_witness_open(ctx, &setup, &witness);
    unlink(votes);
    while (status == WEFT_OK) status = weft_witness_serve(ctx, witness, 60);
    fail_world("the witness ends: %s", weft_ctx_message(ctx));
    return NULL;
}

void witness_begin(void) { (void)process_new(MAX_HOSTS, "w", NULL, be_witness); }

static void start_again(void *argument) {
    const life *l = argument;
    if (goal_step == 0 && !hosts[l->host].off) (void)life_begin(l->host, true, 0);
}

static void *live(void *argument) {
    life *l = argument;
    bool back = true;
    weft_status status = WEFT_ERR_PEER;
    for (int64_t pause_ns = SECOND; back; pause_ns *= 2) {
        status = take_part(l, &back);
        if (status == WEFT_OK || goal_step > 0) break;
        if (back) fiber_sleep(pause_ns < 8 * SECOND ? pause_ns : 8 * SECOND);
        l->joins = l->joins || back;
    }
    l->ended = true;
    l->ended_ns = w.now_ns;
    l->done = status == WEFT_OK;
    trace("%s", l->done ? "has done all steps" : "has ended");
    if (!l->done && goal_step == 0)
        at_time(w.now_ns + draw_between(100, 3000) * MS, start_again, l);
    process_kill(l->process);
    return NULL;
}

static void begin_life(void *argument) {
    life *l = argument;
    char name[24];
    int n = 0;
    for (int i = 0; i < n_lives; i++)
        n += lives[i]->host == l->host && lives[i]->process && !lives[i]->ended;
    bool surplus = the_plan.shards > 1 && n >= the_plan.shards;
    if (hosts[l->host].off || surplus) {
        l->ended = true;
        return;
    }
    snprintf(name, sizeof name, "%d%c", l->host, 'a' + l->turn % 26);
    l->process = process_new(l->host, name, l, live);
    trace("%s starts%s", name, l->joins ? " to join" : "");
}

/* Where somebody who comes later may call: the machines of the run, its own last. */
static void name_doors(life *l) {
    size_t n = 0;
    int last = the_plan.bare ? PORT : PORT + the_plan.shards;
    for (int k = 1; k <= the_plan.n; k++)
        for (int port = PORT; port <= last; port++) {
            int h = (l->host + k - 1) % the_plan.n + 1;
            n += (size_t)snprintf(l->from + n, sizeof l->from - n, "%s10.0.0.%d",
                                  n ? "," : "", h);
            if (!the_plan.bare)
                n += (size_t)snprintf(l->from + n, sizeof l->from - n, ":%d", port);
        }
}

life *life_begin(int at, bool joins, int64_t after_ns) {
    if (n_lives == (int)(sizeof lives / sizeof *lives)) {
        fail_world("more than %d processes were started", n_lives);
        return NULL;
    }
    life *l = calloc(1, sizeof *l);
    l->number = joins ? 100 + n_lives : (at - 1) * the_plan.shards;
    l->host = at;
    l->joins = joins;
    for (int i = 0; i < n_lives; i++) l->turn += lives[i]->host == at;
    lives[n_lives++] = l;
    name_doors(l);
    at_time(w.now_ns + after_ns, begin_life, l);
    return l;
}

void machine_begin(int at, bool joins, int64_t after_ns) {
    for (int k = 0; k < the_plan.shards; k++) {
        life *l = life_begin(at, joins, after_ns);
        if (!l) return;
        l->seat = k;
        if (!joins) l->number += k;
    }
}
