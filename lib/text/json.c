/* SPDX-License-Identifier: MIT */
/* Reading JSON when memory is short: tells damaged text from a lack of memory, and makes
 * sure that a text was read completely.
 *
 * The JSON library collects each token in a buffer that grows. If the buffer cannot grow,
 * the library drops a byte of the token and continues: the text is read with a wrong name
 * or number in it, or is reported as invalid. So the buffer must grow at a place where a
 * lost byte is noticed:
 *
 *     ["xxx...x",  the text  ]      the first string is longer than every token of the text
 *
 * and only if the first string is complete is the second value that of the text. A text that
 * was rejected is read once more, since there may be memory again by then. Its error message
 * must name lines and columns of the text itself, so it comes from reading the text alone. */
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/json.h"
#include "text/sniff.h"

enum {
    SMALL_TOKEN = 13
}; /* with its quotes it fits into the buffer's initial 16 bytes */

typedef enum mark { OF_A_TOKEN, PARTS, QUOTE, ESCAPE } mark;

/* Upper bound on the bytes of a single token of the text: between two quotes, or between
 * two of the characters that separate tokens. */
static size_t longest_token(const char *text, size_t n) {
    static const unsigned char marks[256] = {
        [' '] = PARTS, ['\t'] = PARTS, ['\r'] = PARTS, ['\n'] = PARTS,
        [','] = PARTS, [':'] = PARTS,  ['['] = PARTS,  [']'] = PARTS,
        ['{'] = PARTS, ['}'] = PARTS,  ['"'] = QUOTE,  ['\\'] = ESCAPE};
    size_t most = 0, begin = 0, i = 0;
    bool quoted = false;
    for (; i < n; i++) { /* one pass over possibly megabytes: few operations per byte */
        unsigned char m = marks[(unsigned char)text[i]];
        if (m == OF_A_TOKEN || (m == PARTS && quoted)) continue;
        if (m == ESCAPE) {
            i += quoted;
            continue;
        }
        if (i - begin > most) most = i - begin;
        begin = i + 1;
        if (m == QUOTE) quoted = !quoted;
    }
    return begin < n && n - begin > most ? n - begin : most;
}

/* The input that the library gets piece by piece: an opening, `n_guard` letters, a
 * separator, the text and an end. */
typedef struct guarded {
    const char *text;
    size_t n, n_guard, at;
} guarded;

/* One part of the input has n bytes and begins at `*begin` of the whole. Copies its bytes
 * from position g->at on, as many as have room. The bytes of the part are `from`, or the
 * letter x if `from` is NULL. */
static size_t give_part(guarded *g, size_t *begin, const char *from, size_t n, char *out,
                        size_t room) {
    size_t inside = g->at - *begin, copied = 0;
    if (g->at >= *begin && inside < n) {
        copied = n - inside < room ? n - inside : room;
        if (from)
            memcpy(out, from + inside, copied);
        else
            memset(out, 'x', copied);
        g->at += copied;
    }
    *begin += n;
    return copied;
}

static size_t give(void *buffer, size_t room, void *user) {
    guarded *g = user;
    char *out = buffer;
    size_t begin = 0, n = 0;
    n += give_part(g, &begin, "[\"", 2, out, room);
    n += give_part(g, &begin, NULL, g->n_guard, out + n, room - n);
    n += give_part(g, &begin, "\",", 2, out + n, room - n);
    n += give_part(g, &begin, g->text, g->n, out + n, room - n);
    return n + give_part(g, &begin, "]", 1, out + n, room - n);
}

/* Whether memory of the size of the text can be allocated. */
static bool has_memory(size_t n) {
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    void *probe = allocate(n);
    release(probe);
    return probe != NULL;
}

/* The value of the text if no byte of it was lost, else NULL. The buffer grows when it
 * holds one byte less than a power of two. The closing quote of the first string must not
 * be that byte, since without it the library would read past the end of the buffer;
 * neither 13 * 2^j + 1 nor 13 * 2^j is such a size. */
static json_t *load_guarded(const char *text, size_t n, size_t longest, size_t flags) {
    size_t room = 2 * SMALL_TOKEN;
    while (room < longest + 4) room *= 2;
    guarded g = {.text = text, .n = n, .n_guard = room};
    json_t *value = NULL;
    if (!has_memory(n)) return NULL;
    json_t *both = json_load_callback(give, &g, flags, NULL);
    if (json_array_size(both) == 2 &&
        json_string_length(json_array_get(both, 0)) == g.n_guard)
        value = json_incref(json_array_get(both, 1));
    json_decref(both);
    return value;
}

