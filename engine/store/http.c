/* SPDX-License-Identifier: MIT */
/* A request and its answer:
 *
 *     fetch   GET     200: from the first byte; 206: from SIDE.part's end on, if the file is
 *                     still the one of SIDE.from (If-Range); 304: the file here is it
 *                     (If-None-Match). Renamed when all bytes that were announced are there;
 *                     a beginning that is asked for stays SIDE.part, and is gone on with
 *     put     PUT     of a file, or of a part of it
 *     post    POST    of a text: an answer 200 may have a refusal in its page
 *     remove  DELETE
 *     ask     HEAD
 *     list    GET     of a page of the bucket's
 *
 * Nothing that a server says is believed: an answer is as long as it was announced and no longer
 * than the caller takes, and none leads a signed request, or one of https, elsewhere by http. */
#define _GNU_SOURCE
#include "store/http.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"

enum { LINE_BYTES = 8192, MOST_HEAD = 256 << 10, MOST_PAGE = 64 << 10 };
static const double say_every_s = 10, patience_s = 60, longest_pause_s = 8;
static const long connect_s = 20, silence_s = 30, post_s = 300, slow_Bps = 100;

typedef struct request {
    weft_ctx *ctx;
    const wefti_transfer *t;
    wefti_verb verb;
    char url[2 * WEFTI_URL_BYTES], name[480]; /* to fetch; to tell */
    bool is_signed;
    CURL *curl;
    int fd;
    int64_t at, size;           /* bytes that are there; of all, -1: not known */
    int64_t asked;              /* `at` when the request was sent */
    int64_t was_size;           /* of SIDE.from; -1: there is none */
    char was[WEFTI_MARK_BYTES]; /* ETag or Last-Modified of SIDE.from */
    wefti_response answer;
    long code;       /* of the answer */
    bool looked;     /* at its head */
    bool compares;   /* the request asks whether the file here is still the server's */
    char other[256]; /* why the answer is not of what was asked for; "": it is */
    wefti_refusal fault;                       /* of a refusal */
    char sha256[2 * SHA256_DIGEST_LENGTH + 1]; /* of what is put, hexadecimal; "" */
    int64_t pause_s;                           /* Retry-After; 0: none */
    bool begun; /* SIDE.from is, or may be, of the part, and not of the file here */
    double said_s;
    weft_status status; /* what another try does not mend */
} request;

/* --- SIDE.from: "SIZE MARK" --- */

static void recall(request *r) {
    char path[PATH_MAX], line[WEFTI_MARK_BYTES + 32] = "", *rest = line;
    snprintf(path, PATH_MAX, "%.4000s.from", r->t->side);
    FILE *file = fopen(path, "r");
    r->was_size = -1;
    if (!file) return;
    if (fgets(line, sizeof line, file)) r->was_size = strtoll(line, &rest, 10);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    snprintf(r->was, sizeof r->was, "%s", *rest == ' ' ? rest + 1 : "");
    if (!r->was[0]) r->was_size = -1;
}

static weft_status note(request *r) {
    char path[PATH_MAX], line[WEFTI_MARK_BYTES + 32];
    snprintf(path, PATH_MAX, "%.4000s.from", r->t->side);
    int n = snprintf(line, sizeof line, "%lld %s\n", (long long)r->size,
                     wefti_response_mark(&r->answer));
    snprintf(r->was, sizeof r->was, "%s", wefti_response_mark(&r->answer));
    r->was_size = r->was[0] ? r->size : -1;
    r->begun = true;
    return wefti_file_write(r->ctx, path, line, n);
}

/* Of a file without an announced end only the beginning is taken: nothing can go on with it. */
static weft_status forget(request *r) {
    char path[PATH_MAX];
    snprintf(path, PATH_MAX, "%.4000s.from", r->t->side);
    unlink(path);
    r->size = INT64_MAX;
    r->was_size = -1;
    r->begun = true;
    return ftruncate(r->fd, 0) == 0 ? WEFT_OK
                                    : wefti_fail_errno(r->ctx, "write", r->t->path);
}

/* --- the answer --- */

static size_t take_header(char *bytes, size_t size, size_t n, void *user) {
    request *r = user;
    wefti_response_line(&r->answer, bytes, size * n);
    if (r->answer.n_head <= MOST_HEAD) return size * n;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "the answer for %s has a head of more than %d KiB", r->name,
                              MOST_HEAD >> 10);
    return 0;
}

