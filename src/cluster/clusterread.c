/* SPDX-License-Identifier: MIT */
/* Reads cluster.yaml with libyaml's events, by the table in facts.c. Nothing nests deeper
 * than a list of mappings, so nothing here recurses. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/renamed.h"
#include "config/value.h"
#include "cluster/facts.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_ITEMS = 1 << 20 };

typedef struct reader {
    weft_ctx *ctx;
    const char *path; /* as it is shown */
    const char *data;
    yaml_parser_t parser;
    yaml_event_t event; /* zeroed when there is none */
    weft_cluster *cluster;
    int section_lines[WEFTI_FACT_SECTIONS]; /* 0: not yet */
} reader;

static int line_of(const reader *r) { return (int)r->event.start_mark.line + 1; }

static weft_status refuse_at(reader *r, int line, const char *sentence) {
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s:%d: %s", r->path, line, sentence);
}

static weft_status refuse(reader *r, const char *sentence) {
    return refuse_at(r, line_of(r), sentence);
}

/* libyaml gives no line for bytes that are not text, only how far it had read. */
static int line_of_problem(const reader *r) {
    const yaml_parser_t *p = &r->parser;
    if (p->error != YAML_READER_ERROR) return (int)p->problem_mark.line + 1;
    int line = 1;
    for (size_t i = 0; i < p->problem_offset && r->data[i]; i++)
        line += r->data[i] == '\n';
    return line;
}

static bool is_odd(const yaml_event_t *e) {
    switch (e->type) {
    case YAML_ALIAS_EVENT: return true;
    case YAML_SCALAR_EVENT: return e->data.scalar.anchor || e->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return e->data.sequence_start.anchor || e->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return e->data.mapping_start.anchor || e->data.mapping_start.tag;
    default: return false;
    }
}

static weft_status next(reader *r) {
    yaml_event_delete(&r->event);
    const yaml_parser_t *p = &r->parser;
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        memset(&r->event, 0, sizeof r->event);
        if (p->error == YAML_MEMORY_ERROR)
            return weft_ctx_fail(r->ctx, WEFT_ERR_MEMORY, "no memory left to read %s",
                                 r->path);
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s:%d: not valid YAML: %s",
                             r->path, line_of_problem(r),
                             p->problem ? p->problem : "unreadable");
    }
    const yaml_event_t *e = &r->event;
    if (is_odd(e))
        return refuse(r, "anchors, aliases and tags (& * !) are not supported, write the "
                         "value out");
    if (e->type == YAML_SCALAR_EVENT &&
        strlen((const char *)e->data.scalar.value) != e->data.scalar.length)
        return refuse(r, "a value contains a zero byte");
    return WEFT_OK;
}

static bool is_scalar(const reader *r) { return r->event.type == YAML_SCALAR_EVENT; }

static const char *scalar(const reader *r) {
    return (const char *)r->event.data.scalar.value;
}

static bool is_blank(const reader *r) {
    return is_scalar(r) && r->event.data.scalar.length == 0 &&
           r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static weft_status fail_unknown(reader *r, const char *what, const char *const *names,
                                int n) {
    char shown[80];
    char old[80];
    snprintf(old, sizeof old, "cluster.%s", scalar(r));
    const char *now = wefti_renamed(old);
    const char *guess = now ? now : wefti_nearest(scalar(r), names, (size_t)n);
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s:%d: unknown %s '%s'%s%s%s", r->path,
                         line_of(r), what, wefti_shown(scalar(r), shown, sizeof shown),
                         guess ? " (did you mean '" : "", guess ? guess : "",
                         guess ? "'?)" : "");
}

/* The event at hand is the value. */
static weft_status take_value(reader *r, const wefti_fact *fact, void *item) {
    char shown[80], expected[160], sentence[200];
    snprintf(sentence, sizeof sentence, "%s is a list or mapping, expected a plain value",
             fact->name);
    if (!is_scalar(r)) return refuse(r, sentence);
    if (wefti_fact_parse(fact, scalar(r), item)) return WEFT_OK;
    wefti_fact_expected(fact, expected, sizeof expected);
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s:%d: %s is '%s', expected %s",
                         r->path, line_of(r), fact->name,
                         wefti_shown(scalar(r), shown, sizeof shown), expected);
}

static int fact_index(const wefti_fact_section *section, const char *name) {
    for (int i = 0; i < section->n_facts; i++)
        if (strcmp(section->facts[i].name, name) == 0) return i;
    return -1;
}

/* One field of a mapping; the event at hand is its name. */
static weft_status read_field(reader *r, const wefti_fact_section *section, bool *given,
                              void *item) {
    const char *names[WEFTI_MOST_FACTS];
    char what[80];
    if (!is_scalar(r)) return refuse(r, "found a list or mapping, expected a key");
    int i = fact_index(section, scalar(r));
    for (int k = 0; k < section->n_facts; k++) names[k] = section->facts[k].name;
    snprintf(what, sizeof what, "key of %s", section->name);
    if (i < 0) return fail_unknown(r, what, names, section->n_facts);
    snprintf(what, sizeof what, "%s is given twice", section->facts[i].name);
    if (given[i]) return refuse(r, what);
    given[i] = true;
    WEFT_TRY(next(r));
    return take_value(r, &section->facts[i], item);
}

