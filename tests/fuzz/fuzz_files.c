/* SPDX-License-Identifier: MIT */
/* Files that people bring, for libFuzzer: the first byte chooses what the rest is taken for.
 * It is refused with a sentence or read; all memory is given back; ids lie in the vocabulary.
 *
 *     WEFT_FUZZ_ONLY=t fuzz_files -max_total_time=60 CORPUS tests/fuzz/corpus_files
 *
 *     a adapter_config.json    b config.json         c configuration
 *     d prompts (.jsonl)       e pairs (.tsv)        f tokenizer_config.json
 *     g picture (PNG, JPEG)    h header of safetensors
 *     i index.json             j any JSON            k cluster, links
 *     l lines (.jsonl)         m metrics.jsonl       n nodes.jsonl
 *     o answer of a server     p plan.json           q conversation
 *     r timeline.json          s token shard         t tokenizer.json
 *     v table (.csv)           w views.jsonl         x model.safetensors.index.json
 *     y array (npy, idx)       else text, packed
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/chat.h>
#include <weft/cluster.h>
#include <weft/config.h>
#include <weft/dataset.h>
#include <weft/model.h>
#include <weft/shard_file.h>
#include <weft/tokenizer.h>
#include <weft/topology.h>

#include "text/json.h"
#include "base/memory.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/weights.h"
#include "input/arrayfile.h"
#include "input/documents.h"
#include "input/imagefile.h"
#include "adapter/adapterjson.h"
#include "model/model.h"
#include "../read_run.h"
#include "record/nodes.h"
#include "record/planned.h"
#include "fuzz_only.h"
#include "record/views.h"
#include "store/response.h"
#include "chat/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int sound) {
    if (!sound) abort();
}

/* A file that has the bytes; its descriptor is closed by the caller. */
static int hold(const uint8_t *data, size_t size, char *path, size_t room) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

static void read_header(weft_ctx *ctx, const char *text, int64_t n) {
    wefti_safetensors_header header;
    int64_t data_bytes = n > 0 ? 4 * (unsigned char)text[0] : 0;
    if (n < 1) return;
    if (wefti_safetensors_header_decode(ctx, "input", text + 1, n - 1, data_bytes,
                                        &header) != WEFT_OK)
        return;
    for (int k = 0; k < header.n; k++) {
        const wefti_safetensors_tensor *t = &header.tensors[k];
        require(t->begin >= 0 && t->n_bytes >= 0 && t->begin + t->n_bytes <= data_bytes);
    }
    wefti_safetensors_header_fini(ctx, &header);
}

static void read_index(weft_ctx *ctx, const char *text, int64_t n) {
    int64_t step;
    char *layout;
    wefti_listing listing = {0};
    if (wefti_index_decode(ctx, "input", text, n, &step, &layout, &listing) != WEFT_OK)
        return;
    wefti_free(ctx, layout);
    wefti_listing_fini(ctx, &listing);
}

static void read_json(weft_ctx *ctx, const char *text, int64_t n) {
    json_t *root;
    if (wefti_json_read(ctx, "", "input", text, n, WEFT_ERR_FORMAT, &root) == WEFT_OK)
        json_decref(root);
}

static void read_config(weft_ctx *ctx, const char *path) {
    weft_config *config;
    require(weft_config_create(ctx, &config) == WEFT_OK);
    if (weft_config_load(ctx, config, path) == WEFT_OK)
        (void)!weft_config_finish(ctx, config);
    weft_config_destroy(ctx, config);
}

static void read_cluster(weft_ctx *ctx, const char *path) {
    weft_cluster *cluster;
    weft_links links = {.struct_size = sizeof links};
    if (weft_cluster_load(ctx, path, &cluster) == WEFT_OK)
        weft_cluster_destroy(ctx, cluster);
    weft_ctx_clear(ctx);
    if (weft_links_load(ctx, path, &links) == WEFT_OK) weft_free(ctx, links.items);
}

static void read_tokenizer(weft_ctx *ctx, const char *path) {
    static const char text[] = "the  warp<b> \xFF 12.5\n\n e\xCC\x81 \xEF\xBC\xA1 it's";
    weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    if (weft_tokenizer_load(ctx, path, &t) != WEFT_OK) return;
    if (weft_tokenizer_encode(ctx, t, text, sizeof text - 1, 1, &ids, &n) == WEFT_OK) {
        for (int64_t i = 0; i < n; i++)
            require(ids[i] >= 0 && ids[i] < weft_tokenizer_vocab(t));
        weft_free(ctx, ids);
    }
    weft_tokenizer_destroy(ctx, t);
}

