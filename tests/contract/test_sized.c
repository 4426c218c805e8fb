/* SPDX-License-Identifier: MIT */
/* Structs that programs allocate begin with their size: whoever is older, program or library,
 * nothing is read or written beyond what both know. Every public function that takes such a struct
 * has a row here, and every public struct is of one of three kinds; the headers are read to see
 * that none is missing. */
#include <dirent.h>
#include <stdlib.h>

#include <weft/ext/transport.h>
#include <weft/probe.h>
#include <weft/weft.h>

#include "base/sized.h"
#include "check.h"

static weft_ctx *ctx;
static weft_config *config; /* of a run that trains nothing */
static weft_cluster *cluster;
static weft_topology *topology;
static weft_sync *exchange; /* of one process */
static weft_tokenizer *tokens;
static weft_tune *tune;
static weft_mesh *mesh;

static void *made; /* that no call leaves behind: all fail */

#define CALL(function, type, ...)                                                        \
    static weft_status function##_##type(void *given) {                                  \
        type *x = given;                                                                 \
        __VA_ARGS__                                                                      \
    }
/* clang-format off */
#define CALLS(X)                                                                         \
    X(weft_mesh_open, weft_mesh_security, return weft_mesh_open(ctx, x, &mesh);)         \
    X(weft_mesh_begin, weft_mesh_security, return weft_mesh_begin(ctx, -1, x, &mesh);)   \
    X(weft_mesh_enter, weft_mesh_security,                                               \
      return weft_mesh_enter(ctx, "127.0.0.1", -1, 1, x, &mesh);)                        \
    X(weft_mesh_join, weft_mesh_place, x->size = 2; x->rank = 2;                          \
      return weft_mesh_join(ctx, x, &mesh);)                                             \
    X(weft_witness_open, weft_witness_setup, x->port = -1;                               \
      return weft_witness_open(ctx, x, (weft_witness **)&made);)                         \
    X(weft_invite_open, weft_invite_setup, x->port = -1;                                     \
      return weft_invite_open(ctx, x, (weft_invite **)&made);)                               \
    X(weft_invite_accept, weft_invite_request, x->code = "none"; char where[8];                 \
      return weft_invite_accept(ctx, x, where, sizeof where);)                              \
    X(weft_dataset_open, weft_dataset_config,                                            \
      return weft_dataset_open(ctx, x, tokens, (weft_dataset **)&made);)                   \
    X(weft_shard_encode_texts, weft_shard_texts,                                         \
      return weft_shard_encode_texts(ctx, tokens, x, "/no/folder/x", NULL);)               \
    X(weft_tokenizer_train_texts, weft_shard_texts, weft_tokenizer *t;                   \
      return weft_tokenizer_train_texts(ctx, x, 1, "gpt2", &t, NULL);)                   \
    X(weft_model_create, weft_model_config, x->kind = "none";                            \
      return weft_model_create(ctx, x, (weft_model **)&made);)                           \
    X(weft_model_config_from_json, weft_model_config,                                    \
      return weft_model_config_from_json(ctx, "{}", 2, "x", x);)                         \
    X(weft_topology_create, weft_topology_config, x->kind = "none";                      \
      return weft_topology_create(ctx, x, (weft_topology **)&made);)                     \
    X(weft_topology_analyse, weft_topology_analysis,                                     \
      return weft_topology_analyse(ctx, topology, x);)                                   \
    X(weft_links_load, weft_links, return weft_links_load(ctx, "/no/file", x);)          \
    X(weft_predict, weft_predict_options,                                                \
      weft_prediction p = {.struct_size = sizeof p}; x->steps = -1;                      \
      return weft_predict(ctx, config, cluster, x, &p);)                                 \
    X(weft_predict, weft_prediction,                                                     \
      weft_predict_options o = {.struct_size = sizeof o, .steps = -1};                   \
      return weft_predict(ctx, config, cluster, &o, x);)                                 \
    X(weft_predict_loop, weft_loop_facts,                                                \
      weft_prediction p = {.struct_size = sizeof p};                                     \
      return weft_predict_loop(ctx, config, cluster, x, &p);)                            \
    X(weft_predict_loop, weft_prediction,                                                \
      weft_loop_facts l = {.struct_size = sizeof l};                                     \
      return weft_predict_loop(ctx, config, cluster, &l, x);)                            \
    X(weft_simulate, weft_simulate_options,                                              \
      weft_simulation s = {.struct_size = sizeof s}; x->steps = -1;                      \
      return weft_simulate(ctx, config, cluster, x, &s);)                                \
    X(weft_simulate, weft_simulation,                                                    \
      weft_simulate_options o = {.struct_size = sizeof o, .steps = -1};                  \
      return weft_simulate(ctx, config, cluster, &o, x);)                                \
    X(weft_advise, weft_advise_options, x->n_measured = 1;                               \
      return weft_advise(ctx, config, cluster, x, (weft_advice **)&made);)               \
    X(weft_advice_page, weft_advise_options, weft_advice none = {.n_curves = 0};         \
      return weft_advice_page(ctx, config, cluster, x, &none, "/no/folder/x");)          \
    X(weft_measurement_parse, weft_measurement,                                          \
      return weft_measurement_parse(ctx, "1 node: 2 s", x);)                             \
    X(weft_cluster_anchor, weft_advise_options,                                          \
      weft_inference_of_facts f = {.struct_size = sizeof f};                             \
      return weft_cluster_anchor(ctx, config, x, NULL, 1, cluster, &f);)                 \
    X(weft_cluster_anchor, weft_measurement,                                             \
      weft_inference_of_facts f = {.struct_size = sizeof f};                             \
      return weft_cluster_anchor(ctx, config, NULL, x, 1, cluster, &f);)                 \
    X(weft_cluster_anchor, weft_inference_of_facts,                                      \
      return weft_cluster_anchor(ctx, config, NULL, NULL, 1, cluster, x);)               \
    X(weft_probe, weft_probe_options, x->seconds = 1e9;                                  \
      weft_probe_result r = {.struct_size = sizeof r};                                   \
      return weft_probe(ctx, NULL, config, x, &r);)                                      \
    X(weft_probe, weft_probe_result,                                                     \
      weft_probe_options o = {.struct_size = sizeof o, .seconds = 1e9};                  \
      return weft_probe(ctx, NULL, config, &o, x);)                                      \
    X(weft_train, weft_train_hooks, weft_train_result r = {.struct_size = sizeof r};     \
      return weft_train(ctx, NULL, config, false, x, &r);)                               \
    X(weft_train, weft_train_result,                                                     \
      return weft_train(ctx, NULL, config, false, NULL, x);)                             \
    X(weft_bench_train, weft_train_hooks,                                                \
      weft_train_result r = {.struct_size = sizeof r};                                   \
      return weft_bench_train(ctx, NULL, config, x, &r);)                                \
    X(weft_bench_train, weft_train_result,                                               \
      return weft_bench_train(ctx, NULL, config, NULL, x);)                              \
    X(weft_replay, weft_train_hooks,                                                     \
      weft_replay_result r = {.struct_size = sizeof r};                                  \
      return weft_replay(ctx, "/no/folder", x, &r);)                                     \
    X(weft_replay, weft_replay_result, return weft_replay(ctx, "/no/folder", NULL, x);)  \
    X(weft_audit, weft_train_hooks,                                                      \
      weft_replay_result r = {.struct_size = sizeof r};                                  \
      return weft_audit(ctx, "/no/folder", 0, x, &r);)                                   \
    X(weft_audit, weft_replay_result, return weft_audit(ctx, "/no/folder", 0, NULL, x);) \
    X(weft_tune_create, weft_tune_setup,                                                 \
      return weft_tune_create(ctx, x, config, (weft_tune **)&made);)                     \
    X(weft_tune_next, weft_tune_job, bool any;                                           \
      return weft_tune_next(tune, x, &any);)                                             \
    X(weft_tune_report, weft_tune_job, return weft_tune_report(tune, x, 1, 1);)          \
    X(weft_sync_create_from, weft_sync_setup, x->config = config;                        \
      return weft_sync_create_from(ctx, x, (weft_sync **)&made);)                        \
    X(weft_sync_create, weft_sync_tensor,                                                \
      return weft_sync_create(ctx, NULL, config, x, 1, (weft_sync **)&made);)            \
    X(weft_sync_step, weft_sync_report, return weft_sync_step(exchange, 1, x);)             \
    X(weft_sync_replan, weft_sync_limits, const char *why;                                \
      return weft_sync_replan(exchange, x, &why);)                                          \
    X(weft_sync_mix, weft_sync_report, return weft_sync_mix(exchange, x);)                  \
    X(weft_sync_chunk_shape_of, weft_sync_chunk_shape,                                   \
      return weft_sync_chunk_shape_of(exchange, 0, x);)                                     \
    X(weft_sync_wait_any, weft_sync_part, return weft_sync_wait_any(exchange, -1, x);)      \
    X(weft_doctor_examine, weft_doctor_options,                                          \
      weft_rank_facts f = {.struct_size = sizeof f};                                     \
      return weft_doctor_examine(ctx, x, &f);)                                           \
    X(weft_doctor_examine, weft_rank_facts,                                              \
      weft_doctor_options o = {.struct_size = sizeof o};                                 \
      return weft_doctor_examine(ctx, &o, x);)                                           \
    X(weft_doctor_reach, weft_peer_facts,                                                \
      return weft_doctor_reach(ctx, "127.0.0.1", -1, 1, x);)                             \
    X(weft_doctor_gather, weft_rank_facts,                                               \
      weft_rank_facts f = {.struct_size = sizeof f};                                     \
      return weft_doctor_gather(ctx, NULL, &f, x);)                                      \
    X(weft_doctor_judge, weft_rank_facts, weft_findings f = {.struct_size = sizeof f};   \
      weft_status status = weft_doctor_judge(ctx, x, 1, NULL, 0, &f);                    \
      weft_findings_clear(ctx, &f); return status;)                                      \
    X(weft_doctor_judge, weft_peer_facts, weft_findings f = {.struct_size = sizeof f};   \
      weft_rank_facts r = {.struct_size = sizeof r};                                     \
      weft_status status = weft_doctor_judge(ctx, &r, 1, x, 1, &f);                      \
      weft_findings_clear(ctx, &f); return status;)                                      \
    X(weft_doctor_judge, weft_findings,                                                  \
      return weft_doctor_judge(ctx, NULL, 0, NULL, 0, x);)                               \
    X(weft_doctor_facts_json, weft_rank_facts, char *text = NULL;                        \
      weft_status status = weft_doctor_facts_json(ctx, x, &text);                        \
      weft_free(ctx, text); return status;)                                              \
    X(weft_bench_optimizers, weft_bench_optimizers_options, x->n = -1;                   \
      weft_optimizer_speeds s = {.struct_size = sizeof s};                               \
      return weft_bench_optimizers(ctx, x, &s);)                                         \
    X(weft_bench_optimizers, weft_optimizer_speeds,                                      \
      weft_bench_optimizers_options o = {.struct_size = sizeof o, .n = -1};              \
      return weft_bench_optimizers(ctx, &o, x);)                                         \
    X(weft_bench_replicators, weft_bench_replicators_options, x->n = -1;                 \
      weft_replicator_speeds s = {.struct_size = sizeof s};                              \
      return weft_bench_replicators(ctx, x, &s);)                                        \
    X(weft_bench_replicators, weft_replicator_speeds,                                    \
      weft_bench_replicators_options o = {.struct_size = sizeof o, .n = -1};             \
      return weft_bench_replicators(ctx, &o, x);)                                        \
    X(weft_bench_kernels, weft_bench_kernels_options, x->steps = -1;                     \
      weft_kernel_speeds s = {.struct_size = sizeof s};                                  \
      return weft_bench_kernels(ctx, config, x, &s);)                                    \
    X(weft_bench_kernels, weft_kernel_speeds,                                            \
      weft_bench_kernels_options o = {.struct_size = sizeof o, .steps = -1};             \
      return weft_bench_kernels(ctx, config, &o, x);)
