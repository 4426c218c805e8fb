/* SPDX-License-Identifier: MIT */
/* A file of text as a sequence of documents.
 *
 *     text     the file is one document, or several with <|endoftext|> between them
 *     lines    {"text": "..", ..} newline: the string of one field is a document
 *     table    RFC 4180: fields between commas (tabs in .tsv), "in quotes" a field may hold
 *              commas, newlines and "" for a quote; the first record names the columns
 *
 * A record without the field, and a field that is not text, is an error and not an empty
 * document: a misspelled name must not train on nothing. Empty lines are skipped. */
#include "input/documents.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "input/input.h"
#include "text/sniff.h"

enum { PIECE_BYTES = 1 << 18, RECORD_BYTES = 1 << 30, SHOWN = 60 };

static bool ends_in(const char *name, size_t n, const char *suffix) {
    size_t m = strlen(suffix);
    return n > m && memcmp(name + n - m, suffix, m) == 0;
}

/* Length of the name without .gz or .zst. */
static size_t unpacked_length(const char *path) {
    size_t n = strlen(path);
    if (ends_in(path, n, ".gz")) return n - 3;
    return ends_in(path, n, ".zst") ? n - 4 : n;
}

bool wefti_text_is_named(const char *path, const char *ending) {
    return ends_in(path, unpacked_length(path), ending);
}

wefti_text_layout wefti_text_layout_of(const char *path) {
    size_t n = unpacked_length(path);
    if (ends_in(path, n, ".jsonl") || ends_in(path, n, ".ndjson"))
        return WEFTI_TEXT_LINES;
    if (ends_in(path, n, ".csv") || ends_in(path, n, ".tsv")) return WEFTI_TEXT_TABLE;
    return WEFTI_TEXT_PLAIN;
}

bool wefti_text_layout_known(const char *name) {
    size_t n = unpacked_length(name);
    return wefti_text_layout_of(name) != WEFTI_TEXT_PLAIN || ends_in(name, n, ".txt") ||
           ends_in(name, n, ".md");
}

typedef struct reader {
    weft_ctx *ctx;
    const char *path;
    const wefti_fields *fields;
    wefti_document_sink sink;
    void *user;
    int matched;         /* bytes of the mark that the text read so far ends with */
    int64_t line;        /* where the current record begins, from 1 */
    wefti_buffer record; /* lines: the line; table: the field that is being read */
    /* of tables only */
    char separator;
    bool quoted, was_quoted; /* inside of quotes; the field had them */
    bool pending_quote;      /* a quote inside of quotes: its end, or half of "" */
    bool named;              /* the first record is read */
    bool fresh;              /* nothing of the current record has come */
    int64_t n_line;          /* lines begun, for messages */
    int64_t column, wanted, n_columns; /* the current one; that of the text; all */
    wefti_buffer text;                 /* the wanted field of the current record */
} reader;

static weft_status fail_line(const reader *r, const char *fault, const char *name) {
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s, line %lld: %s '%.*s'", r->path,
                         (long long)r->line, fault, SHOWN, name);
}

static weft_status put(reader *r, wefti_buffer *buffer, const char *bytes, int64_t n) {
    if (buffer->n + n > RECORD_BYTES)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                             "%s, line %lld: a record of more than %d bytes", r->path,
                             (long long)r->line, RECORD_BYTES);
    wefti_buffer_put(r->ctx, buffer, bytes, n);
    return buffer->status;
}

/* -- plain text -- */

static const char mark[] = "<|endoftext|>"; /* its first byte is in no other place */
enum { MARK_BYTES = sizeof mark - 1 };

static weft_status give(reader *r, const char *text, int64_t n) {
    return n > 0 ? r->sink(r->ctx, r->user, text, n, false) : WEFT_OK;
}

