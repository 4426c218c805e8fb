/* SPDX-License-Identifier: MIT */
/* What a newcomer gets (bundle.h): from a configuration and files to text, and back. */
#define _GNU_SOURCE
#include "invite/bundle.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/version.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/schema.h"
#include "net/tls.h"

static const char *const kinds[WEFTI_BUNDLE_KINDS] = {
    "data.path", "data.validation_path", "data.tokenizer", "model.init", "adapter.init"};
static const int lists = 2; /* the first kinds have several items */

/* The i-th value of a kind, or NULL past the last. */
static const char *value_of(const weft_config *c, int kind, int i) {
    const char *const one[WEFTI_BUNDLE_KINDS] = {NULL, NULL, c->data.tokenizer,
                                                 c->model.init, c->adapter.init};
    const weft_texts *many = kind == 0 ? &c->data.path : &c->data.validation_path;
    if (kind < lists) return i < many->n ? many->items[i] : NULL;
    return i == 0 && one[kind] && one[kind][0] ? one[kind] : NULL;
}

/* --- what is given --- */

/* A name that other systems take, too. */
static void tidy_name(const char *name, char out[WEFTI_BUNDLE_NAME_BYTES]) {
    size_t n = strlen(name);
    if (n > WEFTI_BUNDLE_NAME_BYTES - 1) name += n - (WEFTI_BUNDLE_NAME_BYTES - 1);
    snprintf(out, WEFTI_BUNDLE_NAME_BYTES, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c)) *c = '_';
    if (out[0] == '.') out[0] = '_';
}

static bool is_tidy(const char *name) {
    char tidy[WEFTI_BUNDLE_NAME_BYTES];
    tidy_name(name, tidy);
    return name[0] && strcmp(name, tidy) == 0;
}

static weft_status add_file(weft_ctx *ctx, wefti_bundle *p, wefti_bundle_file file,
                            const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return WEFT_OK;
    if (p->n_files >= WEFTI_BUNDLE_FILES) {
        snprintf(p->missing[file.kind], sizeof p->missing[0],
                 "the run has more than %d files, which it does not give",
                 (int)WEFTI_BUNDLE_FILES);
        return WEFT_OK;
    }
    const char *slash = strrchr(path, '/');
    tidy_name(slash ? slash + 1 : path, file.name);
    file.n_bytes = info.st_size;
    WEFT_TRY(wefti_reserve(ctx, &p->files, &p->room, p->n_files, 1, sizeof *p->files,
                           "files for newcomers"));
    WEFT_TRY(wefti_strdup(ctx, path, &file.path));
    p->files[p->n_files++] = file;
    return WEFT_OK;
}

static weft_status add_folder(weft_ctx *ctx, wefti_bundle *p, wefti_bundle_file file,
                              const char *folder) {
    DIR *all = opendir(folder);
    weft_status status = WEFT_OK;
    if (!all) return wefti_fail_errno(ctx, "open", folder);
    file.folder = true;
    for (struct dirent *one; status == WEFT_OK && (one = readdir(all));) {
        char path[PATH_MAX];
        if (one->d_name[0] != '.')
            status = wefti_file_path(ctx, folder, one->d_name, path);
        if (one->d_name[0] != '.' && status == WEFT_OK)
            status = add_file(ctx, p, file, path);
    }
    closedir(all);
    return status;
}

/* An address that says all; what signs one is a secret of the machine that has it. */
static bool is_open_address(const char *value) {
    char shown[4200];
    size_t n = strlen(value);
    if (!strstr(value, "://") || n < 4 || n >= sizeof shown) return false;
    memcpy(shown, value, n + 1);
    return wefti_is(wefti_text_hide(shown), value) && !wefti_is(value + n - 3, "...");
}

/* Whether newcomers fetch this list themselves: all of it, as its order counts. */
static bool is_fetched(const weft_config *c, int kind) {
    const char *value;
    bool fetched = kind < lists && value_of(c, kind, 0);
    for (int i = 0; fetched && (value = value_of(c, kind, i)); i++)
        fetched = is_open_address(value);
    return fetched;
}

