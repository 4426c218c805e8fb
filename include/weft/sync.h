/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/config.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/** For a training loop of your own: your program computes gradients, and weft exchanges them,
 * runs the optimizer and mixes replicas by the method that the configuration names. Every
 * process holds a whole copy of the parameters, or the same part of a copy as its peers in the
 * other copies.
 *
 *            begin            open, or the first ready      complete
 *     made ---------> resting -----------------------> open ----------> ending
 *                     |  ^  ^                            |                |
 *             average |  |  '------- step; or agree -> agreed -> mix -----'
 *                     v  | restore   (a program's own optimizer)
 *                   averaged
 *
 *     in         may be called, beside those that change the state
 *     none       decided, of a mesh
 *     made       parameters (written), mark, set_rate, set_tensor; hold_mixer, replan
 *     resting    all that may be called where it is open; state, numbers, rest, save, ask_form,
 *                incoming, compare; before the first step load, resume, outgoing, supply and
 *                not_finite
 *     open       give, gradients (written), skip, ready, collect, submit; mark, set_rate,
 *                set_tensor and weigh before the first ready
 *     ending     wait_any, until `all`; of the tensors that it has named collected, signs, take
 *     agreed     gradients (read), collected, signs, mixes, incoming, outgoing, supply and
 *                not_finite
 *     averaged   mark, set_rate, set_tensor
 *     any        steps, rank, change, goes_on, follows, rule, parameters, reported, form,
 *                form_change, chunk_shape_of; take but of a tensor that is ready, until the step
 *                ends; open within a step, and restore where nothing is averaged, do nothing;
 *                after a failure destroy alone: what gives a pointer may then give NULL
 *
 * Opening is no need: step, agree and complete do it. A call in another state fails with a
 * sentence (WEFT_ERR_ARGUMENT) and changes nothing.
 *
 * Errors of all calls: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. Those of other processes come
 * from calls that open a step, wait or send.
 *
 * Only one thread at a time may call. All ranks of the mesh make the calls marked "collective",
 * in the same order. After a failure only destroy may be called (and weft_mesh_fail, which
 * tells the other ranks about the failure). In a child process that fork() made, every call
 * fails with a message, except destroy, which does nothing. */
typedef struct weft_sync weft_sync;

/** A matrix of rows x cols. A vector of n elements is n x 1; 1 x n is accepted as the same,
 * unless the rows are those of a shard. */
typedef struct weft_sync_tensor {
    size_t struct_size;
    const char *name; /* for messages and saved states; at most 95 bytes */
    int64_t rows, cols;
    bool decays; /* optimizer.weight_decay acts on it */
} weft_sync_tensor;

/** What a step did. */
typedef struct weft_sync_report {
    size_t struct_size;
    int64_t step;            /* steps done */
    double lr;               /* the learning rate of this step */
    double loss;             /* mean over all ranks in step loss_step; NAN: none is known
                                yet. With gossip, which waits for neighbours only, and
                                with replicator.delay it arrives eight steps later */
    int64_t loss_step;       /* steps that were done at that loss */
    int64_t wire_bytes_out;  /* payload that this rank sent to other nodes, */
    int64_t local_bytes_out; /* and to ranks inside its own node */
    double exchange_s;       /* exchanges under way, and work on them */
    double wait_s;           /* time this thread waited for exchanges; the rest was
                                hidden */
    bool skipped;            /* some rank asked for this: nothing was exchanged, no
                                parameter changed, and the step was not counted */
    int processes;           /* that took part; fewer after a loss (setup.elastic) */
} weft_sync_report;

