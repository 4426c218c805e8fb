/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "collectives/driver.h"
#include "kernels/kernels.h"
#include "replicate/replicatorconfig.h"
#include "shard/bucket.h"

/* Gradient side of the step: turns this node's gradient into the update direction that
 * all nodes agree on (docs/methods.md: gradient --[replicator]--> agreed update
 * direction).
 *
 * It works on buckets: one or more neighbouring units whose shards lie one after another
 * in one flat buffer and travel in one message. A bucket is a list of pieces, the row
 * blocks of tensors that this rank holds. Each bucket passes three phases, several
 * buckets at a time, each phase in bucket order on the exchange thread:
 *
 *     begin     encode what is sent                    send        (collectives/driver.h)
 *     combine   two rounds only: add, finish           answer
 *     end       add what came, finish: grad is the agreed direction
 *
 * A method has the functions encode, add and finish, and the driver does the rest; or, if
 * it uses a collective such as the all-reduce, it has functions for the three phases. */

/* What a step's direction covers of one piece; everything else stays as it is. */
typedef struct wefti_cover_range {
    int64_t begin, n; /* elements of the piece */
} wefti_cover_range;

typedef struct wefti_cover {
    bool all;                      /* every element; then runs is not used */
    const wefti_cover_range *runs; /* borrowed until the bucket's next begin */
    int64_t n_runs;
    int64_t count; /* updates of a covered element so far, this one included */
} wefti_cover;

/* What a node sends about a bucket, and what is answered: lower bounds (variants.h). */
typedef struct wefti_content {
    double values;                  /* numbers, of config.values bits each */
    double index_bits, answer_bits; /* of their places; of all answers */
} wefti_content;

/* Bytes of memory read and written per parameter that take as long as a phase does, for
 * use where nothing is measured (simulate/costs.h). combine_peer: for each other node's
 * message. */
typedef struct wefti_touched {
    double begin, combine, combine_peer, end;
} wefti_touched;

/* How much of a piece is offered by a caller that compresses by itself: k numbers of each
 * of n_chunks chunks of `elements`; or all of its numbers, in order, as one chunk without
 * places. */
typedef struct wefti_offer_shape {
    int64_t n_chunks, k, elements;
    bool whole;
} wefti_offer_shape;

/* What such a caller offers: [n_chunks][k], places ascending inside a chunk. Once they
 * are sent, values are what the others decode. With room for what each rank sent the
 * direction may stay unwritten, and the caller makes it of that. */
typedef struct wefti_offer {
    int32_t *places; /* not used if the piece is sent whole */
    float *values;
    int32_t
        *heard_places; /* [ranks][n_chunks][k], `stride` from rank to rank; NULL: none */
    float *heard_values; /* like them */
    int64_t stride;
    int n_heard; /* ranks whose numbers are there; 0: the direction is */
} wefti_offer;

typedef struct wefti_replicator wefti_replicator;

