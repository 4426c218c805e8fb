/* SPDX-License-Identifier: MIT */
/* Which forms a run can have, and from which to which it may change. */
#include "configs.h"
#include "room.h"
#include "job/form.h"

static wefti_form form_of(const char *text) {
    wefti_form f;
    if (!wefti_form_read(text, &f)) fail_msg("'%s' is no form", text);
    return f;
}

TEST_IN(begin, end, what_is_exchanged_has_a_form_or_a_reason) {
    static const struct {
        const char *keys, *form, *why; /* why: how it begins */
    } cases[] = {
        {"method=hsdp", "full f32", NULL},
        {"method=hsdp replicator.values=int4", "full int4", NULL},
        {"method=diloco mixer.outer_every=50 mixer.outer_momentum=0.4 run.steps=9000",
         "outer f32 50 0.4", NULL},
        {"method=flexdemo", NULL, "only averaging"},
        {"method=sparseloco", NULL, "only averaging"},
        {"method=hsdp replicator.values=sign", NULL, "it sends signs"},
        {"method=diloco mixer.values=int4 mixer.feedback=0.5", NULL, "mixer.feedback"},
        {"method=diloco mixer.fragments=2", NULL, "parts of the model"},
        {"method=diloco mixer.delay=1", NULL, "parts of the model"},
        {"method=hsdp mesh.nodes=4 mesh.sites=2 site_replicator.kind=full", NULL,
         "it has several sites"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[WEFTI_FORM_TEXT];
        wefti_form f, again;
        weft_config *config = config_with(ctx, cases[i].keys, "");
        const char *why = wefti_form_of(config, &f), *expected = cases[i].why;
        if (!why != !expected || (why && strncmp(why, expected, strlen(expected)) != 0))
            fail_msg("%s: %s", cases[i].keys, why ? why : "no reason");
        if (!why) {
            assert_string_equal(wefti_form_write(&f, text), cases[i].form);
            assert_true(wefti_form_decode(wefti_form_code(&f), &again));
            assert_true(wefti_form_same(&f, &again) && f.momentum == again.momentum);
        }
        weft_config_destroy(ctx, config);
    }
}

/* The form that is asked for on the way, and why it is not taken before a step; NULL: it is. */
TEST(forms_change_where_nothing_is_lost) {
    static const struct {
        const char *from, *to, *next;
        int64_t step;
        const char *why;
    } cases[] = {
        {"full f32", "full f32", "full f32", 7, "nothing would change"},
        {"full f32", "full int8", "full int8", 7, NULL},
        {"full f32", "outer f32 50 0.4", "outer f32 50 0.4", 7, NULL},
        {"outer f32 50 0.4", "full f32", "full f32", 100, NULL},
        {"outer f32 50 0.4", "full f32", "full f32", 101, "outer steps are left right"},
        {"outer f32 50 0.4", "outer f32 10 0.4", "outer f32 10 0.4", 100, NULL},
        {"outer f32 50 0.4", "outer f32 50 0.6", "outer f32 50 0.6", 100,
         "nothing would"},
        {"outer int8 50 0.4", "full f32", "outer f32 50 0.4", 100,
         "what coding has left"},
        {"outer int8 50 0.4", "outer int4 50 0.4", "outer int4 50 0.4", 100, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[WEFTI_FORM_TEXT];
        wefti_form from = form_of(cases[i].from), to = form_of(cases[i].to);
        wefti_form next = wefti_form_next(&from, &to);
        const char *why = wefti_form_refusal(&from, &to, cases[i].step);
        const char *expected = cases[i].why;
        if (!why != !expected || (why && strncmp(why, expected, strlen(expected)) != 0))
            fail_msg("case %zu: %s", i, why ? why : "no reason");
        assert_string_equal(wefti_form_write(&next, text), cases[i].next);
    }
}

/* Its momentum stays where outer steps are as far apart as before. */
TEST(momentum_belongs_to_an_interval) {
    static const struct {
        const char *now, *next, *kept;
    } cases[] = {{"outer f32 50 0.4", "outer int4 50 0.9", "outer int4 50 0.4"},
                 {"outer f32 50 0.4", "outer f32 10 0.9", "outer f32 10 0.9"},
                 {"full f32", "outer f32 50 0.9", "outer f32 50 0.9"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[WEFTI_FORM_TEXT];
        wefti_form now = form_of(cases[i].now), next = form_of(cases[i].next);
        wefti_form_keep(&now, &next);
        assert_string_equal(wefti_form_write(&next, text), cases[i].kept);
    }
}
