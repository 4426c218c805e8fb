/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* How a file holds its documents; follows from its name, packed (.gz, .zst) or not. */
typedef enum wefti_text_layout {
    WEFTI_TEXT_PLAIN, /* .txt, .md and every other name: one document, or several with
                         <|endoftext|> between two */
    WEFTI_TEXT_LINES, /* a JSON object on each line: .jsonl, .ndjson */
    WEFTI_TEXT_TABLE  /* a record on each line, the first one names columns: .csv, .tsv */
} wefti_text_layout;

wefti_text_layout wefti_text_layout_of(const char *path);

/* Whether a path ends so, packed or not: ".tsv" is the end of "a.tsv" and of "a.tsv.gz". */
bool wefti_text_is_named(const char *path, const char *ending);

/* Whether a folder's file of this name is text to read: one of the names above that has a
 * known ending. */
bool wefti_text_layout_known(const char *name);

/* Where the text stands in a record. */
typedef struct wefti_fields {
    const char *field;  /* of a line's object; NULL: "text" */
    const char *column; /* of a table; NULL: "text" */
} wefti_fields;

/* Takes the next bytes of a document; `ends`: these are its last (n may be 0). */
typedef weft_status (*wefti_document_sink)(weft_ctx *ctx, void *user, const char *text,
                                           int64_t n, bool ends);

/* Refuses what wefti_documents_read refuses for its beginning, and what is empty. `fields` NULL:
 * what the records hold is not looked at. */
weft_status wefti_documents_look(weft_ctx *ctx, const char *path,
                                 const wefti_fields *fields) WEFT_CHECKED;

/* Says that a text is empty. */
weft_status wefti_documents_fail_empty(weft_ctx *ctx, const char *path);

/* Reads all documents of a file, a pipe or standard input ("-"), in their order. Errors
 * name the line. Memory: one record, or a piece of a text. */
weft_status wefti_documents_read(weft_ctx *ctx, const char *path,
                                 const wefti_fields *fields, wefti_document_sink sink,
                                 void *user) WEFT_CHECKED;
