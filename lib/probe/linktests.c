/* SPDX-License-Identifier: MIT */
/* Measures links by ping-pong. The members of a class are the ranks of a node (local),
 * the first ranks of the nodes of a site (wire), or the first ranks of the sites (site).
 * Each round has other pairs, as in a tournament, and all pairs measure at the same time:
 *
 *     sweep    one round, messages from 0 bytes up to what fits into the time: fits
 *              latency + bytes / bandwidth to half of each round trip
 *     pairs    all rounds, an empty and a long message: finds pairs that differ
 *     cost     many empty messages in a row: processor time per message
 *     flows    one member to 1, 2, 4 others at once: the rate of its interface
 *
 * A shaper lets a burst through, and while one end of a pair answers that of the other is filled
 * again: a stream to one other goes on until that is used up, and counts where it is slower. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "probe/prober.h"

static const double most_long_s = 0.25; /* limit for a long message */
static const double fast_Bps = 12.5e9;  /* where a byte took no time that shows */
static const double least_burst = 1.2;  /* times as fast as a stream that goes on */
enum {
    LONG_BYTES = 1 << 20,
    MAX_SIZES = 9, /* 0, 256 B, 1 kB ... MAX_BYTES */
    MAX_BYTES = 1 << 22,
    BURST = 16,
    LEAST_ROUNDS = 6
};

/* A rank's place among the members of a class. */
typedef struct lane {
    const char *name;
    int n, index;      /* number of members; this rank's place, -1: not a member */
    int first, stride; /* member i is world rank first + i stride */
} lane;

typedef struct prober {
    wefti_prober *p;
    lane lane;
    char *buffer; /* [MAX_BYTES] owned */
    int64_t tags[BURST];
    int64_t bytes[MAX_SIZES];
    int n_sizes;
    double empty_s, longest_s; /* time of the shortest and of the longest message */
} prober;

static lane lane_of(const wefti_prober *p, wefti_link_class class) {
    const wefti_job *job = p->setup->job;
    int per_node = job->copies * job->S, per_site = job->W / job->site.n;
    int rank = p->comm->rank;
    if (class == WEFTI_LINK_LOCAL)
        return (lane){"local", per_node, rank % per_node, rank - rank % per_node, 1};
    if (class == WEFTI_LINK_WIRE) {
        int at = rank % per_site;
        return (lane){"wire", per_site / per_node, at % per_node ? -1 : at / per_node,
                      rank - at, per_node};
    }
    return (lane){"site", job->site.n, rank % per_site ? -1 : rank / per_site, 0,
                  per_site};
}

/* --- partners --- */

static int rounds_of(const lane *l) { return l->n + l->n % 2 - 1; }

/* The partner in a round, -1: none. In rounds_of rounds every member is paired with every other.
 * In round 0 the partner of member 0 is the last member if n is even, else it has none. */
static int partner_of(const lane *l, int round) {
    int even = l->n + l->n % 2, turn = even - 1, partner;
    if (l->index < 0 || l->n < 2) return -1;
    if (l->index == turn) {
        for (partner = 0; 2 * partner % turn != round % turn;) partner++;
    } else {
        partner = ((round - l->index) % turn + turn) % turn;
        if (partner == l->index) partner = turn;
    }
    return partner < l->n ? partner : -1;
}

static int rank_of(const lane *l, int member) { return l->first + member * l->stride; }

/* --- one round trip --- */

static weft_status hear(const prober *b, int rank, int64_t tag, int64_t n_bytes) {
    const void *view;
    WEFT_TRY(wefti_comm_receive(b->p->comm, rank, tag, n_bytes, &view));
    wefti_comm_release(b->p->comm, rank, tag);
    return WEFT_OK;
}

