/* SPDX-License-Identifier: MIT */
/* The operands of a command line: run files, keys, texts, folders of runs and models. */
#include "operands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/cluster.h>
#include <weft/report.h>
#include <weft/train.h>

#include "common.h"

typedef enum kind { KEY, RUN_FILE, RUN, RUN_AT, MODEL, DATA } kind;

static weft_status set_from_flags(weft_ctx *ctx, const args *a, weft_config *config) {
    char assignment[4200];
    for (int i = 0; a->command->flags && a->command->flags[i].name; i++) {
        const flag *f = &a->command->flags[i];
        if (!f->key || !a->values[i]) continue;
        const char *value = f->placeholder ? a->values[i] : "true";
        int n = snprintf(assignment, sizeof assignment, "%s=%s", f->key, value);
        if (n >= (int)sizeof assignment)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "the value of %s is too long",
                                 f->name);
        WEFT_TRY(weft_config_set(ctx, config, assignment));
    }
    return WEFT_OK;
}

static bool ends_as(const char *text, const char *const *ends) {
    size_t n = strlen(text);
    for (; *ends; ends++) {
        size_t m = strlen(*ends);
        if (n >= m && strcmp(text + n - m, *ends) == 0) return true;
    }
    return false;
}

/* Whether a beginning is that of a run file: its first line of words is a section or a key, in an
 * object, too. */
static bool holds_keys(const char *head) {
    const char *at = head + strspn(head, " \t\r\n");
    while (*at == '#' || *at == '%' || strncmp(at, "---", 3) == 0) {
        at += strcspn(at, "\n");
        at += strspn(at, " \t\r\n");
    }
    at += strspn(at, "{\" \t\r\n");
    size_t n = strcspn(at, "\": \t\r\n");
    const weft_config_key *key;
    for (int i = 0; n > 0 && (key = weft_config_key_at(i)); i++)
        if (strncmp(key->name, at, n) == 0 && strchr(".", key->name[n]) &&
            at[n + strspn(at + n, "\" \t")] == ':')
            return true;
    return false;
}

static const char *const texts[] = {".txt",   ".md",      ".jsonl", ".ndjson", ".csv",
                                    ".tsv",   ".bin",     ".gz",    ".zst",    ".parquet",
                                    ".arrow", ".feather", NULL};

static const char *const yamls[] = {".yaml", ".yml", NULL};

/* What is neither a known name nor a file of keys is data. A description of a model by Hugging
 * Face, whose keys are no run's, is refused. */
static weft_status kind_of_file(weft_ctx *ctx, const char *operand, kind *out) {
    char head[8192] = "";
    FILE *file = fopen(operand, "rb");
    if (file) {
        head[fread(head, 1, sizeof head - 1, file)] = '\0';
        fclose(file);
    }
    if (head[0] == '{' && !ends_as(operand, texts) &&
        (strstr(head, "\"model_type\"") || strstr(head, "\"architectures\"")))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s describes a model, expected the folder that it is in; "
                             "weft plan --hf %s reads it alone",
                             operand, operand);
    bool keys = !ends_as(operand, texts) && (ends_as(operand, yamls) || holds_keys(head));
    *out = keys ? RUN_FILE : DATA;
    return WEFT_OK;
}

static bool is_address(const char *operand) {
    const char *at = strstr(operand, "://");
    return at && at < operand + strcspn(operand, "=");
}

/* Whether what lies there is a run's folder, and not a model's alone. */
static weft_status look_for_run(weft_ctx *ctx, const char *address, bool *is_run) {
    weft_config *there;
    WEFT_TRY(weft_config_create(ctx, &there));
    *is_run = weft_run_fetch(ctx, address, there) == WEFT_OK;
    weft_ctx_clear(ctx);
    weft_config_destroy(ctx, there);
    return WEFT_OK;
}

/* An address that is neither that of a text nor, with --resume, of a run. */
static weft_status kind_of_address(weft_ctx *ctx, const args *a, const char *operand,
                                   kind *out) {
    char model[PATH_MAX];
    bool is_run = false;
    WEFT_TRY(weft_address_look(ctx, operand, model, sizeof model));
    *out = model[0] ? MODEL : DATA;
    if (model[0] && args_knows(a, "--resume"))
        WEFT_TRY(look_for_run(ctx, operand, &is_run));
    if (!is_run) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "%s is a run: expected --resume to continue it, or --init %s for a "
        "new run that begins with its model",
        operand, operand);
}

static bool is_key(const char *operand) {
    char name[64];
    size_t n = strcspn(operand, "=");
    if (!operand[n]) return false;
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), operand);
    struct stat info;
    return key_of(name) || stat(operand, &info) != 0;
}

static weft_status kind_of(weft_ctx *ctx, const args *a, const char *operand, kind *out) {
    struct stat info;
    *out = DATA;
    if (strncmp(operand, "s3://", 5) == 0 && args_has(a, "--resume") &&
        !ends_as(operand, texts)) {
        *out = RUN_AT;
    } else if (is_address(operand) && ends_as(operand, yamls)) {
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s is the address of a run file, expected one on this "
                             "machine: fetch it first",
                             operand);
    } else if (is_address(operand)) {
        return kind_of_address(ctx, a, operand, out);
    } else if (strcmp(operand, "-") == 0) {
        *out = DATA;
    } else if (is_key(operand)) {
        *out = KEY;
    } else if (stat(operand, &info) != 0 && weft_accelerator_find(operand)) {
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s is an accelerator and no file here, expected weft plan "
                             "--accelerator %s --link 1Gbit,1ms",
                             operand, operand);
    } else if (stat(operand, &info) != 0 || S_ISREG(info.st_mode)) {
        return kind_of_file(ctx, operand, out);
    } else if (S_ISDIR(info.st_mode)) {
        weft_folder folder = weft_folder_look(operand);
        *out = folder == WEFT_FOLDER_RUN     ? RUN
               : folder == WEFT_FOLDER_MODEL ? MODEL
                                             : DATA;
    }
    return WEFT_OK;
}