/** Everything that a sync is created from. Zeros are defaults. */
typedef struct weft_sync_setup {
    size_t struct_size;
    weft_mesh *mesh;           /* borrowed; NULL: this process alone */
    const weft_config *config; /* borrowed, finished */
    const weft_sync_tensor *tensors;
    int n_tensors;
    bool endless; /* run.steps is ignored: there are steps until destroy */
    bool outside; /* the caller has its own optimizer: weft_sync_agree, weft_sync_mix.
                     optimizer.clip then counts if it was set, and bounds what was agreed
                     or, where a momentum is sent, each process's own gradient */
    bool
        skips; /* any rank may call weft_sync_skip; exchanges then wait until all agree */
    bool writes; /* the caller writes every gradient in every step. The gradients after a
                    step are then arbitrary instead of zero, so weft_sync_give, which
                    adds, can not be used */
    /** The caller keeps the momentum and compresses it where its tensors are (on an accelerator,
     * for example). This works with replicators that select numbers (demo, topk). The caller
     * then calls weft_sync_submit instead of writing gradients and calling weft_sync_ready.
     * Requires `outside` and replicator.every = 1. */
    bool compressed;
    /** mesh.shards ranks with neighbouring numbers share one copy: rank = copy x mesh.shards +
     * shard. The tensors are this rank's rows of each tensor. The caller decides where to cut,
     * but must cut all copies alike; a rank may hold none of the rows (rows = 0). Gradients are
     * those of the mean over the copy's examples. */
    bool sharded;
    /** The run continues without processes that are lost, and admits processes that join later
     * (weft_mesh_enter). docs/membership.md says when this is possible: over TCP, with one copy
     * of the model per node and mesh.on_loss=go_on, without `skips` (weft_sync_goes_on).
     * Processes that share a copy are lost together. The mesh of an elastic sync can not be
     * used for another sync. */
    bool elastic;
    /** What the program keeps besides the tensors, such as its own optimizer or a schedule, as
     * bytes that a joining process receives from a member. pack is called in weft_sync_open, or
     * in the call that opens a step; its bytes are borrowed until the next call of pack. unpack
     * is called in weft_sync_begin. If pack returns NULL or unpack returns false, it could not
     * be done, and the call fails. Both pointers NULL: there is nothing besides the tensors. */
    const void *(*pack)(void *user, size_t *n_bytes);
    bool (*unpack)(void *user, const void *bytes, size_t n_bytes);
    /** Allocate and free the memory of parameters and gradients; each is [all tensors' elements]
     * floats. NULL: weft allocates. take returns NULL if there is not enough memory. */
    void *(*take)(void *user, size_t n_bytes);
    void (*give)(void *user, void *block);
    void *user;
    /** What else must be equal in all processes, beside configuration and tensors, as lines
     * "name: value\n" of the program's own (a version, the kind of its optimizer). Compared in
     * weft_sync_begin, whose error names the line and both values. Copied; NULL: nothing. */
    const char *alike;
    /** Rows differ by process and step: each step's gradients are ready after weft_sync_weigh.
     * Not with skips, choco, mixer.consensus_bound, signsgd, several sites or mesh.robust. */
    bool uneven;
    /** With `elastic`, before processes that come get anything: writes into libweft's arrays
     * (weft_sync_parameters, weft_sync_state) what the program keeps elsewhere of them, between two
     * steps. A mixer that is held is not from then on (weft_sync_hold_mixer). Called where pack may
     * be. false: it could not be done, and the call fails. NULL: nothing is elsewhere. */
    bool (*settle)(void *user);
    /** With `elastic`: the run's folder, which exists, and which all processes see. Those who end
     * the run write `ended-RUN` there. A process that slept, and hears nobody when it wakes, ends
     * with an error that names the folder if the run has ended; otherwise it waits for
     * elastic.pause. Copied; NULL: none. */
    const char *folder;
    /** With `outside`, where what crosses the wire may change (weft_sync_replan): all states of the
     * program's optimizer, *n numbers one after another, in the same order in all processes, in
     * memory that stays until the call that opens the step returns. Where *n differs nothing
     * changes. Called when outer steps may be left, in the call that opens a step, between two
     * steps; there they become their mean over all processes. The
     * optimizer takes them if weft_sync_form names a form without outer steps afterwards, and
     * else goes on with its own. NULL returned: it could not be done, and the call fails. Pointer
     * NULL: there is no such mean, and no form with outer steps is begun or left. */
    float *(*moments)(void *user, int64_t *n);
    /** With `elastic`: what the program has decided before, for a process that comes
     * (weft_sync_decided). Copied; NULL: nothing. */
    const char *decided;
} weft_sync_setup;