/* Measures half of a round trip; NAN for all but the first member of the pair. */
static weft_status ping(const prober *b, int partner, int64_t n_bytes, double *half_s) {
    int64_t tag = b->tags[0];
    wefti_comm *comm = b->p->comm;
    *half_s = (double)NAN;
    if (partner < 0) return WEFT_OK;
    int rank = rank_of(&b->lane, partner);
    bool first = b->lane.index < partner;
    double start_s = wefti_now_s();
    if (!first) WEFT_TRY(hear(b, rank, tag, n_bytes));
    WEFT_TRY(wefti_comm_send(comm, rank, tag, b->buffer, n_bytes));
    if (first) WEFT_TRY(hear(b, rank, tag, n_bytes));
    if (first) *half_s = (wefti_now_s() - start_s) / 2;
    return wefti_comm_await(comm, tag);
}

/* The median of a few round trips of the slowest pair. Collective. */
static weft_status try_size(const prober *b, int round, int64_t n_bytes, double *half_s) {
    double of[3];
    for (int i = 0; i < 3; i++)
        WEFT_TRY(ping(b, partner_of(&b->lane, round), n_bytes, &of[i]));
    *half_s = isnan(of[0]) ? 0 : wefti_quantile(of, 3, 0.5);
    return wefti_prober_agree(b->p, half_s);
}

/* Chooses sizes up to one that takes `most_s`, or three latencies, since a rate cannot be
 * measured with less. The largest size also exceeds what buffers on the path pass at
 * once, unless that takes too long. */
static weft_status choose_sizes(prober *b, double most_s) {
    double half_s;
    int64_t n_bytes = 0;
    WEFT_TRY(try_size(b, 1, 0, &half_s));
    b->empty_s = half_s;
    if (most_s < 3 * half_s) most_s = 3 * half_s;
    for (b->n_sizes = 1; b->n_sizes < MAX_SIZES; b->n_sizes++) {
        double next_s = b->empty_s + 4 * (half_s - b->empty_s);
        bool is_long = n_bytes >= LONG_BYTES || next_s > most_long_s;
        if (next_s > most_s && is_long && b->n_sizes > 1) break;
        n_bytes = n_bytes ? 4 * n_bytes : 256;
        WEFT_TRY(try_size(b, 1, n_bytes, &half_s));
        b->bytes[b->n_sizes] = n_bytes;
    }
    b->longest_s = half_s;
    return WEFT_OK;
}

/* --- sweep --- */

/* times [sizes][rounds] */
static weft_status sweep(const prober *b, int64_t rounds, double *times) {
    int partner = partner_of(&b->lane, 1);
    for (int64_t i = 0; i < rounds; i++)
        for (int s = 0; s < b->n_sizes; s++)
            WEFT_TRY(ping(b, partner, b->bytes[s], &times[s * rounds + i]));
    return WEFT_OK;
}

static weft_status note_links(const prober *b, const wefti_link_fit fits[3],
                              weft_link_facts *link) {
    weft_probe_figure latency = {"", "s", fits[0].latency_s, fits[1].latency_s,
                                 fits[2].latency_s};
    weft_probe_figure rate = {"", "B/s", fits[0].bandwidth_Bps, fits[1].bandwidth_Bps,
                              fits[2].bandwidth_Bps};
    weft_probe_figure residual = {"", "", fits[0].residual, fits[1].residual,
                                  fits[2].residual};
    snprintf(latency.name, sizeof latency.name, "%s latency", b->lane.name);
    snprintf(rate.name, sizeof rate.name, "%s bandwidth", b->lane.name);
    snprintf(residual.name, sizeof residual.name, "%s residual", b->lane.name);
    link->latency_s = fits[0].latency_s;
    link->bandwidth_Bps = fits[0].bandwidth_Bps;
    link->residual = fits[0].residual;
    WEFT_TRY(wefti_prober_note(b->p, &latency));
    WEFT_TRY(wefti_prober_note(b->p, &rate));
    return wefti_prober_note(b->p, &residual);
}

