/* SPDX-License-Identifier: MIT */
/* `weft list`: the kinds of everything that has kinds. */
#include <string.h>

#include <weft/model.h>

#include "common.h"

/* Topic, and the key whose choices they are. */
#define TOPICS(_)                                                                        \
    _("models", "model.kind")                                                            \
    _("methods", "method")                                                               \
    _("replicators", "replicator.kind")                                                  \
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

extern const command command_list;

static void print_topic(int topic, const char *margin) {
    const char *name, *summary;
    if (strcmp(topics[topic].topic, "models") == 0) {
        for (int i = 0; (name = weft_model_kind(i, &summary)); i++)
            printf("%s%-14s %s\n", margin, name, summary);
        return;
    }
    const weft_config_key *key = key_of(topics[topic].key);
    int width = 14;
    for (const weft_choice *c = key->choices; c->name; c++)
        if ((int)strlen(c->name) > width) width = (int)strlen(c->name);
    for (const weft_choice *c = key->choices; c->name; c++)
        printf("%s%-*s %s\n", margin, width, c->name, c->doc);
}

static int run(int argc, char **argv) {
    args a;
    int code = args_parse(&command_list, argc, argv, &a);
    if (code == CODE_OK) code = args_expect(&a, 0, 1);
    if (code != CODE_OK) return code;
    for (int i = 0; i < N_TOPICS; i++) {
        bool all = a.n_operands == 0;
        if (!all && strcmp(a.operands[0], topics[i].topic) != 0) continue;
        if (all) printf("%s%s (%s)\n", i > 0 ? "\n" : "", topics[i].topic, topics[i].key);
        print_topic(i, all ? "  " : "");
        if (!all) return CODE_OK;
    }
    if (a.n_operands == 0) return CODE_OK;
    const char *guess = nearest_word(a.operands[0], topic_words, N_TOPICS);
    if (guess)
        return usage_error("nothing to list for '%s' (did you mean '%s'?)", a.operands[0],
                           guess);
    return usage_error("nothing to list for '%s', see weft list", a.operands[0]);
}

const command command_list = {
    .name = "list",
    .summary = "print the kinds there are of models, methods, optimizers, ...",
    .usage = "[TOPIC]",
    .help = "Prints each kind and what it is; without a topic, all topics with the "
            "configuration key that chooses among them.",
    .words = topic_words,
    .run = run,
};