/* Goes on with a mark that has begun; *used: bytes of the text that are part of it. */
static weft_status match(reader *r, const char *text, int64_t n, int64_t *used) {
    for (*used = 0; *used < n && r->matched < MARK_BYTES; ++*used, r->matched++)
        if (text[*used] != mark[r->matched]) break;
    if (*used == n && r->matched < MARK_BYTES) return WEFT_OK;
    int matched = r->matched;
    r->matched = 0;
    if (matched == MARK_BYTES) return r->sink(r->ctx, r->user, "", 0, true);
    return give(r, mark, matched);
}

static weft_status take_text(reader *r, const char *text, int64_t n) {
    int64_t at = 0, used;
    while (r->matched > 0 && n > 0) {
        WEFT_TRY(match(r, text, n, &used));
        text += used, n -= used;
    }
    while (at < n) {
        const char *begin = memchr(text + at, mark[0], (size_t)(n - at));
        int64_t left = begin ? text + n - begin : 0,
                seen = left < MARK_BYTES ? left : MARK_BYTES;
        at = n - left;
        if (left > 0 && memcmp(begin, mark, (size_t)seen) != 0) {
            at++;
            continue;
        }
        WEFT_TRY(give(r, text, at));
        WEFT_TRY(match(r, text + at, left, &used));
        text += at + used, n -= at + used, at = 0;
    }
    return give(r, text, n);
}

/* -- lines -- */

/* Names the fields that are there beside the one that is not. */
static weft_status fail_field(const reader *r, const json_t *object, const char *field) {
    char names[160] = "";
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        int put = snprintf(names + n, sizeof names - n, "%s%.40s", n ? ", " : "", key);
        n += (size_t)put;
        if (n >= sizeof names) break;
    }
    return weft_ctx_fail(
        r->ctx, WEFT_ERR_FORMAT,
        "%s, line %lld: there is no field '%.*s', but %s; set data.field", r->path,
        (long long)r->line, SHOWN, field, names[0] ? wefti_text_plain(names) : "nothing");
}

static weft_status give_field(reader *r, const json_t *object) {
    const char *field = r->fields->field ? r->fields->field : "text";
    const json_t *value = json_object_get(object, field);
    if (!value) return fail_field(r, object, field);
    if (!json_is_string(value)) return fail_line(r, "expected text in the field", field);
    return r->sink(r->ctx, r->user, json_string_value(value),
                   (int64_t)json_string_length(value), true);
}

/* The line in r->record. */
static weft_status take_line(reader *r) {
    char where[64];
    json_t *object;
    int64_t n = r->record.n;
    r->record.n = 0;
    r->line++;
    if (wefti_is_blank(r->record.bytes, n)) return WEFT_OK;
    snprintf(where, sizeof where, ", line %lld", (long long)r->line);
    WEFT_TRY(wefti_json_read(r->ctx, r->path, where, r->record.bytes, n, WEFT_ERR_FORMAT,
                             &object));
    weft_status status = give_field(r, object);
    json_decref(object);
    return status;
}

static weft_status take_lines(reader *r, const char *text, int64_t n) {
    while (n > 0) {
        const char *end = memchr(text, '\n', (size_t)n);
        int64_t part = end ? end - text : n;
        WEFT_TRY(put(r, &r->record, text, part));
        if (!end) return WEFT_OK;
        WEFT_TRY(take_line(r));
        text += part + 1;
        n -= part + 1;
    }
    return WEFT_OK;
}

static weft_status end_lines(reader *r) {
    return r->record.n > 0 ? take_line(r) : WEFT_OK;
}

/* -- tables -- */

/* The field in r->record is complete. */
static weft_status end_field(reader *r) {
    const char *column = r->fields->column ? r->fields->column : "text";
    const char *bytes = r->record.bytes;
    int64_t n = r->record.n, k = r->column++;
    if (!r->named) {
        if (k == 0 && n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) bytes += 3, n -= 3;
        if (n == (int64_t)strlen(column) && memcmp(bytes, column, (size_t)n) == 0)
            r->wanted = k;
    } else if (k == r->wanted) {
        WEFT_TRY(put(r, &r->text, bytes, n));
    }
    r->record.n = 0;
    r->was_quoted = r->pending_quote = false;
    return WEFT_OK;
}

