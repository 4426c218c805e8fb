/* SPDX-License-Identifier: MIT */
/* S3's multipart upload (AWS, "Uploading and copying objects using multipart upload"):
 *
 *     POST   KEY?uploads=                     <UploadId>ID</UploadId>
 *     PUT    KEY?partNumber=k&uploadId=ID     ETag of each part, k = 1, 2, ...
 *     POST   KEY?uploadId=ID                  the parts with their tags: now the file is there
 *     DELETE KEY?uploadId=ID                  in place of that: there is no file
 *     GET    BUCKET?uploads=&prefix=PREFIX    <Key>, <UploadId> of those that are neither
 *
 * The last POST may do its work and its answer be lost; then the store no longer knows the ID, and
 * whether the file there has this upload's nonce says which it was. */
#define _GNU_SOURCE
#include "store/multipart.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/rand.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { PART_TEXT = 160, MOST_PARTS = 10000, QUERY_BYTES = 3 * WEFTI_UPLOAD_BYTES + 64 };
static const int64_t one_piece = (int64_t)64 << 20, least_part = (int64_t)16 << 20;

static const char *query_of(const wefti_multipart *m, int64_t part,
                            char query[QUERY_BYTES]) {
    int n = part > 0 ? snprintf(query, QUERY_BYTES, "partNumber=%lld&", (long long)part)
                     : 0;
    n += snprintf(query + n, 16, "uploadId=");
    wefti_address_escape(m->id, query + n, (size_t)(QUERY_BYTES - n));
    return query;
}

void wefti_multipart_drop(weft_ctx *ctx, const char *address, wefti_multipart *m) {
    char query[QUERY_BYTES];
    bool there;
    const wefti_transfer t = {.address = address,
                              .below = m->below,
                              .query = query_of(m, 0, query),
                              .once = true,
                              .silent = true};
    if (m->id[0] && wefti_http(ctx, WEFTI_REMOVE, &t, &there) != WEFT_OK)
        weft_ctx_clear(ctx);
    wefti_free(ctx, m->list);
    *m = (wefti_multipart){0};
}

/* [out] m: an upload that is neither; *found = false: there is none, or none of ours. */
static weft_status find_left(weft_ctx *ctx, const char *address, const char *query,
                             wefti_multipart *m, bool *found) {
    char key[PATH_MAX];
    wefti_response answer;
    bool there;
    const wefti_transfer t = {.address = address,
                              .below = "step-",
                              .query = query,
                              .once = true,
                              .silent = true,
                              .answer = &answer};
    *m = (wefti_multipart){0};
    WEFT_TRY(wefti_http(ctx, WEFTI_LIST, &t, &there));
    wefti_response_upload(&answer, m->id);
    wefti_response_key(&answer, key, sizeof key);
    const char *name = strrchr(key, '/');
    if (!name) name = key;
    while (name > key && name[-1] != '/')
        name--; /* step-N/FILE, which needs no escapes */
    snprintf(m->below, sizeof m->below, "%s", name);
    *found = m->id[0] && strncmp(name, "step-", 5) == 0;
    return WEFT_OK;
}

void wefti_multipart_clear(weft_ctx *ctx, const char *address) {
    enum { MOST_LEFT = 1000 };
    char whole[WEFTI_URL_BYTES], query[3 * WEFTI_URL_BYTES],
        last[WEFTI_UPLOAD_BYTES] = "";
    wefti_multipart m;
    bool found = true;
    weft_status status = WEFT_OK;
    if (!wefti_address_below(address, "step-", whole)) return;
    const char *prefix = strchr(whole + strlen("s3://"), '/') + 1;
    int n = snprintf(query, sizeof query, "encoding-type=url&max-uploads=1&prefix=");
    n += wefti_address_escape(prefix, query + n, sizeof query - 16 - (size_t)n);
    snprintf(query + n, 16, "&uploads=");
    for (int i = 0; status == WEFT_OK && found && i < MOST_LEFT; i++) {
        status = find_left(ctx, address, query, &m, &found);
        found = found && !wefti_is(m.id, last); /* it is gone */
        snprintf(last, sizeof last, "%s", m.id);
        if (status == WEFT_OK && found) wefti_multipart_drop(ctx, address, &m);
    }
    if (status != WEFT_OK)
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "parts that a killed process may have left are not looked for: %s",
                     weft_ctx_message(ctx));
    if (status != WEFT_OK) weft_ctx_clear(ctx);
}

