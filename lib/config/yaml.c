/* SPDX-License-Identifier: MIT */
/* Reads a configuration file: a mapping of keys, or of sections that are mappings of keys; a
 * value is a scalar or a list of scalars.
 *
 *     method: hsdp              a key
 *     data.length: 128          a key written in full
 *     mesh:                     a section
 *       nodes: 2                    and its keys
 *     data: {path: [a.txt, b.txt]}  the same in one line
 *
 * Nothing is nested deeper, so nothing here recurses. Every key is passed to
 * wefti_config_assign with its line. A key or section that is given twice is refused, with
 * the line of the first: of two values that contradict each other none is silently used. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/layers.h"
#include "config/value.h"
#include "config/yamlevents.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_ITEMS = 4096, MAX_SECTIONS = 16, NAME_BYTES = 128 };

typedef struct reader {
    weft_ctx *ctx;
    wefti_config *config;
    wefti_yaml yaml;               /* its path is owned by the configuration */
    int key_lines[WEFTI_MAX_KEYS]; /* where a key was first given; 0: not yet */
    int section_lines[MAX_SECTIONS];
    char *packed; /* owned, the items of the list being read */
    int64_t packed_bytes, packed_room;
} reader;

#include "config/yamlreader.h"

static const char *prefix_of(const reader *r, int line, char *out, size_t out_size) {
    wefti_origin origin = {WEFT_ORIGIN_FILE, line, r->yaml.path};
    return wefti_origin_prefix(&origin, out, out_size);
}

/* Records that something was given in this line; refuses it the second time. */
static weft_status first_time(reader *r, const char *name, int line, int *first_line) {
    if (*first_line)
        return wefti_yaml_fail(&r->yaml, line, "'%s' is given twice, first in line %d",
                               name, *first_line);
    *first_line = line;
    return WEFT_OK;
}

/* Appends the current scalar and its NUL to the packed list. */
static weft_status pack_scalar(reader *r) {
    int64_t n = (int64_t)r->yaml.event.data.scalar.length + 1;
    WEFT_TRY(wefti_reserve(r->ctx, &r->packed, &r->packed_room, r->packed_bytes, n, 1,
                           "a list"));
    memcpy(r->packed + r->packed_bytes, scalar(r), (size_t)n);
    r->packed_bytes += n;
    return WEFT_OK;
}

/* Reads the items of a list, packed one after another as wefti_typed requires. */
static weft_status read_list(reader *r, const weft_config_key *key,
                             const wefti_origin *origin) {
    wefti_typed typed = {"", 0, true};
    r->packed_bytes = 0;
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_SEQUENCE_END_EVENT) break;
        if (type_of(r) != YAML_SCALAR_EVENT)
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
    char expected[300];
    return wefti_yaml_fail(&r->yaml, line_of(r), "%s is a mapping, expected %s",
                           key->name,
                           weft_config_key_values(key, expected, sizeof expected));
}

/* Reads the value of a key; `line` is the line of the key. */
static weft_status read_value(reader *r, const char *name, int line) {
    char prefix[300];
    const weft_config_key *key = wefti_config_key_find(name);
    if (!key)
        return wefti_config_fail_unknown(r->ctx,
                                         prefix_of(r, line, prefix, sizeof prefix), "key",
                                         name, wefti_config_key_guess(name));
    WEFT_TRY(first_time(r, name, line, &r->key_lines[wefti_config_key_index(key)]));
    WEFT_TRY(next(r));
    wefti_origin origin = {WEFT_ORIGIN_FILE, line, r->yaml.path};
    if (type_of(r) == YAML_MAPPING_START_EVENT) return fail_mapping(r, key);
    if (type_of(r) == YAML_SEQUENCE_START_EVENT) return read_list(r, key, &origin);
    wefti_typed typed = {scalar(r),
                         wefti_yaml_is_blank(&r->yaml) && wefti_key_is_list(key) ? 0 : 1,
                         false};
    return wefti_config_assign(r->ctx, r->config, key, &origin, &typed);
}