/* The disk has room for what is announced, before hours of it have come. */
static weft_status check_room(request *r) {
    char size[32], room[32];
    struct statvfs disk;
    if (r->t->first > 0 || fstatvfs(r->fd, &disk) != 0) return WEFT_OK;
    double n = (double)disk.f_bavail * (double)disk.f_frsize;
    if ((double)r->size <= n) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_FILE,
                         "%s has %s, and the disk of %.200s has room for %s", r->name,
                         wefti_format_bytes((double)r->size, size, sizeof size),
                         r->t->path, wefti_format_bytes(n, room, sizeof room));
}

/* Readers know gzip and zstd by their first bytes. */
static weft_status check_coding(request *r) {
    static const char *const known[] = {"", "gzip", "x-gzip", "zstd", NULL};
    if (wefti_named(known, r->answer.coding)) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                         "%s comes with Content-Encoding %s, expected none, gzip or zstd",
                         r->name, r->answer.coding);
}

/* The whole file, from its first byte on. */
static weft_status look_at_whole(request *r) {
    char size[32], most[32];
    r->at = 0;
    r->size = r->answer.n_bytes;
    if (r->size == -1 && r->t->first > 0) return forget(r);
    if (r->size < 0)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                             r->size == -1
                                 ? "the server of %s does not say how many bytes it has: "
                                   "half of it would look like all"
                                 : "the server of %s says two numbers of bytes, expected "
                                   "one Content-Length",
                             r->name);
    if (r->t->most > 0 && r->size > r->t->most)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s has %s, expected at most %s",
                             r->name,
                             wefti_format_bytes((double)r->size, size, sizeof size),
                             wefti_format_bytes((double)r->t->most, most, sizeof most));
    if (ftruncate(r->fd, 0) != 0) return wefti_fail_errno(r->ctx, "write", r->t->path);
    WEFT_TRY(check_room(r));
    return note(r);
}

/* The head of an answer with the file. One with another part than was asked for, or of another
 * file, is not read: all is asked for next. */
static weft_status look(request *r) {
    const wefti_response *a = &r->answer;
    r->looked = true;
    WEFT_TRY(check_coding(r));
    if (r->code == 200) return look_at_whole(r);
    if (r->at > 0 && wefti_response_goes_on(a, r->at, r->size, r->was)) return WEFT_OK;
    if (r->at == 0)
        snprintf(r->other, sizeof r->other,
                 "the server answers 206, but was asked for the whole file");
    else
        snprintf(r->other, sizeof r->other,
                 "the server sends bytes %lld-%lld of %lld%s, expected %lld-%lld of %lld",
                 (long long)a->from, (long long)a->to, (long long)a->all,
                 wefti_is(a->mark, r->was) ? "" : " of another file", (long long)r->at,
                 (long long)r->size - 1, (long long)r->size);
    return WEFT_OK;
}

static size_t take_bytes(char *bytes, size_t size, size_t n, void *user) {
    request *r = user;
    n *= size;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &r->code);
    if (r->verb != WEFTI_FETCH || (r->code != 200 && r->code != 206)) {
        wefti_response_page(&r->answer, bytes, n);
        return r->answer.n_page < MOST_PAGE ? n : 0;
    }
    if (!r->looked) r->status = look(r);
    if (r->other[0]) return 0;
    if (r->status == WEFT_OK && r->at + (int64_t)n > r->size)
        r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                                  "%s has more bytes than were announced", r->name);
    int64_t room = r->t->first > 0 ? r->t->first - r->at : (int64_t)n;
    int64_t taken = room > (int64_t)n ? (int64_t)n : room > 0 ? room : 0;
    if (r->status == WEFT_OK)
        r->status = wefti_file_pwrite(r->ctx, r->fd, r->t->path, bytes, taken, r->at);
    if (r->status != WEFT_OK) return 0;
    r->at += taken;
    return (size_t)taken; /* fewer than came end the answer */
}

