/* SPDX-License-Identifier: MIT */
/* Measures collectives over the replicas of a site, one per node, from a common start:
 * the all-reduce of `full`, an all-gather, an exchange in both directions between two,
 * and the all-reduces of a whole step, which overlap as the buckets of a step do. Other
 * ranks are idle. The samples are the times of a rank, over all ranks and rounds.
 *
 * Over sockets the all-reduces of a step also give the processor time per byte: with u
 * the processor time of a process in a round and s the bytes that it sent in that round,
 *
 *     collective_cpu = median over the processes and rounds of u / s
 *
 * if a round sends at least LEAST_SENT bytes: with fewer, the fixed cost of a message would
 * be attributed to its bytes. Threads of one process only pass pointers, and MPI waits by
 * spinning. Neither shows the cost of sockets, so nothing is recorded for them. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "probe/prober.h"
#include "collectives/all_reduce.h"

enum { SIZES = 5, LEAST_BYTES = 1 << 10, MOST_BYTES = LEAST_BYTES << 12, ROUNDS = 6 };
enum { LEAST_SENT = 256 << 10 };
static const double MOST_CPU_S = 1e-3; /* per byte, the largest value that cluster.yaml
                                          accepts */
enum { MOST_GATHERED = 1 << 26, BUCKETS = 4, BUCKET_ROUNDS = 3 };

typedef enum pattern { ALL_REDUCE, ALL_GATHER, PAIR, STEP, PATTERNS } pattern;

static const char *const names[PATTERNS] = {"all-reduce", "all-gather", "pair",
                                            "all-reduces of a step"};

typedef struct tester {
    wefti_prober *p;
    wefti_comm *comm; /* NULL: this rank is idle */
    wefti_all_reduce *reduce;
    char *mine, *all; /* [MOST_BYTES], [gathered_bytes]; owned, like reduce */
    int64_t gathered_bytes;
    int64_t step_bytes; /* of a STEP, in BUCKETS */
    int64_t n_done;     /* counter for the tags */
    int members;
} tester;

static int64_t bytes_of(int size) { return (int64_t)LEAST_BYTES << (3 * size); }

/* Vectors of the all-reduce: one for each size, then the buckets. */
static int64_t next_tag(tester *t) {
    return wefti_comm_tag(t->n_done, SIZES + BUCKETS, 0);
}

static weft_status all_reduce(tester *t, int first, int n) {
    float *x = (float *)(void *)t->mine;
    wefti_range lost;
    for (int v = first; v < first + n; v++)
        WEFT_TRY(wefti_all_reduce_begin(t->reduce, v, t->n_done, x, NULL));
    for (int v = first; v < first + n; v++)
        WEFT_TRY(wefti_all_reduce_combine(t->reduce, v, t->n_done, x, &lost));
    for (int v = first; v < first + n; v++)
        WEFT_TRY(wefti_all_reduce_end(t->reduce, v, t->n_done, x));
    return WEFT_OK;
}

static weft_status pair(tester *t, int64_t n_bytes) {
    int partner = t->comm->rank ^ 1;
    int64_t tag = next_tag(t);
    const void *view;
    if (partner >= t->comm->size) return WEFT_OK;
    WEFT_TRY(wefti_comm_send(t->comm, partner, tag, t->mine, n_bytes));
    WEFT_TRY(wefti_comm_receive(t->comm, partner, tag, n_bytes, &view));
    wefti_comm_release(t->comm, partner, tag);
    return wefti_comm_await(t->comm, tag);
}

/* Runs a pattern once, from a common start. *seconds is NAN if this rank takes no part. */
static weft_status run_once(tester *t, pattern what, int size, double *seconds) {
    WEFT_TRY(wefti_prober_meet(t->p));
    t->n_done++;
    *seconds = (double)NAN;
    if (!t->comm || (what == PAIR && (t->comm->rank ^ 1) >= t->comm->size))
        return WEFT_OK;
    double start_s = wefti_now_s();
    if (what == ALL_REDUCE) WEFT_TRY(all_reduce(t, size, 1));
    if (what == STEP) WEFT_TRY(all_reduce(t, SIZES, BUCKETS));
    if (what == ALL_GATHER)
        WEFT_TRY(
            wefti_comm_all_gather(t->comm, next_tag(t), t->mine, bytes_of(size), t->all));
    if (what == PAIR) WEFT_TRY(pair(t, bytes_of(size)));
    *seconds = wefti_now_s() - start_s;
    return WEFT_OK;
}

/* The least time that the messages of an all-reduce need on the interfaces. */
static double least_s(const tester *t, const weft_link_facts *wire, int64_t n_bytes) {
    double n = t->members;
    return 2 * ((n - 1) / n * (double)n_bytes / wire->bandwidth_Bps + wire->latency_s);
}

