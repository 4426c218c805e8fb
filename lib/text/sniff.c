/* SPDX-License-Identifier: MIT */
/* What a file is that is not text, by the marks that formats put at fixed places. The marks
 * are those of the formats' own specifications. A file without a known mark that holds a NUL
 * byte is "a binary file": no text in UTF-8 needs one. JSON has no mark: the beginning is read
 * by its grammar, so that a text that begins with a bracket stays a text. */
#include "text/sniff.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "text/utf8.h"

enum { LONGEST_CHARACTER = 4 }; /* one may be cut at the end of the beginning */

typedef struct mark {
    int at, n;
    const char *bytes, *name;
    bool sure; /* no text begins so, be it printable or not */
} mark;

#define MARK(at, bytes, name)                                                            \
    { at, sizeof(bytes) - 1, bytes, name, false }
#define SURE(bytes, name)                                                                \
    { 0, sizeof(bytes) - 1, bytes, name, true }

#define TABLES                                                                           \
    "(python examples/tables.py FILE > lines.jsonl writes it as text; of an installed "  \
    "weft it is in share/doc/weft)"

static const mark marks[] = {
    MARK(0, "\x89PNG\r\n\x1A\n", "a PNG picture"),
    MARK(0, "\xFF\xD8\xFF", "a JPEG picture"),
    MARK(0, "GIF87a", "a GIF picture"),
    MARK(0, "GIF89a", "a GIF picture"),
    MARK(8, "WEBPVP8", "a WebP picture"),
    MARK(0, "II*\0", "a TIFF picture"),
    MARK(0, "MM\0*", "a TIFF picture"),
    MARK(8, "WAVEfmt ", "a WAV sound"),
    MARK(0, "ID3", "an MP3 sound"),
    MARK(0, "OggS", "an Ogg file of sound or video"),
    MARK(0, "fLaC", "a FLAC sound"),
    MARK(4, "ftyp", "an MP4 video"),
    MARK(0, "\x1A\x45\xDF\xA3", "a Matroska or WebM video"),
    SURE("%PDF-", "a PDF document (pdftotext FILE writes its text)"),
    SURE("%!PS-", "a PostScript document (ps2ascii FILE writes its text)"),
    SURE("{\\rtf", "an RTF document (save it as text)"),
    SURE("version https://git-lfs.github.com/spec/",
         "what Git LFS leaves in place of a file (git lfs pull brings it)"),
    MARK(0, "PK\3\4", "a ZIP archive (or a document, model or notebook stored as one)"),
    MARK(0, "PK\5\6", "an empty ZIP archive"),
    MARK(0, "7z\xBC\xAF\x27\x1C", "a 7-Zip archive"),
    MARK(0, "Rar!\x1A\7", "a RAR archive"),
    MARK(257, "ustar", "a tar archive"),
    MARK(0, "BZh", "data packed by bzip2 (unpack it, or pack it by gzip or zstd)"),
    MARK(0,
         "\xFD"
         "7zXZ\0",
         "data packed by xz (unpack it, or pack it by gzip or zstd)"),
    MARK(0, "\x04\x22\x4D\x18",
         "data packed by lz4 (unpack it, or pack it by gzip or zstd)"),
    MARK(0, "\x1F\x8B", "data packed by gzip"),
    MARK(0, "\x28\xB5\x2F\xFD", "data packed by zstd"),
    MARK(0, "PAR1", "a Parquet table " TABLES),
    MARK(0, "ARROW1", "an Arrow table " TABLES),
    MARK(0, "Obj\1", "an Avro table (write it as .jsonl or .csv)"),
    MARK(0, "\x89HDF\r\n\x1A\n", "an HDF5 file"),
    MARK(0, "SQLite format 3\0", "an SQLite data base"),
    MARK(0, "\x93NUMPY", "a NumPy array"),
    MARK(0, "GGUF", "a GGUF model"),
    MARK(0, "\x80\2\x8A\nl\xFC\x9C", "a file of an old torch.save"),
    MARK(0, "\x80\4\x95", "a pickle of Python's"),
    MARK(0, "\x80\5\x95", "a pickle of Python's"),
    MARK(8, "{\"", "a safetensors file of weights"),
    MARK(0, "\x89weftTK\n", "a token shard of weft's inside of packed data (unpack it)"),
    MARK(0,
         "\x7F"
         "ELF",
         "a program or library (ELF)"),
    MARK(0, "\0asm", "a WebAssembly program"),
    MARK(0, "MZ\x90\0", "a Windows program"),
    MARK(0, "\xCA\xFE\xBA\xBE", "a Java class or a program of macOS"),
    MARK(0, "\xCF\xFA\xED\xFE", "a program of macOS"),
    MARK(0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an old Office document"),
    MARK(0, "\xFF\xFE", "text in UTF-16 or UTF-32 (convert it by iconv -t UTF-8)"),
    MARK(0, "\xFE\xFF", "text in UTF-16 (convert it by iconv -t UTF-8)"),
};

/* A mark of printable characters alone may begin a text too ("BZh", "{\""), so it says
 * something only of a file that is not text in UTF-8 anyway. */
static int is_printable(const mark *m) {
    for (int i = 0; i < m->n; i++)
        if (m->bytes[i] < 0x20 || m->bytes[i] > 0x7E) return 0;
    return 1;
}

static int has_nul(const char *head, int64_t n) {
    return n > 0 && memchr(head, 0, (size_t)n) != NULL;
}

/* torch.save packs a folder, whose first file is data.pkl. */
static bool is_of_torch(const char *head, int64_t n) {
    static const char zip[] = "PK\3\4", first[] = "/data.pkl";
    enum { ZIP = sizeof zip - 1, FIRST = sizeof first - 1, NAME = 30, LONGEST = 100 };
    if (n < NAME || memcmp(head, zip, ZIP) != 0) return false;
    for (int64_t i = NAME; i + FIRST <= n && i < NAME + LONGEST; i++)
        if (memcmp(head + i, first, FIRST) == 0) return true;
    return false;
}

/* A length below 16 MiB follows. Token ids may begin with 65535, too. */
static bool is_arrow_stream(const char *head, int64_t n) {
    enum { MARK = 4, HIGH = 7 };
    return n >= MARK && memcmp(head, "\xFF\xFF\xFF\xFF", MARK) == 0 &&
           (n <= HIGH || !head[HIGH]);
}

/* Where white space, and a mark of the encoding before it, end. */
static int64_t skip_space(const char *head, int64_t n) {
    int64_t i = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (i < n && head[i] && strchr(" \t\r\n", head[i])) i++;
    return i;
}

#define XML "an XML document (xmllint --xpath 'string(/)' FILE writes its text)"

/* Languages of marks, by how their documents begin. */
static const char *markup(const char *head, int64_t n) {
    static const struct {
        const char *begin, *name;
    } rows[] = {{"<!doctype html", "an HTML page"},
                {"<html>", "an HTML page"},
                {"<html ", "an HTML page"},
                {"<?xml ", XML},
                {"<svg ", XML},
                {"<rss ", XML},
                {"<feed ", XML},
                {"<urlset", XML},
                {"<sitemapindex", XML},
                {"<mediawiki ", XML}};
    int64_t at = skip_space(head, n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].begin);
        if (n - at >= (int64_t)length &&
            strncasecmp(head + at, rows[i].begin, length) == 0)
            return rows[i].name;
    }
    return NULL;
}