/** `config` gives the method, mesh, optimizer, schedule and run.steps; its data, model and batch
 * are ignored. Tensors are exchanged from the last to the first, the order in which backward
 * passes finish them. Names are copied. [out] *out owned by the caller; NULL on failure. */
WEFT_API weft_status weft_sync_create_from(weft_ctx *ctx, const weft_sync_setup *setup,
                                           weft_sync **out) WEFT_CHECKED;

/** The same with defaults for all else. */
WEFT_API weft_status weft_sync_create(weft_ctx *ctx, weft_mesh *mesh,
                                      const weft_config *config,
                                      const weft_sync_tensor *tensors, int n_tensors,
                                      weft_sync **out) WEFT_CHECKED;
WEFT_API void weft_sync_destroy(weft_sync *sync);

/** Of a mesh of weft_mesh_enter, before its sync is created: asks the members what they have
 * decided (weft_sync_setup.decided), and waits for the first answer. [out] out[size]: "" if they
 * have decided nothing. Errors: ARGUMENT if the process does not join, PEER if nobody answers. */
WEFT_API weft_status weft_sync_decided(weft_ctx *ctx, weft_mesh *mesh, char *out,
                                       size_t size) WEFT_CHECKED;

/** [rows,cols] of tensor i, row by row. Parameters may be written before begin. Gradients are
 * zero after begin and after each step (except with setup.writes), and are those of the mean
 * over this rank's own examples. NULL if there is no such tensor. */
WEFT_API float *weft_sync_parameters(weft_sync *sync, int i);
WEFT_API float *weft_sync_gradients(weft_sync *sync, int i);

/** Number of steps done, including those before this process joined. */
WEFT_API int64_t weft_sync_steps(const weft_sync *sync);

/** Number types of a caller's own tensors. */
typedef enum weft_type { WEFT_F32, WEFT_BF16, WEFT_F16 } weft_type;

/** Adds scale x the array at `from`, [rows,cols] without gaps, to the gradients of tensor i. */
WEFT_API weft_status weft_sync_give(weft_sync *sync, int i, const void *from,
                                    weft_type type, double scale) WEFT_CHECKED;

/** Copies the parameters of tensor i to `to`, rounded to the nearest value of `type`. Not between
 * weft_sync_ready of it and the end of the step, in which they change. */
WEFT_API weft_status weft_sync_take(weft_sync *sync, int i, void *to,
                                    weft_type type) WEFT_CHECKED;

/** All ranks get the parameters of rank 0 (with shards: of the first copy). It is an error, in
 * all processes, if one has another configuration, other tensors or another setup.alike.
 * Collective. With a mesh of weft_mesh_enter: waits until the members admit this process before
 * one of their steps, and receives parameters, state and the number of steps done
 * (weft_sync_steps) from them. */
WEFT_API weft_status weft_sync_begin(weft_sync *sync) WEFT_CHECKED;

/** Sets the learning rate from now on, instead of the schedule's. To be called before the first
 * weft_sync_ready of a step, with the same value on all ranks: where these step along one
 * average, a rank that has another one than most (of as many, than the first) fails when the
 * step ends. */
WEFT_API weft_status weft_sync_set_rate(weft_sync *sync, double lr) WEFT_CHECKED;

/** A number that tells parameters apart: their projection on a fixed direction in units of their
 * norm, for example. To be called before the first weft_sync_ready of a step, in the same steps by
 * all ranks. Where copies are equal, a rank whose number is more than 1e-3 from that of most who
 * hold the same parameters (of as many, of the first) fails when the step ends. Compared in steps
 * without weft_sync_weigh. */
WEFT_API weft_status weft_sync_mark(weft_sync *sync, double mark) WEFT_CHECKED;

