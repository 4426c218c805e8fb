/* SPDX-License-Identifier: MIT */
/* s3://BUCKET/KEY as an URL:
 *
 *     AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL=http://store:9000
 *                                            http://store:9000/BUCKET/KEY
 *     else, AWS_REGION=eu-west-1             https://s3.eu-west-1.amazonaws.com/BUCKET/KEY
 *
 * The key's bytes are escaped as the signature counts them: all but letters, digits and -_.~/ . */
#define _GNU_SOURCE
#include "store/address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char s3[] = "s3://";

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

bool wefti_address_is_s3(const char *text) { return begins(text, s3); }

bool wefti_address_is(const char *text) {
    return begins(text, s3) || begins(text, "https://") || begins(text, "http://");
}

weft_status wefti_fail_address(weft_ctx *ctx, const char *address, const char *here) {
    return weft_ctx_fail(
        ctx, WEFT_ERR_FILE,
        "%s is an address that is not known, expected https://, http://, "
        "s3:// or %s",
        address, here);
}

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && value[0] ? value : otherwise;
}

const char *wefti_address_region(void) {
    return setting("AWS_REGION", setting("AWS_DEFAULT_REGION", "us-east-1"));
}

/* BUCKET/KEY: no part is empty, "." or "..", which programs on the way would resolve. */
static bool is_key(const char *key) {
    const char *part = key;
    for (; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (part[0] == '.' && (n == 1 || (n == 2 && part[1] == '.'))))
            return false;
    }
    return strchr(key, '/');
}

bool wefti_address_below(const char *address, const char *below,
                         char out[WEFTI_URL_BYTES]) {
    size_t n = begins(address, s3) ? strlen(address) : strcspn(address, "?");
    const char *query = address + n;
    while (below[0] && n > 0 && address[n - 1] == '/') n--;
    return snprintf(out, WEFTI_URL_BYTES, "%.*s%s%s%s", (int)n, address,
                    below[0] ? "/" : "", below, query) < WEFTI_URL_BYTES;
}

/* The signatures of S3, also old ones, and of Google's: they say who may read, the path what. */
static bool is_presigned(const char *address) {
    bool old = strstr(address, "AWSAccessKeyId=") && strstr(address, "Signature=");
    return !begins(address, s3) && (old || strstr(address, "X-Amz-Signature=") ||
                                    strstr(address, "X-Goog-Signature="));
}

bool wefti_address_lacks(const char *address) {
    size_t n = strlen(address);
    return !begins(address, s3) && n > 4 && strchr("?&", address[n - 4]) &&
           wefti_is(address + n - 3, "...");
}

void wefti_address_key(const char *address, char key[WEFTI_URL_BYTES]) {
    snprintf(key, WEFTI_URL_BYTES, "%s", address);
    if (is_presigned(address)) wefti_text_hide(key);
}

int wefti_address_escape(const char *text, char *out, size_t room) {
    size_t n = 0;
    out[0] = '\0';
    for (const unsigned char *c = (const unsigned char *)text; *c && n + 4 < room; c++) {
        bool as_is = (*c < 0x80 && isalnum(*c)) || strchr("-_.~", *c);
        n += (size_t)snprintf(out + n, 4, as_is ? "%c" : "%%%02X", *c);
    }
    return (int)n;
}

weft_status wefti_address_url(weft_ctx *ctx, const char *address, const char *below,
                              char url[WEFTI_URL_BYTES]) {
    const char *endpoint = setting("AWS_ENDPOINT_URL_S3",
                                   setting("AWS_ENDPOINT_URL", ""));
    const char *path;
    char whole[WEFTI_URL_BYTES] = "", region[200] = "";
    bool signs = begins(address, s3);
    bool fits = wefti_address_below(address, below, whole);
    size_t n = strlen(endpoint);
    path = whole + (signs ? sizeof s3 - 1 : 0);
    if (!fits || (signs ? !is_key(path) : below[0] && strchr(address, '#')))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%.200s is no address that is understood, expected "
                             "s3://BUCKET/KEY, or https:// without '#' for a folder",
                             address);
    if (wefti_address_lacks(address))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "the signature of %s was not kept, expected the whole "
                             "address again, in the command",
                             address);
    if (below[0] && is_presigned(address))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s is signed for one file, expected a folder: s3://, or "
                             "https:// with a signature for all that is below it",
                             address);
    while (n > 0 && endpoint[n - 1] == '/') n--;
    snprintf(region, sizeof region, "https://s3.%.100s.amazonaws.com",
             wefti_address_region());
    if (signs)
        n = (size_t)snprintf(url, WEFTI_URL_BYTES, "%.*s/", n ? (int)n : 199,
                             n ? endpoint : region);
    else
        n = 0;
    const char *plain = signs ? "-_.~/" : "-_.~/%:?#[]@!$&'()*+,;=";
    for (const unsigned char *c = (const unsigned char *)path; *c; c++) {
        bool as_is = (*c < 0x80 && isalnum(*c)) || strchr(plain, *c);
        if (n + 4 >= WEFTI_URL_BYTES)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "the address %.200s is too long",
                                 address);
        n += (size_t)snprintf(url + n, WEFTI_URL_BYTES - n, as_is ? "%c" : "%%%02X", *c);
    }
    return WEFT_OK;
}

void wefti_address_name(const char *address, char name[NAME_MAX + 1]) {
    size_t n = strcspn(address, "?#"), from = n;
    while (from > 0 && address[from - 1] != '/') from--;
    bool fits = n > from && n - from < 80 && address[from] != '.';
    for (size_t i = from; fits && i < n; i++)
        fits = isalnum((unsigned char)address[i]) || strchr("-_.", address[i]);
    snprintf(name, NAME_MAX + 1, "%.*s", fits ? (int)(n - from) : 4,
             fits ? address + from : "data");
}