/* Letters of 16 bits without a mark: nearly every second byte is NUL, and no other. */
static const char *wide(const char *head, int64_t n) {
    int64_t nuls[2] = {0, 0};
    for (int64_t i = 0; i < n; i++) nuls[i % 2] += head[i] == 0;
    if (nuls[0] == 0 && nuls[1] > n / 3)
        return "text in UTF-16 (convert it by iconv -f UTF-16LE -t UTF-8)";
    if (nuls[1] == 0 && nuls[0] > n / 3)
        return "text in UTF-16 (convert it by iconv -f UTF-16BE -t UTF-8)";
    return NULL;
}

const char *wefti_sniff_mark(const char *head, int64_t n) {
    if (is_of_torch(head, n))
        return "a file of torch.save (weights begin a run as model.init=FOLDER of their "
               "model)";
    if (is_arrow_stream(head, n)) return "an Arrow stream " TABLES;
    int is_text = !has_nul(head, n) && wefti_utf8_valid(head, n) >= n - LONGEST_CHARACTER;
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++) {
        const mark *m = &marks[k];
        if (n < m->at + m->n || memcmp(head + m->at, m->bytes, (size_t)m->n) != 0)
            continue;
        if (m->sure || !is_text || !is_printable(m)) return m->name;
    }
    return markup(head, n);
}

