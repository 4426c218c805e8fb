/* SPDX-License-Identifier: MIT */
/* What a sync's next step depends on: parameters, the optimizer's and the replicators'
 * arrays, the mixer's arrays and numbers, and how many steps are done. As a stream:
 *
 *     "weft sync state 1\n"   18 bytes
 *     tensors, elements, arrays, numbers, step    int64 each, this machine's byte order
 *     each array:    its name in 64 bytes, then a part for every tensor
 *     numbers        double each
 *
 * Parts follow the tensors' own order, so a run with another mesh.min_message can read
 * them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mesh/elastic.h"
#include "loop/sync.h"

static const char magic[] = "weft sync state 1\n";
enum { NAME_BYTES = 64, SIZES = 5, MAGIC_BYTES = sizeof magic - 1 };

/* Array k, or NULL past the last. */
static float *array_at(const wefti_rank *r, int k, const char *owner_name[2]) {
    const char *const *names;
    owner_name[0] = "", owner_name[1] = "parameters";
    if (k-- == 0) return r->params;
    const wefti_optimizer_ops *ops = r->job->optimizer.ops;
    owner_name[0] = "optimizer.";
    if (k < ops->n_states)
        return owner_name[1] = ops->state_names[k], r->optimizer.state[k];
    k -= ops->n_states;
    const wefti_replicator *replicators[] = {r->replicator, r->site_replicator};
    for (int i = 0; i < 2 && replicators[i]; i++) {
        names = replicators[i]->ops->states(&replicators[i]->config);
        owner_name[0] = i == 0 ? "replicator." : "site_replicator.";
        if (k < replicators[i]->n_states)
            return owner_name[1] = names[k], replicators[i]->state[k];
        k -= replicators[i]->n_states;
    }
    if (k >= r->mixer->n_states) return NULL;
    names = r->mixer->ops->states(&r->mixer->config);
    owner_name[0] = "mixer.", owner_name[1] = names[k];
    return r->mixer->state[k];
}

float *weft_sync_state(weft_sync *s, int k, int i, const char **name) {
    const char *parts[2];
    float *flat = k >= 0 && s->rank ? array_at(s->rank, k, parts) : NULL;
    if (!flat || i < 0 || i >= s->setup.n_tensors) return NULL;
    snprintf(s->text.name, sizeof s->text.name, "%s%s", parts[0], parts[1]);
    *name = s->text.name;
    return flat + s->rank->arrangement->unit_offset[i];
}

const char *weft_sync_rule(const weft_sync *s, int i, bool *whole) {
    *whole = false;
    if (i < 0 || i >= s->setup.n_tensors) return NULL;
    *whole = wefti_job_moves_whole(s->job, i);
    return s->job->optimizer.rules[i].ops->name;
}

double *weft_sync_numbers(weft_sync *s, int *n) {
    *n = 0;
    if (!s->rank || !s->rank->mixer) return NULL; /* after a failure */
    *n = s->setup.uneven ? s->rows.n_window
                         : s->rank->mixer->n_known; /* mixers with some do not weigh */
    return s->setup.uneven ? s->rows.window : s->rank->mixer->known;
}

weft_status weft_sync_rest(weft_sync *s) {
    WEFT_TRY(wefti_sync_check_rest(s, "saving"));
    weft_status status = wefti_rank_control_early(s->rank, s->step);
    bool changed = s->elastic && wefti_elastic_interrupted(s->ctx, s->mesh, status);
    return changed ? WEFT_OK : status; /* the next world decides again */
}

static weft_status too_late(weft_sync *s, const char *what) {
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "%s after %lld steps; expected it before the first step", what,
                         (long long)s->step);
}

weft_status weft_sync_resume(weft_sync *s, int64_t step) {
    WEFT_TRY(wefti_sync_check_rest(s, "resuming"));
    const wefti_mixer *m = s->rank->mixer;
    if (s->primed) return too_late(s, "resuming");
    if (step < 0)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "resuming at step %lld, expected one from 0 on",
                             (long long)step);
    for (int i = 0; i < s->rows.n_window; i++)
        if (!(s->rows.window[i] >= 0 && s->rows.window[i] <= 0x1p53 &&
              s->rows.window[i] == floor(s->rows.window[i])))
            return weft_ctx_fail(
                s->ctx, WEFT_ERR_FORMAT,
                "a step before what was saved had %g rows, expected a whole number",
                s->rows.window[i]);
    for (int i = 0; i < m->n_known; i++)
        if (!(m->known[i] >= 0) ||
            (m->weights && m->known + i >= m->weights && !(m->known[i] > 0)))
            return weft_ctx_fail(s->ctx, WEFT_ERR_FORMAT,
                                 "number %d of the mixer is %g, expected one from 0 on, "
                                 "and a weight above 0",
                                 i, m->known[i]);
    s->step = s->counted = s->job->from.step = step;
    return WEFT_OK;
}

