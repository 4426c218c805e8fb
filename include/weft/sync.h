/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/config.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For a training loop of your own: you compute gradients, weft exchanges them, optimizes
 * and mixes with whatever method the configuration names. Every process holds a whole
 * copy of the parameters, or the same part of it as its peers in the other copies.
 *
 *     create -> fill in parameters -> begin
 *     each step: read parameters, write gradients; step
 *     average -> read parameters -> destroy
 *
 * Calls are made by one thread at a time. Those marked "collective" are made by all ranks
 * of the mesh in the same order. After a failure only destroy makes sense (and
 * weft_mesh_fail, so that the others hear of it). A child that fork() makes of the process
 * has no part in it: there calls fail with a sentence, and destroy does nothing. */
typedef struct weft_sync weft_sync;

/* A matrix of rows x cols; a vector of n elements is n x 1, and 1 x n is taken for it,
 * but not where rows are a shard's. */
typedef struct weft_sync_tensor {
    const char *name; /* for messages, and states; at most 95 bytes */
    int64_t rows, cols;
    bool decays; /* optimizer.weight_decay acts on it */
} weft_sync_tensor;

/* What a step did. */
typedef struct weft_sync_report {
    int64_t step;            /* steps done */
    double lr;               /* that it was done with */
    double loss;             /* mean of all ranks' in step loss_step; NAN: none known yet.
                               Gossip, which waits for neighbours only, knows eight steps
                               later */
    int64_t loss_step;       /* steps done then */
    int64_t wire_bytes_out;  /* payload that this rank sent to other nodes, */
    int64_t local_bytes_out; /* and inside its own */
    double exchange_s;       /* that exchanging was under way, or worked on */
    double wait_s;           /* that it held this thread up: the rest was hidden */
    bool skipped;            /* some rank asked to: nothing was exchanged, nothing moved,
                               and the step was not counted */
    int processes;           /* that took part: fewer where some were lost (setup.elastic) */
} weft_sync_report;

/* All that a sync is made of. Zeros are defaults. */
typedef struct weft_sync_setup {
    weft_mesh *mesh;           /* borrowed; NULL: this process alone */
    const weft_config *config; /* borrowed, finished */
    const weft_sync_tensor *tensors;
    int n_tensors;
    bool endless; /* run.steps does not count: steps go on until destroy */
    bool outside; /* the caller has an optimizer: weft_sync_agree, weft_sync_mix */
    bool
        skips; /* any rank may call weft_sync_skip; exchanges then wait until all agree */
    bool writes; /* the caller sets every gradient in every step: what a step leaves in
                     them is anything, not zero (so weft_sync_give, which adds, is not
                     for it) */
    /* The caller keeps the momentum and compresses, where its tensors lie (on an accelerator,
     * say), for replicators that choose numbers by themselves (demo, topk): weft_sync_offer
     * in place of gradients and of weft_sync_ready. Needs outside, and replicator.every = 1. */
    bool compressed;
    /* mesh.shards ranks, neighbours in number, share a copy: rank = copy x mesh.shards +
     * shard. Tensors are this rank's rows of them, cut as the caller likes, but alike in
     * all copies; there may be none (rows = 0). Gradients are of the mean over the copy's
     * examples. */
    bool sharded;
    /* Goes on with those who are left when processes are lost, and takes in who comes
     * (weft_mesh_enter), where docs/membership.md says that a run can: over TCP, one copy of the
     * model a node, mesh.on_loss=go_on, without skips (weft_sync_goes_on). Processes that share a
     * copy are lost together. Its mesh serves no other sync. */
    bool elastic;
    /* What the program keeps beside the tensors, an optimizer of its own or a schedule: bytes that
     * a process which comes gets from one that is there. pack is called in weft_sync_open, or what
     * opens a step, and its bytes are borrowed until the next call; unpack in weft_sync_begin.
     * NULL, false: that can not be done, and the call fails. Both NULL: there is nothing. */
    const void *(*pack)(void *user, size_t *n_bytes);
    bool (*unpack)(void *user, const void *bytes, size_t n_bytes);
    /* Where parameters and gradients lie; both are [all tensors' elements] floats. NULL:
     * memory of weft's. take returns NULL if there is none. */
    void *(*take)(void *user, size_t n_bytes);
    void (*give)(void *user, void *block);
    void *user;
} weft_sync_setup;

/* `config` gives method, mesh, optimizer, schedule and run.steps; data, model and batch
 * do not count. Tensors are exchanged in the order from the last to the first, as
 * backward passes finish them; names are copied. [out] *out owned by the caller; NULL on
 * failure. */
WEFT_API weft_status weft_sync_create_from(weft_ctx *ctx, const weft_sync_setup *setup,
                                           weft_sync **out) WEFT_CHECKED;

