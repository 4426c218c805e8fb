/* SPDX-License-Identifier: MIT */
/* A source is one path of data.path as a sequence of tokens, whatever it is on disk:
 *
 *     text file   encoded once when opened    2 or 4 bytes per token, in memory as far as the
 *                                             limit of all texts goes (data/idstore.h)
 *     token shard read where it lies          0
 *     folder      all of them below it, in order of their paths
 *
 * Token `at` lies in the file whose range holds it; a read may span several files. The texts of
 * a folder share one store, so that a thousand of them need no thousand files for what is much. */
#define _GNU_SOURCE
#include "data/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/runfolder.h"
#include "data/shardlayout.h"
#include "store/address.h"
#include "store/fetch.h"

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Whether the file begins as a shard of weft's; a file that cannot be read does not, and a
 * pipe is not asked, because what is read of it is gone. */
static bool begins_as_shard(const char *path) {
    unsigned char bytes[WEFTI_SHARD_MAGIC_BYTES];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    return got == (ssize_t)sizeof bytes &&
           memcmp(bytes, wefti_shard_magic, sizeof bytes) == 0;
}

/* Whether a file is a shard of token ids, not text. */
bool wefti_source_is_shard(const char *path) {
    return ends_in(path, ".bin") || begins_as_shard(path);
}

/* A text that is being encoded. */
typedef struct keeper {
    wefti_id_store *store;
    wefti_id_limit *limit;
    XXH3_state_t hash;
} keeper;

/* Takes the next ids. */
static weft_status keep_ids(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n) {
    keeper *k = user;
    XXH3_64bits_update(&k->hash, ids, (size_t)n * sizeof *ids);
    return wefti_ids_add(ctx, k->store, k->limit, ids, n);
}

static weft_status open_text(weft_ctx *ctx, wefti_source *s, wefti_token_file *f,
                             const char *path, const wefti_source_wish *wish,
                             uint64_t *hash) {
    keeper k = {.store = &s->texts, .limit = wish->limit};
    XXH3_64bits_reset(&k.hash);
    f->first = s->texts.n;
    WEFT_TRY(wefti_encode_file(ctx, &wish->encoding, path, keep_ids, &k));
    *hash = XXH3_64bits_digest(&k.hash);
    f->n_tokens = s->texts.n - f->first;
    return WEFT_OK;
}

static weft_status open_any(weft_ctx *ctx, wefti_source *s, wefti_token_file *f,
                            const char *path, const wefti_source_wish *wish,
                            uint64_t *hash) {
    if (!wefti_source_is_shard(path)) return open_text(ctx, s, f, path, wish, hash);
    WEFT_TRY(weft_shard_open(ctx, path, wish->encoding.tokenizer, &f->shard));
    f->n_tokens = weft_shard_tokens(f->shard);
    *hash = wefti_shard_checksum(f->shard);
    return WEFT_OK;
}

static weft_status add_file(weft_ctx *ctx, wefti_source *s, const char *path,
                            const wefti_source_wish *wish) {
    uint64_t hash[2] = {s->hash, 0};
    WEFT_TRY(wefti_reserve(ctx, &s->files, &s->files_capacity, s->n_files, 1,
                           sizeof *s->files, "data files"));
    wefti_token_file *f = &s->files[s->n_files++];
    f->start = s->n_tokens;
    WEFT_TRY(open_any(ctx, s, f, path, wish, &hash[1]));
    s->n_tokens += f->n_tokens;
    s->hash = XXH3_64bits(hash, sizeof hash);
    return WEFT_OK;
}

/* Tables are refused by name when they are opened: a corpus is not left out without a word. */
static bool is_data(const char *name) {
    return ends_in(name, ".bin") || ends_in(name, ".parquet") ||
           ends_in(name, ".arrow") || wefti_text_layout_known(name);
}

enum { KINDS_BYTES = 200 };

