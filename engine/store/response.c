/* SPDX-License-Identifier: MIT */
/* A store's page is XML. Of it four elements are read, as plain words, wherever they are; nothing
 * is expanded, keys are escaped as in an address:
 *
 *     <Error><Code>AuthorizationHeaderMalformed</Code>...<Region>eu-west-1</Region></Error>
 *     <InitiateMultipartUploadResult>...<UploadId>ID</UploadId></...>
 *     <ListMultipartUploadsResult>...<Key>KEY</Key><UploadId>ID</UploadId></...> */
#include "store/response.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/machine.h"
#include "base/text.h"
#include "store/address.h"

enum { LINE_BYTES = 8192 };

void wefti_response_init(wefti_response *r) {
    memset(r, 0, sizeof *r);
    r->n_bytes = r->from = r->to = r->all = -1;
}

static void take_range(wefti_response *r, const char *value) {
    long long from, to, all;
    if (sscanf(value, "bytes %18lld-%18lld/%18lld", &from, &to, &all) != 3) return;
    if (from < 0 || to < from || all <= to) return;
    r->from = from;
    r->to = to;
    r->all = all;
}

static void take_mark(wefti_response *r, const char *value, bool tag) {
    if (!tag && r->mark[0]) return; /* an ETag is better */
    snprintf(r->mark, sizeof r->mark, "%s", strlen(value) < sizeof r->mark ? value : "");
}

void wefti_response_line(wefti_response *r, const char *bytes, size_t n) {
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : 0), bytes);
    line[strcspn(line, "\r\n")] = '\0';
    size_t n_head = r->n_head + n;
    if (strncmp(line, "HTTP/", 5) == 0) wefti_response_init(r);
    r->n_head = n_head;
    char *value = strchr(line, ':');
    if (!value) return;
    *value++ = '\0';
    value = wefti_text_plain(value + strspn(value, " \t"));
    if (strcasecmp(line, "Content-Length") == 0) {
        long long length = isdigit((unsigned char)value[0]) ? strtoll(value, NULL, 10)
                                                            : -1;
        r->n_bytes = r->n_bytes == -1 || r->n_bytes == length ? length : -2;
    }
    if (strcasecmp(line, "Content-Range") == 0) take_range(r, value);
    if (strcasecmp(line, "ETag") == 0) take_mark(r, value, true);
    if (strcasecmp(line, "Last-Modified") == 0) take_mark(r, value, false);
    if (strcasecmp(line, "Date") == 0) wefti_set_text(r->date, sizeof r->date, value);
    if (strcasecmp(line, "x-amz-bucket-region") == 0)
        wefti_set_text(r->region, sizeof r->region, value);
    if (strcasecmp(line, "Content-Encoding") == 0 && strcasecmp(value, "identity") != 0)
        wefti_set_text(r->coding, sizeof r->coding, value);
    if (strcasecmp(line, "x-amz-meta-weft-upload") == 0)
        wefti_set_text(r->nonce, sizeof r->nonce, value);
}

void wefti_response_page(wefti_response *r, const char *bytes, size_t n) {
    size_t at = strlen(r->page), room = sizeof r->page - 1 - at;
    r->n_page += n;
    for (; at == 0 && n > 0 && isspace((unsigned char)bytes[0]); n--) bytes++;
    size_t taken = n < room ? n : room;
    memcpy(r->page + at, bytes, taken);
    r->page[at + taken] = '\0';
}

/* A file with a date of the second in which it was sent may be replaced in that second. */
const char *wefti_response_mark(const wefti_response *r) {
    return wefti_is(r->mark, r->date) ? "" : r->mark;
}

bool wefti_response_goes_on(const wefti_response *r, int64_t at, int64_t size,
                            const char *was) {
    return r->from == at && r->to == size - 1 && r->all == size &&
           (r->n_bytes == -1 || r->n_bytes == size - at) && wefti_is(r->mark, was);
}