static weft_status add_item(weft_ctx *ctx, wefti_bundle *p, wefti_bundle_file file,
                            const char *value) {
    char shown[4200];
    struct stat info;
    int64_t before = p->n_files;
    if (stat(value, &info) != 0 && file.kind >= lists) return WEFT_OK; /* a word: bytes */
    if (stat(value, &info) == 0)
        WEFT_TRY(S_ISDIR(info.st_mode) ? add_folder(ctx, p, file, value)
                                       : add_file(ctx, p, file, value));
    if (p->n_files > before || p->missing[file.kind][0]) return WEFT_OK;
    snprintf(shown, sizeof shown, "%s", value);
    snprintf(p->missing[file.kind], sizeof p->missing[0],
             "%s of the run is %.150s, which is no file that it can give",
             kinds[file.kind], wefti_text_hide(shown));
    return WEFT_OK;
}

/* Of one machine alone, or given in another way. */
static bool stays_here(const weft_config *c, const weft_config_key *key) {
    for (int kind = 0; kind < lists; kind++)
        if (wefti_is(key->name, kinds[kind])) return !is_fetched(c, kind);
    for (int kind = lists; kind < WEFTI_BUNDLE_KINDS; kind++)
        if (wefti_is(key->name, kinds[kind])) return false;
    if (wefti_is(key->name, "batch.micro") || wefti_is(key->name, "model.recompute"))
        return false; /* as a machine like this one would have it */
    return wefti_config_key_is_own(key) || wefti_is(key->name, "mesh.nodes") ||
           wefti_is(key->name, "mesh.ranks_per_node");
}

static weft_status config_text(weft_ctx *ctx, const wefti_bundle *p, weft_config *copy,
                               char **out) {
    const char *text;
    for (const weft_config_key *key = wefti_config_keys; key->name; key++)
        if (stays_here(copy, key)) WEFT_TRY(weft_config_reset(ctx, copy, key->name));
    for (int64_t i = 0; i < p->n_files; i++) {
        char assignment[64];
        int kind = p->files[i].kind;
        snprintf(assignment, sizeof assignment, "%s=%s", kinds[kind],
                 kind == 2 ? "bytes" : "");
        if (kind >= lists) WEFT_TRY(weft_config_set(ctx, copy, assignment));
    }
    WEFT_TRY(weft_config_text(ctx, copy, WEFT_CONFIG_BARE, &text));
    return wefti_strdup(ctx, text, out);
}

weft_status wefti_bundle_make(weft_ctx *ctx, const weft_invite_setup *setup,
                              wefti_bundle *out) {
    unsigned char key[WEFTI_KEY_BYTES];
    weft_config *copy;
    const char *value;
    *out = (wefti_bundle){.run_port = setup->run_port};
    WEFT_TRY(wefti_key_read(ctx, setup->key, key));
    for (int i = 0; i < WEFTI_KEY_BYTES; i++)
        snprintf(out->key + 2 * i, 3, "%02x", key[i]);
    OPENSSL_cleanse(key, sizeof key);
    for (int kind = 0; kind < WEFTI_BUNDLE_KINDS; kind++) {
        if (is_fetched(setup->config, kind)) continue;
        for (int i = 0; (value = value_of(setup->config, kind, i)); i++)
            WEFT_TRY(
                add_item(ctx, out, (wefti_bundle_file){.kind = kind, .item = i}, value));
    }
    WEFT_TRY(weft_config_copy(ctx, setup->config, &copy));
    weft_status status = config_text(ctx, out, copy, &out->config);
    weft_config_destroy(ctx, copy);
    return status;
}

static json_t *files_of(const wefti_bundle *p, const bool *gives) {
    json_t *list = json_array();
    for (int64_t i = 0; i < p->n_files; i++) {
        const wefti_bundle_file *f = &p->files[i];
        if (gives[i])
            json_array_append_new(list,
                                  json_pack("[i,i,b,s,I]", f->kind, f->item, f->folder,
                                            f->name, (json_int_t)f->n_bytes));
    }
    return list;
}