/* The files of a folder that are not read, by kind: "2 .pdf, 1 .png"; "": there are none. */
static void name_kinds(const wefti_walk *files, char kinds[KINDS_BYTES]) {
    size_t n = 0;
    kinds[0] = '\0';
    for (int i = 0; i < WEFTI_MOST_UNWANTED && files->skipped[i].n > 0; i++) {
        const wefti_unwanted *u = &files->skipped[i];
        const char *rest = i == WEFTI_MOST_UNWANTED - 1 ? "others" : "without an ending";
        n += (size_t)snprintf(kinds + n, KINDS_BYTES - n, "%s%lld %s", i ? ", " : "",
                              (long long)u->n, u->ending[0] ? u->ending : rest);
    }
}

/* Says that once. */
static void warn_of_left_out(weft_ctx *ctx, const char *path, const wefti_walk *files,
                             int64_t n_read) {
    char kinds[KINDS_BYTES];
    name_kinds(files, kinds);
    if (kinds[0])
        wefti_ctx_warn_once(
            ctx, WEFTI_WARNING_LEFT_OUT,
            "%s: %lld files are read, %lld are left out (%s): in a folder "
            "text is named .txt, .md, .jsonl, .csv or .tsv",
            path, (long long)n_read, (long long)files->n_skipped, kinds);
}

/* A run's records and a model's card are no corpus, though some of their names are a text's. */
static weft_status refuse_other_folder(weft_ctx *ctx, const char *path) {
    char runs[400];
    weft_folder kind = weft_folder_look(path);
    if (kind != WEFT_FOLDER_OTHER)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is the folder of a %s, expected texts", path,
                             kind == WEFT_FOLDER_RUN ? "run" : "model");
    if (!wefti_runs_in(path, runs, sizeof runs)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "%s holds runs, expected one of them or texts: %s", path, runs);
}

weft_status wefti_source_files(weft_ctx *ctx, const char *path, wefti_walk *files) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        int64_t before = files->n;
        WEFT_TRY(refuse_other_folder(ctx, path));
        WEFT_TRY(wefti_walk_folder(ctx, path, is_data, files));
        if (files->n > before) {
            warn_of_left_out(ctx, path, files, files->n - before);
            return WEFT_OK;
        }
        char kinds[KINDS_BYTES];
        name_kinds(files, kinds);
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "the folder %s has no *.txt, *.md, *.jsonl, *.csv (or those "
                             "with .gz or .zst) and no *.bin%s%s",
                             path, kinds[0] ? ", but " : "", kinds);
    }
    WEFT_TRY(wefti_reserve(ctx, &files->paths, &files->capacity, files->n, 1,
                           sizeof *files->paths, "names of files"));
    char local[PATH_MAX];
    WEFT_TRY(wefti_fetch_file(ctx, path, local));
    if (wefti_address_is(path) && !wefti_source_is_shard(local))
        WEFT_TRY(
            wefti_documents_look(ctx, path, NULL)); /* names the address, not the copy */
    WEFT_TRY(wefti_strdup(ctx, local, &files->paths[files->n]));
    files->n++;
    return WEFT_OK;
}

typedef struct gathering {
    wefti_buffer *text;
    int64_t most;
    bool ended; /* the next bytes are another document's */
} gathering;

static weft_status gather(weft_ctx *ctx, void *user, const char *text, int64_t n,
                          bool ends) {
    gathering *g = user;
    int64_t before = g->text->n;
    if (n > 0 && g->ended && before > 0 && before < g->most &&
        g->text->bytes[before - 1] != '\n')
        wefti_buffer_put(ctx, g->text, "\n", 1);
    if (n > 0) g->ended = false;
    int64_t room = g->most - g->text->n;
    wefti_buffer_put(ctx, g->text, text, n < room ? n : room > 0 ? room : 0);
    g->ended = g->ended || ends;
    return g->text->status;
}

