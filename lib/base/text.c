/* SPDX-License-Identifier: MIT */
/* Conversion of text to numbers and back: quantities with units ("100Mbit", "10ms",
 * "64kB"), the nearest of some words by edit distance, sizes in a readable form, texts
 * that are safe to print and to keep. */
#define _GNU_SOURCE
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef struct suffix {
    const char *text;
    double factor;
} suffix;

static const suffix count_suffixes[] = {{"", 1},    {"k", 1e3},  {"M", 1e6},  {"G", 1e9},
                                        {"b", 1e9}, {"T", 1e12}, {"P", 1e15}, {NULL, 0}};
static const suffix no_suffixes[] = {{"", 1}, {NULL, 0}};
static const suffix number_suffixes[] = {
    {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0}};
static const suffix byte_suffixes[] = {
    {"k", 1e3},    {"M", 1e6},       {"G", 1e9},          {"T", 1e12}, {"", 1},
    {"B", 1},      {"kB", 1e3},      {"MB", 1e6},         {"GB", 1e9}, {"TB", 1e12},
    {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {NULL, 0}};
/* Of times and rates a quantity without the first ones begins later. */
static const suffix time_suffixes[] = {
    {"", 1},     {"s", 1},    {"ms", 1e-3}, {"us", 1e-6},    {"ns", 1e-9},
    {"min", 60}, {"h", 3600}, {"d", 86400}, {"a", 31557600}, {NULL, 0}};
static const suffix share_suffixes[] = {{"%", 0.01}, {"", 1}, {NULL, 0}};
enum { BARE_RATES = 7 };
static const suffix rate_suffixes[] = {
    {"k", 125},         {"K", 125},           {"M", 125e3},         {"m", 125e3},
    {"G", 125e6},       {"g", 125e6},         {"T", 125e9}, /* of links only */
    {"bit", 0.125},     {"kbit", 125},        {"Mbit", 125e3},      {"Gbit", 125e6},
    {"bit/s", 0.125},   {"kbit/s", 125},      {"Mbit/s", 125e3},    {"Gbit/s", 125e6},
    {"Tbit", 125e9},    {"Tbit/s", 125e9},    {"B/s", 1},           {"kB/s", 1e3},
    {"MB/s", 1e6},      {"GB/s", 1e9},        {"TB/s", 1e12},       {"Bps", 1},
    {"kBps", 1e3},      {"MBps", 1e6},        {"GBps", 1e9},        {"TBps", 1e12},
    {"bps", 0.125},     {"kbps", 125},        {"Mbps", 125e3},      {"Gbps", 125e6},
    {"GbE", 125e6},     {"gbe", 125e6},       {"Tbps", 125e9},      {"mbps", 125e3},
    {"gbps", 125e6},    {"kb/s", 125},        {"Mb/s", 125e3},      {"Gb/s", 125e6},
    {"Tb/s", 125e9}, /* as iperf3 prints: */
    {"Kbits/sec", 125}, {"Mbits/sec", 125e3}, {"Gbits/sec", 125e6}, {NULL, 0}};
static const suffix price_suffixes[] = {{"", 1}, {"/h", 1}, {"/hour", 1}, {NULL, 0}};
static const suffix work_suffixes[] = {
    {"", 1},           {"M", 1e6},        {"G", 1e9},       {"T", 1e12},
    {"P", 1e15},       {"FLOP/s", 1},     {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"FLOPS", 1},     {"MFLOPS", 1e6},
    {"GFLOPS", 1e9},   {"TFLOPS", 1e12},  {"PFLOPS", 1e15}, {NULL, 0}};

static const struct {
    const suffix *suffixes;
    const char *expected, *base; /* the base unit; "": none */
} quantities[] = {
    [WEFT_UNIT_COUNT] = {count_suffixes, "a whole number", ""},
    [WEFT_UNIT_NUMBER] = {number_suffixes, "a number", ""},
    [WEFT_UNIT_SHARE] = {share_suffixes, "a share such as 0.05 or 5%", ""},
    [WEFT_UNIT_BYTES] = {byte_suffixes, "a size such as 64kB or 16GB", "B"},
    [WEFT_UNIT_TIME] = {time_suffixes + 1, "a time such as 20us or 5min", "s"},
    [WEFT_UNIT_SECONDS] = {time_suffixes, "a time such as 30 or 5min", "s"},
    [WEFT_UNIT_RATE] = {rate_suffixes + BARE_RATES, "a rate such as 25Gbit or 3GB/s",
                        "B/s"},
    [WEFT_UNIT_LINK] = {rate_suffixes, "a rate such as 25Gbit or 3GB/s", "B/s"},
    [WEFT_UNIT_WORK] = {work_suffixes, "a rate such as 80T or 80TFLOP/s", "FLOP/s"},
    [WEFT_UNIT_PLAIN] = {no_suffixes, "a whole number", ""},
    [WEFT_UNIT_PRICE] = {price_suffixes, "a price of an hour such as 2.10/h", ""}};

/* What is meant by words that are not taken, because they may mean something else. */
static const struct {
    const char *base, *text, *meant;
} words_for[] = {{"s", "m", "min"},     {"s", "mins", "min"},  {"s", "minutes", "min"},
                 {"s", "sec", "s"},     {"s", "secs", "s"},    {"s", "seconds", "s"},
                 {"s", "hours", "h"},   {"s", "days", "d"},    {"B/s", "Mb", "Mbit"},
                 {"B/s", "Gb", "Gbit"}, {"B/s", "mb", "Mbit"}, {"B/s", "gb", "Gbit"},
                 {"B/s", "MB", "MB/s"}, {"B/s", "GB", "GB/s"}};

double wefti_strtod(const char *text, char **end) {
    locale_t plain = newlocale(LC_ALL_MASK, "C",
                               (locale_t)0); /* a constant of the C library */
    if (plain == (locale_t)0) return strtod(text, end);
    double value = strtod_l(text, end, plain);
    freelocale(plain);
    return value;
}

char *wefti_with_point(char *text) {
    const char *point = nl_langinfo(RADIXCHAR);
    size_t n = strlen(point);
    if (n == 0 || wefti_is(point, ".")) return text;
    for (char *at = strstr(text, point); at; at = strstr(at + 1, point)) {
        *at = '.';
        memmove(at + 1, at + n, strlen(at + n) + 1);
    }
    return text;
}

/* The number at the beginning of a text; NULL: there is none, else where its unit begins. */
static const char *number_of(const char *text, double *value) {
    if (!text[0] || isspace((unsigned char)text[0]) || strpbrk(text, "xXnNiIpP") == text)
        return NULL;
    char *end;
    errno = 0;
    *value = wefti_strtod(text, &end);
    if (end == text || !isfinite(*value) || errno == ERANGE) return NULL;
    if (memchr(text, 'x', (size_t)(end - text)) ||
        memchr(text, 'X', (size_t)(end - text)))
        return NULL;
    while (*end == ' ') end++;
    return end;
}

/* Whether a unit may be typed in any case: where no other one differs by case alone. Mb is a bit's
 * in the habit of most, MB a byte's. */
static bool any_case(const char *typed, weft_quantity unit) {
    bool lower = true, bits = strcasestr(typed, "bit") != NULL;
    for (const char *c = typed; *c; c++) lower &= !isupper((unsigned char)*c);
    return unit == WEFT_UNIT_COUNT || (unit == WEFT_UNIT_BYTES && lower) ||
           ((unit == WEFT_UNIT_RATE || unit == WEFT_UNIT_LINK) && bits);
}

/* Bytes of a name of money at the beginning: a sign, or three capital letters; 0: none. */
static size_t money_bytes(const char *text) {
    enum { CODE = 3, SIGN = 4 };
    size_t code = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), sign = 0;
    while (sign < SIGN && (text[sign] == '$' || (unsigned char)text[sign] >= 0x80))
        sign++;
    return sign > 0 ? sign : code == CODE ? code : 0;
}

