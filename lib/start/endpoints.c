/* SPDX-License-Identifier: MIT */
/* Where a late process connects: parses a list of hosts, with or without ports.
 *
 *     a            a:port, a:port+1, ...   whichever of the run's processes there listens
 *     a:29501      that one
 *     [fd00::2]:29501, fd00::2             an address with colons has brackets before a port
 *     a:29501,b    all of these, one after another
 *
 * The text comes from a command line or from another member, so every part of it is
 * checked. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "start/tcp.h"

/* Each of a few hosts has at most 16 ports; a run has no more processes than this. */
enum { MOST_ENDPOINTS = 1024 };

static weft_status refuse(weft_ctx *ctx, const char *part, size_t n) {
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "--join %.*s: expected HOST or HOST:PORT, a port from 1 to 65535",
        (int)(n < 300 ? n : 300), part);
}

/* The decimal number in n characters, 1 to 65535; 0: it is not one. */
static int port_of(const char *text, size_t n) {
    int port = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || port > 65535) return 0;
        port = 10 * port + (text[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

/* Parses one part without commas. *port stays unchanged if the part has none. */
static bool read_part(const char *part, size_t n, wefti_tcp_endpoint *out,
                      bool *has_port) {
    const char *end = part + n, *host = part, *colon = NULL, *close = NULL;
    bool brackets = n > 0 && part[0] == '[';
    if (brackets) close = memchr(part, ']', n);
    if (brackets && !close) return false;
    int n_colons = 0;
    for (const char *c = close ? close : part; c < end; c++)
        if (*c == ':') colon = c, n_colons++;
    if (!brackets && n_colons > 1) colon = NULL; /* an address */
    const char *stop = close ? close : colon ? colon : end;
    if (brackets) host++;
    bool trails = close && close + 1 != (colon ? colon : end);
    *has_port = colon != NULL;
    if (colon) out->port = port_of(colon + 1, (size_t)(end - colon - 1));
    if (stop == host || (size_t)(stop - host) >= sizeof out->host || trails) return false;
    snprintf(out->host, sizeof out->host, "%.*s", (int)(stop - host), host);
    return !colon || out->port > 0;
}

/* The list under construction, and the ports of a host without a port. */
typedef struct list {
    wefti_tcp_endpoint *endpoints; /* [MOST_ENDPOINTS] */
    int n, port, n_ports;
} list;

/* Appends the endpoints of one part. */
static weft_status add_part(weft_ctx *ctx, list *all, const char *part, size_t n) {
    wefti_tcp_endpoint endpoint = {.port = all->port};
    bool has_port;
    if (!read_part(part, n, &endpoint, &has_port)) return refuse(ctx, part, n);
    int last = has_port ? endpoint.port : endpoint.port + all->n_ports - 1;
    for (; endpoint.port <= last && endpoint.port <= 65535 && all->n < MOST_ENDPOINTS;
         endpoint.port++)
        all->endpoints[all->n++] = endpoint;
    return WEFT_OK;
}

weft_status wefti_tcp_endpoints(weft_ctx *ctx, const char *text, int port, int n_ports,
                                wefti_tcp_endpoint **endpoints, int *n) {
    list all = {.port = port, .n_ports = n_ports};
    weft_status status = WEFT_OK;
    *endpoints = NULL;
    WEFT_TRY(wefti_alloc_n(ctx, MOST_ENDPOINTS, sizeof *all.endpoints, "hosts to call",
                           &all.endpoints));
    for (const char *part = text; status == WEFT_OK; part++) {
        size_t length = strcspn(part, ",");
        status = add_part(ctx, &all, part, length);
        part += length;
        if (!*part) break;
    }
    if (status != WEFT_OK) {
        wefti_free(ctx, all.endpoints);
        return status;
    }
    *endpoints = all.endpoints;
    *n = all.n;
    return WEFT_OK;
}