static weft_status gather_file(weft_ctx *ctx, const char *path,
                               const wefti_fields *fields, gathering *g) {
    if (wefti_source_is_shard(path) || g->text->n >= g->most) return WEFT_OK;
    return wefti_documents_read(ctx, path, fields, gather, g);
}

weft_status wefti_source_twice(weft_ctx *ctx, const char *path) {
    struct stat info;
    bool folder_or_file = stat(path, &info) != 0 || S_ISREG(info.st_mode) ||
                          S_ISDIR(info.st_mode);
    if (!wefti_is(path, "-") && folder_or_file) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "%s can be read only once, and data.tokenizer=bpe reads the "
                         "text twice: write it to a file, or train the tokenizer "
                         "before (weft data train-tokenizer)",
                         path);
}

weft_status wefti_source_text(weft_ctx *ctx, const char *path, const wefti_fields *fields,
                              int64_t most, wefti_buffer *text) {
    wefti_walk files = {0};
    gathering g = {.text = text, .most = most};
    weft_status status = wefti_source_files(ctx, path, &files);
    for (int64_t k = 0; k < files.n && status == WEFT_OK; k++)
        status = gather_file(ctx, files.paths[k], fields, &g);
    wefti_walk_fini(ctx, &files);
    return status;
}

/* A text alone goes on from its last token to nothing; other files are followed by more. */
weft_status wefti_source_open(weft_ctx *ctx, wefti_source *s, const char *path,
                              const wefti_source_wish *wish) {
    wefti_walk files = {0};
    struct stat info;
    wefti_source_wish each = *wish;
    wefti_ids_init(&s->texts, weft_tokenizer_vocab(wish->encoding.tokenizer));
    WEFT_TRY(wefti_strdup(ctx, path, &s->path));
    s->folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    weft_status status = wefti_source_files(ctx, path, &files);
    for (int64_t k = 0; k < files.n && status == WEFT_OK; k++) {
        each.encoding.ends = s->folder ||
                             wefti_text_layout_of(files.paths[k]) != WEFTI_TEXT_PLAIN;
        status = add_file(ctx, s, files.paths[k], &each);
    }
    if (status == WEFT_OK) status = wefti_ids_trim(ctx, &s->texts);
    s->n_skipped = files.n_skipped;
    wefti_walk_fini(ctx, &files);
    return status;
}

void wefti_source_close(weft_ctx *ctx, wefti_source *s) {
    for (int64_t k = 0; k < s->n_files; k++) weft_shard_close(ctx, s->files[k].shard);
    if (s->path) wefti_ids_close(ctx, &s->texts);
    WEFTI_FREE(ctx, s->files, s->path);
    *s = (wefti_source){0};
}

/* The file that holds token `at`. */
static int64_t file_of(const wefti_source *s, int64_t at) {
    int64_t low = 0, high = s->n_files;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (s->files[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void wefti_source_read(const wefti_source *s, int64_t start, int64_t n, int32_t *ids) {
    for (int64_t k = file_of(s, start); n > 0; k++) {
        const wefti_token_file *f = &s->files[k];
        int64_t offset = start - f->start, part = f->n_tokens - offset;
        if (part > n) part = n;
        if (f->shard)
            weft_shard_read(f->shard, offset, part, ids);
        else
            wefti_ids_read(&s->texts, f->first + offset, part, ids);
        start += part;
        ids += part;
        n -= part;
    }
}

const char *wefti_source_kind(const wefti_source *s, char *out, size_t out_size) {
    if (s->folder && s->n_skipped > 0)
        snprintf(out, out_size, "%lld files, %lld of other kinds left out",
                 (long long)s->n_files, (long long)s->n_skipped);
    else if (s->folder)
        snprintf(out, out_size, "%lld files", (long long)s->n_files);
    else
        snprintf(out, out_size, "%s",
                 s->files[0].shard ? weft_shard_format(s->files[0].shard) : "text");
    return out;
}
