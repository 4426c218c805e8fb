/* SPDX-License-Identifier: MIT */
#pragma once

/* Short words for the events of a text: for a file that has a type `reader` with a member
 * `wefti_yaml yaml`, and includes this behind it. */
#include "config/yamlevents.h"

static inline yaml_event_type_t type_of(const reader *r) { return r->yaml.event.type; }
static inline int line_of(const reader *r) { return wefti_yaml_line(&r->yaml); }
static inline weft_status next(reader *r) { return wefti_yaml_next(&r->yaml); }
static inline bool is_scalar(const reader *r) { return wefti_yaml_is_scalar(&r->yaml); }
static inline const char *scalar(const reader *r) { return wefti_yaml_text(&r->yaml); }
static inline weft_status refuse(reader *r, const char *sentence) {
    return wefti_yaml_refuse(&r->yaml, sentence);
}
