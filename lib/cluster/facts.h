/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>

#include "base/text.h"

/* A single table of the contents of cluster.yaml, for reading, writing and checking. The
 * file is a list of sections; a section is a value, a mapping of fields, a list of
 * mappings, or a list of numbers. */

typedef enum wefti_fact_type {
    WEFTI_FACT_TEXT,    /* char[room] */
    WEFTI_FACT_INT,     /* int64_t */
    WEFTI_FACT_QUANTITY /* double with a unit */
} wefti_fact_type;

typedef struct wefti_fact {
    const char *name;
    wefti_fact_type type;
    weft_quantity unit;  /* of a quantity */
    size_t offset, room; /* in the item; of a text */
    double low, high;    /* of a number */
    bool needed;         /* an item without it is refused */
} wefti_fact;

typedef enum wefti_fact_shape {
    WEFTI_SHAPE_VALUE,
    WEFTI_SHAPE_MAPPING,
    WEFTI_SHAPE_LIST,   /* of mappings */
    WEFTI_SHAPE_NUMBERS /* list of the one field, plain */
} wefti_fact_shape;

typedef struct wefti_fact_section {
    const char *name;
    wefti_fact_shape shape;
    const char *doc; /* comment above it in the file */
    const wefti_fact *facts;
    int n_facts;
    size_t offset;          /* of a mapping in the cluster */
    weft_cluster_list list; /* of a list */
} wefti_fact_section;

enum { WEFTI_FACT_SECTIONS = 31, WEFTI_MOST_FACTS = 10 };
extern const wefti_fact_section wefti_fact_sections[WEFTI_FACT_SECTIONS];

/* The place of a list, its number of items, and the size of one item. */
typedef struct wefti_fact_items {
    void **items;
    int64_t *n;
    size_t size;
} wefti_fact_items;
wefti_fact_items wefti_facts_of(weft_cluster *cluster, weft_cluster_list list);

/* Parses one value. Returns false if it is invalid: wrong type or unit, out of bounds, too long.
 */
bool wefti_fact_parse(const wefti_fact *fact, const char *text, void *item);

/* Writes a value so that it reads back to the same bits; out: 64 bytes. Not for texts. */
void wefti_fact_text(const wefti_fact *fact, const void *item, char *out,
                     size_t out_size);

/* "a time such as 20us, from 0 to 3600 s". */
void wefti_fact_expected(const wefti_fact *fact, char *out, size_t out_size);

/* The section whose numbers contradict others (nodes and sites, links), or NULL.
 * `sentence` becomes the reason. */
const char *wefti_cluster_fault(const weft_cluster *c, char *sentence, size_t size);

/* A cluster in memory. Values of a whole node are kept as typed, so that the number of
 * ranks per node can be set before or after them. */
typedef struct wefti_cluster {
    weft_cluster facts; /* first member */
    double node_flops, node_flops_bf16, node_memory;
} wefti_cluster;

/* All ranks compute so many times as slowly. */
void wefti_cluster_slow(weft_cluster *cluster, double ratio);

/* Fails if sites do not have as many nodes each. */
weft_status wefti_cluster_check_sites(weft_ctx *ctx,
                                      const weft_cluster *cluster) WEFT_CHECKED;

/* Fails if a wire that a plan for `nodes` nodes needs is not known: in weft_advise and
 * weft_predict_loop. */
weft_status wefti_cluster_check_wires(weft_ctx *ctx, const weft_cluster *cluster,
                                      int64_t nodes) WEFT_CHECKED;
