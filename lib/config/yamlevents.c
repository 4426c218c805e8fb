/* SPDX-License-Identifier: MIT */
/* YAML as a flat sequence of libyaml's events, each with the line where it began:
 *
 *     a: [1, 2]     ->  stream start, document start, mapping start, scalar a,
 *                       sequence start, scalar 1, scalar 2, sequence end,
 *                       mapping end, document end, stream end
 *
 * Anchors, aliases and tags are refused: with them a file of a few lines could expand to
 * gigabytes, or request a type that weft does not read. A zero byte in a value is refused too,
 * because values are used as C strings later. Nothing recurses, so no file can be too deep. */
#include "config/yamlevents.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/sniff.h"
#include "config/value.h"

int wefti_yaml_line(const wefti_yaml *y) { return (int)y->event.start_mark.line + 1; }

bool wefti_yaml_is_scalar(const wefti_yaml *y) {
    return y->event.type == YAML_SCALAR_EVENT;
}

bool wefti_yaml_is_blank(const wefti_yaml *y) {
    return wefti_yaml_is_scalar(y) && y->event.data.scalar.length == 0 &&
           y->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

const char *wefti_yaml_text(const wefti_yaml *y) {
    return (const char *)y->event.data.scalar.value;
}

weft_status wefti_yaml_fail(const wefti_yaml *y, int line, const char *format, ...) {
    char shown[256], sentence[700];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return weft_ctx_fail(y->ctx, y->blame, "%s:%d: %s",
                         wefti_shown(y->path, shown, sizeof shown), line, sentence);
}

weft_status wefti_yaml_refuse(const wefti_yaml *y, const char *sentence) {
    return wefti_yaml_fail(y, wefti_yaml_line(y), "%s", sentence);
}

static weft_status fail_memory(const wefti_yaml *y) {
    char shown[256];
    return weft_ctx_fail(y->ctx, WEFT_ERR_MEMORY, "no memory left to read %s",
                         wefti_shown(y->path, shown, sizeof shown));
}

/* For bytes that are not text libyaml reports no line, only how far it had read. */
static int line_of_problem(const wefti_yaml *y) {
    const yaml_parser_t *p = &y->parser;
    if (p->error != YAML_READER_ERROR) return (int)p->problem_mark.line + 1;
    int line = 1;
    for (size_t i = 0; i < p->problem_offset && y->data[i]; i++)
        line += y->data[i] == '\n';
    return line;
}

/* Of a file that is no text at all its kind says more than a line of it. */
static weft_status fail_syntax(const wefti_yaml *y) {
    char shown[256];
    const yaml_parser_t *p = &y->parser;
    const char *kind = wefti_sniff(y->data, y->n_bytes);
    if (p->error == YAML_MEMORY_ERROR) return fail_memory(y);
    if (kind)
        return weft_ctx_fail(y->ctx, WEFT_ERR_FORMAT, "%s is %s, expected text in YAML",
                             wefti_shown(y->path, shown, sizeof shown), kind);
    return weft_ctx_fail(y->ctx, WEFT_ERR_FORMAT, "%s:%d: not valid YAML: %s%s%s",
                         wefti_shown(y->path, shown, sizeof shown), line_of_problem(y),
                         p->problem ? p->problem : "unreadable", p->context ? ", " : "",
                         p->context ? p->context : "");
}

/* Whether a value has an &anchor or a !tag. */
static void marks_of(const yaml_event_t *e, bool *anchor, bool *tag) {
    *anchor = e->type == YAML_ALIAS_EVENT;
    *tag = false;
    if (e->type == YAML_SCALAR_EVENT) {
        *anchor = e->data.scalar.anchor != NULL;
        *tag = e->data.scalar.tag != NULL;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        *anchor = e->data.sequence_start.anchor != NULL;
        *tag = e->data.sequence_start.tag != NULL;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        *anchor = e->data.mapping_start.anchor != NULL;
        *tag = e->data.mapping_start.tag != NULL;
    }
}

weft_status wefti_yaml_next(wefti_yaml *y) {
    bool anchor, tag;
    yaml_event_delete(&y->event);
    if (!yaml_parser_parse(&y->parser, &y->event)) {
        memset(&y->event, 0, sizeof y->event);
        return fail_syntax(y);
    }
    marks_of(&y->event, &anchor, &tag);
    if (anchor && !y->lenient)
        return wefti_yaml_refuse(
            y, "anchors and aliases (& and *) are not supported, write the value out");
    if (tag && !y->lenient)
        return wefti_yaml_refuse(y, "tags (!) are not supported, write the plain value");
    if (wefti_yaml_is_scalar(y) &&
        strlen(wefti_yaml_text(y)) != y->event.data.scalar.length)
        return wefti_yaml_refuse(y, "a value contains a zero byte");
    return WEFT_OK;
}

weft_status wefti_yaml_skip(wefti_yaml *y) {
    int64_t depth = 0;
    do {
        WEFT_TRY(wefti_yaml_next(y));
        yaml_event_type_t type = y->event.type;
        depth += type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
        depth -= type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
    } while (depth > 0);
    return WEFT_OK;
}

weft_status wefti_yaml_begin(wefti_yaml *y, const char *data, int64_t n_bytes) {
    static const char mark[] = "\xEF\xBB\xBF"; /* U+FEFF, as some editors begin a file */
    if (n_bytes >= 3 && memcmp(data, mark, 3) == 0) data += 3, n_bytes -= 3;
    y->data = data;
    y->n_bytes = n_bytes;
    memset(&y->event, 0, sizeof y->event);
    if (!yaml_parser_initialize(&y->parser)) return fail_memory(y);
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)data,
                                 (size_t)n_bytes);
    return WEFT_OK;
}

void wefti_yaml_end(wefti_yaml *y) {
    yaml_event_delete(&y->event);
    yaml_parser_delete(&y->parser);
}
