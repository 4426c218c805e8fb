/* SPDX-License-Identifier: MIT */
/* The rate of the wire from an exchange that somebody has measured.
 *
 *     "2 nodes: 0.6 GB/s"             bytes that are reduced in a second (nccl-tests' algbw)
 *     "2 nodes x 8: busbw 12 GB/s"    the same times 2 (W-1)/W, W = nodes x ranks
 *     "2 nodes, 25 MB: 80 ms"         an all-reduce of that many bytes
 *     "iperf3: 9.4 Gbit/s"            one stream of TCP; "iperf3 x 4": four at once
 *
 * An all-reduce is what a step waits for, so it gives the wire within 5 %:
 *
 *     t = 2 (W-1)/W (n / b + N L + (W-N) L')      solved for b; n unknown: n >> b L
 *
 * A stream is not: a collective over TCP waits between its messages, copies, and may use fewer
 * streams than iperf3 did. On a published grid of DDP over wires shaped to 50 Mbit/s to 5 Gbit/s
 * a step takes 0.55 to 0.75 of the time if the stream's whole rate is assumed. So the rate is
 * 0.65 of the stream's, and 0.5 to 1 of it is plausible; with k streams 0.5 / k, not below
 * the fifth of a label. Of one stream and of k, both given, each is that much of what iperf3 says:
 * who opens n sockets gets n times the one, and no more than the other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/plan.h>

#include "base/text.h"
#include "config/value.h"

static const double of_stream = 0.65, least_of_stream = 0.5, spread = 0.05;
static const double above_label = 1.1; /* nothing is, but for rounding */

typedef struct exchange {
    const char *text;
    double nodes, ranks, streams; /* 0: not given; streams > 0: iperf3 */
    double bytes, seconds, rate_Bps;
    bool bus;
} exchange;

static weft_status refuse(weft_ctx *ctx, const char *text, const char *why) {
    char shown[120];
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "--allreduce '%s': %s, expected such as \"2 nodes: 0.6 GB/s\", "
                         "\"2 nodes x 8: busbw 12 GB/s\" or \"iperf3 x 4: 9.4 Gbit/s\"",
                         wefti_shown(text, shown, sizeof shown), why);
}

/* A copy without blanks; false if it is too long. */
static bool pack(const char *text, size_t n, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ') continue;
        if (used + 1 >= size) return false;
        out[used++] = text[i];
    }
    out[used] = '\0';
    return used > 0;
}

/* "4" or, behind a word, "x4": a whole number from 1 to 65536. */
static bool parse_whole(const char *text, double *out) {
    int64_t n;
    if (!weft_quantity_parse_int(text, WEFT_UNIT_COUNT, &n) || n < 1 || n > 65536)
        return false;
    *out = (double)n;
    return true;
}

/* One part before the colon: "2nodes", "2nodesx8", "25MB", "iperf3", "iperf3x4". */
static bool parse_part(const char *part, exchange *x) {
    static const char tool[] = "iperf3";
    char number[16];
    size_t n = strspn(part, "0123456789");
    if (strncmp(part, tool, sizeof tool - 1) == 0) {
        part += sizeof tool - 1;
        bool twice = x->streams > 0;
        x->streams = 1;
        return !twice && (!*part || (*part == 'x' && parse_whole(part + 1, &x->streams)));
    }
    if (n > 0 && n < sizeof number && strncmp(part + n, "node", 4) == 0) {
        snprintf(number, sizeof number, "%.*s", (int)n, part);
        part += n + 4 + (part[n + 4] == 's');
        if (x->nodes > 0 || !parse_whole(number, &x->nodes) || x->nodes < 2) return false;
        return !*part || (*part == 'x' && parse_whole(part + 1, &x->ranks));
    }
    return x->bytes <= 0 && weft_quantity_parse(part, WEFT_UNIT_BYTES, &x->bytes) &&
           x->bytes > 0;
}

static bool parse_result(const char *text, exchange *x) {
    static const char bus[] = "busbw", algorithm[] = "algbw";
    if (weft_quantity_parse(text, WEFT_UNIT_TIME, &x->seconds)) return x->seconds > 0;
    x->bus = strncmp(text, bus, sizeof bus - 1) == 0;
    if (x->bus || strncmp(text, algorithm, sizeof algorithm - 1) == 0)
        text += sizeof bus - 1;
    return weft_quantity_parse(text, WEFT_UNIT_RATE, &x->rate_Bps) && x->rate_Bps > 0 &&
           x->rate_Bps < 1e15;
}

