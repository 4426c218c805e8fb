/* SPDX-License-Identifier: MIT */
/* weft up: begins an elastic run as weft train --listen does, with a key of its own and an
 * invitation (weft/invite.h), which others accept with a short code. weft join: accepts it. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/invite.h>

#include "common.h"
#include "operands.h"

enum { RUN_PORT = 29500, RUN_PORTS = 16, WORDS = 2 * MAX_GIVEN + 16 };

#define GIVEN_TO_TRAIN                                                                   \
    {"--returns", "N", "how often to join again after being cut off (10; 0: end)",       \
     NULL},                                                                              \
        {"--json", NULL, "one JSON object per step and evaluation on stdout", NULL}, {   \
        "--quiet", NULL, "no progress; errors, lost processes and results only", NULL    \
    }

static const flag up_flags[] = {
    {"--text", "SIZE",
     "give newcomers the texts and models if they have together at most so many bytes "
     "(1GB; 0: they have their own)",
     NULL},
    {"--invite-port", "PORT", "port of the invitation (the first free one from 29520 on)",
     NULL},
    {"--listen", "PORT", "port of the run (the first free one from 29500 on)", NULL},
    {"--resume", NULL, "continue run.folder from its newest complete checkpoint", NULL},
    RUN_FLAGS,
    GIVEN_TO_TRAIN,
    {NULL, NULL, NULL, NULL}};

static const flag join_flags[] = {
    {"--text", "SIZE", "take the run's texts and models up to so many bytes (1GB)", NULL},
    {"--into", "FOLDER", "new folder for what comes from the run (joined, joined-2, ...)",
     NULL},
    {"--wait", "SECONDS", "how long to look for the run on this network (10)", NULL},
    GIVEN_TO_TRAIN,
    {NULL, NULL, NULL, NULL}};

/* The command line of weft train. */
typedef struct line {
    char *words[WORDS];
    int n;
} line;

static void add(line *l, const char *word) {
    union {
        const char *in;
        char *out;
    } same = {.in = word};
    if (l->n < WORDS) l->words[l->n++] = same.out;
}

/* Adds the flags that weft train has too. */
static void add_flags(line *l, const args *a) {
    static const char *const own[] = {"--text", "--invite-port", "--listen", "--into",
                                      "--wait"};
    for (int i = 0; i < a->n_given; i++) {
        const flag *f = &a->command->flags[a->given[i].flag];
        bool is_own = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
            is_own = is_own || strcmp(f->name, own[k]) == 0;
        if (is_own) continue;
        add(l, f->name);
        if (f->placeholder) add(l, a->given[i].value);
    }
}

static int run_train(line *l, const args *a, int from) {
    if (l->n + a->n_operands >= WORDS)
        return usage_error("more than %d words", (int)WORDS - 16);
    for (int i = from; i < a->n_operands; i++) add(l, a->operands[i]);
    return command_run(command_find("train"), l->n, l->words);
}

/* --- weft up --- */

static weft_status make_parents(weft_ctx *ctx, const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *c = strchr(folder + 1, '/'); c; c = strchr(c + 1, '/')) {
        *c = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not make the folder %s: %s",
                                 folder, strerror(errno));
        *c = '/';
    }
    return WEFT_OK;
}

/* The file of the run's key: one that is named, or FOLDER.key, which a run that is resumed has
 * already. */
static weft_status find_key(weft_ctx *ctx, const weft_config *config,
                            char path[PATH_MAX]) {
    char text[KEY_TEXT_BYTES];
    const char *named = getenv("WEFT_KEY_FILE");
    if (config->mesh.cert[0])
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "mesh.cert gives each machine a certificate, and weft up "
                             "gives a key: expected mesh.key or nothing");
    snprintf(path, PATH_MAX, "%.4000s.key", config->run.folder);
    if (config->mesh.key[0]) named = config->mesh.key;
    if (named) snprintf(path, PATH_MAX, "%s", named);
    if (named || access(path, F_OK) == 0) return WEFT_OK;
    WEFT_TRY(make_parents(ctx, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && key_make(text) &&
                write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
    int error = errno;
    if (fd >= 0) close(fd);
    return fine ? WEFT_OK
                : weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not make the key %s: %s", path,
                                strerror(error));
}

