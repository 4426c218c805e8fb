/* SPDX-License-Identifier: MIT */
/* Reads the list `links:` of a YAML file:
 *
 *     links:
 *       - {from: 0, to: 1, latency: 10ms, bandwidth: 100Mbit}
 *
 * A link has one direction, so two nodes may have two links. All four fields are
 * required: with a missing latency read as 0 the worst link would be the best. Other
 * sections of the file are skipped, whatever they contain. So the list may be in
 * cluster.yaml or in a separate file, and in any document of it. */
#include <weft/topology.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/text.h"
#include "config/value.h"
#include "config/yamlevents.h"

enum { MAX_FILE_BYTES = 16 << 20, N_FIELDS = 4 };

static const char *const fields[N_FIELDS] = {"from", "to", "latency", "bandwidth"};

typedef struct reader {
    weft_ctx *ctx;
    wefti_yaml yaml;
    weft_links *links;
    int64_t room;
} reader;

#include "config/yamlreader.h"

/* ---- one link ---- */

static weft_status fail_value(reader *r, const char *field, const char *expected) {
    char shown[80];
    return wefti_yaml_fail(&r->yaml, line_of(r), "%s is '%s', expected %s", field,
                           wefti_shown(scalar(r), shown, sizeof shown), expected);
}

static weft_status take_node(reader *r, const char *field, int64_t *out) {
    bool valid = weft_quantity_parse_int(scalar(r), WEFT_UNIT_COUNT, out) && *out >= 0 &&
                 *out < WEFT_TOPOLOGY_MEMBERS;
    return valid ? WEFT_OK : fail_value(r, field, "the number of a node: 0, 1, ...");
}

/* The current value is that of fields[index]. */
static weft_status take_value(reader *r, int index, weft_link *link) {
    if (index == 0) return take_node(r, fields[0], &link->from);
    if (index == 1) return take_node(r, fields[1], &link->to);
    double x;
    if (index == 2) {
        if (!weft_quantity_parse(scalar(r), WEFT_UNIT_TIME, &x) || x < 0)
            return fail_value(r, fields[2], "a time such as 10ms");
        link->latency_s = x;
        return WEFT_OK;
    }
    if (!weft_quantity_parse(scalar(r), WEFT_UNIT_LINK, &x) || !(x > 0))
        return fail_value(r, fields[3], "a rate such as 100Mbit");
    link->bandwidth_Bps = x;
    return WEFT_OK;
}

static int field_index(const char *name) {
    for (int i = 0; i < N_FIELDS; i++)
        if (wefti_is(fields[i], name)) return i;
    return -1;
}

static weft_status fail_field(reader *r) {
    char shown[80];
    const char *guess = wefti_nearest(scalar(r), fields, N_FIELDS);
    return wefti_yaml_fail(
        &r->yaml, line_of(r),
        "a link has no '%s'%s%s%s, expected from, to, latency and bandwidth",
        wefti_shown(scalar(r), shown, sizeof shown), guess ? " (did you mean '" : "",
        guess ? guess : "", guess ? "'?)" : "");
}

/* Reads one field of a link; the current event is its name. */
static weft_status read_field(reader *r, bool *given, weft_link *link) {
    int index = is_scalar(r) ? field_index(scalar(r)) : -1;
    if (!is_scalar(r))
        return refuse(r, "found a list or mapping, expected a field's name");
    if (index < 0) return fail_field(r);
    if (given[index])
        return wefti_yaml_fail(&r->yaml, line_of(r), "%s is given twice in one link",
                               fields[index]);
    given[index] = true;
    WEFT_TRY(next(r));
    if (!is_scalar(r))
        return wefti_yaml_fail(&r->yaml, line_of(r), "%s is not a plain value",
                               fields[index]);
    return take_value(r, index, link);
}