/* The next bytes of what is sent; 0: all have been read, or a file has become shorter. */
static ssize_t read_source(request *r, void *bytes, size_t most, int64_t at) {
    int64_t left = r->size - at; /* a record grows meanwhile */
    size_t n = (int64_t)most < left ? most : (size_t)left;
    if (!r->t->body) return n > 0 ? pread(r->fd, bytes, n, r->t->from + at) : 0;
    memcpy(bytes, r->t->body + at, n);
    return (ssize_t)n;
}

static size_t give_bytes(char *bytes, size_t size, size_t n, void *user) {
    request *r = user;
    ssize_t got = read_source(r, bytes, size * n, r->at);
    if (got < 0) return CURL_READFUNC_ABORT;
    r->at += got;
    return (size_t)got;
}

/* --- waiting --- */

static void say(request *r, const char *why) {
    char at[32], all[32] = "?";
    if (r->t->silent || wefti_now_s() < r->said_s + say_every_s) return;
    r->said_s = wefti_now_s();
    if (r->size >= 0) wefti_format_bytes((double)r->size, all, sizeof all);
    weft_ctx_log(r->ctx, WEFT_LOG_INFO, "waits for %s: %s of %s%s%s", r->name,
                 wefti_format_bytes((double)r->at, at, sizeof at), all,
                 why[0] ? "; tried again after: " : "", why);
}

static int go_on(void *user, curl_off_t down, curl_off_t down_at, curl_off_t up,
                 curl_off_t up_at) {
    request *r = user;
    (void)down, (void)down_at, (void)up, (void)up_at;
    say(r, "");
    return wefti_stop_asked(r->ctx);
}

/* --- one try --- */

static bool sends(const request *r) {
    return r->verb == WEFTI_PUT || r->verb == WEFTI_POST;
}

/* An answer 200 to a POST, which is written before the store knows how it ends. */
static bool is_withdrawn(const request *r) {
    return r->t->expected && !strstr(r->answer.page, r->t->expected);
}

static struct curl_slist *headers_of(request *r) {
    struct curl_slist *list = NULL;
    char line[LINE_BYTES];
    const char *token = getenv("AWS_SESSION_TOKEN");
    bool dated = r->was[0] != '"' && strncmp(r->was, "W/", 2) != 0;
    if (r->verb == WEFTI_FETCH && r->was_size >= 0) {
        snprintf(line, sizeof line, "%s: %s",
                 r->at > 0 ? "If-Range"
                 : dated   ? "If-Modified-Since"
                           : "If-None-Match",
                 r->was);
        r->compares = r->at == 0 && !r->begun && access(r->t->path, F_OK) == 0;
        if (r->at > 0 || r->compares) list = curl_slist_append(list, line);
    }
    if (r->is_signed) {
        snprintf(line, sizeof line, "x-amz-content-sha256: %s",
                 r->sha256[0] ? r->sha256 : "UNSIGNED-PAYLOAD");
        list = curl_slist_append(list, line);
    }
    if (r->t->nonce) {
        snprintf(line, sizeof line, "x-amz-meta-weft-upload: %s", r->t->nonce);
        list = curl_slist_append(list, line);
    }
    if (r->is_signed && token && token[0]) {
        snprintf(line, sizeof line, "x-amz-security-token: %.7000s", token);
        list = curl_slist_append(list, line);
    }
    return list;
}

static void set_up(request *r, const struct curl_slist *headers) {
    CURL *c = r->curl;
    char text[160];
    bool https = strncmp(r->url, "https:", 6) == 0;
    curl_easy_setopt(c, CURLOPT_URL, r->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, r->is_signed ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, connect_s);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, slow_Bps);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME,
                     r->verb == WEFTI_POST ? post_s : silence_s);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, go_on);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, r);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    if (!r->is_signed) curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    if (getenv("AWS_CA_BUNDLE"))
        curl_easy_setopt(c, CURLOPT_CAINFO, getenv("AWS_CA_BUNDLE"));
    if (r->is_signed) {
        snprintf(text, sizeof text, "aws:amz:%.100s:s3", wefti_address_region());
        curl_easy_setopt(c, CURLOPT_AWS_SIGV4, text);
        curl_easy_setopt(c, CURLOPT_USERNAME, getenv("AWS_ACCESS_KEY_ID"));
        curl_easy_setopt(c, CURLOPT_PASSWORD, getenv("AWS_SECRET_ACCESS_KEY"));
    }
    snprintf(text, sizeof text, "%lld-", (long long)r->at);
    if (r->verb == WEFTI_FETCH && r->at > 0) curl_easy_setopt(c, CURLOPT_RANGE, text);
    if (r->verb == WEFTI_REMOVE) curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, "DELETE");
    if (r->verb == WEFTI_POST) curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, "POST");
    if (r->verb == WEFTI_ASK) curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    if (!sends(r)) return;
    curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, give_bytes);
    curl_easy_setopt(c, CURLOPT_READDATA, r);
    curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->size);
}

