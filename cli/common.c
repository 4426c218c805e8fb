/* SPDX-License-Identifier: MIT */
/* Shared by all commands: the context with its log, exit codes, and the configuration
 * from files, flags and overrides. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/train.h>

#include "operands.h"
#include "progress.h"

/* only: the level whose lines are shown; NULL: all. */
static void log_line(void *only, weft_log_level level, const char *line) {
    char shown[1200];
    if (only && *(const weft_log_level *)only != level) return;
    plain_text(line, shown, sizeof shown);
    progress_note(level == WEFT_LOG_WARN ? "weft: warning: " : "", shown);
}

static void show_only(weft_ctx *ctx, weft_log_level level) {
    static weft_log_level levels[] = {WEFT_LOG_INFO, WEFT_LOG_WARN, WEFT_LOG_WAIT};
    weft_ctx_set_sink(ctx, log_line, &levels[level]);
}

void program_hush(weft_ctx *ctx) { show_only(ctx, WEFT_LOG_INFO); }

void program_waits(weft_ctx *ctx) { show_only(ctx, WEFT_LOG_WAIT); }

void program_speak(weft_ctx *ctx) { weft_ctx_set_sink(ctx, log_line, NULL); }

weft_ctx *program_context(void) {
    weft_ctx *ctx;
    if (weft_ctx_create(&ctx) != WEFT_OK) {
        usage_error("no memory left to start");
        return NULL;
    }
    program_speak(ctx);
    return ctx;
}

/* Gives each number with a point the fewest digits that read back to it, in place: 0.05, which
 * the JSON library writes as 0.050000000000000003. */
static void shorten(char *text) {
    char *out = text;
    for (char *at = text, *end; *at; at = end) {
        char number[40];
        double x = strtod(at, &end);
        if (*at == '"')
            for (end++; *end++ != '"';) end += end[-1] == '\\';
        else if (end == at)
            end++;
        size_t n = (size_t)(end - at);
        if (*at != '"' && memchr(at, '.', n)) {
            for (int digits = 15; digits <= 17; digits++) {
                snprintf(number, sizeof number, "%.*g", digits, x);
                if (strtod(number, NULL) == x) break;
            }
            if (!strpbrk(number, ".e")) strcat(number, ".0");
            if (strlen(number) < n) at = memcpy(at, number, n = strlen(number));
        }
        memmove(out, at, n);
        out += n;
    }
    *out = '\0';
}

int say_json(json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    if (!text) return usage_error("no memory left for the answer");
    shorten(text);
    puts(weft_address_hide(text));
    free(text);
    return CODE_OK;
}

static void (*tell_start)(void *user);
static void *start_user;

void program_at_start(void (*tell)(void *user), void *user) {
    tell_start = tell;
    start_user = user;
}

void program_starts(void) {
    if (tell_start) tell_start(start_user);
    tell_start = NULL;
}

int code_of(weft_status status) {
    switch (status) {
    case WEFT_OK: return CODE_OK;
    case WEFT_ERR_ARGUMENT:
    case WEFT_ERR_CONFIG:
    case WEFT_ERR_FILE:
    case WEFT_ERR_FORMAT:
    case WEFT_ERR_MEMORY: return CODE_USAGE;
    case WEFT_ERR_WIRE:
    case WEFT_ERR_PEER:
    case WEFT_ERR_NUMERIC:
    case WEFT_ERR_INTERNAL: break;
    }
    return CODE_FAILED;
}

int program_code(const weft_ctx *ctx, weft_status status) {
    if (status == WEFT_OK) return CODE_OK;
    const char *sentence = weft_ctx_message(ctx);
    progress_note("weft: ", sentence[0] ? sentence : weft_status_name(status));
    return code_of(status);
}

static weft_status fill(weft_ctx *ctx, const args *a, const weft_mesh *mesh,
                        weft_config *config) {
    WEFT_TRY(operands_read(ctx, a, config));
    if (mesh) WEFT_TRY(weft_mesh_fit(ctx, mesh, config));
    WEFT_TRY(weft_config_finish(ctx, config));
    return operands_look(ctx, a, config);
}

static const char *text_or_null(const char *text) { return text[0] ? text : NULL; }

/* Opens a mesh for a run that this process starts alone; others join it at PORT. */
static weft_status begin_mesh(weft_ctx *ctx, const char *text,
                              const weft_mesh_security *security, weft_mesh **out) {
    int64_t port;
    if (!weft_quantity_parse_int(text, WEFT_UNIT_PLAIN, &port) || port < 1 ||
        port > 65535)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--listen %s: expected a port from 1 to 65535", text);
    return weft_mesh_begin(ctx, (int)port, security, out);
}

/* The configuration is read only for the keys of the section mesh that concern security.
 * It is complete only when the mesh knows where the ranks run. */
