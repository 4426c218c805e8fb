/* SPDX-License-Identifier: MIT */
/* CPU, memory and network use of each node, for the report and for people who watch a
 * run.
 *
 *     each rank: counters of the process, the machine and its own traffic, now minus before
 *          -- 160 bytes -->  the first rank: sums, or the largest, of the ranks of a node
 *
 * Ranks that are threads of one process report equal shares of what the process used. On
 * a machine with ranks of several nodes (emulated nodes), each of these nodes reports the
 * whole network traffic of the machine. */
#define _GNU_SOURCE
#include "runfiles/nodefacts.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "wire/bits.h"

enum {
    HOST_BYTES = 64,
    CORES = WEFTI_NODE_FIGURES,
    PASS_ROWS,
    RECOMPUTES,
    NUMBERS,
    BYTES = NUMBERS * 8 + HOST_BYTES
};

/* Reads the counters. */
static wefti_node_meter look(const wefti_rank *r) {
    wefti_traffic t;
    wefti_node_meter m = {
        .begun = true, .at_s = wefti_now_s(), .cpu_s = wefti_process_cpu_s()};
    wefti_machine_busy(NULL, &m.busy_s, &m.all_s);
    wefti_machine_network(NULL, &m.net_out, &m.net_in);
    wefti_comm_traffic(r->comms.control, &t);
    for (int link = 0; link < WEFTI_LINK_CLASSES; link++) {
        if (link == WEFTI_LINK_LOCAL) continue;
        m.wire_out += t.bytes_out[link];
        m.wire_in += t.bytes_in[link];
    }
    m.relayed = t.relayed;
    return m;
}

void wefti_node_meter_begin(wefti_node_meter *meter, wefti_rank *r) { *meter = look(r); }

/* The figures in the order of wefti_node_names; a figure that went backwards counts as
 * unknown. */
static void measure(wefti_rank *r, wefti_node_meter *before, int ranks_here,
                    double figures[WEFTI_NODE_FIGURES]) {
    wefti_node_meter now = look(r);
    double s = fmax(now.at_s - before->at_s, 1e-6);
    int64_t out = now.wire_out - before->wire_out, in = now.wire_in - before->wire_in;
    const double all[WEFTI_NODE_FIGURES] = {
        (now.cpu_s - before->cpu_s) / s / ranks_here,
        (now.busy_s - before->busy_s) / (now.all_s - before->all_s),
        (double)wefti_process_resident_bytes() / ranks_here,
        (double)weft_ctx_bytes_held(r->ctx),
        (now.net_out - before->net_out) / s,
        (now.net_in - before->net_in) / s,
        (double)out / s,
        (double)in / s,
        (double)(now.relayed - before->relayed) / s};
    memcpy(figures, all, sizeof all);
    *before = now;
}

static void pack(wefti_rank *r, wefti_node_meter *meter, int ranks_here,
                 unsigned char *out) {
    double numbers[NUMBERS];
    char host[HOST_BYTES] = "";
    measure(r, meter, ranks_here, numbers);
    numbers[CORES] = wefti_machine_cores();
    numbers[PASS_ROWS] = (double)wefti_rank_micro(r);
    numbers[RECOMPUTES] = r->job->run.recomputes;
    for (int i = 0; i < NUMBERS; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        wefti_put_u64(out + 8 * i, bits);
    }
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    memcpy(out + 8 * NUMBERS, host, sizeof host);
}

/* A number of 0 or more, else NAN: what another rank sends is not trusted. */
static double read_number(const unsigned char *p) {
    uint64_t bits = wefti_get_u64(p);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x >= 0 && x < 1e18 ? x : (double)NAN;
}

/* Adds a rank's figures to its node: the first rank sets them, the others add to them. */
static void add(wefti_node *node, const unsigned char *bytes) {
    enum { BUSY = 1, RANK_BYTES = 3, NET_OUT = 4, NET_IN = 5 };
    for (int i = 0; i < WEFTI_NODE_FIGURES; i++) {
        double x = read_number(bytes + 8 * i), *sum = wefti_node_figure(node, i);
        bool machine = i == BUSY || i == NET_OUT || i == NET_IN;
        if (node->ranks == 0)
            *sum = x;
        else if (i == RANK_BYTES)
            *sum = fmax(*sum, x);
        else if (!machine)
            *sum += x;
    }
    if (node->ranks++ > 0) return;
    double cores = read_number(bytes + 8 * CORES);
    node->cores = cores < 1e6 ? (int)cores : 0;
    double rows = read_number(bytes + 8 * PASS_ROWS);
    node->pass_rows = rows < 1e9 ? (int)rows : 0;
    node->recomputes = read_number(bytes + 8 * RECOMPUTES) > 0;
    memcpy(node->host, bytes + 8 * NUMBERS, HOST_BYTES);
    node->host[HOST_BYTES - 1] = '\0';
}

static weft_status collect(wefti_rank *r, int64_t tag, const unsigned char *mine,
                           wefti_node *nodes) {
    wefti_comm *comm = r->comms.control;
    int per_node = r->job->S * r->job->copies;
    for (int peer = 0; peer < comm->size; peer++) {
        const void *view = mine;
        nodes[peer / per_node].node = peer / per_node;
        if (peer > 0) WEFT_TRY(wefti_comm_receive(comm, peer, tag, BYTES, &view));
        add(&nodes[peer / per_node], view);
        if (peer > 0) wefti_comm_release(comm, peer, tag);
    }
    return WEFT_OK;
}

weft_status wefti_nodefacts_gather(wefti_rank *r, wefti_node_meter *meter, int ranks_here,
                                   wefti_node **nodes, int *n) {
    wefti_comm *comm = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r);
    unsigned char mine[BYTES];
    _Static_assert(HOST_BYTES == sizeof nodes[0]->host, "a host's name fits");
    *nodes = NULL;
    *n = 0;
    pack(r, meter, ranks_here, mine);
    if (r->rank > 0) {
        WEFT_TRY(wefti_comm_send(comm, 0, tag, mine, BYTES));
        return wefti_comm_await(comm, tag);
    }
    int per_node = r->job->S * r->job->copies,
        count = (comm->size + per_node - 1) / per_node;
    WEFT_TRY(wefti_alloc_n(r->ctx, count, sizeof **nodes, "what nodes did", nodes));
    weft_status status = collect(r, tag, mine, *nodes);
    if (status == WEFT_OK) {
        *n = count;
        return WEFT_OK;
    }
    wefti_free(r->ctx, *nodes);
    *nodes = NULL;
    return status;
}