#define WEFTI_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct wefti_replicator_ops {
    const char *name;
    const char *const *keys; /* keys of its section that it reads, NULL-terminated */
    /* For lists of variants: the method that has this kind with its usual optimizer; the
     * keys in which variants differ; and a label with the values of those keys ("4/64
     * "). */
    const char *method;
    bool own_answers; /* what it sends in the second round depends on its own gradient,
                         too */
    bool is_baseline; /* compared by what it learns; its speed is in no list */
    const char *const *knobs; /* NULL: none but values */
    void (*label)(const wefti_replicator_config *config, char *out, size_t size);
    wefti_content (*content)(const wefti_replicator_config *config,
                             const wefti_bucket *bucket);
    wefti_touched (*touched)(const wefti_replicator_config *config, int R);
    /* Bytes that any implementation has to read and write for n parameters. */
    double (*floor_bytes)(const wefti_replicator_config *config, double n, double values,
                          int R);
    bool transforms;   /* what it sends are coefficients of a DCT */
    bool robust;       /* takes config.robust: its sums are those of an all-reduce */
    bool votes;        /* each node has one vote, however many sequences it has */
    bool averages_all; /* the direction is the mean of the nodes' whole gradients */
    /* The direction is a mean of gradients, so its norm is what clipping bounds;
     * otherwise clipping bounds the local gradient that goes in. */
    bool keeps_norm;
    /* Names of the state arrays that a checkpoint must keep, NULL-terminated; each is as
     * long as the parameters. */
    const char *const *(*states)(const wefti_replicator_config *config);
    /* The messages for one bucket among R ranks in a step that replicates. Rounds: 0
     * (nothing is sent), 1 (begin sends to all, end receives) or 2 (begin sends, combine
     * receives and answers, end receives). */
    int (*rounds)(const wefti_replicator_config *config, const wefti_bucket *bucket,
                  int R);
    /* Payload bytes of a message about the part that rank `owner` is in charge of: in the
     * first round each other rank sends one to the owner (whose codec is
     * wefti_values_sent), in the second the owner sends one to each other rank. 0: no
     * message. */
    int64_t (*round_bytes)(const wefti_replicator_config *config,
                           const wefti_bucket *bucket, int R, int round, int owner);
    /* Whether messages of the first round are worked on one by one, so that this work
     * hides behind waiting for the next one; else when all are there. */
    bool one_by_one;
    /* Bytes of working memory of a rank, without states and the driver's messages; NULL:
     * none. */
    int64_t (*work_bytes)(const wefti_replicator_config *config,
                          const wefti_bucket *buckets, int n_buckets, int R);
    weft_status (*create)(wefti_replicator *r); /* fills r->self; NULL: the method has
                                                   none */

    /* For methods over the driver, in steps that exchange. The kinds of their
     * messages: */
    wefti_frame_kind kinds[WEFTI_DRIVER_ROUNDS];
    /* Writes the payload about the part of a member (with one round: of this rank).
     * round->from is the gradient. */
    weft_status (*encode)(wefti_replicator *r, const wefti_round *round, int member,
                          unsigned char *out);
    /* Takes in what a member sent; in the second of two rounds, its answer. round->x
     * becomes the direction. */
    weft_status (*add)(wefti_replicator *r, const wefti_round *round, int member,
                       const unsigned char *in);
    /* Called when all round->counted messages are there. answer: after the first of two
     * rounds, the payload to write, else NULL. May be NULL. */
    weft_status (*finish)(wefti_replicator *r, const wefti_round *round,
                          unsigned char *answer);

    /* For methods over a collective, instead. */
    weft_status (*begin)(wefti_replicator *r, int bucket, int64_t step, float *grad);
    weft_status (*combine)(wefti_replicator *r, int bucket, int64_t step, float *grad);
    weft_status (*end)(wefti_replicator *r, int bucket, int64_t step, float *grad);

    /* What the direction of a due step covers of a piece; NULL: everything. */
    wefti_cover (*cover)(const wefti_replicator *r, int bucket, int piece, int64_t step);
    void (*destroy)(wefti_replicator *r); /* NULL: nothing to do */
    const struct wefti_chooser *chooser;  /* of those that choose rows (select.h) */
    /* How much of a piece is sent, if a caller may choose it in place of encode; NULL: it
     * may not. Encode then takes r->offers, and the caller keeps the momentum. */
    wefti_offer_shape (*offers)(const wefti_replicator_config *config,
                                const wefti_piece *piece);
} wefti_replicator_ops;

enum { WEFTI_REPLICATOR_STATES = 2 };

struct wefti_replicator {
    const wefti_replicator_ops *ops;
    weft_ctx *ctx; /* borrowed, like kernels, comm, buckets */
    const wefti_kernels *kernels;
    wefti_comm *comm; /* the replication group */
    wefti_replicator_config config;
    int n_buckets;
    const wefti_bucket *buckets;
    int n_states;
    float *state[WEFTI_REPLICATOR_STATES]; /* owned; each [all buckets' elements] */
    int64_t *bucket_at;                    /* [n_buckets] owned; where the buckets begin
                                              in a state */
    float lr;                              /* of the step that began last */
    bool gathers;         /* config.gathers: in this step, which then covers nothing */
    wefti_driver *driver; /* owned; NULL: over a collective */
    int *n_rounds;        /* [n_buckets] owned */
    int64_t *lengths;     /* [n_buckets][rounds] of wefti_replicator_lengths; owned */
    int64_t
        *under_way; /* [n_buckets] owned, with a delay: the step whose messages have not
                       been taken in yet, or -1; else NULL */
    wefti_exchange_times times; /* with a delay: of messages hidden behind computing */
    wefti_offer *offers;        /* by tensor, borrowed; NULL: gradients are given */
    void *self;                 /* the implementation's */
};

/* Payload bytes that rank `from` of R sends to rank `to` for one bucket in a step that
 * replicates: the sum over its rounds; none to itself. */
int64_t wefti_replicator_wire_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *bucket, int R, int from, int to);

