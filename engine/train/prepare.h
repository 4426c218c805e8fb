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
    weft_tokenizer *tokenizer; /* owned, like the next two */
    weft_chat *chat;           /* of prompts; or NULL */
    weft_dataset *dataset;     /* NULL: on generated tokens, and without files */
    weft_config *config;       /* borrowed: the configuration as the run began */
    wefti_job *job;
    weft_config *own_config;    /* the job's, after a change of the world, or of the form
                                that was decided; or NULL */
    wefti_base base;            /* owned: of a model that is trained in part */
    wefti_arrangement **shards; /* [S] owned; NULL: a node has one copy */
    wefti_viewlog *views;       /* who takes part, in each process; NULL: not recorded */
    bool joins;                 /* this process joins a run that is training */
    bool bare;                  /* and has no parameters and state yet */

    /* With what it begins. */
    wefti_saved_layout saved; /* step = -1: a new run */
    char saved_path[PATH_MAX];
    weft_run_summary summary;
    char texts[7][512]; /* the summary's */
    double bigram_loss;
    double elapsed_s;      /* of the run before it was resumed */
    int64_t library_bytes; /* that the BLAS library takes per thread, measured */

    /* Where method was auto: what it decided, which may change (train/following.h). */
    struct {
        struct wefti_following *following; /* of the loop over steps; or NULL */
        bool follows;
        double loss, bytes_per_day; /* decide.* */
        wefti_busy busy;
        char text[440]; /* what a process that joins hears of it; "": nothing */
    } choice;

    /* The leader's, which writes the run folder. */
    struct {
        wefti_journal *journal;
        struct wefti_uploader *uploader; /* with run.upload; or NULL; owned */
        wefti_lease *lease;              /* no other process writes there */
        uint64_t run; /* of the lease, also where the leader is another process */
        int n_late;   /* times that the disk refused it; last at late_s */
        double late_s;
        char late_why[200];              /* what it said */
        int64_t n_unsaved, unsaved_step; /* checkpoints that could not be written */
        /* A ring of the last steps, for lines that a lost first rank has not written, or a disk
         * refused; the newest of them. */
        weft_step_record recent[WEFTI_RECENT];
        int64_t latest;
    } files;

    /* Sequences. */
    struct {
        int64_t own; /* of this process's passes, where that is not the run's; 0: it is */
        int64_t base; /* batch.micro of the first rank */
        double mean;  /* of a rank's step, when the run began */
    } rows;

    /* The world that this rank is in. */
    struct {
        int64_t view;  /* of the members; 0: none yet */
        int64_t done;  /* steps when membership changed last; after the last step: all */
        double join_s; /* of a learner: predicted time until it takes part */
        int64_t join_bytes; /* and the bytes that it gets until then */
        bool stops; /* its members have agreed to stop, which who comes has not heard */
    } world;

    struct {
        double mean_s; /* of the last steps */
        double took_s; /* of the last step, until it is taken; 0 */
    } step;
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