/* The same with defaults for all else. */
WEFT_API weft_status weft_sync_create(weft_ctx *ctx, weft_mesh *mesh,
                                      const weft_config *config,
                                      const weft_sync_tensor *tensors, int n_tensors,
                                      weft_sync **out) WEFT_CHECKED;
WEFT_API void weft_sync_destroy(weft_sync *sync);

/* [rows,cols] of tensor i, row by row. Parameters may be written before begin; gradients
 * are zero after begin and after each step (but setup.writes), and are of the mean over
 * this rank's own examples. NULL if there is no such tensor. */
WEFT_API float *weft_sync_parameters(weft_sync *sync, int i);
WEFT_API float *weft_sync_gradients(weft_sync *sync, int i);

/* Steps that are done, those before this process came among them. */
WEFT_API int64_t weft_sync_steps(const weft_sync *sync);

/* Number types of a caller's own tensors. */
typedef enum weft_type { WEFT_F32, WEFT_BF16, WEFT_F16 } weft_type;

/* gradients of tensor i += scale x what lies at `from`, [rows,cols] without gaps. */
WEFT_API weft_status weft_sync_give(weft_sync *sync, int i, const void *from,
                                    weft_type type, double scale) WEFT_CHECKED;

/* The parameters of tensor i, rounded to the nearest. */
WEFT_API weft_status weft_sync_take(weft_sync *sync, int i, void *to,
                                    weft_type type) WEFT_CHECKED;

/* Rank 0's parameters become everybody's (of shards: the first copy's). Ranks whose
 * tensors have other names or sizes are an error. Collective. With a mesh of weft_mesh_enter: waits
 * until the others take this process in, before one of their steps, and gets parameters, state and
 * the number of steps done (weft_sync_steps) from them. */
WEFT_API weft_status weft_sync_begin(weft_sync *sync) WEFT_CHECKED;

/* The learning rate from now on, in place of the schedule's. Before the first
 * weft_sync_ready of a step. The same on all ranks. */
WEFT_API weft_status weft_sync_set_rate(weft_sync *sync, double lr) WEFT_CHECKED;

/* Tensor i's own factor of the learning rate and its own weight decay, when the optimizer
 * is weft's; before the first weft_sync_ready of a step. */
WEFT_API weft_status weft_sync_set_tensor(weft_sync *sync, int i, double lr_scale,
                                          double weight_decay) WEFT_CHECKED;

/* Computing of the next step begins: lets gossip answer others meanwhile. May be left
 * out: then the first weft_sync_ready says so. Not collective. */
WEFT_API weft_status weft_sync_open(weft_sync *sync) WEFT_CHECKED;

/* Whether lost processes are gone on without (setup.elastic). Who is lost in a step has counted in
 * it or not, for all alike; the step after it opens among those who are left, where parameters,
 * gradients and state lie as before. A process that ends earlier than the others is lost, too. */
WEFT_API bool weft_sync_goes_on(const weft_sync *sync);

/* This process's number among those that take part in the step under way, and [out] how many they
 * are; -1 and 0 after a failure that left nothing to go on with. */
WEFT_API int weft_sync_rank(const weft_sync *sync, int *size);

/* Who was lost, and who has come, since it was last asked, in one sentence; NULL: nobody. Lives
 * until the next call. */
WEFT_API const char *weft_sync_change(weft_sync *sync);

/* Tensor i's gradient is complete for this step: its exchange may begin while others are
 * computed. May be left out. Not collective. */
WEFT_API weft_status weft_sync_ready(weft_sync *sync, int i) WEFT_CHECKED;

/* What a caller that compresses offers of tensor i: k numbers of each of n_chunks chunks of
 * `elements` numbers, as docs/methods.md section 3 cuts them; or, `whole`, all its numbers in
 * their order, not transformed, as one chunk. */
typedef struct weft_sync_offer_shape {
    int64_t n_chunks, k, elements;
    bool whole;
} weft_sync_offer_shape;
WEFT_API weft_status weft_sync_shape_of_offer(weft_sync *sync, int i,
                                              weft_sync_offer_shape *shape) WEFT_CHECKED;

/* Tensor i is ready, and these are its numbers: [n_chunks][k], places ascending inside a
 * chunk (NULL if it is sent whole). Both are borrowed until the step is agreed;
 * values are then what the others decode, which differs where replicator.values is not
 * f32: the momentum loses that. Not collective. */
WEFT_API weft_status weft_sync_offer(weft_sync *sync, int i, int32_t *places,
                                     float *values) WEFT_CHECKED;

/* Between agree and mix, or once weft_sync_wait_any has named tensor i: signs of its direction,
 * a bit for each of its n elements in `below` and one in `moves`, [(n+7)/8] bytes each; bit
 * e % 8 of byte e / 8. The direction is 0 where moves is 0, else -1 where below is 1, else 1.
 * *sound is false if the direction has what is not a number. */
