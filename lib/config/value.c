/* SPDX-License-Identifier: MIT */
/* Converts a typed text to a value of its key, and describes in words which values a key
 * accepts.
 *
 *     INT        12, 16k, 1e6 if it is a whole number         BYTES   64kB, 4MiB
 *     NUMBER     1e-3, 5min of seconds, 5% of a share         BOOL    true yes on, false no off
 *     CHOICE     one of the names; stored as the table's own text, which is never freed
 *     LINK       none, or RATE,LATENCY
 *     TEXT       any UTF-8 of a length within the bounds
 *
 * A number is written with the fewest digits that read back to the same bits, so that
 * saving and loading a configuration does not change it. */
#include "config/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "text/utf8.h"
#include "config/schema.h"

bool wefti_key_is_list(const weft_config_key *key) {
    return key->type == WEFT_KEY_TEXTS || key->type == WEFT_KEY_NUMBERS;
}

static bool in_bounds(const weft_config_key *key, double x) {
    return x >= key->min && (key->max_excluded ? x < key->max : x <= key->max);
}

weft_quantity wefti_key_quantity(const weft_config_key *key) {
    if (key->type == WEFT_KEY_BYTES) return WEFT_UNIT_BYTES;
    if (key->type == WEFT_KEY_INT) return WEFT_UNIT_COUNT;
    if (wefti_is(key->unit, "seconds")) return WEFT_UNIT_SECONDS;
    bool share = key->max == 1 || wefti_is(key->unit, "share");
    return share ? WEFT_UNIT_SHARE : WEFT_UNIT_NUMBER;
}

static bool parse_bool(const char *text, int64_t *out) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (int i = 0; i < 6; i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *out = i % 2;
        return true;
    }
    return false;
}

/* Accepts only valid UTF-8. Other bytes would get into a file that weft writes, and other
 * programs could not read it. */
static bool parse_text(const weft_config_key *key, const char *text, const char **out) {
    *out = text;
    return in_bounds(key, (double)strlen(text)) && wefti_is_utf8(text);
}

static bool parse_choice(const weft_config_key *key, const char *text, const char **out) {
    const weft_choice *choice = wefti_choice_find(key->choices, text);
    if (choice) *out = choice->name;
    return choice != NULL;
}

bool wefti_link_parse(const char *text, double *bandwidth_Bps, double *latency_s) {
    static const weft_quantity units[] = {WEFT_UNIT_LINK, WEFT_UNIT_TIME};
    double link[2] = {0, 0};
    bool none = wefti_is(text, "none");
    bool fine = !none && weft_quantity_parse_pair(text, units, link);
    *bandwidth_Bps = link[0];
    *latency_s = link[1];
    return none || (fine && link[0] > 0 && link[1] >= 0);
}

bool wefti_busy_parse(const char *text, wefti_busy *out) {
    int from_h, from_min, to_h, to_min, n = 0;
    *out = (wefti_busy){0};
    if (!text[0]) return true;
    if (sscanf(text, "%2d:%2d-%2d:%2d,%n", &from_h, &from_min, &to_h, &to_min, &n) != 4 ||
        n == 0 || strspn(text, "0123456789:-,") < (size_t)n)
        return false;
    if (from_h < 0 || to_h < 0 || from_min < 0 || to_min < 0) return false; /* "-1" */
    if (from_h > 23 || to_h > 24 || from_min > 59 || to_min > 59) return false;
    *out = (wefti_busy){.from_s = 3600 * from_h + 60 * from_min,
                        .to_s = 3600 * to_h + 60 * to_min};
    bool fine = weft_quantity_parse(text + n, WEFT_UNIT_LINK, &out->Bps) && out->Bps > 0;
    return fine && out->to_s <= 86400 && out->from_s != out->to_s;
}

wefti_value wefti_value_at(const weft_config_key *key, const weft_config *values) {
    const void *place = (const char *)values + key->offset;
    wefti_value v = {0};
    switch (key->type) {
    case WEFT_KEY_INT:
    case WEFT_KEY_BYTES: v.integer = *(const int64_t *)place; break;
    case WEFT_KEY_NUMBER: v.number = *(const double *)place; break;
    case WEFT_KEY_BOOL: v.integer = *(const bool *)place; break;
    case WEFT_KEY_AUTO_BOOL: v.integer = *(const int *)place; break;
    case WEFT_KEY_TEXT:
    case WEFT_KEY_CHOICE:
    case WEFT_KEY_LINK: v.text = *(const char *const *)place; break;
    case WEFT_KEY_TEXTS:
    case WEFT_KEY_NUMBERS: break;
    }
    return v;
}

