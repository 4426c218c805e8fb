/* SPDX-License-Identifier: MIT */
/* The configuration object: values, and for each value the layer that set it. All
 * functions that set values end in wefti_config_assign, which checks the value and then
 * compares its layer with that of the present value:
 *
 *     default < method < model < file < command line
 *
 *     weft_config_create      all defaults
 *     weft_config_load        a file (yaml.c)            weft_config_set   an override
 *     weft_config_finish      applies the method's row below the values set (check.c)
 *     wefti_config_suggest    a value of the checkpoint of model.init
 *
 * A value of a lower layer is checked too, and then dropped: a bad line in a file is an
 * error even if the command line overrides it. So the order of these calls does not
 * matter, except for two values of the same layer: the later one is kept.
 *
 * The text of a key is freed when a new value replaces it. A list is one block with its
 * pointers first and its texts after them, so that one free releases all of it. */
#include "config/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/value.h"

wefti_config *wefti_config_of(weft_config *config) {
    return (wefti_config *)(void *)config;
}

const char *wefti_origin_prefix(const wefti_origin *origin, char *out, size_t out_size) {
    char path[256];
    out[0] = '\0';
    if (origin->path)
        snprintf(out, out_size, "%s:%d: ", wefti_shown(origin->path, path, sizeof path),
                 origin->line);
    return out;
}

weft_status wefti_config_fail_unknown(weft_ctx *ctx, const char *prefix, const char *what,
                                      const char *name, const char *guess) {
    char shown[80];
    wefti_shown(name, shown, sizeof shown);
    if (!guess)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%sunknown %s '%s'", prefix, what,
                             shown);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%sunknown %s '%s' (did you mean '%s'?)",
                         prefix, what, shown, guess);
}

/* -- storing -- */

static char *place_of(wefti_config *config, const weft_config_key *key) {
    return (char *)&config->values + key->offset;
}

static bool is_owned_text(const weft_config_key *key) {
    return key->type == WEFT_KEY_TEXT || key->type == WEFT_KEY_LINK;
}

/* Frees what the value of a key owns: a text, or the one block of a list (its pointer is
 * the first member of weft_texts and weft_numbers). */
static void free_value(weft_ctx *ctx, wefti_config *config, const weft_config_key *key) {
    if (!is_owned_text(key) && !wefti_key_is_list(key)) return;
    void *block;
    memcpy(&block, place_of(config, key), sizeof block);
    wefti_free(ctx, block);
    memset(place_of(config, key), 0, sizeof block);
}

static weft_status store_text(weft_ctx *ctx, wefti_config *config,
                              const weft_config_key *key, const char *text) {
    char *copy;
    WEFT_TRY(wefti_strdup(ctx, text, &copy));
    free_value(ctx, config, key);
    memcpy(place_of(config, key), &copy, sizeof copy);
    return WEFT_OK;
}

/* One block: n pointers, then the texts they point to. */
static weft_status store_texts(weft_ctx *ctx, wefti_config *config,
                               const weft_config_key *key, const wefti_typed *typed) {
    size_t n_bytes = 0, n_pointers = (size_t)typed->n * sizeof(char *);
    for (int i = 0; i < typed->n; i++) n_bytes += strlen(typed->packed + n_bytes) + 1;
    const char **items;
    WEFT_TRY(wefti_alloc(ctx, n_pointers + n_bytes, key->name, &items));
    char *texts = (char *)(void *)items + n_pointers;
    if (n_bytes) memcpy(texts, typed->packed, n_bytes);
    for (int i = 0; i < typed->n; i++) {
        items[i] = texts;
        texts += strlen(texts) + 1;
    }
    free_value(ctx, config, key);
    weft_texts list = {items, typed->n};
    memcpy(place_of(config, key), &list, sizeof list);
    return WEFT_OK;
}

static weft_status store_numbers(weft_ctx *ctx, wefti_config *config,
                                 const weft_config_key *key, const wefti_typed *typed) {
    double *items;
    WEFT_TRY(wefti_alloc_n(ctx, typed->n, sizeof *items, key->name, &items));
    const char *text = typed->packed;
    for (int i = 0; i < typed->n; i++, text += strlen(text) + 1) {
        wefti_value value = {0};
        (void)wefti_value_parse(key, text, &value); /* checked before */
        items[i] = value.number;
    }
    free_value(ctx, config, key);
    weft_numbers list = {items, typed->n};
    memcpy(place_of(config, key), &list, sizeof list);
    return WEFT_OK;
}