int64_t wefti_multipart_part_bytes(int64_t size) {
    int64_t by_count = (size + MOST_PARTS - 1) / MOST_PARTS;
    return by_count > least_part ? by_count : least_part;
}

static weft_status begin(weft_ctx *ctx, wefti_transfer t, wefti_multipart *m) {
    unsigned char random[16];
    wefti_response answer;
    bool there;
    snprintf(m->below, sizeof m->below, "%s", t.below);
    m->part_bytes = wefti_multipart_part_bytes(m->size);
    if (RAND_bytes(random, sizeof random) != 1)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "OpenSSL gives no random number");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(m->nonce + 2 * i, 3, "%02x", random[i]);
    WEFT_TRY(wefti_alloc_n(ctx, m->size / m->part_bytes + 2, PART_TEXT,
                           "the parts of an upload", &m->list));
    m->n_list = (size_t)snprintf(m->list, PART_TEXT, "<CompleteMultipartUpload>");
    t.query = "uploads=";
    t.body = "";
    t.nonce = m->nonce;
    t.expected = "<UploadId>";
    t.answer = &answer;
    WEFT_TRY(wefti_http(ctx, WEFTI_POST, &t, &there));
    wefti_response_upload(&answer, m->id);
    if (m->id[0]) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "the server gives no UploadId that is understood for %s",
                         t.below);
}

/* The store no longer knows the upload. */
static weft_status lost(weft_ctx *ctx, const wefti_transfer *t, wefti_multipart *m) {
    m->id[0] = '\0';
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "the server has lost the parts of %s",
                         t->below);
}

static weft_status put_part(weft_ctx *ctx, wefti_transfer t, wefti_multipart *m) {
    char query[QUERY_BYTES];
    wefti_response answer;
    bool there;
    int64_t left;
    t.query = query_of(m, m->n_done + 1, query);
    t.from = m->n_done * m->part_bytes;
    left = m->size - t.from;
    t.n_bytes = left < m->part_bytes ? left : m->part_bytes;
    t.optional = t.hidden = true;
    t.answer = &answer;
    WEFT_TRY(wefti_http(ctx, WEFTI_PUT, &t, &there));
    if (!there) return lost(ctx, &t, m);
    const char *tag = wefti_response_tag(&answer);
    if (!tag)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "the server gives no ETag for part %lld of %s",
                             (long long)m->n_done + 1, t.below);
    m->n_list += (size_t)snprintf(
        m->list + m->n_list, PART_TEXT,
        "<Part><PartNumber>%lld</PartNumber><ETag>%s</ETag></Part>",
        (long long)++m->n_done, tag);
    return WEFT_OK;
}

static weft_status complete(weft_ctx *ctx, wefti_transfer t, wefti_multipart *m) {
    char query[QUERY_BYTES];
    wefti_response answer;
    bool there;
    wefti_transfer ask = t;
    snprintf(m->list + m->n_list, PART_TEXT, "</CompleteMultipartUpload>");
    t.query = query_of(m, 0, query);
    t.body = m->list;
    t.expected = "CompleteMultipartUploadResult";
    t.optional = t.hidden = ask.optional = ask.hidden = true;
    t.answer = ask.answer = &answer;
    weft_status status = wefti_http(ctx, WEFTI_POST, &t, &there);
    m->refused = status != WEFT_OK && answer.code > 0 && answer.code < 500;
    if (status != WEFT_OK || there) return status;
    WEFT_TRY(wefti_http(ctx, WEFTI_ASK, &ask, &there));
    return there && wefti_is(answer.nonce, m->nonce) ? WEFT_OK : lost(ctx, &t, m);
}

weft_status wefti_multipart_put(weft_ctx *ctx, const wefti_transfer *t,
                                wefti_multipart *m) {
    struct stat info;
    bool there;
    if (stat(t->path, &info) != 0) return wefti_fail_errno(ctx, "open", t->path);
    bool same = m->size == info.st_size && wefti_is(m->below, t->below);
    if (!same || !m->id[0] || m->refused) wefti_multipart_drop(ctx, t->address, m);
    if (info.st_size < one_piece) return wefti_http(ctx, WEFTI_PUT, t, &there);
    m->size = info.st_size;
    if (!m->id[0]) WEFT_TRY(begin(ctx, *t, m));
    while (m->n_done * m->part_bytes < m->size) WEFT_TRY(put_part(ctx, *t, m));
    WEFT_TRY(complete(ctx, *t, m));
    m->id[0] = '\0';
    wefti_multipart_drop(ctx, t->address, m);
    return WEFT_OK;
}
