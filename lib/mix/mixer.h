/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "collectives/driver.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "mix/mixerconfig.h"
#include "replicate/replicator.h"

/* Parameter side of the step: the replicas' parameters differ and are pulled together
 * (docs/methods.md: parameters --[mixer]--> parameters).
 *
 * It works on the replicator's buckets, on the exchange thread, around the optimizer:
 *
 *     prime                    once, before the first step of a run, new or resumed
 *     answer -> before -> direct -> optimizer -> after -> finish
 *                              each step, each bucket in this order; answer may be left out
 *
 * All buckets have passed `after` of a step before any passes `finish`, so messages that
 * after() sends travel together. answer() is called as early in a step as possible,
 * before its gradients are there: it answers what others sent in the step before. If it
 * is left out, before() does this. Tags: wefti_comm_tag, stages WEFTI_MIXER_STAGE to 15.
 *
 * A mixer that exchanges over the driver (collectives/driver.h) has `driver` and `room`,
 * and mixer.c makes m->driver; a mixer that uses a collective makes the collective in
 * `create`. */

enum {
    WEFTI_MAX_PARTNERS =
        16, /* choco keeps two arrays for each member that it ever meets */
    WEFTI_CONTROL_STEPS = 16 /* decisions kept; more than are open at once */
};

/* With config.held: the numbers of one message, or of several about the same bucket, that
 * the caller hands over before a phase, and what it gets after one. Bytes are those of a
 * section (wire/section.h) over the bucket, or of bins (wire/bins.h) where there are
 * places; means and losses are f32. */
typedef enum wefti_held_kind {
    WEFTI_HELD_CHANGE, /* handed over: what is sent */
    WEFTI_HELD_MEAN,   /* the mean of what all sent, n f32 */
    WEFTI_HELD_LOST,   /* what coding the mean lost, n f32: to be sent later */
    WEFTI_HELD_HEARD   /* what a partner sent, as it came */
} wefti_held_kind;

typedef struct wefti_held_parcel {
    wefti_held_kind kind;
    int bucket, partner;  /* partner: whose state, as in the names of the states */
    int64_t first, n;     /* elements of all buckets in a row */
    int64_t exchange;     /* the step that identifies it */
    bool again;           /* it was sent before the run was resumed */
    uint64_t seed, place; /* of stochastic rounding, with `exchange` as its step */
    float share;          /* HEARD: of the difference that is made up for */
    int64_t n_bytes, n_places;
    const unsigned char *bytes; /* [n_bytes] borrowed */
    const int32_t *places;      /* [n_places] borrowed */
} wefti_held_parcel;

/* What does rank `from` of R do for this bucket in this step? */
typedef struct wefti_mixer_question {
    const wefti_bucket *bucket;
    int number, n_buckets; /* the bucket's number; of all */
    int R, from;
    int64_t step;
    weft_neighbours *room; /* to look into config.topology; NULL if there is none */
} wefti_mixer_question;

typedef enum wefti_mixer_phase {
    WEFTI_MIXER_ANSWER,
    WEFTI_MIXER_BEFORE,
    WEFTI_MIXER_AFTER,
    WEFTI_MIXER_FINISH
} wefti_mixer_phase;

/* Sending or receiving all messages of one round of an exchange. */
typedef struct wefti_mixer_act {
    wefti_mixer_phase phase; /* of the question's step */
    bool sends;
    int64_t exchange; /* the step that identifies it: of the gossip round, or of an outer
                     start */
    int round;        /* 0, or 1: the answers to round 0 */
} wefti_mixer_act;

enum { WEFTI_MIXER_ACTS = 4 };

/* Called for each message of an act: the other end and its payload bytes. Must not use
 * the question's room. */
typedef void (*wefti_mixer_visit)(void *user, int peer, int64_t n_bytes);

typedef struct wefti_mixer wefti_mixer;