/** Sets tensor i's own factor of the learning rate and its own weight decay, if weft runs the
 * optimizer. To be called before the first weft_sync_ready of a step. */
WEFT_API weft_status weft_sync_set_tensor(weft_sync *sync, int i, double lr_scale,
                                          double weight_decay) WEFT_CHECKED;

/** Says that the computing of the next step begins, so that gossip can answer other ranks
 * meanwhile. Optional: otherwise the first weft_sync_ready does it. Not collective. */
WEFT_API weft_status weft_sync_open(weft_sync *sync) WEFT_CHECKED;

/** Whether the run continues without lost processes (setup.elastic). If a process is lost during
 * a step, its contribution counts on all ranks or on none. The next step begins among the
 * remaining processes; their parameters, gradients and state stay at the same addresses. A
 * process that ends before the others counts as lost, too. */
WEFT_API bool weft_sync_goes_on(const weft_sync *sync);

/** This process's number among those that take part in the current step; [out] *size: how many
 * take part. -1 and 0 after a failure from which the run can not continue. */
WEFT_API int weft_sync_rank(const weft_sync *sync, int *size);

/** One sentence about the processes that were lost and that joined since the last call; NULL if
 * there was no change. Valid until the next call. */
WEFT_API const char *weft_sync_change(weft_sync *sync);

/** What weft_sync_replan plans with. */
typedef struct weft_sync_limits {
    size_t struct_size;
    /** The cluster.yaml that says what was measured (weft_probe); NULL: the steps tell it. */
    const char *cluster_path;
    double loss;          /* share of steps that a form may need more */
    int64_t steps;        /* of the run; 0: not known, as many again as were done */
    double bytes_per_day; /* that a node may send in any 24 hours; 0: any number */
    /** Hours of each day, in the first process's local time, in which a node may send at most a
     * rate: "18:00-23:30,2Mbit"; NULL or "": none. */
    const char *busy;
    /** Seconds that the first steps may wait to tell the wire, where no cluster.yaml does. Where
     * they would wait longer at the rate of the slowest way out, which weft_sync_begin measures,
     * the first step is followed by what is best at that rate; else two or more of them that
     * have waited so long by what is best on the wire that they tell. 0: any number. */
    double measure_s;
} weft_sync_limits;

/** Before weft_sync_begin: what crosses the wire may change while the run goes on, as it pays
 * (docs/planning.md, "Kept true during the run"), among averages of all gradients in f32, bf16,
 * int8 and int4, and outer steps of the whole model. All processes call it alike. The first process
 * plans, or the next one when that is lost. A process that comes into the run hears the numbers
 * from the others, and calls nothing. [out] *why: why nothing changes; NULL: it may. */
WEFT_API weft_status weft_sync_replan(weft_sync *sync, const weft_sync_limits *limits,
                                      const char **why) WEFT_CHECKED;

/** Whether what crosses the wire may change, here or in the run that this process has come into. */
WEFT_API bool weft_sync_follows(const weft_sync *sync);

/** The first process asks, between two steps, that all exchange in this form from the step after
 * the next on: "full f32", "full bf16", "full int8", "full int4", or "outer f32 50 0.4" with
 * the steps between two outer ones and their momentum; those are left right after one. What
 * coding has left out is kept or sent (docs/methods.md section 12). */
WEFT_API weft_status weft_sync_ask_form(weft_sync *sync, const char *form) WEFT_CHECKED;

/** "full sync int8": what crosses the wire now; "" for methods that have none of these. Returns
 * `out`. */
WEFT_API const char *weft_sync_form(const weft_sync *sync, char *out, size_t out_size);

/** One sentence about the change of form since the last call, on the first process with its
 * reason; NULL if there was none. Valid until the next call. [out] expected[6], or NULL: seconds of
 * a step before it and with it; times as fast for the rest of the run, and the range of that; bytes
 * per second of the wire. Zeros where they are not known. */
WEFT_API const char *weft_sync_form_change(weft_sync *sync, double *expected);

