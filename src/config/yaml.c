/* SPDX-License-Identifier: MIT */
/* Reads a configuration file with libyaml's events: a mapping of keys, or of sections
 * that are mappings of keys; a value is a scalar or a list of scalars. Nothing nests
 * deeper, so nothing here recurses. Every key ends in wefti_config_assign with its line.
 */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/layers.h"
#include "config/value.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_ITEMS = 4096, MAX_SECTIONS = 16, NAME_BYTES = 128 };

typedef struct reader {
    weft_ctx *ctx;
    wefti_config *config;
    const char *path; /* owned by the configuration */
    const char *data;
    yaml_parser_t parser;
    yaml_event_t event;            /* zeroed when there is none */
    int key_lines[WEFTI_MAX_KEYS]; /* where a key was first given; 0: not yet */
    int section_lines[MAX_SECTIONS];
    char *packed; /* owned, the items of the list being read */
    int64_t packed_bytes, packed_room;
} reader;

static int line_of(const reader *r) { return (int)r->event.start_mark.line + 1; }

static const char *prefix_of(const reader *r, int line, char *out, size_t out_size) {
    wefti_origin origin = {WEFTI_LAYER_FILE, line, r->path};
    return wefti_origin_prefix(&origin, out, out_size);
}

static weft_status refuse(reader *r, const char *sentence) {
    char prefix[300];
    return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG, "%s%s",
                         prefix_of(r, line_of(r), prefix, sizeof prefix), sentence);
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

static weft_status fail_syntax(reader *r) {
    char prefix[300];
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return weft_ctx_fail(r->ctx, WEFT_ERR_MEMORY, "no memory left to read %s",
                             r->path);
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%snot valid YAML: %s%s%s",
                         prefix_of(r, line_of_problem(r), prefix, sizeof prefix),
                         p->problem ? p->problem : "unreadable", p->context ? ", " : "",
                         p->context ? p->context : "");
}

static bool has_anchor(const yaml_event_t *e) {
    return (e->type == YAML_SCALAR_EVENT && e->data.scalar.anchor) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor);
}

static bool has_tag(const yaml_event_t *e) {
    return (e->type == YAML_SCALAR_EVENT && e->data.scalar.tag) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.tag) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.tag);
}

/* Moves to the next event; what a configuration file never needs is refused here. */
static weft_status next(reader *r) {
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        memset(&r->event, 0, sizeof r->event);
        return fail_syntax(r);
    }
    const yaml_event_t *e = &r->event;
    if (e->type == YAML_ALIAS_EVENT || has_anchor(e))
        return refuse(
            r, "anchors and aliases (& and *) are not supported, write the value out");
    if (has_tag(e)) return refuse(r, "tags (!) are not supported, write the plain value");
    if (e->type == YAML_SCALAR_EVENT &&
        strlen((const char *)e->data.scalar.value) != e->data.scalar.length)
        return refuse(r, "a value contains a zero byte");
    return WEFT_OK;
}

static const char *scalar(const reader *r) {
    return (const char *)r->event.data.scalar.value;
}

/* "key:" with nothing after it. */
static bool is_blank(const reader *r) {
    return r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length == 0 &&
           r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* Notes that something was given in this line; refuses the second time. */
static weft_status first_time(reader *r, const char *name, int line, int *first_line) {
    char prefix[300];
    if (*first_line)
        return weft_ctx_fail(
            r->ctx, WEFT_ERR_CONFIG, "%s'%s' is given twice, first in line %d",
            prefix_of(r, line, prefix, sizeof prefix), name, *first_line);
    *first_line = line;
    return WEFT_OK;
}

/* Appends the current scalar and its NUL to the packed list. */
static weft_status pack_scalar(reader *r) {
    int64_t n = (int64_t)r->event.data.scalar.length + 1;
    WEFT_TRY(wefti_reserve(r->ctx, &r->packed, &r->packed_room, r->packed_bytes, n, 1,
                           "a list"));
    memcpy(r->packed + r->packed_bytes, scalar(r), (size_t)n);
    r->packed_bytes += n;
    return WEFT_OK;
}

static weft_status read_list(reader *r, const weft_config_key *key,
                             const wefti_origin *origin) {
    wefti_typed typed = {"", 0, true};
    r->packed_bytes = 0;
    for (;;) {
        WEFT_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) break;
        if (r->event.type != YAML_SCALAR_EVENT)
            return refuse(
                r, "a list holds plain values only, found a list or mapping in it");
        if (typed.n == MAX_ITEMS) return refuse(r, "a list has more than 4096 items");
        WEFT_TRY(pack_scalar(r));
        typed.n++;
    }
    if (typed.n) typed.packed = r->packed;
    return wefti_config_assign(r->ctx, r->config, key, origin, &typed);
}

static weft_status fail_mapping(reader *r, const weft_config_key *key) {
    char prefix[300], expected[300];
    return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG, "%s%s is a mapping, expected %s",
                         prefix_of(r, line_of(r), prefix, sizeof prefix), key->name,
                         weft_config_key_values(key, expected, sizeof expected));
}