WEFT_API weft_status weft_sync_signs(weft_sync *sync, int i, unsigned char *below,
                                     unsigned char *moves, bool *sound) WEFT_CHECKED;

/* This rank wants the step under way to be skipped by all (an infinite gradient in 16
 * bits, say). Needs setup.skips; before weft_sync_step or weft_sync_agree. */
WEFT_API weft_status weft_sync_skip(weft_sync *sync) WEFT_CHECKED;

/* All gradients are complete: exchanges, optimizes, mixes. `loss` is this rank's.
 * Collective. */
WEFT_API weft_status weft_sync_step(weft_sync *sync, double loss,
                                    weft_sync_report *report) WEFT_CHECKED;

/* The same in two halves around an optimizer of the caller's (setup.outside). After agree
 * the gradients hold the direction that the method agreed on, and the caller changes the
 * parameters; *moves is false if they should stay as they are in this step, which was
 * skipped or in which the replicator does not exchange. mix ends the step. Collective. */
WEFT_API weft_status weft_sync_agree(weft_sync *sync, double loss,
                                     bool *moves) WEFT_CHECKED;
WEFT_API weft_status weft_sync_mix(weft_sync *sync,
                                   weft_sync_report *report) WEFT_CHECKED;

/* The end of a step bucket by bucket, for callers that copy parameters or directions to
 * another device, or begin the next forward pass, while later buckets are still exchanged:
 *
 *     complete -> wait_any until all -> step, or agree and mix
 *
 * All gradients are complete; `loss` is this rank's, and that of the step or agree after it
 * does not count. Returns at once but where optimizer.clip acts on the agreed gradient, whose
 * norm needs all of it, and where all agree first whether to skip. Collective. */
WEFT_API weft_status weft_sync_complete(weft_sync *sync, double loss) WEFT_CHECKED;

/* Tensors that are done in this step: their parameters are the next step's, or with an
 * optimizer of the caller's their gradients hold the agreed direction. */
typedef struct weft_sync_part {
    int first, n; /* tensors first to first + n - 1; n = 0: none in this time */
    bool all;   /* none is left, and this call names none: step or agree ends the step */
    bool moves; /* as of weft_sync_agree */
} weft_sync_part;

/* Waits for at most timeout_s seconds (0: only looks) for the next tensors after
 * weft_sync_complete. Every tensor is named once in a step, from the last to the first; of a
 * skipped step none. A mixer in front of the caller's optimizer may wait for its neighbours
 * beyond the time. Not collective. */
WEFT_API weft_status weft_sync_wait_any(weft_sync *sync, double timeout_s,
                                        weft_sync_part *part) WEFT_CHECKED;

/* Everybody's parameters become their mean, where methods let them differ: for an
 * evaluation between two steps, or after the last one. Before the next step
 * weft_sync_restore puts back what they were. Average is collective. */
WEFT_API weft_status weft_sync_average(weft_sync *sync) WEFT_CHECKED;
WEFT_API weft_status weft_sync_restore(weft_sync *sync) WEFT_CHECKED;

/* Everything that the next step depends on, between two steps: named arrays, of which
 * "parameters" is one, each with a part for every tensor, and a few numbers that all
 * ranks know alike. Put back by the same number of ranks with the same configuration,
 * training goes on with the same bits. Rest makes it complete; the arrays may then be
 * read, or be written between begin and the first step, before resume. */

/* Ends what is under way behind the caller's back. Collective. */
WEFT_API weft_status weft_sync_rest(weft_sync *sync) WEFT_CHECKED;

/* Tensor i's part of array k, like its parameters; [out] *name, borrowed. NULL if there
 * is no such array. */
WEFT_API float *weft_sync_state(weft_sync *sync, int k, int i, const char **name);

/* The numbers; [out] *n of them. */
WEFT_API double *weft_sync_numbers(weft_sync *sync, int *n);

/* After weft_sync_begin and before the first step: `step` steps are done, and arrays and
 * numbers are those of then. Not collective, but all ranks do it. */
WEFT_API weft_status weft_sync_resume(weft_sync *sync, int64_t step) WEFT_CHECKED;

/* The same as one stream of bytes. Both return false to fail; read fills all n bytes. */
typedef bool (*weft_sync_write)(void *user, const void *data, size_t n_bytes);
typedef bool (*weft_sync_read)(void *user, void *data, size_t n_bytes);
WEFT_API weft_status weft_sync_save(weft_sync *sync, weft_sync_write write,
                                    void *user) WEFT_CHECKED;
WEFT_API weft_status weft_sync_load(weft_sync *sync, weft_sync_read read,
                                    void *user) WEFT_CHECKED;

/* sizeof of a struct of these headers, "weft_sync_setup" say, for programs in other languages
 * that have it once more; 0: not one that they need. */
WEFT_API size_t weft_sync_size_of(const char *type);

#ifdef __cplusplus
}
#endif
#endif