/** After a step, once, in all processes: one sentence, if one node by itself is surely expected to
 * be faster than all in the best form of what crosses the wire; else NULL. What follows is the
 * program's choice. Valid until the next call. */
WEFT_API const char *weft_sync_alone(weft_sync *sync);

/** Tensor i's gradient is complete for this step: its exchange may begin while other gradients
 * are still computed. Optional. Not collective. */
WEFT_API weft_status weft_sync_ready(weft_sync *sync, int i) WEFT_CHECKED;

/** What the kinds of a finished configuration declare: a sum. */
typedef enum weft_sync_trait {
    WEFT_SYNC_SIGNS = 1,   /* the direction is signs */
    WEFT_SYNC_SUBMITS = 2, /* a caller may choose what is sent (weft_sync_submit), ... */
    WEFT_SYNC_TRANSFORMS =
        4,               /* ... of a DCT of the momentum (docs/methods.md section 3) */
    WEFT_SYNC_HOLDS = 8, /* a caller may keep the mixer's states (weft_sync_hold_mixer) */
    WEFT_SYNC_MEETS = 16,  /* the mixer has neighbours (mixer.topology) */
    WEFT_SYNC_DIRECTS = 32 /* the mixer changes what weft's optimizer steps along */
} weft_sync_trait;
WEFT_API int weft_sync_traits(const weft_config *config);

/** What a caller that compresses has to offer for tensor i: k numbers of each of n_chunks chunks
 * of `elements` numbers, cut as docs/methods.md section 3 says. With `whole`: all its numbers
 * in their order, not transformed, as one chunk. */
typedef struct weft_sync_chunk_shape {
    size_t struct_size;
    int64_t n_chunks, k, elements;
    bool whole;
} weft_sync_chunk_shape;
WEFT_API weft_status weft_sync_chunk_shape_of(weft_sync *sync, int i,
                                              weft_sync_chunk_shape *shape) WEFT_CHECKED;

/** Tensor i is ready, and these are its numbers: [n_chunks][k], places in ascending order inside
 * each chunk (NULL if the tensor is sent whole). Both arrays are borrowed until the step is
 * agreed. `values` then holds what the other ranks decode, which differs from what was offered
 * if replicator.values is not f32; the caller subtracts these decoded values from its momentum.
 * Values that are not finite are WEFT_ERR_NUMERIC, and not sent. Not collective. */
WEFT_API weft_status weft_sync_submit(weft_sync *sync, int i, int32_t *places,
                                      float *values) WEFT_CHECKED;

/** For a caller that transforms back by itself, in each step before it offers tensor i: room for
 * what each rank that takes part sends of it, [ranks][n_chunks][k], a rank's part `stride` numbers
 * behind that of the rank before it. Ranks are the copies of the model, as weft_sync_rank says
 * after weft_sync_open. Borrowed until the step is agreed. Not collective. */
WEFT_API weft_status weft_sync_collect(weft_sync *sync, int i, int32_t *places,
                                       float *values, int64_t stride) WEFT_CHECKED;

/** [out] *n: how many ranks' numbers are in that room, when weft_sync_signs may be called. The
 * direction is the transform back of their sum, each coefficient divided by how many ranks sent it
 * with a value other than 0 (docs/methods.md section 3), and weft_sync_gradients has none. n = 0:
 * it has, because the tensor is sent whole or owners of ranges answered (replicator.exchange), or
 * the replicator has no transform. */
WEFT_API weft_status weft_sync_collected(weft_sync *sync, int i, int *n) WEFT_CHECKED;

/** The signs of tensor i's agreed direction; to be called between agree and mix, or once
 * weft_sync_wait_any has named the tensor. Each of its n elements has one bit in `below` and
 * one in `moves`, [(n+7)/8] bytes each: bit e % 8 of byte e / 8. The direction is 0 where moves
 * is 0, else -1 where below is 1, else 1. *sound is false if the direction contains a NaN. */