/* Reads the value of a key; `line` is the key's. */
static weft_status read_value(reader *r, const char *name, int line) {
    char prefix[300];
    const weft_config_key *key = wefti_config_key_find(name);
    if (!key)
        return wefti_config_fail_unknown(r->ctx,
                                         prefix_of(r, line, prefix, sizeof prefix), "key",
                                         name, wefti_config_key_guess(name));
    WEFT_TRY(first_time(r, name, line, &r->key_lines[wefti_config_key_index(key)]));
    WEFT_TRY(next(r));
    wefti_origin origin = {WEFTI_LAYER_FILE, line, r->path};
    if (r->event.type == YAML_MAPPING_START_EVENT) return fail_mapping(r, key);
    if (r->event.type == YAML_SEQUENCE_START_EVENT) return read_list(r, key, &origin);
    wefti_typed typed = {scalar(r), is_blank(r) && wefti_key_is_list(key) ? 0 : 1, false};
    return wefti_config_assign(r->ctx, r->config, key, &origin, &typed);
}

/* Takes the name of the key at hand, behind "section." if there is a section. */
static weft_status take_name(reader *r, const char *section, char *name) {
    char prefix[300], shown[80];
    if (r->event.type != YAML_SCALAR_EVENT)
        return refuse(r, "found a list or mapping, expected the name of a key");
    int n = snprintf(name, NAME_BYTES, "%s%s%s", section, section[0] ? "." : "",
                     scalar(r));
    if (n < NAME_BYTES) return WEFT_OK;
    return wefti_config_fail_unknown(
        r->ctx, prefix_of(r, line_of(r), prefix, sizeof prefix), "key",
        wefti_shown(scalar(r), shown, sizeof shown), NULL);
}

static weft_status read_section(reader *r, const char *section) {
    char name[NAME_BYTES], sentence[200];
    WEFT_TRY(next(r));
    if (is_blank(r)) return WEFT_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        snprintf(sentence, sizeof sentence,
                 "%s is a single value or list, expected its keys, "
                 "one in each line",
                 section);
        return refuse(r, sentence);
    }
    for (;;) {
        WEFT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return WEFT_OK;
        int line = line_of(r);
        WEFT_TRY(take_name(r, section, name));
        WEFT_TRY(read_value(r, name, line));
    }
}

static weft_status fail_not_section(reader *r, const char *name, int line) {
    char prefix[300];
    prefix_of(r, line, prefix, sizeof prefix);
    WEFT_TRY(next(r));
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return wefti_config_fail_unknown(r->ctx, prefix, "section", name,
                                         wefti_config_section_guess(name));
    return wefti_config_fail_unknown(r->ctx, prefix, "key", name,
                                     wefti_config_key_guess(name));
}

/* One entry of the outermost mapping: a section, or a key written in full. */
static weft_status read_entry(reader *r) {
    char name[NAME_BYTES];
    int index, line = line_of(r);
    WEFT_TRY(take_name(r, "", name));
    if (wefti_config_section_find(name, &index)) {
        WEFT_TRY(first_time(r, name, line, &r->section_lines[index]));
        return read_section(r, name);
    }
    if (wefti_config_key_find(name)) return read_value(r, name, line);
    return fail_not_section(r, name, line);
}

static weft_status read_document(reader *r) {
    WEFT_TRY(next(r));
    if (is_blank(r)) return next(r);
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, "found a single value or list, expected sections and keys");
    for (;;) {
        WEFT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return next(r);
        WEFT_TRY(read_entry(r));
    }
}

static weft_status read_stream(reader *r) {
    WEFT_TRY(next(r)); /* stream start */
    WEFT_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return WEFT_OK;
    WEFT_TRY(read_document(r)); /* now at the document's end */
    WEFT_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return WEFT_OK;
    return refuse(r, "a second document starts here, expected a single one");
}

static weft_status read_text(weft_ctx *ctx, wefti_config *config, const char *path,
                             const char *data, int64_t n_bytes) {
    reader r = {.ctx = ctx, .config = config, .path = path, .data = data};
    if (!yaml_parser_initialize(&r.parser))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory left to read %s", path);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)data, (size_t)n_bytes);
    weft_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    wefti_free(ctx, r.packed);
    return status;
}

/* Keeps the name of a file for as long as the configuration: origins point to it. */
static weft_status keep_path(weft_ctx *ctx, wefti_config *config, const char *path) {
    int n = config->n_paths;
    WEFT_TRY(wefti_grow(ctx, &config->paths, n, n + 1, sizeof(char *), "the file names"));
    WEFT_TRY(wefti_strdup(ctx, path, &config->paths[n]));
    config->n_paths++;
    return WEFT_OK;
}

weft_status weft_config_load(weft_ctx *ctx, weft_config *values, const char *path) {
    wefti_config *config = wefti_config_of(values);
    char *data;
    int64_t n_bytes;
    WEFT_TRY(keep_path(ctx, config, path));
    WEFT_TRY(wefti_file_read(ctx, path, MAX_FILE_BYTES, &data, &n_bytes));
    weft_status status = read_text(ctx, config, config->paths[config->n_paths - 1], data,
                                   n_bytes);
    wefti_free(ctx, data);
    return status;
}
