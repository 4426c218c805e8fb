/* SPDX-License-Identifier: MIT */
/* Environment variables that slow a run down or prevent it from starting:
 *
 *     OPENBLAS_CORETYPE, OPENBLAS_L2_SIZE    kernels of an older processor: half the speed
 *     OMP_NUM_THREADS, OMP_PROC_BIND         threads that weft assigns itself, or cores that
 *                                            several ranks are bound to
 *     UCX_TLS, OMPI_MCA_btl                  lists of transports without the one to other hosts
 *     OMPI_MCA_btl_tcp_if_include            an interface that this machine does not have
 *
 * Such a variable is set once in a profile and forgotten, and it causes no error message. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "doctor/judge.h"

/* OpenBLAS's names of processor types, and the instructions that their kernels use. */
typedef struct core_type {
    const char *name;
    int level; /* as weft_rank_facts.instructions */
} core_type;

static const core_type core_types[] = {
    {"Prescott", 0},    {"Core2", 0},       {"Penryn", 0},         {"Dunnington", 0},
    {"Nehalem", 0},     {"Athlon", 0},      {"Opteron", 0},        {"Opteron_SSE3", 0},
    {"Barcelona", 0},   {"Bobcat", 0},      {"Atom", 0},           {"Nano", 0},
    {"Generic", 0},     {"Katmai", 0},      {"Coppermine", 0},     {"Northwood", 0},
    {"Banias", 0},      {"Sandybridge", 1}, {"Bulldozer", 1},      {"Piledriver", 1},
    {"Steamroller", 1}, {"Excavator", 2},   {"Haswell", 2},        {"Zen", 2},
    {"SkylakeX", 3},    {"Cooperlake", 3},  {"Sapphirerapids", 3},
};

static int level_of(const char *name) {
    for (size_t i = 0; i < sizeof core_types / sizeof core_types[0]; i++)
        if (strcasecmp(core_types[i].name, name) == 0) return core_types[i].level;
    return -1;
}

const char *wefti_blas_trap(const weft_rank_facts *f, char *out, size_t size) {
    static const char *const sets[] = {"SSE", "AVX", "AVX2", "AVX-512"};
    int set = level_of(f->openblas_coretype);
    int64_t has = f->instructions < 4 ? f->instructions : 3; /* AMX is not for f32 */
    out[0] = '\0';
    if (f->openblas_coretype[0] && set >= 0 && set < has)
        snprintf(out, size,
                 "OPENBLAS_CORETYPE=%s makes OpenBLAS use %s though the processor has "
                 "%s: matrix products run at about half their speed; unset it",
                 f->openblas_coretype, sets[set], sets[has]);
    else if (f->openblas_coretype[0] && set < 0)
        snprintf(out, size,
                 "OPENBLAS_CORETYPE=%s is no processor that OpenBLAS is known to have; "
                 "unset it",
                 f->openblas_coretype);
    else if (f->openblas_l2[0])
        snprintf(out, size,
                 "OPENBLAS_L2_SIZE=%s overrides the cache size that OpenBLAS found, and "
                 "with it how it cuts matrices; unset it",
                 f->openblas_l2);
    return out;
}

static void judge_blas(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    char sentence[384];
    if (wefti_blas_trap(f, sentence, sizeof sentence)[0])
        wefti_find(j, WEFT_FINDING_WARNING, "environment", r,
                   "unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE before starting, on every "
                   "machine (mpirun passes some variables on, ssh others)",
                   "%s: %s", wefti_place(j, r), sentence);
    if (f->openblas_threads[0] || f->omp_threads[0])
        wefti_find(j, WEFT_FINDING_NOTE, "environment", r,
                   "set mesh.threads instead: weft starts its threads itself, and gives "
                   "each the number that the configuration says",
                   "%s: %s=%s is set", wefti_place(j, r),
                   f->omp_threads[0] ? "OMP_NUM_THREADS" : "OPENBLAS_NUM_THREADS",
                   f->omp_threads[0] ? f->omp_threads : f->openblas_threads);
    bool binds = f->omp_bind[0] && strcasecmp(f->omp_bind, "false") != 0;
    if (binds && (f->process_ranks > 1 || f->ranks_here > 1))
        wefti_find(j, WEFT_FINDING_WARNING, "environment", r,
                   "unset OMP_PROC_BIND and OMP_PLACES",
                   "%s: OMP_PROC_BIND=%s binds the threads of several ranks to the same "
                   "cores",
                   wefti_place(j, r), f->omp_bind);
}

/* Whether a list "a,b:x,c" has an item of that name. */
static bool has_item(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *item = list; item; item = strchr(item, ',')) {
        item += *item == ',';
        if (strncmp(item, name, n) == 0 && strchr(",:/", item[n])) return true;
    }
    return false;
}

