/* SPDX-License-Identifier: MIT */
/* `weft doctor`: finds problems of these machines that would disturb a run. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/doctor.h>

#include "common.h"

static const flag flags[] = {
    {"--peers", "HOSTS", "other machines to reach, such as node2,node3", NULL},
    {"--hostfile", "FILE", "the same from a file, one name per line (as for mpirun)",
     NULL},
    {"--port", "N", "port to try on these machines (default 22)", NULL},
    {"--timeout", "S", "seconds to wait for each machine (default 3)", NULL},
    {"--quiet", NULL, "warnings and errors only", NULL},
    {"--strict", NULL, "exit with 1 for warnings too", NULL},
    {"--json", NULL, "one JSON object: facts, peers, findings", NULL},
    {NULL, NULL, NULL, NULL}};

extern char **environ;

typedef struct visit {
    char names[WEFT_DOCTOR_PEERS][128];
    weft_peer_facts peers[WEFT_DOCTOR_PEERS];
    int n_peers;
    weft_mesh *mesh;      /* the processes started together, or NULL */
    weft_rank_facts *all; /* of the ranks */
    int n_ranks;
    bool leads; /* true on rank 0, which alone contacts the peers and prints */
    weft_findings findings;
    bool json, quiet, strict;
} visit;

/* ---- other machines ---- */

/* Adds the name of a machine, which may be followed by ":2" or " slots=2". */
static int add_peer(visit *v, const char *name, size_t n) {
    if (v->n_peers == WEFT_DOCTOR_PEERS)
        return usage_error("more than %d other machines", WEFT_DOCTOR_PEERS);
    if (n >= sizeof v->names[0])
        return usage_error("'%.*s...' is too long for a host's name", 40, name);
    memcpy(v->names[v->n_peers], name, n);
    v->names[v->n_peers++][n] = '\0';
    return CODE_OK;
}

static int add_list(visit *v, const char *list) {
    int code = CODE_OK;
    while (code == CODE_OK && *list) {
        size_t item = strcspn(list, ","), n = strcspn(list, ",: \t");
        if (n > 0) code = add_peer(v, list, n);
        list += item + (list[item] == ',');
    }
    if (code == CODE_OK && v->n_peers == 0)
        code = usage_error("--peers names no machine, expected such as node2,node3");
    return code;
}

static int add_file(visit *v, const char *path) {
    char line[512];
    int code = CODE_OK, before = v->n_peers;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        return usage_error("%s is no file, expected one with a machine in each line",
                           path);
    FILE *file = fopen(path, "re");
    if (!file) return usage_error("could not open %s", path);
    while (code == CODE_OK && fgets(line, sizeof line, file)) {
        char *name = line + strspn(line, " \t");
        size_t n = strcspn(name, " \t\r\n:#");
        if (n > 0) code = add_peer(v, name, n);
    }
    fclose(file);
    if (code == CODE_OK && v->n_peers == before)
        code = usage_error("%s names no machine, expected one in each line", path);
    return code;
}

/* ---- what is printed ---- */

/* Of a large mesh only the first machines without a problem are shown. Counts how many
 * findings of the same topic and severity come before this one, and how many there are in
 * all. */
enum { SHOWN = 4 };

static void count_likes(const weft_findings *all, int64_t i, int64_t *before,
                        int64_t *n) {
    *before = *n = 0;
    for (int64_t k = 0; k < all->n; k++) {
        bool like = all->items[k].severity == all->items[i].severity &&
                    strcmp(all->items[k].topic, all->items[i].topic) == 0;
        *n += like;
        *before += like && k < i;
    }
}

static void print_finding(const visit *v, int64_t i) {
    const weft_finding *f = &v->findings.items[i];
    int64_t before = 0, n = 0;
    if (v->quiet && f->severity < WEFT_FINDING_WARNING) return;
    if (f->severity == WEFT_FINDING_OK) count_likes(&v->findings, i, &before, &n);
    if (before > SHOWN) return;
    printf("%-8s %-12s", weft_severity_name(f->severity), f->topic);
    if (before == SHOWN) {
        printf("and %lld more\n", (long long)(n - before));
        return;
    }
    print_wrapped(stdout, 21, 96, f->text);
    if (!f->advice[0]) return;
    printf("%18s-> ", "");
    print_wrapped(stdout, 21, 96, f->advice);
}

