/* SPDX-License-Identifier: MIT */
/* Files that people bring, for libFuzzer: the first byte chooses what the rest is taken for.
 * It is refused with a sentence or read; all memory is given back; ids lie in the vocabulary.
 *
 *     fuzz_files -max_total_time=60 CORPUS tests/fuzz/corpus_files
 *
 *     a adapter_config.json    c configuration       h header of safetensors   i index.json
 *     j any JSON               k cluster, links      l lines (.jsonl)          m metrics.jsonl
 *     n nodes.jsonl            p plan.json           q chat template           r timeline.json
 *     s token shard            t tokenizer.json      v table (.csv)            w views.jsonl
 *     y array (npy, idx)       g picture (PNG, JPEG) else text, packed
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/cluster.h>
#include <weft/config.h>
#include <weft/shard_file.h>
#include <weft/tokenizer.h>
#include <weft/topology.h>

#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors_header.h"
#include "data/arrayfile.h"
#include "data/documents.h"
#include "data/imagefile.h"
#include "model/adapterjson.h"
#include "record/history.h"
#include "record/nodes.h"
#include "record/planned.h"
#include "record/views.h"
#include "token/template.h"

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
    weft_links links;
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
    if (wefti_run_read(ctx, path, &run) == WEFT_OK) wefti_run_fini(ctx, &run);
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

static weft_status count(weft_ctx *ctx, void *user, const char *text, int64_t n, bool ends) {
    int64_t *total = user;
    (void)ctx, (void)ends;
    for (int64_t i = 0; i < n; i++) *total += text[i] != 0; /* each byte is there */
    return *total > 1 << 22 ? WEFT_ERR_FORMAT : WEFT_OK;    /* packed zeros go on and on */
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

/* A template on a conversation: what it loops over and calls is the template's choice. */
static void read_template(weft_ctx *ctx, const char *text, int64_t n) {
    static const char names[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a <b>\"},"
                                "{\"role\":\"assistant\",\"content\":\" c\"}],"
                                "\"bos_token\":\"<s>\",\"add_generation_prompt\":true}";
    wefti_template *t;
    wefti_rendered out = {0};
    if (wefti_template_parse(ctx, text, n, "input", &t) != WEFT_OK) return;
    json_t *variables = json_loads(names, 0, NULL);
    require(variables != NULL);
    if (wefti_template_render(ctx, t, variables, &out) == WEFT_OK)
        for (int64_t k = 0; k < out.n_spans; k++)
            require(out.spans[2 * k] >= 0 && out.spans[2 * k] <= out.spans[2 * k + 1] &&
                    out.spans[2 * k + 1] <= out.text.n);
    wefti_rendered_fini(ctx, &out);
    json_decref(variables);
    wefti_template_destroy(ctx, t);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weft_ctx *ctx;
    char path[64];
    if (size == 0 || weft_ctx_create(&ctx) != WEFT_OK) return 0;
    weft_ctx_set_sink(ctx, NULL, NULL); /* no warnings */
    const char *text = (const char *)data + 1;
    int64_t n = (int64_t)size - 1;
    int fd = hold(data + 1, size - 1, path, sizeof path);
    switch (data[0]) {
    case 'a': read_adapter(ctx, text, n); break;
    case 'g': read_picture(ctx, path); break;
    case 'n': read_nodes(ctx, path); break;
    case 'p': read_plan(ctx, path); break;
    case 'q': read_template(ctx, text, n); break;
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
