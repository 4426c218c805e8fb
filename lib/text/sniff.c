/* SPDX-License-Identifier: MIT */
/* What a file is that is not text, by the marks that formats put at fixed places. The marks
 * are those of the formats' own specifications. A file without a known mark that holds a NUL
 * byte is "a binary file": no text in UTF-8 needs one. */
#include "text/sniff.h"

#include <stddef.h>
#include <string.h>

#include "text/utf8.h"

enum { LONGEST_CHARACTER = 4 }; /* one may be cut at the end of the beginning */

typedef struct mark {
    int at, n;
    const char *bytes, *name;
} mark;

#define MARK(at, bytes, name)                                                            \
    { at, sizeof(bytes) - 1, bytes, name }

#define TABLES "(python examples/tables.py FILE > lines.jsonl writes it as text)"

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
    MARK(0, "%PDF-", "a PDF document"),
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
    MARK(0, "\xFF\xFF\xFF\xFF", "an Arrow stream " TABLES),
    MARK(0, "Obj\1", "an Avro table (write it as .jsonl or .csv)"),
    MARK(0, "\x89HDF\r\n\x1A\n", "an HDF5 file"),
    MARK(0, "SQLite format 3\0", "an SQLite data base"),
    MARK(0, "\x93NUMPY", "a NumPy array"),
    MARK(0, "GGUF", "a GGUF model"),
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

const char *wefti_sniff_mark(const char *head, int64_t n) {
    if (is_of_torch(head, n))
        return "a file of torch.save (weights begin a run as model.init=FOLDER of their "
               "model)";
    int is_text = !has_nul(head, n) && wefti_utf8_valid(head, n) >= n - LONGEST_CHARACTER;
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++) {
        const mark *m = &marks[k];
        if (n < m->at + m->n || memcmp(head + m->at, m->bytes, (size_t)m->n) != 0)
            continue;
        if (!is_text || !is_printable(m)) return m->name;
    }
    return NULL;
}

const char *wefti_sniff(const char *head, int64_t n) {
    const char *name = wefti_sniff_mark(head, n);
    if (name || !has_nul(head, n)) return name;
    return "a binary file (it holds NUL bytes)";
}