void weft_quantity_money(const char *price, char *out, size_t size) {
    double value;
    size_t n = money_bytes(price);
    const char *behind = n > 0 ? NULL : number_of(price, &value);
    if (behind) price = behind, n = money_bytes(behind);
    snprintf(out, size, "%.*s", (int)n, price);
}

bool weft_quantity_parse(const char *text, weft_quantity unit, double *out) {
    double value;
    size_t n_money = unit == WEFT_UNIT_PRICE ? money_bytes(text) : 0;
    text += n_money;
    if (n_money > 0) text += strspn(text, " ");
    const char *end = number_of(text, &value);
    if (!end) return false;
    if (unit == WEFT_UNIT_PRICE && n_money == 0) end += money_bytes(end);
    if (unit == WEFT_UNIT_TIME && value == 0) unit = WEFT_UNIT_SECONDS;
    bool loose = any_case(end, unit);
    for (const suffix *s = quantities[unit].suffixes; s->text; s++) {
        if (!(loose ? strcasecmp(end, s->text) == 0 : wefti_is(end, s->text))) continue;
        if (!isfinite(value * s->factor)) return false;
        *out = value * s->factor;
        return true;
    }
    return false;
}

bool weft_quantity_parse_int(const char *text, weft_quantity unit, int64_t *out) {
    const double most = 9007199254740992.0; /* 2^53 */
    char *end;
    double value;
    if (!weft_quantity_parse(text, unit, &value)) return false;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*end && unit == WEFT_UNIT_PLAIN) return false;
    if (*end && (fabs(value) > most || value != floor(value))) return false;
    *out = *end ? (int64_t)value : whole;
    return *end || errno == 0;
}