static void print_text(const visit *v) {
    int counts[4] = {0};
    for (int64_t i = 0; i < v->findings.n; i++) {
        counts[v->findings.items[i].severity]++;
        print_finding(v, i);
    }
    printf("%d error%s, %d warning%s, %d note%s\n", counts[WEFT_FINDING_ERROR],
           counts[WEFT_FINDING_ERROR] == 1 ? "" : "s", counts[WEFT_FINDING_WARNING],
           counts[WEFT_FINDING_WARNING] == 1 ? "" : "s", counts[WEFT_FINDING_NOTE],
           counts[WEFT_FINDING_NOTE] == 1 ? "" : "s");
}

static void print_json_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 32 || c > 126)
            putchar('?');
        else
            putchar(c);
    }
    putchar('"');
}

static void print_json_peer(const weft_peer_facts *p) {
    static const char *const answers[] = {"connected", "refused", "silent", "unreachable",
                                          "unknown"};
    printf("{\"name\": ");
    print_json_text(p->name);
    printf(", \"address\": \"%s\", \"answer\": \"%s\", \"interface\": \"%s\", "
           "\"source\": \"%s\", \"port\": %lld, \"mtu\": %lld, \"path_mtu\": %lld, "
           "\"round_trip_s\": ",
           p->address, answers[p->answer], p->interface, p->source, (long long)p->port,
           (long long)p->mtu, (long long)p->path_mtu);
    if (p->round_trip_s >= 0)
        printf("%.6g}", p->round_trip_s);
    else
        printf("null}");
}

static weft_status print_json(weft_ctx *ctx, const visit *v) {
    printf("{\"ranks\": [");
    for (int r = 0; r < v->n_ranks; r++) {
        char *facts;
        WEFT_TRY(weft_doctor_facts_json(ctx, &v->all[r], &facts));
        printf("%s%s", r > 0 ? ", " : "", facts);
        weft_free(ctx, facts);
    }
    printf("], \"peers\": [");
    for (int i = 0; i < v->n_peers; i++) {
        if (i > 0) printf(", ");
        print_json_peer(&v->peers[i]);
    }
    printf("], \"findings\": [");
    for (int64_t i = 0; i < v->findings.n; i++) {
        const weft_finding *f = &v->findings.items[i];
        printf("%s{\"severity\": \"%s\", \"topic\": \"%s\", \"rank\": %lld, \"text\": ",
               i > 0 ? ", " : "", weft_severity_name(f->severity), f->topic,
               (long long)f->rank);
        print_json_text(f->text);
        printf(", \"advice\": ");
        print_json_text(f->advice);
        printf("}");
    }
    printf("]}\n");
    return WEFT_OK;
}

/* ---- the command ---- */

static weft_status reach_peers(weft_ctx *ctx, visit *v, int port, double timeout_s) {
    for (int i = 0; i < v->n_peers; i++) {
        v->peers[i].struct_size = sizeof v->peers[i];
        WEFT_TRY(weft_doctor_reach(ctx, v->names[i], port, timeout_s, &v->peers[i]));
    }
    return WEFT_OK;
}

static weft_status examine(weft_ctx *ctx, visit *v, weft_config *config) {
    weft_rank_facts mine = {.struct_size = sizeof mine};
    weft_doctor_options options = {.struct_size = sizeof options,
                                   .mesh = v->mesh,
                                   .config = config,
                                   .environment = (const char *const *)environ};
    for (int i = 0; i < v->n_peers && !options.toward; i++)
        if (v->peers[i].source[0] && !v->peers[i].loopback)
            options.toward = v->peers[i].address;
    WEFT_TRY(weft_doctor_examine(ctx, &options, &mine));
    WEFT_TRY(weft_doctor_gather(ctx, v->mesh, &mine, v->all));
    if (!v->leads) return WEFT_OK;
    WEFT_TRY(
        weft_doctor_judge(ctx, v->all, v->n_ranks, v->peers, v->n_peers, &v->findings));
    if (v->json) return print_json(ctx, v);
    print_text(v);
    return WEFT_OK;
}