/* Writes a checked value to its place in weft_config. Places have the types of the struct's
 * members, so each is copied at its own size. */
static weft_status store(weft_ctx *ctx, wefti_config *config, const weft_config_key *key,
                         const wefti_typed *typed, const wefti_value *value) {
    char *place = place_of(config, key);
    bool flag = value->integer != 0;
    int integer = (int)value->integer;
    switch (key->type) {
    case WEFT_KEY_INT:
    case WEFT_KEY_BYTES: memcpy(place, &value->integer, sizeof value->integer); break;
    case WEFT_KEY_NUMBER: memcpy(place, &value->number, sizeof value->number); break;
    case WEFT_KEY_BOOL: memcpy(place, &flag, sizeof flag); break;
    case WEFT_KEY_AUTO_BOOL: memcpy(place, &integer, sizeof integer); break;
    case WEFT_KEY_CHOICE: memcpy(place, &value->text, sizeof value->text); break;
    case WEFT_KEY_TEXT:
    case WEFT_KEY_LINK: return store_text(ctx, config, key, value->text);
    case WEFT_KEY_TEXTS: return store_texts(ctx, config, key, typed);
    case WEFT_KEY_NUMBERS: return store_numbers(ctx, config, key, typed);
    }
    return WEFT_OK;
}

/* -- checking -- */

/* The choice that a text with a typo probably means. */
static const char *guess_choice(const weft_config_key *key, const char *text) {
    const char *names[32];
    size_t n = 0;
    for (const weft_choice *c = key->choices; c->name && n < 32; c++)
        names[n++] = c->name;
    return wefti_nearest(text, names, n);
}

/* RATE,LATENCY, of which one or both have a wrong unit. */
static bool guess_link(const char *text, char *out, size_t size) {
    char rate[40], better[40], latency[40];
    const char *comma = strchr(text, ',');
    if (!comma || comma - text >= (int)sizeof rate) return false;
    snprintf(rate, sizeof rate, "%.*s", (int)(comma - text), text);
    bool first = weft_quantity_guess(rate, WEFT_UNIT_LINK, better, sizeof better);
    bool second = weft_quantity_guess(comma + 1, WEFT_UNIT_TIME, latency, sizeof latency);
    size_t digits = strspn(comma + 1, "0123456789.");
    if (second && wefti_is(comma + 1 + digits, "m")) /* not five minutes */
        snprintf(latency, sizeof latency, "%.*sms", (int)digits, comma + 1);
    snprintf(out, size, "%s,%s", first ? better : rate, second ? latency : comma + 1);
    return first || second;
}

/* What was probably meant by a wrong value; NULL: nobody knows. */
static const char *guess_value(const weft_config_key *key, const char *text, char *out,
                               size_t size) {
    wefti_value value;
    bool found = false;
    switch (key->type) {
    case WEFT_KEY_CHOICE: return guess_choice(key, text);
    case WEFT_KEY_LINK: found = guess_link(text, out, size); break;
    case WEFT_KEY_BYTES:
    case WEFT_KEY_INT:
    case WEFT_KEY_NUMBER:
        found = weft_quantity_guess(text, wefti_key_quantity(key), out, size);
        break;
    case WEFT_KEY_BOOL:
    case WEFT_KEY_AUTO_BOOL:
    case WEFT_KEY_TEXT:
    case WEFT_KEY_TEXTS:
    case WEFT_KEY_NUMBERS: break;
    }
    return found && wefti_value_parse(key, out, &value) ? out : NULL;
}

/* Fails with a message such as "run.yaml:3: mesh.nodes is 'two', expected a whole number
 * from 1 to 1024"; for a choice it adds what was probably meant. text NULL: a list was
 * given instead of one value. */