/* The first port from 29500 on at which the run can listen. */
static int free_port(weft_ctx *ctx) {
    for (int port = RUN_PORT; port < RUN_PORT + RUN_PORTS; port++) {
        int fd;
        if (weft_mesh_listen_at(ctx, port, &fd) == WEFT_OK) {
            close(fd);
            return port;
        }
        weft_ctx_clear(ctx);
    }
    return RUN_PORT; /* weft train says that it is taken */
}

/* The run's configuration before its mesh is there: one process begins it. */
static weft_status config_of_run(weft_ctx *ctx, const args *a, weft_config **out) {
    WEFT_TRY(weft_config_create(ctx, out));
    program_hush(ctx); /* weft train reads it again */
    weft_status status = operands_read(ctx, a, *out);
    if (status == WEFT_OK) status = weft_config_set(ctx, *out, "mesh.nodes=1");
    if (status == WEFT_OK) status = weft_config_set(ctx, *out, "mesh.ranks_per_node=1");
    if (status == WEFT_OK) status = number_folder(ctx, a, *out);
    if (status == WEFT_OK) status = weft_config_finish(ctx, *out);
    if (status == WEFT_OK) status = operands_look(ctx, a, *out);
    program_speak(ctx);
    return status;
}

static void say_code(void *user) {
    const weft_invite *invitation = user;
    fprintf(stderr,
            "weft: on another machine of this network:  weft join %s\n"
            "weft: from another network:  weft join %s:%d %s\n",
            weft_invite_code(invitation), weft_invite_host(invitation),
            weft_invite_port(invitation), weft_invite_code(invitation));
}

/* A run that can not begin, as its text is missing, has no code. */
static int train_behind(const args *a, const weft_config *config, weft_invite *invitation,
                        const weft_invite_setup *setup) {
    char port[16], key[PATH_MAX + 16];
    line l = {.n = 0};
    program_at_start(say_code, invitation);
    snprintf(port, sizeof port, "%d", setup->run_port);
    snprintf(key, sizeof key, "mesh.key=%s", setup->key);
    add(&l, "train");
    add_flags(&l, a);
    add(&l, "--folder");
    add(&l, config->run.folder);
    add(&l, "--listen");
    add(&l, port);
    add(&l, "--");
    add(&l, key);
    return run_train(&l, a, 0);
}

/* A number without a unit was one of megabytes once. */
static int read_text_size(const args *a, double *bytes) {
    int code = args_quantity(a, "--text", WEFT_UNIT_BYTES, (interval){0, 1e15}, bytes);
    if (code == CODE_OK && *bytes > 0 && *bytes < 1e6)
        code = usage_error("--text is '%s', expected 0 or a size of at least 1MB",
                           args_value(a, "--text"));
    return code;
}

static int run_up(weft_ctx *ctx, args *a) {
    char key[PATH_MAX];
    long long listen = 0, port = 0;
    double most_bytes = 1e9;
    int code = args_plain(a, "--listen", 1, 65535, &listen);
    if (code == CODE_OK) code = args_plain(a, "--invite-port", 1, 65535, &port);
    if (code == CODE_OK) code = read_text_size(a, &most_bytes);
    if (code != CODE_OK) return code;
    weft_config *config = NULL;
    weft_invite *invitation = NULL;
    weft_status status = config_of_run(ctx, a, &config);
    if (status == WEFT_OK) status = find_key(ctx, config, key);
    weft_invite_setup setup = {.struct_size = sizeof setup,
                               .port = (int)port,
                               .run_port = listen ? (int)listen : free_port(ctx),
                               .key = key,
                               .config = config,
                               .most_bytes = (int64_t)most_bytes};
    if (status == WEFT_OK) status = weft_invite_open(ctx, &setup, &invitation);
    code = status == WEFT_OK ? train_behind(a, config, invitation, &setup)
                             : program_code(ctx, status);
    weft_invite_close(invitation);
    weft_config_destroy(ctx, config);
    return code;
}

/* --- weft join --- */

/* FOLDER, or the first of joined, joined-2, ... that there is not. */
static void new_folder(const args *a, char out[PATH_MAX]) {
    struct stat info;
    const char *named = args_value(a, "--into");
    snprintf(out, PATH_MAX, "%s", named ? named : "joined");
    for (int i = 2; !named && lstat(out, &info) == 0; i++)
        snprintf(out, PATH_MAX, "joined-%d", i);
}

