/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

#include <weft/train.h>

#include "config/value.h"
#include "checkpoint/lease.h"
#include "rank/bootstrap.h"
#include "runfiles/frozen.h"
#include "runfiles/journal.h"
#include "record/losses.h"
#include "runfiles/state.h"
#include "runfiles/viewlog.h"

/* Everything that is made before the ranks start, and shared by them. */
typedef struct wefti_prepared {
    weft_ctx *ctx; /* borrowed: what is here belongs to it */
    wefti_bootstrap bootstrap;
    weft_tokenizer *tokenizer; /* owned, like the next three */
    weft_chat *chat;           /* of prompts; or NULL; owned */
    weft_dataset *dataset;
    weft_config *config; /* borrowed: the configuration as the run began */
    wefti_job *job;
    weft_config *own_config; /* the job's, after a change of the world, or of the form
                                that was decided; or NULL */
    wefti_journal *journal;  /* of the leader */
    struct wefti_uploader *uploader; /* of the leader, with run.upload; or NULL; owned */
    wefti_viewlog *views; /* who takes part, in each process; NULL: not recorded */
    struct wefti_following *following; /* of the loop over steps; or NULL */
    bool
        follows; /* method was auto, and what it decided may change (train/following.h) */
    double most_loss, bytes_per_day; /* decide.* */
    wefti_busy busy;
    char decided[440];  /* what a process that joins hears of that; "": nothing */
    uint64_t checksum;  /* of this rank's parameters when it left its last world */
    wefti_lease *lease; /* of the leader: no other process writes the run folder */
    uint64_t lease_run; /* of the lease, also where the leader is another process */
    int64_t view;       /* of the members: this process's last one; 0: none yet */
    int n_late;         /* times that the disk refused that; last at late_s */
    double late_s;
    weft_step_record recent[WEFTI_RECENT]; /* a ring of the last steps, for lines that */
    int64_t
        latest; /* a lost first rank has not written, or a disk refused; the newest one */
    int64_t n_unsaved, unsaved_step; /* checkpoints that could not be written */
    bool joins;                      /* this process joins a run that is training */
    bool bare;                       /* and has no parameters and state yet */
    bool on_text;                    /* false: on generated tokens, and without files */
    bool finished;                   /* a resumed run with no step left */
    wefti_base base;                 /* owned: of a model that is trained in part */
    wefti_saved_layout saved;        /* step = -1: a new run */
    char saved_path[PATH_MAX];
    weft_run_summary summary;
    char texts[7][512]; /* the summary's */
    double gemm_flops, bigram_loss;
    wefti_arrangement **shards; /* [n_shards] owned; NULL: a node has one copy */
    int n_shards;
    int64_t
        own_micro; /* of this process's passes, where that is not to be the run's; 0: it is */
    int64_t said_micro;        /* batch.micro of the first rank */
    int64_t library_bytes;     /* that the BLAS library takes per thread, measured */
    double elapsed_s;          /* of the run before it was resumed */
    double exchange_s, wait_s; /* summed over steps by rank 0 */

    /* set when this rank left its last world (regroup.c) */
    int64_t next_row, state_bytes; /* of the text; of parameters and state */
    int64_t own_rows;              /* in a step, as its last world had them */
    double mean_rows;              /* of a rank, when the run began */
    int64_t steps_done; /* when membership changed last; after the last step: all */
    int64_t given;      /* if it was a learner: the parts of the state that it
                                      has */
    double step_s;      /* mean time of the last steps */
    double took_s;      /* of the last step, until it is taken; 0 */
    double join_s;      /* of a learner: predicted time until it takes part */
    int64_t join_bytes; /* and the bytes that it gets until then */
} wefti_prepared;

typedef enum wefti_prepare_as {
    WEFTI_PREPARE_RUN,
    WEFTI_PREPARE_RESUMED, /* goes on from the run folder's newest checkpoint */
    WEFTI_PREPARE_BENCH, /* without text and files: tokens are made (dataset, tokenizer and
                              journal stay NULL) */
    WEFTI_PREPARE_JOINER, /* joins a run that is training: opens the text and makes a job, alone;
                              the others tell it the real job when it is a member (regroup.h) */
    WEFTI_PREPARE_REPLAY /* opens text and job, and writes nothing into the run folder; saved: its
                              newest complete checkpoint */
} wefti_prepare_as;

/* Opens the text, makes the job, checks the memory, opens the run folder. *out is NULL
 * on failure. Collective over the mesh, if there is one. */
weft_status wefti_prepare(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                          wefti_prepare_as as, wefti_prepared **out) WEFT_CHECKED;

/* A part of it: learns the tokenizer of data.tokenizer=bpe from the texts. The caller owns *out. */
weft_status wefti_prepare_bpe(weft_ctx *ctx, const weft_config *config,
                              weft_tokenizer **out) WEFT_CHECKED;

/* A part of it, in rundata.c: opens the run's rows into p->dataset, and the chat template that they
 * need into p->chat. Called after the tokenizer is open. Measures the bigram baseline where there
 * is one. */
weft_status wefti_rundata_open(weft_ctx *ctx, weft_config *config,
                               wefti_prepared *p) WEFT_CHECKED;

/* A part of it, in passroom.c: makes passes that have room, one rank of which takes as much as `f`
 * says; agrees on those of all processes. */
weft_status wefti_passroom_take(weft_ctx *ctx, wefti_prepared *p,
                                wefti_footprint *f) WEFT_CHECKED;

/* Writes config.yaml and opens the journal, as the run's first rank does. */
weft_status wefti_prepared_write(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* The parameters and state with which a rank begins: the checkpoint's, those of model.init or
 * adapter.init, else drawn. Collective. */
weft_status wefti_prepared_fill(const wefti_prepared *p, wefti_rank *r) WEFT_CHECKED;
weft_status wefti_load_initial(wefti_rank *r,
                               const char *path) WEFT_CHECKED; /* model.init's */

/* Closes the journal and frees everything; NULL is accepted. */
weft_status wefti_prepared_destroy(weft_ctx *ctx, wefti_prepared *prepared) WEFT_CHECKED;