static weft_status fail_value(weft_ctx *ctx, const weft_config_key *key,
                              const wefti_origin *origin, const char *text) {
    char prefix[300], shown[80], expected[300];
    wefti_origin_prefix(origin, prefix, sizeof prefix);
    weft_config_key_values(key, expected, sizeof expected);
    if (!text)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s is a list, expected %s", prefix,
                             key->name, expected);
    wefti_shown(text, shown, sizeof shown);
    double seconds, rate_Bps;
    if (key->type == WEFT_KEY_LINK &&
        weft_quantity_parse(text, WEFT_UNIT_LINK, &rate_Bps) && rate_Bps > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s%s is '%s', a rate without a latency, expected "
                             "RATE,LATENCY such as '%s,10ms' or '%s,0ms'",
                             prefix, key->name, shown, shown, shown);
    if (wefti_is(key->name, "run.save_every") &&
        weft_quantity_parse(text, WEFT_UNIT_TIME, &seconds))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s%s is '%s', expected %s; a time is run.save_time=%s",
                             prefix, key->name, shown, expected, shown);
    char meant[96];
    const char *guess = guess_value(key, text, meant, sizeof meant);
    if (guess)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s%s is '%s', expected %s (did you mean '%s'?)", prefix,
                             key->name, shown, expected, guess);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s is '%s', expected %s", prefix,
                         key->name, shown, expected);
}

const char *wefti_secret_in(const char *text) {
    for (const char *host = text; (host = strstr(host, "://"));) {
        host += 3;
        if (host[strcspn(host, "@/?#\" ")] == '@')
            return "an address has a name or a password, which logs and config.yaml "
                   "would keep: put them into ~/.netrc";
    }
    return NULL;
}

static weft_status check_secret(weft_ctx *ctx, const weft_config_key *key,
                                const wefti_origin *origin, const char *text) {
    char prefix[300];
    const char *secret = wefti_secret_in(text);
    if (!secret) return WEFT_OK;
    wefti_origin_prefix(origin, prefix, sizeof prefix);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s: %s", prefix, key->name, secret);
}

/* Every item must be a value of the key; [out] value: the last one. */
static weft_status check(weft_ctx *ctx, const weft_config_key *key,
                         const wefti_origin *origin, const wefti_typed *typed,
                         wefti_value *value) {
    if (typed->is_list && !wefti_key_is_list(key))
        return fail_value(ctx, key, origin, NULL);
    const char *text = typed->packed;
    for (int i = 0; i < typed->n; i++, text += strlen(text) + 1) {
        WEFT_TRY(check_secret(ctx, key, origin, text));
        if (!wefti_value_parse(key, text, value))
            return fail_value(ctx, key, origin, text);
    }
    return WEFT_OK;
}

weft_status wefti_config_assign(weft_ctx *ctx, wefti_config *config,
                                const weft_config_key *key, const wefti_origin *origin,
                                const wefti_typed *typed) {
    wefti_value value = {0};
    wefti_origin *now = &config->origins[wefti_config_key_index(key)];
    WEFT_TRY(check(ctx, key, origin, typed, &value));
    if (origin->layer < now->layer) return WEFT_OK;
    WEFT_TRY(store(ctx, config, key, typed, &value));
    *now = *origin;
    return WEFT_OK;
}

weft_status wefti_config_reset(weft_ctx *ctx, wefti_config *config,
                               const weft_config_key *key) {
    wefti_origin before = config->origins[wefti_config_key_index(key)];
    wefti_origin origin = {WEFT_ORIGIN_DEFAULT, 0, NULL};
    wefti_typed typed = {key->fallback, 1, false};
    if (wefti_key_is_list(key)) typed.n = key->fallback[0] != '\0';
    config->origins[wefti_config_key_index(key)] = origin;
    weft_status status = wefti_config_assign(ctx, config, key, &origin, &typed);
    if (status != WEFT_OK) config->origins[wefti_config_key_index(key)] = before;
    return status;
}

/* The layers of files and of the command line belong to the user; the lower ones to weft. */
weft_config_origin weft_config_origin_of(const weft_config *config,
                                         const weft_config_key *key) {
    const wefti_config *whole = (const wefti_config *)(const void *)config;
    return whole->origins[wefti_config_key_index(key)].layer;
}

bool wefti_config_given(const weft_config *config, const char *name) {
    return weft_config_origin_of(config, wefti_config_key_find(name)) >= WEFT_ORIGIN_FILE;
}

weft_status wefti_config_suggest(weft_ctx *ctx, weft_config *config, const char *name,
                                 const char *text) {
    wefti_origin origin = {WEFT_ORIGIN_MODEL, 0, NULL};
    wefti_typed typed = {text, 1, false};
    return wefti_config_assign(ctx, wefti_config_of(config), wefti_config_key_find(name),
                               &origin, &typed);
}