static weft_status enter(weft_ctx *ctx, const args *a, int n_words,
                         weft_invite_request *request, char where[300]) {
    args rest = *a;
    weft_config *own = NULL;
    rest.operands += n_words;
    rest.n_operands -= n_words;
    WEFT_TRY(weft_config_create(ctx, &own));
    weft_status status = operands_read(ctx, &rest, own);
    request->own = own;
    if (status == WEFT_OK) status = weft_invite_accept(ctx, request, where, 300);
    weft_config_destroy(ctx, own);
    return status;
}

static int run_join(weft_ctx *ctx, args *a) {
    char folder[PATH_MAX], run[PATH_MAX + 16], here[PATH_MAX + 16], where[300];
    double most_bytes = 1e9, wait_s = 10;
    int n = 0, code = read_text_size(a, &most_bytes);
    if (code == CODE_OK)
        code = args_quantity(a, "--wait", WEFT_UNIT_SECONDS, (interval){1, 86400},
                             &wait_s);
    if (code != CODE_OK) return code;
    while (n < a->n_operands && n < 2 && !strchr(a->operands[n], '=')) n++;
    if (n == 0) return usage_error("expected weft join CODE, as weft up printed it");
    new_folder(a, folder);
    weft_invite_request request = {.struct_size = sizeof request,
                                   .code = a->operands[n - 1],
                                   .host = n == 2 ? a->operands[0] : NULL,
                                   .folder = folder,
                                   .patience = wait_s,
                                   .most_bytes = (int64_t)most_bytes};
    weft_status status = enter(ctx, a, n, &request, where);
    if (status != WEFT_OK) return program_code(ctx, status);
    snprintf(run, sizeof run, "%s/run.yaml", folder);
    snprintf(here, sizeof here, "%s/here.yaml", folder);
    fprintf(stderr,
            "weft: what came from the run is in %s; later again:  weft train %s %s "
            "--join %s\n",
            folder, run, here, where);
    line l = {.n = 0};
    add(&l, "train");
    add_flags(&l, a);
    add(&l, "--join");
    add(&l, where);
    add(&l, "--");
    add(&l, run);
    add(&l, here);
    return run_train(&l, a, n);
}

const command command_up = {
    .name = "up",
    .summary = "begin a run that other machines join with a short code",
    .usage = "[run.yaml | text] [key=value ...]",
    .help =
        "Trains as weft train does, alone at first, and prints the line by which another "
        "machine takes part: weft join CODE. The newcomer gets the run's key, "
        "configuration, tokenizer, model and text; nothing has to be copied.\n\n"
        "The code has 40 random bits. Both sides prove that they have it without saying "
        "it (CPace), so who listens can not guess it later. Three wrong codes close the "
        "invitation, and the run goes on. The run's key is in FOLDER.key, or the one of "
        "mesh.key or WEFT_KEY_FILE. A run that was ended goes on with --resume and a "
        "new code.\n\n"
        "docs/launching.md says which ports are used.",
    .examples = "up my.txt\n"
                "up run.yaml data.path=my.txt --text 50MB\n"
                "up run.yaml --resume",
    .flags = up_flags,
    .configures = true,
    .run = run_up,
};

const command command_join = {
    .name = "join",
    .summary = "take part in the run that weft up began on another machine",
    .usage = "[HOST:PORT] CODE [key=value ...]",
    .help =
        "Finds the run on this network by calls to all, or goes to HOST:PORT, proves "
        "that it has the code, and takes the run's key, configuration and files into a "
        "new "
        "folder. Then it joins as weft train --join does.\n\n"
        "A text or model of this machine's own, as data.path=FILE or model.init=FOLDER, "
        "is not taken from the run; it must be the same. Other keys of this machine, "
        "such "
        "as mesh.threads, may be given too.",
    .examples = "join 42-ABCD-EFGH\n"
                "join 192.0.2.7:29520 42-ABCD-EFGH\n"
                "join 42-ABCD-EFGH data.path=my.txt mesh.threads=4",
    .flags = join_flags,
    .configures = true,
    .run = run_join,
};
