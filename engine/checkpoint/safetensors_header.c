/* SPDX-License-Identifier: MIT */
/* The JSON header of a safetensors file:
 *
 *   {"__metadata__": {"key": "value", ...},
 *    "name": {"dtype": "F32", "shape": [rows, cols], "data_offsets": [begin, end]}, ...}
 *
 * Offsets count from the first byte after the header. Sorted by begin, each tensor begins
 * where the one before it ends, and the last ends with the file. */
#include "checkpoint/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "text/utf8.h"

enum { MAX_NAME = 512 };

typedef struct dtype_row {
    const char *name;
    int n_bytes;
    wefti_safetensors_dtype dtype;
} dtype_row;

static const dtype_row dtypes[] = {
    {"F32", 4, WEFTI_DTYPE_F32},       {"F16", 2, WEFTI_DTYPE_F16},
    {"BF16", 2, WEFTI_DTYPE_BF16},     {"F64", 8, WEFTI_DTYPE_OTHER},
    {"I64", 8, WEFTI_DTYPE_OTHER},     {"I32", 4, WEFTI_DTYPE_OTHER},
    {"I16", 2, WEFTI_DTYPE_OTHER},     {"I8", 1, WEFTI_DTYPE_OTHER},
    {"U64", 8, WEFTI_DTYPE_OTHER},     {"U32", 4, WEFTI_DTYPE_OTHER},
    {"U16", 2, WEFTI_DTYPE_OTHER},     {"U8", 1, WEFTI_DTYPE_OTHER},
    {"BOOL", 1, WEFTI_DTYPE_OTHER},    {"F8_E4M3", 1, WEFTI_DTYPE_OTHER},
    {"F8_E5M2", 1, WEFTI_DTYPE_OTHER}, {"F8_E8M0", 1, WEFTI_DTYPE_OTHER},
    {"C64", 8, WEFTI_DTYPE_OTHER},
};

static const dtype_row *find_dtype(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (wefti_is(name, dtypes[i].name)) return &dtypes[i];
    return NULL;
}

/* *product *= factor for numbers >= 0; false on overflow. */
static bool multiply(int64_t *product, int64_t factor) {
    if (factor != 0 && *product > INT64_MAX / factor) return false;
    *product *= factor;
    return true;
}

static weft_status no_memory(weft_ctx *ctx, const char *where) {
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the header of %s", where);
}

/* ---- encode ---- */

/* Fails because a text could not be added to the header: it is not UTF-8, or there was no
 * memory. */
static weft_status not_taken(weft_ctx *ctx, const char *where, const char *what,
                             const char *text) {
    if (wefti_is_utf8(text)) return no_memory(ctx, where);
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%s '%s' of %s is not UTF-8 text", what,
                         text, where);
}

/* The same for a pair of metadata; the message names its key. */
static weft_status metadata_not_taken(weft_ctx *ctx, const char *where, const char *key,
                                      const char *value) {
    if (!wefti_is_utf8(key) || wefti_is_utf8(value))
        return not_taken(ctx, where, "the metadata key", key);
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "the metadata '%s' of %s has a value that is not UTF-8 text",
                         key, where);
}

/* Whether the dimensions, if there are more than two, match rows x columns. */
static bool has_dims(const wefti_tensor_spec *spec) {
    int64_t n = 1;
    if (spec->ndim <= 2) return spec->ndim == 2 || spec->cols == 1;
    for (int d = 0; d < spec->ndim; d++)
        if (spec->dims[d] < 1 || !multiply(&n, spec->dims[d])) return false;
    return spec->rows > 0 && n % spec->rows == 0 && n / spec->rows == spec->cols;
}

/* Checks that a tensor can be written: it has a unique name, one to four dimensions, and
 * no more bytes than a file can have. */
