/* SPDX-License-Identifier: MIT */
/* Collects a process's facts. */
#include "base/sized.h"
#include "doctor/examine.h"

#include <string.h>

#include <weft/version.h>

#include "base/machine.h"
#include "doctor/fact_fields.h"
#include "doctor/judge.h"

static void know_nothing(weft_rank_facts *facts) {
    *facts = (weft_rank_facts){.struct_size = sizeof(weft_rank_facts)};
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) {
        char *value = (char *)facts + f->offset;
        if (f->kind == WEFTI_FIELD_WHOLE) memcpy(value, &(int64_t){-1}, sizeof(int64_t));
        if (f->kind == WEFTI_FIELD_REAL) memcpy(value, &(double){-1}, sizeof(double));
    }
    facts->has_run = 0;
    facts->rank = 0;
    facts->size = facts->ranks_here = facts->process_ranks = 1;
    facts->clock_offset_s = facts->clock_offset_error_s = 0;
}

static weft_status examine(weft_ctx *ctx, const weft_doctor_options *options,
                           weft_rank_facts *out) {
    know_nothing(out);
    wefti_set_text(out->version, sizeof out->version, weft_version());
    wefti_examine_environment(options->environment, out);
    if (options->mesh) {
        weft_mesh_facts mesh = *weft_mesh_look(options->mesh);
        out->rank = mesh.rank;
        out->size = mesh.size;
        out->ranks_here = mesh.ranks_here;
        wefti_set_text(out->mpi, sizeof out->mpi, mesh.version);
    }
    wefti_examine_machine(options->root, out);
    wefti_group_limits limits = wefti_groups_look(options->root);
    out->memory_limit_bytes = limits.memory_bytes;
    out->memory_limit_used_bytes = limits.memory_used_bytes;
    out->cpu_quota = limits.cpu_quota;
    wefti_examine_network(options, out);
    wefti_examine_software(ctx, out);
    return options->config ? wefti_examine_run(ctx, options, out) : WEFT_OK;
}

weft_status weft_doctor_examine(weft_ctx *ctx, const weft_doctor_options *options,
                                weft_rank_facts *out) {
    WEFTI_SIZED_IN(ctx, weft_doctor_options, options);
    WEFTI_SIZED_OUT(ctx, weft_rank_facts, out);
    return WEFTI_SIZED_GIVE(weft_rank_facts, out, examine(ctx, options, out));
}

const char *weft_doctor_blas_trap(const char *const *environment, char *out,
                                  size_t out_size) {
    weft_rank_facts facts = {.struct_size = sizeof facts};
    know_nothing(&facts);
    facts.instructions = wefti_instructions();
    wefti_examine_environment(environment, &facts);
    return wefti_blas_trap(&facts, out, out_size);
}