static weft_status fit_links(const prober *b, int64_t rounds, const double *times,
                             weft_link_facts *link) {
    double bytes[MAX_SIZES], medians[3][MAX_SIZES];
    wefti_link_fit fits[3];
    for (int s = 0; s < b->n_sizes; s++) {
        wefti_samples samples = {0};
        weft_status status = wefti_prober_gather(b->p, times + s * rounds, rounds,
                                                 &samples);
        for (int part = 0; part < 3 && status == WEFT_OK; part++)
            medians[part][s] = wefti_samples_quantile(&samples, (wefti_sample_half)part,
                                                      0.5);
        wefti_samples_fini(b->p->ctx, &samples);
        WEFT_TRY(status);
        bytes[s] = (double)b->bytes[s];
    }
    for (int part = 0; part < 3; part++)
        fits[part] = wefti_fit_link(b->n_sizes, bytes, medians[part]);
    return note_links(b, fits, link);
}

static weft_status measure_sweep(const prober *b, double seconds, weft_link_facts *link) {
    int64_t rounds;
    double *times;
    WEFT_TRY(wefti_prober_rounds(b->p, 2.67 * b->longest_s + 2 * MAX_SIZES * b->empty_s,
                                 seconds, LEAST_ROUNDS, 200, &rounds));
    WEFT_TRY(
        wefti_alloc_n(b->p->ctx, MAX_SIZES * rounds, sizeof *times, "pings", &times));
    weft_status status = sweep(b, rounds, times);
    if (status == WEFT_OK) status = fit_links(b, rounds, times, link);
    wefti_free(b->p->ctx, times);
    return status;
}

/* --- pairs --- */

enum { PAIR_TIMES = 6, HALVES = 2 };

typedef struct pair_times {
    double empty_s[HALVES], long_s[HALVES]; /* the minimum of each half; NAN: no pair */
} pair_times;

/* Measures the pairs of which this rank is the first member: out[rounds]. */
static weft_status measure_pairs(const prober *b, int64_t long_bytes, pair_times *out) {
    for (int round = 0; round < rounds_of(&b->lane); round++) {
        int partner = partner_of(&b->lane, round);
        pair_times *t = &out[round];
        *t = (pair_times){{NAN, NAN}, {NAN, NAN}};
        WEFT_TRY(wefti_prober_meet(b->p));
        for (int i = 0; i < PAIR_TIMES; i++) {
            double s;
            WEFT_TRY(ping(b, partner, 0, &s));
            t->empty_s[i % HALVES] = fmin(t->empty_s[i % HALVES], s);
            WEFT_TRY(ping(b, partner, long_bytes, &s));
            t->long_s[i % HALVES] = fmin(t->long_s[i % HALVES], s);
        }
    }
    return WEFT_OK;
}

/* Latency and rate of a pair by one half of the samples; 0: not measurable. */
static weft_link_pair pair_of(const pair_times *t, int half, int64_t long_bytes) {
    double extra_s = t->long_s[half] - t->empty_s[half];
    return (weft_link_pair){.latency_s = t->empty_s[half],
                            .bandwidth_Bps = extra_s > 0 ? (double)long_bytes / extra_s
                                                         : 0};
}

static bool differs(double x, double y, double median) {
    double low = median / 1.2, high = median * 1.2;
    return (x < low && y < low) || (x > high && y > high);
}

typedef struct pair_table {
    const pair_times *of; /* [ranks][rounds] */
    int ranks, rounds;
    int64_t long_bytes;
    double *spare; /* [ranks rounds] */
} pair_table;

/* The median over all pairs of the time of an empty, or a long, message in the first half.
 */
static double median_of(const pair_table *table, bool is_long) {
    int64_t n = 0;
    for (int i = 0; i < table->ranks * table->rounds; i++) {
        const pair_times *t = &table->of[i];
        double s = is_long ? t->long_s[0] : t->empty_s[0];
        if (!isnan(s)) table->spare[n++] = s;
    }
    return wefti_quantile(table->spare, n, 0.5);
}

