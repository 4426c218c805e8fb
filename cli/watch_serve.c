/* SPDX-License-Identifier: MIT */
/* The page of `weft watch`, by libmicrohttpd, on 127.0.0.1 only:
 *
 *     GET /           the page with the current data
 *     GET /data.json  the data; 304 if the browser has the current version (ETag)
 *
 * A request with another host name is refused. A page of another site whose name was made
 * to resolve to this address (DNS rebinding) would send that site's name. */
#include "watch.h"

#include <string.h>
#include <unistd.h>

#ifdef WEFT_HTTP
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <strings.h>

/* State of the server. It is used only by the server's single thread. */
typedef struct server {
    const watched *w;
    char *text[2]; /* the page, the data; owned, NULL: not made for this stamp */
    int64_t n_bytes[2];
    unsigned long long stamp;
} server;

static enum MHD_Result answer(struct MHD_Connection *to, unsigned code, const char *type,
                              const char *tag, const char *text, size_t n) {
    struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)text,
                                                             MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (tag) MHD_add_response_header(r, "ETag", tag);
    enum MHD_Result result = MHD_queue_response(to, code, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *to, unsigned code,
                              const char *sentence) {
    return answer(to, code, "text/plain; charset=utf-8", NULL, sentence,
                  strlen(sentence));
}

/* What no run can be shown by yet: a browser asks again by itself, because a run that has just
 * been started has no metrics.jsonl before its text is read. */
static enum MHD_Result not_yet(const server *s, struct MHD_Connection *to) {
    char wait[16];
    const char *sentence = weft_ctx_message(s->w->ctx);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(sentence), (void *)(uintptr_t)sentence, MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    snprintf(wait, sizeof wait, "%.0f", ceil(s->w->every_s));
    MHD_add_response_header(r, "Content-Type", "text/plain; charset=utf-8");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Refresh", wait);
    enum MHD_Result result = MHD_queue_response(to, MHD_HTTP_SERVICE_UNAVAILABLE, r);
    MHD_destroy_response(r);
    return result;
}

/* "localhost", "127.0.0.1" or "[::1]", with or without a port. */
static bool is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (int i = 0; host && i < 3; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) != 0) continue;
        const char *port = host + n + (host[n] == ':');
        if (port[strspn(port, "0123456789")] == '\0') return host[n] == ':' || !*port;
    }
    return false;
}

static void forget(server *s) {
    for (int i = 0; i < 2; i++) {
        weft_free(s->w->ctx, s->text[i]);
        s->text[i] = NULL;
    }
}

static weft_status make(server *s, int which) {
    const watched *w = s->w;
    if (s->text[which]) return WEFT_OK;
    return which == 0 ? weft_report_page(w->ctx, w->report, &s->text[0], &s->n_bytes[0])
                      : weft_report_data(w->ctx, w->report, &s->text[1], &s->n_bytes[1]);
}

static enum MHD_Result answer_with(server *s, struct MHD_Connection *to, int which) {
    char tag[32];
    unsigned long long stamp = watch_stamp(s->w);
    if (stamp != s->stamp) forget(s);
    s->stamp = stamp;
    snprintf(tag, sizeof tag, "\"%d%016llx\"", which, stamp);
    const char *has = MHD_lookup_connection_value(to, MHD_HEADER_KIND, "If-None-Match");
    if (has && strcmp(has, tag) == 0)
        return answer(to, MHD_HTTP_NOT_MODIFIED, "text/plain", tag, "", 0);
    if (make(s, which) != WEFT_OK) return not_yet(s, to);
    return answer(to, MHD_HTTP_OK,
                  which ? "application/json" : "text/html; charset=utf-8", tag,
                  s->text[which], (size_t)s->n_bytes[which]);
}

static enum MHD_Result take(void *self, struct MHD_Connection *from, const char *url,
                            const char *method, const char *version, const char *body,
                            size_t *n_body, void **state) {
    (void)version, (void)body, (void)n_body, (void)state;
    if (!is_local(MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Host")))
        return refuse(from, MHD_HTTP_FORBIDDEN,
                      "This page is shown to this machine only, as localhost.");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(from, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET is answered.");
    if (strcmp(url, "/") == 0) return answer_with(self, from, 0);
    if (strcmp(url, "/data.json") == 0) return answer_with(self, from, 1);
    return refuse(from, MHD_HTTP_NOT_FOUND, "There are / and /data.json.");
}

int watch_serve(const watched *w, int port) {
    server s = {.w = w};
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    errno = 0;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, take, &s, MHD_OPTION_SOCK_ADDR,
        &here, MHD_OPTION_CONNECTION_LIMIT, 32u, MHD_OPTION_CONNECTION_TIMEOUT, 30u,
        MHD_OPTION_END);
    if (!daemon)
        return usage_error(
            "could not listen on port %d of 127.0.0.1: %s; --port 0 takes a free one",
            port, errno ? strerror(errno) : "not allowed");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon,
                                                           MHD_DAEMON_INFO_BIND_PORT);
    weft_ctx_set_sink(w->ctx, NULL, NULL); /* damaged files are reported in the answers
                                              instead */
    printf("http://127.0.0.1:%d/\n", info ? info->port : port);
    fflush(stdout);
    while (watch_sleep(3600)) continue;
    MHD_stop_daemon(daemon);
    forget(&s);
    return CODE_OK;
}
#else
int watch_serve(const watched *w, int port) {
    (void)w, (void)port;
    return usage_error("this weft was built without libmicrohttpd and shows no page "
                       "while a run goes on; use --text, or weft report");
}
#endif