static int verdict(const visit *v) {
    for (int64_t i = 0; i < v->findings.n; i++) {
        weft_severity severity = v->findings.items[i].severity;
        if (severity == WEFT_FINDING_ERROR) return CODE_FAILED;
        if (severity == WEFT_FINDING_WARNING && v->strict) return CODE_FAILED;
    }
    return CODE_OK;
}

static int read_flags(const args *a, visit *v, long long *port, double *timeout_s) {
    int code = args_plain(a, "--port", 1, 65535, port);
    v->json = args_has(a, "--json");
    v->quiet = args_has(a, "--quiet");
    v->strict = args_has(a, "--strict");
    if (code == CODE_OK)
        code = args_quantity(a, "--timeout", WEFT_UNIT_SECONDS, (interval){0.01, 3600},
                             timeout_s);
    if (code == CODE_OK && args_has(a, "--peers"))
        code = add_list(v, args_value(a, "--peers"));
    if (code == CODE_OK && args_has(a, "--hostfile"))
        code = add_file(v, args_value(a, "--hostfile"));
    return code;
}

/* Under mpirun every process takes part: gathers the facts of all. */
static weft_status meet(weft_ctx *ctx, const args *a, visit *v) {
    WEFT_TRY(mesh_of_args(ctx, a, &v->mesh));
    weft_mesh_facts facts = {.rank = 0, .size = 1};
    if (v->mesh) facts = *weft_mesh_look(v->mesh);
    v->leads = facts.rank == 0;
    v->n_ranks = facts.size;
    v->all = calloc((size_t)facts.size, sizeof *v->all);
    if (!v->all)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for %d ranks' facts",
                             facts.size);
    for (int r = 0; r < facts.size; r++) v->all[r].struct_size = sizeof v->all[r];
    v->findings.struct_size = sizeof v->findings;
    return WEFT_OK;
}

static int doctor(weft_ctx *ctx, const args *a, visit *v) {
    long long port = 22;
    double timeout_s = 3;
    weft_config *config = NULL;
    int code = read_flags(a, v, &port, &timeout_s);
    if (code != CODE_OK) return code;
    weft_status status = meet(ctx, a, v);
    if (status == WEFT_OK && a->n_operands > 0)
        status = config_on_mesh(ctx, a, v->mesh, &config);
    if (status == WEFT_OK && v->leads) status = reach_peers(ctx, v, (int)port, timeout_s);
    if (status == WEFT_OK) status = examine(ctx, v, config);
    code = leave_mesh(ctx, v->mesh, status, status == WEFT_OK ? verdict(v) : CODE_FAILED);
    weft_findings_clear(ctx, &v->findings);
    weft_config_destroy(ctx, config);
    free(v->all);
    return code;
}

static int run(weft_ctx *ctx, args *a) {
    visit *v = calloc(1, sizeof *v);
    int code = v ? doctor(ctx, a, v) : usage_error("no memory left to start");
    free(v);
    return code;
}

const command command_doctor = {
    .name = "doctor",
    .summary = "check these machines for problems that would disturb a run",
    .usage = "[run.yaml] [key=value ...] [--peers HOSTS] [flags]",
    .help =
        "Checks versions and binaries, the machine's own name, interfaces and the way "
        "to other machines, cores, pinning and load, control groups, memory, swap, "
        "disk, the clock, and settings of the environment that cause problems; with a "
        "run file also what the run needs. Each finding is one sentence, with the "
        "remedy after the arrow (docs/launching.md).\n\n"
        "Started by mpirun, mpiexec or srun, it compares the ranks: mpirun --host a,b "
        "weft doctor run.yaml.\n\n"
        "Exits with 0 if there is no error (with --strict: and no warning), else with "
        "1. It changes nothing, and sends nothing but a connection attempt to the peers.",
    .examples = "doctor\n"
                "doctor run.yaml\n"
                "doctor run.yaml --peers node2,node3\n"
                "doctor --hostfile hosts --port 2222\n"
                "doctor --json run.yaml",
    .flags = flags,
    .configures = true,
    .run = run,
};
