/* SPDX-License-Identifier: MIT */
/* Relative paths in a configuration that weft wrote, when it is read from another folder.
 *
 *     # relative paths are seen from /home/me/work        first line of config.yaml
 *
 * A run is started in one folder and resumed, evaluated or sampled in another. A relative
 * path in the file is used unchanged if it exists, so that a run folder can be moved
 * together with its data. Otherwise it is taken relative to the folder in that first
 * line, if it exists there. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/text.h"
#include "config/layers.h"
#include "config/schema.h"

static const char line_start[] = "# relative paths are seen from ";

void wefti_config_put_folder(weft_ctx *ctx, wefti_buffer *out) {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here) || here[0] != '/') return;
    for (const char *c = here; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return; /* a comment cannot contain it */
    wefti_buffer_print(ctx, out, "%s%s\n", line_start, here);
}

/* Returns the path below `folder` if the text is a relative path that exists there and
 * not from the current folder; else the text itself. */
static const char *seen_from(const weft_config_key *key, const char *folder,
                             const char *text, char *out) {
    bool word = key->choices && wefti_choice_find(key->choices, text);
    if (!text[0] || text[0] == '/' || wefti_is(text, "-") || word ||
        access(text, F_OK) == 0)
        return text;
    if (snprintf(out, PATH_MAX, "%s/%s", folder, text) >= PATH_MAX) return text;
    return access(out, F_OK) == 0 ? out : text;
}

static weft_status resolve(weft_ctx *ctx, wefti_config *config,
                           const weft_config_key *key, const char *folder) {
    const wefti_origin origin = config->origins[wefti_config_key_index(key)];
    const char *place = (const char *)&config->values + key->offset, *one;
    weft_texts texts = {0};
    char path[PATH_MAX];
    wefti_buffer packed = {0};
    bool list = key->type == WEFT_KEY_TEXTS, changed = false;
    if (list) {
        memcpy(&texts, place, sizeof texts);
    } else {
        memcpy(&one, place, sizeof one);
        texts = (weft_texts){.items = &one, .n = 1};
    }
    for (int i = 0; i < texts.n; i++) {
        const char *text = seen_from(key, folder, texts.items[i], path);
        changed |= text != texts.items[i];
        wefti_buffer_put(ctx, &packed, text, (int64_t)strlen(text) + 1);
    }
    const wefti_typed typed = {packed.bytes, texts.n, list};
    weft_status status = packed.status;
    if (status == WEFT_OK && changed)
        status = wefti_config_assign(ctx, config, key, &origin, &typed);
    wefti_buffer_fini(ctx, &packed);
    return status;
}

weft_status wefti_config_see_from(weft_ctx *ctx, wefti_config *config, const char *path,
                                  const char *data) {
    char folder[PATH_MAX];
    size_t n = sizeof line_start - 1;
    if (strncmp(data, line_start, n) != 0 || data[n] != '/') return WEFT_OK;
    size_t length = strcspn(data + n, "\r\n");
    if (length >= sizeof folder) return WEFT_OK;
    memcpy(folder, data + n, length);
    folder[length] = '\0';
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        const wefti_origin *origin = &config->origins[wefti_config_key_index(key)];
        if (key->is_path && origin->layer == WEFT_ORIGIN_FILE && origin->path == path)
            WEFT_TRY(resolve(ctx, config, key, folder));
    }
    return WEFT_OK;
}