const char *wefti_sniff(const char *head, int64_t n) {
    const char *name = wefti_sniff_mark(head, n);
    if (name || !has_nul(head, n)) return name;
    name = wide(head, n);
    return name ? name : "a binary file (it holds NUL bytes)";
}

/* ---- JSON ---- */

enum { DEEPEST = 64 };

typedef struct scan {
    const char *at, *end;
    uint64_t objects; /* bit d: the container at depth d is an object */
    int depth;
} scan;

/* Reads a number, true, false or null. */
static bool take_plain(scan *s) {
    static const char *const words[] = {"true", "false", "null"};
    const char *from = s->at;
    while (s->at < s->end && *s->at && strchr("+-.0123456789eE", *s->at)) s->at++;
    if (s->at > from) return strchr("-0123456789", *from);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]), left = (size_t)(s->end - from);
        if (n > left) n = left;
        if (memcmp(from, words[i], n) == 0) return s->at += n, true;
    }
    return false;
}

/* Reads a string or another scalar; false: there is none. One that the beginning cuts is one. */
static bool take_scalar(scan *s) {
    if (*s->at != '"') return take_plain(s);
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++) {
        if ((unsigned char)*s->at < 0x20) return false;
        if (*s->at == '\\') s->at++;
    }
    s->at = s->at < s->end ? s->at + 1 : s->end;
    return true;
}

static void take_space(scan *s) { s->at += skip_space(s->at, s->end - s->at); }

/* Reads what follows a bracket, a comma or a colon; false: it is no JSON. */
static bool take_value(scan *s) {
    bool key = s->depth > 0 && s->objects >> s->depth & 1;
    take_space(s);
    if (s->at < s->end && key) {
        if (*s->at != '"' || !take_scalar(s)) return false;
        take_space(s);
        if (s->at < s->end && *s->at++ != ':') return false;
        take_space(s);
    }
    if (s->at >= s->end) return true;
    if (*s->at != '{' && *s->at != '[') return take_scalar(s);
    if (++s->depth >= DEEPEST) return false;
    uint64_t bit = (uint64_t)1 << s->depth;
    s->objects = *s->at++ == '{' ? s->objects | bit : s->objects & ~bit;
    take_space(s);
    if (s->at < s->end && (*s->at == '}' || *s->at == ']')) return true;
    return take_value(s);
}

/* Closes what ends here; false: what follows is neither an end nor a comma. */
static bool take_ends(scan *s) {
    for (take_space(s); s->at < s->end && s->depth > 0; take_space(s)) {
        if (*s->at == ',') return s->at++, true;
        if (*s->at++ != (s->objects >> s->depth & 1 ? '}' : ']')) return false;
        s->depth--;
    }
    return true;
}

static bool holds(const char *head, int64_t n, const char *word) {
    int64_t length = (int64_t)strlen(word);
    for (int64_t i = 0; i + length <= n; i++)
        if (memcmp(head + i, word, (size_t)length) == 0) return true;
    return false;
}

const char *wefti_sniff_json(const char *head, int64_t n) {
    scan s = {.at = head + skip_space(head, n), .end = head + n};
    const char *begin = s.at;
    if (s.at >= s.end || (*s.at != '{' && *s.at != '[')) return NULL;
    do {
        if (!take_value(&s) || !take_ends(&s)) return NULL;
    } while (s.at < s.end && s.depth > 0);
    if (holds(head, n, "\"cell_type\""))
        return "a Jupyter notebook (jupyter nbconvert --to markdown FILE writes it as "
               "text)";
    if (s.at >= s.end)
        return *begin == '['
                   ? "a JSON list (jq -c '.[]' FILE > lines.jsonl writes it as lines)"
                   : "a JSON object (jq -c . FILE > line.jsonl writes it as a line)";
    return *s.at == '{' ? "JSON, an object on each line (a file of them is named *.jsonl)"
                        : NULL;
}
