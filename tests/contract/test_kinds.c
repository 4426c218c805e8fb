/* SPDX-License-Identifier: MIT */
/* What a configuration may ask for is what there is: the choices of the schema and the
 * registries hold the same names, and each kind's table says the name of its line. */
#include <weft/config.h>

#include "check.h"
#include "mix/mixer.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "replicate/replicator.h"
#include "topology/topology.h"
#include "wire/values.h"

/* The i-th name of a registry, or NULL past the last. */
typedef const char *(*name_at)(int i);

static const char *model_at(int i) {
    return wefti_model_registry[i] ? wefti_model_registry[i]->name : NULL;
}

static const char *optimizer_at(int i) {
    return wefti_optimizer_registry[i] ? wefti_optimizer_registry[i]->name : NULL;
}

static const char *replicator_at(int i) {
    return wefti_replicator_registry[i] ? wefti_replicator_registry[i]->name : NULL;
}

static const char *mixer_at(int i) {
    return wefti_mixer_registry[i] ? wefti_mixer_registry[i]->name : NULL;
}

static const char *topology_at(int i) {
    return wefti_topology_registry[i] ? wefti_topology_registry[i]->name : NULL;
}

static const char *value_codec_at(int i) {
    return i < WEFTI_VALUE_CODECS ? wefti_value_ops_of((wefti_value_codec)i)->name : NULL;
}

static const weft_choice *choices_of(const char *name) {
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (strcmp(key->name, name) == 0) return key->choices;
    fail_msg("there is no key %s", name);
    return NULL;
}

static void assert_same_names(const char *key, name_at registry) {
    int n_choices = 0, n_kinds = 0;
    for (const weft_choice *c = choices_of(key); c->name; c++, n_choices++) {
        int found = 0;
        for (int i = 0; registry(i); i++) found += strcmp(registry(i), c->name) == 0;
        if (found != 1)
            fail_msg("%s may be '%s', which is %d times in its registry", key, c->name,
                     found);
    }
    while (registry(n_kinds)) n_kinds++;
    for (int i = 0; i < n_kinds; i++) {
        int found = 0;
        for (const weft_choice *c = choices_of(key); c->name; c++)
            found += strcmp(registry(i), c->name) == 0;
        if (found != 1)
            fail_msg("'%s' of the registry is %d times among the choices of %s",
                     registry(i), found, key);
    }
    assert_int_equal(n_choices, n_kinds);
}

TEST(every_choice_is_a_registered_kind_and_the_other_way_round) {
    static const struct {
        const char *key;
        name_at registry;
    } rows[] = {
        {"model.kind", model_at},
        {"optimizer.kind", optimizer_at},
        {"replicator.kind", replicator_at},
        {"site_replicator.kind", replicator_at},
        {"mixer.kind", mixer_at},
        {"mixer.topology", topology_at},
        {"replicator.values", value_codec_at},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_same_names(rows[i].key, rows[i].registry);
}

/* The constant of a codec's line is what its name finds. */
TEST(a_codec_is_found_by_the_name_of_its_line) {
    const weft_choice *values = choices_of("replicator.values");
    for (int i = 0; values[i].name; i++)
        assert_int_equal(wefti_value_codec_find(values[i].name), i);
    const weft_choice *indices = choices_of("replicator.indices");
    for (int i = 0; indices[i].name; i++)
        assert_int_equal(wefti_index_codec_find(indices[i].name), i);
}