static weft_status parse(weft_ctx *ctx, const char *text, exchange *x) {
    char part[64];
    const char *colon = strrchr(text, ':');
    *x = (exchange){.text = text};
    if (!colon || !pack(colon + 1, strlen(colon + 1), part, sizeof part))
        return refuse(ctx, text, "there is no colon before a rate");
    if (!parse_result(part, x))
        return refuse(ctx, text, "what is behind the colon is no rate and no time");
    for (const char *at = text; at < colon;) {
        size_t n = strcspn(at, ",:");
        if (!pack(at, n, part, sizeof part) || !parse_part(part, x))
            return refuse(ctx, text,
                          "a word is no number of nodes, bytes or iperf3, or "
                          "comes twice");
        at += n + 1;
    }
    if ((x->nodes > 0) == (x->streams > 0))
        return refuse(ctx, text, "it says neither nodes nor iperf3, or both");
    if (x->seconds > 0 && x->bytes <= 0)
        return refuse(ctx, text, "a time needs the bytes that were reduced");
    if (x->streams > 0 && (x->seconds > 0 || x->bytes > 0 || x->bus))
        return refuse(ctx, text, "iperf3 gives a rate, and nothing else");
    return WEFT_OK;
}

/* The rate of the wire at which a ring takes as long; 0: latency alone takes longer. */
static double rate_of(const exchange *x, const weft_cluster *c,
                      const weft_link_facts *link) {
    double S = x->ranks > 0 ? x->ranks : (double)c->ranks_per_node;
    double W = x->nodes * S, passes = 2 * (W - 1) / W;
    double rate_Bps = x->bus ? x->rate_Bps / passes : x->rate_Bps;
    if (x->bytes <= 0) return rate_Bps * passes;
    double seconds = x->seconds > 0 ? x->seconds : x->bytes / rate_Bps;
    double hops_s = passes *
                    (x->nodes * link->latency_s + (W - x->nodes) * c->local.latency_s);
    return seconds > hops_s ? passes * x->bytes / (seconds - hops_s) : 0;
}

weft_status weft_cluster_exchange(weft_ctx *ctx, const char *text, weft_cluster *cluster,
                                  double *low, double *high) {
    exchange x;
    WEFT_TRY(parse(ctx, text, &x));
    weft_link_facts *link = cluster->sites > 1 ? &cluster->site : &cluster->wire;
    double rate_Bps = x.streams > 0 ? of_stream * x.rate_Bps : rate_of(&x, cluster, link);
    if (rate_Bps <= 0)
        return refuse(ctx, text, "the latency of --link alone takes as long");
    double label_Bps = link->residual > 0 ? 0 : link->bandwidth_Bps;
    if (label_Bps > 0 && rate_Bps > above_label * label_Bps) {
        char why[96];
        snprintf(why, sizeof why,
                 "it needs a wire of %.3g Gbit/s, and the label says %.3g Gbit/s",
                 8e-9 * rate_Bps, 8e-9 * label_Bps);
        return refuse(ctx, text, why);
    }
    *low = 1 / (1 + spread);
    *high = 1 + spread;
    if (x.streams > 0) {
        *low = fmax(least_of_stream / x.streams, WEFT_TCP_LOW) / of_stream;
        *high = 1 / of_stream;
    }
    link->bandwidth_Bps = rate_Bps;
    link->residual = spread;
    link->up_Bps = 0; /* the slower direction is in it */
    return WEFT_OK;
}

weft_status weft_cluster_streams(weft_ctx *ctx, const char *one, const char *several,
                                 weft_cluster *cluster, double *low, double *high) {
    exchange x, y;
    WEFT_TRY(parse(ctx, one, &x));
    WEFT_TRY(parse(ctx, several, &y));
    if (x.streams > y.streams)
        return weft_cluster_streams(ctx, several, one, cluster, low, high);
    if (!(x.streams == 1 && y.streams > 1))
        return refuse(
            ctx, several,
            "of two exchanges one is not of one stream and the other of several");
    if (x.rate_Bps > above_label * y.rate_Bps)
        return refuse(ctx, one, "one stream carries more than several do together");
    WEFT_TRY(weft_cluster_exchange(ctx, several, cluster, low, high));
    cluster->stream_Bps = of_stream * x.rate_Bps;
    *low = least_of_stream / of_stream; /* how many streams carry it is known */
    return WEFT_OK;
}
