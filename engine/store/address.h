/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

#include <weft/ctx.h>

/* Where files lie that are no files of this machine: https://HOST/PATH, http://HOST/PATH, and
 * s3://BUCKET/KEY of Amazon's or another store that speaks S3. */

enum { WEFTI_URL_BYTES = 4096 };

/* Whether a text is such an address, as far as its first letters say. */
bool wefti_address_is(const char *text);
bool wefti_address_is_s3(const char *text);

/* Fails for another one, where `here` would do, too: "a file". */
weft_status wefti_fail_address(weft_ctx *ctx, const char *address, const char *here);

/* `below`, a name under the address; "": the address itself. A query stays at the end: it may sign
 * a whole folder. false: too long. */
bool wefti_address_below(const char *address, const char *below,
                         char out[WEFTI_URL_BYTES]);

/* By what a copy is known: the address, of one that S3 signs without the signature, which is
 * another one each time. */
void wefti_address_key(const char *address, char key[WEFTI_URL_BYTES]);

/* Whether it is one of a config.yaml, which does not keep signatures. */
bool wefti_address_lacks(const char *address);

/* Writes a text as a value of a query, at most `room` bytes of it; returns its length. */
int wefti_address_escape(const char *text, char *out, size_t room);

/* What libcurl gets for `below`. The store is AWS_ENDPOINT_URL, else Amazon's in AWS_REGION. */
weft_status wefti_address_url(weft_ctx *ctx, const char *address, const char *below,
                              char url[WEFTI_URL_BYTES]) WEFT_CHECKED;

/* AWS_REGION, AWS_DEFAULT_REGION, us-east-1. */
const char *wefti_address_region(void);

/* The last part of the path, as a name of a file: "data" if it is none. */
void wefti_address_name(const char *address, char name[NAME_MAX + 1]);