WEFT_API weft_status weft_sync_signs(weft_sync *sync, int i, unsigned char *below,
                                     unsigned char *moves, bool *sound) WEFT_CHECKED;

/** For a program that keeps the parameters, and what a mixer remembers beside them, where its
 * tensors are (on an accelerator, for example), and codes there what is sent: what would be the
 * mixer's states is the program's, and the parameters that libweft has count only in
 * weft_sync_begin and weft_sync_average. The mixers outer, sparse_outer and choco can be held so;
 * docs/methods.md has their rules, docs/wire-format.md the bytes. Buckets are tensors in a row;
 * element e of tensor i is number weft_sync_parameters(i) - weft_sync_parameters(last) + e. */
typedef enum weft_parcel_kind {
    WEFT_PARCEL_CHANGE, /* outgoing: the coded change, or difference; with places (sparse_outer)
                           the numbers at these places in 2 bits each */
    WEFT_PARCEL_MEAN, /* incoming: mean of all changes, n f32 */
    WEFT_PARCEL_LOST, /* incoming: n f32 to be added to what coding lost */
    WEFT_PARCEL_HEARD /* incoming: a partner's difference, coded as outgoing ones */
} weft_parcel_kind;

/** One thing that a held mixer sends or has got. */
typedef struct weft_sync_parcel {
    size_t struct_size;
    weft_parcel_kind kind;
    int bucket, partner; /* partner: number in the names of choco's states */
    bool again; /* outer with a delay, after weft_sync_resume: the change that was in
                             flight, coded once more */
    int64_t first, n; /* numbers [first, first + n) of all */
    int64_t exchange; /* the step to which it belongs */
    uint64_t seed,
        place;    /* with mixer.rounding=stochastic: of wire/section.h, step = exchange */
    double share; /* HEARD: x += share (heard - told) */
    int64_t n_bytes, n_places;
    const void
        *bytes; /* incoming: borrowed until the next step opens, or until weft_sync_mix */
} weft_sync_parcel;

/** Before weft_sync_begin, with setup.outside, without setup.skips; where weft_sync_goes_on with
 * setup.settle, and outer or sparse_outer without a delay: then also when other processes have been
 * lost or have come (weft_sync_change), or this one has, before its first exchange; states go on
 * from what weft_sync_state has before. Not collective, but all ranks may do as they like: the
 * others do not see a difference.
 * [out] *partners: of how many partners choco keeps states, told.K and heard.K of partner number
 * *partners - 1 - K; else 0. */
WEFT_API weft_status weft_sync_hold_mixer(weft_sync *sync, int *partners) WEFT_CHECKED;

/** What weft_sync_mix will send; before the first step, what its opening will send. [out] *n: how
 * many there are; at most `most` are written. All have to be handed over, by their number in this
 * list; bytes [n_bytes] and places [n_places], or NULL, are borrowed until weft_sync_mix (or the
 * opening) has returned. Not collective. */
WEFT_API weft_status weft_sync_outgoing(weft_sync *sync, weft_sync_parcel *parcels,
                                        int most, int *n) WEFT_CHECKED;
WEFT_API weft_status weft_sync_supply(weft_sync *sync, int k, const void *bytes,
                                      const int32_t *places) WEFT_CHECKED;

/** In place of weft_sync_supply, where tensor i's parameters are not finite: WEFT_ERR_NUMERIC, with
 * which this rank fails before it has sent any of them. Not collective. */
WEFT_API weft_status weft_sync_not_finite(weft_sync *sync, int i) WEFT_CHECKED;

/** What has arrived: after weft_sync_agree what came up to there, and from weft_sync_mix until the
 * next step opens what came in it. Not collective. */
WEFT_API weft_status weft_sync_incoming(weft_sync *sync, weft_sync_parcel *parcels,
                                        int most, int *n) WEFT_CHECKED;

/** This rank asks that all ranks skip the current step (because of an infinite gradient in 16
 * bits, for example). Requires setup.skips; to be called before weft_sync_step or
 * weft_sync_agree. */