/* What round_bytes says of each owner, for each codec in which it is sent:
 * [wefti_values_rows][R]. */
void wefti_replicator_lengths(const wefti_replicator_config *config,
                              const wefti_bucket *bucket, int R, int round, int64_t *out);

/* Bytes of working memory of a rank: messages and scratch, without states. */
int64_t wefti_replicator_work_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *buckets, int n_buckets, int R);

/* Creates a replicator; an unknown kind or a bad knob is WEFT_ERR_CONFIG. Not collective.
 */
weft_status wefti_replicator_create(weft_ctx *ctx, const wefti_replicator_config *config,
                                    const wefti_kernels *kernels, wefti_comm *comm,
                                    const wefti_bucket *buckets, int n_buckets,
                                    wefti_replicator **out) WEFT_CHECKED;
void wefti_replicator_destroy(wefti_replicator *r);

/* Starts agreeing on bucket's direction from this rank's gradient [n_elements]. `grad` is
 * borrowed until end() and may be changed. Collective over the replication group. */
weft_status wefti_replicator_begin(wefti_replicator *r, int bucket, int64_t step,
                                   float lr, float *grad) WEFT_CHECKED;

/* Answers what the others sent for this bucket; between begin and end, on every rank. */
weft_status wefti_replicator_combine(wefti_replicator *r, int bucket, int64_t step,
                                     float *grad) WEFT_CHECKED;

/* Finishes it: grad holds the agreed direction, the same bits on every rank of the group,
 * and 0 where it covers nothing. With a delay it is that of the step before. */
weft_status wefti_replicator_end(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad) WEFT_CHECKED;

/* Takes in what is in flight, so that the states are all that a run needs to continue:
 * before they are saved, and at the end. Does nothing without a delay. Collective,
 * between two steps. */
weft_status wefti_replicator_settle(wefti_replicator *r) WEFT_CHECKED;

/* Whether `step` exchanges anything. A step that does not changes no parameter and no
 * moment; the momentum keeps the gradient. */
bool wefti_replicator_is_due(const wefti_replicator_config *config, int64_t step);

/* What the direction of `step` covers of a piece; its runs are ascending and do not
 * touch. */
wefti_cover wefti_replicator_cover(const wefti_replicator *r, int bucket, int piece,
                                   int64_t step);

/* For implementations. The share of a gradient that a momentum takes in: the learning
 * rate, or 1 - decay. */
float wefti_replicator_gain(const wefti_replicator *r);

/* For implementations: state 0 <- decay (state 0) + gain g. A step that exchanges nothing
 * does this, too: a kind that can leave out steps has its momentum in state 0. */
void wefti_replicator_accumulate(const wefti_replicator *r, int bucket, const float *g);

/* For implementations: how the values of section `number` of a bucket's messages are
 * rounded. */
wefti_rounding wefti_replicator_rounding(const wefti_replicator *r,
                                         const wefti_round *round, int number);

/* For implementations: functions that several tables share. No states, or the one state
 * "momentum", with a delay also "direction"; one round of messages, or two; the memory
 * traffic of a momentum that is read and written, a gradient that is read and a direction
 * that is written; checks that alpha is within 0 to 1, and with it chunks and codecs
 * (room: the elements of which k are sent). */
const char *const *wefti_replicator_no_states(const wefti_replicator_config *config);
const char *const *wefti_replicator_momentum_state(const wefti_replicator_config *config);
int wefti_replicator_one_round(const wefti_replicator_config *config,
                               const wefti_bucket *bucket, int R);
int wefti_replicator_two_rounds(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R);
double wefti_replicator_momentum_floor(const wefti_replicator_config *config, double n,
                                       double values, int R);
weft_status
wefti_replicator_check_alpha(weft_ctx *ctx,
                             const wefti_replicator_config *config) WEFT_CHECKED;
weft_status wefti_replicator_check_coding(const wefti_replicator *r,
                                          int64_t room) WEFT_CHECKED;

/* Bits of the number of one of the (n choose k) sets. */
double wefti_log2_choose(int64_t n, int64_t k);

/* The part of state array i that belongs to a bucket. */
float *wefti_replicator_state(const wefti_replicator *r, int i, int bucket);

const wefti_replicator_ops *wefti_replicator_find(const char *kind);
extern const wefti_replicator_ops
    *const wefti_replicator_registry[]; /* NULL-terminated */

/* All of them, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary)                                                        \
    extern const wefti_replicator_ops wefti_replicator_##name;
#include "replicate/replicators.def"
#undef WEFTI_KIND