static json_t *load_once(const char *text, size_t n, size_t flags) {
    size_t longest = longest_token(text, n);
    if (longest <= SMALL_TOKEN) return json_loadb(text, n, flags, NULL);
    json_t *value = load_guarded(text, n, longest, flags);
    if (!value || (flags & JSON_DECODE_ANY) || json_is_object(value) ||
        json_is_array(value))
        return value;
    json_decref(value);
    return NULL;
}

json_t *wefti_json_load(const char *text, int64_t n, size_t flags, json_error_t *error) {
    json_t *value = load_once(text, (size_t)n, flags);
    if (!value) value = load_once(text, (size_t)n, flags);
    if (value) return value;
    value = json_loadb(text, (size_t)n, flags, error);
    if (value && error) { /* the text is valid: the earlier attempts had no memory */
        memset(error, 0, sizeof *error);
        error->text[sizeof error->text - 1] = (char)json_error_out_of_memory;
    }
    json_decref(value);
    return NULL;
}

weft_status wefti_json_blame(const json_error_t *error, weft_status blame) {
    if (error && json_error_code(error) == json_error_out_of_memory)
        return WEFT_ERR_MEMORY;
    static const char good[] = "{\"a\":[\"b\",1,0.5,{}]}";
    json_t *probe = json_loadb(good, sizeof good - 1, 0, NULL);
    if (!probe) return WEFT_ERR_MEMORY;
    json_decref(probe);
    return blame;
}

/* A text to read, and how an error message names it. */
typedef struct source {
    const char *what, *where, *text;
    int64_t n;
    weft_status blame;
} source;

static weft_status read_with(weft_ctx *ctx, const source *s, size_t flags, json_t **out) {
    const char *what = s->what, *where = s->where;
    weft_status blame = s->blame;
    json_error_t error;
    json_t *value = wefti_json_load(s->text, s->n, flags, &error);
    *out = json_is_object(value) ? value : NULL;
    if (*out) return WEFT_OK;
    if (value) {
        json_decref(value);
        return weft_ctx_fail(ctx, blame, "%s%s: not a JSON object", what, where);
    }
    if (wefti_json_blame(&error, blame) == WEFT_ERR_MEMORY)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for %s%s", what, where);
    const char *found = wefti_sniff_mark(s->text, s->n);
    if (found)
        return weft_ctx_fail(ctx, blame, "%s%s is %s, expected JSON", what, where, found);
    return weft_ctx_fail(ctx, blame, "%s%s: not a JSON object: line %d, column %d: %s",
                         what, where, error.line, error.column, error.text);
}

weft_status wefti_json_read(weft_ctx *ctx, const char *what, const char *where,
                            const char *text, int64_t n, weft_status blame,
                            json_t **out) {
    const source s = {what, where, text, n, blame};
    return read_with(ctx, &s, JSON_REJECT_DUPLICATES, out);
}

weft_status wefti_json_read_loosely(weft_ctx *ctx, const char *where, const char *text,
                                    int64_t n, json_t **out) {
    const source s = {"", where, text, n, WEFT_ERR_FORMAT};
    return read_with(ctx, &s, JSON_DECODE_INT_AS_REAL, out);
}

/* Writes a JSON value as text. The JSON library delivers its text piece by piece, and the
 * pieces go into a growing buffer, so that this memory is counted like all other and
 * tests can make it fail. The library's own json_dumps silently drops a name for which
 * its buffer cannot grow, so no other file may call it. `flags` control escapes and the
 * format of numbers, as in json_dumps. */

typedef struct output {
    weft_ctx *ctx;
    wefti_buffer text;
} output;

static int put(const char *bytes, size_t n, void *user) {
    output *o = user;
    wefti_buffer_put(o->ctx, &o->text, bytes, (int64_t)n);
    return o->text.status == WEFT_OK ? 0 : -1;
}

weft_status wefti_json_text(weft_ctx *ctx, const json_t *value, size_t flags, char **text,
                            int64_t *n_bytes) {
    output o = {.ctx = ctx};
    *text = NULL;
    *n_bytes = 0;
    /* the library continues after a name that could not be stored, and reports success */
    if (!value || json_dump_callback(value, put, &o, flags) != 0 ||
        o.text.status != WEFT_OK) {
        wefti_buffer_fini(ctx, &o.text);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                             "could not allocate memory for JSON text");
    }
    *text = o.text.bytes;
    *n_bytes = o.text.n;
    return WEFT_OK;
}

weft_status wefti_json_write(weft_ctx *ctx, const char *path, json_t *value) {
    char *text;
    int64_t n;
    weft_status status = wefti_json_text(ctx, value, JSON_INDENT(2), &text, &n);
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, text, n);
    wefti_free(ctx, text);
    json_decref(value);
    return status;
}