/* Reads the name of the current key, and puts "section." before it if there is a section. */
static weft_status take_name(reader *r, const char *section, char *name) {
    char prefix[300], shown[80];
    if (type_of(r) != YAML_SCALAR_EVENT)
        return refuse(r, "found a list or mapping, expected the name of a key");
    int n = snprintf(name, NAME_BYTES, "%s%s%s", section, section[0] ? "." : "",
                     scalar(r));
    if (n < NAME_BYTES) return WEFT_OK;
    return wefti_config_fail_unknown(
        r->ctx, prefix_of(r, line_of(r), prefix, sizeof prefix), "key",
        wefti_shown(scalar(r), shown, sizeof shown), NULL);
}

/* Reads the keys of a section; the current event is its name. An empty section has no keys. */
static weft_status read_section(reader *r, const char *section) {
    char name[NAME_BYTES];
    WEFT_TRY(next(r));
    if (wefti_yaml_is_blank(&r->yaml)) return WEFT_OK;
    if (type_of(r) != YAML_MAPPING_START_EVENT)
        return wefti_yaml_fail(
            &r->yaml, line_of(r),
            "%s is a single value or list, expected its keys, one in each line", section);
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) return WEFT_OK;
        int line = line_of(r);
        WEFT_TRY(take_name(r, section, name));
        WEFT_TRY(read_value(r, name, line));
    }
}

/* Fails for a name that is neither a key nor a section. If a mapping follows, a section
 * was meant. */
static weft_status fail_not_section(reader *r, const char *name, int line) {
    char prefix[300];
    prefix_of(r, line, prefix, sizeof prefix);
    WEFT_TRY(next(r));
    if (type_of(r) == YAML_MAPPING_START_EVENT)
        return wefti_config_fail_unknown(r->ctx, prefix, "section", name,
                                         wefti_config_section_guess(name));
    return wefti_config_fail_unknown(r->ctx, prefix, "key", name,
                                     wefti_config_key_guess(name));
}

/* Reads one entry of the outermost mapping: a section, or a key written in full. */
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

/* Reads one document: its outermost mapping, or nothing at all. */
static weft_status read_document(reader *r) {
    WEFT_TRY(next(r));
    if (wefti_yaml_is_blank(&r->yaml)) return next(r);
    if (type_of(r) != YAML_MAPPING_START_EVENT)
        return refuse(r, "found a single value or list, expected sections and keys");
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) return next(r);
        WEFT_TRY(read_entry(r));
    }
}

static weft_status read_stream(reader *r) {
    WEFT_TRY(next(r)); /* stream start */
    WEFT_TRY(next(r));
    if (type_of(r) == YAML_STREAM_END_EVENT) return WEFT_OK;
    WEFT_TRY(read_document(r)); /* now at the document's end */
    WEFT_TRY(next(r));
    if (type_of(r) == YAML_STREAM_END_EVENT) return WEFT_OK;
    return refuse(r, "a second document starts here, expected a single one");
}

static weft_status read_text(weft_ctx *ctx, wefti_config *config, const char *path,
                             const char *data, int64_t n_bytes) {
    reader r = {.ctx = ctx, .config = config};
    r.yaml = (wefti_yaml){.ctx = ctx, .path = path, .blame = WEFT_ERR_CONFIG};
    WEFT_TRY(wefti_yaml_begin(&r.yaml, data, n_bytes));
    weft_status status = read_stream(&r);
    wefti_yaml_end(&r.yaml);
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
    const char *kept = config->paths[config->n_paths - 1];
    weft_status status = read_text(ctx, config, kept, data, n_bytes);
    if (status == WEFT_OK) status = wefti_config_see_from(ctx, config, kept, data);
    wefti_free(ctx, data);
    return status;
}