static void judge_transports(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    static const char *const ways[] = {"tcp", "all",  "ib",   "rc", "rc_x", "rc_v",
                                       "ud",  "ud_x", "ud_v", "dc", "dc_x"};
    bool ucx = f->ucx_tls[0] == '\0' || f->ucx_tls[0] == '^';
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        ucx |= has_item(f->ucx_tls, ways[i]);
    if (!ucx)
        wefti_find(j, j->several ? WEFT_FINDING_ERROR : WEFT_FINDING_NOTE, "environment",
                   r, "add tcp: UCX_TLS=tcp,self,sm",
                   "%s: UCX_TLS=%s knows no way to another machine", wefti_place(j, r),
                   f->ucx_tls);
    if (!f->mca_btl[0] || f->mca_btl[0] == '^') return;
    bool far = has_item(f->mca_btl, "tcp") || has_item(f->mca_btl, "openib") ||
               has_item(f->mca_btl, "ofi") || has_item(f->mca_btl, "uct");
    if (!has_item(f->mca_btl, "self"))
        wefti_find(
            j, WEFT_FINDING_ERROR, "environment", r,
            "add self: OMPI_MCA_btl=tcp,vader,self",
            "%s: OMPI_MCA_btl=%s lacks self, without which Open MPI does not start",
            wefti_place(j, r), f->mca_btl);
    if (!far)
        wefti_find(j, j->several ? WEFT_FINDING_ERROR : WEFT_FINDING_NOTE, "environment",
                   r, "add tcp: OMPI_MCA_btl=tcp,vader,self",
                   "%s: OMPI_MCA_btl=%s knows no way to another machine",
                   wefti_place(j, r), f->mca_btl);
}

/* "eth0 10.0.0.1 mtu 1500, eth1 ...": whether an interface of that name is listed. */
static bool has_interface(const char *list, const char *name, size_t n) {
    for (const char *item = list; item; item = strstr(item, ", ")) {
        item += item[0] == ',' ? 2 : 0;
        if (strncmp(item, name, n) == 0 && item[n] == ' ') return true;
    }
    return false;
}

/* Judges the interfaces that are named for Open MPI. Networks such as 10.0.0.0/24 are not
 * checked. */
static void judge_interfaces(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    const char *item = f->mca_interface;
    while (*item) {
        size_t n = strcspn(item, ",");
        bool network = memchr(item, '/', n) != NULL;
        bool loopback = n == 2 && strncmp(item, "lo", 2) == 0;
        if (n > 0 && !network && !loopback && !has_interface(f->interfaces, item, n))
            wefti_find(j, WEFT_FINDING_ERROR, "environment", r,
                       "name an interface that every machine has, or a network: "
                       "OMPI_MCA_btl_tcp_if_include=10.0.0.0/24",
                       "%s: OMPI_MCA_btl_tcp_if_include names %.*s, which is not among "
                       "its interfaces (%s)",
                       wefti_place(j, r), (int)n, item,
                       f->interfaces[0] ? f->interfaces : "none but loopback");
        item += n + (item[n] == ',');
    }
}

static void compare_settings(wefti_judge *j) {
    for (int64_t r = 1; r < j->n_ranks; r++) {
        const weft_rank_facts *a = &j->ranks[0], *b = &j->ranks[r];
        bool ucx = !wefti_is(a->ucx_tls, b->ucx_tls), mca = !wefti_is(a->mca, b->mca);
        if (!ucx && !mca) continue;
        wefti_find(
            j, WEFT_FINDING_WARNING, "environment", r,
            "give settings to mpirun (--mca NAME VALUE, -x NAME, -genv NAME VALUE), "
            "which passes them to all ranks",
            "rank 0 has %s=%s and rank %lld (%s) has %s", ucx ? "UCX_TLS" : "OMPI_MCA",
            ucx ? a->ucx_tls : a->mca, (long long)r, b->host, ucx ? b->ucx_tls : b->mca);
        return;
    }
}

void wefti_judge_environment(wefti_judge *j) {
    int64_t before = j->out->n;
    for (int64_t r = 0; r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r)) continue;
        judge_blas(j, r);
        judge_transports(j, r);
        judge_interfaces(j, r);
        if (j->ranks[r].mca[0])
            wefti_find(j, WEFT_FINDING_NOTE, "environment", r, NULL,
                       "%s: settings of Open MPI: %s", wefti_place(j, r),
                       j->ranks[r].mca);
    }
    compare_settings(j);
    if (j->out->n == before)
        wefti_find(j, WEFT_FINDING_OK, "environment", -1, NULL,
                   "no setting of the environment gets in the way");
}
