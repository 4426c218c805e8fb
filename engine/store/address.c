/* SPDX-License-Identifier: MIT */
/* s3://BUCKET/KEY as an URL:
 *
 *     AWS_ENDPOINT_URL=http://store:9000     http://store:9000/BUCKET/KEY
 *     else, AWS_REGION=eu-west-1             https://s3.eu-west-1.amazonaws.com/BUCKET/KEY
 *
 * The key's bytes are escaped as the signature counts them: all but letters, digits and -_.~/ . */
#define _GNU_SOURCE
#include "store/address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

weft_status wefti_address_url(weft_ctx *ctx, const char *address, const char *below,
                              char url[WEFTI_URL_BYTES]) {
    const char *endpoint = setting("AWS_ENDPOINT_URL", ""), *key = address;
    char path[WEFTI_URL_BYTES] = "", region[200] = "";
    bool signs = begins(address, s3);
    if (signs) key += sizeof s3 - 1;
    size_t n_key = strlen(key), n = strlen(endpoint);
    while (below[0] && n_key > 0 && key[n_key - 1] == '/') n_key--;
    int put = snprintf(path, sizeof path, "%.*s%s%s", (int)n_key, key,
                       below[0] ? "/" : "", below);
    bool fine = signs ? is_key(path) : !below[0] || !strpbrk(address, "?#");
    if (!fine || put >= (int)sizeof path)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%.200s is no address that is understood, expected "
                             "s3://BUCKET/KEY, or https:// without '?' for a folder",
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