typedef struct wefti_mixer_ops {
    const char *name;
    const char *const *keys; /* keys of its section that it reads, NULL-terminated */
    bool coded;              /* values are coded as config.values says */
    bool robust;             /* takes config.robust */
    bool meets;              /* meets the members that config.topology says */
    bool
        keeps_partners; /* keeps states for each member that it ever meets (meetings.h) */
    /* Codecs with which the mixer is measured, ended by WEFTI_VALUE_CODECS; NULL:
     * none. */
    const wefti_value_codec *measured;
    /* Steps from one exchange to the next; NULL: it exchanges in every step. */
    int64_t (*period)(const wefti_mixer_config *config);
    /* Bytes that are touched, for estimates without a measurement, as with replicators;
     * NULL: none. */
    wefti_touched (*touched)(int R);
    /* Names of the state arrays that a checkpoint must keep, NULL-terminated; each is as
     * long as the parameters. */
    const char *const *(*states)(const wefti_mixer_config *config);
    /* What a rank does in a step, in this order; returns the number of acts. Priming
     * before step t sends what step t - 1 would send. */
    int (*acts)(const wefti_mixer_config *config, const wefti_mixer_question *question,
                wefti_mixer_act acts[WEFTI_MIXER_ACTS]);
    /* Whether the gossip round with these neighbours is a mean in two rounds; NULL: never. */
    bool (*two_rounds)(const wefti_mixer_config *config, const weft_neighbours *list);
    /* The messages of an act of rank `from`, in the order in which it sends or awaits
     * them. NULL: there are no acts. */
    void (*messages)(const wefti_mixer_config *config,
                     const wefti_mixer_question *question, const wefti_mixer_act *act,
                     wefti_mixer_visit visit, void *user);
    /* Payload of a typical message of this bucket: buckets with small messages are
     * merged. */
    int64_t (*message_bytes)(const wefti_mixer_config *config,
                             const wefti_bucket *bucket);
    /* For mixers over the driver: its ops, buffers, flags and deadline; mixer.c fills in
     * the rest. NULL: the mixer uses a collective, or exchanges nothing. */
    wefti_driver_setup (*driver)(const wefti_mixer_config *config);
    /* Bytes that a bucket's messages of the two rounds take in the driver, heads included. */
    void (*room)(const wefti_mixer_config *config, const wefti_bucket *bucket, int R,
                 int64_t room[WEFTI_DRIVER_ROUNDS]);
    /* Bytes of working memory of a rank, without states and the driver's messages; NULL:
     * none. */
    int64_t (*work_bytes)(const wefti_mixer_config *config, const wefti_bucket *buckets,
                          int n_buckets, int R);
    weft_status (*create)(wefti_mixer *m); /* fills m->self; NULL: the mixer has none */
    /* With config.held: says by wefti_mixer_expect what has to be handed over before the
     * bucket passes `after` in this step, or is primed for it. NULL: nothing can be held. */
    void (*parcels)(wefti_mixer *m, int bucket, int64_t step, bool prime);
    /* The phases; NULL: nothing to do. */
    weft_status (*prime)(wefti_mixer *m, int bucket, int64_t step, const float *params);
    weft_status (*answer)(wefti_mixer *m, int bucket, int64_t step);
    weft_status (*before)(wefti_mixer *m, int bucket, int64_t step, float *params);
    /* Puts what the optimizer shall step along in the place of the bucket's gradient. */
    weft_status (*direct)(wefti_mixer *m, int bucket, int64_t step, float *gradient);
    weft_status (*after)(wefti_mixer *m, int bucket, int64_t step, float *params);
    weft_status (*finish)(wefti_mixer *m, int bucket, int64_t step, float *params);
    /* This rank's part of an estimate of the consensus distance before the last step's
     * mixing, mean_i |x_i - mean x|^2: the estimate is the mean, over the replicas that
     * mixed, of the sum over the ranks of a replica. NAN: this one did not mix. NULL:
     * there is none. Between steps. */
    double (*distance)(const wefti_mixer *m);
    /* Whether all replicas hold the same bits after this step. */
    bool (*agrees)(const wefti_mixer_config *config, int64_t step);
    void (*destroy)(wefti_mixer *m); /* NULL: nothing to do */
} wefti_mixer_ops;

enum { WEFTI_MIXER_STATES = 2 * WEFTI_MAX_PARTNERS };

struct wefti_mixer {
    const wefti_mixer_ops *ops;
    weft_ctx *ctx; /* borrowed, like kernels, comm, buckets */
    const wefti_kernels *kernels;
    wefti_comm *comm;
    wefti_mixer_config config;
    int n_buckets;
    const wefti_bucket *buckets;
    int n_states;
    float *state[WEFTI_MIXER_STATES]; /* owned; each [all buckets' elements] */
    int64_t *bucket_at;               /* [n_buckets] owned; where the buckets begin in a
                                         state */
    /* [n_known] owned; numbers that all ranks have in common and a checkpoint keeps
     * beside the states. They change while a step's first bucket is mixed; read them
     * between steps. */
    int n_known;
    double *known;
    double *control; /* in known: [WEFTI_CONTROL_STEPS], or NULL */
    double
        *weights; /* in known: [members] push-sum weights before the next gossip round, or
                          NULL where they are not needed */
    double *pairs; /* in known: since when pairs know each other (meetings.h), or NULL */
    /* [n_buckets x 2, or x partners] owned, with config.held: what the caller has to hand
     * over, and what it gets */
    wefti_held_parcel *outgoing, *incoming;
    int n_outgoing, n_incoming;
    wefti_driver *driver;       /* owned; NULL if ops->driver is */
    void *self;                 /* the implementation's */
    wefti_exchange_times times; /* sums so far */
};

/* Steps after which a mixer's exchanges repeat; topologies have periods of their own. */
int64_t wefti_mixer_period(const wefti_mixer_config *config);

/* Bytes of working memory of a rank: messages and scratch, without states. */
int64_t wefti_mixer_work_bytes(const wefti_mixer_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R);

/* The number of the gossip round of a step (gossip_rounds.h), by which a topology knows it; -1:
 * the step has none. Round u is that of step u H, with order atc that of u H + H - 1, where H is
 * the mixer's period. */