weft_status security_of_args(weft_ctx *ctx, const args *a, weft_config **config,
                             weft_mesh_security *out) {
    *out = (weft_mesh_security){.struct_size = sizeof(weft_mesh_security)};
    WEFT_TRY(weft_config_create(ctx, config));
    program_hush(ctx);
    weft_status status = operands_read(ctx, a, *config);
    program_speak(ctx);
    WEFT_TRY(status);
    const weft_config *c = *config;
    *out = (weft_mesh_security){.struct_size = sizeof(weft_mesh_security),
                                .key = text_or_null(c->mesh.key),
                                .cert = text_or_null(c->mesh.cert),
                                .cert_key = text_or_null(c->mesh.cert_key),
                                .ca = text_or_null(c->mesh.ca),
                                .plain = !c->mesh.encrypt,
                                .run = text_or_null(c->mesh.run),
                                .streams = (int)c->mesh.streams};
    const char *encrypt = getenv("WEFT_ENCRYPT"), *run = getenv("WEFT_RUN");
    if (!out->key) out->key = getenv("WEFT_KEY_FILE");
    if (!out->run && run && run[0]) out->run = run;
    if (encrypt && strcmp(encrypt, "on") != 0 && strcmp(encrypt, "off") != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "WEFT_ENCRYPT is '%s', expected on or off", encrypt);
    out->plain |= encrypt && strcmp(encrypt, "off") == 0;
    return WEFT_OK;
}

weft_status mesh_of_args(weft_ctx *ctx, const args *a, weft_mesh **out) {
    weft_config *config = NULL;
    weft_mesh_security security = {.struct_size = sizeof security};
    *out = NULL;
    weft_status status = security_of_args(ctx, a, &config, &security);
    const char *where = args_value(a, "--join"), *port = args_value(a, "--listen");
    if (status == WEFT_OK && where && port)
        status = weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "--listen begins a run and --join comes into one: expected one of them");
    else if (status == WEFT_OK && where)
        status = weft_mesh_enter(ctx, where, 0, 0, &security, out);
    else if (status == WEFT_OK && port)
        status = begin_mesh(ctx, port, &security, out);
    else if (status == WEFT_OK)
        status = weft_mesh_open(ctx, &security, out);
    weft_config_destroy(ctx, config);
    return status;
}

weft_status config_on_mesh(weft_ctx *ctx, const args *a, const weft_mesh *mesh,
                           weft_config **out) {
    *out = NULL;
    weft_config *config;
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_status status = fill(ctx, a, mesh, config);
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, config);
        return status;
    }
    *out = config;
    return WEFT_OK;
}

weft_status config_of_args(weft_ctx *ctx, const args *a, weft_config **out) {
    return config_on_mesh(ctx, a, NULL, out);
}

int finish_output(int code) {
    errno = 0;
    int error = fflush(stdout) == 0 ? 0 : errno;
    if (!ferror(stdout)) return code;
    fprintf(stderr, "weft: could not write the output%s%s\n", error ? ": " : "",
            error ? strerror(error) : "");
    return code == CODE_OK ? CODE_FAILED : code;
}

int leave_mesh(weft_ctx *ctx, weft_mesh *mesh, weft_status status, int code) {
    if (mesh && status != WEFT_OK) status = weft_mesh_fail(ctx, mesh, status);
    bool speaks = !mesh || weft_mesh_speaks(mesh);
    if (status != WEFT_OK) code = speaks ? program_code(ctx, status) : code_of(status);
    if (weft_mesh_close(mesh)) return code;
    _exit(finish_output(code));
}

/* Files of configuration are small. A longer one is something else, or a device without
 * an end. */
enum { LARGEST_FILE = 64 << 20 };

/* Appends a file to *text; *n and *room are its bytes and what is allocated. */
static weft_status append_file(weft_ctx *ctx, const char *path, char **text, size_t *n,
                               size_t *room) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open %s: %s", path,
                             strerror(errno));
    weft_status status = WEFT_OK;
    for (size_t got = 1; got > 0 && status == WEFT_OK;) {
        if (*n + 1 >= *room) {
            size_t more = 2 * *room + (1u << 20);
            char *bigger = realloc(*text, more);
            if (!bigger) {
                status = weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory left to read %s",
                                       path);
                break;
            }
            *text = bigger;
            *room = more;
        }
        got = fread(*text + *n, 1, *room - *n - 1, file);
        *n += got;
        if (*n > LARGEST_FILE)
            status = weft_ctx_fail(ctx, WEFT_ERR_FILE,
                                   "%s has more than %d bytes, expected a description",
                                   path, LARGEST_FILE);
    }
    if (status == WEFT_OK && ferror(file))
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not read %s: %s", path,
                               strerror(errno));
    fclose(file);
    return status;
}

weft_status read_files(weft_ctx *ctx, char *const *paths, int n_paths, char **text,
                       int64_t *n) {
    size_t used = 0, room = 0;
    weft_status status = WEFT_OK;
    *text = NULL;
    for (int i = 0; i < n_paths && status == WEFT_OK; i++)
        status = append_file(ctx, paths[i], text, &used, &room);
    if (status != WEFT_OK) {
        free(*text);
        *text = NULL;
        return status;
    }
    *n = (int64_t)used;
    return WEFT_OK;
}

const weft_config_key *key_of(const char *name) {
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (strcmp(key->name, name) == 0) return key;
    return NULL;
}

const char *command_word(const command *c, int i) {
    if (c->words_key) return key_of(c->words_key)->choices[i].name;
    return c->words ? c->words[i] : NULL;
}
