/* SPDX-License-Identifier: MIT */
/* `weft list`: the available kinds of models, methods, optimizers and so on. */
#include <string.h>

#include <weft/model.h>

#include "common.h"

/* Topic, and the key whose choices it lists. A second topic for the same key follows the
 * first. */
#define TOPICS(_)                                                                        \
    _("models", "model.kind")                                                            \
    _("methods", "method")                                                               \
    _("presets", "method")                                                               \
    _("replicators", "replicator.kind")                                                  \
    _("compressors", "replicator.kind")                                                  \
    _("optimizers", "optimizer.kind")                                                    \
    _("schedules", "schedule.kind")                                                      \
    _("kernels", "mesh.kernels")                                                         \
    _("precisions", "model.precision")                                                   \
    _("tokenizers", "data.tokenizer")                                                    \
    _("splits", "data.split")                                                            \
    _("topologies", "mixer.topology")                                                    \
    _("mixers", "mixer.kind")                                                            \
    _("orders", "mixer.order")                                                           \
    _("codecs", "replicator.values")                                                     \
    _("indices", "replicator.indices")                                                   \
    _("exchanges", "replicator.exchange")                                                \
    _("roundings", "replicator.rounding")
#define TOPIC_ROW(topic, key) {topic, key},
#define TOPIC_WORD(topic, key) topic,

static const struct { const char *topic, *key; } topics[] = {TOPICS(TOPIC_ROW)};
enum { N_TOPICS = sizeof topics / sizeof topics[0] };

static const char *const topic_words[] = {TOPICS(TOPIC_WORD) NULL};

static const flag flags[] = {
    {"--json", NULL, "one JSON object: lists of name and meaning", NULL},
    {NULL, NULL, NULL, NULL}};

static void print_choices(const weft_config_key *key, const char *margin) {
    int width = 14;
    for (const weft_choice *c = key->choices; c->name; c++)
        if ((int)strlen(c->name) > width) width = (int)strlen(c->name);
    for (const weft_choice *c = key->choices; c->name; c++)
        printf("%s%-*s %s\n", margin, width, c->name, c->doc);
}

static void print_topic(int topic, const char *margin) {
    const char *name, *summary;
    if (strcmp(topics[topic].topic, "models") == 0) {
        for (int i = 0; (name = weft_model_kind(i, &summary)); i++)
            printf("%s%-14s %s\n", margin, name, summary);
        return;
    }
    print_choices(key_of(topics[topic].key), margin);
}

static void add_kind(json_t *list, const char *name, const char *meaning) {
    json_array_append_new(list,
                          json_pack("{s:s, s:s}", "name", name, "meaning", meaning));
}

static json_t *list_choices(const weft_config_key *key) {
    json_t *list = json_array();
    const char *name, *summary;
    bool models = strcmp(key->name, "model.kind") == 0;
    for (int i = 0; models && (name = weft_model_kind(i, &summary)); i++)
        add_kind(list, name, summary);
    for (const weft_choice *c = key->choices; !models && c->name; c++)
        add_kind(list, c->name, c->doc);
    return list;
}

static int print_all_json(void) {
    json_t *all = json_object();
    for (int i = 0; i < N_TOPICS; i++)
        json_object_set_new(all, topics[i].topic, list_choices(key_of(topics[i].key)));
    return say_json(all);
}

static void print_all(void) {
    for (int i = 0; i < N_TOPICS; i++) {
        if (i > 0 && strcmp(topics[i].key, topics[i - 1].key) == 0) continue;
        printf("%s%s (%s)\n", i > 0 ? "\n" : "", topics[i].topic, topics[i].key);
        print_topic(i, "  ");
    }
}

static int run(weft_ctx *ctx, args *a) {
    (void)ctx;
    bool json = args_has(a, "--json");
    if (a->n_operands == 0) {
        if (json) return print_all_json();
        print_all();
        return CODE_OK;
    }
    for (int i = 0; i < N_TOPICS; i++)
        if (strcmp(a->operands[0], topics[i].topic) == 0) {
            if (json) return say_json(list_choices(key_of(topics[i].key)));
            print_topic(i, "");
            return CODE_OK;
        }
    const weft_config_key *key = key_of(a->operands[0]);
    if (key && key->choices) {
        if (json) return say_json(list_choices(key));
        print_choices(key, "");
        return CODE_OK;
    }
    if (strstr(a->operands[0], "://"))
        return usage_error("%s is an address, expected a topic or a key, see weft list; "
                           "the newest checkpoint of a run in a store is named in "
                           "s3://BUCKET/RUN/latest",
                           a->operands[0]);
    const char *guess = nearest_word(a->operands[0], topic_words, N_TOPICS);
    if (guess)
        return usage_error("nothing to list for '%s' (did you mean '%s'?)",
                           a->operands[0], guess);
    return usage_error("nothing to list for '%s', see weft list", a->operands[0]);
}

const command command_list = {
    .name = "list",
    .summary = "print the kinds there are of models, methods, optimizers, ...",
    .usage = "[TOPIC | KEY] [--json]",
    .help = "Prints each kind and what it is; without a topic, all topics with the "
            "configuration key that chooses among them. A configuration key with "
            "choices, such as elastic.partition, is a topic as well.",
    .flags = flags,
    .words = topic_words,
    .least = 0,
    .most = 1,
    .run = run,
};