/* Records how much longer the all-reduces of a step took until the last rank was done.
 * With many messages in a row the senders lose step, so that several send to the same
 * receiver; buffers overflow, and acknowledgements queue behind data. */
static void note_incast(const tester *t, double seconds) {
    weft_link_facts *wire = t->p->result ? &t->p->result->cluster->wire : NULL;
    if (!wire || t->members < 3 || wire->bandwidth_Bps <= 0) return;
    wire->incast = fmax(1, seconds / least_s(t, wire, t->step_bytes));
}

static weft_status note(tester *t, pattern what, int64_t n_bytes, const double *times,
                        int64_t n) {
    const wefti_job *job = t->p->setup->job;
    wefti_samples s = {0};
    char name[64];
    weft_collective_seconds c = {.nodes = job->site.replicas, .bytes = n_bytes};
    if (what == PAIR) c.nodes = 2;
    snprintf(c.name, sizeof c.name, "%s", names[what]);
    snprintf(name, sizeof name, "%s of %lld, %lld B", c.name, (long long)c.nodes,
             (long long)c.bytes);
    weft_status status = wefti_prober_gather(t->p, times, n, &s);
    if (status == WEFT_OK) status = wefti_prober_note_samples(t->p, name, "s", &s);
    if (status == WEFT_OK) {
        c.median_s = wefti_samples_quantile(&s, WEFTI_ALL, 0.5);
        c.low_s = wefti_samples_quantile(&s, WEFTI_ALL, 0.05);
        c.high_s = wefti_samples_quantile(&s, WEFTI_ALL, 0.95);
    }
    wefti_samples_fini(t->p->ctx, &s);
    WEFT_TRY(status);
    return wefti_prober_append(t->p, WEFT_CLUSTER_COLLECTIVES, &c);
}

/* Measures larger and larger messages, as long as a few rounds of the next size fit into
 * the remaining time. The next size is expected to take three times as long while the
 * latency dominates, then eight times.
 */
static weft_status measure_pattern(tester *t, pattern what, double seconds) {
    enum { MOST = 50 };
    double times[MOST], round_s = 0, before_s = 0, until_s = wefti_now_s() + seconds;
    for (int size = 0; size < SIZES; size++) {
        int64_t rounds;
        double growth = round_s < 2 * before_s || before_s == 0 ? 3 : 8;
        double over_s = growth * ROUNDS * round_s - (until_s - wefti_now_s());
        before_s = round_s;
        bool fits = what != ALL_GATHER ||
                    bytes_of(size) * t->members <= t->gathered_bytes;
        WEFT_TRY(wefti_prober_agree(t->p, &over_s));
        if (!fits || (size > 0 && over_s > 0)) break;
        WEFT_TRY(run_once(t, what, size, &times[0])); /* warm-up */
        double start_s = wefti_now_s();
        WEFT_TRY(run_once(t, what, size, &times[0]));
        round_s = wefti_now_s() - start_s;
        WEFT_TRY(wefti_prober_agree(t->p, &round_s));
        double share_s = (until_s - start_s) / (SIZES - size);
        WEFT_TRY(wefti_prober_rounds(t->p, round_s, share_s, ROUNDS, MOST, &rounds));
        for (int64_t i = 0; i < rounds; i++) WEFT_TRY(run_once(t, what, size, &times[i]));
        WEFT_TRY(note(t, what, bytes_of(size), times, rounds));
    }
    return WEFT_OK;
}

/* Chooses the bytes of a step: a rank's share of the model, or a half, a quarter ... of
 * it that fits into the time. */
static weft_status choose_step(tester *t, double seconds) {
    wefti_prober *p = t->p;
    int64_t n_bytes = p->rank->arrangement->n_elements * (int64_t)sizeof(float);
    double chosen = 0;
    if (n_bytes > MOST_BYTES) n_bytes = MOST_BYTES;
    if (p->result) {
        const weft_link_facts *wire = &p->result->cluster->wire;
        double limit_s = seconds / (1.4 * (1 + BUCKET_ROUNDS));
        bool known = wire->bandwidth_Bps > 0;
        while (known && n_bytes > LEAST_BYTES && least_s(t, wire, n_bytes) > limit_s)
            n_bytes /= 2;
        chosen = (double)n_bytes;
    }
    WEFT_TRY(wefti_prober_agree(p, &chosen));
    int64_t elements = (int64_t)chosen / (int64_t)sizeof(float) / BUCKETS;
    if (elements < t->members) elements = t->members;
    t->step_bytes = elements * BUCKETS * (int64_t)sizeof(float);
    for (int v = SIZES; v < SIZES + BUCKETS && t->comm; v++)
        WEFT_TRY(wefti_all_reduce_open(t->reduce, v, elements));
    return WEFT_OK;
}