weft_status wefti_bundle_text(weft_ctx *ctx, const wefti_bundle *p,
                              const wefti_wish *wish, bool *gives, char **text) {
    char missing[320] = "";
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < p->n_files; i++) {
        gives[i] = wish->keys >> p->files[i].kind & 1;
        if (gives[i]) n_bytes += p->files[i].n_bytes;
    }
    if (n_bytes > wish->most_bytes) {
        snprintf(
            missing, sizeof missing,
            "the run's files have %" PRId64 " bytes, more than the %" PRId64
            " that are given: take more by --text, or name your own by data.path=FILE",
            n_bytes, wish->most_bytes);
        memset(gives, 0, (size_t)p->n_files * sizeof *gives);
    }
    for (int kind = 0; kind < WEFTI_BUNDLE_KINDS && !missing[0]; kind++)
        if (wish->keys >> kind & 1 && p->missing[kind][0])
            snprintf(missing, sizeof missing, "%s; name your own by %s=FILE%s",
                     p->missing[kind], kinds[kind],
                     kind < lists ? ", or the whole address" : "");
    json_t *object = json_pack("{s:s,s:i,s:s,s:s,s:s,s:o}", "version", WEFT_VERSION,
                               "port", p->run_port, "key", p->key, "config", p->config,
                               "missing", missing, "files", files_of(p, gives));
    if (!object)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "the run's files have names that are not UTF-8");
    weft_status status = wefti_json_text(ctx, object, JSON_COMPACT, text, &n_bytes);
    json_decref(object);
    return status;
}

/* --- what is taken --- */

unsigned wefti_bundle_wants(const weft_config *own) {
    unsigned wants = 0;
    for (int kind = 0; kind < WEFTI_BUNDLE_KINDS; kind++) {
        const char *value = own ? value_of(own, kind, 0) : NULL;
        bool named = value && (kind < lists || access(value, F_OK) == 0);
        if (!named) wants |= 1u << kind;
    }
    return wants;
}

static weft_status refuse(weft_ctx *ctx, const char *what) {
    return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                         "the run's list of files is not one that weft makes: %s", what);
}

/* The next file: items in order, one file each or the files of a folder. */
static bool follows(const wefti_bundle *p, const wefti_bundle_file *f) {
    const wefti_bundle_file *last = p->n_files > 0 ? &p->files[p->n_files - 1] : NULL;
    bool new_kind = !last || f->kind > last->kind;
    if (f->kind < 0 || f->kind >= WEFTI_BUNDLE_KINDS || (last && f->kind < last->kind))
        return false;
    if (f->kind >= lists && f->item != 0) return false;
    if (new_kind) return f->item == 0;
    if (f->item == last->item) return f->folder && last->folder;
    return f->item == last->item + 1;
}

static weft_status read_file(weft_ctx *ctx, json_t *row, wefti_bundle *p, int64_t *left) {
    wefti_bundle_file f = {0};
    const char *name;
    int folder;
    json_int_t n_bytes;
    if (json_unpack(row, "[i,i,b,s,I!]", &f.kind, &f.item, &folder, &name, &n_bytes) != 0)
        return refuse(ctx, "a file is no list of five");
    f.folder = folder;
    f.n_bytes = n_bytes;
    if (!is_tidy(name) || !follows(p, &f)) return refuse(ctx, "a name or place is wrong");
    if (n_bytes < 0 || n_bytes > *left) return refuse(ctx, "a file is too long");
    *left -= n_bytes;
    snprintf(f.name, sizeof f.name, "%s", name);
    p->files[p->n_files++] = f;
    return WEFT_OK;
}

static weft_status read_files(weft_ctx *ctx, json_t *list, const wefti_wish *wish,
                              wefti_bundle *p) {
    int64_t left = wish->most_bytes;
    size_t n = json_array_size(list);
    if (n > WEFTI_BUNDLE_FILES) return refuse(ctx, "too many files");
    WEFT_TRY(wefti_reserve(ctx, &p->files, &p->room, 0, (int64_t)n, sizeof *p->files,
                           "files of the run"));
    for (size_t i = 0; i < n; i++) {
        WEFT_TRY(read_file(ctx, json_array_get(list, i), p, &left));
        if (!(wish->keys >> p->files[p->n_files - 1].kind & 1))
            return refuse(ctx, "a file was not asked for");
    }
    return WEFT_OK;
}

