/* SPDX-License-Identifier: MIT */
/* What a configuration may ask for and what there is are written in two places that do
 * not know each other: the choices of the schema, and the registries. */
#include <weft/config.h>

#include "check.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "replicate/replicator.h"

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

static void every_choice_is_a_registered_kind_and_the_other_way_round(void **state) {
    (void)state;
    static const struct {
        const char *key;
        name_at registry;
    } rows[] = {
        {"model.kind", model_at},
        {"optimizer.kind", optimizer_at},
        {"replicator.kind", replicator_at},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_same_names(rows[i].key, rows[i].registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_is_a_registered_kind_and_the_other_way_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
