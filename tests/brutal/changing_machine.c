/* SPDX-License-Identifier: MIT */
/* What a run with method=auto changes to, and who dies then, for cli/changes: linked in front of
 * what a rank calls before it sends its status, and of what makes the mean of the states behind
 * outer steps.
 *
 *     WEFT_CHANGES="20 outer f32 5 0.4;40 full f32"   before steps 21 and 41
 *     WEFT_DIES=mean       before this process sends anything of that mean
 *     WEFT_DIES=barrier    when it has the mean, and the others may have it */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/all_reduce.h"
#include "job/form.h"
#include "mix/mixer.h"
#include "rank/rank.h"

weft_status __real_wefti_rank_check_loss(wefti_rank *r);
weft_status __wrap_wefti_rank_check_loss(wefti_rank *r);
weft_status __real_wefti_all_reduce_create(const wefti_all_reduce_setup *setup,
                                           wefti_all_reduce **out);
weft_status __wrap_wefti_all_reduce_create(const wefti_all_reduce_setup *setup,
                                           wefti_all_reduce **out);
weft_status __real_wefti_comm_barrier(wefti_comm *comm, int64_t tag);
weft_status __wrap_wefti_comm_barrier(wefti_comm *comm, int64_t tag);

static bool outer_before, averages;

static void die(const char *where) {
    const char *dies = getenv("WEFT_DIES");
    if (dies && strcmp(dies, where) == 0) raise(SIGKILL);
}

/* The form that is asked for in this step's status, or 0. */
static int64_t asked(int64_t step) {
    char text[WEFTI_FORM_TEXT];
    long long first;
    wefti_form form;
    const char *at = getenv("WEFT_CHANGES");
    for (int n = 0; at && sscanf(at, "%lld %63[^;]%n", &first, text, &n) == 2;
         at += n + (at[n] == ';'))
        if (step + 1 == first && wefti_form_read(text, &form))
            return wefti_form_code(&form);
    return 0;
}

weft_status __wrap_wefti_rank_check_loss(wefti_rank *r) {
    if (getenv("WEFT_CHANGES")) r->says.form = r->rank == 0 ? asked(r->step) : 0;
    outer_before = !r->job->replicas_equal;
    return __real_wefti_rank_check_loss(r);
}

/* Alone between two steps, of f32, and behind outer ones. */
weft_status __wrap_wefti_all_reduce_create(const wefti_all_reduce_setup *setup,
                                           wefti_all_reduce **out) {
    averages = outer_before && setup->stage == WEFTI_MIXER_STAGE &&
               setup->n_vectors <= WEFTI_OPTIMIZER_STATES;
    if (averages) die("mean");
    return __real_wefti_all_reduce_create(setup, out);
}

weft_status __wrap_wefti_comm_barrier(wefti_comm *comm, int64_t tag) {
    if (averages) die("barrier");
    averages = false;
    return __real_wefti_comm_barrier(comm, tag);
}