static void read_metrics(weft_ctx *ctx, const char *path) {
    wefti_run run;
    if (read_run(ctx, path, &run) == WEFT_OK) wefti_run_fini(ctx, &run);
}

static void read_shard(weft_ctx *ctx, const char *path) {
    weft_shard *shard;
    int32_t ids[16];
    if (weft_shard_open(ctx, path, NULL, &shard) != WEFT_OK) return;
    int64_t n = weft_shard_tokens(shard);
    require(n > 0);
    weft_shard_read(shard, 0, n < 16 ? n : 16, ids);
    weft_shard_close(ctx, shard);
}

static weft_status count(weft_ctx *ctx, void *user, const char *text, int64_t n,
                         bool ends) {
    int64_t *total = user;
    (void)ctx, (void)ends;
    for (int64_t i = 0; i < n; i++) *total += text[i] != 0; /* each byte is there */
    return *total > 1 << 22 ? WEFT_ERR_FORMAT : WEFT_OK; /* packed zeros go on and on */
}

/* The name says the layout: a link to the bytes. */
static void read_documents(weft_ctx *ctx, const char *target, const char *ending) {
    static const wefti_fields fields = {NULL, NULL};
    char path[64];
    int64_t total = 0;
    snprintf(path, sizeof path, "/tmp/fuzz-%ld%s", (long)getpid(), ending);
    unlink(path);
    if (symlink(target, path) != 0) return;
    (void)!wefti_documents_read(ctx, path, &fields, count, &total);
    unlink(path);
}

static void read_nodes(weft_ctx *ctx, const char *path) {
    wefti_nodes nodes;
    if (wefti_nodes_read(ctx, path, &nodes) == WEFT_OK) wefti_nodes_fini(ctx, &nodes);
}

static void read_views(weft_ctx *ctx, const char *path) {
    wefti_views views = {0};
    (void)!wefti_views_read(ctx, path, &views);
    wefti_views_fini(ctx, &views);
}

static void read_plan(weft_ctx *ctx, const char *path) {
    wefti_planned plan = {0};
    bool found;
    if (wefti_planned_read(ctx, path, &plan, &found) == WEFT_OK)
        wefti_planned_fini(ctx, &plan);
}

static void read_timelines(weft_ctx *ctx, const char *path) {
    wefti_timelines all;
    bool found;
    if (wefti_timelines_read(ctx, path, &all, &found) == WEFT_OK)
        wefti_timelines_fini(ctx, &all);
}

static void read_adapter(weft_ctx *ctx, const char *text, int64_t n) {
    wefti_adapter_facts facts;
    if (wefti_adapter_read(ctx, text, n, "input", &facts) == WEFT_OK)
        require(facts.rank > 0 && facts.scale > 0);
}

/* Messages in each format: the spans lie in the text, in order. */
static void read_messages(weft_ctx *ctx, const char *text, int64_t n) {
    json_t *messages = json_loadb(text, (size_t)n, 0, NULL);
    wefti_rendered out = {0};
    for (const wefti_format *f = wefti_formats; json_is_array(messages) && f->name; f++) {
        if (wefti_format_write(ctx, f, NULL, messages, n % 2, &out) != WEFT_OK) continue;
        require(out.n_spans == (int64_t)json_array_size(messages));
        for (int64_t k = 0; k < out.n_spans; k++)
            require(out.spans[2 * k] >= (k ? out.spans[2 * k - 1] : 0) &&
                    out.spans[2 * k] <= out.spans[2 * k + 1] &&
                    out.spans[2 * k + 1] <= out.text.n);
    }
    wefti_rendered_fini(ctx, &out);
    json_decref(messages);
}

static void read_array(weft_ctx *ctx, const char *path) {
    wefti_array array = {0};
    if (wefti_array_read(ctx, path, &array) == WEFT_OK) wefti_array_free(ctx, &array);
}

static void read_picture(weft_ctx *ctx, const char *path) {
    wefti_image image = {0};
    unsigned char *scaled;
    if (wefti_image_read(ctx, path, 3, &image) != WEFT_OK) return;
    require(wefti_alloc_n(ctx, 3 * 8 * 8, 1, "pixels", &scaled) == WEFT_OK);
    (void)!wefti_image_scale(ctx, &image, 8, scaled);
    wefti_free(ctx, scaled);
    wefti_image_free(ctx, &image);
}

