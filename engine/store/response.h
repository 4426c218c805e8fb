/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a server says beside a file's bytes: the head of its answer, and the page of a refusal. None
 * of it is believed: texts are cut and have no control characters, numbers are 0 or more. */

enum { WEFTI_MARK_BYTES = 256, WEFTI_REFUSAL_BYTES = 320 };
enum {
    WEFTI_UPLOAD_BYTES = 1024,
    WEFTI_TAG_BYTES = 100
}; /* an UploadId, a part's ETag */

typedef struct wefti_response {
    long code;                   /* 0: no answer came */
    int64_t n_bytes;             /* Content-Length; -1: none; -2: two of them */
    int64_t from, to, all;       /* Content-Range; -1: none, or not understood */
    char mark[WEFTI_MARK_BYTES]; /* ETag, else Last-Modified */
    char date[64], region[64];   /* Date, x-amz-bucket-region */
    char coding[32];             /* Content-Encoding; "": none */
    char nonce[40]; /* x-amz-meta-weft-upload: of the upload that wrote the file */
    size_t n_head;  /* bytes of all heads, also of those that led here */
    size_t n_page;  /* bytes of the page; `page` has the first ones that are no spaces */
    char page[4096];
} wefti_response;

void wefti_response_init(wefti_response *r);

/* One line of the head, as libcurl gives it. The line HTTP/... begins anew. */
void wefti_response_line(wefti_response *r, const char *bytes, size_t n);

/* The next bytes of the page. */
void wefti_response_page(wefti_response *r, const char *bytes, size_t n);

/* Whether the answer has the bytes of a file from `at` to its end, which is `size` bytes long and
 * has the mark `was`. */
bool wefti_response_goes_on(const wefti_response *r, int64_t at, int64_t size,
                            const char *was);

/* The ETag of a part, in quotes, which can stand in XML as it is; NULL: there is none. */
const char *wefti_response_tag(const wefti_response *r);

/* <UploadId>ID</UploadId> of the page; "": there is none that can stand in an address. */
void wefti_response_upload(const wefti_response *r, char id[WEFTI_UPLOAD_BYTES]);

/* The same of <Key>KEY</Key>. */
void wefti_response_key(const wefti_response *r, char *key, size_t room);

/* What tells this file from what may replace it; "": nothing does. */
const char *wefti_response_mark(const wefti_response *r);

typedef enum wefti_refusal {
    WEFTI_REFUSAL_OF_FILE, /* or of the server: as the code says */
    WEFTI_REFUSAL_OF_KEY,  /* of what the environment has, and says nothing of the file */
    WEFTI_REFUSAL_PASSES   /* another try may do */
} wefti_refusal;

/* [out] text: "the server answers CODE", and of an S3 store what its <Code> means. */
wefti_refusal wefti_response_refusal(const wefti_response *r, long code, bool s3,
                                     char text[WEFTI_REFUSAL_BYTES]);