/* Parses one text according to the type of its key. */
bool wefti_value_parse(const weft_config_key *key, const char *text, wefti_value *out) {
    double bandwidth_Bps, latency_s;
    *out = (wefti_value){0, 0, text};
    switch (key->type) {
    case WEFT_KEY_INT:
    case WEFT_KEY_BYTES:
        return weft_quantity_parse_int(text, wefti_key_quantity(key), &out->integer) &&
               in_bounds(key, (double)out->integer);
    case WEFT_KEY_NUMBER:
    case WEFT_KEY_NUMBERS:
        return weft_quantity_parse(text, wefti_key_quantity(key), &out->number) &&
               in_bounds(key, out->number);
    case WEFT_KEY_AUTO_BOOL:
        out->integer = -1;
        return wefti_is(text, "auto") || parse_bool(text, &out->integer);
    case WEFT_KEY_BOOL: return parse_bool(text, &out->integer);
    case WEFT_KEY_CHOICE: return parse_choice(key, text, &out->text);
    case WEFT_KEY_LINK: return wefti_link_parse(text, &bandwidth_Bps, &latency_s);
    case WEFT_KEY_TEXT: return parse_text(key, text, &out->text);
    case WEFT_KEY_TEXTS: return text[0] != '\0' && parse_text(key, text, &out->text);
    }
    return false;
}

/* 17 digits always read back to the same value; usually fewer are enough. */
void wefti_number_text(double number, char *out, size_t out_size) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, out_size, "%.*g", digits, number);
        wefti_with_point(out);
        if (wefti_strtod(out, NULL) == number) return;
    }
}

const char *wefti_shown(const char *text, char *out, size_t out_size) {
    size_t n = 0;
    for (; text[n] && n + 4 < out_size; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    if (text[n]) {
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--; /* not inside a UTF-8 character */
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}

static void print_bounds(const weft_config_key *key, char *out, size_t out_size) {
    char low[32], high[32];
    wefti_number_text(key->min, low, sizeof low);
    wefti_number_text(key->max, high, sizeof high);
    if (key->max >= WEFT_KEY_NO_LIMIT)
        snprintf(out, out_size, " of at least %s", low);
    else if (key->max_excluded)
        snprintf(out, out_size, " from %s to below %s", low, high);
    else
        snprintf(out, out_size, " from %s to %s", low, high);
}

static void print_choices(const weft_config_key *key, char *out, size_t out_size) {
    size_t used = 0;
    for (const weft_choice *c = key->choices; c->name; c++) {
        const char *between = c == key->choices ? "" : c[1].name ? ", " : " or ";
        int n = snprintf(out + used, out_size - used, "%s%s", between, c->name);
        if (n < 0 || used + (size_t)n >= out_size) return;
        used += (size_t)n;
    }
}

const char *weft_config_key_values(const weft_config_key *key, char *out,
                                   size_t out_size) {
    char bounds[80], unit[40] = "";
    print_bounds(key, bounds, sizeof bounds);
    if (key->unit[0]) snprintf(unit, sizeof unit, " (%s)", key->unit);
    switch (key->type) {
    case WEFT_KEY_INT: snprintf(out, out_size, "a whole number%s%s", bounds, unit); break;
    case WEFT_KEY_BYTES: snprintf(out, out_size, "a size such as 64kB or 4MB"); break;
    case WEFT_KEY_NUMBER: snprintf(out, out_size, "a number%s%s", bounds, unit); break;
    case WEFT_KEY_BOOL: snprintf(out, out_size, "true or false"); break;
    case WEFT_KEY_AUTO_BOOL: snprintf(out, out_size, "auto, true or false"); break;
    case WEFT_KEY_CHOICE: print_choices(key, out, out_size); break;
    case WEFT_KEY_LINK:
        snprintf(out, out_size, "'none' or RATE,LATENCY such as '100Mbit,10ms'");
        break;
    case WEFT_KEY_TEXT:
        snprintf(out, out_size, key->min > 0 ? "a text that is not empty" : "a text");
        break;
    case WEFT_KEY_TEXTS: snprintf(out, out_size, "a list of texts such as [a, b]"); break;
    case WEFT_KEY_NUMBERS:
        snprintf(out, out_size, "a list of numbers%s such as [0.7, 0.3]", bounds);
        break;
    }
    return out;
}