static weft_status read_object(weft_ctx *ctx, json_t *object, const wefti_wish *wish,
                               wefti_bundle *p) {
    const char *version, *key, *config, *missing;
    json_t *files;
    if (json_unpack(object, "{s:s,s:i,s:s,s:s,s:s,s:o}", "version", &version, "port",
                    &p->run_port, "key", &key, "config", &config, "missing", &missing,
                    "files", &files) != 0 ||
        !json_is_array(files))
        return refuse(ctx, "it lacks a part");
    if (strcmp(version, WEFT_VERSION) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                             "the run is of weft %.40s and this is weft %s, expected the "
                             "same version on both machines",
                             version, WEFT_VERSION);
    if (missing[0]) return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%.500s", missing);
    if (p->run_port < 1 || p->run_port > UINT16_MAX) return refuse(ctx, "no port");
    if (strlen(key) != sizeof p->key - 1 ||
        strspn(key, "0123456789abcdef") != strlen(key))
        return refuse(ctx, "no key");
    memcpy(p->key, key, sizeof p->key);
    WEFT_TRY(wefti_strdup(ctx, config, &p->config));
    return read_files(ctx, files, wish, p);
}

weft_status wefti_bundle_read(weft_ctx *ctx, const char *text, int64_t n,
                              const wefti_wish *wish, wefti_bundle *out) {
    json_t *object;
    *out = (wefti_bundle){0};
    WEFT_TRY(wefti_json_read(ctx, "the run's list of files", "", text, n, WEFT_ERR_PEER,
                             &object));
    weft_status status = read_object(ctx, object, wish, out);
    json_decref(object);
    return status;
}

static void item_folder(const wefti_bundle_file *f, const char *folder,
                        char out[PATH_MAX]) {
    snprintf(out, PATH_MAX, "%.3000s/%s-%d", folder, kinds[f->kind], f->item);
}

weft_status wefti_bundle_path(weft_ctx *ctx, const wefti_bundle *p, int64_t i,
                              const char *folder, char path[PATH_MAX]) {
    char parent[PATH_MAX];
    item_folder(&p->files[i], folder, parent);
    WEFT_TRY(wefti_file_mkdirs(ctx, parent));
    return wefti_file_path(ctx, parent, p->files[i].name, path);
}

/* {"data": {"path": [...]}, ...} of where the files are. */
static json_t *paths_here(const wefti_bundle *p, const char *folder) {
    json_t *all = json_pack("{s:{},s:{},s:{},s:{s:s+},s:{s:s+}}", "data", "model",
                            "adapter", "mesh", "key", folder, "/run.key", "run", "folder",
                            folder, "/run");
    for (int64_t i = 0; all && i < p->n_files; i++) {
        const wefti_bundle_file *f = &p->files[i];
        char path[PATH_MAX], section[16];
        const char *key = strchr(kinds[f->kind], '.') + 1;
        if (i > 0 && f[-1].kind == f->kind && f[-1].item == f->item) continue;
        snprintf(section, sizeof section, "%.*s", (int)(key - 1 - kinds[f->kind]),
                 kinds[f->kind]);
        item_folder(f, folder, path);
        size_t n = strlen(path);
        if (!f->folder) snprintf(path + n, sizeof path - n, "/%s", f->name);
        json_t *keys = json_object_get(all, section), *list = json_object_get(keys, key);
        if (f->kind < lists && !list) {
            list = json_array();
            json_object_set_new(keys, key, list);
        }
        if (f->kind < lists)
            json_array_append_new(list, json_string(path));
        else
            json_object_set_new(keys, key, json_string(path));
    }
    return all;
}

static weft_status write_key(weft_ctx *ctx, const wefti_bundle *p, const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t n = sizeof p->key - 1;
    bool fine = fd >= 0 && write(fd, p->key, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
    int error = errno;
    if (fd >= 0) close(fd);
    if (fine) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not write %s: %s", path,
                         strerror(error));
}

weft_status wefti_bundle_unpack(weft_ctx *ctx, const wefti_bundle *p,
                                const char *folder) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(ctx, folder, "run.key", path));
    WEFT_TRY(write_key(ctx, p, path));
    WEFT_TRY(wefti_file_path(ctx, folder, "run.yaml", path));
    WEFT_TRY(wefti_file_write(ctx, path, p->config, (int64_t)strlen(p->config)));
    WEFT_TRY(wefti_file_path(ctx, folder, "here.yaml", path));
    json_t *here = paths_here(p, folder);
    if (!here)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "the folder %s has no name in UTF-8",
                             folder);
    return wefti_json_write(ctx, path, here);
}

void wefti_bundle_fini(weft_ctx *ctx, wefti_bundle *p) {
    for (int64_t i = 0; i < p->n_files; i++) wefti_free(ctx, p->files[i].path);
    WEFTI_FREE(ctx, p->files, p->config);
    OPENSSL_cleanse(p, sizeof *p);
}