/* Records the pairs that differ according to both halves. */
static weft_status list_pairs(const prober *b, const pair_table *table) {
    const wefti_job *job = b->p->setup->job;
    int per_node = job->copies * job->S;
    double empty_s = median_of(table, false), long_s = median_of(table, true);
    for (int i = 0; i < table->ranks * table->rounds; i++) {
        int rank = i / table->rounds;
        const pair_times *t = &table->of[i];
        if (isnan(t->empty_s[0])) continue;
        if (!differs(t->empty_s[0], t->empty_s[1], empty_s) &&
            !differs(t->long_s[0], t->long_s[1], long_s))
            continue;
        weft_link_pair one = pair_of(t, 0, table->long_bytes),
                       two = pair_of(t, 1, table->long_bytes);
        if (one.bandwidth_Bps <= 0 || two.bandwidth_Bps <= 0) continue;
        lane seen = b->lane; /* the first member of the pair, in its own site */
        int site = job->W / job->site.n;
        seen.first = rank - rank % site;
        seen.index = (rank - seen.first) / seen.stride;
        int partner = partner_of(&seen, i % table->rounds);
        weft_link_pair pair = {rank / per_node, rank_of(&seen, partner) / per_node,
                               (one.bandwidth_Bps + two.bandwidth_Bps) / 2,
                               (one.latency_s + two.latency_s) / 2};
        WEFT_TRY(wefti_prober_append(b->p, WEFT_CLUSTER_PAIRS, &pair));
        int64_t from = pair.from;
        pair.from = pair.to;
        pair.to = from;
        WEFT_TRY(wefti_prober_append(b->p, WEFT_CLUSTER_PAIRS, &pair));
    }
    return WEFT_OK;
}

static weft_status gather_pairs(const prober *b, const pair_times *mine,
                                int64_t long_bytes) {
    wefti_prober *p = b->p;
    int rounds = rounds_of(&b->lane), W = p->comm->size;
    pair_times *all = NULL;
    double *spare = NULL;
    weft_status status = wefti_alloc_n(p->ctx, W * rounds, sizeof *all, "pairs", &all);
    if (status == WEFT_OK)
        status = wefti_alloc_n(p->ctx, W * rounds, sizeof *spare, "pairs", &spare);
    if (status == WEFT_OK)
        status = wefti_comm_all_gather(p->comm, wefti_rank_control_tag(p->rank), mine,
                                       rounds * (int64_t)sizeof *mine, all);
    pair_table table = {all, W, rounds, long_bytes, spare};
    if (status == WEFT_OK && p->result) status = list_pairs(b, &table);
    WEFTI_FREE(p->ctx, all, spare);
    return status;
}

/* Compares pairs with the longest message that the time allows, or one that takes up to
 * two latencies to transfer, since the rate of a pair could not be measured with less. */
static weft_status compare_pairs(const prober *b, const weft_link_facts *link,
                                 double seconds) {
    int rounds = rounds_of(&b->lane);
    double each_s = seconds / (rounds * PAIR_TIMES * 2);
    int s = b->n_sizes - 1;
    if (b->lane.n < 3 || link->bandwidth_Bps <= 0) return WEFT_OK;
    if (each_s < 4 * link->latency_s) each_s = 4 * link->latency_s;
    while (s > 1 &&
           2 * link->latency_s + (double)b->bytes[s] / link->bandwidth_Bps > each_s)
        s--;
    pair_times *times;
    WEFT_TRY(wefti_alloc_n(b->p->ctx, rounds, sizeof *times, "pairs", &times));
    weft_status status = measure_pairs(b, b->bytes[s], times);
    if (status == WEFT_OK) status = gather_pairs(b, times, b->bytes[s]);
    wefti_free(b->p->ctx, times);
    return status;
}

/* --- cost of a message --- */

/* Sends a burst from the first member of a pair to the second; each measures its cost per
 * message. The receiver waits for the last message first, so that all others have arrived. */
static weft_status burst(const prober *b, int partner, bool sender, double *cost_s) {
    wefti_comm *comm = b->p->comm;
    int rank = rank_of(&b->lane, partner);
    if (!sender) WEFT_TRY(hear(b, rank, b->tags[BURST - 1], 0));
    double start_s = wefti_now_s();
    for (int i = 0; i < BURST; i++) {
        if (sender)
            WEFT_TRY(wefti_comm_send(comm, rank, b->tags[i], b->buffer, 0));
        else if (i < BURST - 1)
            WEFT_TRY(hear(b, rank, b->tags[i], 0));
    }
    *cost_s += (wefti_now_s() - start_s) / (sender ? BURST : BURST - 1) / 2;
    for (int i = 0; i < BURST && sender; i++)
        WEFT_TRY(wefti_comm_await(comm, b->tags[i]));
    return WEFT_OK;
}