WEFT_API weft_status weft_sync_skip(weft_sync *sync) WEFT_CHECKED;

/** With setup.uneven, in each step before the first weft_sync_ready or weft_sync_submit: this
 * rank's gradients are those of the mean over `rows` rows (0: of none, they are taken as 0),
 * and `loss` is theirs. What all agree on is then the mean over the rows of all or, where a
 * mixer alone sends, over those of its period (gossip: of 8 steps), and who has none makes no
 * step of weft's optimizer; so is the report's loss. The loss of weft_sync_step or agree is
 * ignored.
 * [out] *weight: by what a caller multiplies its gradients if it compresses, or its changes if it
 * holds the mixer; libweft does so in all other cases. Waits for the rows of all.
 * Collective. */
WEFT_API weft_status weft_sync_weigh(weft_sync *sync, double loss, double rows,
                                     double *weight) WEFT_CHECKED;

/** After weft_sync_weigh: what copy number `copy` has sent there. [out] *rows: -1 if it was not
 * heard; *seconds: from the end of its step before to its weigh, 0 if that is not known. All
 * processes get the same. Returns its number in the step before, -1: it has come since. That is
 * known from weft_sync_begin, or weft_sync_open, on. -2: there is no such copy. */
WEFT_API int weft_sync_reported(const weft_sync *sync, int copy, double *rows,
                                double *seconds);

/** How many numbers hold what is known of the speeds of so many copies, for weft_shares_begin. */
WEFT_API int64_t weft_shares_numbers(int copies);

/** [out] numbers: copies take these shares of a step, 1 or more each, and nothing is known yet. */
WEFT_API void weft_shares_begin(int copies, const int64_t *shares, double *numbers);

/** What all copies have said of a step: rows and seconds of each, in pairs; 0 or less: not known.
 * Whoever hears the same decides the same: true if shares change with the next step, [out] shares;
 * their sum stays. The numbers may be kept, and false is returned for others than were given. */
WEFT_API bool weft_shares_update(int copies, const double *said, double *numbers,
                                 int64_t *shares);

/** Divides `all` into n parts in proportion to `shares`, of which one is above 0: whole ones, at
 * least 1 each if there are so many, so that the greatest part over its share is least, the first
 * ones first. */
WEFT_API void weft_shares_divide(int64_t all, int n, const int64_t *shares,
                                 int64_t *parts);

/** All gradients are complete: exchanges them, runs the optimizer and mixes. `loss` is this
 * rank's. Collective. */
WEFT_API weft_status weft_sync_step(weft_sync *sync, double loss,
                                    weft_sync_report *report) WEFT_CHECKED;

/** The same in two halves, with the caller's own optimizer between them (setup.outside). After
 * agree the gradients hold the direction that the method agreed on, and the caller changes the
 * parameters. *moves is false if the parameters should stay as they are, because the step was
 * skipped or the replicator does not exchange in it. mix ends the step. Collective. */
WEFT_API weft_status weft_sync_agree(weft_sync *sync, double loss,
                                     bool *moves) WEFT_CHECKED;
WEFT_API weft_status weft_sync_mix(weft_sync *sync,
                                   weft_sync_report *report) WEFT_CHECKED;

/** Whether the mixer sends or changes parameters in the step under way: where it does not, a
 * caller that keeps them elsewhere need not copy them. To be called before mix. */
WEFT_API bool weft_sync_mixes(const weft_sync *sync);

/** The end of a step bucket by bucket, for callers that copy parameters or directions to another
 * device, or begin the next forward pass, while later buckets are still exchanged:
 *
 *     complete -> wait_any until all -> step, or agree and mix
 *
 * All gradients are complete; `loss` is this rank's, and the loss given to the following step
 * or agree is ignored. Returns at once, with two exceptions: optimizer.clip on the agreed
 * gradient, whose norm needs the whole gradient, and setup.skips, where all ranks first agree
 * whether to skip. Collective. */