bool weft_quantity_parse_pair(const char *text, const weft_quantity units[2],
                              double out[2]) {
    char first[64];
    const char *comma = strchr(text, ',');
    if (!comma || (size_t)(comma - text) >= sizeof first) return false;
    snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
    comma += 1 + strspn(comma + 1, " ");
    return weft_quantity_parse(first, units[0], &out[0]) &&
           weft_quantity_parse(comma, units[1], &out[1]);
}

bool weft_quantity_guess(const char *text, weft_quantity unit, char *out, size_t size) {
    double value;
    const char *end = number_of(text, &value), *meant = NULL,
               *base = quantities[unit].base;
    if (!end || weft_quantity_parse(text, unit, &value)) return false;
    for (const suffix *s = quantities[unit].suffixes; s->text && !meant; s++)
        if (!wefti_is(base, "B/s") && strcasecmp(end, s->text) == 0) meant = s->text;
    for (size_t i = 0; i < sizeof words_for / sizeof words_for[0] && !meant; i++)
        if (wefti_is(base, words_for[i].base) && wefti_is(end, words_for[i].text))
            meant = words_for[i].meant;
    return meant &&
           snprintf(out, size, "%.*s%s", (int)(end - text), text, meant) < (int)size;
}

const char *wefti_quantity_base(weft_quantity unit) { return quantities[unit].base; }

const char *weft_quantity_expected(weft_quantity unit, double low, double high, char *out,
                                   size_t size) {
    const char *base = quantities[unit].base;
    int n = snprintf(out, size, "%s %s %.15g", quantities[unit].expected,
                     high < 1e15 ? "from" : "of at least", low);
    if (high < 1e15 && n < (int)size)
        n += snprintf(out + n, size - (size_t)n, " to %.15g", high);
    if (base[0] && n < (int)size) snprintf(out + n, size - (size_t)n, " %s", base);
    return out;
}