/* Measures both directions: the mean of sending and receiving. */
static weft_status measure_cost(const prober *b, int64_t rounds, double *costs) {
    int partner = partner_of(&b->lane, 1);
    for (int64_t i = 0; i < rounds; i++) {
        costs[i] = partner < 0 ? (double)NAN : 0;
        if (partner < 0) continue;
        bool first = b->lane.index < partner;
        WEFT_TRY(burst(b, partner, first, &costs[i]));
        WEFT_TRY(burst(b, partner, !first, &costs[i]));
    }
    return WEFT_OK;
}

static weft_status note_cost(const prober *b, double seconds, weft_link_facts *link) {
    enum { MOST = 100 };
    double costs[MOST];
    char name[64];
    int64_t rounds;
    wefti_samples s = {0};
    WEFT_TRY(wefti_prober_rounds(b->p, 2 * b->empty_s, seconds, 4, MOST, &rounds));
    WEFT_TRY(measure_cost(b, rounds, costs));
    snprintf(name, sizeof name, "%s message", b->lane.name);
    weft_status status = wefti_prober_gather(b->p, costs, rounds, &s);
    if (status == WEFT_OK) status = wefti_prober_note_samples(b->p, name, "s", &s);
    link->message_s = status == WEFT_OK ? wefti_samples_quantile(&s, WEFTI_ALL, 0.5) : 0;
    wefti_samples_fini(b->p->ctx, &s);
    return status;
}

/* --- flows --- */

/* Measures member 0's rate to k others at the same time; NAN for all other members. */
static weft_status fan_out(const prober *b, int k, int64_t n_bytes, double latency_s,
                           double *Bps) {
    wefti_comm *comm = b->p->comm;
    int64_t tag = b->tags[0], back = b->tags[1];
    *Bps = (double)NAN;
    if (b->lane.index < 0 || b->lane.index > k) return WEFT_OK;
    int first = rank_of(&b->lane, 0);
    if (b->lane.index > 0) {
        WEFT_TRY(hear(b, first, tag, n_bytes));
        WEFT_TRY(wefti_comm_send(comm, first, back, b->buffer, 0));
        return wefti_comm_await(comm, back);
    }
    double start_s = wefti_now_s();
    for (int i = 1; i <= k; i++)
        WEFT_TRY(wefti_comm_send(comm, rank_of(&b->lane, i), tag, b->buffer, n_bytes));
    for (int i = 1; i <= k; i++) WEFT_TRY(hear(b, rank_of(&b->lane, i), back, 0));
    double spent_s = wefti_now_s() - start_s - 2 * latency_s;
    if (spent_s > 0) *Bps = k * (double)n_bytes / spent_s;
    return wefti_comm_await(comm, tag);
}

static weft_status measure_flows(const prober *b, int k, const weft_link_facts *link,
                                 double seconds, double *median) {
    enum { MOST = 40 };
    double rates[MOST];
    char name[64];
    int s = b->n_sizes - 1;
    int64_t rounds;
    WEFT_TRY(wefti_prober_rounds(
        b->p, 3 * link->latency_s + k * (double)b->bytes[s] / link->bandwidth_Bps,
        seconds, 4, MOST, &rounds));
    for (int64_t i = 0; i < rounds; i++) {
        WEFT_TRY(wefti_prober_meet(b->p));
        WEFT_TRY(fan_out(b, k, b->bytes[s], link->latency_s, &rates[i]));
    }
    wefti_samples samples = {0};
    snprintf(name, sizeof name, "%s, %d flow%s", b->lane.name, k, k > 1 ? "s" : "");
    weft_status status = wefti_prober_gather(b->p, rates, rounds, &samples);
    if (status == WEFT_OK)
        status = wefti_prober_note_samples(b->p, name, "B/s", &samples);
    if (status == WEFT_OK) *median = wefti_samples_quantile(&samples, WEFTI_ALL, 0.5);
    wefti_samples_fini(b->p->ctx, &samples);
    return status;
}