static weft_status check_spec(weft_ctx *ctx, const char *where,
                              const wefti_tensor_spec *spec, int64_t *n_bytes) {
    if (!spec->name || !spec->name[0] || wefti_is(spec->name, "__metadata__"))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a tensor of %s has the name '%s', expected a name that is "
                             "not empty and not __metadata__",
                             where, spec->name ? spec->name : "");
    if (spec->ndim < 1 || spec->ndim > 4 || spec->rows < 0 || spec->cols < 0 ||
        !has_dims(spec))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "tensor '%s' of %s has %d dimensions, %lld rows and %lld columns, "
            "expected 1 dimension and 1 column, or 2 to 4 dimensions of that size",
            spec->name, where, spec->ndim, (long long)spec->rows, (long long)spec->cols);
    *n_bytes = (int64_t)sizeof(float);
    if (!multiply(n_bytes, spec->rows) || !multiply(n_bytes, spec->cols))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "tensor '%s' of %s has %lld x %lld numbers, too many for a file", spec->name,
            where, (long long)spec->rows, (long long)spec->cols);
    return WEFT_OK;
}

/* {"dtype": "F32", "shape": [rows, cols], "data_offsets": [begin, end]} */
static json_t *entry_of(const wefti_tensor_spec *spec, int64_t begin, int64_t end) {
    const int64_t plain[4] = {spec->rows, spec->cols};
    const int64_t *dims = spec->ndim > 2 ? spec->dims : plain;
    json_t *shape = json_array();
    for (int d = 0; d < spec->ndim && shape; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)dims[d])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    if (!shape) return NULL;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static weft_status add_metadata(weft_ctx *ctx, const char *where, json_t *root,
                                const char *const *metadata) {
    if (!metadata || !metadata[0]) return WEFT_OK;
    json_t *object = json_object();
    if (json_object_set_new(root, "__metadata__", object) != 0)
        return no_memory(ctx, where);
    for (int i = 0; metadata[i] && metadata[i + 1]; i += 2) {
        if (json_object_get(object, metadata[i]))
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "two metadata keys of %s are '%s'", where, metadata[i]);
        if (json_object_set_new(object, metadata[i], json_string(metadata[i + 1])) != 0)
            return metadata_not_taken(ctx, where, metadata[i], metadata[i + 1]);
    }
    return WEFT_OK;
}

/* Adds the tensors, which are stored in the given order without gaps. */
static weft_status add_tensors(weft_ctx *ctx, const char *where, json_t *root,
                               const wefti_tensor_spec *specs, int n,
                               int64_t *data_bytes) {
    *data_bytes = 0;
    for (int i = 0; i < n; i++) {
        int64_t n_bytes = 0;
        WEFT_TRY(check_spec(ctx, where, &specs[i], &n_bytes));
        if (n_bytes > INT64_MAX - WEFTI_SAFETENSORS_MAX_HEADER - 64 - *data_bytes)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "%s has too many bytes for a file", where);
        if (json_object_get(root, specs[i].name))
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "two tensors of %s have the name '%s'", where,
                                 specs[i].name);
        json_t *entry = entry_of(&specs[i], *data_bytes, *data_bytes + n_bytes);
        if (!entry) return no_memory(ctx, where);
        if (json_object_set_new(root, specs[i].name, entry) != 0)
            return not_taken(ctx, where, "the tensor name", specs[i].name);
        *data_bytes += n_bytes;
    }
    return WEFT_OK;
}

/* Writes the text, padded with blanks to a multiple of 8, so that the numbers after it
 * are aligned. */
static weft_status dump_padded(weft_ctx *ctx, const char *where, const json_t *root,
                               char **text, int64_t *n_text) {
    size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT);
    size_t padded = (n + 7) / 8 * 8;
    if (n == 0) return no_memory(ctx, where);
    if (padded > WEFTI_SAFETENSORS_MAX_HEADER)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the header of %s would have %zu bytes, expected at most %d",
                             where, padded, WEFTI_SAFETENSORS_MAX_HEADER);
    WEFT_TRY(wefti_alloc(ctx, padded + 1, "a safetensors header", text));
    memset(*text, ' ', padded);
    if (json_dumpb(root, *text, n, JSON_COMPACT) != n) {
        wefti_free(ctx, *text);
        *text = NULL;
        return no_memory(ctx, where);
    }
    *n_text = (int64_t)padded;
    return WEFT_OK;
}

weft_status wefti_safetensors_header_encode(weft_ctx *ctx, const char *where,
                                            const wefti_tensor_spec *specs, int n,
                                            const char *const *metadata, char **text,
                                            int64_t *n_text, int64_t *data_bytes) {
    *text = NULL;
    json_t *root = json_object();
    if (!root) return no_memory(ctx, where);
    weft_status status = add_metadata(ctx, where, root, metadata);
    if (status == WEFT_OK) status = add_tensors(ctx, where, root, specs, n, data_bytes);
    if (status == WEFT_OK) status = dump_padded(ctx, where, root, text, n_text);
    json_decref(root);
    return status;
}