WEFT_API weft_status weft_sync_complete(weft_sync *sync, double loss) WEFT_CHECKED;

/** Tensors that are finished in this step: their parameters are those of the next step or, with
 * the caller's own optimizer, their gradients hold the agreed direction. */
typedef struct weft_sync_part {
    size_t struct_size;
    int first, n; /* tensors first to first + n - 1; n = 0: none within the time */
    bool all;     /* all were named before, this call names none: call step or agree */
    bool moves;   /* as in weft_sync_agree */
} weft_sync_part;

/** Waits for at most timeout_s seconds (0: does not wait) for the next tensors after
 * weft_sync_complete. Every tensor is named once in a step, from the last to the first; in a
 * skipped step none is named. A mixer that runs before the caller's optimizer may wait for its
 * neighbours longer than timeout_s. Not collective. */
WEFT_API weft_status weft_sync_wait_any(weft_sync *sync, double timeout_s,
                                        weft_sync_part *part) WEFT_CHECKED;

/** Replaces the parameters of all ranks by their mean, for methods in which they differ: for an
 * evaluation between two steps, or after the last step. Before the next step weft_sync_restore
 * puts the former values back. Average is collective. */
WEFT_API weft_status weft_sync_average(weft_sync *sync) WEFT_CHECKED;
WEFT_API weft_status weft_sync_restore(weft_sync *sync) WEFT_CHECKED;

/* The complete state between two steps, from which the next step follows: named arrays, of
 * which "parameters" is one, each with a part for every tensor, and a few numbers that are the
 * same on all ranks. If the same number of ranks with the same configuration restores it,
 * training continues bit for bit. weft_sync_rest makes the state complete. The arrays may then
 * be read, or may be written between begin and the first step, before weft_sync_resume. */

/** Finishes exchanges that still run in the background. Collective. */
WEFT_API weft_status weft_sync_rest(weft_sync *sync) WEFT_CHECKED;

/** Tensor i's part of array k, laid out like its parameters; [out] *name, borrowed. NULL if
 * there is no such array. */
WEFT_API float *weft_sync_state(weft_sync *sync, int k, int i, const char **name);

/** By which of weft's optimizers (optimizer.kind, optimizer.groups) tensor i is stepped; [out]
 * *whole: as a matrix, not element by element. For a caller that steps by weft's rules. NULL if
 * there is no such tensor. */
WEFT_API const char *weft_sync_rule(const weft_sync *sync, int i, bool *whole);

/** The numbers of the state; [out] *n: how many there are. NULL and 0 where there are none. */
WEFT_API double *weft_sync_numbers(weft_sync *sync, int *n);

/** To be called after weft_sync_begin and before the first step: `step` steps are done, and the
 * arrays and numbers hold the state after them. Not collective, but all ranks must call it. */
WEFT_API weft_status weft_sync_resume(weft_sync *sync, int64_t step) WEFT_CHECKED;

/** Before the first step: fails on all ranks if some have resumed at another one, and would wait
 * for each other's messages. Where weft_sync_goes_on, opening that step does so. Collective. */
WEFT_API weft_status weft_sync_compare(weft_sync *sync) WEFT_CHECKED;

/** Save and load the same state as one stream of bytes. The callbacks return false on failure;
 * read has to fill all n bytes. */
typedef bool (*weft_sync_write)(void *user, const void *data, size_t n_bytes);
typedef bool (*weft_sync_read)(void *user, void *data, size_t n_bytes);
WEFT_API weft_status weft_sync_save(weft_sync *sync, weft_sync_write write,
                                    void *user) WEFT_CHECKED;
WEFT_API weft_status weft_sync_load(weft_sync *sync, weft_sync_read read,
                                    void *user) WEFT_CHECKED;

/** sizeof of a struct of these headers, such as "weft_sync_setup", so that programs in other
 * languages can check their own declaration of it; 0: a struct that they do not need. */
WEFT_API size_t weft_sync_size_of(const char *type);

#ifdef __cplusplus
}
#endif
#endif
