/* SPDX-License-Identifier: MIT */
/* Which keys a chosen kind reads, as the tables of the kinds say.
 *
 *     replicator.kind demo -> wefti_replicator_demo.keys -> compression_topk, ... */
#include "job/readers.h"

#include "base/text.h"
#include "job/learning_rate.h"
#include "mix/mixer.h"
#include "optim/optimizer.h"
#include "replicate/replicator.h"
#include "config/named.h"
#include "topology/topology.h"
#include "wire/values.h"

static const char *const *replicator_keys(const char *kind) {
    const wefti_replicator_ops *ops = wefti_replicator_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *mixer_keys(const char *kind) {
    const wefti_mixer_ops *ops = wefti_mixer_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *optimizer_keys(const char *kind) {
    const wefti_optimizer_ops *ops = wefti_optimizer_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *topology_keys(const char *kind) {
    for (int i = 0; wefti_topology_registry[i]; i++)
        if (wefti_is(wefti_topology_registry[i]->name, kind))
            return wefti_topology_registry[i]->keys;
    return NULL;
}

/* Codes that have several levels around a scale read how to round. */
static const char *const *codec_keys(const char *name) {
    static const char *const rounds[] = {"rounding", NULL};
    int codec = wefti_value_codec_find(name);
    if (codec < 0) return NULL;
    const wefti_value_ops *ops = wefti_value_ops_of((wefti_value_codec)codec);
    return ops->scaled && ops->bits > 1 ? rounds : NULL;
}

/* For rows of texts: where a text is found, or how messages become a text. */
static const char *const *row_keys(const char *rows) {
    static const char *const windows[] = {"field", "column", NULL};
    static const char *const prompts[] = {"chat_template", NULL};
    return wefti_is(rows, "prompts") ? prompts : windows;
}

static const struct {
    const char *chooser;
    const char *const *(*keys)(const char *kind);
} choosers[] = {
    {"replicator.kind", replicator_keys},
    {"site_replicator.kind", replicator_keys},
    {"replicator.values", codec_keys},
    {"site_replicator.values", codec_keys},
    {"mixer.kind", mixer_keys},
    {"mixer.topology", topology_keys},
    {"mixer.values", codec_keys},
    {"optimizer.kind", optimizer_keys},
    {"data.tokenizer", wefti_tokenizer_keys},
    {"data.rows", row_keys},
    {"schedule.kind", wefti_learning_rate_keys},
};
enum { N_CHOOSERS = sizeof choosers / sizeof choosers[0] };

const char *const *wefti_kind_keys(const char *chooser, const char *kind) {
    for (int i = 0; i < N_CHOOSERS; i++)
        if (wefti_is(choosers[i].chooser, chooser)) return choosers[i].keys(kind);
    return NULL;
}