/* What OpenSSL says of an answer, not of a connection that broke. */
static bool is_no_handshake(CURLcode code, const char *why) {
    return code == CURLE_SSL_CONNECT_ERROR && strstr(why, "routines:");
}

/* What is the same in each try: certificates here and there, a port without TLS. */
static bool is_refused_by_tls(CURLcode code, const char *why) {
    static const CURLcode faults[] = {CURLE_PEER_FAILED_VERIFICATION,
                                      CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
                                      CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (code == faults[i]) return true;
    return is_no_handshake(code, why);
}

/* The same in words of what was expected. */
static void explain_tls(CURLcode code, char why[CURL_ERROR_SIZE]) {
    char reason[CURL_ERROR_SIZE];
    snprintf(reason, sizeof reason, "%s", why);
    if (is_no_handshake(code, why) && strstr(why, "wrong version number"))
        snprintf(why, CURL_ERROR_SIZE,
                 "the server answers without TLS, expected it for https:// (%.150s)",
                 reason);
    if (code == CURLE_PEER_FAILED_VERIFICATION &&
        (strstr(why, "issuer") || strstr(why, "self")))
        snprintf(why, CURL_ERROR_SIZE,
                 "%.120s, expected one of an authority that this machine or "
                 "AWS_CA_BUNDLE knows",
                 reason);
}

/* What broke, or what the server refused. */
static void explain(request *r, CURLcode code, char why[CURL_ERROR_SIZE]) {
    char fault[WEFTI_REFUSAL_BYTES];
    int n;
    if (code != CURLE_OK && !why[0])
        snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    explain_tls(code, why);
    if (r->other[0]) snprintf(why, CURL_ERROR_SIZE, "%s", r->other);
    wefti_text_plain(why);
    if (code != CURLE_OK) return;
    r->fault = wefti_response_refusal(&r->answer, r->code, r->is_signed, fault);
    if (r->code == 304)
        n = snprintf(why, CURL_ERROR_SIZE,
                     "the server answers 304, but was not asked "
                     "whether the file is the same");
    else if (sends(r) && r->code < 300 && r->at < r->size)
        n = snprintf(why, CURL_ERROR_SIZE,
                     "the server answers %ld before it has all bytes", r->code);
    else
        n = snprintf(why, CURL_ERROR_SIZE, "%s", fault);
    if (r->pause_s > 0 && n < CURL_ERROR_SIZE - 80)
        snprintf(why + n, CURL_ERROR_SIZE - (size_t)n, "; it asks for a pause of %lld s",
                 (long long)r->pause_s);
}

/* One request; *why says what broke. */
static CURLcode perform(request *r, char why[CURL_ERROR_SIZE]) {
    CURLcode code = CURLE_OUT_OF_MEMORY;
    curl_off_t pause_s = 0;
    r->looked = r->compares = false;
    r->fault = WEFTI_REFUSAL_OF_FILE;
    r->code = 0;
    why[0] = r->other[0] = '\0';
    wefti_response_init(&r->answer);
    r->curl = curl_easy_init();
    if (!r->curl) return code;
    struct curl_slist *headers = headers_of(r);
    curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, why);
    set_up(r, headers);
    code = curl_easy_perform(r->curl);
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &r->code);
    curl_easy_getinfo(r->curl, CURLINFO_RETRY_AFTER, &pause_s);
    r->pause_s = pause_s;
    if (r->answer.n_page >= MOST_PAGE) code = CURLE_OK; /* enough of a page */
    explain(r, code, why);
    curl_slist_free_all(headers);
    curl_easy_cleanup(r->curl);
    return code;
}