int64_t wefti_mixer_round(const wefti_mixer_config *config, int64_t step);

/* Creates a mixer; an unknown kind or a bad knob is WEFT_ERR_CONFIG. The state arrays are
 * zero. Not collective. */
weft_status wefti_mixer_create(weft_ctx *ctx, const wefti_mixer_config *config,
                               const wefti_kernels *kernels, wefti_comm *comm,
                               const wefti_bucket *buckets, int n_buckets,
                               wefti_mixer **out) WEFT_CHECKED;
void wefti_mixer_destroy(wefti_mixer *m);

/* For implementations: creates one of these ops, whatever config.kind is. */
weft_status wefti_mixer_create_of(const wefti_mixer_ops *ops, const wefti_mixer *like,
                                  const wefti_bucket *buckets, int n_buckets,
                                  wefti_mixer **out) WEFT_CHECKED;

/* Each is collective over the group, bucket by bucket. params: the bucket's, on this
 * rank. `step` is the current one; for prime, the next one. A resumed run restores its
 * states and `known` before prime. */
weft_status wefti_mixer_prime(wefti_mixer *m, int bucket, int64_t step,
                              const float *params) WEFT_CHECKED;
weft_status wefti_mixer_answer(wefti_mixer *m, int bucket, int64_t step) WEFT_CHECKED;
weft_status wefti_mixer_before(wefti_mixer *m, int bucket, int64_t step,
                               float *params) WEFT_CHECKED;
weft_status wefti_mixer_direct(wefti_mixer *m, int bucket, int64_t step,
                               float *gradient) WEFT_CHECKED;
weft_status wefti_mixer_after(wefti_mixer *m, int bucket, int64_t step,
                              float *params) WEFT_CHECKED;
weft_status wefti_mixer_finish(wefti_mixer *m, int bucket, int64_t step,
                               float *params) WEFT_CHECKED;

/* With config.held: its states, for the program to write them, from where the next world's mixer
 * takes them. */
weft_status wefti_mixer_make_states(wefti_mixer *m) WEFT_CHECKED;

/* With config.held. Lists what has to be handed over before the step's `after` phase, or
 * before it is primed, in m->outgoing. For implementations: adds to that list; finds what was
 * handed over, or fails; adds to m->incoming. */
void wefti_mixer_list_outgoing(wefti_mixer *m, int64_t step, bool prime);
void wefti_mixer_expect(wefti_mixer *m, const wefti_held_parcel *parcel);
weft_status wefti_mixer_handed(const wefti_mixer *m, int bucket, int partner,
                               const wefti_held_parcel **parcel) WEFT_CHECKED;
void wefti_mixer_deliver(wefti_mixer *m, const wefti_held_parcel *parcel);

/* The pairs of a mixer with keeps_partners begin anew with the gossip round of `step`: who
 * was there before knows nothing of any other rank, and learners (comm.h) begin when they take
 * part. So do directions: those of the ranks that are there add up to their gradients. Before
 * prime; between the steps of a run. For all other mixers it does nothing. */
void wefti_mixer_meet_anew(wefti_mixer *m, int64_t step);

/* Whether what the pairs know was learned by as many ranks as there are now: a checkpoint
 * that was written while there were learners is not. True for all other mixers. */
bool wefti_mixer_has_met(const wefti_mixer *m);

/* Consensus control (config.consensus_bound): decides, before anything is sent for the
 * gossip round of `step`, whether it is a mean of all. All ranks must decide alike. At
 * most WEFTI_CONTROL_STEPS decisions are open at once; without a decision it is no mean
 * of all. Between steps. */
void wefti_mixer_average_all(wefti_mixer *m, int64_t step, bool all);

/* The share of the way to the mean that is made in a step (DSGD-AC, arXiv 2602.02899):
 * gamma up to step u = gamma_start of the run, then gamma (rate(t) /
 * rate(u))^gamma_power, at most gamma. */
double wefti_mixer_gamma(const wefti_mixer_config *config, int64_t step);

/* Whether the gossip round of `step` is a mean of all: by average_every, which the
 * configuration alone determines; or by that or control. */
bool wefti_mixer_average_is_due(const wefti_mixer_config *config, int64_t step);
bool wefti_mixer_averages_all(const wefti_mixer *m, int64_t step);

/* For implementations: functions that several tables share. No states; messages of
 * uncoded numbers, so that the coding does not change how buckets are cut. */
const char *const *wefti_mixer_no_states(const wefti_mixer_config *config);
int64_t wefti_mixer_uncoded_bytes(const wefti_mixer_config *config,
                                  const wefti_bucket *bucket);

/* The part of state array i that belongs to a bucket. */
float *wefti_mixer_state(const wefti_mixer *m, int i, int bucket);

const wefti_mixer_ops *wefti_mixer_find(const char *kind);
extern const wefti_mixer_ops *const wefti_mixer_registry[]; /* NULL-terminated */

/* All of them, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_mixer_ops wefti_mixer_##name;
#include "mix/mixers.def"
#undef WEFTI_KIND