/* The event at hand is the start of the mapping. */
static weft_status read_mapping(reader *r, const wefti_fact_section *section,
                                void *item) {
    bool given[WEFTI_MOST_FACTS] = {false};
    char sentence[120];
    int line = line_of(r);
    snprintf(sentence, sizeof sentence, "%s: expected key: value, in { } or line by line",
             section->name);
    if (r->event.type != YAML_MAPPING_START_EVENT) return refuse(r, sentence);
    for (;;) {
        WEFT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        WEFT_TRY(read_field(r, section, given, item));
    }
    for (int i = 0; i < section->n_facts; i++) {
        if (!section->facts[i].needed || given[i]) continue;
        snprintf(sentence, sizeof sentence, "%s: an entry without %s", section->name,
                 section->facts[i].name);
        return refuse_at(r, line, sentence);
    }
    return WEFT_OK;
}

/* Room for one more item; *out is it. The room doubles, so that it is seldom moved. */
static weft_status add_item(reader *r, weft_cluster_list list, int64_t *room,
                            void **out) {
    wefti_fact_items at = wefti_facts_of(r->cluster, list);
    int64_t n = *at.n;
    if (n == MAX_ITEMS) return refuse(r, "a list has more than 1048576 items");
    if (n == *room) {
        *room = 2 * n + 16;
        WEFT_TRY(wefti_grow(r->ctx, at.items, n, *room, at.size, "the cluster"));
    }
    *at.n = n + 1;
    *out = (char *)*at.items + (size_t)n * at.size;
    return WEFT_OK;
}

/* The event at hand is the start of the list. */
static weft_status read_list(reader *r, const wefti_fact_section *section) {
    int64_t room = 0;
    char sentence[120];
    snprintf(sentence, sizeof sentence, "%s is not a list, expected entries behind '-'",
             section->name);
    if (r->event.type != YAML_SEQUENCE_START_EVENT) return refuse(r, sentence);
    for (;;) {
        void *item = NULL;
        WEFT_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return WEFT_OK;
        WEFT_TRY(add_item(r, section->list, &room, &item));
        WEFT_TRY(section->shape == WEFTI_SHAPE_LIST
                     ? read_mapping(r, section, item)
                     : take_value(r, &section->facts[0], item));
    }
}

static const wefti_fact_section *section_named(const char *name) {
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

/* The event at hand is the section's name. */
static weft_status read_section(reader *r) {
    const char *names[WEFTI_FACT_SECTIONS];
    char sentence[120];
    int n = 0;
    for (; wefti_fact_sections[n].name; n++) names[n] = wefti_fact_sections[n].name;
    if (!is_scalar(r)) return refuse(r, "found a list or mapping, expected a key");
    const wefti_fact_section *section = section_named(scalar(r));
    if (!section) return fail_unknown(r, "key", names, n);
    int *first = &r->section_lines[section - wefti_fact_sections];
    snprintf(sentence, sizeof sentence, "'%s' is given twice, first in line %d",
             section->name, *first);
    if (*first) return refuse(r, sentence);
    *first = line_of(r);
    WEFT_TRY(next(r));
    bool single = section->shape == WEFTI_SHAPE_VALUE;
    if (!single && is_blank(r)) return WEFT_OK;
    if (single) return take_value(r, &section->facts[0], r->cluster);
    if (section->shape == WEFTI_SHAPE_MAPPING)
        return read_mapping(r, section, (char *)r->cluster + section->offset);
    return read_list(r, section);
}

static weft_status read_document(reader *r) {
    WEFT_TRY(next(r)); /* start of the stream */
    WEFT_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return refuse(r, "the file is empty, expected the facts about a cluster");
    WEFT_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, "found a single value or list, expected key: value");
    for (;;) {
        WEFT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        WEFT_TRY(read_section(r));
    }
    WEFT_TRY(next(r)); /* end of the document */
    WEFT_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return WEFT_OK;
    return refuse(r, "a second document starts here, expected a single one");
}

static weft_status read_file(weft_ctx *ctx, reader *r) {
    char sentence[200];
    WEFT_TRY(read_document(r));
    const char *section = wefti_cluster_fault(r->cluster, sentence, sizeof sentence);
    if (!section) return WEFT_OK;
    int line = r->section_lines[section_named(section) - wefti_fact_sections];
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s:%d: %s", r->path, line, sentence);
}

static weft_status parse(weft_ctx *ctx, reader *r, int64_t n_bytes) {
    if (!yaml_parser_initialize(&r->parser))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory left to read %s", r->path);
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->data,
                                 (size_t)n_bytes);
    weft_status status = read_file(ctx, r);
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
    return status;
}

weft_status weft_cluster_load(weft_ctx *ctx, const char *path, weft_cluster **out) {
    char shown[256], *data;
    int64_t n_bytes;
    *out = NULL;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_FILE_BYTES, &data, &n_bytes));
    reader r = {.ctx = ctx, .data = data};
    r.path = wefti_shown(path, shown, sizeof shown);
    weft_status status = weft_cluster_create(ctx, &r.cluster);
    if (status == WEFT_OK) status = parse(ctx, &r, n_bytes);
    wefti_free(ctx, data);
    if (status != WEFT_OK) {
        weft_cluster_destroy(ctx, r.cluster);
        return status;
    }
    *out = r.cluster;
    return WEFT_OK;
}