/* Bytes that this rank has handed to sockets so far. */
static double sent_bytes(const tester *t) {
    wefti_traffic traffic;
    double sum = 0;
    wefti_comm_traffic(t->comm, &traffic);
    for (int link = 0; link < WEFTI_LINK_CLASSES; link++)
        sum += (double)traffic.bytes_out[link];
    return sum;
}

/* Records the processor time per byte. each [n]: this process's value in each round. */
static weft_status note_processor(tester *t, const double *each, int64_t n) {
    wefti_samples s = {0};
    weft_status status = wefti_prober_gather(t->p, each, n, &s);
    double median = status == WEFT_OK ? wefti_samples_quantile(&s, WEFTI_ALL, 0.5) : NAN;
    bool known = median >= 0 && median <= MOST_CPU_S;
    if (status == WEFT_OK && known)
        status = wefti_prober_note_samples(t->p, "processor of a collective", "s/B", &s);
    wefti_samples_fini(t->p->ctx, &s);
    if (status == WEFT_OK && known && t->p->result)
        t->p->result->cluster->collective_cpu_s = median;
    return status;
}

/* Runs one round of a step's all-reduces. Measures the time until the last rank is done,
 * and the processor time of this process per byte (NAN: too few bytes were sent). */
static weft_status step_round(tester *t, double *mine_s, double *last_s, double *cpu_s) {
    double cpu_before_s = wefti_process_cpu_s();
    double sent_before = t->comm ? sent_bytes(t) : 0;
    WEFT_TRY(run_once(t, STEP, 0, mine_s));
    *last_s = t->comm ? *mine_s : 0;
    WEFT_TRY(wefti_prober_agree(t->p, last_s));
    double sent = t->comm ? sent_bytes(t) - sent_before : 0;
    *cpu_s = sent >= LEAST_SENT ? (wefti_process_cpu_s() - cpu_before_s) / sent
                                : (double)NAN;
    return WEFT_OK;
}

static weft_status measure_step(tester *t, double seconds) {
    enum { MOST = 50 };
    double times[MOST], cpu_s[MOST], last_s, start_s = wefti_now_s();
    int64_t rounds;
    WEFT_TRY(choose_step(t, seconds));
    WEFT_TRY(run_once(t, STEP, 0, &times[0])); /* warm-up */
    double round_s = wefti_now_s() - start_s;
    WEFT_TRY(wefti_prober_rounds(t->p, round_s, seconds - round_s, BUCKET_ROUNDS, MOST,
                                 &rounds));
    double sum_s = 0;
    for (int64_t i = 0; i < rounds; i++) {
        WEFT_TRY(step_round(t, &times[i], &last_s, &cpu_s[i]));
        sum_s += last_s;
    }
    note_incast(t, sum_s / (double)rounds);
    if (t->p->setup->sockets) WEFT_TRY(note_processor(t, cpu_s, rounds));
    return note(t, STEP, t->step_bytes, times, rounds);
}

static weft_status open_tester(tester *t) {
    wefti_prober *p = t->p;
    WEFT_TRY(wefti_alloc(p->ctx, MOST_BYTES, "a message", &t->mine));
    t->gathered_bytes = (int64_t)t->members * MOST_BYTES;
    if (t->gathered_bytes > MOST_GATHERED) t->gathered_bytes = MOST_GATHERED;
    if (!t->comm) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(p->ctx, t->gathered_bytes, 1, "messages", &t->all));
    wefti_all_reduce_setup setup = {.ctx = p->ctx,
                                    .kernels = p->setup->job->kernels,
                                    .comm = t->comm,
                                    .coding = {.values = WEFTI_VALUES_F32, .threads = 1},
                                    .n_vectors = SIZES + BUCKETS};
    WEFT_TRY(wefti_all_reduce_create(&setup, &t->reduce));
    for (int size = 0; size < SIZES; size++)
        WEFT_TRY(wefti_all_reduce_open(t->reduce, size,
                                       bytes_of(size) / (int64_t)sizeof(float)));
    return WEFT_OK;
}

weft_status wefti_probe_collectives(wefti_prober *p, double seconds) {
    const wefti_job *job = p->setup->job;
    tester t = {.p = p, .members = job->site.replicas};
    if (job->copies > 1 || job->site.replicas < 2) return WEFT_OK;
    if (p->rank->local == 0) t.comm = p->rank->comms.replica;
    weft_status status = open_tester(&t);
    for (int what = 0; what < STEP && status == WEFT_OK; what++)
        status = measure_pattern(&t, (pattern)what, seconds / 2 / STEP);
    if (status == WEFT_OK) status = measure_step(&t, seconds / 2);
    if (status == WEFT_OK) status = wefti_prober_meet(p);
    wefti_all_reduce_destroy(t.reduce);
    WEFTI_FREE(p->ctx, t.mine, t.all);
    return status;
}