static int min3(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

int wefti_edit_distance(const char *a, const char *b) {
    enum { MAX = 64 };
    int d[MAX + 1][MAX + 1];
    int n = (int)strnlen(a, MAX), m = (int)strnlen(b, MAX);
    for (int i = 0; i <= n; i++) d[i][0] = i;
    for (int j = 0; j <= m; j++) d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        for (int j = 1; j <= m; j++) {
            int cost = a[i - 1] != b[j - 1];
            d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[n][m];
}

const char *wefti_nearest(const char *word, const char *const *candidates, size_t n) {
    const char *best = NULL;
    size_t n_word = strlen(word);
    int best_distance = 1 + (int)(n_word / 3);
    for (size_t i = 0; i < n; i++) {
        int distance = wefti_edit_distance(word, candidates[i]);
        size_t length = strlen(candidates[i]),
               longest = length > n_word ? length : n_word;
        if ((size_t)distance >= longest) continue; /* no letter in common */
        if (distance < best_distance || (distance == best_distance && !best)) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}

/* Control characters have one byte, or are those from U+0080 to U+009F: C2 80 to C2 9F. */
char *wefti_text_plain(char *text) {
    unsigned char before = 0;
    for (char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        bool second = before == 0xc2 && byte >= 0x80 && byte < 0xa0;
        if (second) c[-1] = '?';
        if (byte < 0x20 || byte == 0x7f || second) *c = '?';
        before = byte;
    }
    return text;
}

/* A part NAME=VALUE of a query: of a known kind, or so long that it may be one. Versions of files
 * are as long. */
static bool lets_in(const char *part, size_t n) {
    static const char *const kinds[] = {"x-amz-", "x-goog-", "sig",    "token",
                                        "key",    "secret",  "cred",   "pass",
                                        "auth",   "policy",  "expires"};
    enum { LONG = 32 };
    char name[64];
    size_t n_name = strcspn(part, "=");
    if (n_name >= n) return n > LONG;
    snprintf(name, sizeof name, "%.*s", (int)n_name, part);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcasestr(name, kinds[i])) return true;
    return n - n_name > LONG && !strcasestr(name, "version");
}

/* Where an address ends in a sentence, a list or a page. */
static bool ends_address(const char *at) {
    if (!*at || isspace((unsigned char)*at) || strchr("\"'<>)]}", *at)) return true;
    return strchr(",:;.", *at) && (!at[1] || isspace((unsigned char)at[1]));
}

/* The query that begins after `at`, up to the end of its address; returns where that is now. */
static char *hide_query(char *at) {
    char *to = at;
    bool hidden = false, kept = false;
    while (!ends_address(at)) {
        size_t n = 0;
        while (!ends_address(at + n) && at[n] != '&') n++;
        if (lets_in(at, n)) {
            hidden = true;
        } else {
            if (kept) *to++ = '&';
            memmove(to, at, n);
            to += n;
            kept = true;
        }
        at += n + (at[n] == '&');
    }
    if (!hidden) return at;
    if (kept) *to++ = '&';
    memcpy(to, "...", 3); /* less than NAME= and a '&' */
    memmove(to + 3, at, strlen(at) + 1);
    return to + 3;
}

char *wefti_text_hide(char *text) {
    for (char *at = text; (at = strstr(at, "http"));) {
        at += 4;
        at += *at == 's';
        if (strncmp(at, "://", 3) != 0) continue;
        while (!ends_address(at) && *at != '?') at++;
        if (*at == '?') at = hide_query(at + 1);
    }
    return text;
}

const char *wefti_format_bytes(double n_bytes, char *out, size_t out_size) {
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB"};
    int k = 0;
    while (k < 4 && n_bytes >= 999.5) n_bytes /= 1000, k++;
    snprintf(out, out_size, n_bytes < 9.95 && k ? "%.1f %s" : "%.0f %s", n_bytes,
             names[k]);
    return out;
}

bool wefti_named(const char *const *list, const char *name) {
    for (; list && *list; list++)
        if (wefti_is(*list, name)) return true;
    return false;
}

bool wefti_is_blank(const char *text, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}
