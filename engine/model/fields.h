/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/model.h>

/* The fields of a weft_model_config as a table; a field "heads" is the key model.heads of a
 * configuration. */
typedef enum wefti_field_type {
    WEFTI_FIELD_WORD,   /* const char * */
    WEFTI_FIELD_TEXT,   /* char[128] */
    WEFTI_FIELD_INT,    /* int64_t; 0: the kind's own */
    WEFTI_FIELD_NUMBER, /* double; 0: the kind's own */
    WEFTI_FIELD_FLAG    /* int, 0 or 1 */
} wefti_field_type;

typedef struct wefti_field {
    const char *name; /* NULL ends the table */
    size_t offset;
    wefti_field_type type;
    bool free; /* a run may change it: parameters keep their meaning */
} wefti_field;

extern const wefti_field wefti_model_fields[];

/* Whether two models have the same value of the field. */
bool wefti_field_same(const wefti_field *field, const weft_model_config *a,
                      const weft_model_config *b);

/* The value as text for a configuration; writes to out and returns it. */
const char *wefti_field_text(const wefti_field *field, const weft_model_config *config,
                             char *out, size_t out_size);

/* The first field, not free, in which two complete configurations differ; NULL: none. */
const wefti_field *wefti_model_differs(const weft_model_config *a,
                                       const weft_model_config *b);