/* Whether another try may bring what this one did not. */
static bool may_pass(const request *r, CURLcode code, const char *why) {
    if (r->pause_s > (int64_t)patience_s) return false;
    if (code == CURLE_OK && r->code == 416) return r->asked > 0; /* has become shorter */
    if (code == CURLE_OK)
        return r->code >= 500 || r->code == 429 || r->code == 408 ||
               (r->code == 200 && is_withdrawn(r)) || r->fault == WEFTI_REFUSAL_PASSES;
    if (code == CURLE_COULDNT_RESOLVE_HOST && r->verb == WEFTI_FETCH && r->at == 0)
        return false; /* a name that was typed */
    if (r->other[0]) return r->asked > 0;
    return code != CURLE_WEIRD_SERVER_REPLY && code != CURLE_URL_MALFORMAT &&
           code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_TOO_MANY_REDIRECTS &&
           !is_refused_by_tls(code, why);
}

/* Whether the answer ends the tries: the file is whole, or not there. */
static bool is_done(request *r, CURLcode code, bool *there) {
    bool reads = r->verb == WEFTI_FETCH || r->verb == WEFTI_ASK || r->verb == WEFTI_LIST;
    bool hides = reads && r->code == 403 && r->fault != WEFTI_REFUSAL_OF_KEY;
    bool hidden = r->code == 404 || r->code == 410 || hides;
    bool begins = r->t->first > 0 && r->looked && !r->other[0];
    *there = true;
    if (begins && r->at >= r->t->first) return true;
    if (code != CURLE_OK) return false;
    if (begins && r->size == INT64_MAX) return true;
    if (r->verb == WEFTI_FETCH && r->code == 304) return r->compares;
    if (r->verb == WEFTI_FETCH && r->code == 200 && !r->looked) r->status = look(r);
    if (r->code == 200 || r->code == 204 || r->code == 206)
        return (r->verb != WEFTI_FETCH && !sends(r)) ||
               (r->at == r->size && !is_withdrawn(r));
    *there = !(r->t->optional ? hidden : r->verb == WEFTI_REMOVE && r->code == 404);
    if (!*there && r->code == 403 && !r->t->hidden)
        weft_ctx_log(r->ctx, WEFT_LOG_WARN,
                     "%s: the server answers 403, which is taken as: not there", r->name);
    return !*there;
}

static void pause_before(request *r, double pause_s, const char *why) {
    for (double until_s = wefti_now_s() + pause_s;
         wefti_now_s() < until_s && !wefti_stop_asked(r->ctx); say(r, why))
        wefti_sleep_until_s(fmin(until_s, wefti_now_s() + 0.1));
}

/* Of the tries it is known how far the best one came: who always breaks off at the same place, or
 * sends a byte each second, is given up in a while. */
static weft_status transact(request *r, bool *there) {
    static const char *const verbs[] = {"fetch", "write",   "remove",
                                        "write", "look at", "list"};
    char why[CURL_ERROR_SIZE];
    double since_s = wefti_now_s(), pause_s = 0.5;
    int64_t best = r->at;
    r->said_s = since_s;
    for (;;) {
        if (sends(r)) r->at = 0;
        r->asked = r->at;
        CURLcode code = perform(r, why);
        bool done = r->status == WEFT_OK && is_done(r, code, there);
        if (done || r->status != WEFT_OK) return r->status;
        if ((double)(r->at - best) > (double)slow_Bps * (wefti_now_s() - since_s)) {
            since_s = wefti_now_s();
            best = r->at;
        }
        bool marked = r->was_size >= 0 && strncmp(r->was, "W/", 2) != 0;
        if (r->verb == WEFTI_FETCH && (!marked || r->code == 416 || r->other[0]))
            r->at = 0; /* the rest may be another file's */
        bool stopped = wefti_stop_asked(r->ctx);
        bool late = r->t->once || wefti_now_s() > since_s + patience_s;
        if (stopped || late || !may_pass(r, code, why))
            return weft_ctx_fail(r->ctx, WEFT_ERR_FILE, "could not %s %s: %s",
                                 verbs[r->verb], r->name, stopped ? "stopped" : why);
        pause_before(r, fmax(pause_s, (double)r->pause_s), why);
        pause_s = fmin(2 * pause_s, longest_pause_s);
    }
}

