/* SPDX-License-Identifier: MIT */
/* Writes cluster.yaml in a readable form: comments explain the numbers, and every number
 * has its unit and enough digits to read back to the same bits. */
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "cluster/facts.h"

enum { NUMBERS_IN_A_LINE = 8 };

typedef struct writer {
    weft_ctx *ctx;
    wefti_buffer text;
} writer;

static void put(writer *w, const char *text) {
    wefti_buffer_text(w->ctx, &w->text, text);
}

/* Writes a text in single quotes, in which YAML interprets nothing but the quote itself. */
static void put_quoted(writer *w, const char *text) {
    char piece[2] = "";
    put(w, "'");
    for (; *text; text++) {
        piece[0] = *text;
        put(w, *text == '\'' ? "''" : piece);
    }
    put(w, "'");
}

static void put_value(writer *w, const wefti_fact *fact, const void *item) {
    char text[64];
    if (fact->type == WEFTI_FACT_TEXT) {
        put_quoted(w, (const char *)item + fact->offset);
        return;
    }
    wefti_fact_text(fact, item, text, sizeof text);
    put(w, text);
}

/* Whether a fact is left out: one that must be above 0 if given (facts.c) and is 0. */
static bool is_left_out(const wefti_fact *fact, const void *item) {
    double value;
    if (fact->type != WEFTI_FACT_QUANTITY || fact->needed || fact->low <= 0) return false;
    memcpy(&value, (const char *)item + fact->offset, sizeof value);
    return value == 0;
}

static void put_mapping(writer *w, const wefti_fact_section *section, const void *item) {
    for (int i = 0; i < section->n_facts; i++) {
        if (is_left_out(&section->facts[i], item)) continue;
        put(w, i ? ", " : "{");
        put(w, section->facts[i].name);
        put(w, ": ");
        put_value(w, &section->facts[i], item);
    }
    put(w, "}\n");
}

static void put_list(writer *w, const wefti_fact_section *section,
                     const wefti_fact_items *items) {
    const char *item = *items->items;
    bool plain = section->shape == WEFTI_SHAPE_NUMBERS;
    if (*items->n == 0) {
        put(w, "[]\n");
        return;
    }
    put(w, plain ? "[" : "\n");
    for (int64_t i = 0; i < *items->n; i++, item += items->size) {
        if (!plain) {
            put(w, "  - ");
            put_mapping(w, section, item);
            continue;
        }
        if (i > 0) put(w, i % NUMBERS_IN_A_LINE ? ", " : ",\n  ");
        put_value(w, &section->facts[0], item);
    }
    if (plain) put(w, "]\n");
}

static void put_section(writer *w, const wefti_fact_section *section, weft_cluster *c) {
    if (section->doc) {
        put(w, w->text.n ? "\n# " : "# ");
        put(w, section->doc);
        put(w, "\n");
    }
    put(w, section->name);
    bool lines = section->shape == WEFTI_SHAPE_LIST &&
                 *wefti_facts_of(c, section->list).n;
    put(w, lines ? ":" : ": ");
    if (section->shape == WEFTI_SHAPE_MAPPING) {
        put_mapping(w, section, (const char *)c + section->offset);
    } else if (section->shape == WEFTI_SHAPE_VALUE) {
        put_value(w, &section->facts[0], c);
        put(w, "\n");
    } else {
        wefti_fact_items items = wefti_facts_of(c, section->list);
        put_list(w, section, &items);
    }
}

/* Checks that a value in memory is valid in the file: it is converted to text and parsed
 * again before it is written. */
static weft_status check_value(weft_ctx *ctx, const wefti_fact_section *section,
                               const wefti_fact *fact, const void *item) {
    char text[64], expected[160], copy[512] = {0};
    const char *at = (const char *)item + fact->offset;
    wefti_fact moved = *fact;
    moved.offset = 0;
    bool is_text = fact->type == WEFTI_FACT_TEXT;
    if (is_left_out(fact, item)) return WEFT_OK;
    if (is_text && !memchr(at, 0, fact->room))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%s: %s has no end", section->name,
                             fact->name);
    if (!is_text) wefti_fact_text(fact, item, text, sizeof text);
    const char *value = is_text ? at : text;
    if (wefti_fact_parse(&moved, value, copy)) return WEFT_OK;
    wefti_fact_expected(fact, expected, sizeof expected);
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%s: %s is '%.60s', expected %s",
                         section->name, fact->name, is_text ? "such a text" : value,
                         expected);
}

static weft_status check_section(weft_ctx *ctx, const wefti_fact_section *section,
                                 weft_cluster *c) {
    bool list = section->list != WEFT_CLUSTER_LISTS;
    const char *item = (const char *)c + section->offset;
    int64_t n = 1;
    size_t size = 0;
    if (list) {
        wefti_fact_items items = wefti_facts_of(c, section->list);
        item = *items.items;
        n = *items.n;
        size = items.size;
    }
    for (int64_t i = 0; i < n; i++, item += size)
        for (int k = 0; k < section->n_facts; k++)
            WEFT_TRY(check_value(ctx, section, &section->facts[k], item));
    return WEFT_OK;
}

weft_status weft_cluster_write(weft_ctx *ctx, const weft_cluster *cluster,
                               const char *path) {
    writer w = {.ctx = ctx};
    weft_cluster copy = *cluster;
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++)
        WEFT_TRY(check_section(ctx, s, &copy));
    char sentence[200];
    if (wefti_cluster_fault(cluster, sentence, sizeof sentence))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%s", sentence);
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++)
        put_section(&w, s, &copy);
    weft_status status = w.text.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, w.text.bytes, w.text.n);
    wefti_buffer_fini(ctx, &w.text);
    return status;
}
