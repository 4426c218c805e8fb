/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>
#include <weft/quantity.h>

/* The value of one typed text, according to the type of its key. */
typedef struct wefti_value {
    int64_t integer;  /* INT, BYTES, BOOL, AUTO_BOOL */
    double number;    /* NUMBER, NUMBERS */
    const char *text; /* CHOICE: static; TEXT, TEXTS, LINK: the typed text itself */
} wefti_value;

/* Parses one text (an item of a list, or the whole value). Returns false if it is not a
 * value of the key: wrong type or unit, out of bounds, unknown choice. */
bool wefti_value_parse(const weft_config_key *key, const char *text, wefti_value *out);

/* What a key of numbers counts: "5min" where it counts seconds, "5%" where it is a share. */
weft_quantity wefti_key_quantity(const weft_config_key *key);

/* "100Mbit,10ms" -> bytes per second and seconds; "none" -> 0, 0. */
bool wefti_link_parse(const char *text, double *bandwidth_Bps, double *latency_s);

/* Hours of each day, in local time, in which a node may send at most so much; Bps 0: none. */
typedef struct wefti_busy {
    int64_t from_s, to_s; /* of the day; to_s may be less: over midnight */
    double Bps;
} wefti_busy;

/* "18:00-23:30,2Mbit"; "" -> no hours. */
bool wefti_busy_parse(const char *text, wefti_busy *out);

/* The value of a key that is no list. */
wefti_value wefti_value_at(const weft_config_key *key, const weft_config *values);

bool wefti_key_is_list(const weft_config_key *key);

/* Writes a number so that it reads back to the same bits, as short as that allows. */
void wefti_number_text(double number, char *out, size_t out_size);

/* Makes a copy for an error message: control characters become '?', long texts are
 * truncated. Returns out. */
const char *wefti_shown(const char *text, char *out, size_t out_size);