/* A folder with the bytes under a name that its reader looks for. */
static void open_folder(const char *target, const char *name, char folder[40]) {
    char path[80];
    snprintf(folder, 40, "/tmp/fuzz-%ld-folder", (long)getpid());
    snprintf(path, sizeof path, "%s/%s", folder, name);
    require(mkdir(folder, 0777) == 0 && symlink(target, path) == 0);
}

static void close_folder(const char *folder, const char *name) {
    char path[80];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    require(unlink(path) == 0 && rmdir(folder) == 0);
}

/* What a model's config.json says, is written and read back as the same model. Of layers a few
 * are enough: each has its own description in memory. */
static void read_model(weft_ctx *ctx, const char *text, int64_t n) {
    weft_model_config config = {.struct_size = sizeof config},
                      again = {.struct_size = sizeof again};
    weft_model *model, *same;
    char *json;
    if (weft_model_config_from_json(ctx, text, n, "input", &config) != WEFT_OK) return;
    if (config.layers > 8) config.layers = 8;
    if (weft_model_create(ctx, &config, &model) != WEFT_OK) return;
    require(weft_model_parameters(model) > 0);
    if (model->ops->describe_json(ctx, model, &json) == WEFT_OK) {
        require(weft_model_config_from_json(ctx, json, (int64_t)strlen(json), "again",
                                            &again) == WEFT_OK);
        require(weft_model_create(ctx, &again, &same) == WEFT_OK);
        require(weft_model_parameters(same) == weft_model_parameters(model));
        weft_model_destroy(ctx, same);
        wefti_free(ctx, json);
    }
    weft_model_destroy(ctx, model);
}

/* Rows of prompts or of pairs: their ids lie in the vocabulary or pad. */
static void read_rows(weft_ctx *ctx, const char *target, weft_rows rows,
                      const char *ending) {
    char path[64];
    const char *paths[] = {path};
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = paths,
                                  .n_paths = 1,
                                  .rows = rows,
                                  .T = 8,
                                  .source_length = 8,
                                  .vocab = 260,
                                  .threads = 1};
    weft_tokenizer *t;
    weft_chat *chat;
    weft_dataset *d;
    int32_t tokens[64], targets[64];
    snprintf(path, sizeof path, "/tmp/fuzz-%ld%s", (long)getpid(), ending);
    unlink(path);
    require(symlink(target, path) == 0);
    require(weft_tokenizer_create_bytes(ctx, &t) == WEFT_OK);
    require(weft_chat_open(ctx, "chatml", "/", &chat) == WEFT_OK);
    config.chat = chat;
    if (weft_dataset_open(ctx, &config, t, &d) == WEFT_OK) {
        weft_dataset_train_rows(d, 0, 1, tokens, targets);
        for (int i = 0; i < 8; i++)
            require(tokens[i] >= -1 && tokens[i] < 260 && targets[i] >= -1 &&
                    targets[i] < 260);
        weft_dataset_close(ctx, d);
    }
    weft_chat_destroy(ctx, chat);
    weft_tokenizer_destroy(ctx, t);
    unlink(path);
}

/* The settings of a chat: its template and the tokens that it names. */
static void read_settings(weft_ctx *ctx, const char *target) {
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"a <b>\"}]";
    char folder[40], *text;
    weft_chat *chat;
    open_folder(target, "tokenizer_config.json", folder);
    if (weft_chat_open(ctx, "auto", folder, &chat) == WEFT_OK) {
        if (chat && weft_chat_render(ctx, chat, messages, true, &text) == WEFT_OK)
            weft_free(ctx, text);
        weft_chat_destroy(ctx, chat);
    }
    close_folder(folder, "tokenizer_config.json");
}

/* Which file holds which tensor; "a" is the only file, and "w" its tensor. */
static void read_parts(weft_ctx *ctx, const char *target) {
    static const char part[] = "\x38\0\0\0\0\0\0\0"
                               "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],"
                               "\"data_offsets\":[0,4]}}  \0\0\0";
    char folder[40], path[80], one[64];
    wefti_weights *weights;
    int fd = hold((const uint8_t *)part, sizeof part, one, sizeof one);
    open_folder(target, "model.safetensors.index.json", folder);
    snprintf(path, sizeof path, "%s/a", folder);
    require(symlink(one, path) == 0);
    if (wefti_weights_open(ctx, folder, &weights) == WEFT_OK)
        (void)!wefti_weights_close(ctx, weights);
    require(unlink(path) == 0);
    close(fd);
    close_folder(folder, "model.safetensors.index.json");
}