/* <name>WORD</name> of the page, of letters, digits and `also`; "": it has none. */
static void read_element(const wefti_response *r, const char *name, const char *also,
                         char *word, size_t room) {
    const char *at = strstr(r->page, name);
    size_t n = 0;
    if (at) at += strlen(name);
    while (at && at[n] && n < room - 1 &&
           (isalnum((unsigned char)at[n]) || strchr(also, at[n])))
        n++;
    if (!at || at[n] != '<') n = 0;
    if (n > 0) memcpy(word, at, n);
    word[n] = '\0';
}

void wefti_response_upload(const wefti_response *r, char id[WEFTI_UPLOAD_BYTES]) {
    read_element(r, "<UploadId>", "-_.~+/=", id, WEFTI_UPLOAD_BYTES);
}

void wefti_response_key(const wefti_response *r, char *key, size_t room) {
    read_element(r, "<Key>", "-_.~/%+*", key, room);
}

const char *wefti_response_tag(const wefti_response *r) {
    size_t n = strlen(r->mark);
    bool quoted = n > 2 && r->mark[0] == '"' && r->mark[n - 1] == '"';
    return quoted && !strpbrk(r->mark, "<&") && n < WEFTI_TAG_BYTES ? r->mark : NULL;
}

/* What the codes of stores mean for who set the environment. */
static const struct {
    const char *code, *meaning;
    wefti_refusal fault;
} faults[] = {
    {"ExpiredToken", "AWS_SESSION_TOKEN has expired", WEFTI_REFUSAL_OF_KEY},
    {"TokenRefreshRequired", "AWS_SESSION_TOKEN has expired", WEFTI_REFUSAL_OF_KEY},
    {"InvalidToken", "the store does not know AWS_SESSION_TOKEN", WEFTI_REFUSAL_OF_KEY},
    {"InvalidAccessKeyId", "the store does not know AWS_ACCESS_KEY_ID",
     WEFTI_REFUSAL_OF_KEY},
    {"SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY is not that of AWS_ACCESS_KEY_ID",
     WEFTI_REFUSAL_OF_KEY},
    {"RequestTimeTooSkewed", "the clocks of this machine and the store differ",
     WEFTI_REFUSAL_OF_KEY},
    {"NoSuchBucket", "the store has no such bucket", WEFTI_REFUSAL_OF_FILE},
    {"XAmzContentSHA256Mismatch", "the bytes that came are not those that were sent",
     WEFTI_REFUSAL_PASSES},
    {"RequestTimeout", "the bytes came too slowly", WEFTI_REFUSAL_PASSES},
};

wefti_refusal wefti_response_refusal(const wefti_response *r, long code, bool s3,
                                     char text[WEFTI_REFUSAL_BYTES]) {
    char word[64], region[64];
    read_element(r, "<Code>", "-", word, sizeof word);
    read_element(r, "<Region>", "-", region, sizeof region);
    if (!region[0]) wefti_set_text(region, sizeof region, r->region);
    int n = snprintf(text, WEFTI_REFUSAL_BYTES, "the server answers %ld", code);
    if (!s3) return WEFTI_REFUSAL_OF_FILE;
    char *rest = text + n;
    size_t room = (size_t)(WEFTI_REFUSAL_BYTES - n);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (!wefti_is(word, faults[i].code)) continue;
        snprintf(rest, room, ": %s", faults[i].meaning);
        return faults[i].fault;
    }
    bool elsewhere = code == 301 || code == 307 || code == 400;
    if (elsewhere && region[0] && !wefti_is(region, wefti_address_region())) {
        snprintf(rest, room, ": AWS_REGION is %.63s, expected %s", wefti_address_region(),
                 region);
        return WEFTI_REFUSAL_OF_KEY;
    }
    if (code == 301)
        snprintf(rest, room, ", as if AWS_REGION were another");
    else if (word[0])
        snprintf(rest, room, " (%s)", word);
    return WEFTI_REFUSAL_OF_FILE;
}
