/* SPDX-License-Identifier: MIT */
/* Environment variables that affect a run, and the variables of launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/examine.h"

static const char *value_of(const char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; environment && environment[i]; i++)
        if (strncmp(environment[i], name, n) == 0 && environment[i][n] == '=')
            return environment[i] + n + 1;
    return NULL;
}

static void take(const char *const *environment, const char *name, char *out,
                 size_t size) {
    const char *value = value_of(environment, name);
    wefti_set_text(out, size, value ? value : "");
}

static void number(const char *const *environment, const char *name, int64_t *out) {
    const char *value = value_of(environment, name);
    char *end;
    if (!value) return;
    long long n = strtoll(value, &end, 10);
    if (end != value && n >= 0) *out = n;
}

/* Reads the launcher's variables: rank, number of ranks, number of ranks on this machine. */
static void ask_launcher(const char *const *e, weft_rank_facts *facts) {
    static const char *const launchers[][4] = {
        {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
         "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
        {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"}};
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *const *names = launchers[i];
        if (!value_of(e, names[1]) || !value_of(e, names[2])) continue;
        wefti_set_text(facts->launcher, sizeof facts->launcher, names[0]);
        number(e, names[1], &facts->rank);
        number(e, names[2], &facts->size);
        number(e, names[3], &facts->ranks_here);
        return;
    }
}

/* Lists all settings of Open MPI that its launcher did not make itself, in one line. */
static void list_mca(const char *const *environment, weft_rank_facts *facts) {
    static const char prefix[] = "OMPI_MCA_";
    static const char *const launchers[] = {"orte_", "ess", "pmix", "initial_wdir",
                                            "mpi_oversubscribe"};
    size_t n = 0;
    for (int i = 0; environment && environment[i]; i++) {
        const char *name = environment[i] + sizeof prefix - 1;
        bool own = false;
        if (strncmp(environment[i], prefix, sizeof prefix - 1) != 0) continue;
        for (size_t k = 0; k < sizeof launchers / sizeof launchers[0]; k++)
            own |= strncmp(name, launchers[k], strlen(launchers[k])) == 0;
        if (own || n + 2 >= sizeof facts->mca) continue;
        int more = snprintf(facts->mca + n, sizeof facts->mca - n, "%s%s", n ? " " : "",
                            name);
        n += (size_t)more < sizeof facts->mca - n ? (size_t)more
                                                  : sizeof facts->mca - n - 1;
    }
}

void wefti_examine_environment(const char *const *environment, weft_rank_facts *facts) {
#define TAKE(name, field) take(environment, name, facts->field, sizeof facts->field)
    ask_launcher(environment, facts);
    TAKE("OPENBLAS_CORETYPE", openblas_coretype);
    TAKE("OPENBLAS_L2_SIZE", openblas_l2);
    TAKE("OPENBLAS_NUM_THREADS", openblas_threads);
    TAKE("OMP_NUM_THREADS", omp_threads);
    TAKE("OMP_PROC_BIND", omp_bind);
    TAKE("UCX_TLS", ucx_tls);
    TAKE("OMPI_MCA_btl", mca_btl);
    TAKE("OMPI_MCA_btl_tcp_if_include", mca_interface);
    list_mca(environment, facts);
#undef TAKE
}
