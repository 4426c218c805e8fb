/* SPDX-License-Identifier: MIT */
/* Reads cluster.yaml by the table in facts.c, over the events of config/yamlevents.h:
 *
 *     file --events--> section by its name --> fact by its name --> its place in weft_cluster
 *
 * Nothing is nested deeper than a list of mappings, so nothing here recurses. Lists grow
 * by doubling up to a bound, because the file is not trusted to be small. At the end the
 * consistency of the facts is checked (wefti_cluster_fault); an error names the line of
 * their section. */
#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/value.h"
#include "config/yamlevents.h"
#include "cluster/facts.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_ITEMS = 1 << 20 };

typedef struct reader {
    weft_ctx *ctx;
    wefti_yaml yaml;
    weft_cluster *cluster;
    int section_lines[WEFTI_FACT_SECTIONS]; /* 0: not yet */
} reader;

#include "config/yamlreader.h"

static weft_status fail_unknown(reader *r, const char *what, const char *const *names,
                                int n) {
    char shown[80];
    const char *guess = wefti_nearest(scalar(r), names, (size_t)n);
    return wefti_yaml_fail(&r->yaml, line_of(r), "unknown %s '%s'%s%s%s", what,
                           wefti_shown(scalar(r), shown, sizeof shown),
                           guess ? " (did you mean '" : "", guess ? guess : "",
                           guess ? "'?)" : "");
}

/* Reads a value, which is the current event. */
static weft_status take_value(reader *r, const wefti_fact *fact, void *item) {
    char shown[80], expected[160];
    if (!is_scalar(r))
        return wefti_yaml_fail(&r->yaml, line_of(r),
                               "%s is a list or mapping, expected a plain value",
                               fact->name);
    if (wefti_fact_parse(fact, scalar(r), item)) return WEFT_OK;
    wefti_fact_expected(fact, expected, sizeof expected);
    return wefti_yaml_fail(&r->yaml, line_of(r), "%s is '%s', expected %s", fact->name,
                           wefti_shown(scalar(r), shown, sizeof shown), expected);
}

static int fact_index(const wefti_fact_section *section, const char *name) {
    for (int i = 0; i < section->n_facts; i++)
        if (wefti_is(section->facts[i].name, name)) return i;
    return -1;
}

/* Reads one field of a mapping; the current event is its name. */
static weft_status read_field(reader *r, const wefti_fact_section *section, bool *given,
                              void *item) {
    const char *names[WEFTI_MOST_FACTS];
    char what[80];
    if (!is_scalar(r)) return refuse(r, "found a list or mapping, expected a key");
    int i = fact_index(section, scalar(r));
    for (int k = 0; k < section->n_facts; k++) names[k] = section->facts[k].name;
    snprintf(what, sizeof what, "key of %s", section->name);
    if (i < 0) return fail_unknown(r, what, names, section->n_facts);
    if (given[i])
        return wefti_yaml_fail(&r->yaml, line_of(r), "%s is given twice",
                               section->facts[i].name);
    given[i] = true;
    WEFT_TRY(next(r));
    return take_value(r, &section->facts[i], item);
}

/* Reads a mapping; the current event is its start. */
static weft_status read_mapping(reader *r, const wefti_fact_section *section,
                                void *item) {
    bool given[WEFTI_MOST_FACTS] = {false};
    int line = line_of(r);
    if (type_of(r) != YAML_MAPPING_START_EVENT)
        return wefti_yaml_fail(&r->yaml, line,
                               "%s: expected key: value, in { } or line by line",
                               section->name);
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) break;
        WEFT_TRY(read_field(r, section, given, item));
    }
    for (int i = 0; i < section->n_facts; i++) {
        if (!section->facts[i].needed || given[i]) continue;
        return wefti_yaml_fail(&r->yaml, line, "%s: an entry without %s", section->name,
                               section->facts[i].name);
    }
    return WEFT_OK;
}

/* Adds an item to a list; *out points to it. The capacity doubles, so that items are
 * seldom moved. */
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