weft_status wefti_config_suggest_list(weft_ctx *ctx, weft_config *config,
                                      const char *name, const char *packed, int n) {
    wefti_origin origin = {WEFT_ORIGIN_MODEL, 0, NULL};
    wefti_typed typed = {packed, n, true};
    return wefti_config_assign(ctx, wefti_config_of(config), wefti_config_key_find(name),
                               &origin, &typed);
}

weft_status weft_config_reset(weft_ctx *ctx, weft_config *values, const char *name) {
    size_t n = strlen(name);
    bool section = n > 0 && name[n - 1] == '.', found = false;
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        if (section ? strncmp(key->name, name, n) != 0 : !wefti_is(key->name, name))
            continue;
        WEFT_TRY(wefti_config_reset(ctx, wefti_config_of(values), key));
        found = true;
    }
    if (found) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s is neither a key nor a section with its point", name);
}

weft_status wefti_config_undecided(weft_ctx *ctx, weft_config *config) {
    if (!wefti_is(config->method, "auto")) return WEFT_OK;
    WEFT_TRY(weft_config_reset(ctx, config, "decide."));
    return weft_config_set(ctx, config, "method=hsdp");
}

/* -- the object -- */

weft_status weft_config_create(weft_ctx *ctx, weft_config **out) {
    wefti_config *config;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *config, "the configuration", &config));
    weft_status status = WEFT_OK;
    for (const weft_config_key *key = wefti_config_keys; key->name && status == WEFT_OK;
         key++)
        status = wefti_config_reset(ctx, config, key);
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, &config->values);
        return status;
    }
    *out = &config->values;
    return WEFT_OK;
}

void weft_config_destroy(weft_ctx *ctx, weft_config *values) {
    if (!values) return;
    wefti_config *config = wefti_config_of(values);
    for (const weft_config_key *key = wefti_config_keys; key->name; key++)
        free_value(ctx, config, key);
    for (int i = 0; i < config->n_paths; i++) wefti_free(ctx, config->paths[i]);
    WEFTI_FREE(ctx, config->paths, config->text, config);
}

/* -- overrides -- */

/* Reads one item of a list in brackets, beginning at `from`: the text between quotes, or
 * the text before the next comma without surrounding blanks. Copies it to `to` with a
 * NUL. Returns the text after the item's comma, or NULL if the item was the last one. */
static char *take_item(char *from, char **to) {
    while (*from == ' ') from++;
    if (*from == '"') {
        for (from++; *from && *from != '"'; from++) *(*to)++ = *from;
        from += *from == '"';
        while (*from == ' ') from++;
    } else {
        char *begin = *to;
        while (*from && *from != ',') *(*to)++ = *from++;
        while (*to > begin && (*to)[-1] == ' ') --*to;
    }
    bool last = *from != ',';
    *(*to)++ = '\0';
    return last ? NULL : from + 1;
}

/* Splits the text of a list at its commas, in place: a,b or, as in YAML, [a, "b, c"]. The
 * items then follow one another, each with its NUL. */
static int split_list(char *text) {
    size_t length = strlen(text);
    int n = 0;
    if (length == 0) return 0;
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        char *to = text, *from = text + 1;
        text[length - 1] = '\0';
        from += strspn(from, " ");
        for (; from && (n > 0 || *from); n++) from = take_item(from, &to);
        return n;
    }
    for (n = 1; *text; text++)
        if (*text == ',') *text = '\0', n++;
    return n;
}

static weft_status set_key(weft_ctx *ctx, weft_config *values, const char *name,
                           char *text) {
    const weft_config_key *key = wefti_config_key_find(name);
    if (!key)
        return wefti_config_fail_unknown(ctx, "", "key", name,
                                         wefti_config_key_guess(name));
    wefti_origin origin = {WEFT_ORIGIN_COMMAND, 0, NULL};
    wefti_typed typed = {text, 1, false};
    if (wefti_key_is_list(key)) typed.n = split_list(text);
    return wefti_config_assign(ctx, wefti_config_of(values), key, &origin, &typed);
}

weft_status weft_config_set(weft_ctx *ctx, weft_config *config, const char *assignment) {
    char shown[80];
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "'%s' is not an override, expected section.key=value",
                             wefti_shown(assignment, shown, sizeof shown));
    char *copy;
    WEFT_TRY(wefti_strdup(ctx, assignment, &copy));
    char *text = copy + (equals - assignment);
    *text++ = '\0';
    weft_status status = set_key(ctx, config, copy, text);
    wefti_free(ctx, copy);
    return status;
}