static void require_plain(const char *text, size_t room) {
    size_t n = strnlen(text, room);
    require(n < room);
    for (size_t i = 0; i < n; i++)
        require((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

/* Lines of a head up to an empty one, then a page in pieces: what is made of them is plain, and a
 * part of a file is taken only if it is the one that was asked for. */
static void read_response(const char *text, int64_t n) {
    wefti_response r;
    char fault[WEFTI_REFUSAL_BYTES];
    const char *end = text + n, *line;
    wefti_response_init(&r);
    while (text < end && *text != '\n') {
        line = text;
        text = memchr(line, '\n', (size_t)(end - line));
        text = text ? text + 1 : end;
        wefti_response_line(&r, line, (size_t)(text - line));
    }
    for (; text < end; text += end - text < 999 ? end - text : 999)
        wefti_response_page(&r, text, end - text < 999 ? (size_t)(end - text) : 999);
    require(strnlen(r.page, sizeof r.page) < sizeof r.page);
    require_plain(r.mark, sizeof r.mark);
    require_plain(r.coding, sizeof r.coding);
    require(r.n_bytes >= -2 && r.from <= r.to && (r.from < 0 || r.to < r.all));
    bool taken = wefti_response_goes_on(&r, r.from, r.all, wefti_response_mark(&r));
    require(!taken || r.to + 1 == r.all);
    require(!wefti_response_goes_on(&r, r.from + 1, r.all, r.mark));
    static const int codes[] = {301, 307, 400, 403};
    for (int i = 0; i < 4; i++) {
        (void)!wefti_response_refusal(&r, codes[i], true, fault);
        require_plain(fault, sizeof fault);
    }
    require(wefti_response_refusal(&r, 403, false, fault) == WEFTI_REFUSAL_OF_FILE);
    char id[WEFTI_UPLOAD_BYTES];
    wefti_response_upload(&r, id);
    require(!strpbrk(id, "<&\"'?# \r\n"));
    const char *tag = wefti_response_tag(&r);
    require(!tag || (strlen(tag) < WEFTI_TAG_BYTES && !strpbrk(tag, "<&")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weft_ctx *ctx;
    char path[64];
    if (size == 0 || fuzz_turns_away(data[0], 256)) return -1; /* not for the corpus */
    if (weft_ctx_create(&ctx) != WEFT_OK) return 0;
    weft_ctx_set_sink(ctx, NULL, NULL); /* no warnings */
    const char *text = (const char *)data + 1;
    int64_t n = (int64_t)size - 1;
    int fd = hold(data + 1, size - 1, path, sizeof path);
    switch (data[0]) {
    case 'a': read_adapter(ctx, text, n); break;
    case 'b': read_model(ctx, text, n); break;
    case 'd': read_rows(ctx, path, WEFT_ROWS_PROMPTS, ".jsonl"); break;
    case 'e': read_rows(ctx, path, WEFT_ROWS_PAIRS, ".tsv"); break;
    case 'f': read_settings(ctx, path); break;
    case 'x': read_parts(ctx, path); break;
    case 'g': read_picture(ctx, path); break;
    case 'n': read_nodes(ctx, path); break;
    case 'o': read_response(text, n); break;
    case 'p': read_plan(ctx, path); break;
    case 'q': read_messages(ctx, text, n); break;
    case 'r': read_timelines(ctx, path); break;
    case 'w': read_views(ctx, path); break;
    case 'y': read_array(ctx, path); break;
    case 'h': read_header(ctx, text, n); break;
    case 'i': read_index(ctx, text, n); break;
    case 'j': read_json(ctx, text, n); break;
    case 'c': read_config(ctx, path); break;
    case 'k': read_cluster(ctx, path); break;
    case 't': read_tokenizer(ctx, path); break;
    case 'm': read_metrics(ctx, path); break;
    case 's': read_shard(ctx, path); break;
    case 'l': read_documents(ctx, path, ".jsonl"); break;
    case 'v': read_documents(ctx, path, ".csv"); break;
    default: read_documents(ctx, path, ".txt"); break;
    }
    close(fd);
    require(weft_ctx_bytes_held(ctx) == 0);
    weft_ctx_destroy(ctx);
    return 0;
}