/* The fit has counted bursts: a stream that goes on was this fast. */
static void slow_down(const prober *b, weft_link_facts *link, double Bps) {
    weft_probe_result *result = b->p->result;
    char name[64];
    snprintf(name, sizeof name, "%s bandwidth", b->lane.name);
    link->bandwidth_Bps = Bps;
    for (int64_t i = 0; result && i < result->n_figures; i++) {
        weft_probe_figure *f = &result->figures[i];
        if (wefti_is(f->name, name)) f->value = f->first = f->second = Bps;
    }
}

/* If several flows together are faster than one, their rate is that of the link. */
static weft_status compare_flows(const prober *b, double seconds, weft_link_facts *link,
                                 int64_t *flows) {
    double Bps[3] = {0, 0, 0};
    *flows = 1;
    if (link->bandwidth_Bps <= 0) return WEFT_OK;
    for (int i = 0, k = 1; i < 3 && k < b->lane.n; i++, k *= 2) {
        double each_s = i ? seconds / 3 : fmax(seconds / 3, most_long_s);
        WEFT_TRY(measure_flows(b, k, link, each_s, &Bps[i]));
        if (i == 0 && Bps[0] > 0 && least_burst * Bps[0] < link->bandwidth_Bps)
            slow_down(b, link, Bps[0]);
        if (i == 0 || !(Bps[i] > 1.05 * Bps[0] && Bps[i] > 1.05 * link->bandwidth_Bps))
            continue;
        *flows = k;
        link->bandwidth_Bps = Bps[i];
    }
    return WEFT_OK;
}

/* --- all tests of a class --- */

static weft_status measure_class(prober *b, double seconds, weft_link_facts *link,
                                 int64_t *flows) {
    for (int i = 0; i < BURST; i++) b->tags[i] = wefti_rank_control_tag(b->p->rank);
    WEFT_TRY(choose_sizes(b, 0.5 * seconds / (2.67 * LEAST_ROUNDS)));
    WEFT_TRY(measure_sweep(b, 0.4 * seconds, link));
    WEFT_TRY(note_cost(b, 0.1 * seconds, link));
    WEFT_TRY(compare_flows(b, 0.2 * seconds, link, flows));
    return wefti_is(b->lane.name, "wire") ? compare_pairs(b, link, 0.2 * seconds)
                                          : WEFT_OK;
}

weft_status wefti_probe_links(wefti_prober *p, double seconds) {
    weft_link_facts links[WEFTI_LINK_CLASSES] = {{0}};
    int64_t flows[WEFTI_LINK_CLASSES] = {1, 1, 1};
    int n = 0;
    for (int c = 0; c < WEFTI_LINK_CLASSES; c++)
        n += lane_of(p, (wefti_link_class)c).n > 1;
    prober b = {.p = p};
    WEFT_TRY(wefti_alloc(p->ctx, MAX_BYTES, "a message", &b.buffer));
    weft_status status = WEFT_OK;
    for (int c = 0; c < WEFTI_LINK_CLASSES && status == WEFT_OK; c++) {
        b.lane = lane_of(p, (wefti_link_class)c);
        if (b.lane.n > 1) status = measure_class(&b, seconds / n, &links[c], &flows[c]);
        bool seen = links[c].bandwidth_Bps > 0 || b.lane.n < 2;
        if (!seen && c != WEFTI_LINK_LOCAL) links[c].bandwidth_Bps = fast_Bps;
    }
    weft_status met = status == WEFT_OK ? wefti_prober_meet(p) : WEFT_OK;
    wefti_free(p->ctx, b.buffer);
    if (status == WEFT_OK) status = met;
    if (status != WEFT_OK || !p->result) return status;
    weft_cluster *cluster = p->result->cluster;
    cluster->local = links[WEFTI_LINK_LOCAL];
    cluster->wire = links[WEFTI_LINK_WIRE];
    cluster->site = links[WEFTI_LINK_SITE];
    cluster->flows = flows[WEFTI_LINK_WIRE];
    return WEFT_OK;
}