static weft_status end_header(reader *r) {
    const char *column = r->fields->column ? r->fields->column : "text";
    r->named = true;
    r->n_columns = r->column;
    if (r->wanted >= 0) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                         "%s: none of the %lld columns is named '%.*s'; set data.column",
                         r->path, (long long)r->n_columns, SHOWN, column);
}

static weft_status end_record(reader *r) {
    bool blank = r->column == 0 && r->record.n == 0 && !r->was_quoted;
    r->fresh = true;
    if (blank) return WEFT_OK;
    WEFT_TRY(end_field(r));
    int64_t n = r->column;
    r->column = 0;
    if (!r->named) {
        r->column = n;
        WEFT_TRY(end_header(r));
        r->column = 0;
        return WEFT_OK;
    }
    if (n != r->n_columns)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                             "%s, line %lld: a record of %lld fields, expected %lld",
                             r->path, (long long)r->line, (long long)n,
                             (long long)r->n_columns);
    weft_status status = r->sink(r->ctx, r->user, r->text.bytes ? r->text.bytes : "",
                                 r->text.n, true);
    r->text.n = 0;
    return status;
}

/* One byte of a table outside of quotes. */
static weft_status take_plain(reader *r, char c) {
    if (c == r->separator) return end_field(r);
    if (c == '\n') return end_record(r);
    if (c == '\r' && !r->was_quoted) return put(r, &r->record, &c, 1);
    if (c == '\r') return WEFT_OK;
    if (c == '"' && r->record.n == 0 && !r->was_quoted) {
        r->quoted = r->was_quoted = true;
        return WEFT_OK;
    }
    if (r->was_quoted)
        return fail_line(r, "expected a separator after a field in quotes, not",
                         (char[]){c, 0});
    return put(r, &r->record, &c, 1);
}

static weft_status take_quoted(reader *r, char c) {
    if (c != '"') return put(r, &r->record, &c, 1);
    r->quoted = false;
    r->pending_quote = true;
    return WEFT_OK;
}

static weft_status take_byte(reader *r, char c) {
    if (r->fresh) r->line = r->n_line + 1;
    r->fresh = false;
    if (c == '\n') r->n_line++;
    if (r->quoted) return take_quoted(r, c);
    if (r->pending_quote && c == '"') { /* "" is a quote */
        r->pending_quote = false;
        r->quoted = true;
        return put(r, &r->record, &c, 1);
    }
    r->pending_quote = false;
    /* the return of a line's end is no part of its last field */
    if (c == '\n' && !r->was_quoted && r->record.n > 0 &&
        r->record.bytes[r->record.n - 1] == '\r')
        r->record.n--;
    return take_plain(r, c);
}

static weft_status take_table(reader *r, const char *text, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t end = i;
        while (r->quoted && end < n && text[end] != '"' && text[end] != '\n') end++;
        if (end > i) { /* the inside of quotes at once */
            WEFT_TRY(put(r, &r->record, text + i, end - i));
            i = end - 1;
            continue;
        }
        WEFT_TRY(take_byte(r, text[i]));
    }
    return WEFT_OK;
}

static weft_status end_table(reader *r) {
    if (r->quoted)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                             "%s, line %lld: a field in quotes does not end", r->path,
                             (long long)r->line);
    if (!r->fresh) WEFT_TRY(end_record(r));
    if (r->named) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                         "%s is empty, expected the names of its columns", r->path);
}

/* -- all -- */

static weft_status take(reader *r, wefti_text_layout layout, const char *text,
                        int64_t n) {
    if (layout == WEFTI_TEXT_LINES) return take_lines(r, text, n);
    if (layout == WEFTI_TEXT_TABLE) return take_table(r, text, n);
    return take_text(r, text, n);
}

static weft_status end(reader *r, wefti_text_layout layout) {
    if (layout == WEFTI_TEXT_LINES) return end_lines(r);
    if (layout == WEFTI_TEXT_TABLE) return end_table(r);
    WEFT_TRY(give(r, mark, r->matched));
    return r->sink(r->ctx, r->user, "", 0, true);
}