/* ---- decode ---- */

/* The metadata is an object of strings, as the format requires. */
static weft_status check_metadata(weft_ctx *ctx, const char *where, json_t *value) {
    if (!json_is_object(value))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "__metadata__ of %s is not a JSON object", where);
    const char *key;
    json_t *text;
    json_object_foreach(value, key, text) {
        if (!json_is_string(text))
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "metadata '%s' of %s is not a string", key, where);
    }
    return WEFT_OK;
}

/* Reads the type. Types of known size that cannot be converted are accepted, since such a
 * tensor may be in a file beside the wanted ones. The size must be known, or the offsets
 * could not be checked. */
static weft_status read_dtype(weft_ctx *ctx, const char *where, const json_t *entry,
                              wefti_safetensors_tensor *t) {
    const json_t *value = json_object_get(entry, "dtype");
    if (!json_is_string(value))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "tensor '%s' of %s has no dtype",
                             t->name, where);
    const dtype_row *row = find_dtype(json_string_value(value));
    if (!row)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "tensor '%s' of %s has the dtype '%.40s', which is not known", t->name, where,
            json_string_value(value));
    t->dtype = row->dtype;
    t->dtype_name = row->name;
    t->n_bytes = row->n_bytes;
    return WEFT_OK;
}

/* A whole number >= 0 from an array; -1 if the item is something else. */
static int64_t whole(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (int64_t)json_integer_value(value)
               : -1;
}

/* More than two dimensions become rows x (all the others). Every product is checked for
 * overflow, since the file may claim any shape, and its size must not wrap around to a
 * small number. */
static weft_status read_shape(weft_ctx *ctx, const char *where, const json_t *entry,
                              wefti_safetensors_tensor *t) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > 64)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "tensor '%s' of %s has no shape of at most 64 dimensions",
                             t->name, where);
    t->spec.ndim = (int)json_array_size(shape);
    t->spec.rows = t->spec.cols = 1;
    for (int d = 0; d < t->spec.ndim; d++) {
        int64_t extent = whole(shape, (size_t)d);
        if (extent < 0)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "dimension %d of tensor '%s' of %s is not a whole number >= 0", d,
                t->name, where);
        if (d == 0) t->spec.rows = extent;
        if (!multiply(&t->n_bytes, extent) || (d > 0 && !multiply(&t->spec.cols, extent)))
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "the shape of tensor '%s' of %s has too many elements",
                                 t->name, where);
        if (d < 4) t->spec.dims[d] = extent;
    }
    if (t->spec.ndim == 3 && t->spec.rows == 1 && t->spec.cols > 0) {
        t->spec.rows = t->spec.dims[1];
        t->spec.cols = t->spec.dims[2];
    }
    return WEFT_OK;
}

/* Reads the offsets. Their range must have exactly the bytes that follow from shape and type. */
static weft_status read_offsets(weft_ctx *ctx, const char *where, const json_t *entry,
                                wefti_safetensors_tensor *t) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (json_array_size(offsets) != 2 || whole(offsets, 0) < 0 || whole(offsets, 1) < 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "tensor '%s' of %s has no data_offsets of two whole numbers >= 0", t->name,
            where);
    t->begin = whole(offsets, 0);
    int64_t end = whole(offsets, 1);
    if (end < t->begin || end - t->begin != t->n_bytes)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "tensor '%s' of %s lies at bytes %lld to %lld, expected "
                             "%lld bytes as its shape and dtype %s say",
                             t->name, where, (long long)t->begin, (long long)end,
                             (long long)t->n_bytes, t->dtype_name);
    return WEFT_OK;
}

static weft_status read_tensor(weft_ctx *ctx, const char *where, const char *name,
                               const json_t *entry, wefti_safetensors_tensor *t) {
    if (strlen(name) > MAX_NAME)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "a tensor of %s has a name of %zu bytes, expected at most %d", where,
            strlen(name), MAX_NAME);
    WEFT_TRY(wefti_strdup(ctx, name, &t->name));
    t->spec.name = t->name;
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "tensor '%s' of %s is not an object of dtype, shape and "
                             "data_offsets",
                             name, where);
    WEFT_TRY(read_dtype(ctx, where, entry, t));
    WEFT_TRY(read_shape(ctx, where, entry, t));
    return read_offsets(ctx, where, entry, t);
}