/* Adds an operand to the list of texts. */
static weft_status add_data(weft_ctx *ctx, const char *operand, char *list, size_t size) {
    struct stat info;
    size_t n = strlen(list);
    if (strcmp(operand, "-") != 0 && !is_address(operand) && stat(operand, &info) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open %s: %s", operand,
                             strerror(errno));
    int put = snprintf(list + n, size - n, "%s\"%s\"", n ? ", " : "data.path=[", operand);
    if (strpbrk(operand, "\"\\") || n + (size_t)put + 2 >= size)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the name %s is too long here or has a quote or a "
                             "backslash; give data.path=NAME",
                             operand);
    return WEFT_OK;
}

/* Sets a key to the name of a folder, without slashes at its end. */
static weft_status set_folder(weft_ctx *ctx, const char *key, const char *folder,
                              weft_config *config) {
    char text[PATH_MAX + 32];
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    snprintf(text, sizeof text, "%s=%.*s", key, (int)n, folder);
    return weft_config_set(ctx, config, text);
}

static weft_status load_run(weft_ctx *ctx, const char *folder, weft_config *config) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/config.yaml", folder) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    WEFT_TRY(weft_config_load(ctx, config, path));
    return set_folder(ctx, "run.folder", folder, config);
}

/* Of folders that each are the whole of a run or of a model, the last would hide the others. */
static weft_status expect_one(weft_ctx *ctx, const char **first, const char *operand,
                              const char *what) {
    if (*first)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%s and %s are two %s, expected one",
                             *first, operand, what);
    *first = operand;
    return WEFT_OK;
}

static bool is_outside(const char *path) {
    bool outside = path[0] == '/';
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        outside |= strcspn(part, "/") == 2 && strncmp(part, "..", 2) == 0;
    }
    return outside;
}

/* What came from an address chooses no place outside this folder, to read or to write; the command
 * may. */
static weft_status check_places(weft_ctx *ctx, const char *from, const weft_config *c) {
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        const void *place = (const char *)c + key->offset;
        bool many = key->type == WEFT_KEY_TEXTS;
        if (!key->is_path || weft_config_origin_of(c, key) == WEFT_ORIGIN_COMMAND)
            continue;
        weft_texts paths = many ? *(const weft_texts *)place : (weft_texts){place, 1};
        for (int k = 0; k < paths.n; k++)
            if (is_outside(paths.items[k]))
                return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                     "the config.yaml of %s has %s %s, which is outside "
                                     "this folder: set %s in the command",
                                     from, key->name, paths.items[k], key->name);
    }
    return WEFT_OK;
}

weft_status operands_read(weft_ctx *ctx, const args *a, weft_config *config) {
    char list[8192] = "";
    const char *run = NULL, *model = NULL, *fetched = NULL;
    for (int i = 0; i < a->n_operands; i++) { /* a later file overrides an earlier one */
        const char *operand = a->operands[i];
        kind what;
        WEFT_TRY(kind_of(ctx, a, operand, &what));
        if (what == RUN || what == RUN_AT)
            WEFT_TRY(expect_one(ctx, &run, operand, "runs"));
        if (what == RUN_AT) fetched = operand;
        if (what == MODEL) WEFT_TRY(expect_one(ctx, &model, operand, "models"));
        switch (what) {
        case KEY: WEFT_TRY(weft_config_set(ctx, config, operand)); break;
        case RUN_FILE: WEFT_TRY(weft_config_load(ctx, config, operand)); break;
        case RUN: WEFT_TRY(load_run(ctx, operand, config)); break;
        case RUN_AT: WEFT_TRY(weft_run_fetch(ctx, operand, config)); break;
        case MODEL: WEFT_TRY(set_folder(ctx, "model.init", operand, config)); break;
        case DATA: WEFT_TRY(add_data(ctx, operand, list, sizeof list)); break;
        }
    }
    if (list[0]) {
        strcat(list, "]");
        WEFT_TRY(weft_config_set(ctx, config, list));
    }
    WEFT_TRY(set_from_flags(ctx, a, config));
    return fetched ? check_places(ctx, fetched, config) : WEFT_OK;
}

static bool is_operand(const args *a, const char *path) {
    for (int i = 0; i < a->n_operands; i++)
        if (strcmp(path, a->operands[i]) == 0) return true;
    return false;
}

static weft_status look_at(weft_ctx *ctx, const args *a, const weft_config *config,
                           const char *path) {
    bool is_text;
    WEFT_TRY(weft_data_look(ctx, config, path, &is_text));
    if (is_text && is_operand(a, path) && !ends_as(path, texts))
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "%s is read as text, because it begins with no section of a run "
                     "file; data.path=%s says so, a run file is named *.yaml",
                     path, path);
    return WEFT_OK;
}

/* What keys name may lie on another machine, with all the rest of its data. */
weft_status operands_look(weft_ctx *ctx, const args *a, const weft_config *config) {
    bool here = config->data.path.n > 0;
    struct stat info;
    for (int k = 0; k < config->data.path.n; k++) {
        const char *path = config->data.path.items[k];
        bool there = stat(path, &info) == 0;
        if (there || is_operand(a, path)) WEFT_TRY(look_at(ctx, a, config, path));
        here = here && there;
    }
    for (int k = 0; k < config->data.validation_path.n; k++) {
        const char *path = config->data.validation_path.items[k];
        if (here || stat(path, &info) == 0) WEFT_TRY(look_at(ctx, a, config, path));
    }
    return WEFT_OK;
}
