/* SPDX-License-Identifier: MIT */
#pragma once

#include "store/http.h"

/* An upload in parts, which goes on where it broke off. All zeros: none has begun. */
typedef struct wefti_multipart {
    char id[WEFTI_UPLOAD_BYTES]; /* the store's; "": there is none */
    char below[PATH_MAX];        /* of the file, as wefti_address_url */
    char nonce[33];              /* ours, by which a file is known to be of this upload */
    int64_t size, part_bytes, n_done; /* of the file; parts are there */
    char *list;                       /* owned: the XML that ends the upload */
    size_t n_list;                    /* bytes */
    bool refused;                     /* the list is no good */
} wefti_multipart;

/* Of each part but the last: 16 MiB, more where a file would have more than 10000. */
int64_t wefti_multipart_part_bytes(int64_t size);

/* Puts a file: in one piece, from 64 MiB on in parts, each with its SHA-256. A part is tried again
 * alone. After an error the next call with the same file sends what is missing. Memory: 160 bytes
 * per part. */
weft_status wefti_multipart_put(weft_ctx *ctx, const wefti_transfer *t,
                                wefti_multipart *m) WEFT_CHECKED;

/* Tells the store to forget the parts of checkpoints that were never completed below an address.
 * Warns if it does not let that be seen; its own rules may do the same. */
void wefti_multipart_clear(weft_ctx *ctx, const char *address);

/* Tells the store to forget the parts of an upload that will not be gone on with, in one try. */
void wefti_multipart_drop(weft_ctx *ctx, const char *address, wefti_multipart *m);