static weft_status read_entries(weft_ctx *ctx, const char *where, json_t *root,
                                wefti_safetensors_header *out) {
    int64_t capacity = (int64_t)json_object_size(root);
    WEFT_TRY(wefti_alloc_n(ctx, capacity, sizeof *out->tensors, "a table of tensors",
                           &out->tensors));
    const char *name;
    json_t *entry;
    json_object_foreach(root, name, entry) {
        if (wefti_is(name, "__metadata__")) {
            WEFT_TRY(check_metadata(ctx, where, entry));
            continue;
        }
        wefti_safetensors_tensor *t = &out->tensors[out->n];
        t->order = out->n++; /* counted first, so that a half-read entry is freed */
        WEFT_TRY(read_tensor(ctx, where, name, entry, t));
    }
    return WEFT_OK;
}

/* Order by position in the data; tensors without bytes keep the order of the header's text. */
static int compare_places(const void *left, const void *right) {
    const wefti_safetensors_tensor *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if ((a->n_bytes == 0) != (b->n_bytes == 0)) return a->n_bytes == 0 ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Checks that the tensors, sorted by position, cover the data: no gap, no overlap, no
 * rest. So reading a row cannot go beyond the file, and no two names share bytes. */
static weft_status check_places(weft_ctx *ctx, const char *where, int64_t data_bytes,
                                wefti_safetensors_header *out) {
    qsort(out->tensors, (size_t)out->n, sizeof *out->tensors, compare_places);
    int64_t expected = 0;
    for (int i = 0; i < out->n; i++) {
        const wefti_safetensors_tensor *t = &out->tensors[i];
        if (t->begin != expected)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "tensor '%s' of %s begins at byte %lld, expected %lld: tensors "
                "lie one after the other, without gaps or overlaps",
                t->name, where, (long long)t->begin, (long long)expected);
        expected += t->n_bytes;
    }
    if (expected != data_bytes)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s holds %lld bytes of data, expected %lld as its header says", where,
            (long long)data_bytes, (long long)expected);
    out->data_bytes = data_bytes;
    return WEFT_OK;
}

static int compare_names(const void *left, const void *right) {
    const wefti_safetensors_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static weft_status sort_names(weft_ctx *ctx, wefti_safetensors_header *out) {
    WEFT_TRY(wefti_alloc_n(ctx, out->n, sizeof *out->by_name, "a table of names",
                           &out->by_name));
    for (int i = 0; i < out->n; i++) out->by_name[i] = &out->tensors[i];
    qsort(out->by_name, (size_t)out->n, sizeof *out->by_name, compare_names);
    return WEFT_OK;
}

static weft_status load_json(weft_ctx *ctx, const char *where, const char *text,
                             int64_t n_text, json_t **root) {
    *root = NULL;
    if (n_text < 2 || text[0] != '{')
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "the header of %s does not begin with '{': not a safetensors file?", where);
    return wefti_json_read(ctx, "the header of ", where, text, n_text, WEFT_ERR_FORMAT,
                           root);
}

weft_status wefti_safetensors_header_decode(weft_ctx *ctx, const char *where,
                                            const char *text, int64_t n_text,
                                            int64_t data_bytes,
                                            wefti_safetensors_header *out) {
    json_t *root;
    *out = (wefti_safetensors_header){0};
    WEFT_TRY(load_json(ctx, where, text, n_text, &root));
    weft_status status = read_entries(ctx, where, root, out);
    if (status == WEFT_OK) status = check_places(ctx, where, data_bytes, out);
    if (status == WEFT_OK) status = sort_names(ctx, out);
    json_decref(root);
    if (status != WEFT_OK) wefti_safetensors_header_fini(ctx, out);
    return status;
}

void wefti_safetensors_header_fini(weft_ctx *ctx, wefti_safetensors_header *header) {
    for (int i = 0; i < header->n; i++) wefti_free(ctx, header->tensors[i].name);
    WEFTI_FREE(ctx, header->tensors, header->by_name);
    *header = (wefti_safetensors_header){0};
}
