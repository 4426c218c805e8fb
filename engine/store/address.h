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

/* What libcurl gets for `below`, a name under the address; "": the address itself. The store is
 * AWS_ENDPOINT_URL, else Amazon's in AWS_REGION. */
weft_status wefti_address_url(weft_ctx *ctx, const char *address, const char *below,
                              char url[WEFTI_URL_BYTES]) WEFT_CHECKED;

/* AWS_REGION, AWS_DEFAULT_REGION, us-east-1. */
const char *wefti_address_region(void);

/* The last part of the path, as a name of a file: "data" if it is none. */
void wefti_address_name(const char *address, char name[NAME_MAX + 1]);