/* clang-format on */

CALLS(CALL)

typedef struct call {
    const char *function, *type;
    const wefti_sized *kind;
    weft_status (*run)(void *given);
} call;

#define ROW(function, type, ...)                                                         \
    {#function, #type, &wefti_sized_##type, function##_##type},
static const call calls[] = {CALLS(ROW)};
enum { N_CALLS = sizeof calls / sizeof calls[0], GUARD = 64, ROOM = 1 << 17 };

/* Takers of sized structs whose other arguments need a whole model, MPI or a transport: their own
 * tests call them with such structs. */
static const char *const elsewhere[] = {
    "weft_inference_sample", "weft_inference_translate", "weft_mesh_create",
    "weft_sync_outgoing",    "weft_sync_incoming",       "weft_prediction_clear",
    "weft_probe_clear",      "weft_findings_clear",      NULL};

/* Structs that only the library allocates, one at a time: they may grow at their end. */
static const char *const given[] = {"weft_config",
                                    "weft_config_key",
                                    "weft_cluster",
                                    "weft_accelerator",
                                    "weft_mesh_facts",
                                    "weft_shape",
                                    "weft_advice",
                                    "weft_watch_outcome",
                                    "weft_topology_facts",
                                    "weft_neighbours",
                                    "weft_step_record",
                                    "weft_eval_record",
                                    "weft_run_summary",
                                    "weft_tune_look",
                                    "weft_verify_item",
                                    "weft_transport_found",
                                    "weft_transport_place",
                                    "weft_recipe",
                                    NULL};

/* Parts of other structs and of the library's arrays: their size is part of the interface and never
 * changes. */
#define FIXED(X)                                                                         \
    X(weft_optimizer_speed, 32)                                                          \
    X(weft_matrix_speed, 56)                                                             \
    X(weft_spread, 24)                                                                   \
    X(weft_replicator_speed, 536)                                                        \
    X(weft_kernel_speed, 160)                                                            \
    X(weft_link_facts, 80)                                                               \
    X(weft_link_pair, 32)                                                                \
    X(weft_machine, 40)                                                                  \
    X(weft_jitter, 32)                                                                   \
    X(weft_unit_seconds, 48)                                                             \
    X(weft_codec_seconds, 128)                                                           \
    X(weft_optimizer_seconds, 40)                                                        \
    X(weft_collective_seconds, 72)                                                       \
    X(weft_texts, 16)                                                                    \
    X(weft_numbers, 16)                                                                  \
    X(weft_replicator_keys, 128)                                                         \
    X(weft_choice, 16)                                                                   \
    X(weft_finding, 800)                                                                 \
    X(weft_learning, 48)                                                                 \
    X(weft_candidate, 872)                                                               \
    X(weft_left_out, 424)                                                                \
    X(weft_outlook, 80)                                                                  \
    X(weft_range, 24)                                                                    \
    X(weft_quantiles, 24)                                                                \
    X(weft_span, 48)                                                                     \
    X(weft_probe_figure, 104)                                                            \
    X(weft_lost_time, 56)                                                                \
    X(weft_link, 32)                                                                     \
    X(weft_transport, 56)
typedef struct fixed {
    const char *name;
    size_t found, expected; /* bytes where pointers and long have 8 */
} fixed;
#define FIXED_ROW(type, bytes) {#type, sizeof(type), bytes},
static const fixed parts[] = {FIXED(FIXED_ROW)};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

#define WEFTI_SIZED(type, last) &wefti_sized_##type,
static const wefti_sized *const kinds[] = {
#include "base/sized.def"
};
#undef WEFTI_SIZED
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- what the calls are made with ---- */

static weft_status small(void) {
    static const char *const keys[] = {"mesh.shards=1",      "mesh.ranks_per_node=1",
                                       "run.steps=9",        "schedule.warmup=1",
                                       "model.layers=1",     "model.width=16",
                                       "model.heads=2",      "data.length=16",
                                       "mesh.threads=1",     "batch.tokens_per_step=32",
                                       "run.folder=room/run"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        WEFT_TRY(weft_config_set(ctx, config, keys[i]));
    return WEFT_OK;
}

static int begin(void **state) {
    static const weft_sync_tensor tensor = {
        .struct_size = sizeof tensor, .name = "w", .rows = 4, .cols = 4};
    static const weft_topology_config ring = {
        .struct_size = sizeof ring, .kind = "ring", .nodes = 3, .ranks = 1};
    static const char *const key = "optimizer.lr=1e-3,1e-2";
    weft_tune_setup search = {.struct_size = sizeof search,
                              .keys = &key,
                              .n_keys = 1,
                              .n_seeds = 1,
                              .budget = 9,
                              .eta = 3,
                              .folder = "room"};
    return room_begin(&ctx) != 0 || weft_config_create(ctx, &config) != WEFT_OK ||
           small() != WEFT_OK || weft_config_finish(ctx, config) != WEFT_OK ||
           weft_tokenizer_create_bytes(ctx, &tokens) != WEFT_OK ||
           weft_cluster_create(ctx, &cluster) != WEFT_OK ||
           weft_topology_create(ctx, &ring, &topology) != WEFT_OK ||
           weft_tune_create(ctx, &search, config, &tune) != WEFT_OK ||
           weft_sync_create(ctx, NULL, config, &tensor, 1, &exchange) != WEFT_OK ||
           weft_sync_begin(exchange) != WEFT_OK;
}

static int end(void **state) {
    weft_sync_destroy(exchange);
    weft_tune_destroy(tune);
    weft_tokenizer_destroy(ctx, tokens);
    weft_topology_destroy(ctx, topology);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    return ctx_end(ctx);
}

/* Calls with a struct of `size` bytes of zeros, of which byte `at` (0: none) is 1. What lies behind
 * the struct stays as it is. */
static weft_status try_call(const call *c, size_t size, size_t at) {
    static union {
        unsigned char bytes[ROOM];
        max_align_t align;
    } area;
    assert_true(size + GUARD <= ROOM);
    memset(area.bytes, 0xa5, sizeof area.bytes);
    memset(area.bytes, 0, size > sizeof size ? size : sizeof size);
    memcpy(area.bytes, &size, sizeof size);
    if (at) area.bytes[at] = 1;
    weft_ctx_clear(ctx);
    weft_status status = c->run(area.bytes);
    for (size_t i = size; i < size + GUARD && size >= c->kind->first; i++)
        if (area.bytes[i] != 0xa5)
            fail_msg("%s writes byte %zu of a %s of %zu", c->function, i, c->type, size);
    if (at && area.bytes[at] != 1)
        fail_msg("%s writes where it knows nothing", c->function);
    assert_memory_equal(area.bytes, &size, sizeof size);
    return status;
}

static void refuses(const call *c, size_t size, size_t at, const char *words) {
    char sentence[160];
    snprintf(sentence, sizeof sentence, words, c->type, size);
    weft_status status = try_call(c, size, at);
    if (status != WEFT_ERR_ARGUMENT || !strstr(weft_ctx_message(ctx), sentence))
        fail_msg("%s with a %s of %zu bytes: '%s', expected '%s'", c->function, c->type,
                 size, weft_ctx_message(ctx), sentence);
}

/* ---- the claims ---- */

TEST(no_function_takes_a_size_that_no_version_had) {
    for (int i = 0; i < N_CALLS; i++) {
        refuses(&calls[i], 0, 0, "%s.struct_size is %zu, expected");
        refuses(&calls[i], calls[i].kind->first - 1, 0,
                "%s.struct_size is %zu, expected");
    }
}

TEST(a_newer_programs_unknown_fields_are_refused_if_set) {
    for (int i = 0; i < N_CALLS; i++) {
        size_t size = calls[i].kind->size;
        refuses(&calls[i], size + 16, size, "%s has %zu bytes, of which");
        refuses(&calls[i], size + 16, size + 15, "%s has %zu bytes, of which");
    }
}

/* Whatever else a call finds wrong, it is not the size. */
TEST(sizes_of_first_of_this_and_of_newer_versions_are_taken) {
    for (int i = 0; i < N_CALLS; i++) {
        const wefti_sized *kind = calls[i].kind;
        const size_t sizes[] = {kind->first, kind->size, kind->size + 24};
        for (int k = 0; k < 3; k++) {
            (void)!try_call(&calls[i], sizes[k], 0);
            if (strstr(weft_ctx_message(ctx), "struct_size") ||
                strstr(weft_ctx_message(ctx), "of which weft"))
                fail_msg("%s: %s", calls[i].function, weft_ctx_message(ctx));
        }
    }
    weft_ctx_clear(ctx);
}

/* A struct of the third version, of which programs of the first know less. */
typedef struct grown {
    size_t struct_size;
    int64_t first, second, third;
} grown;
static const wefti_sized grown_kind = {"grown", 16, sizeof(grown)};

TEST(an_older_program_gets_what_it_has_room_for) {
    struct {
        size_t struct_size;
        int64_t first, guard;
    } old = {16, 5, 77};
    grown own;
    assert_ok(ctx, wefti_sized_in(ctx, &grown_kind, &old, &own));
    assert_true(own.struct_size == sizeof own && own.first == 5);
    assert_true(own.second == 0 && own.third == 0);
    own.first = 6;
    own.second = own.third = 9;
    assert_int_equal(wefti_sized_out(&grown_kind, &own, &old, WEFT_ERR_PEER),
                     WEFT_ERR_PEER);
    assert_true(old.struct_size == 16 && old.first == 6 && old.guard == 77);
    wefti_sized_clear(&old);
    assert_true(old.struct_size == 16 && old.first == 0 && old.guard == 77);
}

TEST(lists_go_by_the_size_of_their_first_element) {
    struct {
        size_t struct_size;
        int64_t first;
    } old[3] = {{16, 1}, {16, 2}, {16, 3}};
    grown *own;
    assert_ok(ctx, wefti_sized_list_in(ctx, &grown_kind, old, 3, &own));
    for (int i = 0; i < 3; i++) assert_true(own[i].first == i + 1 && own[i].third == 0);
    own[1].first = 20;
    assert_ok(ctx, wefti_sized_list_out(&grown_kind, own, old, 3, WEFT_OK));
    assert_true(old[0].first == 1 && old[1].first == 20 && old[2].first == 3);
    wefti_free(ctx, own);
    old[2].struct_size = 24;
    assert_ok(ctx, wefti_sized_list_in(ctx, &grown_kind, old, 2, &own));
    wefti_free(ctx, own);
    old[1].struct_size = 32;
    assert_fails(ctx, wefti_sized_list_in(ctx, &grown_kind, old, 2, &own),
                 WEFT_ERR_ARGUMENT,
                 "grown.struct_size is 32 in element 1 of a list, expected 16");
    assert_fails(ctx, wefti_sized_list_in(ctx, &grown_kind, NULL, 2, &own),
                 WEFT_ERR_ARGUMENT, "a list of 2 grown is NULL");
    assert_ok(ctx, wefti_sized_list_in(ctx, &grown_kind, NULL, 0, &own));
    assert_null(own);
}

TEST(parts_of_structs_and_arrays_keep_their_size) {
    if (sizeof(void *) != 8 || sizeof(long) != 8) skip();
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].found != parts[i].expected)
            fail_msg("%s has %zu bytes, and has to have %zu for ever", parts[i].name,
                     parts[i].found, parts[i].expected);
}