static weft_status read_all(reader *r, wefti_input *input, char *room) {
    wefti_text_layout layout = wefti_text_layout_of(r->path);
    int64_t n = 1;
    while (n > 0) {
        WEFT_TRY(wefti_input_read(r->ctx, input, room, PIECE_BYTES, &n));
        if (n > 0) WEFT_TRY(take(r, layout, room, n));
    }
    return end(r, layout);
}

/* A text is no file of records under another name. */
static weft_status open_text(weft_ctx *ctx, const char *path, wefti_input **out) {
    int64_t n;
    WEFT_TRY(wefti_input_open(ctx, path, out));
    if (wefti_text_layout_of(path) != WEFTI_TEXT_PLAIN) return WEFT_OK;
    const char *head = wefti_input_head(*out, &n), *found = wefti_sniff_json(head, n);
    if (!found) return WEFT_OK;
    wefti_input_close(ctx, *out);
    *out = NULL;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is %s, expected text in UTF-8",
                         wefti_is(path, "-") ? "standard input" : path, found);
}

static reader reader_of(weft_ctx *ctx, const char *path, const wefti_fields *fields) {
    return (reader){.ctx = ctx,
                    .path = path,
                    .fields = fields,
                    .fresh = true,
                    .wanted = -1,
                    .separator = wefti_text_is_named(path, ".tsv") ? '\t' : ','};
}

static void reader_fini(reader *r) {
    wefti_buffer_fini(r->ctx, &r->record);
    wefti_buffer_fini(r->ctx, &r->text);
}

weft_status wefti_documents_fail_empty(weft_ctx *ctx, const char *path) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is empty, expected text", path);
}

static weft_status count(weft_ctx *ctx, void *user, const char *text, int64_t n,
                         bool ends) {
    (void)ctx, (void)text, (void)ends;
    *(int64_t *)user += n;
    return WEFT_OK;
}

/* Reads the documents of the beginning; of a file that ends there, all. */
static weft_status look(reader *r, wefti_input *input, char *room) {
    wefti_text_layout layout = wefti_text_layout_of(r->path);
    int64_t n;
    WEFT_TRY(wefti_input_read(r->ctx, input, room, PIECE_BYTES, &n));
    if (n > 0) WEFT_TRY(take(r, layout, room, n));
    if (n > 0) WEFT_TRY(wefti_input_read(r->ctx, input, room, PIECE_BYTES, &n));
    if (n > 0) return WEFT_OK;
    WEFT_TRY(end(r, layout));
    return *(const int64_t *)r->user > 0 ? WEFT_OK
                                         : wefti_documents_fail_empty(r->ctx, r->path);
}

weft_status wefti_documents_look(weft_ctx *ctx, const char *path,
                                 const wefti_fields *fields) {
    wefti_input *input;
    int64_t n_bytes = 0;
    char *room;
    reader r = reader_of(ctx, path, fields);
    r.sink = count;
    r.user = &n_bytes;
    WEFT_TRY(wefti_alloc(ctx, PIECE_BYTES, "a piece of text", &room));
    weft_status status = open_text(ctx, path, &input);
    if (status == WEFT_OK && fields) status = look(&r, input, room);
    wefti_input_close(ctx, input);
    reader_fini(&r);
    wefti_free(ctx, room);
    return status;
}

weft_status wefti_documents_read(weft_ctx *ctx, const char *path,
                                 const wefti_fields *fields, wefti_document_sink sink,
                                 void *user) {
    reader r = reader_of(ctx, path, fields);
    r.sink = sink;
    r.user = user;
    wefti_input *input;
    char *room;
    WEFT_TRY(wefti_alloc(ctx, PIECE_BYTES, "a piece of text", &room));
    weft_status status = open_text(ctx, path, &input);
    if (status == WEFT_OK) status = read_all(&r, input, room);
    wefti_input_close(ctx, input);
    reader_fini(&r);
    wefti_free(ctx, room);
    return status;
}