weft_status weft_sync_compare(weft_sync *s) {
    WEFT_TRY(wefti_sync_check_rest(s, "comparing"));
    bool compares = s->mesh && !s->elastic && !s->primed; /* else as membership starts */
    return compares ? wefti_sync_compare_steps(s) : WEFT_OK;
}

/* --- as a stream --- */

static int count_arrays(const weft_sync *s) {
    const char *parts[2];
    int n = 0;
    while (array_at(s->rank, n, parts)) n++;
    return n;
}

static void take_sizes(weft_sync *s, int64_t sizes[SIZES]) {
    int n;
    weft_sync_numbers(s, &n);
    const int64_t own[SIZES] = {s->setup.n_tensors, s->rank->arrangement->n_elements,
                                count_arrays(s), n, s->step};
    memcpy(sizes, own, sizeof own);
}

static size_t part_bytes(const weft_sync *s, int i) {
    return (size_t)s->job->model->units[i].n_elements * sizeof(float);
}

weft_status weft_sync_save(weft_sync *s, weft_sync_write write, void *user) {
    int64_t sizes[SIZES];
    const char *name;
    WEFT_TRY(weft_sync_rest(s));
    take_sizes(s, sizes);
    bool fine = write(user, magic, MAGIC_BYTES) && write(user, sizes, sizeof sizes);
    for (int k = 0; k < (int)sizes[2]; k++) {
        char label[NAME_BYTES] = "";
        if (weft_sync_state(s, k, 0, &name)) snprintf(label, sizeof label, "%s", name);
        fine = fine && write(user, label, sizeof label);
        for (int i = 0; i < s->setup.n_tensors && fine; i++)
            fine = write(user, weft_sync_state(s, k, i, &name), part_bytes(s, i));
    }
    int n;
    const double *numbers = weft_sync_numbers(s, &n);
    fine = fine && (n == 0 || write(user, numbers, (size_t)n * sizeof *numbers));
    if (fine) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_FILE, "the state could not be written");
}

static weft_status cut_short(weft_sync *s) {
    return weft_ctx_fail(s->ctx, WEFT_ERR_FORMAT,
                         "the saved state ends too early, or could not be read");
}

/* *n_numbers: 0 in a state that was saved when the mixer had none; then they stay. */
static weft_status read_head(weft_sync *s, weft_sync_read read, void *user,
                             int64_t *n_numbers, int64_t *step) {
    char opening[MAGIC_BYTES];
    int64_t found[SIZES], own[SIZES];
    if (!read(user, opening, sizeof opening)) return cut_short(s);
    if (memcmp(opening, magic, MAGIC_BYTES) != 0)
        return weft_ctx_fail(s->ctx, WEFT_ERR_FORMAT,
                             "what is read is no saved state: it does not begin with "
                             "'weft sync state 1'");
    if (!read(user, found, sizeof found)) return cut_short(s);
    take_sizes(s, own);
    *n_numbers = found[SIZES - 2];
    *step = found[SIZES - 1];
    bool fits = *n_numbers == own[SIZES - 2] || *n_numbers == 0;
    if (fits && memcmp(found, own, (SIZES - 2) * sizeof *own) == 0) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_FORMAT,
        "the saved state has %lld tensors, %lld elements, %lld arrays and %lld numbers; "
        "this model and method have %lld, %lld, %lld and %lld",
        (long long)found[0], (long long)found[1], (long long)found[2],
        (long long)found[3], (long long)own[0], (long long)own[1], (long long)own[2],
        (long long)own[3]);
}

static weft_status read_array(weft_sync *s, int k, weft_sync_read read, void *user) {
    char label[NAME_BYTES];
    const char *name;
    if (!read(user, label, sizeof label)) return cut_short(s);
    label[NAME_BYTES - 1] = '\0';
    if (weft_sync_state(s, k, 0, &name) && strcmp(name, label) != 0)
        return weft_ctx_fail(s->ctx, WEFT_ERR_FORMAT,
                             "array %d of the saved state is '%s', expected '%s'", k,
                             label, name);
    for (int i = 0; i < s->setup.n_tensors; i++)
        if (!read(user, weft_sync_state(s, k, i, &name), part_bytes(s, i)))
            return cut_short(s);
    return WEFT_OK;
}

weft_status weft_sync_load(weft_sync *s, weft_sync_read read, void *user) {
    int64_t step = 0, n_numbers = 0;
    int n;
    WEFT_TRY(wefti_sync_check_rest(s, "loading"));
    if (s->primed) return too_late(s, "loading");
    WEFT_TRY(read_head(s, read, user, &n_numbers, &step));
    for (int k = 0; k < count_arrays(s); k++) WEFT_TRY(read_array(s, k, read, user));
    double *numbers = weft_sync_numbers(s, &n);
    if (n_numbers > 0 && !read(user, numbers, (size_t)n * sizeof *numbers))
        return cut_short(s);
    return weft_sync_resume(s, step);
}