static weft_status add_link(reader *r, int line, const weft_link *link) {
    weft_links *all = r->links;
    if (link->from == link->to)
        return wefti_yaml_fail(&r->yaml, line, "a link goes from node %lld to itself",
                               (long long)link->from);
    WEFT_TRY(
        wefti_reserve(r->ctx, &all->items, &r->room, all->n, 1, sizeof *link, "links"));
    all->items[all->n++] = *link;
    return WEFT_OK;
}

static weft_status read_link(reader *r) {
    bool given[N_FIELDS] = {false};
    weft_link link = {0};
    int line = line_of(r);
    if (type_of(r) != YAML_MAPPING_START_EVENT)
        return refuse(r, "a link is a single value or list, expected {from: 0, to: 1, "
                         "latency: 10ms, bandwidth: 100Mbit}");
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) break;
        WEFT_TRY(read_field(r, given, &link));
    }
    for (int i = 0; i < N_FIELDS; i++)
        if (!given[i])
            return wefti_yaml_fail(
                &r->yaml, line,
                "a link without %s, expected from, to, latency and bandwidth", fields[i]);
    return add_link(r, line, &link);
}

/* ---- the file ---- */

static weft_status read_list(reader *r) {
    WEFT_TRY(next(r));
    if (type_of(r) != YAML_SEQUENCE_START_EVENT)
        return refuse(r, "links is not a list, expected one link in each line after '-'");
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_SEQUENCE_END_EVENT) return WEFT_OK;
        WEFT_TRY(read_link(r));
    }
}

/* Reads the outermost mapping; the current event is its start. */
static weft_status read_sections(reader *r) {
    bool found = false;
    for (;;) {
        WEFT_TRY(next(r));
        if (type_of(r) == YAML_MAPPING_END_EVENT) return WEFT_OK;
        if (!is_scalar(r))
            return refuse(r, "found a list or mapping, expected a section's name");
        bool is_links = wefti_is(scalar(r), "links");
        if (is_links && found) return refuse(r, "'links' is given twice");
        found = found || is_links;
        WEFT_TRY(is_links ? read_list(r) : wefti_yaml_skip(&r->yaml));
    }
}

static weft_status read_stream(reader *r) {
    WEFT_TRY(next(r)); /* start of the stream */
    WEFT_TRY(next(r));
    while (type_of(r) == YAML_DOCUMENT_START_EVENT) {
        WEFT_TRY(next(r));
        if (type_of(r) != YAML_MAPPING_START_EVENT)
            return refuse(r, "found a single value or list, expected sections");
        WEFT_TRY(read_sections(r));
        WEFT_TRY(next(r)); /* end of the document */
        WEFT_TRY(next(r));
    }
    if (r->links->n > 0) return WEFT_OK;
    char shown[256];
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                         "%s has no links, expected a list 'links:'",
                         wefti_shown(r->yaml.path, shown, sizeof shown));
}

static weft_status load(weft_ctx *ctx, const char *path, weft_links *out) {
    char *data;
    reader r = {.ctx = ctx, .links = out};
    int64_t n_bytes;
    *out = (weft_links){.struct_size = sizeof(weft_links)};
    WEFT_TRY(wefti_file_read(ctx, path, MAX_FILE_BYTES, &data, &n_bytes));
    r.yaml = (wefti_yaml){
        .ctx = ctx, .path = path, .blame = WEFT_ERR_FORMAT, .lenient = true};
    weft_status status = wefti_yaml_begin(&r.yaml, data, n_bytes);
    if (status == WEFT_OK) {
        status = read_stream(&r);
        wefti_yaml_end(&r.yaml);
    }
    wefti_free(ctx, data);
    if (status == WEFT_OK) return WEFT_OK;
    wefti_free(ctx, out->items);
    *out = (weft_links){.struct_size = sizeof(weft_links)};
    return status;
}

weft_status weft_links_load(weft_ctx *ctx, const char *path, weft_links *out) {
    WEFTI_SIZED_OUT(ctx, weft_links, out);
    return WEFTI_SIZED_GIVE(weft_links, out, load(ctx, path, out));
}
