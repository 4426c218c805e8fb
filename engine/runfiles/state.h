/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tokenizer.h>

#include "checkpoint/lease.h"
#include "checkpoint/safetensors.h"
#include "job/job.h"
#include "mix/mixer.h"
#include "rank/bootstrap.h"

typedef struct wefti_rank wefti_rank; /* rank/rank.h */

/* A training run's state <-> a checkpoint folder (docs/file-formats.md):
 *
 *     model.safetensors, config.json   the model under Hugging Face names
 *     tokenizer.json
 *     optimizer.safetensors            "m.<name>", "v.<name>": the same on all replicas
 *     replica-<n>.safetensors          what differs between replicas: of the replicators
 *                                      "replicator.momentum.<name>"; with a mixer also
 *                                      "parameters.<name>", "optimizer.m.<name>", and the
 *                                      mixer's own
 *     index.json                       sizes, hashes, and the layout below
 *
 * With a mixer model.safetensors holds the mean of the replicas.
 *
 * Every tensor is stored whole, so any number of ranks per node reads its row blocks. */

/* Largest number of values of a mixer (mix/mixer.h: known): decisions, and a weight per
 * replica. */
enum { WEFTI_MAX_KNOWN = WEFTI_CONTROL_STEPS + 1024 };

/* What index.json keeps under "layout". */
typedef struct wefti_saved_layout {
    int64_t step; /* steps done */
    int64_t rows; /* training rows consumed */
    int64_t replicas;
    int64_t seed, parameters;
    uint64_t data; /* weft_dataset_hash; 0: not known */
    char optimizer[32], replicator[32], site_replicator[32], mixer[32];
    int n_known; /* of the mixer; used by a run that has the same number */
    double known[WEFTI_MAX_KNOWN];
} wefti_saved_layout;

/* What a checkpoint holds beside the model; both borrowed. */
typedef struct wefti_wording {
    const weft_tokenizer *tokenizer;
    const weft_chat *chat; /* NULL: none */
} wefti_wording;

/* A checkpoint under <folder>/checkpoints, after `step` steps. */
typedef struct wefti_saving {
    const char *folder;
    wefti_wording wording;
    int64_t step;
    weft_status
        ready; /* WEFT_ERR_FILE: this rank can not write it, as its context says */
    const wefti_lease *lease; /* without which rank 0 completes nothing; or NULL */
} wefti_saving;

/* Saves; the files of processes that do not see the leader's folder are sent to it. If a disk
 * refuses something on any rank, *saved is false on all, nothing is left of it, and the
 * context of the rank that failed says why. Collective. */
weft_status wefti_state_save(wefti_rank *r, wefti_bootstrap *bootstrap,
                             const wefti_saving *what, bool *saved) WEFT_CHECKED;

/* Writes all rows of a parameter to where the file's tensor has them. */
weft_status wefti_state_write_param(weft_ctx *ctx, wefti_safetensors *file,
                                    const wefti_param *param,
                                    const float *data) WEFT_CHECKED;

/* Finds the newest checkpoint of a run folder whose bytes are all correct; damaged ones
 * are skipped with a warning and, by the folder's writer, set aside. saved->step = -1 if
 * there is none of a step below `before`. [out] path: at least PATH_MAX. Not collective. */
weft_status wefti_state_find(weft_ctx *ctx, const char *folder, bool writer,
                             int64_t before, wefti_saved_layout *saved,
                             char *path) WEFT_CHECKED;

/* Checks that the job's run can continue from there: the same replicator, optimizer, seed
 * and model. Writes nothing. Not collective. */
weft_status wefti_state_check(weft_ctx *ctx, const wefti_job *job,
                              const wefti_saved_layout *saved,
                              const char *path) WEFT_CHECKED;

/* Reads parameters and all state of this rank. If another number of replicas was saved,
 * each one starts with their mean. Not collective. */
weft_status wefti_state_load(wefti_rank *r, const wefti_saved_layout *saved,
                             const char *path) WEFT_CHECKED;

/* Finds the folder with the model: `path` itself, verified if it is a checkpoint, or the
 * newest checkpoint of the run folder `path`. [out] folder: at least PATH_MAX. Not
 * collective. */
weft_status wefti_state_locate(weft_ctx *ctx, const char *path,
                               char *folder) WEFT_CHECKED;

/* Reads the parameters alone, from any folder with a model.safetensors. Not collective.
 */
weft_status wefti_state_load_model(wefti_rank *r, const char *path) WEFT_CHECKED;