/* Reads a list; the current event is its start. */
static weft_status read_list(reader *r, const wefti_fact_section *section) {
    int64_t room = 0;
    if (type_of(r) != YAML_SEQUENCE_START_EVENT)
        return wefti_yaml_fail(&r->yaml, line_of(r),
                               "%s is not a list, expected entries behind '-'",
                               section->name);
    for (;;) {
        void *item = NULL;
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_SEQUENCE_END_EVENT) return WEFT_OK;
        WEFT_TRY(add_item(r, section->list, &room, &item));
        WEFT_TRY(section->shape == WEFTI_SHAPE_LIST
                     ? read_mapping(r, section, item)
                     : take_value(r, &section->facts[0], item));
    }
}

static const wefti_fact_section *section_named(const char *name) {
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++)
        if (wefti_is(s->name, name)) return s;
    return NULL;
}

/* Reads a section; the current event is its name. */
static weft_status read_section(reader *r) {
    const char *names[WEFTI_FACT_SECTIONS];
    int n = 0;
    for (; wefti_fact_sections[n].name; n++) names[n] = wefti_fact_sections[n].name;
    if (!is_scalar(r)) return refuse(r, "found a list or mapping, expected a key");
    const wefti_fact_section *section = section_named(scalar(r));
    if (!section) return fail_unknown(r, "key", names, n);
    int *first = &r->section_lines[section - wefti_fact_sections];
    if (*first)
        return wefti_yaml_fail(&r->yaml, line_of(r),
                               "'%s' is given twice, first in line %d", section->name,
                               *first);
    *first = line_of(r);
    WEFT_TRY(next(r));
    bool single = section->shape == WEFTI_SHAPE_VALUE;
    if (!single && wefti_yaml_is_blank(&r->yaml)) return WEFT_OK;
    if (single) return take_value(r, &section->facts[0], r->cluster);
    if (section->shape == WEFTI_SHAPE_MAPPING)
        return read_mapping(r, section, (char *)r->cluster + section->offset);
    return read_list(r, section);
}

static weft_status read_document(reader *r) {
    WEFT_TRY(next(r)); /* start of the stream */
    WEFT_TRY(next(r));
    if (type_of(r) == YAML_STREAM_END_EVENT)
        return refuse(r, "the file is empty, expected the facts about a cluster");
    WEFT_TRY(next(r));
    if (type_of(r) != YAML_MAPPING_START_EVENT)
        return refuse(r, "found a single value or list, expected key: value");
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) break;
        WEFT_TRY(read_section(r));
    }
    WEFT_TRY(next(r)); /* end of the document */
    WEFT_TRY(next(r));
    if (type_of(r) == YAML_STREAM_END_EVENT) return WEFT_OK;
    return refuse(r, "a second document starts here, expected a single one");
}

static weft_status read_file(reader *r) {
    char sentence[200];
    WEFT_TRY(read_document(r));
    const char *section = wefti_cluster_fault(r->cluster, sentence, sizeof sentence);
    if (!section) return WEFT_OK;
    int line = r->section_lines[section_named(section) - wefti_fact_sections];
    return wefti_yaml_fail(&r->yaml, line, "%s", sentence);
}

static weft_status parse(reader *r, const char *data, int64_t n_bytes) {
    WEFT_TRY(wefti_yaml_begin(&r->yaml, data, n_bytes));
    weft_status status = read_file(r);
    wefti_yaml_end(&r->yaml);
    return status;
}

weft_status weft_cluster_load(weft_ctx *ctx, const char *path, weft_cluster **out) {
    char *data;
    int64_t n_bytes;
    *out = NULL;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_FILE_BYTES, &data, &n_bytes));
    reader r = {.ctx = ctx};
    r.yaml = (wefti_yaml){.ctx = ctx, .path = path, .blame = WEFT_ERR_FORMAT};
    weft_status status = weft_cluster_create(ctx, &r.cluster);
    if (status == WEFT_OK) status = parse(&r, data, n_bytes);
    wefti_free(ctx, data);
    if (status != WEFT_OK) {
        weft_cluster_destroy(ctx, r.cluster);
        return status;
    }
    *out = r.cluster;
    return WEFT_OK;
}
