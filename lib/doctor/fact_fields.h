/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

#include <weft/doctor.h>

typedef enum wefti_field_kind {
    WEFTI_FIELD_TEXT,
    WEFTI_FIELD_WHOLE, /* int64_t */
    WEFTI_FIELD_REAL,  /* double */
    WEFTI_FIELD_BITS   /* one or several uint64_t */
} wefti_field_kind;

typedef struct wefti_fact_field {
    const char *name;
    wefti_field_kind kind;
    size_t offset, size; /* in weft_rank_facts */
} wefti_fact_field;

/* All fields of weft_rank_facts, ended by a NULL name. */
extern const wefti_fact_field wefti_rank_fields[];

/* Facts as wefti_facts_bytes() bytes, little-endian, texts of fixed size. Decoding rejects texts
 * without a NUL and other versions. */
size_t wefti_facts_bytes(void);
void wefti_facts_encode(const weft_rank_facts *facts, void *bytes);
weft_status wefti_facts_decode(weft_ctx *ctx, const void *bytes, size_t n,
                               weft_rank_facts *out) WEFT_CHECKED;