/* https://STORE/BUCKET/KEY without what the address has after the bucket. */
static void cut_to_bucket(char *url, const char *address) {
    const char *key = strchr(address + strlen("s3://"), '/');
    for (; key; key = strchr(key + 1, '/')) *strrchr(url, '/') = '\0';
}

static weft_status begin(request *r) {
    const wefti_transfer *t = r->t;
    char whole[WEFTI_URL_BYTES];
    (void)wefti_address_below(t->address, t->below, whole);
    r->is_signed = wefti_address_is_s3(t->address);
    WEFT_TRY(wefti_address_url(r->ctx, t->address, t->below, r->url));
    if (r->verb == WEFTI_LIST) cut_to_bucket(r->url, whole);
    snprintf(r->name, sizeof r->name, "%.470s", wefti_text_hide(whole));
    size_t n = strlen(r->url);
    if (t->query) snprintf(r->url + n, sizeof r->url - n, "?%s", t->query);
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *key = getenv("AWS_SECRET_ACCESS_KEY");
    bool has_id = id && id[0], has_key = key && key[0];
    if (!r->is_signed || (has_id && has_key)) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG, "%s needs %s%s%s in the environment",
                         r->name, has_id ? "" : "AWS_ACCESS_KEY_ID",
                         has_id || has_key ? "" : " and ",
                         has_key ? "" : "AWS_SECRET_ACCESS_KEY");
}

/* Into SIDE.part, which becomes the file. */
static weft_status fetch(request *r, bool *there) {
    char part[PATH_MAX];
    struct stat info;
    snprintf(part, PATH_MAX, "%.4000s.part", r->t->side);
    r->begun = lstat(part, &info) == 0;
    r->fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (r->fd < 0 || fstat(r->fd, &info) != 0)
        return wefti_fail_errno(r->ctx, "open", part);
    recall(r);
    r->size = r->was_size;
    if (info.st_size < r->was_size && strncmp(r->was, "W/", 2) != 0) r->at = info.st_size;
    WEFT_TRY(transact(r, there));
    if (!*there || r->code == 304) return unlink(part), WEFT_OK;
    if (r->at < r->size) return WEFT_OK; /* the beginning */
    if (fsync(r->fd) != 0 || rename(part, r->t->path) != 0)
        return wefti_fail_errno(r->ctx, "write", r->t->path);
    return WEFT_OK;
}

/* The store compares what came with it; an ETag is no hash of the bytes where it encrypts. */
static weft_status hash(request *r) {
    unsigned char bytes[16384], digest[SHA256_DIGEST_LENGTH];
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool fine = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
    for (int64_t at = 0; fine && at < r->size && !wefti_stop_asked(r->ctx);) {
        ssize_t n = read_source(r, bytes, sizeof bytes, at);
        fine = n > 0 && EVP_DigestUpdate(md, bytes, (size_t)n) == 1;
        at += n;
    }
    fine = fine && EVP_DigestFinal_ex(md, digest, NULL) == 1;
    EVP_MD_CTX_free(md);
    if (!fine)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FILE, "could not read %s to its end",
                             r->t->path);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(r->sha256 + 2 * i, 3, "%02x", digest[i]);
    return WEFT_OK;
}

static weft_status put(request *r, bool *there) {
    const wefti_transfer *t = r->t;
    struct stat info = {.st_size = t->body ? (off_t)strlen(t->body) : 0};
    if (!t->body) r->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (!t->body && (r->fd < 0 || fstat(r->fd, &info) != 0))
        return wefti_fail_errno(r->ctx, "open", t->path);
    r->size = t->n_bytes > 0 ? t->n_bytes : info.st_size;
    WEFT_TRY(hash(r));
    return transact(r, there);
}

weft_status wefti_http(weft_ctx *ctx, wefti_verb verb, const wefti_transfer *t,
                       bool *there) {
    static weft_status (*const ways[])(request *, bool *) = {fetch, put,      transact,
                                                             put,   transact, transact};
    request r = {.ctx = ctx, .t = t, .verb = verb, .fd = -1, .size = -1, .was_size = -1};
    WEFT_TRY(begin(&r));
    weft_status status = ways[verb](&r, there);
    if (r.fd >= 0) close(r.fd);
    r.answer.code = r.code;
    if (t->answer) *t->answer = r.answer;
    return status;
}