/* ---- the headers ---- */

static bool listed(const char *const *names, const char *name) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

static const wefti_sized *kind_of(const char *name) {
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

static bool is_part(const char *name) {
    for (int i = 0; i < N_PARTS; i++)
        if (strcmp(parts[i].name, name) == 0) return true;
    return false;
}

/* Copies the name that begins at `at`. */
static const char *word(const char *at, char *out) {
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    assert_true(n < 64);
    memcpy(out, at, n);
    out[n] = '\0';
    return at + n;
}

/* A struct with fields belongs to exactly one of the three kinds. */
static void check_struct(const char *header, const char *at) {
    char name[64];
    at = word(at, name);
    if (strncmp(at, " {", 2) != 0) return; /* opaque */
    int n = (kind_of(name) != NULL) + listed(given, name) + is_part(name);
    if (n != 1)
        fail_msg(
            "%s: %s has %d rows in this test and base/sized.def, expected one: programs "
            "allocate it, or only the library does, or it never changes",
            header, name, n);
}

/* A function that takes a pointer to a sized struct has a row. */
static void check_function(const char *header, const char *at) {
    char function[64], type[64];
    const char *end = strchr(at, ';'), *open = strchr(at, '(');
    const char *name = open;
    while (name > at && !strchr(" *\n", name[-1])) name--;
    word(name, function);
    if (listed(elsewhere, function)) return;
    for (const char *p = open; (p = strstr(p, "weft_")) && p < end;) {
        p = word(p, type);
        if (strncmp(p, " *", 2) != 0 || strncmp(p, " **", 3) == 0 || !kind_of(type))
            continue;
        bool found = false;
        for (int i = 0; i < N_CALLS && !found; i++)
            found = strcmp(calls[i].function, function) == 0 &&
                    strcmp(calls[i].type, type) == 0;
        if (!found)
            fail_msg("%s: %s takes a %s, but has no row here", header, function, type);
    }
}

static void check_header(const char *path) {
    char *text;
    int64_t n;
    assert_ok(ctx, wefti_file_read(ctx, path, 1 << 20, &text, &n));
    for (const char *p = text; (p = strstr(p, "\ntypedef struct ")); p++)
        check_struct(path, p + strlen("\ntypedef struct "));
    for (const char *p = text; (p = strstr(p, "\nWEFT_API ")); p++)
        check_function(path, p + 10);
    wefti_free(ctx, text);
}

TEST(every_struct_and_function_of_the_headers_has_a_row) {
    static const char *const folders[] = {WEFT_SOURCE_DIR "/include/weft",
                                          WEFT_SOURCE_DIR "/include/weft/ext"};
    int n = 0;
    for (int k = 0; k < 2; k++) {
        DIR *dir = opendir(folders[k]);
        assert_non_null(dir);
        for (struct dirent *entry; (entry = readdir(dir));) {
            char path[4096];
            if (!strstr(entry->d_name, ".h")) continue;
            snprintf(path, sizeof path, "%s/%s", folders[k], entry->d_name);
            check_header(path);
            n++;
        }
        closedir(dir);
    }
    assert_true(n > 20);
}

int main(void) { return check_run(begin, end); }
